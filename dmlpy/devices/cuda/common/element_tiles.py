"""The element engine's schedule for an input whose fastest axis is not the output's: transposition of tiles through shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.axes import Axis, element_count
from dmlpy.devices.cuda.common.axes import DIVISOR, axes_type, axes_value, divisor
from dmlpy.devices.cuda.common.element_types import ELEMENT_TYPES
from dmlpy.devices.cuda.kernels import ELEMENT_THREADS, Kernel, KernelLibrary, struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.common.functors import AnyFunctor
    from dmlpy.devices.plan import Launch

TILE_SIDE = 32
"""Elements along either side of a tile."""
LEAST_SIDE = 16
"""The fewest elements along either axis: with fewer, most of a tile would be empty. Estimated, not measured."""
_MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True)
class Crossing:
    """An input that is transposed against the output.

    Attributes:
        crossed: the input's index.
        outer: the other axes.
        sides: the output's fastest axis and the input's. Strides are those of the output and the inputs.
    """

    crossed: int
    outer: tuple[Axis, ...]
    sides: tuple[Axis, Axis]

    @classmethod
    def of(cls, axes: Sequence[Axis], whole: Sequence[bool]) -> Crossing | None:
        """The first input that is transposed against the output; None if there is none, or if an axis is too short.

        Args:
            axes: the axes of a step, the output's fastest one last.
            whole: for the output and each input, whether its elements are whole bytes.
        """
        if not axes or axes[-1].strides[0] != 1 or axes[-1].size < LEAST_SIDE or not whole[0]:
            return None
        for crossed, in_memory in enumerate(whole[1:]):
            if not in_memory or axes[-1].strides[1 + crossed] in (0, 1):
                continue
            for at, axis in enumerate(axes[:-1]):
                if axis.strides[1 + crossed] == 1 and axis.size >= LEAST_SIDE:
                    return cls(crossed, (*axes[:at], *axes[at + 1 : -1]), (axes[-1], axis))
        return None

    @property
    def tiles(self) -> int:
        """Tiles of all elements."""
        down, across = (-(-side.size // TILE_SIDE) for side in self.sides)
        return element_count(self.outer) * down * across

    def kernel(self, functor: AnyFunctor, offset: str, most: int, scalars: Sequence[str]) -> Kernel:
        """The instance of the kernel: see `elements_kernel`."""
        tensors = len(scalars)
        parameters = struct(
            ("output", np.uint64),
            ("inputs", np.uint64, (tensors - 1,)),
            ("outer", axes_type(tensors, offset, most)),
            ("strides", offset, (tensors, 2)),
            ("sizes", np.uint32, (2,)),
            ("tiles", DIVISOR, (2,)),
            ("count", np.uint32),
            ("functor", functor.struct),
        )
        places, types = ELEMENT_TYPES[offset], ", ".join(scalars)
        return Kernel(
            functor.file,
            f"crossed_elements<{functor.name}, {self.crossed}, {places}, {most}, {types}>",
            parameters,
            f"CrossedParameters<{functor.name}, {places}, {most}, {types}>",
        )

    def bind(self, library: KernelLibrary, kernel: Kernel, functor: AnyFunctor, pointers: Sequence[int]) -> Launch:
        """The launch over tensors at these addresses, the output's first."""
        argument = np.zeros(1, kernel.parameters)
        offset, most = argument["strides"].dtype.name, argument["outer"]["sizes"].shape[-1]
        argument["output"], argument["inputs"] = pointers[0], pointers[1:]
        argument["outer"] = axes_value(self.outer, len(pointers), offset, most)
        argument["strides"] = [[side.strides[at] for side in self.sides] for at in range(len(pointers))]
        argument["sizes"] = [side.size for side in self.sides]
        argument["tiles"] = [divisor(-(-side.size // TILE_SIDE)) for side in self.sides]
        argument["count"] = self.tiles
        functor.write(argument["functor"])
        return library.launch(kernel, (min(self.tiles, _MOST_BLOCKS),), ELEMENT_THREADS, argument)
