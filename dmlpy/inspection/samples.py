"""A valid desc of each operator and the Python code that makes it, which `dmlpy explain` shows."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DmlEnum
from dmlpy.description.structs import Struct
from dmlpy.description.tensors import TensorDesc

_FILE = Path(__file__).with_name("samples.json")
_INDENT = "    "
_LONGEST = 80
"""The most characters of a list on one line."""


@cache
def _samples() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return data


def sample(kind: type[OperatorDesc]) -> OperatorDesc:
    """A valid desc of an operator, with small sizes.

    Raises:
        KeyError: there is none.
    """
    return kind.from_dict({"Type": kind.type_name, "Desc": _samples()[kind.type_name]})


def example(kind: type[OperatorDesc], *, run: bool = False) -> str:
    """Python code that describes an operator and checks the desc; empty if there is no sample.

    Args:
        kind: the operator's class.
        run: also compile it for the NumPy device and run it on zeros.
    """
    if kind.type_name not in _samples():
        return ""
    desc = sample(kind)
    outputs = [field.name for field in kind.outputs() if not kind.model_fields[field.name].is_required()]
    bare = desc.replace(**dict.fromkeys(outputs))
    inferred = _infers(bare, desc)
    shown = bare if inferred else desc
    lines = ["import dmlpy as dml", "", f"desc = {source(shown)}{'.with_outputs()' if inferred else ''}", "assert dml.check(desc) == []"]
    if run:
        lines[:1] = ["import dmlpy as dml", "import numpy as np"]
        lines += [
            'operator = dml.compile(desc, "numpy")',
            "inputs = {slot.place: np.zeros(slot.tensor.sizes, slot.tensor.data_type.numpy) for slot in desc.input_slots() if slot.tensor}",
            "outputs = operator(**inputs)",
        ]
    return "\n".join(lines)


def _infers(bare: OperatorDesc, whole: OperatorDesc) -> bool:
    """Returns whether the omitted outputs follow from the inputs."""
    try:
        return bare.with_outputs() == whole
    except ValueError:
        return False


def source(value: Any, indent: str = "") -> str:
    """Formats a value as Python source that makes it. Lines after the first begin with `indent`."""
    inner = indent + _INDENT
    if isinstance(value, Struct):
        fields = type(value).model_fields
        members = {name: getattr(value, name) for name in fields if getattr(value, name) is not None}
        written = {name: item for name, item in members.items() if fields[name].is_required() or item != fields[name].default}
        if not isinstance(value, OperatorDesc) or not value.tensors():
            return f"dml.{type(value).__name__}({', '.join(f'{name}={source(item, indent)}' for name, item in written.items())})"
        lines = "".join(f"{inner}{name}={source(item, inner)},\n" for name, item in written.items())
        return f"dml.{type(value).__name__}(\n{lines}{indent})"
    if isinstance(value, DmlEnum):
        return f'"{value}"' if type(value).__name__ in ("DataType", "TensorFlags") else f"dml.{value!r}"
    if isinstance(value, tuple):
        items = [source(item, inner) for item in value]
        if any(isinstance(item, TensorDesc) for item in value) or sum(map(len, items)) > _LONGEST:
            return "[\n" + "".join(f"{inner}{item},\n" for item in items) + f"{indent}]"
        return f"[{', '.join(items)}]"
    if isinstance(value, float) and value != value:
        return '"nan"'
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f'"{value}"'
    return json.dumps(value) if isinstance(value, str) else repr(value)
