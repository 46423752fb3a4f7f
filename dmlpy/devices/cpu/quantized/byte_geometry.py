"""The sizes of convolutions of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.quantized.products import QuantizedConvolvingDesc

_DEPTHWISE_STRIDES = (1, 2)
_ROW_POSITIONS = 480
"""Positions of a row into which a pointwise convolution divides an image: whole blocks of vectors of all instruction sets."""


@dataclass(frozen=True)
class ByteGeometry:
    """The sizes of a convolution in two dimensions, each of height and width.

    Attributes:
        batch: images.
        groups: groups of channels.
        channels: input channels of a group.
        filters: output channels of a group.
        spatial: sizes of the input.
        out: sizes of the output.
        taps: sizes of the window.
        strides: steps from one position of the window to the next.
        dilations: steps from one tap to the next.
        starts: padding before the first element.
        input_steps: bytes from an image of the input to the next, a channel, a row, an element.
        output_steps: bytes from an image of the output to the next, a channel, a row, an element.
        positions: positions of an image, if the last row of `out` may be shorter than the others; else 0.
    """

    batch: int
    groups: int
    channels: int
    filters: int
    spatial: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    starts: tuple[int, int]
    input_steps: tuple[int, int, int, int]
    output_steps: tuple[int, int, int, int]
    positions: int = 0

    @classmethod
    def of(cls, desc: QuantizedConvolvingDesc) -> ByteGeometry:
        """The sizes of a checked desc. The image of a pointwise convolution is divided into rows of equal length, if it is contiguous."""
        output = desc.tensors()["output_tensor"]
        (batch, channels, *spatial), (_, filters, *out) = desc.input_tensor.sizes, output.sizes
        count, groups = len(spatial), desc.group_count
        strides, dilations, starts = (
            _pair(array[-count:], missing) for array, missing in ((desc.strides, 1), (desc.dilations, 1), (desc.start_padding, 0))
        )
        whole, taps = _pair(out, 1), _pair(desc.filter_tensor.sizes[2:], 1)
        found = cls(
            batch=batch,
            groups=groups,
            channels=channels // groups,
            filters=filters // groups,
            spatial=_pair(spatial, 1),
            out=whole,
            taps=taps,
            strides=strides,
            dilations=dilations,
            starts=starts,
            input_steps=_steps(desc.input_tensor),
            output_steps=_steps(output),
        )
        return found._divided() if taps == (1, 1) and strides == (1, 1) and whole == found.spatial and starts == (0, 0) else found

    def _divided(self) -> ByteGeometry:
        """The same with other rows, or this one if rows do not follow each other."""
        (height, width), rows = self.out, []
        for outer, channel, row, element in (self.input_steps, self.output_steps):
            if height > 1 and row != width * element:
                return self
            rows.append((outer, channel, min(_ROW_POSITIONS, height * width) * element, element))
        positions = height * width
        size = ceil(positions / _ROW_POSITIONS), min(_ROW_POSITIONS, positions)
        return ByteGeometry(
            **{
                **vars(self),
                "spatial": size,
                "out": size,
                "positions": positions,
                "input_steps": rows[0],
                "output_steps": rows[1],
            }
        )

    @property
    def multiplications(self) -> int:
        return self.batch * self.groups * self.filters * self.channels * prod(self.taps) * prod(self.out)

    @property
    def is_depthwise(self) -> bool:
        """Whether `DEPTHWISE` computes it."""
        return self.channels == 1 and self.dilations[1] == 1 and self.strides[1] in _DEPTHWISE_STRIDES and prod(self.taps) > 1


def _pair(values: Any, missing: int) -> tuple[int, int]:
    first, second = [missing] * (2 - len(values)) + [*values]
    return first, second


def _steps(tensor: TensorDesc) -> tuple[int, int, int, int]:
    size = tensor.data_type.numpy.itemsize
    outer, inner, *along = (stride * size for stride in tensor.element_strides)
    row, element = (0,) * (2 - len(along)) + tuple(along)
    return outer, inner, row, size if tensor.sizes[-1] == 1 else element
