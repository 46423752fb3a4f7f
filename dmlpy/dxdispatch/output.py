"""Values as the console shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.description.enums import DataType
    from dmlpy.dxdispatch.files import Array


def number(value: float) -> str:
    """Formats a value as a C++ stream prints it: integers plain, others with up to 6 significant digits."""
    return str(value) if isinstance(value, int) else f"{value:g}"


def line(name: str, values: Array) -> str:
    """Formats all values of a resource on one line."""
    return f"Resource '{name}': {', '.join(number(value) for value in values.tolist())}"


def verbose(name: str, values: Array, data_type: DataType) -> Iterator[str]:
    """Formats a line for each value, with its bits."""
    yield f"Resource '{name}':"
    digits = data_type.bits // 4
    mask = (1 << data_type.bits) - 1
    bits = values.view(f"u{values.itemsize}").tolist()
    width = len(str(values.size))
    for index, (value, word) in enumerate(zip(values.tolist(), bits, strict=True)):
        yield f"[{index:>{width}}] {number(value)} (0x{word & mask:>{digits}X})"
