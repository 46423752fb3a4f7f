"""What follows a tile's sums while they are in the cache: the bias, the fused function, and the store to the output."""

from __future__ import annotations

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

Call = tuple[Any, Any]
"""A ufunc and its second operand."""


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
            self._calls += [(np.maximum, COMPUTE.type(function.min)), (np.minimum, COMPUTE.type(function.max))]
        elif isinstance(function, ActivationReluDesc):
            self._calls.append((np.maximum, COMPUTE.type(0.0)))
        elif function is not None:
            assert isinstance(function, ActivationDesc), "the check lets nothing else be fused"
            self._activation = Activation.of(function, COMPUTE)

    def scratch(self, entries: int) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The arrays that tiles of so many elements need, as a `Layout` takes them."""
        if self._activation is None:
            return []
        return [("work", (self._activation.work, entries), COMPUTE), ("mask", (entries,), np.dtype(np.bool_))]

    def stores_sums(self, bias: bool) -> bool:
        """Whether the sums are the results, so that they can be formed in the output's memory."""
        return not (bias or self._calls or self._activation)

    def bind(self, own: dict[str, Array]) -> Callable[[Array, Array | None, Array, Array], None]:
        """Makes the function that finishes a tile.

        Args:
            own: a thread's arrays.

        Returns:
            A function of the memory of the sums, flat; of the bias or None, which broadcasts to the sums; of the sums that are results; and
            of the part of the output that they go to, in the same sizes.
        """
        activation, calls = self._activation, self._calls

        def finish(flat: Array, bias: Array | None, sums: Array, target: Array) -> None:
            steps = calls if bias is None else [(np.add, bias), *calls]
            if activation is not None:
                for function, operand in steps:
                    function(sums, operand, out=sums)
                activation.bind(flat, flat, own["work"], own["mask"])()
                np.copyto(target, sums, casting="same_kind")
                return
            if not steps:
                np.copyto(target, sums, casting="same_kind")
                return
            for function, operand in steps[:-1]:
                function(sums, operand, out=sums)
            function, operand = steps[-1]
            function(sums, operand, out=target, casting="same_kind")

        return finish
