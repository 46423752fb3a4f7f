"""ROI_ALIGN, ROI_ALIGN1 and their gradient on CUDA, by raw_kernels/pooling/align.cu and align_gradient.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import InterpolationMode, ReduceFunction
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.steps import NO_SCRATCH, Step, StepsPlan
from dmlpy.devices.cuda.kernels import ALIGNMENT, ELEMENT_THREADS, Kernel, Struct, scalar_type, struct
from dmlpy.devices.plan import Layout
from dmlpy.operators.pooling.roi import ForwardRegionsDesc, PlacedRegionsDesc, ROIAlignGradDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.pooling.roi import RegionsDesc

SAMPLING = struct(
    ("input_offset", np.float64),
    ("output_offset", np.float64),
    ("least", np.int64),
    ("most", np.int64),
    ("aligned", np.int32),
    ("nearest", np.int32),
)
"""`Sampling` of raw_kernels/common/samples.cuh."""

REGIONS = struct(
    *((name, np.uint64) for name in ("images", "corners", "batches")),
    ("sampling", SAMPLING),
    ("scales", np.float64, (2,)),
    *((name, np.int64, (2,)) for name in ("outputs", "sizes", "steps")),
    *((name, np.int64) for name in ("image_stride", "channel_stride", "region_stride", "corner_stride", "batch_stride", "image_count")),
    ("wide_batches", np.int32),
)
"""`Regions<T>` of raw_kernels/common/regions.cuh."""

INCOMING = struct(
    ("gradient", np.uint64),
    ("winners", np.uint64),
    ("strides", np.int64, (4,)),
    ("winner_strides", np.int64, (4,)),
    ("channels", np.int64),
)
"""`Incoming<T>` of raw_kernels/pooling/align_gradient.cu."""

_ADDRESSES = {"regions.corners": "roi_tensor", "regions.batches": "batch_indices_tensor", "regions.images": "input_tensor"}
_NUMBERS = ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))
"""The strides of tensors that vary along one dimension only."""


def align_kernel(data_type: np.dtype[Any], reduction: str) -> Kernel:
    """The kernel of an element type and a reduction, `Mean` or `Maximum`."""
    scalar = scalar_type(data_type)
    parameters = struct(("output", np.uint64), ("regions", REGIONS), ("axes", axes_type(5)), ("count", np.uint64), ("outside", np.float32))
    return Kernel("pooling/align.cu", f"align<{scalar}, {reduction}>", parameters, f"AlignParameters<{scalar}>")


def choose_samples_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(("winners", np.uint64), ("regions", REGIONS), ("axes", axes_type(5)), ("count", np.uint64))
    return Kernel("pooling/align_gradient.cu", f"choose_samples<{scalar}>", parameters, f"ChooseSamplesParameters<{scalar}>")


def image_gradient_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(
        ("output", np.uint64),
        ("regions", REGIONS),
        ("incoming", INCOMING),
        ("axes", axes_type(5)),
        ("region_count", np.int64),
        ("count", np.uint64),
    )
    return Kernel("pooling/align_gradient.cu", f"image_gradient<{scalar}>", parameters, f"ImageGradientParameters<{scalar}>")


def corner_gradient_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(
        ("output", np.uint64), ("regions", REGIONS), ("incoming", INCOMING), ("strides", np.int64, (2,)), ("region_count", np.int64)
    )
    return Kernel("pooling/align_gradient.cu", f"corner_gradient<{scalar}>", parameters, f"CornerGradientParameters<{scalar}>")


def _regions_value(desc: RegionsDesc, images: TensorDesc, outputs: Sequence[int]) -> Struct:
    """One element of `REGIONS` for a checked desc.

    Args:
        desc: what samples regions.
        images: a tensor with the sizes of the images, and their strides where images are read.
        outputs: rows and columns of the output.
    """
    tensors = desc.tensors()
    regions, batches = tensors["roi_tensor"], tensors["batch_indices_tensor"]
    value = np.zeros((), REGIONS)
    sampling: Struct = value["sampling"]
    sampling["input_offset"], sampling["output_offset"] = 0.5, -0.5
    if isinstance(desc, PlacedRegionsDesc):
        sampling["input_offset"], sampling["output_offset"] = desc.input_pixel_offset, desc.output_pixel_offset
        sampling["aligned"] = desc.align_regions_to_corners
    sampling["nearest"] = desc.interpolation_mode is InterpolationMode.NEAREST_NEIGHBOR
    sampling["least"], sampling["most"] = max(desc.minimum_samples_per_output, 1), max(desc.maximum_samples_per_output, 1)
    value["scales"], value["outputs"] = (desc.spatial_scale_y, desc.spatial_scale_x), outputs
    value["image_count"], value["sizes"] = images.sizes[0], images.sizes[2:]
    value["image_stride"], value["channel_stride"], *steps = images.element_strides
    value["steps"] = steps
    value["region_stride"], value["corner_stride"] = regions.element_strides[-2:]
    value["batch_stride"], value["wide_batches"] = batches.element_strides[-1], batches.data_type.bits == 64
    return value


def align_plan(desc: ForwardRegionsDesc, target: Target) -> StepsPlan:
    """The plan of ROI_ALIGN or ROI_ALIGN1. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    images, output = tensors["input_tensor"], tensors["output_tensor"]
    kernel = align_kernel(images.data_type.numpy, "Maximum" if desc.reduction_function is ReduceFunction.MAX else "Mean")
    argument = np.zeros(1, kernel.parameters)
    argument["regions"] = _regions_value(desc, images, output.sizes[2:])
    argument["axes"] = axes_value(merged(output.sizes, [output.element_strides, *_NUMBERS]), 5)
    argument["count"] = output.element_count
    with np.errstate(over="ignore"):
        argument["outside"] = desc.out_of_bounds_input_value
    return StepsPlan(desc, target.library, [Step(kernel, argument, _ADDRESSES | {"output": "output_tensor"}, output.element_count)])


def align_gradient_plan(desc: ROIAlignGradDesc, target: Target) -> StepsPlan:
    """The plan of ROI_ALIGN_GRAD. Raises DeviceError if a kernel cannot be compiled."""
    tensors = desc.tensors()
    incoming, of_images, of_regions = (
        tensors.get(name) for name in ("input_gradient_tensor", "output_gradient_tensor", "output_roi_gradient_tensor")
    )
    images = tensors.get("input_tensor", of_images)
    assert incoming is not None
    assert images is not None  # the check requires one of them
    data_type, chooses = incoming.data_type.numpy, desc.reduction_function is ReduceFunction.MAX
    regions = _regions_value(desc, images, incoming.sizes[2:])
    passed = np.zeros((), INCOMING)
    passed["strides"], passed["winner_strides"] = incoming.element_strides, packed_strides(incoming.sizes)
    passed["channels"] = incoming.sizes[1]
    addresses = _ADDRESSES | {"incoming.gradient": "input_gradient_tensor", "incoming.winners": "winners"}
    steps = []
    if chooses:
        kernel = choose_samples_kernel(data_type)
        argument = np.zeros(1, kernel.parameters)
        argument["regions"], argument["count"] = regions, incoming.element_count
        argument["axes"] = axes_value(merged(incoming.sizes, [packed_strides(incoming.sizes), *_NUMBERS]), 5)
        steps.append(Step(kernel, argument, _ADDRESSES | {"winners": "winners"}, incoming.element_count))
    if of_images is not None:
        kernel = image_gradient_kernel(data_type)
        argument = np.zeros(1, kernel.parameters)
        argument["regions"], argument["incoming"] = regions, passed
        argument["axes"] = axes_value(merged(of_images.sizes, [of_images.element_strides, *_NUMBERS]), 5)
        argument["region_count"], argument["count"] = incoming.sizes[0], of_images.element_count
        steps.append(Step(kernel, argument, addresses | {"output": "output_gradient_tensor"}, of_images.element_count))
    if of_regions is not None:
        kernel = corner_gradient_kernel(data_type)
        argument = np.zeros(1, kernel.parameters)
        argument["regions"], argument["incoming"] = regions, passed
        argument["strides"], argument["region_count"] = of_regions.element_strides[-2:], incoming.sizes[0]
        threads = incoming.sizes[0] * ELEMENT_THREADS  # a block for each region
        steps.append(Step(kernel, argument, addresses | {"output": "output_roi_gradient_tensor"}, threads))
    scratch = Layout([("winners", incoming.sizes, np.dtype(np.uint64))], ALIGNMENT) if chooses else NO_SCRATCH
    return StepsPlan(desc, target.library, steps, scratch)
