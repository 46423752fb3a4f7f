"""The plan of FOLD: zeros, to which the elements of all columns are added, in each plane one element of the window after the other."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.movement.copies import fill_of, window_parts
from dmlpy.devices.cpu.movement.plan import CopyPlan, Elements
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import PlanWithoutConstants, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices.plan import Launch, Pointers
    from dmlpy.operators.movement.blocks import FoldDesc

SUMS = Kernel("dmlpy.devices.cpu.movement.fold_kernels:build_sums", 5)
"""Sums of columns in an image. The choice is the instruction set."""

_WORK_OF_A_THREAD = 1 << 15
"""Elements that are worth waking another thread for."""


class SumsParameters(UnitParameters):
    """The parameters of sums of columns. Units are planes of the image: a channel each."""

    channels: Count = field("channels of an image")
    x: Address = field("the columns")
    x_batch: Bytes = field("from the columns of an image to those of the next")
    x_channel: Bytes = field("from the first element of a column for a channel to that for the next")
    x_row: Bytes = field("from a row of columns to the next")
    x_column: Bytes = field("from a column to the next")
    y: Address = field("the image")
    y_batch: Bytes = field("from an image to the next")
    y_channel: Bytes = field("from a channel to the next")
    y_row: Bytes = field("in the image from the place of a row of columns to that of the next")
    y_column: Bytes = field("in the image from the place of a column to that of the next")
    axes: Count = field("axes of the columns besides rows and columns of them")
    steps: Address = field("the axes, innermost first, int64 [axes, 2]: bytes from an entry to the next in the columns and in the image")
    parts: Address = field(
        "elements of the window, int64 [count, 5 + axes]: the bytes from the first element of a plane, in the columns and in the image, "
        "rows, columns, entries along all axes, and along each one"
    )
    count: Count = field("elements of the window that are somewhere inside of the image")
    part_size: Bytes = field("from a part to the next")


class FoldPlan(PlanWithoutConstants):
    """Sums of columns in an image.

    Args:
        desc: a checked desc of FLOAT32.
    """

    temporary_size = 0

    def __init__(self, desc: FoldDesc) -> None:
        columns, image = Elements.of("input_tensor", desc.input_tensor), Elements.of("output_tensor", desc.output_tensor)
        self._zeros = CopyPlan([fill_of(image, 0)])
        parts = list(window_parts(desc, columns, image))
        batch, channels = image.shape[:2]
        added = batch * channels * sum(prod(part.shape[2:]) for part, _ in parts)
        self._count, self._shares = len(parts), WorkShares(batch * channels, Threads.of(available_threads(), added, _WORK_OF_A_THREAD))
        self._values: dict[str, Any] = {**self._shares.values, "channels": channels, "count": len(parts)}
        for name, elements in zip("xy", parts[0] if parts else (), strict=False):
            of_batch, of_channel, *_ = elements.strides
            of_row, of_column = (0, *elements.strides[2:])[-2:]
            self._values |= {f"{name}_batch": of_batch, f"{name}_channel": of_channel, f"{name}_row": of_row, f"{name}_column": of_column}
        rows = [_part(part, sums) for part, sums in parts]
        steps = [list(zip(*(elements.strides[2:-2] for elements in pair), strict=True))[::-1] for pair in parts[:1]]
        self._parts, self._steps = FixedArray.of_rows(rows), FixedArray.of_rows(steps[0] if steps else [])
        self._values |= {"axes": len(image.shape[2:-2]), "part_size": 8 * len(rows[0]) if rows else 0}

    def load(self) -> None:
        self._zeros.load()
        SUMS(host_isa())

    def describe(self) -> str:
        return f"zeros: {self._zeros.describe()}\n{self._count} sums, compiled by LLVM on {self._shares}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        addresses = {"x": tensors["input_tensor"], "y": tensors["output_tensor"], "parts": self._parts, "steps": self._steps}
        values: Mapping[str, Any] = self._values | addresses
        sums = TaskLaunch.of(SUMS(host_isa()), SumsParameters.bound(values), self._shares.threads)
        return in_order([self._zeros.bind(tensors, temporary, None), *([sums] if self._count else [])])


def _part(part: Elements, sums: Elements) -> Sequence[int]:
    """The numbers of an element of the window."""
    *outer, rows, columns = part.shape[2:] if len(part.shape) > 3 else (1, part.shape[2])
    return [part.offset, sums.offset, rows, columns, prod(outer), *reversed(outer)]
