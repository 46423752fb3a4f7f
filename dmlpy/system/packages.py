"""The message for a package of an extra that is not installed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def packages_of(extra: str, *packages: str) -> Iterator[None]:
    """Says which extra brings a package that an import within lacks.

    Args:
        extra: the extra, which has the name of the module that needs it.
        *packages: the packages that it brings.

    Raises:
        ModuleNotFoundError: a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        text = f"dmlpy.{extra} needs the package {error.name}: pip install 'dmlpy[{extra}]'"
        raise ModuleNotFoundError(text, name=error.name) from None
