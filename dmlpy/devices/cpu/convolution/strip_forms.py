"""`DepthwiseStrips`: a depthwise convolution in strips, in the place of `SectionTiles`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.depthwise import Planes, Strips
from dmlpy.devices.cpu.convolution.strip_parameters import PARAMETERS
from dmlpy.devices.cpu.jit import make_struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.isa import Isa
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.devices.numpy.convolution.geometry import Array, Geometry
    from dmlpy.devices.plan import Pointers

_MOST_TAPS = 7
"""Taps of the window in each dimension: of more the weights pass through the registers as often as by `Tiles`."""


class DepthwiseStrips:
    """The items of a depthwise convolution over two dimensions, each of some planes.

    Attributes:
        block: filters of a block.
        blocks: blocks of filters in a group.
        channels: channels of a group.
        taps: taps of the window.
        is_matrix: whether it is one product of matrices.
        items: the number of items.
        scratch_size: bytes of scratch for a thread.

    Args:
        planes: the planes.
        tensors: the descs by name.
        threads: threads that share the items.
        registers: the registers that the kernel is compiled for.
    """

    block = blocks = channels = 1
    is_matrix = False
    scratch_size = 0

    def __init__(self, planes: Planes, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> None:
        self._strips = Strips("convolution", planes, tensors, threads, isa)
        self.taps, self.items = prod(planes.window), self._strips.items

    @classmethod
    def of(cls, geometry: Geometry, tensors: Mapping[str, TensorDesc], threads: int, isa: Isa) -> DepthwiseStrips | None:
        """The strips of a convolution; None if it is not depthwise, is transposed, or its tensors or window are not those of strips."""
        planes = _planes_of(geometry)
        if planes is None or not planes.are_strips(tensors, _MOST_TAPS, isa):
            return None
        return cls(planes, tensors, threads, isa)

    def is_dense(self, most: int) -> bool:
        """Whether what is read is at most so many times as large as what the taps meet: nothing else is read."""
        return True

    def describe(self) -> str:
        return f"{self._strips.describe()}\nsums in registers: {self.taps} tap(s) of one filter"

    @property
    def kernel(self) -> Function:
        """The compiled share of the work."""
        return self._strips.kernel()

    def load(self) -> None:
        """Compiles the kernel, or reads it from disk."""
        self._strips.kernel()

    def parameters(self, tensors: Pointers, scratch: int, others: Mapping[str, Any]) -> Array:
        """What the kernel reads, with the values of some fields: of the packed constants and the limits."""
        return make_struct(PARAMETERS, {**self._strips.values(tensors), **others})


def _planes_of(geometry: Geometry) -> Planes | None:
    """The planes of a convolution, or None if its windows reach more than one of them, are dilated, or slide over the output."""
    depth = geometry.spatial[0], geometry.out[0], geometry.taps[0], geometry.starts[0]
    dilated = any(taps > 1 and dilation != 1 for taps, dilation in zip(geometry.taps, geometry.dilations, strict=True))
    if geometry.backward or (geometry.channels, geometry.filters) != (1, 1) or depth != (1, 1, 1, 0) or dilated:
        return None
    spatial, out, window, strides, starts = (
        (own[1], own[2]) for own in (geometry.spatial, geometry.out, geometry.taps, geometry.strides, geometry.starts)
    )
    return Planes(geometry.batch, geometry.groups, spatial, out, window, strides, starts)
