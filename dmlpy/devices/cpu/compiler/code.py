"""Pieces of LLVM code that intrinsics share."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

_COUNT = ir.IntType(32)


def declared(module: Any, kind: Any, name: str) -> Any:
    """A function that LLVM or the process defines."""
    return module.globals.get(name) or ir.Function(module, kind, name)


def allocated(builder: Any, kind: Any, count: int | None = None) -> Any:
    """Room on the stack, allocated once for a call of the function: for a value, or for some in a row."""
    with builder.goto_entry_block():
        return builder.alloca(kind, size=None if count is None else _COUNT(count))


def unpacked(builder: Any, packed: Any) -> list[Any]:
    """The values of a tuple that an intrinsic gets."""
    return [builder.extract_value(packed, place) for place in range(packed.type.count)]
