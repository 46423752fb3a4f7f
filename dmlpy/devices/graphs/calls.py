"""`GraphCalls`: single runs of a graph in host memory, which reuse the launches of earlier ones."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import address_of
from dmlpy.devices.dispatch import check_value_bounds
from dmlpy.devices.graphs.launches import SCRATCH, GraphLaunches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.dispatch import Area
    from dmlpy.devices.plan import Launch

_MOST_KEPT = 4
"""The most launches that wait for the next call: as many threads can call the graph without binding it anew."""
_MOST_SCRATCH = 1 << 20
"""The most bytes of scratch that are kept with them. With more, launches that are not relocated are bound again in each call."""


class GraphCalls:
    """Single runs of a graph. What they keep refers to no input and no output. Threads may share it.

    Args:
        device: the device, which has host memory.
        name: the graph's name in messages.
        inputs: the descs of what a call binds, by name.
        outputs: those of the outputs.
        areas: the memory besides them, which no output may share.
        size: the bytes of scratch.
        make: makes launches of the graph.
        allocate: allocates scratch of a number of bytes.
    """

    def __init__(
        self,
        device: Device,
        name: str,
        inputs: Mapping[str, TensorDesc],
        outputs: Mapping[str, TensorDesc],
        areas: Iterable[Area],
        size: int,
        make: Callable[[], GraphLaunches],
        allocate: Callable[[int], Memory],
    ) -> None:
        self._device, self._name, self._size, self._make, self._allocate = device, name, size, make, allocate
        self._inputs, self._outputs, self._areas = _PackedArrays(inputs), _PackedArrays(outputs), list(areas)
        self._descs, self._purpose = outputs, f"outputs of {name}"
        self._waiting: deque[_Kept] = deque(maxlen=_MOST_KEPT)

    def on_arrays(self, tensors: Mapping[str, Any], stream: int) -> dict[str, Any] | None:
        """Runs the graph once on packed arrays of NumPy; it allocates the outputs, or all of them are among the arguments.

        Returns:
            The outputs by name; None for other arguments, and for those that share memory, with which nothing has been done.
        """
        allocates = len(tensors) == len(self._inputs)
        if not allocates and len(tensors) != len(self._inputs) + len(self._outputs):
            return None
        if (addresses := self._inputs.addresses(tensors, written=False)) is None:
            return None
        if allocates:  # new memory is nobody else's
            outputs = self._device.outputs(self._descs, stream, self._purpose)
            addresses.update({name: address_of(array) for name, array in outputs.items()})
        else:
            if (written := self._outputs.addresses(tensors, written=True)) is None:
                return None
            spans = sorted([*self._inputs.spans(addresses), *self._outputs.spans(written), *self._areas])
            if any(first[1] > second[0] for first, second in pairwise(spans)):
                return None
            addresses.update(written)
            outputs = {name: tensors[name] for name in written}
        self.run(addresses, None, stream)
        return outputs

    def run(self, addresses: Mapping[str, int], scratch: Memory | None, stream: int) -> None:
        """Runs the graph once.

        Args:
            addresses: those of inputs and outputs, by name.
            scratch: memory to use; None uses memory of its own.
            stream: the stream.
        """
        try:
            kept = self._waiting.pop()
        except IndexError:
            kept = _Kept(self._make())
        memory = scratch or kept.scratch or self._allocate(self._size)
        everything = {SCRATCH: memory.pointer, **addresses}
        if bounded := kept.launches.bounded_values(everything):
            check_value_bounds(self._name, bounded)
        launch = kept.launches.at(everything)
        if launch is not kept.launch:
            kept.launch, kept.dispatched = launch, self._device.dispatched(launch, self._name)
        assert kept.dispatched is not None
        kept.dispatched(stream)
        kept.scratch = memory if scratch is None and self._size <= _MOST_SCRATCH else None
        self._waiting.append(kept)


class _PackedArrays:
    """Tensors as packed arrays of NumPy, in which a call looks at the least that makes them fit.

    Args:
        descs: the tensors by name.
    """

    def __init__(self, descs: Mapping[str, TensorDesc]) -> None:
        self._count = len(descs)
        self._fit = all(
            desc.strides is None and desc.data_type.bits != 4 and desc.required_alignment <= desc.data_type.numpy.alignment
            for desc in descs.values()
        )
        packed_descs = descs.items() if self._fit else ()
        self._wanted = [(name, desc.data_type.numpy, desc.sizes, desc.extent_in_bytes) for name, desc in packed_descs]

    def __len__(self) -> int:
        return self._count

    def addresses(self, tensors: Mapping[str, Any], *, written: bool) -> dict[str, int] | None:
        """The addresses of these tensors among arguments, by name; None if one is missing or something else."""
        if not self._fit:
            return None
        addresses = {}
        for name, dtype, sizes, _ in self._wanted:
            array = tensors.get(name)
            if type(array) is not np.ndarray or array.shape != sizes or array.dtype != dtype:
                return None
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned) or (written and not flags.writeable):
                return None
            addresses[name] = address_of(array)
        return addresses

    def spans(self, addresses: Mapping[str, int]) -> list[Area]:
        """The memory at these addresses."""
        return [(addresses[name], addresses[name] + size) for name, _, _, size in self._wanted]


class _Kept:
    """Launches, what they were made of last, and their scratch."""

    def __init__(self, launches: GraphLaunches) -> None:
        self.launches = launches
        self.launch: Launch | None = None
        self.dispatched: Launch | None = None
        self.scratch: Memory | None = None
