"""ONNX's node tests with sizes that are known only when the model runs: `python -m tests.support.onnx.hidden_sizes [PATTERN] [--way WAY]`.

Each way to hide them leaves the results as they are, so that they are those of the case.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.node_cases import array_of, difference, node_cases

Array = np.ndarray[Any, Any]
_GATHERED = frozenset(
    getattr(TensorProto, name)
    for name in (
        *("BFLOAT16", "BOOL", "COMPLEX64", "COMPLEX128", "DOUBLE", "FLOAT", "FLOAT16", "INT8", "INT16", "INT32", "INT64", "STRING"),
        *("UINT8", "UINT16", "UINT32", "UINT64"),
    )
)
"""The types of tensors that Gather takes."""
Hidden = tuple[ModelProto, dict[str, Any]]
"""A model, and what it is called with."""


def behind_compress(proto: ModelProto, given: Mapping[str, Any]) -> Hidden:
    """Each tensor with dimensions goes through a Compress that selects all of it."""
    graph = proto.graph
    inputs = [*graph.input]
    nodes, keeps = [], dict[str, Any]()
    for item in inputs:
        array = given.get(item.name)
        if not isinstance(array, np.ndarray) or not array.ndim or array.dtype.isbuiltin != 1:  # Compress takes no others
            continue
        plain, keep = f"{item.name}__given", f"{item.name}__keep"
        nodes.append(helper.make_node("Compress", [plain, keep], [item.name], axis=0))
        keeps[keep] = np.ones(array.shape[0], np.bool_)
        item.name = plain
    renamed = {name.removesuffix("__keep"): f"{name.removesuffix('__keep')}__given" for name in keeps}
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.BOOL, array.shape) for name, array in keeps.items())
    _put_in_front(graph, nodes)
    return proto, {renamed.get(name, name): array for name, array in given.items()} | keeps


def in_branch(proto: ModelProto, given: Mapping[str, Any]) -> Hidden:
    """All nodes are the branch of an If on an input."""
    graph = proto.graph
    body = helper.make_graph([*graph.node], "branch", [], _untyped(graph), [*graph.initializer])
    del graph.node[:], graph.initializer[:]
    graph.node.append(helper.make_node("If", ["taken__"], [item.name for item in graph.output], then_branch=body, else_branch=body))
    graph.input.append(helper.make_tensor_value_info("taken__", TensorProto.BOOL, []))
    return proto, dict(given) | {"taken__": np.asarray(True)}


def in_loop(proto: ModelProto, given: Mapping[str, Any]) -> Hidden:
    """All nodes are the body of a Loop of two turns; each output is the last row of what the turns gave."""
    graph = proto.graph
    names = [item.name for item in graph.output]
    inner = helper.make_graph(
        [*graph.node, helper.make_node("Identity", ["go__"], ["goes_on__"])],
        "turn",
        [helper.make_tensor_value_info("turn__", TensorProto.INT64, []), helper.make_tensor_value_info("go__", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("goes_on__", TensorProto.BOOL, []), *_untyped(graph)],
        [*graph.initializer],
    )
    del graph.node[:], graph.initializer[:]
    graph.node.append(helper.make_node("Loop", ["turns__", ""], [f"{name}__rows" for name in names], body=inner))
    graph.node.append(helper.make_node("Constant", [], ["last__"], value=numpy_helper.from_array(np.asarray(-1))))
    graph.node.extend(helper.make_node("Gather", [f"{name}__rows", "last__"], [name], axis=0) for name in names)
    graph.input.append(helper.make_tensor_value_info("turns__", TensorProto.INT64, []))
    return proto, dict(given) | {"turns__": np.asarray(2)}


def as_initializers(proto: ModelProto, given: Mapping[str, Any]) -> Hidden:
    """All tensors are initializers, so that the results are known before the model runs."""
    graph = proto.graph
    kept = {name: array for name, array in given.items() if not isinstance(array, np.ndarray)}
    held = [item for item in graph.input if item.name in kept or item.name not in given]
    for name, array in given.items():
        if name not in kept:
            graph.initializer.append(_tensor(name, array))
    del graph.input[:]
    graph.input.extend(held)
    return proto, kept


WAYS: Mapping[str, Callable[[ModelProto, Mapping[str, Any]], Hidden]] = {
    "compress": behind_compress,
    "if": in_branch,
    "loop": in_loop,
    "initializers": as_initializers,
}


OLDEST = {"compress": 9, "loop": 11}
"""The opset from which on there is a way: that of its operator, or of loops without states."""


def is_hidable(case: Any, way: str) -> bool:
    """Whether a way can hide the sizes of a case."""
    graph = case.model.graph
    given = [array_of(value) for value in case.data_sets[0][0]]
    if next((item.version for item in case.model.opset_import if item.domain in ("", "ai.onnx")), 0) < 9:
        return False  # Compress and If come with newer versions
    tensors = [array for array in given if isinstance(array, np.ndarray) and array.dtype != object]
    if way == "compress":
        return any(array.ndim and array.dtype.isbuiltin == 1 for array in tensors)
    if case.model.opset_import[0].version < OLDEST.get(way, 0):
        return False
    if way == "loop":  # rows are tensors
        return all(item.type.tensor_type.elem_type in _GATHERED for item in graph.output)
    return bool(given)


def hidden(case: Any, way: str, device: Any = "numpy") -> str:
    """How the results with hidden sizes differ from those of the case; empty if they do not."""
    for inputs, outputs in case.data_sets:
        proto = ModelProto()
        proto.CopyFrom(case.model)
        names = [item.name for item in proto.graph.input]
        proto, given = WAYS[way](proto, dict(zip(names, map(array_of, inputs), strict=False)))
        for item in proto.graph.output:
            if item.type.WhichOneof("value") == "tensor_type":
                item.type.tensor_type.ClearField("shape")
        del proto.graph.value_info[:]
        try:
            found = onnx.load(proto).compile(device)(given)
        except dml.DmlError as error:
            return f"refused: {' '.join(str(error).split())}"
        for item, expected in zip(case.model.graph.output, map(array_of, outputs), strict=True):
            if wrong := difference(found[item.name], expected, case.rtol, case.atol):
                return f"{item.name}: {wrong}"
    return ""


def array_type(array: Array) -> int:
    """ONNX's element type of an array."""
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _untyped(graph: GraphProto) -> list[Any]:
    """The outputs without sizes."""
    found = []
    for item in graph.output:
        own = type(item)()
        own.CopyFrom(item)
        if own.type.WhichOneof("value") == "tensor_type":
            own.type.tensor_type.ClearField("shape")
        found.append(own)
    return found


def _put_in_front(graph: GraphProto, nodes: Sequence[Any]) -> None:
    behind = [*graph.node]
    del graph.node[:]
    graph.node.extend([*nodes, *behind])


def _tensor(name: str, array: Array) -> TensorProto:
    if array.dtype.kind in "OUS":
        return numpy_helper.from_array(array.astype(object), name)
    return numpy_helper.from_array(array, name)


def main() -> None:
    """Prints the cases that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--way", choices=[*WAYS], action="append")
    parser.add_argument("--device", default="numpy")
    arguments = parser.parse_args()
    for way in arguments.way or WAYS:
        counts: Counter[str] = Counter()
        for name, case in node_cases().items():
            if re.search(arguments.pattern, name) and is_hidable(case, way):
                try:
                    wrong = hidden(case, way, arguments.device)
                except Exception as error:
                    wrong = f"LEAK {type(error).__name__}: {str(error)[:200]}"
                counts[wrong.partition(":")[0].split(" ")[0] if wrong else "same"] += 1
                if wrong:
                    print(way, name, wrong[:260], flush=True)
        print(way, dict(counts))


if __name__ == "__main__":
    main()
