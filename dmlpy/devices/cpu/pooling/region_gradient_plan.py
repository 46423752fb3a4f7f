"""The plan of ROI_ALIGN_GRAD, and the parameters of its kernel."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.array_functions import ConvertingPlan
from dmlpy.devices.cpu.convolution.layout import byte_strides
from dmlpy.devices.cpu.isa import FLOAT_BYTES, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.pooling.region_plan import MOST_SAMPLES, SAMPLE_BYTES, RegionParameters, fit, sample_values
from dmlpy.devices.cpu.structs import Bytes, Count, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers, arrays_of

if TYPE_CHECKING:
    from dmlpy.operators.pooling.roi import ROIAlignGradDesc

REGION_GRADIENT = Kernel("dmlpy.devices.cpu.pooling.region_gradient_kernels:build_gradient", 5)
"""The gradients of means of samples for the images: the type of tensors, and the instruction set."""

_WORK_OF_A_THREAD = 1 << 15
"""Samples of all elements that are worth waking another thread for."""


class RegionGradientParameters(RegionParameters):
    """The parameters of the kernel. Its inputs are the gradients that it writes, its outputs those it reads. A tile is some channels."""

    regions: Count = field("regions")
    samples: Bytes = field("the size of all samples of a region: of a thread's scratch before float32 gradients of a channel's images")


class RegionGradientPlan(PlanWithoutConstants):
    """The gradient of means of regions' samples for the images, by a compiled kernel, one channel after the other.

    NumPy computes it if regions turn out to have more than `MOST_SAMPLES` samples along an axis.

    Args:
        desc: a checked desc of means whose tensors are packed, without the gradient of the regions.
    """

    def __init__(self, desc: ROIAlignGradDesc) -> None:
        assert desc.output_gradient_tensor is not None  # nothing else would be computed
        self._desc, self._tensors, incoming = desc, desc.tensors(), desc.input_gradient_tensor
        self._storage = storage_of(incoming.data_type)
        (images, channels, height, width), (regions, _, *out) = desc.output_gradient_tensor.sizes, incoming.sizes
        names = ("images", "channels", "height", "width", "out_height", "out_width", "regions")
        self._values: dict[str, Any] = dict(zip(names, (images, channels, height, width, *out, regions), strict=True))
        self._values |= sample_values(desc)
        self._out, most = tuple(out), self._values["most"]
        self._has_few_samples = max(out) * most <= MOST_SAMPLES
        tables = [min(size * most, MOST_SAMPLES) * SAMPLE_BYTES for size in out]
        self._values |= {"row_samples": tables[0], "samples": sum(tables)}
        self._scratch_size = sum(tables) + images * height * width * FLOAT_BYTES
        work = prod(incoming.sizes) * self._values["least"] ** 2
        self._shares = WorkShares(channels, Threads.of(available_threads(), work, _WORK_OF_A_THREAD))
        self.temporary_size = self._shares.threads.most * self._scratch_size

    def load(self) -> None:
        REGION_GRADIENT(self._storage, host_isa())

    def describe(self) -> str:
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {self._values['regions']} region(s) of each channel"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            **self._values,
            "corners": tensors["roi_tensor"],
            "batches": tensors["batch_indices_tensor"],
            "batch_bytes": self._tensors["batch_indices_tensor"].data_type.numpy.itemsize,
            "scratch": temporary,
            "scratch_size": self._scratch_size,
        }
        for name, outermost, place in (
            ("input", "image", "output_gradient_tensor"),
            ("output", "region", "input_gradient_tensor"),
        ):
            image, channel, _, row, element = byte_strides(self._tensors[place])
            values |= {name: tensors[place], f"{name}_{outermost}": image, f"{name}_channel": channel, f"{name}_row": row}
            values[f"{name}_element"] = element
        compiled = TaskLaunch.of(REGION_GRADIENT(self._storage, host_isa()), RegionGradientParameters.bound(values), self._shares.threads)
        if self._has_few_samples:
            return compiled
        whole, name = ConvertingPlan(self._desc).bind(tensors, 0, None), "roi_tensor"
        corners, fits = arrays_of({name: self._tensors[name]}, {name: tensors[name]})[name], partial(fit, self._desc, self._out)
        return lambda stream: (compiled if fits(corners) else whole)(stream)
