"""`OperatorInitializer`: prepares several operators and graphs at once, as IDMLOperatorInitializer does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.coercion import brief
from dmlpy.devices import binding
from dmlpy.devices.graphs.compiled import CompiledGraph, PreparedGraph
from dmlpy.devices.operator import CompiledOperator, PreparedOperator
from dmlpy.devices.plan import BindingProperties
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import BindError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
        problems = [
            Problem("bind.count", name, f"{len(given)} given", f"{plural(len(self.targets), 'target')}, with None where there is nothing")
            for name, given in (("inputs", inputs), ("persistent", persistent))
            if given and len(given) != len(self.targets)
        ]
        if problems or not self.targets:
            _refuse(problems)
            return ()
        device = self.targets[0].device
        handle, needed = device.stream_handle(stream), self.binding_properties.temporary_resource_size
        scratch: Memory | None = None
        producers: list[int] = []
        if temporary is not None:
            area, problems = binding.resource(device, "temporary", temporary, needed, producers)
            scratch = binding.memory_of(temporary, area)
        nothing: tuple[None, ...] = (None,) * len(self.targets)
        work: list[Callable[[], Prepared]] = []
        for index, (target, values, memory) in enumerate(zip(self.targets, inputs or nothing, persistent or nothing, strict=True)):
            try:
                work.append(_preparation(target, values or {}, memory, handle, scratch))
            except BindError as error:
                problems += [problem.under(f"targets[{index}]") for problem in error.problems]
        _refuse(problems)
        binding.order_after_producers(device, (), handle, producers)
        return tuple(enqueue() for enqueue in work)


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise BindError("OperatorInitializer", problems)


def _preparation(target: Target, values: Mapping[str, Any], persistent: Any, handle: int, scratch: Memory | None) -> Callable[[], Prepared]:
    """The function that enqueues the preparation of one target; its memory is checked here."""
    if isinstance(target, CompiledOperator):
        return target._preparation(values, persistent, handle, copy=False)
    enqueue = target._preparation(values, persistent, handle, [], copy=False)
    return lambda: enqueue(scratch)


def _staging_size(target: Target) -> int:
    return target._packing.staged_size if isinstance(target, CompiledGraph) else 0
