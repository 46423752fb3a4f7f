"""ONNX's node tests, run by dmlpy: `python -m tests.support.onnx.node_cases [PATTERN] [--device DEVICE]` prints what becomes of each.

With --write it writes the table of all cases, tests/data/onnx_node_cases.json.

A case passes if its results are right and every node that computes something became DirectML's operators.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Literal

import numpy as np
from onnx import TensorProto, numpy_helper

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.lowering.node_records import NodeRecord
from tests.support.folders import DATA
from tests.support.generators import stored_data

TABLE = DATA / "onnx_node_cases.json"
Status = Literal["pass", "folded", "deferred", "host", "nowhere", "wrong", "error"]


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes:
        name: the case.
        operators: ONNX's operators in it.
        status: `pass`; `folded` if all of it is known before it runs; `deferred` if a node is compiled when its inputs come; `host` if one
            ran there; `nowhere` if nothing runs a node; `wrong` for other results; `error` for any exception.
        detail: the reason for anything but a pass.
    """

    name: str
    operators: tuple[str, ...]
    status: Status
    detail: str = ""


_LONG = frozenset({"averagepool", "lppool", "maxpool"})
"""The modules of cases that take seconds to compute what they expect; the others take one together."""


@cache
def node_cases(*, quick: bool = False) -> Mapping[str, Any]:
    """ONNX's node tests by name.

    Args:
        quick: without those of the modules in `_LONG`, whose results take seconds to compute.
    """
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in walk_packages(node.__path__, f"{node.__name__}."):
            if not quick or module.name.rpartition(".")[2] not in _LONG:
                import_module(module.name)
    return {case.name: case for case in node._NodeTestCases}


def outcome(case: Any, device: Any = "numpy") -> Outcome:
    """Runs a case with every data set that it has."""
    operators = tuple(dict.fromkeys(node.op_type for node in case.model.graph.node))
    try:
        for inputs, outputs in case.data_sets:
            status, detail = _run(case, inputs, outputs, device)
            if status != "pass":
                return Outcome(case.name, operators, status, detail)
    except Exception as error:
        kind = "" if isinstance(error, dml.DmlError) else f"{type(error).__name__}: "
        return Outcome(case.name, operators, "error", kind + " ".join(str(error).split()))
    return Outcome(case.name, operators, "pass")


def _run(case: Any, inputs: Sequence[Any], outputs: Sequence[Any], device: Any) -> tuple[Status, str]:
    names = [item.name for item in case.model.graph.input]
    given = dict(zip(names, map(array_of, inputs), strict=False))
    sizes = {name: array.shape for name, array in given.items() if isinstance(array, np.ndarray)}
    model = onnx.load(case.model, sizes=sizes)
    records = model.interpretation().records
    constants: set[str] = set()
    while wanted := _wanted_constants(records, given) - constants:
        constants |= wanted
        model = onnx.load(
            case.model,
            sizes={name: size for name, size in sizes.items() if name not in constants},
            constants={name: given[name] for name in constants},
        )
        records = model.interpretation().records
    lost = [record for record in records if record.where in ("nowhere", "invalid")]
    if lost:
        return "nowhere", _reasons(lost)
    found = model.compile(device)({name: given[name] for name in model.inputs if name in given})
    for item, expected in zip(case.model.graph.output, map(array_of, outputs), strict=True):
        if wrong := difference(found[item.name], expected, case.rtol, case.atol):
            return "wrong", f"{item.name}: {wrong}; {_reasons(records)}"
    hosted = [record for record in records if record.where == "host"]
    if hosted:
        return "host", _reasons(hosted)
    deferred = [record for record in records if record.where == "deferred"]
    if deferred:
        return "deferred", _reasons(deferred)
    return ("pass" if any(record.where == "directml" for record in records) else "folded"), ""


def array_of(value: Any) -> Any:
    """A tensor that comes as ONNX's protobuf, as those of types that NumPy lacks do, as an array."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else value


def _wanted_constants(records: Sequence[NodeRecord], given: Mapping[str, Any]) -> set[str]:
    """The inputs that nodes want to know before the model runs: those that they name, or all short lists of integers for one that is
    computed.
    """
    found = set()
    for record in records:
        for problem in record.problems:
            if problem.code == "onnx.constant_input" and "computed" in problem.found:
                found |= {name for name, array in given.items() if getattr(array, "ndim", 2) < 2 and array.dtype.kind in "iu"}
            name = re.match(r"'([^']*)', an input", problem.found) if problem.code == "onnx.constant_input" else None
            if name is not None and name[1] in given:
                found.add(name[1])
    return found


def _reasons(records: Sequence[NodeRecord]) -> str:
    return "; ".join(f"{record.op_type}: {problem}".replace("\n", " ") for record in records for problem in record.problems[:1])


_BFLOAT16_RTOL = 2**-6
"""What ONNX's runner takes at least for BFLOAT16: two steps of numbers of 8 bits. ONNX's own results are up to 1.7 steps from FLOAT64's."""


def difference(found: Any, expected: Any, rtol: float, atol: float) -> str:
    """How a result differs from the expected one; empty if it does not. Limits and comparison are those of ONNX's runner."""
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return f"is not a list of {len(expected)} tensors"
        return next(filter(None, (difference(*pair, rtol, atol) for pair in zip(found, expected, strict=True))), "")
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype} {found.shape}, expected {expected.dtype} {expected.shape}"
    if expected.dtype == object or expected.dtype.kind in "biuSU":
        return "" if np.array_equal(found, expected) else f"{int(np.sum(found != expected))} of {expected.size} elements differ"
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    rtol = max(rtol, _BFLOAT16_RTOL) if expected.dtype.name == "bfloat16" else rtol
    with contextlib.suppress(AssertionError):
        np.testing.assert_allclose(found.astype(wide), expected.astype(wide), rtol=rtol, atol=atol)
        return ""
    with np.errstate(all="ignore"):
        return f"largest difference {np.nanmax(np.abs(found.astype(wide) - expected.astype(wide))):.3g}"


def outcomes(pattern: str = "", device: Any = "numpy") -> Iterator[Outcome]:
    """What becomes of the cases whose names a regular expression matches."""
    for name, case in node_cases().items():
        if re.search(pattern, name):
            yield outcome(case, device)


def table(found: Sequence[Outcome]) -> dict[str, Any]:
    """What becomes of the cases: the names of those that pass or are folded, and of each other one the status and the first reason."""
    others = [one for one in found if one.status not in ("pass", "folded")]
    return {
        "pass": sorted(one.name for one in found if one.status == "pass"),
        "folded": sorted(one.name for one in found if one.status == "folded"),
        "others": {one.name: [one.status, _brief(one.detail)] for one in sorted(others, key=lambda one: one.name)},
    }


def _brief(detail: str) -> str:
    """The first reason, without what differs from run to run."""
    first = re.split(r"\]\s|; [A-Z]", detail)[0].strip()
    shown = re.sub(r"largest difference \S+", "other numbers", first)
    return shown[:240] if "]" not in detail[len(first) : len(first) + 1] else shown[:240] + "]"


@cache
def stored() -> dict[str, Any]:
    """The table."""
    found: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return found


def spread() -> dict[str, list[str]]:
    """For each lowered operator of ONNX's own domain, the smallest and the largest of its cases that pass."""
    passing = {name for name in stored()["pass"] if not name.endswith("_expanded")}
    found: dict[str, list[str]] = {}
    for name, case in sorted(node_cases(quick=True).items(), key=lambda item: item[1].model.ByteSize()):
        operators = {node.op_type for node in case.model.graph.node}
        if name in passing and len(operators) == 1:
            found.setdefault(operators.pop(), []).append(name)
    return {operator: [*dict.fromkeys((names[0], names[-1]))] for operator, names in found.items()}


def main() -> None:
    """Prints the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--all", action="store_true", help="list the cases that pass too")
    parser.add_argument("--write", action="store_true", help="write the table; for all cases")
    arguments = parser.parse_args()
    found = list(outcomes(arguments.pattern, arguments.device))
    if arguments.write:
        stored_data.write(TABLE, table(found))
    for one in found:
        if one.status != "pass" or arguments.all:
            print(f"{one.status:8}{one.name}: {one.detail[:300]}")
    print(dict(Counter(one.status for one in found)))


if __name__ == "__main__":
    main()
