"""The commands of a model, and requirements on the resources that they print and write."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.dxdispatch.npy import MAX_DIMENSIONS
from dmlpy.dxdispatch.onnx_dispatchables import OnnxDispatch
from dmlpy.dxdispatch.pictures import IMAGE_SUFFIXES, IMAGE_TYPES
from dmlpy.messages.naming import Count
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dmlpy.dxdispatch.bindings import Dispatchable, Range
    from dmlpy.dxdispatch.resources import Resource


@dataclass(frozen=True)
class Dispatch:
    """Runs an operator or a graph over parts of resources, by field."""

    dispatchable: Dispatchable
    bindings: Mapping[str, Range]


@dataclass(frozen=True)
class Print:
    """Prints a resource's values."""

    resource: Resource
    verbose: bool

    def check(self, resource: Resource) -> None:
        """Raises DescError if the resource's values cannot be printed; those of a deferred one are known when the command runs."""
        _check_readable(resource, "printed")


@dataclass(frozen=True)
class WriteFile:
    """Writes a resource to a file below the output folder."""

    resource: Resource
    target: Path
    dimensions: tuple[int, ...]

    @property
    def typed(self) -> bool:
        """Whether the file holds values, and not the bytes of the buffer."""
        suffix = self.target.suffix.lower()
        return suffix == ".npy" or suffix in IMAGE_SUFFIXES

    def check(self, resource: Resource) -> None:
        """Checks that the file can hold the resource's values.

        Args:
            resource: the resource with its contents: those of a deferred one are known when the command runs.

        Raises:
            DescError: it cannot.
        """
        if self.typed:
            suffix = self.target.suffix.lower()
            _check_readable(resource, f"written to a {suffix} file")
            _check_fitting(self.dimensions, resource, suffix)


Action = Dispatch | OnnxDispatch | Print | WriteFile


@dataclass(frozen=True)
class Command:
    """One command: its action, and its text in the file."""

    action: Action
    source: Mapping[str, Any]


def _check_readable(resource: Resource, verb: str) -> None:
    """Raises DescError if the values of a resource with memory have no single type; `verb` is what the command does with them."""
    if resource.data_type is None:
        why = (f"it cannot be {verb}",)
        actual = f"{resource.name!r}, a struct of mixed values"
        raise DescError("command", [Problem("command.resource", "resource", actual, "values of one type", why)])


MAX_EMPTY_ELEMENTS = 2**60 - 1
"""The product of an array's sizes other than 0, at most: NumPy makes no array of more than 2^63 - 1 bytes, not even an empty one."""


def _check_fitting(dimensions: tuple[int, ...], resource: Resource, suffix: str) -> None:
    if len(dimensions) > MAX_DIMENSIONS:
        # The number of elements of too many sizes is not needed, and may have millions of digits.
        problem = Problem("command.dimensions", "dimensions", Count(f"{len(dimensions)} sizes"), f"at most {MAX_DIMENSIONS}")
        raise DescError("command", [problem])
    problems = []
    actual = str(list(dimensions))
    if dimensions and math.prod(dimensions) > resource.count:
        why = (f"they have {math.prod(dimensions)} elements",)
        problems.append(Problem("command.dimensions", "dimensions", actual, f"at most the {resource.count} values of the resource", why))
    elif (others := math.prod(size for size in dimensions if size)) > MAX_EMPTY_ELEMENTS:
        why = (f"without the zeros they have {others} elements",)
        problems.append(Problem("command.dimensions", "dimensions", actual, "sizes that an array can have", why))
    if suffix == ".npy":
        if resource.data_type is not None and resource.data_type.bits == 4:
            problems.append(Problem("command.resource", "resource", str(resource.data_type), "a type that .npy files have"))
    else:
        if len(dimensions) != 4 or dimensions[0] != 1 or dimensions[1] not in (1, 3, 4) or min(dimensions) < 1:
            problems.append(Problem("command.dimensions", "dimensions", actual, "[1, C, H, W] with C = 1, 3 or 4 for a picture"))
        if resource.data_type not in IMAGE_TYPES:
            problems.append(Problem("command.resource", "resource", str(resource.data_type), "FLOAT32 or FLOAT16 for a picture"))
    if problems:
        raise DescError("command", problems)
