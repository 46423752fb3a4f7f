"""The origin of an expression's node: the line of the caller's script, and the names of the scopes around it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from dmlpy.system.files import current_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_AS_CALLERS = "dmlpy.docs.error_examples"
"""Modules of dmlpy whose functions do what callers do."""

_SCOPES: ContextVar[tuple[str, ...]] = ContextVar("dmlpy.x scopes", default=())
_ORIGIN: ContextVar[str] = ContextVar("dmlpy.x origin", default="")


@contextmanager
def name_scope(name: str) -> Iterator[None]:
    """Names the nodes that are made within the block: `encoder/convolution` in the scope `encoder`. Scopes may be nested."""
    token = _SCOPES.set((*_SCOPES.get(), name))
    try:
        yield
    finally:
        _SCOPES.reset(token)


@contextmanager
def locate_at(origin: str) -> Iterator[None]:
    """Names where the nodes that are made within the block come from, in place of the caller's line: `from ONNX node 'conv1'`."""
    token = _ORIGIN.set(origin)
    try:
        yield
    finally:
        _ORIGIN.reset(token)


def scoped_name(name: str) -> str:
    """A node's name with those of the scopes around it."""
    return "/".join((*_SCOPES.get(), name))


def caller_location() -> str:
    """The line outside of dmlpy that made the call: `at net.py:12`; empty if dmlpy itself is the program."""
    if origin := _ORIGIN.get():
        return origin
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not f"{module}.".startswith("dmlpy.") or module.startswith(_AS_CALLERS):
            return f"at {_display_path(frame.f_code.co_filename)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""


def _display_path(file: str) -> str:
    """The file as a message names it: relative to the current folder if it lies below, else with its folder's name."""
    path = Path(file)
    here = current_folder()
    if here is not None and path.is_relative_to(here):
        return str(path.relative_to(here))
    return str(Path(*path.parts[-2:]) if path.is_absolute() else path)
