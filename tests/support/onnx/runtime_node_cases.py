"""ONNX's node tests, run by ONNX Runtime's CPU provider: `python -m tests.support.onnx.runtime_node_cases` writes what becomes of each.

The limits and comparison are those that dmlpy's own results are held to. The tests do not need ONNX Runtime: the table is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnxruntime

from tests.support.folders import DATA
from tests.support.generators import stored_data
from tests.support.onnx.node_cases import array_of, difference, node_cases

TABLE = DATA / "onnx_runtime_node_cases.json"


def status(case: Any) -> tuple[str, str]:
    """`pass`, `wrong` or `refused`, with the reason for the last two."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for inputs, outputs in case.data_sets:
            names = [item.name for item in case.model.graph.input]
            given = {name: value for name, value in zip(names, map(array_of, inputs), strict=False) if value is not None}
            found = session.run(None, given)
            for item, own, expected in zip(case.model.graph.output, found, map(array_of, outputs), strict=True):
                if wrong := difference(own, expected, case.rtol, case.atol):
                    return "wrong", f"{item.name}: {wrong}"
    except Exception as error:  # whatever its binding raises
        return "refused", " ".join(str(error).split())[:200]
    return "pass", ""


def operator(name: str, cases: Mapping[str, Any]) -> str:
    """The operator that a case is of; an expanded one is of the function that it expands."""
    nodes = cases.get(name.partition("_expanded")[0], cases[name]).model.graph.node
    return str(nodes[0].op_type)


def table() -> Mapping[str, Any]:
    """The version, and of each case the operator, what becomes of it and the reason."""
    cases = node_cases()
    found = {name: [operator(name, cases), *status(case)] for name, case in sorted(cases.items())}
    return {"onnxruntime": onnxruntime.__version__, "cases": found}


def main() -> None:
    """Writes the table and prints how many cases have each outcome."""
    made = table()
    stored_data.write(TABLE, made)
    print(dict(Counter(kind for _, kind, _ in made["cases"].values())))


if __name__ == "__main__":
    main()
