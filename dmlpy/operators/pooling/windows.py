"""The base of the pooling operators: a window whose size the desc gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from dmlpy.description.coercion import After, Uints
from dmlpy.description.markers import In, Limits, Out, derived
from dmlpy.description.sizes import Derived, Explained, Sizes
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.windows import SlidingDesc

COUNTED = ("strides", "window_size", "start_padding", "end_padding")
"""The arrays that every pooling operator has."""


class PoolingDesc(SlidingDesc):
    """An operator of pooling; the window's size is a member.

    DirectML has no member for how sizes are rounded: it takes those of the output, which ONNX Runtime and WebNN round up for a ceil mode.
    """

    c_counts: ClassVar[Mapping[str, tuple[str, ...]]] = {"DimensionCount": COUNTED}

    window_size: Annotated[Uints, Limits(length="dimension_count", least=1), After("strides")]
    """The elements of the window along each spatial dimension."""

    def window_lengths(self, symbols: Sizes) -> Sequence[int]:
        return self.window_size

    def window_place(self, axis: int) -> str:
        return f"window_size[{axis}]"

    def positions(self, symbols: Sizes) -> Sequence[Derived]:
        """The described positions if they round up, with or without windows that begin after the last element; else rounded down."""
        rounded_down, windows = super().positions(symbols), self.sound_windows(symbols)
        described = self.described()
        if described is None:
            return rounded_down
        fitting = [(size, window) for size, window in zip(described, windows, strict=True) if window is not None and window.positions >= 1]
        is_down = all(size == window.positions for size, window in fitting)
        if is_down or any(size not in (window.rounded_up, window.rounded_up_within) for size, window in fitting):
            return rounded_down
        up, dropped = f"rounded up as {self.positioned} has it", "without the window that begins after the last element"
        return [
            Explained(size, f"{self.reason(axis, window, '/')}, {up if size == window.rounded_up else f'{up}, {dropped}'}")
            if window is not None and window.positions >= 1
            else size
            for axis, (size, window) in enumerate(zip(described, windows, strict=True))
        ]

    @derived("(spatial + start_padding + end_padding - window_size) // strides + 1, or rounded up")
    def out(self, symbols: Sizes) -> Sequence[Derived]:
        return self.positions(symbols)


class DilatedPoolingDesc(PoolingDesc):
    """A pooling whose window may be dilated."""

    c_counts: ClassVar[Mapping[str, tuple[str, ...]]] = {"DimensionCount": (*COUNTED, "dilations")}

    dilations: Annotated[Uints, Limits(length="dimension_count", least=1), After("end_padding")]
    """The steps from one element of the window to the next along each spatial dimension: 1 where they are neighbours."""

    @derived("(spatial + start_padding + end_padding - (1 + (window_size - 1) * dilations)) // strides + 1, or rounded up")
    def out(self, symbols: Sizes) -> Sequence[Derived]:
        return self.positions(symbols)


class ForwardPoolingDesc(PoolingDesc):
    """A forward pooling, as opposed to a gradient."""

    input_tensor: Annotated[TensorDesc, In("batch channels *spatial"), After()]
    """The input x. The spatial dimensions are height and width, or depth, height and width."""

    output_tensor: Annotated[TensorDesc | None, Out("batch channels *out", required=True)] = None
    """The result y, an element for each position of the window."""
