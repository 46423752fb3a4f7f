"""Nodes of com.microsoft that no single DirectML operator is: by formulas, with sizes that are open, and with what is wrong about them.

What ONNX Runtime gives for most of them is stored (`test_stored_nodes.py`); here is what cannot be stored, or what ONNX Runtime lacks.
"""

from __future__ import annotations

import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import Array, model
from tests.support.tolerance import assert_close

MICROSOFT = {"com.microsoft": 1}
RNG = np.random.default_rng(7)


def loaded(
    operator: str, given: dict[str, Array | None], outputs: dict[str, int] | None = None, known: tuple[str, ...] = (), **attributes: Any
) -> onnx.Model:
    """A model of one node whose inputs are given in order; None for one that is left out."""
    names = ["" if array is None else name for name, array in given.items()]
    results = outputs or {"y": TensorProto.FLOAT}
    node = helper.make_node(operator, names, [*results], name="node", domain="com.microsoft")
    node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    arrays = {name: array for name, array in given.items() if array is not None}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()} | (outputs or {})
    sizes = {name: array.shape for name, array in arrays.items() if name not in known}
    constants = {name: arrays[name] for name in known}
    return onnx.load(model([node], sizes, [*results], types=types, constants=constants, domains=MICROSOFT))


def normal(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(np.float32)


def quantized(numbers: Array, scale: float, zero: int) -> Array:
    return np.clip(np.rint(numbers / scale) + zero, 0, 255)


X = RNG.integers(0, 256, (2, 3, 4)).astype(np.uint8)
TEXTS, TOKENS = np.array(["a.b"], object), {"mark": 0, "mincharnum": 1, "pad_value": ""}
LINEAR: dict[str, Array | None] = {"k": normal(2, 3, 8), "v": normal(2, 3, 10)}
HEADS = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "gated"}
BNB4: dict[str, Array | None] = {"x": normal(3, 8), "w": RNG.integers(0, 256, 8).astype(np.uint8), "s": normal(1)}
PARAMETERS: dict[str, Array | None] = {
    "x_scale": np.asarray(0.02, np.float32),
    "x_zero": np.asarray(120, np.uint8),
    "y_scale": np.asarray(1 / 256, np.float32),
    "y_zero": np.asarray(0, np.uint8),
}
KNOWN = tuple(PARAMETERS)
POOLED: dict[str, Array | None] = {"x": X[None], **PARAMETERS}


@pytest.mark.parametrize(
    ("opset", "axis", "axes"),
    [(9, 1, (1, 2)), (9, 2, (2,)), (9, 0, (0, 1, 2)), (12, None, (1, 2)), (13, -1, (2,)), (13, 1, (1,)), (13, 0, (0,)), (13, None, (2,))],
)
def test_softmax_of_quantized_numbers(opset: int, axis: int | None, axes: tuple[int, ...]) -> None:
    """Before opset 13 of Softmax all dimensions from the axis on are one, and the axis is 1 where the node has none.

    ONNX Runtime 1.32.0 takes the last axis there, though its quantizer leaves out the axis that the Softmax had left out
    (findings/onnxruntime-quantization-old-softmax.sh).
    """
    own = {"opset": opset} if axis is None else {"opset": opset, "axis": axis}
    found = loaded("QLinearSoftmax", {"x": X, **PARAMETERS}, {"y": TensorProto.UINT8}, KNOWN, **own)
    assert [record.where for record in found.interpretation().records] == ["directml"]
    exponents = np.exp((X.astype(np.float64) - 120) * np.float32(0.02))
    expected = quantized(exponents / exponents.sum(axes, keepdims=True), 1 / 256, 0)
    result = found.compile("numpy")({"x": X})["y"]
    assert result.dtype == np.uint8
    assert np.abs(result.astype(int) - expected).max() <= 1  # a step of the scale, where a half is rounded
    assert (result == expected).mean() > 0.9


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[1], [0, 2], None])
def test_means_of_quantized_numbers(axes: list[int] | None, keepdims: int) -> None:
    """ONNX Runtime's CPU provider has no kernel for it."""
    own = {"axes": axes} if axes else {}
    found = loaded("QLinearReduceMean", {"x": X, **PARAMETERS}, {"y": TensorProto.UINT8}, KNOWN, keepdims=keepdims, **own)
    means = ((X.astype(np.float64) - 120) * np.float32(0.02)).mean(tuple(axes) if axes else None, keepdims=bool(keepdims))
    result = found.compile("numpy")({"x": X})["y"]
    assert result.size == means.size
    np.testing.assert_allclose(result.reshape(means.shape), quantized(means, 1 / 256, 0), atol=1)


def test_choices_between_quantized_numbers() -> None:
    condition, y = RNG.integers(0, 2, (3, 1)).astype(bool), RNG.integers(0, 256, 4).astype(np.uint8)
    scales = {"x_scale": 0.02, "y_scale": 0.03, "z_scale": 0.05}
    zeros = {"x_zero": 120, "y_zero": 1, "z_zero": 100}
    own: dict[str, Array | None] = {name: np.asarray(scale, np.float32) for name, scale in scales.items()}
    own |= {name: np.asarray(zero, np.uint8) for name, zero in zeros.items()}
    order = ("c", "x", "x_scale", "x_zero", "y", "y_scale", "y_zero", "z_scale", "z_zero")
    given = {name: {"c": condition, "x": X, "y": y, **own}[name] for name in order}
    found = loaded("QLinearWhere", given, {"z": TensorProto.UINT8}, tuple(own))
    assert [record.where for record in found.interpretation().records] == ["directml"]
    result = found.compile("numpy")({"c": condition, "x": X, "y": y})["z"]
    expected = np.where(condition, (X.astype(float) - 120) * 0.02, (y.astype(float) - 1) * 0.03)
    np.testing.assert_allclose(result, quantized(expected, 0.05, 100), atol=1)
    assert result.shape == X.shape


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize(("gather_axis", "indices"), [(0, [2, 0]), (2, [[-1, 0], [1, 3]])])
@pytest.mark.parametrize("with_zeros", [False, True])
def test_gathered_blocks_of_4_bits(dtype: type, gather_axis: int, indices: list[Any], with_zeros: bool) -> None:
    """An element of a type of 4 bits each, in blocks of 16 along axis 1, of which the second has 4."""
    data: Array = RNG.integers(0, 8, (3, 20, 4)).astype(dtype)
    scales = normal(3, 2, 4)
    zeros: Array | None = RNG.integers(0, 8, (3, 2, 4)).astype(dtype) if with_zeros else None
    own = {"block_size": 16, "quantize_axis": 1, "gather_axis": gather_axis}
    given = {"d": data, "i": np.asarray(indices), "s": scales, "z": zeros}
    found = loaded("GatherBlockQuantized", given, None, ("d", "s", *(["z"] if with_zeros else [])), **own)
    blocks = np.arange(20) // 16
    offsets = zeros.astype(int)[:, blocks] if zeros is not None else 0
    expected = np.take((data.astype(int) - offsets) * scales[:, blocks], indices, gather_axis)
    (record,) = found.interpretation().records
    assert (record.where, record.outputs[0].sizes) == ("host", expected.shape)
    assert_close(found.compile("numpy")({"i": given["i"]})["y"], expected.astype(np.float32), np.float32, terms=1)


@pytest.mark.parametrize("bits", [2, 4])
def test_products_of_blocks_whose_columns_lie_in_groups(bits: int) -> None:
    """With zero points, which ONNX Runtime 1.32 ignores if there is a `g_idx`."""
    rows, columns, block = 3, 40, 16
    numbers = RNG.integers(0, 1 << bits, (rows, 48))
    zeros = RNG.integers(0, 1 << bits, (rows, 4))
    scales, groups, a = normal(rows, 3), RNG.integers(0, 3, columns).astype(np.int32), normal(2, columns)

    def packed(values: Array) -> Array:
        parts = values.reshape(rows, -1, 8 // bits) << (np.arange(8 // bits) * bits)
        return parts.sum(-1).astype(np.uint8)

    given = {"a": a, "b": packed(numbers).reshape(rows, 3, -1), "s": scales, "z": packed(zeros)[:, : -(-3 * bits // 8)], "g": groups}
    found = loaded("MatMulNBits", given, None, ("b", "s", "z", "g"), K=columns, N=rows, bits=bits, block_size=block)
    assert [record.where for record in found.interpretation().records] == ["directml"]
    weights = (numbers[:, :columns] - zeros[:, groups]) * scales.astype(np.float64)[:, groups]
    assert_close(found.compile("numpy")({"a": a})["y"], (a @ weights.T).astype(np.float32), np.float32, terms=64)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_inverses_in_every_type(dtype: type) -> None:
    x: Array = (RNG.standard_normal((2, 4, 4)) + 4 * np.eye(4)).astype(dtype)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = loaded("Inverse", {"x": x}, {"y": element}).compile("numpy")({"x": x})["y"]
    assert result.dtype == dtype
    np.testing.assert_allclose(x.astype(float) @ result.astype(float), np.tile(np.eye(4), (2, 1, 1)), atol=100 * float(np.finfo(dtype).eps))


def test_a_matrix_without_an_inverse_leaves_the_others_theirs() -> None:
    x = np.stack([np.zeros((2, 2)), 2 * np.eye(2)]).astype(np.float32)
    result = loaded("Inverse", {"x": x}).compile("numpy")({"x": x})["y"]
    assert np.isnan(result[0]).all()
    np.testing.assert_array_equal(result[1], np.eye(2) / 2)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_in_float64(metric: str) -> None:
    """DirectML has no FLOAT64: the host runs what the node stands for. The squares of near rows do not cancel."""
    a, b = RNG.standard_normal((5, 3)) + 1e6, RNG.standard_normal((4, 3)) + 1e6
    result = loaded("CDist", {"a": a, "b": b}, {"c": TensorProto.DOUBLE}, metric=metric).compile("numpy")({"a": a, "b": b})["c"]
    squares = ((a[:, None] - b) ** 2).sum(-1)
    np.testing.assert_allclose(result, squares if metric == "sqeuclidean" else np.sqrt(squares), rtol=1e-12)


@pytest.mark.parametrize("with_step", [True, False])
def test_ranges_of_vectors_of_one_number(with_step: bool) -> None:
    given: dict[str, Array | None] = {"start": np.array([2], np.int32), "limit": np.array([9], np.int32)}
    given |= {"delta": np.array([3], np.int32)} if with_step else {}
    result = loaded("Range", given, {"y": TensorProto.INT32}).compile("numpy")(dict(given))["y"]
    np.testing.assert_array_equal(result, np.arange(2, 9, 3 if with_step else 1))


def lstm() -> dict[str, Array | None]:
    """The inputs of a DynamicQuantizeLSTM of 4 units and inputs of 3."""
    weights = {name: RNG.integers(-128, 128, (1, rows, 16)).astype(np.int8) for name, rows in (("w", 3), ("r", 4))}
    scales: dict[str, Array | None] = {name: np.full(1, 0.01, np.float32) for name in ("w_scale", "r_scale")}
    zeros = np.zeros(1, np.int8)
    absent: dict[str, Array | None] = dict.fromkeys(("b", "lens", "h", "c", "p"))
    own = {"w_scale": scales["w_scale"], "w_zero": zeros, "r_scale": scales["r_scale"], "r_zero": zeros}
    return {"x": normal(5, 2, 3), **weights, **absent, **own}


def test_what_reads_a_quantized_lstm_knows_its_sizes() -> None:
    given = lstm()
    arrays = {name: array for name, array in given.items() if array is not None}
    nodes = [
        make_node(
            "DynamicQuantizeLSTM",
            ["" if array is None else name for name, array in given.items()],
            ["", "h1"],
            name="lstm",
            domain="com.microsoft",
            hidden_size=4,
        ),
        make_node("Squeeze", ["h1", "axes"], ["rows"], name="squeeze"),
        make_node("Relu", ["rows"], ["y"], name="relu"),
    ]
    constants = {name: array for name, array in arrays.items() if name != "x"} | {"axes": np.array([0])}
    built = model(nodes, {"x": (5, 2, 3)}, ["y"], constants=constants, domains=MICROSOFT)
    found = onnx.load(built)
    assert [record.where for record in found.interpretation().records] == ["host", "directml", "directml"]
    text = str(found.report())
    assert "node 'lstm' (DynamicQuantizeLSTM) falls back to the host" in text
    assert found.compile("numpy")({"x": given["x"]})["y"].shape == (2, 4)


@pytest.mark.parametrize(
    ("name", "changed", "path"),
    [
        ("w", np.zeros((1, 3, 12), np.int8), "node.input 1"),
        ("h", np.zeros((1, 1, 4), np.float32), "node.input 5"),
        ("lens", np.array([6, 1], np.int32), "node.input 4"),
        ("w_scale", np.ones(3, np.float32), "node.input 8"),
    ],
)
def test_a_quantized_lstm_whose_sizes_contradict_each_other_is_refused(name: str, changed: Array, path: str) -> None:
    given = lstm() | {name: changed}
    known = tuple(name for name, array in given.items() if array is not None and name != "x")
    with pytest.raises(dml.CompileError) as refusal:
        loaded("DynamicQuantizeLSTM", given, {"y": TensorProto.FLOAT}, known, hidden_size=4).compile("numpy")({"x": given["x"]})
    assert path in [problem.path for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "text"),
    [
        ("Inverse", {"x": normal(2, 3)}, {}, "square matrices"),
        (
            "CropAndResize",
            {"x": normal(1, 1, 4, 4), "b": normal(1, 4), "i": np.zeros(1, np.int32), "s": np.int32([2, 2])},
            {"mode": "area"},
            "'area'",
        ),
        ("GatherBlockQuantized", {"d": X[0], "i": np.array([0]), "s": normal(3, 2)}, {"bits": 3}, "one of [2, 4, 8]"),
        ("GatherBlockQuantized", {"d": X[0], "i": np.array([0]), "s": normal(3, 2)}, {"block_size": 16}, "a scale for every 16"),
        (
            "GatherBlockQuantized",
            {"d": X[0], "i": np.array([0]), "s": normal(3, 1)},
            {"gather_axis": 1, "quantize_axis": 0},
            "hold several",
        ),
        (
            "DecoderMaskedMultiHeadAttention",
            {"q": normal(2, 3, 8), "k": normal(2, 3, 8), "v": normal(2, 3, 8)},
            {"num_heads": 2},
            "one token",
        ),
        ("Tokenizer", {"x": TEXTS}, TOKENS, "neither, expected one of both"),
        ("Tokenizer", {"x": TEXTS}, TOKENS | {"separators": [""], "mincharnum": 2}, "1 where tokens are characters"),
        ("NGramRepeatBlock", {"i": np.array([[1, 2]]), "s": normal(2, 3)}, {"ngram_size": 2}, "two rows alike"),
        ("DynamicTimeWarping", {"x": normal(2, 3, 4)}, {}, "a matrix with elements"),
        ("Tokenizer", {"x": X[0]}, TOKENS | {"separators": [","]}, "uint8, expected texts"),
        ("MurmurHash3", {"x": X}, {}, "uint8, expected texts, or one of"),
        ("NGramRepeatBlock", {"i": np.array([[-1, -1]]), "s": normal(1, 3)}, {"ngram_size": 2}, "a word -1, expected words from 0 to 2"),
        ("NGramRepeatBlock", {"i": np.array([[1, 2]]), "s": normal(1, 3)}, {}, "ngram_size is left out"),
        (
            "LinearAttention",
            {"q": LINEAR["k"], **LINEAR},
            {"q_num_heads": 2, "kv_num_heads": 0},
            "kv_num_heads is 0, expected a number of 1",
        ),
        ("LinearAttention", {"q": LINEAR["k"], **LINEAR}, {"q_num_heads": 2, "kv_num_heads": 3}, "a divisor of kv_num_heads, 3"),
        ("LinearAttention", {"q": normal(1, 2, 3), **LINEAR}, HEADS, "2 heads"),
        ("LinearAttention", {"q": normal(1, 5, 8), **LINEAR}, HEADS, "input 0 is [1, 5, 8], expected [2, 3, 2 heads of 4]"),
        ("LinearAttention", {"q": LINEAR["k"], **LINEAR, "p": None, "d": normal(1, 3, 2)}, HEADS, "expected [2, 3, 2] or [2, 3, 8]"),
        ("LinearAttention", {"q": LINEAR["k"], **LINEAR, "p": None, "d": normal(2, 3, 1)}, HEADS, "expected [2, 3, 2] or [2, 3, 8]"),
        ("QLinearAveragePool", POOLED, {}, "kernel_shape is left out"),
        ("QLinearAveragePool", POOLED, {"kernel_shape": [0, 2]}, "kernel_shape is [0, 2], expected numbers of 1 or more"),
        ("QLinearAveragePool", POOLED, {"kernel_shape": [2, 2], "strides": [0, 1]}, "strides is [0, 1], expected numbers of 1 or more"),
        ("QLinearAveragePool", POOLED, {"kernel_shape": [2, 2], "dilations": [1, 2]}, "dilations is an attribute that it does not have"),
        ("MatMulBnb4", BNB4, {"N": 2, "K": 8, "quant_type": 1, "block_size": 0}, "block_size is 0, expected a number of 1"),
        ("MatMulBnb4", BNB4, {"N": 2, "K": 8, "block_size": 16}, "quant_type is None, expected one of [0, 1]"),
        ("MatMulBnb4", BNB4, {"N": 2, "K": 8, "quant_type": 1, "block_size": 8}, "8 bytes and 1 scale, expected 8 and 2"),
        ("UnfoldTensor", {"x": normal(4, 5)}, {"size": 1 << 40}, "size is 1099511627776, expected at most 5"),
        ("UnfoldTensor", {"x": normal(4, 5)}, {"size": 2, "step": 0}, "step is 0, expected a number of 1"),
        ("CausalConvWithState", {"x": normal(2, 3, 5), "w": normal(3, 1, 4), "b": None, "p": normal(2, 3, 2)}, {}, "expected [2, 3, 3]"),
        ("CausalConvWithState", {"x": normal(2, 3, 5), "w": normal(3, 1, 4)}, {"state_length": 5}, "state_length is 5, expected 0"),
        ("BranchwiseRMSNorm", {"x": normal(2, 6, 8)}, {"num_branches": 3}, "num_branches is 3, expected a divisor of the last size"),
        ("GatedRMSNorm", {"x": normal(2, 8), "s": normal(8), "g": normal(1, 8)}, {}, "expected [2, 8], as input 0 has"),
        (
            "LinearAttentionGate",
            {"x": normal(2, 3, 8), "b": normal(5, 2, 3, 8), "s": normal(8)},
            {},
            "expected [8], the last size of input 0",
        ),
        ("GatedAdd", {"x": normal(2, 8), "z": normal(2, 8), "g": normal(2, 8)}, {}, "expected [2, 1]: a gate for each row"),
        ("ScaledSiLU", {"x": normal(2, 8), "s": normal(2, 8)}, {}, "input 1 is [2, 8], expected one element"),
    ],
)
def test_what_contradicts_an_operator_of_microsoft_is_refused(
    operator: str, given: dict[str, Array | None], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(dml.CompileError, match="node") as refusal:
        loaded(operator, given, **attributes).compile("numpy")({name: array for name, array in given.items() if array is not None})
    assert text in str(refusal.value)


@pytest.mark.parametrize(
    ("operator", "given", "attributes"),
    [
        ("QLinearAveragePool", {"x": X[None], "s": PARAMETERS["x_scale"], "z": None, "t": PARAMETERS["y_scale"]}, {"ceil_mode": 1}),
        (
            "QLinearAveragePool",
            {"x": X[None], "s": PARAMETERS["x_scale"], "z": None, "t": PARAMETERS["y_scale"]},
            {"ceil_mode": 1, "count_include_pad": 1, "kernel_shape": "ab"},
        ),
        ("GridSample", {"x": normal(1, 1, 3, 3)}, {"mode": 3}),
        ("Pad", {"x": normal(2, 2), "p": np.array([1, 1]), "v": normal(2)}, {}),
        ("NhwcMaxPool", {"x": X[None]}, {"kernel_shape": [2, 2, 2]}),
        ("QEmbedLayerNormalization", {"x": X}, {}),
        ("DynamicQuantizeLSTM", {"x": normal(2, 3)}, {"hidden_size": 2}),
        ("DynamicQuantizeLSTM", {"x": normal(2, 3, 4), "w": X, "r": X}, {"hidden_size": 2, "direction": "sideways"}),
        ("CropAndResize", {"x": normal(1, 1, 4, 4), "b": normal(1, 4), "i": np.array([7]), "s": np.array([2, 2])}, {}),
        ("DecoderMaskedMultiHeadAttention", {"q": normal(2, 1, 8)}, {"num_heads": 3}),
        ("FusedConv", {"x": normal(1, 1), "w": normal(1)}, {"activation": "Relu"}),
        ("FusedGemm", {"x": normal(3), "w": normal(3)}, {"activation": "Relu"}),
        ("QGemm", {"x": X[0]}, {}),
    ],
)
@pytest.mark.usefixtures("untrusted_models")
def test_damaged_nodes_are_refused_by_dmlpy(operator: str, given: dict[str, Array | None], attributes: dict[str, Any]) -> None:
    """Inputs of other ranks, attributes of other types, inputs that are missing: no error of another library comes through."""
    known = tuple(name for name, array in given.items() if array is not None and not array.shape)
    with pytest.raises(dml.DmlError):
        loaded(operator, given, {"y": TensorProto.FLOAT}, known, **attributes).compile("numpy")(
            {name: array for name, array in given.items() if array is not None and name not in known}
        )


@pytest.mark.parametrize("operator", ["FusedGemm", "QLinearAveragePool", "CDist", "Trilu"])
def test_a_batch_that_is_open_is_compiled_when_it_comes(operator: str) -> None:
    """Nodes that are lowered, and those that stand for nodes of ONNX."""
    rows = {"FusedGemm": normal(3, 4), "CDist": normal(3, 4), "Trilu": normal(3, 4, 4)}
    attributes: dict[str, dict[str, Any]] = {
        "FusedGemm": {"activation": "Relu"},
        "QLinearAveragePool": {"kernel_shape": [2, 2], "ceil_mode": 1},
    }
    own = attributes.get(operator, {})
    x = rows.get(operator, RNG.integers(0, 256, (3, 2, 5, 5)).astype(np.uint8))
    constants: dict[str, Array] = {} if operator == "Trilu" else {"w": normal(4, 4)}
    if operator == "QLinearAveragePool":
        constants = {name: array for name, array in PARAMETERS.items() if array is not None}
    node = make_node(operator, ["x", *constants], ["y"], name="node", domain="com.microsoft", **own)
    types = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name in ("x", "y")}
    arguments: dict[str, Any] = {"types": types, "constants": constants, "domains": MICROSOFT}
    found = onnx.load(model([node], {"x": ("batch", *x.shape[1:])}, ["y"], **arguments)).compile("numpy")
    fixed = onnx.load(model([node], {"x": x.shape}, ["y"], **arguments)).compile("numpy")
    np.testing.assert_array_equal(found({"x": x})["y"], fixed({"x": x})["y"])
    assert found({"x": x[:1]})["y"].shape[0] == 1


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "expected"),
    [
        ("QuickGelu", {"x": np.asarray(0.7, np.float32)}, {"alpha": 1.0}, 0.7 / (1 + np.exp(-0.7))),
        ("DequantizeLinear", {"x": np.asarray(9, np.uint8), "s": np.asarray(0.5, np.float32)}, {}, 4.5),
        ("FusedMatMul", {"x": np.float32([1, 2, 3]), "b": np.float32([4, 5, 6])}, {}, 32),
    ],
)
def test_one_element_of_scalars_or_vectors_is_a_scalar(
    operator: str, given: dict[str, Array | None], attributes: dict[str, Any], expected: float
) -> None:
    """As in ONNX Runtime 1.32.0."""
    found = loaded(operator, given, **attributes).compile("numpy")({name: array for name, array in given.items() if array is not None})["y"]
    assert_close(found, np.asarray(expected, np.float32), np.float32, terms=4, what=operator)


def test_onnx_runtime_leaves_all_of_them_to_the_cpu() -> None:
    """A prediction of ONNX Runtime's placement names the node itself, not what it stands for here."""
    report = loaded("CDist", {"a": normal(2, 3), "b": normal(4, 3)}).report(like="onnxruntime")
    assert [(record.op_type, record.where) for record in report.nodes] == [("CDist", "host")]


def test_a_text_is_split_by_one_separator_after_the_other_in_a_time_that_their_number_does_not_multiply() -> None:
    text, separators = "a-b<<-c=>d=" * 20_000 + "\0", ["<-", "-", "<", "=", "=>", *(["="] * 1000)]
    given = {"x": np.array([text], object)}
    found = loaded("Tokenizer", given, {"y": TensorProto.STRING}, **TOKENS, separators=separators).compile("numpy")(given)["y"]
    assert found.shape == (1, 4 * 20_000 + 1)
    assert [*found[0, :4], found[0, -1]] == ["a", "b", "c", ">d", "\0"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("expression", "tokens"), [("[a||]+", ["a|a"]), ("[&&~~]", ["&", "~"]), (r"[\|||\~]+", ["|", "~"])])
def test_what_python_may_once_take_for_operations_on_sets_are_characters(expression: str, tokens: list[str]) -> None:
    given = {"x": np.array(["a|a &-~"], object)}
    found = loaded("Tokenizer", given, {"y": TensorProto.STRING}, **TOKENS, tokenexp=expression).compile("numpy")(given)["y"]
    assert found.tolist() == [tokens]


@pytest.mark.parametrize(
    ("expression", "unit", "tokens"),
    [("[ab]{99}" * 10 + "c", "a", 0), ("[ab]{9}[ab]+", "ab", 1), (r"[^a]{2}\w{0,99}", "a--", 1), ("ab+", "ab", 2)],
)
def test_the_time_of_an_expression_grows_with_the_text(expression: str, unit: str, tokens: int) -> None:
    """Eight times the text takes about eight times as long: a search that tries each end from each start would take 64 times as long."""
    own = {"tokenexp": expression}

    def seconds(count: int) -> float:
        given = {"x": np.array([unit * count], object)}
        run = loaded("Tokenizer", given, {"y": TensorProto.STRING}, **TOKENS, **own).compile("numpy")
        found, times = np.empty(0), []
        for _ in range(3):
            started = time.process_time()
            found = run(given)["y"]
            times.append(time.process_time() - started)
        assert (found.shape[-1] > 0) == (tokens > 0)
        return min(times)

    assert seconds(16_000) < 30 * max(seconds(2_000), 1e-4)


def test_an_expression_of_too_many_characters_is_refused() -> None:
    given = {"x": np.array(["a" * 9], object)}
    with pytest.raises(dml.DmlError, match="more than 1000 characters"):
        loaded("Tokenizer", given, {"y": TensorProto.STRING}, **TOKENS, tokenexp="[ab]{99}" * 11).compile("numpy")(given)


def test_a_block_of_scales_may_be_larger_than_the_weights() -> None:
    own = {"N": 2, "K": 8, "quant_type": 1}
    small, large = (loaded("MatMulBnb4", dict(BNB4), **own, block_size=size).compile("numpy")(dict(BNB4))["y"] for size in (16, 1 << 40))
    np.testing.assert_array_equal(small, large)


@pytest.mark.parametrize(("wrong", "message"), [([b"a"], "x is b'a' at element 0"), (["a", None], "x is None at element 1")])
def test_objects_that_are_no_texts_are_refused(wrong: list[Any], message: str) -> None:
    node = make_node("StringNormalizer", ["x"], ["y"])
    compiled = onnx.load(model([node], {"x": ("n",)}, ["y"], types={"x": TensorProto.STRING, "y": TensorProto.STRING})).compile("numpy")
    with pytest.raises(dml.BindError, match=f"{message}, expected texts"):
        compiled({"x": np.array(wrong, object)})
