"""`OperatorInitializer`: prepares several operators and graphs at once, as IDMLOperatorInitializer does."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.devices.graphs.compiled import CompiledGraph, PreparedGraph
from dmlpy.devices.memory import binding
from dmlpy.devices.operator import CompiledOperator, PreparedOperator
from dmlpy.devices.plan import BindingProperties
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import BindError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.devices.device import Memory

Target = CompiledOperator | CompiledGraph
Prepared = PreparedOperator | PreparedGraph


class OperatorInitializer:
    """Prepares compiled operators and graphs of one device in one call.

    Args:
        targets: the operators and graphs.

    Raises:
        BindError: they are of different devices.
    """

    def __init__(self, targets: Sequence[Target] = ()) -> None:
        self.targets: tuple[Target, ...] = ()
        self.reset(targets)

    def reset(self, targets: Sequence[Target]) -> None:
        """Replaces the targets. Work that was enqueued for the old ones is not disturbed."""
        _refuse(_form_problems("targets", targets))
        problems = [
            Problem("bind.form", f"targets[{index}]", brief(target), "a CompiledOperator or CompiledGraph")
            for index, target in enumerate(targets)
            if not isinstance(target, CompiledOperator | CompiledGraph)
        ]
        if not problems:
            problems = [
                Problem(
                    "resource.kind", f"targets[{index}]", f"compiled for {target.device.name}", f"compiled for {targets[0].device.name}"
                )
                for index, target in enumerate(targets)
                if target.device is not targets[0].device
            ]
        _refuse(problems)
        self.targets = tuple(targets)

    @property
    def binding_properties(self) -> BindingProperties:
        """The inputs that it binds, and the bytes of its own scratch; its persistent size is always 0, as DirectML's is."""
        count = sum(len(target.prepared_inputs) for target in self.targets)
        return BindingProperties(count, max((_staging_size(target) for target in self.targets), default=0), 0)

    def __call__(
        self,
        inputs: Sequence[Mapping[str, Any] | None] = (),
        persistent: Sequence[Any] = (),
        temporary: Any = None,
        *,
        stream: Any = None,
    ) -> tuple[Prepared, ...]:
        """Enqueues the preparation of all targets, one after the other.

        Args:
            inputs: for each target the inputs that its `prepare` takes, by name, or None; left out where no target takes any.
            persistent: for each target its memory, or None, which allocates it; left out to allocate all.
            temporary: scratch (`binding_properties.temporary_resource_size` bytes); None allocates it.
            stream: as for `Dispatch`; later work must be ordered after it.

        Returns:
            The results of each target's `prepare`.

        Raises:
            BindError: memory that does not fit, is missing or is used twice; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        _refuse([*_form_problems("inputs", inputs), *_form_problems("persistent", persistent)])
        problems = [
            Problem(
                "bind.count", name, f"a list of {len(given)}", f"{plural(len(self.targets), 'target')}, with None where there is nothing"
            )
            for name, given in (("inputs", inputs), ("persistent", persistent))
            if len(given) and len(given) != len(self.targets)
        ]
        if problems or not self.targets:
            _refuse(problems)
            return ()
        device = self.targets[0].device
        handle, needed = device.stream_handle(stream), self.binding_properties.temporary_resource_size
        scratch: Memory | None = None
        area: tuple[int, int] | None = None
        producers: list[int] = []
        if temporary is not None:
            area, problems = binding.resource(device, "temporary", temporary, needed, producers)
            scratch = binding.memory_of(temporary, area)
        nothing: tuple[None, ...] = (None,) * len(self.targets)
        work: list[binding.Preparation] = []
        given_inputs, given_memory = (given if len(given) else nothing for given in (inputs, persistent))
        for index, (target, values, memory) in enumerate(zip(self.targets, given_inputs, given_memory, strict=True)):
            try:
                work.append(_preparation(target, {} if values is None else values, memory, handle))
            except BindError as error:
                problems += [problem.under(f"targets[{index}]") for problem in error.problems]
        _refuse(problems or _shared_memory(work, area))
        binding.order_after_producers(device, (), handle, producers)
        return tuple(
            item.enqueue() if isinstance(target, CompiledOperator) else item.enqueue(scratch)
            for target, item in zip(self.targets, work, strict=True)
        )


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise BindError("OperatorInitializer", problems)


def _form_problems(name: str, given: Any) -> list[Problem]:
    """The problem of what is given in place of a sequence of one item for each target."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return []
    return [Problem("bind.form", name, brief(given), "a list with an item for each target")]


def _preparation(target: Target, values: Mapping[str, Any], persistent: Any, handle: int) -> binding.Preparation:
    if isinstance(target, CompiledOperator):
        return target._preparation(values, persistent, handle, copy=False)
    return target._preparation(values, persistent, handle, [], copy=False)


class _Span(NamedTuple):
    """Memory of one target, or the scratch of all, with its first address and end; `place` is that in the order of messages."""

    place: int
    path: str
    owner: int | None
    start: int
    end: int
    written: bool


def _shared_memory(work: Sequence[binding.Preparation], temporary: tuple[int, int] | None) -> list[Problem]:
    """Memory that is written for one target and used for another one, or as scratch; `prepare` has found that of a single target."""
    spans: list[_Span] = []

    def add(path: str, owner: int | None, start: int, end: int, *, written: bool) -> None:
        if start < end:
            spans.append(_Span(len(spans), path, owner, start, end, written))

    if temporary is not None:
        add("temporary", None, *temporary, written=True)
    for index, item in enumerate(work):
        for tensor in item.bound:
            add(f"targets[{index}].{tensor.name}", index, tensor.pointer, tensor.end, written=False)
        if item.area is not None:
            add(f"targets[{index}].persistent", index, *item.area, written=True)
    spans.sort(key=attrgetter("start"))
    shared: list[tuple[int, int, Problem]] = []
    for at, span in enumerate(spans):
        for other in spans[at + 1 : bisect_left(spans, span.end, at + 1, key=attrgetter("start"))]:
            # Of two areas that are written, the later one is reported.
            first, second = sorted((span, other), key=attrgetter("written", "place"))
            if second.written and first.owner != second.owner:
                kind = "hazard.persistent" if second.owner is not None else "hazard.temporary"
                problem = Problem(kind, second.path, f"memory that {first.path} uses too", "separate memory")
                shared.append((second.place, first.place, problem))
    return [problem for *_, problem in sorted(shared, key=itemgetter(0, 1))]


def _staging_size(target: Target) -> int:
    return target._packing.staged_size if isinstance(target, CompiledGraph) else 0
