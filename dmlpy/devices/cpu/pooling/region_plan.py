"""The plans of ROI_ALIGN, ROI_ALIGN1 and ROI_POOLING, and the parameters of their kernels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import InterpolationMode, ReduceFunction
from dmlpy.devices.cpu.array_functions import ConvertingPlan
from dmlpy.devices.cpu.convolution.layout import byte_strides
from dmlpy.devices.cpu.isa import host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, Float32, Float64, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, arrays_of
from dmlpy.operators.pooling.roi import PlacedRegionsDesc, ROIPoolingDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.operators.pooling.roi import ForwardRegionsDesc, RegionsDesc
    from dmlpy.reference.registry import Array

REGION_SAMPLES = Kernel("dmlpy.devices.cpu.pooling.kernels:build_samples", 5)
"""Means or maxima of samples of regions: the type of tensors, and the instruction set."""
REGION_MAXIMA = Kernel("dmlpy.devices.cpu.pooling.kernels:build_maxima", 5)
"""Maxima of parts of regions: the type of tensors, and the instruction set."""

MOST_SAMPLES = 1 << 10
"""Samples of a region along an axis that a thread's tables hold, at most."""
SAMPLE_BYTES = 24
"""The size of a sample along an axis: the bytes to the pixels before and after it, and how much the latter counts."""
_WORK_OF_A_THREAD = 1 << 15
"""Samples of all output elements that are worth waking another thread for."""


class RegionParameters(UnitParameters):
    """The parameters of both kernels. A tile is some of the regions."""

    images: Count = field("images")
    channels: Count = field("channels of an image")
    height: Count = field("rows of an image")
    width: Count = field("columns of an image")
    out_height: Count = field("rows of a region's output")
    out_width: Count = field("columns of it")
    input: Address = field("the images")
    input_end: Address = field("the end of their memory")
    input_image: Bytes = field("from an image to the next")
    input_channel: Bytes = field("from a channel of an image to the next")
    input_row: Bytes = field("from a row of an image to the next")
    input_element: Bytes = field("from an element of a row to the next")
    corners: Address = field("the regions' corners, for maxima each behind the number of its image")
    batches: Address = field("for samples the numbers of the regions' images")
    batch_bytes: Bytes = field("the size of such a number: 4 or 8")
    output: Address = field("the output")
    output_region: Bytes = field("from a region of the output to the next")
    output_channel: Bytes = field("from a channel of it to the next")
    output_row: Bytes = field("from a row of it to the next")
    output_element: Bytes = field("from an element of a row of it to the next")
    scratch: Address = field("for each thread the samples along rows and along columns")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    row_samples: Bytes = field("the size of the samples along rows")
    scale_x: Float64 = field("the factor of the corners' columns")
    scale_y: Float64 = field("the factor of the corners' rows")
    input_offset: Float64 = field("what is subtracted from the place of a sample")
    output_offset: Float64 = field("what is subtracted from the number of a sample, unless aligned")
    least: Count = field("samples of an output element along an axis, at least")
    most: Count = field("samples of an output element along an axis, at most")
    aligned: Flag = field("whether the outermost samples lie in the corners")
    nearest: Flag = field("whether samples are those of the nearest pixel")
    largest: Flag = field("whether an output element is the largest sample, else their mean")
    outside: Float32 = field("the samples outside of an image")


class RegionsPlan(PlanWithoutConstants):
    """A pooling of regions of floats by a compiled kernel, one region after the other.

    NumPy pools regions that turn out to have more than `MOST_SAMPLES` samples along an axis.

    Args:
        desc: a checked desc whose regions are packed.
    """

    def __init__(self, desc: ForwardRegionsDesc | ROIPoolingDesc) -> None:
        self._desc, self._has_few_samples = desc, True
        assert desc.output_tensor is not None  # guaranteed by the check
        self._tensors, self._samples = desc.tensors(), not isinstance(desc, ROIPoolingDesc)
        self._storage = storage_of(desc.input_tensor.data_type)
        (images, channels, height, width), (regions, _, *out) = desc.input_tensor.sizes, desc.output_tensor.sizes
        names = ("images", "channels", "height", "width", "out_height", "out_width")
        self._values: dict[str, Any] = dict(zip(names, (images, channels, height, width, *out), strict=True))
        self._out = tuple(out)
        self._regions, per_output, self._scratch_size = regions, 1, 0
        if isinstance(desc, ROIPoolingDesc):
            self._values |= {"scale_x": desc.spatial_scale, "scale_y": desc.spatial_scale}
        else:
            self._values |= {**sample_values(desc), "outside": desc.out_of_bounds_input_value}
            most = self._values["most"]
            self._has_few_samples = max(out) * most <= MOST_SAMPLES
            tables = [min(size * most, MOST_SAMPLES) * SAMPLE_BYTES for size in out]
            self._values["row_samples"], self._scratch_size = tables[0], sum(tables)
            per_output = self._values["least"] ** 2
        work = desc.output_tensor.element_count * per_output
        self._shares = WorkShares(regions, Threads.of(available_threads(), work, _WORK_OF_A_THREAD))
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def _kernel(self) -> Any:
        return (REGION_SAMPLES if self._samples else REGION_MAXIMA)(self._storage, host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {self._regions} region(s), one after the other"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            **self._values,
            "corners": tensors["roi_tensor"],
            "scratch": temporary if self._scratch_size else 0,
            "scratch_size": self._scratch_size,
        }
        if self._samples:
            values |= {"batches": tensors["batch_indices_tensor"]}
            values["batch_bytes"] = self._tensors["batch_indices_tensor"].data_type.numpy.itemsize
        for name, outermost in (("input", "image"), ("output", "region")):
            place = f"{name}_tensor"
            image, channel, _, row, element = byte_strides(self._tensors[place])
            values |= {name: tensors[place], f"{name}_{outermost}": image, f"{name}_channel": channel, f"{name}_row": row}
            values[f"{name}_element"] = element
        images = self._tensors["input_tensor"]
        values["input_end"] = tensors["input_tensor"] + images.span * images.data_type.numpy.itemsize
        compiled = TaskLaunch.of(self._kernel(), RegionParameters.bound(values), self._shares.threads)
        if self._has_few_samples or isinstance(self._desc, ROIPoolingDesc):
            return compiled
        whole, name = ConvertingPlan(self._desc).bind(tensors, 0, None), "roi_tensor"
        corners, fits = arrays_of({name: self._tensors[name]}, {name: tensors[name]})[name], partial(fit, self._desc, self._out)
        return lambda stream: (compiled if fits(corners) else whole)(stream)


def fit(desc: RegionsDesc, sizes: Sequence[int], corners: Array) -> bool:
    """Whether no region has more than `MOST_SAMPLES` samples along an axis, for outputs of a height and a width."""
    scales = np.array([desc.spatial_scale_x, desc.spatial_scale_y])
    left, right = np.split(corners.reshape(-1, 4).astype(np.float64), 2, axis=1)
    outputs, least = np.array(sizes[::-1]), max(desc.minimum_samples_per_output, 1)
    with np.errstate(all="ignore"):
        pixels = np.ceil(np.abs(right * scales - left * scales) / outputs)
    counts = np.clip(np.nan_to_num(pixels, nan=least), least, max(desc.maximum_samples_per_output, 1))
    return bool((counts * outputs).max() <= MOST_SAMPLES)


def sample_values(desc: RegionsDesc) -> dict[str, Any]:
    """The parameters of samples."""
    before, after, aligned = 0.5, -0.5, False
    if isinstance(desc, PlacedRegionsDesc):
        before, after, aligned = desc.input_pixel_offset, desc.output_pixel_offset, desc.align_regions_to_corners
    return {
        "scale_x": desc.spatial_scale_x,
        "scale_y": desc.spatial_scale_y,
        "input_offset": before,
        "output_offset": after,
        "aligned": aligned,
        "least": max(desc.minimum_samples_per_output, 1),
        "most": max(desc.maximum_samples_per_output, 1),
        "nearest": desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR,
        "largest": desc.reduction_function is ReduceFunction.MAX,
    }
