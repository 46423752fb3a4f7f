"""`GraphLaunches`: the launches of a graph's steps, which move from one set of memory to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.arrays import array_at
from dmlpy.devices.graphs.ir import node_name
from dmlpy.devices.graphs.packing import BorrowingMemory
from dmlpy.devices.host.memory import no_memory
from dmlpy.devices.plan import BoundAddress, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.dispatch import BoundedValues, ValueBound
    from dmlpy.devices.graphs.ir import Source
    from dmlpy.devices.graphs.program import Copy, GraphProgram, Location, NodeStep
    from dmlpy.devices.plan import Launch, LaunchSequence
    from dmlpy.devices.reporting.profile import ProfiledPart

SCRATCH = ""
"""The scratch among the addresses of a graph. No input and no output has this name."""


class GraphLaunches:
    """The launches of a graph over one set of memory. They refer to it by addresses only: the caller keeps inputs, outputs and scratch.

    Other memory is written into the launches that the device relocates; only the other launches are bound again.

    Args:
        program: the graph's steps.
        device: where they run.
        name: the graph's name in messages.
        label: the label of a node.
        constants: the data of its constant nodes that are read as they are.
        persistent: owned inputs and packed constants; None if there are none.
    """

    def __init__(
        self,
        program: GraphProgram,
        device: Device,
        name: str,
        label: Callable[[int], str],
        constants: Mapping[Source, Memory],
        persistent: Memory | None,
    ) -> None:
        self._program, self._device, self._name, self._label = program, device, name, label
        self._memory = constants, persistent
        self._packed = self._bound_address(0 if persistent is None else persistent.pointer, None)
        self._fixed = {source: self._bound_address(constant.pointer, None) for source, constant in constants.items()}
        self._fixed |= {source: self._packed + offset for source, offset in program.owned.items()}
        if isinstance(persistent, BorrowingMemory):
            self._fixed |= {source: self._bound_address(pointer, None) for source, pointer in persistent.borrowed.items()}
        owned = frozenset(program.ir.owned)
        self._names = {source: name for name, (source, _) in program.ir.inputs.items() if name not in owned}
        self._names |= program.direct
        self._launches: LaunchSequence | None = None
        self._launch: Launch | None = None
        self._launched_at: dict[str, int] = {}
        """The addresses that these launches are for, by name."""
        self._value_bounds = self._find_value_bounds()

    def at(self, addresses: Mapping[str, int]) -> Launch:
        """The work with the scratch, inputs and outputs at these addresses, by name. It replaces that for others."""
        launches = self._launches
        self._launches = None  # after an interrupt all are created anew
        if launches is None:
            everything = range(len(self._program.steps) + len(self._program.copies))
            moved = self._device.sequence([self._part_launch(at, addresses) for at in everything])
        else:
            moved = self._moved(launches, addresses)
        if moved is not launches or self._launch is None:
            self._launch = self._whole(moved)
        self._launched_at, self._launches = dict(addresses), moved
        return self._launch

    def in_order(self, addresses: Mapping[str, int]) -> list[Launch]:
        """The launches that do the work at these addresses one after the other, until `at` replaces them."""
        self.at(addresses)
        assert self._launches is not None  # `at` has made them
        return [part for part, _ in self._launches.parts]

    def parts(self, addresses: Mapping[str, int]) -> list[ProfiledPart]:
        """The launches of the nodes, and of the copies after them, for these addresses: one by one, to be timed."""
        from dmlpy.devices.flops import flops_of  # imports operators
        from dmlpy.devices.reporting.profile import ProfiledPart  # imports tables

        program, parts = self._program, []
        graph, chains = program.ir.graph, program.ir.groups
        for at, step in enumerate(program.steps):
            others = (*(index for index in chains.get(step.node, ()) if index != step.node), *program.ir.fused.get(step.node, ()))
            desc = step.operator.desc
            launch, fused = self._part_launch(at, addresses), tuple(node_name(graph, index) for index in others)
            parts.append(ProfiledPart(node_name(graph, step.node), type(desc).short_name() or desc.c_name, launch, flops_of(desc), fused))
        for at, copy in enumerate(program.copies, len(program.steps)):
            parts.append(ProfiledPart(f"copy of {copy.output}", "copy", self._part_launch(at, addresses)))
        return parts

    def _moved(self, launches: LaunchSequence, addresses: Mapping[str, int]) -> LaunchSequence:
        """Launches for other addresses."""
        before, affected_steps = self._launched_at, self._program.affected_steps
        changed = [name for name, pointer in addresses.items() if before[name] != pointer]
        if not changed:
            return launches
        launches.relocate(addresses)
        everything = range(len(self._program.steps) + len(self._program.copies))
        affected: set[int] = set()
        for name in changed:
            affected.update(everything if name == SCRATCH else affected_steps.get(name, ()))
        affected.difference_update(launches.relocatable)
        return launches.replaced({at: self._part_launch(at, addresses) for at in affected}) if affected else launches

    def _bound_address(self, pointer: int, memory: str | None, offset: int = 0) -> int:
        """The address of a byte of some memory, which begins at `pointer`."""
        return BoundAddress(pointer + offset, memory, offset) if self._device.relocates else pointer + offset

    def _base(self, root: Source, addresses: Mapping[str, int], byte: int = 0) -> int:
        """The address of a byte of a value that has its own memory."""
        if (name := self._names.get(root)) is not None:
            return self._bound_address(addresses[name], name, byte)
        offset = self._program.offsets.get(root)
        return self._fixed[root] + byte if offset is None else self._bound_address(addresses[SCRATCH], SCRATCH, offset + byte)

    def _part_launch(self, at: int, addresses: Mapping[str, int]) -> Launch:
        """The launch of a step, or of a copy after them."""
        steps, copies = self._program.steps, self._program.copies
        if at < len(steps):
            return self._step_launch(at, steps[at], addresses)
        return self._copy_launch(copies[at - len(steps)], addresses)

    def _whole(self, launches: LaunchSequence) -> Launch:
        """One launch of all. It does not refer to this object: in a reference cycle the scratch would wait for the garbage collector."""
        program, whole_name, parts = self._program, self._name, launches.parts

        def launch(stream: int) -> None:
            done = 0
            try:
                for part, count in parts:
                    part(stream)
                    done += count
            except MemoryError as error:
                name = program.steps[done].operator.name if done < len(program.steps) else whole_name
                raise no_memory(name, error) from None

        return launch

    def _step_launch(self, at: int, step: NodeStep, addresses: Mapping[str, int]) -> Launch:
        pointers = {place: self._base(root, addresses, byte) for place, (root, byte) in step.tensors.items()}
        scratch = self._bound_address(addresses[SCRATCH], SCRATCH, self._program.scratch.get(at, 0))
        launch = step.operator._plan.bind(pointers, scratch, None if step.packed is None else self._packed + step.packed)
        if step.cleared:
            sizes = ((int(self._base(source, addresses)), size) for source, size in step.cleared)
            launch = in_order([*(self._clear(pointer, size) for pointer, size in sizes), launch])
        label, node = self._label, step.node
        return self._device.part(launch, lambda: label(node))

    def _clear(self, pointer: int, size: int) -> Launch:
        clear = self._device.clear
        return lambda stream: clear(pointer, size, stream)

    def _copy_launch(self, copy: Copy, addresses: Mapping[str, int]) -> Launch:
        source, size, device = self._base(copy.source, addresses), copy.desc.extent_in_bytes, self._device
        target = self._bound_address(addresses[copy.output], copy.output)
        if copy.operator is None:
            return lambda stream: device.copy(target, source, size, stream)
        return copy.operator._plan.bind({"input_tensor": source, "output_tensor": target}, 0, None)

    def bounded_values(self, addresses: Mapping[str, int]) -> BoundedValues:
        """The bounds of values that exist before the graph runs, by their names in the graph, with the values."""
        values: list[tuple[ValueBound, np.ndarray[Any, Any]]] = []
        for bound, (root, byte), memory in self._value_bounds:
            pointer = self._base(root, addresses) + byte
            values.append((bound, array_at(pointer, memory.sizes, memory.data_type.numpy, memory.element_strides)))
        return values

    def _find_value_bounds(self) -> list[tuple[ValueBound, Location, TensorDesc]]:
        """The bounds of values that exist before the graph runs, where they lie, and how."""
        ir, bounds = self._program.ir, []
        for step in self._program.steps if self._device.memory_kind == "cpu" else ():
            for bound in step.operator._value_bounds:
                source = ir.reads[step.node, bound.name]
                if source[0] is None or ir.constant(source) is not None:
                    name = ir.value_label(source) if source[0] is None else self._label(source[0])
                    memory = step.operator.desc.tensors()[bound.name].memory
                    bounds.append((bound._replace(name=name), step.tensors[bound.name], memory))
        return bounds
