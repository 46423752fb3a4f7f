"""`TiledPlan`: the base of the plans of convolution. Filters as matrices of float32, tiles shared among threads, and each one's scratch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.blas import WORK_OF_A_THREAD, with_limited_blas
from dmlpy.devices.numpy.convolution.finish import Finish
from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, filter_array, tensor_array
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers
from dmlpy.devices.threads import available_threads, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dmlpy.operators.convolution import ConvolutionDesc

_ALIGNMENT = 64
_WORK_OF_A_THREAD = 1 << 22
"""Multiplications that are worth waking another thread for."""

CACHE = 1 << 18
"""Elements of a tile's panel, at most: 1 MiB of float32, a common second-level cache."""

Scratch = tuple[str, "Sequence[int]", "np.dtype[Any]"]
Tile = Any
"""What a plan divides its work into."""


class TiledPlan(Plan):
    """A convolution on the host.

    A filter of float32 that lies packed is multiplied where it lies. Any other one is packed once by `prepare`, else in each launch.

    Args:
        desc: a checked desc.
        geometry: its sizes.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._geometry, self._tensors = geometry, desc.tensors()
        self._biased = desc.bias_tensor is not None
        self._finish = Finish(desc.fused_activation)
        filters, groups = desc.filter_tensor, geometry.groups
        rows, columns = self._matrix()
        layout: list[Scratch] = [("filter", (groups, rows, columns), COMPUTE)]
        if desc.bias_tensor is not None:
            layout.append(("bias", (groups, geometry.filters), COMPUTE))
        self._packed = Layout(layout, _ALIGNMENT)
        in_place = filters.data_type.numpy == COMPUTE and filters.is_packed and not geometry.flipped
        plain_bias = desc.bias_tensor is None or desc.bias_tensor.data_type.numpy == COMPUTE
        packs = not (in_place and plain_bias)
        self.constants = ("filter_tensor", *(["bias_tensor"] if self._biased else [])) if packs else ()
        self.persistent_size = self._packed.size if packs else 0
        self._tiles = tuple(self._divided())
        self._own = Layout(self._scratch(), _ALIGNMENT)
        most = geometry.multiplications // _WORK_OF_A_THREAD
        self._threads = max(1, min(available_threads(), len(self._tiles), most))
        self.prepared_temporary_size = self._threads * self._own.size
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    @property
    @abstractmethod
    def part_size(self) -> int:
        """Elements of scratch for what the windows of a tile reach in a channel."""

    @property
    @abstractmethod
    def useful_size(self) -> int:
        """How many of them the taps meet, if each meets others."""

    @abstractmethod
    def _matrix(self) -> tuple[int, int]:
        """The rows and columns of a group's filter, as it lies."""

    @abstractmethod
    def _divided(self) -> Iterable[Tile]:
        """The tiles; called once."""

    @abstractmethod
    def _scratch(self) -> list[Scratch]:
        """A thread's arrays."""

    @abstractmethod
    def _product(self) -> int:
        """The multiplications of a tile's matrix product."""

    @abstractmethod
    def _work(self, arrays: dict[str, Array], own: dict[str, Array]) -> Callable[[Tile], None]:
        """Makes the function that computes a tile.

        Args:
            arrays: input_tensor and output_tensor as [batch, group, channel, *three spatial dimensions], filter as [group, *matrix], and
                bias, if there is one, as [group, channel].
            own: a thread's arrays.
        """

    def _describe_tiles(self, what: str) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        count = len(self._tiles)
        lines = [f"NumPy, {COMPUTE} arithmetic on {threads}; {count} tile{'s' * (count > 1)} of {what}"]
        if self.constants:
            lines.append(f"{' and '.join(self.constants)}: packed as {COMPUTE}")
        return "\n".join(lines)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        groups, geometry = self._geometry.groups, self._geometry
        packed = self._packed.arrays_at(persistent)
        filters = filter_array(self._tensors["filter_tensor"], constants["filter_tensor"], groups)
        if geometry.flipped:
            filters = filters[..., ::-1, ::-1, ::-1]
        places = [(packed["filter"].reshape(filters.shape), filters)]
        if self._biased:
            places.append((packed["bias"], self._bias(constants["bias_tensor"])))

        def launch(stream: int) -> None:
            for target, source in places:
                np.copyto(target, source)

        return launch

    def _bias(self, pointer: int) -> Array:
        found: Array = tensor_array(self._tensors["bias_tensor"], pointer, self._geometry.groups)[0, :, :, 0, 0, 0]
        return found

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        groups = self._geometry.groups
        arrays = {name: tensor_array(self._tensors[name], tensors[name], groups) for name in ("input_tensor", "output_tensor")}
        first: Launch | None = None
        if self.constants:
            place = temporary + self.prepared_temporary_size if persistent is None else persistent
            first = self.pack(tensors, place) if persistent is None else None
            arrays |= self._packed.arrays_at(place)
        else:
            filters = filter_array(self._tensors["filter_tensor"], tensors["filter_tensor"], groups)
            arrays["filter"] = filters.reshape(groups, *self._matrix())
            if self._biased:
                arrays["bias"] = self._bias(tensors["bias_tensor"])
        work = [self._work(arrays, self._own.arrays_at(temporary + thread * self._own.size)) for thread in range(self._threads)]

        def compute(tile: Tile, thread: int) -> None:
            work[thread](tile)

        def launch(stream: int) -> None:
            if first is not None:
                first(stream)
            share(compute, self._tiles, self._threads)

        # Threads of its own take the tiles, each with one of BLAS; a single tile is left to BLAS's.
        product = self._product()
        return with_limited_blas(launch, product if self._threads == 1 else min(product, WORK_OF_A_THREAD))
