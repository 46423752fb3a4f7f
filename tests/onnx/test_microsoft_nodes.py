"""Nodes of com.microsoft that ONNX Runtime's CPU provider does not run, by their definitions; and what is refused, with the reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import erf
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.nodes import microsoft_requirements
from tests.support.onnx.models import Array, model
from tests.support.tables import table
from tests.support.tolerance import assert_close

MICROSOFT = {"com.microsoft": 1}
RNG = np.random.default_rng(3)


def normal(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(np.float32)


def loaded(operator: str, given: Mapping[str, Array | None], outputs: Sequence[str] = ("y",), **attributes: Any) -> onnx.Model:
    """A model of one node whose inputs are given in order; None for one that is left out, and scalars are known."""
    names = ["" if array is None else name for name, array in given.items()]
    node = make_node(operator, names, list(outputs), name="node", domain="com.microsoft", **attributes)
    arrays = {name: array for name, array in given.items() if array is not None}
    types = {name: int(TensorProto.INT32) for name, array in arrays.items() if array.dtype == np.int32}
    types |= {name: int(TensorProto.UINT8) for name, array in arrays.items() if array.dtype == np.uint8}
    constants = {name: array for name, array in arrays.items() if not array.shape}
    sizes = {name: array.shape for name, array in arrays.items() if array.shape}
    return onnx.load(model([node], sizes, outputs, types=types, constants=constants, domains=MICROSOFT))


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2


def group_norm(x: Array, gamma: Array, beta: Array, groups: int, *, silu: bool) -> Array:
    """GroupNorm of [n, h, w, c]."""
    n, h, w, c = x.shape
    grouped = x.reshape(n, h, w, groups, c // groups).astype(np.float64)
    axes = (1, 2, 4)
    mean, variance = grouped.mean(axes, keepdims=True), grouped.var(axes, keepdims=True)
    found = ((grouped - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape) * gamma + beta
    return found / (1 + np.exp(-found)) if silu else found


def convolved(x: Array, w: Array, b: Array) -> Array:
    """The convolution of [n, h, w, c] by [m, kh, kw, c], without padding."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[1:3], (1, 2))
    return np.einsum("nhwcij,mijc->nhwm", windows, w) + b


def leaky(x: Array) -> Array:
    return np.where(x > 0, x, 0.2 * x)


X, B, SKIP = normal(2, 3, 8), normal(8), normal(2, 3, 8)
IMAGE, FILTERS = normal(2, 5, 6, 4), normal(3, 3, 2, 4)
GAMMA, BETA, THREE = normal(4), normal(4), normal(3)
IDS = np.array([[1, 0, 2], [2, 2, 1]], np.int32)
WORDS: dict[str, Array | None] = {"ids": IDS, "segments": None}
TABLES = {"words": normal(4, 8), "places": normal(5, 8), "table": normal(2, 8), "g": B, "b": normal(8)}
MASKED = {"mask": np.ones((2, 3), np.int32)}


def embedded() -> Array:
    """Words without numbers of segments are of the first one."""
    total = TABLES["words"][IDS] + TABLES["places"][:3] + TABLES["table"][0]
    centred = total - total.mean(-1, keepdims=True)
    return centred / np.sqrt(total.var(-1, keepdims=True) + 1e-12) * TABLES["g"] + TABLES["b"]


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "expected"),
    [
        ("BiasAdd", {"x": X, "b": B, "s": SKIP}, {}, X + B + SKIP),
        ("BiasSplitGelu", {"x": X, "b": B}, {}, (X + B)[..., :4] * gelu((X + B)[..., 4:])),
        ("GroupNorm", {"x": IMAGE, "g": GAMMA, "b": BETA}, {"groups": 2}, group_norm(IMAGE, GAMMA, BETA, 2, silu=False)),
        (
            "GroupNorm",
            {"x": IMAGE.transpose(0, 3, 1, 2), "g": GAMMA, "b": BETA},
            {"groups": 2, "activation": 1, "channels_last": 0},
            group_norm(IMAGE, GAMMA, BETA, 2, silu=True).transpose(0, 3, 1, 2),
        ),
        ("NhwcConv", {"x": IMAGE, "w": FILTERS, "b": THREE}, {}, convolved(IMAGE, FILTERS, THREE)),
        (
            "FusedMatMulActivation",
            {"a": X, "b": SKIP},
            {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
            leaky(0.5 * X @ SKIP.transpose(0, 2, 1)),
        ),
        ("FusedMatMul", {"a": B, "b": SKIP.transpose(0, 2, 1)}, {"alpha": 2.0}, 2 * B @ SKIP.transpose(0, 2, 1)),
        ("FusedMatMul", {"a": B, "b": SKIP[0, 0]}, {"transA": 1}, B @ SKIP[0, 0]),
        ("EmbedLayerNormalization", WORDS | TABLES, {}, embedded()),
    ],
)
def test_a_node_computes_its_definition(operator: str, given: dict[str, Array | None], attributes: dict[str, Any], expected: Array) -> None:
    found = loaded(operator, given, **attributes)
    result = found.compile("numpy")({name: array for name, array in given.items() if array is not None})["y"]
    assert_close(result, expected.astype(np.float32), np.float32, terms=64, what=operator)
    assert [record.where for record in found.interpretation().records] == ["directml"]


def convolved_by_loops(x: Array, w: Array, b: Array, *, strides: Array, pads: Array, dilations: Array, group: int) -> Array:
    """NhwcConv as its documentation has it: Conv of x [n, h, w, c] and w [m, kh, kw, c / group], element by element in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)))
    reach = [(w.shape[1 + axis] - 1) * dilations[axis] + 1 for axis in (0, 1)]
    places = [(padded.shape[1 + axis] - reach[axis]) // strides[axis] + 1 for axis in (0, 1)]
    found = np.zeros((len(x), *places, len(w)))
    inputs, outputs = w.shape[3], len(w) // group
    for row, column, kernel in np.ndindex(*places, len(w)):
        first = [place * stride for place, stride in zip((row, column), strides, strict=True)]
        window = padded[
            :,
            first[0] : first[0] + reach[0] : dilations[0],
            first[1] : first[1] + reach[1] : dilations[1],
            kernel // outputs * inputs : (kernel // outputs + 1) * inputs,
        ]
        found[:, row, column, kernel] = (window * w[kernel]).sum((1, 2, 3)) + b[kernel]
    return found


@pytest.mark.parametrize(
    ("group", "strides", "pads", "dilations"),
    [(1, [2, 1], [1, 0, 2, 1], [1, 1]), (2, [1, 1], [0, 2, 0, 0], [1, 2]), (4, [1, 3], [1, 1, 1, 1], [2, 1])],
)
def test_convolutions_with_the_channels_last(group: int, strides: list[int], pads: list[int], dilations: list[int]) -> None:
    x, w, b = normal(2, 6, 7, 4), normal(8, 3, 2, 4 // group), normal(8)
    options: dict[str, Any] = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    given = {"x": x, "w": w, "b": b}
    result = loaded("NhwcConv", given, **options).compile("numpy")(given)["y"]
    assert_close(result, convolved_by_loops(x, w, b, **options).astype(np.float32), np.float32, terms=64)


FUSED: dict[str, tuple[dict[str, float], Any]] = {
    "Elu": ({"alpha": 0.7}, lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    "HardSigmoid": ({"alpha": 0.3, "beta": 0.4}, lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    "LeakyRelu": ({"alpha": 0.2}, leaky),
    "Relu": ({}, lambda x: np.maximum(x, 0)),
    "Selu": ({"alpha": 1.5, "gamma": 1.1}, lambda x: 1.1 * np.where(x > 0, x, 1.5 * np.expm1(x))),
    "Sigmoid": ({}, lambda x: 1 / (1 + np.exp(-x))),
    "Softplus": ({}, lambda x: np.log1p(np.exp(x))),
    "Softsign": ({}, lambda x: x / (1 + np.abs(x))),
    "Tanh": ({}, np.tanh),
}
"""What DirectML's provider fuses into a product, with the members that the node then has, by the definition."""


@pytest.mark.parametrize("name", FUSED)
def test_activations_behind_a_product(name: str) -> None:
    members, definition = FUSED[name]
    attributes = {f"activation_{member}": value for member, value in members.items()}
    given = {"a": X.transpose(1, 0, 2).copy(), "b": normal(2, 8, 5)}
    # transBatchA: the batch is the second dimension of A.
    product = 0.3 * np.einsum("rbk,bkc->brc", given["a"].astype(np.float64), given["b"].astype(np.float64))
    found = loaded("FusedMatMulActivation", given, activation=name, transBatchA=1, alpha=0.3, **attributes).compile("numpy")(given)["y"]
    assert_close(found, definition(product).astype(np.float32), np.float32, terms=64, what=name)


HIDDEN, WEIGHTS = normal(2, 3, 6), normal(6, 18)
QUERY = normal(2, 3, 32)
GROUPS = {"num_heads": 2, "kv_num_heads": 2}
COUNT = np.array([3, 3], np.int32)
CACHE = normal(2, 2, 3, 16)
STEPS = {"q": QUERY, "k": QUERY, "v": QUERY, "pk": None, "pv": None, "n": COUNT - 1, "total": np.asarray(3, np.int32)}
KEPT = {"sliding_window_cache": 1, "local_window_size": 4}
PACKED = RNG.integers(0, 256, (3, 2, 8)).astype(np.uint8)
BYTES, SCALE = RNG.integers(0, 256, (1, 2, 4, 4)).astype(np.uint8), np.float32(0.1).reshape(1)
COLUMNS = RNG.integers(0, 256, (8, 5)).astype(np.uint8)


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "code", "path"),
    [
        ("Attention", {"x": HIDDEN, "w": WEIGHTS}, {"num_heads": 2, "do_rotary": 1}, "onnx.attribute", "do_rotary"),
        (
            "Attention",
            {"x": HIDDEN, "w": WEIGHTS, "b": None, "m": np.ones((2, 5), np.int32)},
            {"num_heads": 2},
            "onnx.sizes",
            "input 3",
        ),
        (
            "MultiHeadAttention",
            {"q": HIDDEN, "k": HIDDEN, "v": HIDDEN, "b": None, "m": None, "r": None, "pk": None, "pv": None, "n": COUNT},
            {"num_heads": 2},
            "onnx.input",
            "input 8",
        ),
        (
            "GroupQueryAttention",
            {"q": QUERY, "k": QUERY, "v": QUERY},
            {"num_heads": 2, "kv_num_heads": 2, "k_quant_type": "PER_TENSOR"},
            "onnx.attribute",
            "k_quant_type",
        ),
        ("GroupQueryAttention", {"q": QUERY}, {"num_heads": 3, "kv_num_heads": 2}, "onnx.invalid", "num_heads"),
        ("GroupQueryAttention", {"q": QUERY}, GROUPS | {"window": 4}, "onnx.invalid", "window"),
        ("GroupQueryAttention", {"q": QUERY}, GROUPS | {"sliding_window_cache": 1}, "onnx.invalid", "local_window_size"),
        ("GroupQueryAttention", STEPS, GROUPS | KEPT, "onnx.invalid", "input 3"),
        ("GroupQueryAttention", STEPS, GROUPS | {"causal": 0, "local_window_size": 2}, "onnx.invalid", "local_window_size"),
        ("GroupQueryAttention", STEPS, GROUPS | {"local_window_size": 0}, "onnx.attribute", "local_window_size"),
        ("GroupQueryAttention", STEPS | {"pk": CACHE, "pv": CACHE}, GROUPS | KEPT, "onnx.invalid", "input 3"),
        (
            "GroupQueryAttention",
            STEPS | {"pk": CACHE, "pv": CACHE, "n": COUNT + 4, "total": np.asarray(8, np.int32)},
            GROUPS | KEPT | {"local_window_size": 2},
            "onnx.invalid",
            "input 0",
        ),
        ("GroupQueryAttention", {"q": QUERY}, GROUPS | {"qk_output": 1}, "onnx.attribute", "qk_output"),
        ("MultiHeadAttention", {"q": HIDDEN}, {"num_heads": 2, "softcap": 1.0}, "onnx.invalid", "softcap"),
        ("FusedMatMul", {"a": B[0], "b": B}, {}, "onnx.invalid", "input 0"),
        ("FusedMatMul", {"a": X, "b": B[0]}, {}, "onnx.invalid", "input 1"),
        ("FusedMatMul", {"a": X, "b": SKIP[0].T}, {"transBatchA": 1}, "onnx.invalid", "transBatchA"),
        ("FusedMatMul", {"a": X[0], "b": SKIP[0].T}, {"transBatchB": 1}, "onnx.invalid", "transBatchB"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"ids": IDS[0]}, {}, "onnx.invalid", "input 0"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"words": TABLES["words"][0]}, {}, "onnx.invalid", "input 2"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"places": TABLES["places"][:, :1]}, {}, "onnx.invalid", "input 3"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"places": TABLES["places"][:2]}, {}, "onnx.invalid", "input 3"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"table": TABLES["table"][:, :1]}, {}, "onnx.invalid", "input 4"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"g": B[:1]}, {}, "onnx.invalid", "input 5"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"b": B[None]}, {}, "onnx.invalid", "input 6"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"segments": IDS[:1] % 2}, {}, "onnx.invalid", "input 1"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"segments": IDS % 2, "table": None}, {}, "onnx.invalid", "input 4"),
        ("EmbedLayerNormalization", WORDS | TABLES | {"mask": MASKED["mask"][:, :2]}, {}, "onnx.invalid", "input 7"),
        ("EmbedLayerNormalization", WORDS | TABLES | MASKED | {"at": IDS[:, :2]}, {}, "onnx.invalid", "input 8"),
        ("FusedGemm", {"a": X, "b": WEIGHTS}, {"activation": "Relu"}, "onnx.invalid", "input 0"),
        ("BiasGelu", {"x": X, "b": B[:1]}, {}, "onnx.invalid", "input 1"),
        ("BiasGelu", {"x": B[0], "b": B}, {}, "onnx.invalid", "input 0"),
        ("FastGelu", {"x": X, "b": X}, {}, "onnx.invalid", "input 1"),
        ("BiasSplitGelu", {"x": X, "b": B[0]}, {}, "onnx.invalid", "input 1"),
        ("SkipLayerNormalization", {"x": X, "s": X[..., :1], "g": B}, {}, "onnx.invalid", "input 1"),
        ("SkipLayerNormalization", {"x": X[:1], "s": X, "g": B}, {}, "onnx.invalid", "input 1"),
        ("SkipLayerNormalization", {"x": X, "s": X, "g": B, "b": B[:1]}, {}, "onnx.invalid", "input 3"),
        ("SkipSimplifiedLayerNormalization", {"x": B, "s": B, "g": B}, {}, "onnx.invalid", "input 0"),
        ("RotaryEmbedding", {"x": HIDDEN}, {"is_packed_batching": 1}, "onnx.attribute", "is_packed_batching"),
        ("MatMulNBits", {"a": HIDDEN, "b": PACKED}, {"K": 6, "N": 3, "bits": 3, "block_size": 16}, "onnx.attribute", "bits"),
        ("QLinearSigmoid", {"x": BYTES, "s": np.ones(4, np.float32)}, {}, "onnx.sizes", "input 1"),
        ("FusedMatMulActivation", {"a": X, "b": SKIP}, {"transB": 1, "activation": "Cos"}, "onnx.attribute", "activation"),
        ("GroupNorm", {"x": IMAGE, "g": GAMMA, "b": BETA}, {"groups": 3}, "onnx.invalid", "groups"),
        ("DynamicQuantizeMatMul", {"a": X, "b": BYTES[0, 0], "s": SCALE}, {}, "onnx.invalid", "input 1"),
        ("DynamicQuantizeMatMul", {"a": X, "b": COLUMNS, "s": SCALE, "z": None, "c": B[:1]}, {}, "onnx.invalid", "input 4"),
        (
            "MatMulIntegerToFloat",
            {"a": COLUMNS.T, "b": COLUMNS, "s": SCALE, "t": SCALE, "y": None, "z": None, "c": X[0, :, :5]},
            {},
            "onnx.invalid",
            "input 6",
        ),
        ("CDist", {"a": HIDDEN[0], "b": HIDDEN[0]}, {"metric": "cosine"}, "onnx.attribute", "metric"),
        ("FusedConv", {"x": IMAGE, "w": FILTERS}, {"activation": "Selu"}, "onnx.attribute", "activation"),
        ("FusedConv", {"x": IMAGE, "w": FILTERS}, {"activation": "LeakyRelu"}, "onnx.invalid", "activation_params"),
        ("FusedGemm", {"a": HIDDEN[0], "b": WEIGHTS}, {"activation": "Celu"}, "onnx.attribute", "activation"),
        ("MaxpoolWithMask", {"x": IMAGE}, {}, "onnx.kernel", ""),
        ("GatedAdd", {"a": X, "b": X, "g": X, "w": X}, {}, "onnx.input", "input 3"),
        ("GatedRMSNorm", {"x": X, "s": GAMMA, "g": X}, {"activation": "tanh"}, "onnx.invalid", "activation"),
        ("CausalConvWithState", {"x": HIDDEN, "w": HIDDEN}, {"ndim": 2}, "onnx.attribute", "ndim"),
        ("MRotaryEmbedding", {"x": HIDDEN, "p": np.zeros((2, 3), np.int64)}, {"mrope_section": [1, 1, 1]}, "onnx.sizes", "input 1"),
        (
            "MatMulBnb4",
            {"a": X, "b": BYTES[0, 0, 0], "s": SCALE},
            {"N": 3, "K": 6, "block_size": 16, "quant_type": 2},
            "onnx.attribute",
            "quant_type",
        ),
    ],
)
def test_what_is_not_expressible_is_refused_with_the_reason(
    operator: str, given: dict[str, Array | None], attributes: dict[str, Any], code: str, path: str
) -> None:
    found = loaded(operator, given, **attributes)
    (record,) = found.interpretation().records
    assert record.where == ("invalid" if code == "onnx.invalid" else "nowhere")
    assert (record.problems[0].code, record.problems[0].path) == (code, path)
    with pytest.raises(dml.CompileError, match="node"):
        found.compile("numpy")


@table(
    ("operator", "given", "missing"),
    [
        ("NGramRepeatBlock", {"ids": np.ones((2, 5), np.int64)}, ["input 1 'scores'", "ngram_size"]),
        ("LinearAttentionGate", {"a": X}, ["input 1 'dt_bias'", "input 2 'decay_scale'"]),
        ("UnfoldTensor", {"x": X}, ["size"]),
    ],
)
def test_what_a_node_lacks_is_named_all_at_once(operator: str, given: dict[str, Array | None], missing: list[str]) -> None:
    (record,) = loaded(operator, given).interpretation().records
    assert (record.where, [problem.path for problem in record.problems]) == ("invalid", missing)


def test_the_stored_requirements_are_those_of_onnx_runtime() -> None:
    pytest.importorskip("onnxruntime")
    from tests.data.recompute_microsoft_requirements import table as requirements

    assert json.loads(microsoft_requirements.TABLE.read_text("utf-8")) == requirements()


def test_a_scale_of_groups_is_a_vector() -> None:
    (record,) = loaded("GatedRMSNorm", {"x": X, "s": X, "g": X}).interpretation().records
    assert (record.where, record.problems[0].path, record.problems[0].expected) == ("invalid", "input 1", "a vector, as long as a group")


@table(
    ("operator", "domain", "remedy"),
    [
        ("GreedySearch", "com.microsoft", "its attribute 'decoder'"),
        ("MaxpoolWithMask", "com.microsoft", "add a function of its name and domain to the model"),
        ("Conv", "com.microsoft.nchwc", "ORT_ENABLE_EXTENDED"),
        ("BertTokenizer", "ai.onnx.contrib", "onnxruntime-extensions"),
        ("Own", "my.domain", "add a function of its name and domain to the model"),
    ],
)
def test_an_operator_that_nothing_runs_is_refused_with_a_remedy(operator: str, domain: str, remedy: str) -> None:
    node = make_node(operator, ["x"], ["y"], name="node", domain=domain)
    with pytest.raises(dml.CompileError) as refusal:
        onnx.load(model([node], {"x": [2]}, ["y"], domains={domain: 1})).compile("numpy")
    assert remedy in str(refusal.value)


NONE = np.zeros((2, 2, 0, 16), np.float32)


@pytest.mark.parametrize(
    ("operator", "given", "attributes"),
    [
        ("Attention", {"x": HIDDEN, "w": WEIGHTS, "b": None, "m": None, "past": NONE.reshape(2, 2, 2, 0, 8)}, {"num_heads": 2}),
        (
            "MultiHeadAttention",
            {"q": QUERY, "k": QUERY, "v": QUERY, "b": None, "m": None, "r": None, "pk": NONE, "pv": NONE},
            {"num_heads": 2},
        ),
        (
            "GroupQueryAttention",
            {"q": QUERY, "k": QUERY, "v": QUERY, "pk": NONE, "pv": NONE, "n": COUNT - 1, "total": np.asarray(3, np.int32)},
            {"num_heads": 2, "kv_num_heads": 2},
        ),
    ],
)
def test_a_past_without_elements_is_as_good_as_none(operator: str, given: dict[str, Array | None], attributes: dict[str, Any]) -> None:
    """As exported language models have it in the first step."""
    results = []
    for kept in (given, {name: None if array is not None and not array.size else array for name, array in given.items()}):
        found = loaded(operator, kept, ("y", "present"), **attributes)
        assert [record.where for record in found.interpretation().records] == ["directml"]
        results.append(found.compile("numpy")({name: array for name, array in kept.items() if array is not None and name != "total"}))
    assert results[0]["present"].size
    for name, array in results[0].items():
        np.testing.assert_array_equal(array, results[1][name])


def test_an_output_that_no_operator_gives_is_refused() -> None:
    (record,) = loaded("SkipLayerNormalization", {"x": X, "s": SKIP, "g": B}, ("y", "mean")).interpretation().records
    assert record.problems[0].code == "onnx.output"
