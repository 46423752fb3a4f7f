"""The work after a tile's sums while they are in the cache: the bias, the fused function, and the store to the output."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.activation.formulas import Activation
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.operators.activation import ActivationDesc, ActivationReluDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.description.descs import FusableDesc
    from dmlpy.devices.numpy.convolution.geometry import Array

Call = tuple[Any, ...]
"""A ufunc and its operands after the sums: numbers, or arrays [channels, 1]."""
_WITH_PLUS_ZERO: Call = np.add, COMPUTE.type(0.0)
"""Makes +0 of -0: NumPy's limits of 0 may leave either zero."""


class Finish:
    """The end of a convolution.

    The last call of a ufunc writes to the output itself, which converts to its type; so a bias, RELU and CLIP cost no copy.

    Attributes:
        rows: rows of scratch, each as long as a tile, that the fused function needs, and whether it needs a mask.

    Args:
        function: the fused function, or None.
    """

    def __init__(self, function: FusableDesc | None) -> None:
        self._calls: list[Call] = []
        self._activation: Activation | None = None
        if isinstance(function, ElementWiseClipDesc):
            if function.scale_bias is not None:
                self._calls += [(np.multiply, COMPUTE.type(function.scale_bias.scale)), (np.add, COMPUTE.type(function.scale_bias.bias))]
            # A limit of NaN is none; NumPy's result would be NaN.
            least, most = (-np.inf if isnan(function.min) else function.min), (np.inf if isnan(function.max) else function.max)
            self._calls.append((np.clip, COMPUTE.type(least), COMPUTE.type(most)))
            if least == 0.0:
                self._calls.append(_WITH_PLUS_ZERO)
        elif isinstance(function, ActivationReluDesc):
            self._calls += [(np.maximum, COMPUTE.type(0.0)), _WITH_PLUS_ZERO]
        elif function is not None:
            assert isinstance(function, ActivationDesc), "the check lets nothing else be fused"
            self._activation = Activation.of(function, COMPUTE)

    def scratch(self, entries: int) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The arrays that tiles of this many elements need, as a `Layout` takes them."""
        if self._activation is None:
            return []
        return [("work", (self._activation.work, entries), COMPUTE), ("mask", (entries,), np.dtype(np.bool_))]

    @property
    def absent(self) -> bool:
        """Whether there is no fused function."""
        return not (self._calls or self._activation)

    def bind(self, scratch: dict[str, Array]) -> Callable[[Array, Sequence[Call], Array, Array], None]:
        """Creates the function that finishes a tile.

        Args:
            scratch: a thread's arrays.

        Returns:
            A function of the memory of the sums, [channels, elements], packed in either order; of the calls before the fused function, such
            as the bias's; of the sums that are results, [channels, *three dimensions]; and of the part of the output that they go to.
        """
        activation, calls = self._activation, self._calls

        def finish(rows: Array, first: Sequence[Call], sums: Array, target: Array) -> None:
            steps = [*first, *calls]
            last = steps.pop() if steps and activation is None else None
            for function, *operands in steps:
                function(rows, *operands, out=rows)
            if activation is not None:
                flat = rows.reshape(-1, order="A")
                activation.bind(flat, flat, scratch["work"], scratch["mask"])()
            if last is None:
                np.copyto(target, sums, casting="same_kind")
                return
            function, *operands = last
            shaped = [operand[:, :, np.newaxis, np.newaxis] if np.ndim(operand) else operand for operand in operands]
            function(sums, *shaped, out=target, casting="same_kind")

        return finish
