"""The plan of local response normalization and its gradient, and the parameters of their kernels."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.axes import merged
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Float32, UnitParameters, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.operators.normalization.local_response import LocalResponseDesc

RESPONSES = Kernel("dmlpy.devices.cpu.normalization.local_response_kernels:build_responses", 5)
"""The normalization: whether the exponent is 3 / 4, the type of tensors, and the instruction set."""
RESPONSE_GRADIENT = Kernel("dmlpy.devices.cpu.normalization.local_response_kernels:build_response_gradient", 5)
"""Its gradient, likewise."""

_WORK_OF_A_THREAD = 1 << 15
"""Elements that are worth waking another thread for."""
_BLOCK_ELEMENTS = 1 << 14
"""Elements of a block, about: two arrays of as many stay in a cache."""
_FEWEST_COLUMNS = 64
"""Columns of a block, at least, where there are as many: cache lines that follow one another are read soon enough."""
_USUAL_BETA = 0.75


class LocalResponseParameters(UnitParameters):
    """The parameters of both kernels. A tile is some of the blocks of planes, whose columns are contiguous.

    A window has the rows and columns around an element, or those of them that there are.
    """

    row_blocks: Count = field("blocks of a plane's rows: 1 if windows have several")
    column_blocks: Count = field("blocks of a plane's columns: 1 if windows have several")
    block_rows: Count = field("rows of a block")
    block_columns: Count = field("columns of a block")
    rows: Count = field("rows of a plane")
    columns: Count = field("columns of a plane")
    above: Count = field("rows of a window above an element")
    below: Count = field("rows of a window below an element")
    before: Count = field("columns of a window before an element")
    after: Count = field("columns of a window after an element")
    pitch: Count = field("elements of a row of scratch")
    scale: Float32 = field("the factor of sums of squares: alpha / local_size")
    bias: Float32 = field("what is added to them")
    beta: Float32 = field("the power of the divisors")
    factor: Float32 = field("the gradient's factor: 2 alpha beta / local_size")
    x: Address = field("the input x")
    x_plane: Bytes = field("from a plane of x to the next")
    x_row: Bytes = field("from a row of x to the next")
    incoming: Address = field("the incoming gradient")
    incoming_plane: Bytes = field("from a plane of it to the next")
    incoming_row: Bytes = field("from a row of it to the next")
    output: Address = field("the output")
    output_plane: Bytes = field("from a plane of the output to the next")
    output_row: Bytes = field("from a row of the output to the next")
    scratch: Address = field("for each thread a row with zeros on both sides and, of a gradient, two arrays of a block, float32")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    line: Count = field("elements of the row: a whole number of vectors")
    shares: Bytes = field("from a thread's scratch to its array of incoming elements that are divided")
    terms: Bytes = field("from a thread's scratch to its array of what is summed over windows")


@dataclass(frozen=True)
class ResponsePlanes:
    """Rows and columns over which windows slide.

    Attributes:
        planes: the number of planes.
        rows: rows of a plane.
        columns: columns of a plane, contiguous in all tensors.
        steps: for each tensor the elements from a plane to the next, and from a row to the next.
        slides: whether windows have several rows, and several columns.
    """

    planes: int
    rows: int
    columns: int
    steps: Mapping[str, tuple[int, int]]
    slides: tuple[bool, bool]

    @classmethod
    def of(cls, tensors: Mapping[str, TensorDesc], *, cross_channel: bool) -> ResponsePlanes | None:
        """The planes of tensors; None if they are not of one stride, or their columns are not contiguous."""
        sizes, strides = next(iter(tensors.values())).sizes, [tensor.element_strides for tensor in tensors.values()]
        windowed = (1,) if cross_channel else (2, 3)
        others = [at for at in range(len(sizes)) if at not in windowed]
        axes = [(axis.size, axis.strides) for axis in merged([sizes[at] for at in others], [[own[at] for at in others] for own in strides])]
        last = windowed[-1]
        ones, along = (1,) * len(strides), [(sizes[at], tuple(own[at] for own in strides)) for at in windowed]
        if sizes[last] == 1 or along[-1][1] == ones:
            columns, slides = along.pop(), (not cross_channel, True)
            rows = along.pop() if along else axes.pop() if axes else (1, (0,) * len(strides))
        elif cross_channel and axes and axes[-1][1] == ones:
            columns, rows, slides = axes.pop(), along.pop(), (True, False)
        else:
            return None
        if len(axes) > 1:
            return None
        planes = axes[0] if axes else (1, (0,) * len(strides))
        steps = dict(zip(tensors, zip(planes[1], rows[1], strict=True), strict=True))
        return cls(planes[0], rows[0], columns[0], steps, slides)


class LocalResponsePlan(PlanWithoutConstants):
    """A local response normalization of floats, or its gradient, by a compiled kernel.

    Args:
        desc: a checked desc whose tensors have one type.
        planes: its planes.
    """

    def __init__(self, desc: LocalResponseDesc, planes: ResponsePlanes) -> None:
        self._desc, self._planes, isa = desc, planes, host_isa()
        tensors = desc.tensors()
        self._is_gradient = "input_gradient_tensor" in tensors
        self._choices = desc.beta == _USUAL_BETA, storage_of(desc.input_tensor.data_type), isa
        before = (desc.local_size - 1) // 2
        reach = before, desc.local_size - 1 - before
        self._above, self._below = (min(own, planes.rows - 1) if planes.slides[0] else 0 for own in reach)
        self._before, self._after = (min(own, planes.columns - 1) if planes.slides[1] else 0 for own in reach)
        columns = planes.columns if planes.slides[1] else min(planes.columns, max(_FEWEST_COLUMNS, _BLOCK_ELEMENTS // planes.rows))
        self._block_columns = columns if columns == planes.columns else columns // isa.lanes * isa.lanes
        self._block_rows = planes.rows if planes.slides[0] else min(planes.rows, max(1, _BLOCK_ELEMENTS // self._block_columns))
        self._blocks = ceil(planes.rows / self._block_rows), ceil(planes.columns / self._block_columns)
        elements = planes.planes * planes.rows * planes.columns
        self._shares = WorkShares(planes.planes * prod(self._blocks), Threads.of(available_threads(), elements, _WORK_OF_A_THREAD))
        self._pitch = ceil(self._block_columns / isa.lanes) * isa.lanes
        # Vectors of the row reach past its end by those of a window.
        self._line = (ceil((self._pitch + self._before + self._after) / isa.lanes) + 1) * isa.lanes
        self._array = aligned(self._pitch * self._block_rows * FLOAT_BYTES) if self._is_gradient else 0
        self._scratch_size = aligned(self._line * FLOAT_BYTES) + 2 * self._array
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def _kernel(self) -> Function:
        return (RESPONSE_GRADIENT if self._is_gradient else RESPONSES)(*self._choices)

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        what = f"{self._planes.planes} plane(s) of {self._planes.rows} x {self._planes.columns}"
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {what} in blocks of {self._block_rows} x {self._block_columns}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        desc, line = self._desc, aligned(self._line * FLOAT_BYTES)
        values: dict[str, Any] = {
            **self._shares.values,
            **dict(zip(("row_blocks", "column_blocks"), self._blocks, strict=True)),
            "block_rows": self._block_rows,
            "block_columns": self._block_columns,
            "rows": self._planes.rows,
            "columns": self._planes.columns,
            "above": self._above,
            "below": self._below,
            "before": self._before,
            "after": self._after,
            "pitch": self._pitch,
            "scale": desc.alpha / desc.local_size,
            "bias": desc.bias,
            "beta": desc.beta,
            "factor": 2 * desc.alpha * desc.beta / desc.local_size,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
            "line": self._line,
            "shares": line,
            "terms": line + self._array,
        }
        output = "output_gradient_tensor" if self._is_gradient else "output_tensor"
        for name, place in (("x", "input_tensor"), ("incoming", "input_gradient_tensor"), ("output", output)):
            if place in tensors:
                size = desc.tensors()[place].data_type.numpy.itemsize
                plane, row = self._planes.steps[place]
                values |= {name: tensors[place], f"{name}_plane": plane * size, f"{name}_row": row * size}
        return TaskLaunch.of(self._kernel(), LocalResponseParameters.bound(values), self._shares.threads)
