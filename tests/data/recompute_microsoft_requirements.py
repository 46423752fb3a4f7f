"""Makes the table of what nodes of com.microsoft must and may have anew, by the schemas of ONNX Runtime.

    pip install onnx onnxruntime
    python tests/data/recompute_microsoft_requirements.py [--write]

Fails where the stored table differs; with --write it is replaced.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dmlpy.onnx.domains import definitions, host_operators
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import find_rule
from dmlpy.onnx.nodes.microsoft_requirements import TABLE

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.generators import stored_data


def operators() -> set[str]:
    """The operators of com.microsoft that have a definition or run on the host."""
    host_operators.find_host_operator("Tokenizer", MICROSOFT)  # imports all of them
    return set(definitions._DEFINITIONS) | {op_type for domain, op_type in host_operators._OPERATORS if domain == MICROSOFT}


def table() -> dict[str, dict[str, list[str]]]:
    """The names of the inputs and the attributes that ONNX Runtime's schema of each operator requires, and those of all attributes.

    Rules that lower operators check themselves what their nodes lack.
    """
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found, wanted = {}, operators()
    for schema in get_all_operator_schema():
        if schema.domain != MICROSOFT:
            continue
        known = sorted(schema.attributes)
        if schema.name in wanted:
            found[schema.name] = {
                "inputs": [item.name if item.option == type(item.option).Single else "" for item in schema.inputs][: schema.min_input],
                "attributes": sorted(name for name, item in schema.attributes.items() if item.required),
                "known": known,
            }
        elif find_rule(schema.name, 1, MICROSOFT) is not None:
            found[schema.name] = {"inputs": [], "attributes": [], "known": known}
    return dict(sorted(found.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    made = stored_data.text(TABLE, table())
    if parser.parse_args().write:
        TABLE.write_text(made, "utf-8")
    elif made != TABLE.read_text("utf-8"):
        sys.exit(f"{TABLE} differs from ONNX Runtime's schemas")
