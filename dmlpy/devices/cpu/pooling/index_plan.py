"""The plans of max pooling with the indices of the largest elements, and of its gradient."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.layout import byte_strides
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads
from dmlpy.operators.pooling.maximum import MaxPoolingGradDesc

if TYPE_CHECKING:
    from dmlpy.operators.pooling.maximum import IndexedPoolingDesc

INDEXED_POOLING = Kernel("dmlpy.devices.cpu.pooling.index_kernels:build_indexed_pooling", 5)
"""Max pooling with indices: the type of tensors, and the instruction set."""
POOLING_GRADIENT = Kernel("dmlpy.devices.cpu.pooling.index_kernels:build_pooling_gradient", 5)
"""The gradient of max pooling: the type of tensors, and the instruction set."""

_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 18
"""Taps of all positions that are worth waking another thread for."""
_TILES_PER_THREAD = 4
"""Tiles for each thread."""


class WindowParameters(UnitParameters):
    """The planes of a pooling and its windows. A tile is some of the planes: channels of images."""

    channels: Count = field("channels of an image")
    height: Count = field("rows of the input")
    width: Count = field("columns of the input")
    out_height: Count = field("rows of positions")
    out_width: Count = field("positions of a row")
    window_y: Count = field("rows of the window")
    window_x: Count = field("columns of the window")
    stride_y: Count = field("rows from a position of the window to the next below")
    stride_x: Count = field("columns from a position of the window to the next")
    dilation_y: Count = field("rows from a tap of the window to the next below")
    dilation_x: Count = field("columns from a tap of the window to the next")
    pad_y: Count = field("rows of padding above the input")
    pad_x: Count = field("columns of padding left of the input")


class IndexedPoolingParameters(WindowParameters):
    """The parameters of both kernels."""

    input: Address = field("the input x")
    input_image: Bytes = field("from an image of x to the next")
    input_channel: Bytes = field("from a channel of x to the next")
    input_row: Bytes = field("from a row of x to the next")
    input_element: Bytes = field("from an element of a row of x to the next")
    pooled: Address = field("the tensor of all positions: the result, or the incoming gradient")
    pooled_image: Bytes = field("from an image of it to the next")
    pooled_channel: Bytes = field("from a channel of it to the next")
    pooled_row: Bytes = field("from a row of it to the next")
    pooled_element: Bytes = field("from an element of a row of it to the next")
    other: Address = field("the indices, or the gradient of x")
    other_image: Bytes = field("from an image of it to the next")
    other_channel: Bytes = field("from a channel of it to the next")
    other_row: Bytes = field("from a row of it to the next")
    other_element: Bytes = field("from an element of a row of it to the next")
    index_bytes: Bytes = field("the size of an index: 4 or 8")
    scratch: Address = field("for each thread the gradient of a plane, float32")
    scratch_size: Bytes = field("from a thread's scratch to the next")


class IndexedPoolingPlan(PlanWithoutConstants):
    """A max pooling of floats over two dimensions with indices, or the gradient of a max pooling.

    Args:
        desc: a checked desc of four dimensions.
    """

    def __init__(self, desc: IndexedPoolingDesc | MaxPoolingGradDesc) -> None:
        self._tensors, self._is_gradient = desc.tensors(), isinstance(desc, MaxPoolingGradDesc)
        self._storage = storage_of(desc.input_tensor.data_type)
        self._names = (
            ("input_gradient_tensor", "output_gradient_tensor") if self._is_gradient else ("output_tensor", "output_indices_tensor")
        )
        (batch, channels, height, width), (_, _, *out) = desc.input_tensor.sizes, self._tensors[self._names[0]].sizes
        self._planes = batch * channels
        dilations, values = getattr(desc, "dilations", (1, 1)), (desc.window_size, desc.strides, desc.start_padding)
        window, strides, starts = (tuple(own[-2:]) for own in values)
        names = ("out", "window", "stride", "dilation", "pad")
        axes = zip((f"{name}_{axis}" for name in names for axis in "yx"), (*out, *window, *strides, *dilations[-2:], *starts), strict=True)
        self._values: dict[str, Any] = {"channels": channels, "height": height, "width": width, **dict(axes)}
        self._values |= {"out_height": self._values.pop("out_y"), "out_width": self._values.pop("out_x")}
        taps = self._planes * prod(out) * prod(window)
        self._threads = max(1, min(available_threads(), taps // _WORK_OF_A_THREAD, self._planes))
        self._scratch_size = -(-height * width * FLOAT_BYTES // _ALIGNMENT) * _ALIGNMENT if self._is_gradient else 0
        self.temporary_size = self._threads * self._scratch_size

    def _kernel(self) -> Any:
        return (POOLING_GRADIENT if self._is_gradient else INDEXED_POOLING)(self._storage, host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by LLVM, float32 arithmetic on {threads}; {self._planes} plane(s), one window after the other"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            "tiles": min(self._planes, _TILES_PER_THREAD * self._threads) if self._threads > 1 else 1,
            "units": self._planes,
            **self._values,
            "scratch": temporary if self._scratch_size else 0,
            "scratch_size": self._scratch_size,
        }
        for name, place in zip(("input", "pooled", "other"), ("input_tensor", *self._names), strict=True):
            image, channel, _, row, element = byte_strides(self._tensors[place])
            values |= {name: tensors[place], f"{name}_image": image, f"{name}_channel": channel, f"{name}_row": row}
            values[f"{name}_element"] = element
        if not self._is_gradient:
            values["index_bytes"] = self._tensors[self._names[1]].data_type.numpy.itemsize
        return TaskLaunch.of(self._kernel(), IndexedPoolingParameters.bound(values), self._threads)
