"""`GraphDispatch`: a graph with all its memory bound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dmlpy.arrays import array_at
from dmlpy.description.naming import did_you_mean
from dmlpy.devices import binding
from dmlpy.devices.device import Memory, no_memory
from dmlpy.devices.dispatch import BoundWork, Limit, check_limits
from dmlpy.devices.graphs.hazards import shared_memory
from dmlpy.devices.plan import Launch, in_order
from dmlpy.validation.problems import BindError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from dmlpy.devices.binding import Bound
    from dmlpy.devices.graphs.compiled import CompiledGraph
    from dmlpy.devices.graphs.program import Copy, Step
    from dmlpy.devices.graphs.wiring import Source


class GraphDispatch(BoundWork):
    """A graph with all its memory: calling it launches every node. It owns its scratch: see `Dispatch`.

    On a GPU the whole graph is captured in one CUDA graph, and a call is one launch of it.

    Sequence lengths that a node computes count as the nearest ones in range, as in a GPU's memory: by then other nodes have written. After
    an error the nodes before it have run, but for `BindError`: then none has.

    Args:
        graph: the graph.
        inputs: its inputs, without owned ones.
        outputs: all its outputs.
        constants: the data of its constant nodes that are read as they are.
        scratch: the block of memory of the plan.
        persistent: owned inputs and packed constants; None if there are none.
        repeated: whether the launches are put into the form that is cheapest to repeat.
    """

    def __init__(
        self,
        graph: CompiledGraph,
        inputs: Sequence[Bound],
        outputs: Sequence[Bound],
        constants: Mapping[Source, Memory],
        scratch: Memory,
        persistent: Memory | None,
        *,
        repeated: bool,
    ) -> None:
        super().__init__(graph.name, graph.device)
        self.graph = graph
        self._program = program = graph._program
        self._bound = {item.name: item for item in (*inputs, *outputs)}
        self._memories = tuple(memory for memory in (scratch, persistent, *constants.values()) if memory is not None)
        self._areas = {"temporary": scratch.area} | ({} if persistent is None else {"persistent": persistent.area})
        self._packed = 0 if persistent is None else persistent.pointer
        self._scratch = scratch.pointer
        self._repeated = repeated
        self._fixed = {source: scratch.pointer + offset for source, offset in program.offsets.items()}
        self._fixed |= {source: memory.pointer for source, memory in constants.items()}
        self._fixed |= {source: self._packed + offset for source, offset in program.owned.items()}
        bases = self._bases(self._bound)
        self._launches = [self._step_launch(at, step, bases) for at, step in enumerate(program.steps)]
        self._launches += [self._copy_launch(copy, bases, self._bound) for copy in program.copies]
        self._limits = self._limits_of(bases)
        self._work: Launch | None = self._joined(self._launches)

    def rebind(self, **tensors: Any) -> None:
        """Binds other memory to some inputs and outputs; all others keep theirs.

        Dispatches that were enqueued before still use the old memory. On a GPU the next call captures the graph anew: CuPy cannot change
        the addresses in an instantiated CUDA graph.

        Args:
            **tensors: arrays or `Buffer`s by name.

        Raises:
            BindError: memory that does not fit or is used twice; all stays as it was.
            DispatchError: a call of this dispatch is under way.
        """
        self._alone(self._rebind, tensors)

    def _rebind(self, tensors: Mapping[str, Any]) -> None:
        bound, changed = dict(self._bound), list[str]()
        problems: list[Problem] = []
        for name, value in tensors.items():
            old = bound.get(name)
            if old is None:
                problems.append(self._not_bound(name))
                continue
            known = self.graph._layouts["output" if old.output else "input"][name]
            place, wrong = binding.place(self._device, name, old.desc, value, output=old.output, known=known)
            problems += wrong
            if place is not None:
                bound[name] = place
                changed.append(name)
        if not problems:
            items = bound.values()
            problems = shared_memory([item for item in items if not item.output], [item for item in items if item.output], self._areas)
        if problems:
            raise BindError(f"{self._name}.rebind", problems)
        program, bases, launches = self._program, self._bases(bound), list(self._launches)
        steps = {at for name in changed for at in program.concerned.get(name, ())}
        for at in steps:
            if at < len(program.steps):
                launches[at] = self._step_launch(at, program.steps[at], bases)
            else:
                launches[at] = self._copy_launch(program.copies[at - len(program.steps)], bases, bound)
        limits = self._limits_of(bases) if self._limits else self._limits
        # From here on nothing fails. The work is put together by the next call, so that one rebinding after the other costs little.
        self._work = None
        self._bound, self._launches, self._limits = bound, launches, limits

    def _not_bound(self, name: str) -> Problem:
        if name in self.graph.prepared_inputs:
            return Problem("bind.packed", name, "given", "nothing: prepare has taken it")
        expected = f"one of {', '.join(self._bound)}"
        return Problem("bind.unknown", name, "not bound by this dispatch", expected, remedy=did_you_mean(name, self._bound))

    def _enqueue(self, stream: int) -> None:
        if self._limits:
            check_limits(self._name, self._limits)
        work = self._work
        if work is None:
            work = self._work = self._joined(self._launches)
        work(stream)

    def _joined(self, launches: Sequence[Launch]) -> Launch:
        """One launch of all."""
        program, fixed = self._program, tuple(launches)

        def launch(stream: int) -> None:
            done = 0
            try:
                for part in fixed:
                    part(stream)
                    done += 1
            except MemoryError as error:
                name = program.steps[done].operator.name if done < len(program.steps) else self._name
                raise no_memory(name, error) from None

        whole = self._device.replayed(launch) if self._repeated and fixed else launch
        return self._device.dispatched(whole, self._name, self._memories)

    def _bases(self, bound: Mapping[str, Bound]) -> dict[Source, int]:
        """The address of each value that has memory of its own."""
        program = self._program
        bases = dict(self._fixed)
        for name, (source, _) in program.wiring.inputs.items():
            if name in bound:
                bases[source] = bound[name].pointer
        for source, name in program.direct.items():
            bases[source] = bound[name].pointer
        return bases

    def _step_launch(self, at: int, step: Step, bases: Mapping[Source, int]) -> Launch:
        pointers = {place: bases[root] + byte for place, (root, byte) in step.tensors.items()}
        scratch = self._scratch + self._program.scratch.get(at, 0)
        launch = step.operator._plan.bind(pointers, scratch, None if step.packed is None else self._packed + step.packed)
        if not step.cleared:
            return launch
        clears = [self._clear(bases[source], self._program.layout.reached(source)) for source in step.cleared]
        return in_order([*clears, launch])

    def _clear(self, pointer: int, size: int) -> Launch:
        clear = self._device.clear
        return lambda stream: clear(pointer, size, stream)

    def _copy_launch(self, copy: Copy, bases: Mapping[Source, int], bound: Mapping[str, Bound]) -> Launch:
        source, target, size, device = bases[copy.source], bound[copy.output].pointer, copy.desc.reached_bytes, self._device
        if copy.operator is None:
            return lambda stream: device.copy(target, source, size, stream)
        return copy.operator._plan.bind({"input_tensor": source, "output_tensor": target}, 0, None)

    def _limits_of(self, bases: Mapping[Source, int]) -> list[tuple[Limit, np.ndarray[Any, Any]]]:
        """The limits on values that exist before the graph runs, by their names in the graph."""
        wiring = self._program.wiring
        if self._device.memory_kind != "cpu":
            return []
        found: list[tuple[Limit, np.ndarray[Any, Any]]] = []
        for step in self._program.steps:
            for limit in step.operator._limits:
                source = wiring.reads[step.node, limit.name]
                if source[0] is None or wiring.constant(source) is not None:
                    root, byte = step.tensors[limit.name]
                    held = step.operator.desc.tensors()[limit.name].memory
                    values = array_at(bases[root] + byte, held.sizes, held.data_type.numpy, held.element_strides)
                    name = wiring.value_label(source) if source[0] is None else self.graph.graph.label(source[0])
                    found.append((replace(limit, name=name), values))
        return found

    def _repr_html_(self) -> str:
        from dmlpy.devices.notebook import bound_table

        return bound_table(repr(self), self._bound.values()).to_html()
