"""Mixtures of experts: what the stored nodes do not cover, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import Array, model

RNG = np.random.default_rng(11)


def normal(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(np.float32)


def packed(*sizes: int) -> Array:
    return RNG.integers(0, 256, sizes).astype(np.uint8)


def run(operator: str, given: Mapping[int, Array], **attributes: Any) -> Array:
    """The output of a node whose inputs have these indices."""
    names = [f"x{index}" if index in given else "" for index in range(max(given) + 1)]
    node = make_node(operator, names, ["y"], name="node", domain="com.microsoft", **attributes)
    arrays = {f"x{index}": array for index, array in given.items()}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in arrays.items()}
    sizes = {name: array.shape for name, array in arrays.items()}
    built = model([node], sizes, ["y"], types=types, domains={"com.microsoft": 1})
    return np.asarray(onnx.load(built).compile("numpy")(arrays)["y"])


# 3 experts of 6 features and 4 numbers in between, for 5 tokens.
PLAIN = {0: normal(5, 6), 1: normal(5, 3), 2: normal(3, 4, 6), 3: normal(3, 4), 4: normal(3, 6, 4), 5: normal(3, 6)}
# 3 experts of 16 features and 8 numbers in between, as halves of bytes.
HALVES = {0: normal(5, 16), 1: normal(5, 3), 2: packed(3, 8, 8), 3: normal(3, 8), 5: packed(3, 16, 4), 6: normal(3, 16)}


def test_the_gates_may_be_the_first_half() -> None:
    """ONNX Runtime documents it, but its CPU provider takes interleaved gates only: the rows of the weights change places."""
    given = PLAIN | {2: normal(3, 8, 6), 3: normal(3, 8)}
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    own: dict[str, Any] = {"activation_type": "swiglu", "k": 2, "swiglu_limit": 0.5}
    halves = run("MoE", given | {2: given[2][:, order], 3: given[3][:, order]}, swiglu_fusion=2, **own)
    np.testing.assert_array_equal(halves, run("MoE", given, swiglu_fusion=1, **own))


def test_tokens_of_half_precision_keep_it() -> None:
    halves = {index: array.astype(np.float16) for index, array in PLAIN.items()}
    found = run("MoE", halves, k=2)
    assert found.dtype == np.float16
    wide = run("MoE", {index: array.astype(np.float32) for index, array in halves.items()}, k=2)
    np.testing.assert_array_equal(found, wide.astype(np.float16))


@pytest.mark.parametrize(
    ("operator", "given", "attributes", "message"),
    [
        ("MoE", PLAIN | {6: normal(3, 4, 6)}, {}, "input 6 is given, expected left out"),
        ("MoE", PLAIN, {"use_sparse_mixer": 1}, "use_sparse_mixer is 1, expected 0"),
        ("MoE", PLAIN, {"activation_type": "geglu"}, "activation_type is 'geglu', expected one of"),
        ("MoE", PLAIN | {2: normal(3, 8, 6), 3: normal(3, 8)}, {"activation_type": "swiglu"}, "swiglu_fusion is 0, expected 1 or 2"),
        ("MoE", PLAIN, {"k": 4}, "k is 4, expected at most 3, the number of experts"),
        ("MoE", PLAIN, {"k": 0}, "k is 0"),
        ("MoE", PLAIN | {0: normal(6)}, {}, "input 0 is [6], expected 2 or 3 dimensions"),
        ("MoE", PLAIN | {1: normal(4, 3)}, {}, "input 1 is [4, 3], expected [5, experts]"),
        ("MoE", PLAIN | {2: normal(3, 5, 6)}, {}, "input 2 is [3, 5, 6], expected [3, 4, 6]"),
        ("MoE", PLAIN | {3: normal(3, 5)}, {}, "input 3 is [3, 5], expected [3, 4]"),
        ("MoE", PLAIN | {4: normal(3, 5, 4)}, {}, "input 4 is [3, 5, 4], expected [3, 6, 4]"),
        ("MoE", PLAIN | {4: normal(6, 4)}, {}, "input 2 is [3, 4, 6], expected [3, 0, 6]"),
        ("QMoE", HALVES, {"quant_type": "fp8"}, "quant_type is 'fp8', expected int"),
        ("QMoE", HALVES, {"expert_weight_bits": 3}, "expert_weight_bits is 3, expected one of [2, 4, 8]"),
        ("QMoE", HALVES, {"weights_prepacked": 1}, "weights_prepacked is 1, expected"),
        ("QMoE", HALVES, {"block_size": 5}, "block_size is 5, expected a divisor of 16"),
        ("QMoE", HALVES, {"block_size": 8}, "input 3 is [3, 8], expected [3, 8, 2]"),
        ("QMoE", HALVES | {2: normal(3, 8, 8)}, {}, "input 2 is float32 [3, 8, 8], expected 3 dimensions of UINT8"),
        ("QMoE", HALVES | {11: packed(3, 3)}, {}, "input 11 is [3, 3], expected [3, 4]"),
        ("QMoE", HALVES | {14: normal(5, 2)}, {}, "input 14 is [5, 2], expected [5, 3]"),
        ("QMoE", HALVES | {15: normal(3)}, {}, "input 15 is given, expected left out"),
    ],
)
def test_what_no_provider_for_cpus_runs_is_refused(operator: str, given: dict[int, Array], attributes: Any, message: str) -> None:
    with pytest.raises(dml.DmlError) as caught:
        run(operator, given, **attributes)
    assert message in str(caught.value)
