"""The names of directml.h for type checkers: the text of `__init__.pyi`.

A struct's constructor takes its members in directml.h's spelling or in Python's, which a type checker cannot know of the class that both
names share. In the `.pyi` file each struct's C name is therefore a class of its own, with one signature for each spelling, below the
class that it is in truth.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dmlpy.description.accepted_types import accepted_type
from dmlpy.description.structs import Struct
from dmlpy.directml import header
from dmlpy.directml.names import CONSTANTS, HEADER, MEMBERS, NAMES, TYPES
from dmlpy.messages.naming import c_member

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPTIONAL = ("input_count", "output_count")
"""Members that a graph counts itself where its inputs and outputs have names."""

_NEEDED = (
    "from collections.abc import Iterable, Mapping, Sequence",
    "from typing import Any, Final, overload",
    "from numpy import bool_, dtype, floating, generic, integer, number",
    "from dmlpy.description.descs import FusableDesc, OperatorDesc",
    "from dmlpy.operators.activation import ActivationDesc",
)


def stub() -> str:
    """The text of `__init__.pyi`."""
    structs = {name: kind for name, kind in TYPES.items() if issubclass(kind, Struct)}
    lines = ["# Written by `python -m dmlpy.x.stubs`: do not edit.", *_NEEDED]
    lines += sorted({f"from {kind.__module__} import {kind.__name__}" for kind in TYPES.values()})
    lines += [f"from {kind.__module__} import {kind.__name__} as {name}" for name, kind in TYPES.items() if name not in structs]
    lines += [f"from {header.__name__} import {name} as {name}" for name in sorted(HEADER.keys() - CONSTANTS.keys())]
    for name, kind in structs.items():
        lines += _class(name, kind)
    # A final name that is the member itself keeps its literal type.
    lines += [f"{name} = {type(member).type_name()}.{member.name}" for name, member in sorted(MEMBERS.items())]
    lines += [f"{name}: Final = {json.dumps(value)}" for name, value in sorted(CONSTANTS.items())]
    # What is imported under another name is exported by this list only.
    lines += ["__all__ = [", *(f'    "{name}",' for name in sorted(NAMES)), "]"]
    return "\n".join(lines) + "\n"


def _class(name: str, kind: type[Struct]) -> Iterator[str]:
    if not kind.model_fields:
        yield f"class {name}({kind.__name__}): ..."
        return
    yield f"class {name}({kind.__name__}):"
    counts = [f"{count}: int | integer[Any] = ..." for count in kind.c_counts]
    in_c = [_parameter(kind, field, spelling) for spelling, field in ((c_member(field), field) for field in kind.model_fields)]
    in_python = [_parameter(kind, field, field) for field in kind.model_fields]
    for parameters in (in_c + counts, in_python):
        yield "    @overload"
        yield f"    def __init__(self, *, {', '.join(parameters)}) -> None: ..."


def _parameter(kind: type[Struct], field: str, spelling: str) -> str:
    annotation, optional = accepted_type(kind, field)
    default = "" if kind.model_fields[field].is_required() and field not in _OPTIONAL else " = ..."
    return f"{spelling}: {annotation}{' | None' if optional else ''}{default}"
