"""Objects of callers whose methods raise what nobody expects of them."""

from __future__ import annotations

from typing import Any


class Raises:
    """An object whose methods raise what nobody expects of them."""

    def _raise(self, *arguments: Any, **named: Any) -> Any:
        raise OSError("hostile")

    __len__ = __iter__ = __index__ = __float__ = __int__ = __getitem__ = __eq__ = __bool__ = __array__ = __repr__ = _raise
    __hash__ = None  # type: ignore[assignment]


class RaisingText(str):
    def strip(self, *arguments: Any) -> Any:
        raise OSError("hostile")


class RaisingInteger(int):
    def __index__(self) -> int:
        raise OSError("hostile")

    __int__ = __float__ = __eq__ = __index__  # type: ignore[assignment]
    __hash__ = int.__hash__


class RaisingMapping(dict[str, Any]):
    def items(self) -> Any:
        raise OSError("hostile")

    keys = __iter__ = __len__ = __getitem__ = items  # type: ignore[assignment]
