"""`TiledPlan`: the base of the plans of convolution. Filters as matrices of float32, tiles shared among threads, and each one's scratch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.graphs.fused_convolution_descs import NormalizedConvolutionDesc
from dmlpy.devices.host.blas import WORK_OF_A_THREAD, with_limited_blas
from dmlpy.devices.host.threads import available_threads, share
from dmlpy.devices.numpy.convolution.finish import Call, Finish
from dmlpy.devices.numpy.convolution.geometry import Array, Geometry, Index, filter_array, tensor_array
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers
from dmlpy.messages.naming import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dmlpy.operators.convolution import ConvolutionDesc

_ALIGNMENT = 64
STATISTICS = ("mean_tensor", "variance_tensor", "scale_tensor", "offset_tensor")
"""The statistics of a `NormalizedConvolutionDesc`."""

_WORK_OF_A_THREAD = 1 << 22
"""Multiplications that are worth waking another thread for."""

CACHE = 1 << 18
"""Elements of a tile's panel, at most: 1 MiB of float32, a common second-level cache."""

Scratch = tuple[str, "Sequence[int]", "np.dtype[Any]"]
Tile = Any
"""The unit of a plan's work."""


class TiledPlan(Plan):
    """A convolution on the host.

    A packed float32 filter is multiplied in place. Any other one is packed once by `prepare`, else in each launch.

    Args:
        desc: a checked desc.
        geometry: its sizes.
    """

    def __init__(self, desc: ConvolutionDesc, geometry: Geometry) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        self._geometry, self._tensors = geometry, desc.tensors()
        self._finish = Finish(desc.fused_activation)
        biased, groups = desc.bias_tensor is not None, geometry.groups
        self._normalized = isinstance(desc, NormalizedConvolutionDesc)
        self._epsilon = desc.epsilon if isinstance(desc, NormalizedConvolutionDesc) else 0.0
        filters, bias = desc.filter_tensor, desc.bias_tensor
        in_place = filters.data_type.numpy == COMPUTE and filters.is_packed and not geometry.flipped
        coefficients = ("centre", "factor", "bias") if self._normalized else ("bias",) if biased else ()
        converts = self._normalized or (bias is not None and bias.data_type.numpy != COMPUTE)
        layout: list[Scratch] = [] if in_place else [("filter", (groups, *self._matrix()), COMPUTE)]
        layout += [(name, (groups, geometry.filters), COMPUTE) for name in coefficients if converts or not in_place]
        self._packed = Layout(layout, _ALIGNMENT)
        packed: tuple[str, ...] = () if in_place else ("filter_tensor",)
        packed += ("bias_tensor",) if biased and (converts or not in_place) else ()
        self.constants = (*packed, *STATISTICS) if self._normalized else packed
        self.persistent_size = self._packed.size
        self._stores_sums = self._finish.absent and not coefficients
        self._tiles = tuple(self._divided())
        self._thread_layout = Layout(self._scratch(), _ALIGNMENT)
        most = geometry.multiplications // _WORK_OF_A_THREAD
        self._threads = max(1, min(available_threads(), len(self._tiles), most))
        self.prepared_temporary_size = self._threads * self._thread_layout.size
        self.temporary_size = self.prepared_temporary_size + self.persistent_size

    @property
    @abstractmethod
    def part_size(self) -> int:
        """Elements of scratch for the input that the windows of a tile span in a channel."""

    @property
    @abstractmethod
    def useful_size(self) -> int:
        """The number of elements that the taps read, if all are different."""

    @abstractmethod
    def _matrix(self) -> tuple[int, int]:
        """The rows and columns of a group's filter in memory."""

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
    def _work(self, arrays: dict[str, Array], scratch: dict[str, Array]) -> Callable[[Tile], None]:
        """Creates the function that computes a tile.

        Args:
            arrays: input_tensor and output_tensor as [batch, group, channel, *three spatial dimensions], filter as [group, *matrix], and
                centre, factor and bias, if present, as [group, channel].
            scratch: a thread's arrays.
        """

    def _describe_tiles(self, what: str) -> str:
        threads = plural(self._threads, "thread")
        count = len(self._tiles)
        lines = [f"NumPy, {COMPUTE} arithmetic on {threads}; {plural(count, 'tile')} of {what}"]
        if self.constants:
            lines.append(f"{' and '.join(self.constants)}: packed as {COMPUTE}")
        return "\n".join(lines)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        geometry, packed = self._geometry, self._packed.arrays_at(persistent)
        places: list[tuple[Array, Array]] = []
        if "filter" in packed:
            filters = filter_array(self._tensors["filter_tensor"], constants["filter_tensor"], geometry.groups)
            filters = filters[..., ::-1, ::-1, ::-1] if geometry.flipped else filters
            places.append((packed["filter"].reshape(filters.shape), filters))
        given = {name: self._of_channels(name, constants[name]) for name in self.constants if name != "filter_tensor"}
        if "bias" in packed and not self._normalized:
            places.append((packed["bias"], given["bias_tensor"]))

        def launch(stream: int) -> None:
            for target, source in places:
                np.copyto(target, source)
            if self._normalized:
                self._set_coefficients(packed, {name: array.astype(np.float64) for name, array in given.items()})

        return launch

    def _set_coefficients(self, packed: dict[str, Array], given: dict[str, Array]) -> None:
        """Sets the coefficients of y = (sums - centre) * factor + bias.

        A centre of 0 with all in the bias, which saves a call, adds less than the rounding of the sums does, where all is finite.
        """
        with np.errstate(all="ignore"):
            centre = given["mean_tensor"] - given.get("bias_tensor", 0.0)
            factor = (given["scale_tensor"] / np.sqrt(given["variance_tensor"] + self._epsilon)).astype(COMPUTE)
            bias = given["offset_tensor"] - centre * factor
            folds = np.isfinite(factor) & np.isfinite(bias.astype(COMPUTE))
            np.copyto(packed["factor"], factor)
            np.copyto(packed["centre"], np.where(folds, 0.0, centre), casting="same_kind")
            np.copyto(packed["bias"], np.where(folds, bias, given["offset_tensor"]), casting="same_kind")

    def _of_channels(self, name: str, pointer: int) -> Array:
        """A tensor with an entry for each output channel, [group, channel]."""
        channels: Array = tensor_array(self._tensors[name], pointer, self._geometry.groups)[0, :, :, 0, 0, 0]
        return channels

    def _first_calls(self, arrays: dict[str, Array]) -> Callable[[Index], list[Call]]:
        """Creates the function that returns the calls before the fused function, for the output channels of an index [group, channel]."""
        bias, centre, factor = (arrays.get(name) for name in ("bias", "centre", "factor"))

        def calls(channels: Index) -> list[Call]:
            first_calls: list[Call] = []
            if centre is not None and centre[channels].any():
                first_calls.append((np.subtract, centre[channels][:, np.newaxis]))
            if factor is not None:
                first_calls.append((np.multiply, factor[channels][:, np.newaxis]))
            if bias is not None:
                first_calls.append((np.add, bias[channels][:, np.newaxis]))
            return first_calls

        return calls

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        groups = self._geometry.groups
        arrays = {name: tensor_array(self._tensors[name], tensors[name], groups) for name in ("input_tensor", "output_tensor")}
        place = temporary + self.prepared_temporary_size if persistent is None else persistent
        first = self.pack(tensors, place) if persistent is None and self.constants else None
        if "filter_tensor" not in self.constants:
            filters = filter_array(self._tensors["filter_tensor"], tensors["filter_tensor"], groups)
            arrays["filter"] = filters.reshape(groups, *self._matrix())
        if "bias_tensor" in self._tensors and "bias_tensor" not in self.constants:
            arrays["bias"] = self._of_channels("bias_tensor", tensors["bias_tensor"])
        if self.constants:
            arrays |= self._packed.arrays_at(place)
        work = [
            self._work(arrays, self._thread_layout.arrays_at(temporary + thread * self._thread_layout.size))
            for thread in range(self._threads)
        ]

        def compute(tile: Tile, thread: int) -> None:
            work[thread](tile)

        def launch(stream: int) -> None:
            if first is not None:
                first(stream)
            share(compute, self._tiles, self._threads)

        # Own threads compute the tiles, each with one BLAS thread; a single tile uses BLAS's threads.
        product = self._product()
        return with_limited_blas(launch, product if self._threads == 1 else min(product, WORK_OF_A_THREAD))
