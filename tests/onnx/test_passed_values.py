"""Values that a model passes on unchanged, at feature levels whose ELEMENT_WISE_IDENTITY does not take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node

from dmlpy import onnx
from tests.support.onnx.models import Array

INTS, FLOATS, BOOLS = TensorProto.INT32, TensorProto.FLOAT, TensorProto.BOOL
NODES = [
    make_node("Identity", ["a"], ["same"]),
    make_node("Transpose", ["a"], ["turned"]),
    make_node("Flatten", ["a"], ["flat"], axis=0),
    make_node("Unsqueeze", ["a", "axes"], ["higher"]),
    make_node("Relu", ["b"], ["relu"]),
    make_node("Identity", ["relu"], ["twice"]),
    make_node("Identity", ["c"], ["truth"]),
    make_node("Not", ["truth"], ["untruth"]),
]
OUTPUTS = {"same": INTS, "turned": INTS, "flat": INTS, "higher": INTS, "relu": FLOATS, "twice": FLOATS, "truth": BOOLS, "untruth": BOOLS}


def build(nodes: list[Any], inputs: dict[str, tuple[int, Any]], outputs: dict[str, int], **constants: Array) -> onnx.Model:
    graph = helper.make_graph(
        nodes,
        "passing",
        [helper.make_tensor_value_info(name, *declared) for name, declared in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def check(found: dict[str, Any], expected: dict[str, Array]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert np.array_equal(found[name], array), name


@pytest.mark.parametrize("sizes", [(2, 3), ("rows", "columns")], ids=["static", "dynamic"])
@pytest.mark.parametrize(("level", "hosted"), [("1_0", 7), ("3_0", 0)])
def test_values_are_passed_on_at_every_level(level: str, hosted: int, sizes: Any) -> None:
    """On the host where the level cannot copy them, which the report shows."""
    rng = np.random.default_rng(39)
    a, b, c = rng.integers(-9, 9, (2, 3), np.int32), rng.standard_normal((2, 3), np.float32), rng.random((2, 3)) < 0.5
    loaded = build(NODES, {"a": (INTS, sizes), "b": (FLOATS, sizes), "c": (BOOLS, sizes)}, OUTPUTS, axes=np.array([0]))
    relu = np.maximum(b, 0)
    expected = dict(zip(OUTPUTS, (a, a.T, a.reshape(1, 6), a[None], relu, relu, c, ~c), strict=True))
    compiled = loaded.compile("numpy", feature_level=level)
    for _ in range(3):  # bound anew, then together
        check(compiled(a=a, b=b, c=c), expected)
    if sizes == (2, 3):  # else the report is of sizes that are not known yet
        assert sum(record.where == "host" for record in loaded.interpretation(level).records) == hosted


def test_a_loop_passes_states_on_at_a_low_level() -> None:
    rng = np.random.default_rng(42)
    state, numbers = rng.integers(-9, 9, (2, 3), np.int32), rng.standard_normal(2, np.float32)
    body = helper.make_graph(
        [
            *(make_node("Identity", [read], [written]) for read, written in (("c", "co"), ("s", "so"), ("s", "row"))),
            make_node("Add", ["q", "q"], ["qo"]),
        ],
        "body",
        [
            helper.make_tensor_value_info(*item)
            for item in (("i", TensorProto.INT64, ()), ("c", BOOLS, ()), ("s", INTS, (2, 3)), ("q", FLOATS, (2,)))
        ],
        [
            helper.make_tensor_value_info(*item)
            for item in (("co", BOOLS, ()), ("so", INTS, (2, 3)), ("qo", FLOATS, (2,)), ("row", INTS, (2, 3)))
        ],
    )
    loop = make_node("Loop", ["turns", "", "a", "b"], ["s", "q", "rows"], body=body)
    given = {"turns": (TensorProto.INT64, ()), "a": (INTS, (2, 3)), "b": (FLOATS, (2,))}
    compiled = build([loop], given, {"s": INTS, "q": FLOATS, "rows": INTS}).compile("numpy", feature_level="1_0")
    found = compiled({"turns": np.int64(3), "a": state, "b": numbers})
    check(found, {"s": state, "q": 8 * numbers, "rows": np.stack([state] * 3)})
