"""`Packing`: fills the persistent memory of a graph with copies of its owned inputs and with packed constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.devices.device import Device, Memory
from dmlpy.devices.graphs.memory_planner import aligned
from dmlpy.devices.host.memory import no_memory
from dmlpy.devices.persistence.pickling import Bytes, filled, layout_fingerprint, packed_bytes
from dmlpy.devices.plan import Launch, in_order
from dmlpy.messages.problems import PickleError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence

    from dmlpy.devices.dispatch import Area
    from dmlpy.devices.graphs.ir import Source
    from dmlpy.devices.graphs.program import GraphProgram
    from dmlpy.devices.memory.binding import BoundTensor

_ALLOCATED_ALIGNMENT = 64
"""Every device's allocations are aligned to this many bytes."""


_LEAST_BORROWED = 1 << 12
"""The bytes of an owned input that are worth not copying."""


@dataclass(frozen=True)
class BorrowingMemory(Memory):
    """Filled memory without the copies of those owned inputs that are read where they are.

    Attributes:
        borrowed: their addresses.
        immutable: their memory, by the inputs' names: nothing may write there.
    """

    borrowed: Mapping[Source, int] = field(default_factory=dict)
    immutable: Mapping[str, Area] = field(default_factory=dict)


class Packing:
    """The initialisation of one graph.

    Attributes:
        staged_size: bytes of the constants that are only packed, and are in the device's memory meanwhile.

    Args:
        program: the graph's.
        device: where it runs.
        name: the graph's, for messages.
    """

    def __init__(self, program: GraphProgram, device: Device, name: str) -> None:
        self._program, self._device, self._name = program, device, name
        self._places: dict[Source, int] = {}
        self.staged_size = 0
        for source in program.staged_constants:
            self._places[source] = self.staged_size
            self.staged_size += aligned(len(self._data(source)))

    def allocate(self, size: int, stream: int, purpose: str) -> Memory:
        """Memory that is aligned as the descs of the graph promise."""
        alignment = self._program.alignment
        if not size or alignment <= _ALLOCATED_ALIGNMENT:
            return self._device.allocate(size, stream, purpose)
        block = self._device.allocate(size + alignment, stream, purpose)
        return Memory(block.pointer + -block.pointer % alignment, size, block, block.used_in)

    def pack(
        self,
        owned: Sequence[BoundTensor],
        persistent: Memory | None,
        stream: int,
        temporary: Memory | None = None,
        *,
        immutable: Collection[str] = (),
        on_packed: Callable[[str], None] | None = None,
    ) -> Memory:
        """Enqueues the initialisation.

        Args:
            owned: the owned inputs.
            persistent: memory to fill; None allocates it.
            stream: where the work is ordered.
            temporary: `staged_size` bytes to use meanwhile; None allocates them.
            immutable: the owned inputs that stay as they are: large ones in host memory are not copied, if they are aligned alike.
            on_packed: see `CompiledGraph.prepare`.

        Returns:
            The filled memory.
        """
        device, program = self._device, self._program
        memory = persistent or self.allocate(program.persistent_size, stream, f"packed constants of {self._name}")
        if not program.persistent_size:
            return memory
        scratch = temporary or device.allocate(self.staged_size, stream, f"constants of {self._name} while they are packed")
        bases = {program.ir.inputs[item.name][0]: item.pointer for item in owned}
        stage = [self._stage(source, scratch.pointer + place, stream) for source, place in self._places.items()]
        bases |= {source: scratch.pointer + place for source, place in self._places.items()}
        raw = {source: device.upload(self._data(source), stream) for source in self._packed_and_read()}
        bases |= {source: item.pointer for source, item in raw.items()}
        borrowed = self._borrowed(bases, immutable) if persistent is None else {}
        work = self._copies(bases, memory.pointer, borrowed) + self._packs(bases, memory.pointer)
        used = [memory, scratch, *stage, *raw.values()]
        lent = [item for item in owned if program.ir.inputs[item.name][0] in borrowed]
        filled = memory
        if lent:
            read = {item.name: (item.pointer, item.end) for item in lent}
            filled = BorrowingMemory(memory.pointer, memory.size, (memory, [item.owner for item in lent]), memory.used_in, borrowed, read)
        in_turn = on_packed is not None and device.memory_kind == "cpu"
        try:
            for launches, done in self._in_turn(work, owned, borrowed) if in_turn else [(work, ())]:
                device.dispatched(in_order(launches), f"{self._name} prepare", used)(stream)
                for item in done:
                    item.forget()
                    on_packed(item.name)  # type: ignore[misc]  # not None here
        except MemoryError as error:
            raise no_memory(f"{self._name}.prepare", error) from None
        return filled

    def _in_turn(
        self, work: Sequence[Launch], owned: Sequence[BoundTensor], borrowed: Container[Source]
    ) -> Iterator[tuple[Sequence[Launch], Sequence[BoundTensor]]]:
        """The launches of `pack` one by one, each with the owned inputs that are not read after it."""
        packed = [{root for root, _ in step.constants.values()} for step in self._program.steps if step.packed is not None]
        read = [{source} for source in self._program.owned if source not in borrowed] + packed
        last = {source: at for at, sources in enumerate(read) for source in sources}
        done: dict[int, list[BoundTensor]] = {}
        for item in owned:
            source = self._program.ir.inputs[item.name][0]
            if source not in borrowed and source in last:
                done.setdefault(last[source], []).append(item)
        for at, launch in enumerate(work):
            yield [launch], done.get(at, ())

    def _borrowed(self, bases: Mapping[Source, int], immutable: Collection[str]) -> dict[Source, int]:
        """The addresses of immutable inputs that nodes may read where they are."""
        if self._device.memory_kind != "cpu":
            return {}
        alignment, sizes = max(_ALLOCATED_ALIGNMENT, self._program.alignment), self._owned_sizes
        sources = {self._program.ir.inputs[name][0] for name in immutable} & self._program.owned.keys()
        return {source: bases[source] for source in sources if sizes[source] >= _LEAST_BORROWED and bases[source] % alignment == 0}

    def _data(self, source: Source) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        node = self._program.ir.constant(source)
        assert node is not None
        return np.frombuffer(node.data, np.uint8)

    def _stage(self, source: Source, pointer: int, stream: int) -> Memory:
        uploaded = self._device.upload(self._data(source), stream)
        self._device.copy(pointer, uploaded.pointer, uploaded.size, stream)
        return uploaded

    def _packed_and_read(self) -> tuple[Source, ...]:
        """Constants that one node packs and another reads unpacked."""
        packed = {root for step in self._program.steps for root, _ in step.constants.values()}
        return tuple(source for source in self._program.raw_constants if source in packed)

    @cached_property
    def _owned_sizes(self) -> Mapping[Source, int]:
        ir = self._program.ir
        return {source: tensor.extent_in_bytes for source, tensor in map(ir.inputs.__getitem__, ir.owned)}

    def _copies(self, bases: Mapping[Source, int], persistent: int, borrowed: Container[Source] = ()) -> list[Launch]:
        """The launches that copy owned inputs, but for borrowed ones."""
        device, sizes = self._device, self._owned_sizes

        def copy(source: Source, offset: int) -> Launch:
            return lambda stream: device.copy(persistent + offset, bases[source], sizes[source], stream)

        return [copy(source, offset) for source, offset in self._program.owned.items() if source not in borrowed]

    def _packs(self, bases: Mapping[Source, int], persistent: int) -> list[Launch]:
        """The launches that pack the constants of nodes."""
        return [
            step.operator._plan.pack(
                {place: bases[root] + byte for place, (root, byte) in step.constants.items()}, persistent + step.packed
            )
            for step in self._program.steps
            if step.packed is not None
        ]

    @cached_property
    def layout(self) -> Hashable:
        """A key of how owned inputs and constants are packed: graphs with equal keys pack alike. None if unknown.

        Constants are identified by the objects that hold their bytes.
        """
        program = self._program
        if program.packing is None:
            return None
        roots = (root for step in program.steps if step.packed is not None for root, _ in step.constants.values())
        return program.packing, tuple([id(node.data) for root in roots if (node := program.ir.constant(root)) is not None])

    # pickles

    def packed_bytes(self, memory: Memory) -> Bytes:
        """The filled memory in host memory; waits for the work on the current stream."""
        if isinstance(memory, BorrowingMemory):
            for source, pointer in memory.borrowed.items():
                self._device.copy(memory.pointer + self._program.owned[source], pointer, self._owned_sizes[source], 0)
        return packed_bytes(self._device, memory, self._program.persistent_size)

    def fingerprint(self) -> bytes:
        """A hash of how the plans of all nodes pack: equal hashes pack alike."""
        digest = blake2b(str(self._program.persistent_size).encode(), digest_size=16)
        for step in self._program.steps:
            if step.packed is not None:
                digest.update(f"{step.node} {step.packed} ".encode() + layout_fingerprint(step.operator))
        for source, offset in self._program.owned.items():
            digest.update(f"{source} {offset} ".encode())
        return digest.digest()

    def restore(self, packed: Bytes, fingerprint: bytes) -> Memory:
        """Allocates memory of the device and fills it with the bytes of a pickle.

        Raises:
            PickleError: they were packed for another layout.
        """
        if fingerprint != self.fingerprint():
            raise PickleError(
                f"a pickle of a prepared graph {self._name} does not fit this machine: the plans here pack constants in another layout. "
                "With prepare(portable=True, ...) it is packed anew where it is loaded"
            )
        stream = self._device.current_stream()
        return filled(self._device, self.allocate(len(packed), stream, f"packed constants of {self._name}"), packed, stream)
