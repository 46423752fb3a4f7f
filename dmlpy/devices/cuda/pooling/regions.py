"""ROI_POOLING on CUDA: one launch of the kernel of raw_kernels/pooling/regions.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.axes import merged
from dmlpy.devices.cuda.common.axes import axes_type, axes_value
from dmlpy.devices.cuda.common.steps import Step, StepsPlan
from dmlpy.devices.cuda.kernels import Kernel, scalar_type, struct

if TYPE_CHECKING:
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.pooling.roi import ROIPoolingDesc


def pool_regions_kernel(data_type: np.dtype[Any]) -> Kernel:
    scalar = scalar_type(data_type)
    parameters = struct(
        *((name, np.uint64) for name in ("images", "regions", "output")),
        ("axes", axes_type(5)),
        ("image_stride", np.int64),
        ("steps", np.int64, (2,)),
        ("sizes", np.int64, (2,)),
        ("parts", np.int64, (2,)),
        ("corner_stride", np.int64),
        ("image_count", np.int64),
        ("count", np.uint64),
        ("scale", np.float32),
    )
    return Kernel("pooling/regions.cu", f"pool_regions<{scalar}>", parameters, f"PoolRegionsParameters<{scalar}>")


def pool_regions_plan(desc: ROIPoolingDesc, target: Target) -> StepsPlan:
    """The plan of ROI_POOLING. Raises DeviceError if the kernel cannot be compiled."""
    tensors = desc.tensors()
    images, regions, output = (tensors[name] for name in ("input_tensor", "roi_tensor", "output_tensor"))
    image_stride, channel_stride, *steps = images.element_strides
    *_, region_stride, corner_stride = regions.element_strides
    others = [(0, channel_stride, 0, 0), (region_stride, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]

    kernel = pool_regions_kernel(images.data_type.numpy)
    argument = np.zeros(1, kernel.parameters)
    argument["axes"] = axes_value(merged(output.sizes, [output.element_strides, *others]), 5)
    argument["image_stride"], argument["steps"], argument["corner_stride"] = image_stride, steps, corner_stride
    argument["image_count"], argument["sizes"], argument["parts"] = images.sizes[0], images.sizes[2:], output.sizes[2:]
    argument["count"], argument["scale"] = output.element_count, desc.spatial_scale
    addresses = {"images": "input_tensor", "regions": "roi_tensor", "output": "output_tensor"}
    return StepsPlan(desc, target.library, [Step(kernel, argument, addresses, output.element_count)])
