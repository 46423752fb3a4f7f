"""The plans of poolings: max, average and norms, of bytes, with indices and their gradient, and the parameters of their kernels."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.sized_arrays import SizedArray
from dmlpy.devices.cpu.convolution.depthwise import Planes, RowBlockParameters, RowBlocks
from dmlpy.devices.cpu.convolution.layout import InputTileLayout, byte_strides
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Flag, Float32, UnitParameters, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.operators.pooling.average import AveragingDesc
from dmlpy.operators.pooling.lp import NormPoolingDesc
from dmlpy.reference.windows import Along

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.cpu.structs import Parameters
    from dmlpy.devices.numpy.convolution.geometry import Array
    from dmlpy.operators.pooling.maximum import IndexedPoolingDesc, MaxPoolingGradDesc
    from dmlpy.operators.pooling.windows import ForwardPoolingDesc


class PoolingParameters(UnitParameters):
    """The parameters of a pooling. A tile is some of the image tiles: rows of positions in a channel of an image.

    The input tile of an image tile is copied by `input_tile_gather`, whose fields are among these.
    """

    row_splits: Count = field("image tiles of a channel")
    image_planes: Count = field("channels of an image")
    channels: Count = field("planes of an input tile: 1")
    depth: Count = field("slices of a channel: 1")
    height: Count = field("rows of the input")
    width: Count = field("columns of the input")
    out_height: Count = field("rows of positions")
    out_width: Count = field("positions of a row")
    stride_y: Count = field("rows from a position of the window to the next below")
    stride_x: Count = field("columns from a position of the window to the next")
    pad_y: Count = field("rows of padding above the input")
    pad_x: Count = field("columns of padding left of the input")
    dilation_z: Count = field("not used: there is one slice")
    depth_taps: Count = field("taps of the window along the depth: 1")
    window_y: Count = field("rows of the window")
    window_x: Count = field("columns of the window")
    dilation_y: Count = field("with indices, rows from a tap of the window to the next below")
    dilation_x: Count = field("with indices, columns from a tap of the window to the next")
    taps: Count = field("taps of the window")
    rows: Count = field("rows of positions of an image tile")
    subplane_rows: Count = field("rows of a subplane of the input tile")
    run_rows: Count = field("rows of a subplane that are copied before some of the input are left out")
    left_out_rows: Count = field("rows of the input that are left out after them")
    pitch: Count = field("elements from a row of a subplane to the next")
    plane: Bytes = field("the size of the input tile")
    within_window: Flag = field("whether vectors run along the rows of each window, whose elements are contiguous, and nothing is copied")
    joins_planes: Flag = field("whether each plane has a single window, and all planes lie `input_channel` and `output_channel` apart")
    input: Address = field("the input")
    input_image: Bytes = field("from an image of the input to the next")
    input_channel: Bytes = field("from a channel of the input to the next")
    input_slice: Bytes = field("not used: there is one slice")
    input_row: Bytes = field("from a row of the input to the next")
    input_element: Bytes = field("from an element of a row to the next")
    offsets: Address = field("for each tap the bytes from a position to what it reads, int64 [taps]")
    output: Address = field("the output")
    output_image: Bytes = field("from an image of the output to the next")
    output_channel: Bytes = field("from a channel of the output to the next")
    output_row: Bytes = field("from a row of the output to the next")
    output_element: Bytes = field("from a position of a row to the next")
    numbers: Address = field("with indices, for each tap the elements of a channel from a position to what it reads, int64 [taps]")
    indices: Address = field("the indices")
    indices_image: Bytes = field("from an image of the indices to the next")
    indices_channel: Bytes = field("from a channel of the indices to the next")
    indices_row: Bytes = field("from a row of the indices to the next")
    indices_element: Bytes = field("from an index of a row to the next")
    index_bytes: Bytes = field("the size of an index: 4 or 8")
    row_counts: Address = field("an average's divisors of rows of positions, float32")
    column_counts: Address = field("an average's divisors of columns of positions, float32, a whole number of vectors")
    scratch: Address = field("the scratch of all threads")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    order: Count = field("a norm's order P")
    inverse_order: Float32 = field("1 / P")
    padding: Float32 = field("the value outside of the input")


def counts_along(desc: Any, axis: int, lanes: int = 1) -> FixedArray:
    """The number of elements that count along an axis in each position of its windows, float32; ones fill the last vector.

    Args:
        desc: a checked desc of averages, or their gradient.
        axis: the axis, counted from the last one.
        lanes: the lanes of a vector.
    """

    def counts(numbers: Array) -> Array:
        window = Along.of(*numbers.tolist())
        taps: Array = (window.padded if desc.include_padding else window.inside).sum(axis=0).astype(np.float32)
        return np.pad(taps, (0, -len(taps) % lanes), constant_values=1.0)

    tensors, dilations = desc.tensors(), getattr(desc, "dilations", (1,) * len(desc.window_size))
    slid, positioned = tensors[desc.slid_over].sizes, tensors[desc.positioned].sizes
    values = desc.window_size, positioned, desc.strides, dilations, desc.start_padding, slid, desc.end_padding
    return FixedArray(SizedArray.mapped_from([value[axis] for value in values], counts, (-(-positioned[axis] // lanes) * lanes,)))


def window_counts(desc: Any, isa: Isa) -> tuple[FixedArray, FixedArray]:
    """The number of elements that count in each row and column of windows, as `counts_along` gives them; columns in vectors."""
    return counts_along(desc, -2), counts_along(desc, -1, isa.lanes)


POOLING = Kernel("dmlpy.devices.cpu.pooling.kernels:build_pooling", 5)
"""The pooling: what is computed of a window's elements, the type of tensors, and the instruction set."""
NORMS = Kernel("dmlpy.devices.cpu.pooling.norm_kernels:build_norms", 5)
"""The Lp pooling: the terms that are added, the type of tensors, and the instruction set."""
INDEXED_POSITIONS = Kernel("dmlpy.devices.cpu.pooling.indexed_kernels:build_indexed_positions", 5)
"""Max pooling with indices by vectors of positions: the type of tensors, and the instruction set."""

_MOST_NUMBERS = 1 << 31
_INPUT_TILE_BYTES = 1 << 17
"""Bytes of an input tile, at most."""
_WORK_OF_A_THREAD = 1 << 20
"""Taps of all positions that are worth waking another thread for."""
_INDEXED_COST = 4
"""Taps in the time of one whose place is kept."""
_COUNTS = ("row_counts", "column_counts")
"""The parameters with an average's divisors; a maximum has none."""


class PoolingPlan(PlanWithoutConstants):
    """A pooling of floats over two dimensions by a compiled kernel.

    Args:
        desc: a checked desc of four dimensions.
    """

    def __init__(self, desc: ForwardPoolingDesc) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._tensors, self._isa = desc.tensors(), host_isa()
        self._storage = storage_of(desc.input_tensor.data_type)
        self._averages, self._order = isinstance(desc, AveragingDesc), desc.p if isinstance(desc, NormPoolingDesc) else 0
        (batch, channels, height, width), (_, _, *out) = desc.input_tensor.sizes, desc.output_tensor.sizes
        self._planes, self._channels, self._spatial, self._out = batch * channels, channels, (height, width), (out[0], out[1])
        dilations = getattr(desc, "dilations", (1, 1))
        window = desc.window_size[-2], desc.window_size[-1]
        down, right = (1 if positions == 1 else stride for positions, stride in zip(out, desc.strides[-2:], strict=True))
        strides = down, right  # no stride leads from a single position to the next
        self._indices, self._dilations = self._tensors.get("output_indices_tensor"), (dilations[-2], dilations[-1])
        self._starts = desc.start_padding[-2:]
        self._window, self._strides = window, strides
        # If a row has few windows, such as one that covers the image, vectors run along a window's elements.
        few = out[1] < self._isa.lanes // 2 and window[1] >= strides[1] * 2
        self._within_window = (
            few and tuple(dilations[-2:]) == (1, 1) and byte_strides(desc.input_tensor)[4] == desc.input_tensor.data_type.numpy.itemsize
        )
        single = InputTileLayout(1, out[1], window, strides, (dilations[-2], dilations[-1]))
        rows = single.most_rows(_INPUT_TILE_BYTES // (single.plane // single.subplane_rows))
        self._input_tile = replace(single, rows=ceil(out[0] / ceil(out[0] / rows)))
        self._row_splits = ceil(out[0] / self._input_tile.rows)
        taps = self._planes * prod(out) * prod(window)
        self._shares = WorkShares(self._planes * self._row_splits, Threads.of(available_threads(), taps, _WORK_OF_A_THREAD))
        lanes = self._isa.lanes * FLOAT_BYTES
        beyond = 2 * lanes if self._indices is None else 4 * lanes  # a vector that reaches past the tile, and those of `_INDEXED` kernels
        self._scratch_size = lanes * self._isa.lanes if self._within_window else aligned(self._input_tile.plane + beyond)
        self.temporary_size = self._shares.threads.most * self._scratch_size
        self._offsets = None if self._within_window else self._input_tile.offsets()
        self._counts = window_counts(desc, self._isa) if self._averages else ()
        self._numbers = None
        if self._indices is not None:  # windows without indices may be images, of many elements or of open sizes
            numbers = [
                row * self._dilations[0] * width + column * self._dilations[1] for row in range(window[0]) for column in range(window[1])
            ]
            self._numbers = FixedArray.of_rows([numbers])

    def load(self) -> None:
        self._kernel()

    def _kernel(self) -> Function:
        if self._indices is not None:
            return INDEXED_POSITIONS(self._storage, self._isa)
        if self._order:
            return NORMS({1: "magnitudes", 2: "squares"}.get(self._order, "powers"), self._storage, self._isa)
        return POOLING("average" if self._averages else "max", self._storage, self._isa)

    def takes_indices(self) -> bool:
        """Whether the kernel of positions finds indices: a row has several windows, and an element's number fits in 31 bits."""
        return not self._within_window and prod(self._spatial) < _MOST_NUMBERS

    def is_dense(self, most: int) -> bool:
        """Whether an input tile has at most `most` times as many elements as its windows read."""
        input_tile = self._input_tile
        return self._within_window or input_tile.plane <= most * prod(input_tile.taps) * input_tile.rows * input_tile.columns * FLOAT_BYTES

    def describe(self) -> str:
        what = (
            "a window's elements"
            if self._within_window
            else f"positions; tiles of {self._input_tile.rows} row(s), copied with their padding"
        )
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; vectors of {what}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        parameters = self._parameters(tensors, temporary)
        return TaskLaunch.of(self._kernel(), parameters, self._shares.threads)

    def _parameters(self, tensors: Pointers, temporary: int) -> Parameters:
        (height, width), (window_y, window_x), input_tile = self._spatial, self._window, self._input_tile
        source, output = (byte_strides(self._tensors[name]) for name in ("input_tensor", "output_tensor"))
        joins_images = all(image == self._channels * channel for image, channel, *_ in (source, output))
        is_whole = self._out == (1, 1) and (window_y, window_x) == (height, width) and not any(self._starts)
        if self._within_window and is_whole and source[3] == width * source[4]:
            # A window over the whole of an image without gaps: one row.
            height, width, window_y, window_x = 1, height * width, 1, height * width
        values: dict[str, Any] = {
            **self._shares.values,
            "row_splits": self._row_splits,
            "image_planes": self._channels,
            "channels": 1,
            "depth": 1,
            "depth_taps": 1,
            "height": height,
            "width": width,
            "out_height": self._out[0],
            "out_width": self._out[1],
            "stride_y": self._strides[0],
            "stride_x": self._strides[1],
            "pad_y": self._starts[0],
            "pad_x": self._starts[1],
            "window_y": window_y,
            "window_x": window_x,
            "taps": prod(self._window),
            "rows": input_tile.rows,
            "subplane_rows": input_tile.subplane_rows,
            "run_rows": input_tile.run_rows,
            "left_out_rows": input_tile.left_out_rows,
            "pitch": input_tile.pitch,
            "plane": input_tile.plane,
            "within_window": self._within_window,
            "joins_planes": self._within_window and self._out == (1, 1) and joins_images,
            "input": tensors["input_tensor"],
            "input_image": source[0],
            "input_channel": source[1],
            "input_row": source[3],
            "input_element": source[4],
            "offsets": self._offsets or 0,
            "output": tensors["output_tensor"],
            "output_image": output[0],
            "output_channel": output[1],
            "output_row": output[3],
            "output_element": output[4],
            **dict(zip(_COUNTS, self._counts, strict=False)),
            "scratch": temporary,
            "scratch_size": self._scratch_size,
            "padding": 0.0 if self._averages or self._order else -inf,
            "order": self._order,
            "inverse_order": 1.0 / (self._order or 1),
        }
        if self._indices is not None:
            image, channel, _, row, element = byte_strides(self._indices)
            values |= {"dilation_y": self._dilations[0], "dilation_x": self._dilations[1], "numbers": self._numbers}
            values |= {"indices": tensors["output_indices_tensor"], "indices_image": image, "indices_channel": channel}
            values |= {"indices_row": row, "indices_element": element, "index_bytes": self._indices.data_type.numpy.itemsize}
        return PoolingParameters.bound(values)


class RowBlockPoolingPlan(PlanWithoutConstants):
    """A pooling of floats over two dimensions in row blocks of its planes.

    Args:
        desc: a checked desc of four dimensions, without indices.
        planes: its planes, which can be computed in row blocks.
    """

    temporary_size = 0

    def __init__(self, desc: ForwardPoolingDesc, planes: Planes) -> None:
        isa = host_isa()
        self._threads = Threads.of(available_threads(), planes.taps, _WORK_OF_A_THREAD)
        self._averages = isinstance(desc, AveragingDesc)
        self._row_blocks = RowBlocks("average" if self._averages else "max", planes, desc.tensors(), self._threads.most, isa)
        self._counts = window_counts(desc, isa) if self._averages else ()

    @classmethod
    def of(cls, desc: ForwardPoolingDesc) -> RowBlockPoolingPlan | None:
        """The plan; None of norms, without row blocks, or with a single window, along whose rows vectors run (see `PoolingPlan`)."""
        assert desc.output_tensor is not None  # guaranteed by the check
        if isinstance(desc, NormPoolingDesc):
            return None
        (images, channels, *spatial), (_, _, *out) = desc.input_tensor.sizes, desc.output_tensor.sizes
        sizes = spatial, out, desc.window_size, desc.strides, desc.start_padding
        planes = Planes(images, channels, *((size[-2], size[-1]) for size in sizes))
        isa, dilations = host_isa(), getattr(desc, "dilations", (1, 1))
        undilated = all(taps == 1 or dilation == 1 for taps, dilation in zip(planes.window, dilations[-2:], strict=True))
        fits = undilated and planes.out != (1, 1) and planes.fit_row_blocks(desc.tensors(), isa.lanes, isa)
        return cls(desc, planes) if fits else None

    def load(self) -> None:
        self._row_blocks.kernel()

    def describe(self) -> str:
        tiles = f"{self._row_blocks.tiles} tile(s)"
        return f"compiled by LLVM, float32 arithmetic on {self._threads}; {tiles}\n{self._row_blocks.describe()}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = self._row_blocks.values(tensors)
        values |= zip(_COUNTS, self._counts, strict=False)
        parameters = RowBlockParameters.bound(values)
        return TaskLaunch.of(self._row_blocks.kernel(), parameters, self._threads)


INDEXED_POOLING = Kernel("dmlpy.devices.cpu.pooling.indexed_kernels:build_indexed_pooling", 5)
"""Max pooling with indices: the type of tensors, and the instruction set."""
INDEXED_INTEGERS = Kernel("dmlpy.devices.cpu.pooling.indexed_kernels:build_indexed_integers", 5)
"""Max pooling of integers with indices: NumPy's name of their type."""
POOLING_GRADIENT = Kernel("dmlpy.devices.cpu.pooling.indexed_kernels:build_pooling_gradient", 5)
"""The gradient of max pooling: the type of tensors, and the instruction set."""


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


class SliceWindowParameters(WindowParameters):
    """The same with the slices of planes, of which those of two dimensions have one, and where elements lie."""

    depth: Count = field("slices of the input")
    out_depth: Count = field("slices of positions")
    window_z: Count = field("slices of the window")
    stride_z: Count = field("slices from a position of the window to the next behind")
    dilation_z: Count = field("slices from a tap of the window to the next behind")
    pad_z: Count = field("slices of padding before the input")
    input: Address = field("the input x")
    input_image: Bytes = field("from an image of x to the next")
    input_channel: Bytes = field("from a channel of x to the next")
    input_slice: Bytes = field("from a slice of x to the next")
    input_row: Bytes = field("from a row of x to the next")
    input_element: Bytes = field("from an element of a row of x to the next")
    pooled: Address = field("the tensor of all positions: the result, or the incoming gradient")
    pooled_image: Bytes = field("from an image of it to the next")
    pooled_channel: Bytes = field("from a channel of it to the next")
    pooled_slice: Bytes = field("from a slice of it to the next")
    pooled_row: Bytes = field("from a row of it to the next")
    pooled_element: Bytes = field("from an element of a row of it to the next")


class IndexedPoolingParameters(SliceWindowParameters):
    """The parameters of both kernels."""

    other: Address = field("the indices, or the gradient of x")
    other_image: Bytes = field("from an image of it to the next")
    other_channel: Bytes = field("from a channel of it to the next")
    other_slice: Bytes = field("from a slice of it to the next")
    other_row: Bytes = field("from a row of it to the next")
    other_element: Bytes = field("from an element of a row of it to the next")
    index_bytes: Bytes = field("the size of an index: 4 or 8")
    scratch: Address = field("for each thread the gradient of a plane, float32")
    scratch_size: Bytes = field("from a thread's scratch to the next")


def slice_windows(desc: Any, pooled: Sequence[int]) -> dict[str, Any]:
    """The values of `SliceWindowParameters` for a checked desc with windows, and the sizes of its tensor of all positions."""
    (_, channels, *spatial), (_, _, *out) = desc.tensors()[desc.slid_over].sizes, pooled
    count = len(spatial)
    dilations = getattr(desc, "dilations", (1,) * count)
    axes = {"window": desc.window_size, "stride": desc.strides, "dilation": dilations, "pad": desc.start_padding}
    sizes = zip(("depth", "height", "width"), (*(1,) * (3 - count), *spatial), (*(1,) * (3 - count), *out), strict=True)
    values: dict[str, Any] = {"channels": channels}
    values |= {name: value for axis, size, positions in sizes for name, value in ((axis, size), (f"out_{axis}", positions))}
    for name, along in axes.items():
        alone = (0 if name == "pad" else 1,) * (3 - count)
        values |= zip((f"{name}_{axis}" for axis in "zyx"), (*alone, *along), strict=True)
    return values


def steps_of(name: str, tensor: TensorDesc) -> dict[str, int]:
    """The parameters of a tensor's strides in bytes, by name."""
    steps = zip(("image", "channel", "slice", "row", "element"), byte_strides(tensor), strict=True)
    return {f"{name}_{what}": step for what, step in steps}


class IndexedPoolingPlan(PlanWithoutConstants):
    """A max pooling with indices, of floats or integers, or the gradient of one of floats.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: IndexedPoolingDesc | MaxPoolingGradDesc) -> None:
        from dmlpy.operators.pooling.maximum import MaxPoolingGradDesc  # averages need none of them

        self._tensors, self._is_gradient = desc.tensors(), isinstance(desc, MaxPoolingGradDesc)
        self._data_type = desc.input_tensor.data_type
        self._names = (
            ("input_gradient_tensor", "output_gradient_tensor") if self._is_gradient else ("output_tensor", "output_indices_tensor")
        )
        (batch, channels, *spatial), (_, _, *out) = desc.input_tensor.sizes, self._tensors[self._names[0]].sizes
        self._planes, self._values = batch * channels, slice_windows(desc, self._tensors[self._names[0]].sizes)
        taps = self._planes * prod(out) * prod(desc.window_size)
        self._shares = WorkShares(self._planes, Threads.of(available_threads(), _INDEXED_COST * taps, _WORK_OF_A_THREAD))
        self._scratch_size = aligned(prod(spatial) * FLOAT_BYTES) if self._is_gradient else 0
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def _kernel(self) -> Any:
        if self._data_type.numpy.kind in "iu":
            return INDEXED_INTEGERS(self._data_type.numpy.name)
        return (POOLING_GRADIENT if self._is_gradient else INDEXED_POOLING)(storage_of(self._data_type), host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        of = self._data_type.numpy.name if self._data_type.numpy.kind in "iu" else "float32"
        return f"compiled by LLVM, {of} arithmetic on {self._shares}; {self._planes} plane(s), one window after the other"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            **self._values,
            "scratch": temporary if self._scratch_size else 0,
            "scratch_size": self._scratch_size,
        }
        for name, place in zip(("input", "pooled", "other"), ("input_tensor", *self._names), strict=True):
            values |= {name: tensors[place], **steps_of(name, self._tensors[place])}
        if not self._is_gradient:
            values["index_bytes"] = self._tensors[self._names[1]].data_type.numpy.itemsize
        return TaskLaunch.of(self._kernel(), IndexedPoolingParameters.bound(values), self._shares.threads)
