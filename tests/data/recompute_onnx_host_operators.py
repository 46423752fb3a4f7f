"""Makes the table of what the host may run anew: operators whose reference implementation gives ONNX Runtime's values, by version.

    pip install onnx onnxruntime
    python tests/data/recompute_onnx_host_operators.py [--write]

The nodes are those of ONNX's own tests, each in every version of its operator that takes it. A version is listed where ONNX Runtime's CPU
provider runs at least one of them and none differs; the newest version also where ONNX Runtime runs none of them, and all give what ONNX
expects. Fails where the stored table differs; with --write it is replaced.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, defs, helper

from dmlpy.messages.problems import DmlError
from dmlpy.onnx.lowering import host_evaluation

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.generators import stored_data
from tests.support.onnx.node_cases import array_of, difference, node_cases

IGNORES = {
    "GRU": "clip, activations, sequence_lens",
    "LSTM": "clip, activations, input_forget, sequence_lens",
    "RNN": "clip, sequence_lens",
    "LpNormalization": "signs where p is 1",
    "LpPool": "ceil_mode",
    "LRN": "the number of neighbours at the border",
    "MaxPool": "auto_pad SAME_LOWER, storage_order",
    "RoiAlign": "coordinates below 0",
}
"""What ONNX's tests do not look at, and the reference implementation leaves out: DirectML's operators run these."""


def versions(op_type: str) -> list[int]:
    return sorted({schema.since_version for schema in defs.get_all_schemas_with_history() if schema.name == op_type and not schema.domain})


def by_runtime(proto: ModelProto, given: dict[str, Any]) -> list[Any] | None:
    """ONNX Runtime's results; None where it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(None, given))
    except Exception:
        return None


@dataclass(frozen=True)
class Sample:
    """A model whose nodes are compared.

    Attributes:
        proto: the model.
        given: its inputs.
        operators: the operators whose versions it speaks for.
        expected: what ONNX expects, where the version is the newest.
        tolerance: of `expected`, relative and absolute.
    """

    proto: ModelProto
    given: dict[str, Any]
    operators: tuple[tuple[str, int], ...]
    expected: list[Any] | None = None
    tolerance: tuple[float, float] = (1e-3, 1e-5)


def of_node_tests() -> Iterator[Sample]:
    """ONNX's own tests of single nodes, each in every version of its operator."""
    for name, case in node_cases().items():
        nodes = case.model.graph.node
        opset = next((item.version for item in case.model.opset_import if item.domain in ("", "ai.onnx")), 0)
        if len(nodes) != 1 or nodes[0].domain not in ("", "ai.onnx") or name.endswith("_expanded") or not opset:
            continue
        op_type = nodes[0].op_type
        inputs, outputs = case.data_sets[0]
        given = dict(zip([item.name for item in case.model.graph.input], map(array_of, inputs), strict=False))
        own = [version for version in versions(op_type) if version <= opset]
        for version in own:
            proto = ModelProto()
            proto.CopyFrom(case.model)
            del proto.opset_import[:]
            proto.opset_import.append(helper.make_opsetid("", opset if version == own[-1] else version))
            expected = [array_of(value) for value in outputs] if version == own[-1] else None
            yield Sample(proto, given, ((op_type, version),), expected, (case.rtol, case.atol))


def of_sequences() -> Iterator[Sample]:
    """Nodes of sequences, which ONNX tests with other nodes only."""
    nodes = [
        helper.make_node("SequenceConstruct", ["a", "b", "a"], ["s"]),
        helper.make_node("SequenceErase", ["s", "one"], ["erased"]),
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("SequenceInsert", ["none", "b"], ["inserted"]),
        helper.make_node("SequenceAt", ["erased", "one"], ["at"]),
        helper.make_node("SequenceLength", ["s"], ["length"]),
        helper.make_node("ConcatFromSequence", ["erased"], ["joined"], axis=0),
        helper.make_node("ConcatFromSequence", ["s"], ["stacked"], axis=-1, new_axis=1),
        helper.make_node("SequenceAt", ["inserted", "zero"], ["first"]),
    ]
    rng = np.random.default_rng(3)
    given = {name: rng.standard_normal((2, 3)).astype(np.float32) for name in "ab"} | {
        "zero": np.asarray(0, np.int64),
        "one": np.asarray(1, np.int64),
    }
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in given.items()
    ]
    outputs = [
        helper.make_tensor_value_info("length", 7, []),
        *(helper.make_tensor_value_info(name, 1, None) for name in ("at", "joined", "stacked", "first")),
    ]
    graph = helper.make_graph(nodes, "sequences", inputs, outputs)
    for opset in (11, 21, 24):
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        yield Sample(proto, given, tuple((node.op_type, defs.get_schema(node.op_type, opset).since_version) for node in nodes))


def of_integer_reductions() -> Iterator[Sample]:
    """Reductions that dmlpy defines for integers, in the versions whose axes are an attribute: ONNX's own tests have the newest only."""
    x = np.random.default_rng(4).integers(-6, 9, (3, 4, 5))
    for op_type, axes, dtype in product(("ReduceL2", "ReduceLogSum", "ReduceLogSumExp"), ([0, 2], [1], None), (np.int32, np.int64)):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        node = helper.make_node(op_type, ["x"], ["y"], keepdims=0, **({"axes": axes} if axes else {}))
        inputs = [helper.make_tensor_value_info("x", kind, x.shape)]
        graph = helper.make_graph([node], "reduction", inputs, [helper.make_tensor_value_info("y", kind, None)])
        for version in (1, 11, 13):
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
            yield Sample(proto, {"x": x.astype(dtype)}, ((op_type, version),))


def compared() -> dict[str, list[int]]:
    """The versions that may run, by operator."""
    same: set[tuple[str, int]] = set()
    different = {(name, version) for name in IGNORES for version in versions(name)}
    for sample in (*of_node_tests(), *of_sequences(), *of_integer_reductions()):
        theirs = by_runtime(sample.proto, sample.given)
        wanted = sample.expected if theirs is None else theirs
        if wanted is None:
            continue
        found = evaluated(sample.proto, sample.given)
        tolerance = sample.tolerance if theirs is None else (1e-3, 1e-5)
        good = found is not None and all(map(agree, found, wanted, [tolerance] * len(wanted)))
        (same if good else different).update(sample.operators)
    table: dict[str, list[int]] = defaultdict(list)
    for op_type, version in sorted(same - different):
        table[op_type].append(version)
    return dict(table)


def agree(found: Any, wanted: Any, tolerance: tuple[float, float]) -> bool:
    """Whether two results are the same: tensors, lists of them, or None."""
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(agree, found, wanted, [tolerance] * len(found)))
    if found is None or wanted is None or isinstance(found, list) or isinstance(wanted, list):
        return found is None and wanted is None
    wanted = np.asarray(wanted)
    if wanted.dtype == np.uint8 and found.dtype.itemsize == 1:
        found = found.view(np.uint8)  # ONNX Runtime gives FLOAT8 as bytes
    relative, absolute = tolerance
    if wanted.dtype.itemsize == 2:  # a rounding or two of FLOAT16
        relative, absolute = max(relative, 2e-3), max(absolute, 1e-3)
    if wanted.dtype.kind == "f" and np.isfinite(wanted).any():  # sums of large terms that cancel are as near as these terms
        absolute *= max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max()))
    return not difference(found, wanted, relative, absolute)


def evaluated(proto: ModelProto, given: dict[str, Any]) -> list[Any] | None:
    """The reference implementation's results; None where it fails."""
    graph = proto.graph
    opsets = {item.domain: item.version for item in proto.opset_import}
    names = [item.name for item in graph.output]
    try:
        found = host_evaluation.HostProgram([*graph.node], opsets, [item.name for item in graph.input], names)(given)
    except (DmlError, MemoryError):
        return None
    return [found[name] for name in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the table")
    write = parser.parse_args().write
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = compared()
    if write:
        stored_data.write(host_evaluation.TABLE, table)
    elif host_evaluation.TABLE.read_text("utf-8") != stored_data.text(host_evaluation.TABLE, table):
        raise SystemExit("the stored table differs")


if __name__ == "__main__":
    main()
