"""`CompiledOperator`, and what it turns into: `PreparedOperator` with packed constants, `Dispatch` with all memory bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import ExecutionFlags, FeatureLevel
from dmlpy.description.markers import TensorField
from dmlpy.description.naming import c_member
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices import binding
from dmlpy.devices.binding import Bound
from dmlpy.devices.device import Device, Memory, no_memory
from dmlpy.devices.plan import Launch, Plan
from dmlpy.devices.reserve import Reserve, configuration, foreign_problems
from dmlpy.validation.problems import BindError, Problem

if TYPE_CHECKING:
    from dmlpy.devices.report import PlanReport

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class BindingProperties:
    """DML_BINDING_PROPERTIES.

    Attributes:
        required_descriptor_count: tensors that a dispatch binds, undescribed optional ones included.
        temporary_resource_size: bytes of scratch for one dispatch.
        persistent_resource_size: bytes of constants packed by `prepare`.
    """

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int


class Outputs:
    """The outputs of one call, by field name in either spelling; iterates over them in the struct's order.

    An array of tensors is a tuple of arrays.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        for field, value in values.items():
            if name in (field, c_member(field)):
                return value
        raise AttributeError(f"no output {name!r}: the desc describes {', '.join(values)}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def as_dict(self) -> dict[str, Any]:
        return dict(self._values)

    def __repr__(self) -> str:
        return f"Outputs({', '.join(self._values)})"


@dataclass(frozen=True)
class Limit:
    """Values of an input that may not exceed a number."""

    name: str
    limit: int
    symbol: str


Limits = Sequence[tuple[Limit, np.ndarray[Any, Any]]]
"""Limits, and the values in host memory that they are for."""


def check_limits(name: str, limits: Limits) -> None:
    """Raises BindError if any value is out of its range; `name` is the operator's or graph's."""
    for limit, values in limits:
        if values.max() > limit.limit or values.min() < 0:
            raise BindError(name, binding.value_problems(limit.name, values, limit.limit, limit.symbol))


class Dispatch:
    """One operator with all its memory: calling it launches, and does nothing else.

    It allocates nothing and does not synchronise, so it can be repeated and captured in a CUDA graph. It keeps the arrays that
    were bound alive, not the memory behind a `Buffer`; whoever captures it keeps it as long as the graph. Its scratch is its own: one
    thread at a time, and calls into different streams have to be ordered, since two that overlap would spoil each other's scratch.

    On a GPU each call is an NVTX range with the name of the desc's struct (`DML_LSTM_OPERATOR_DESC`) for profilers; within that of a
    stacked network each layer is one (`layer 0`), unless a CUDA graph replays them all at once.
    """

    def __init__(self, operator: CompiledOperator, bound: list[Bound], launch: Launch, keep: tuple[Any, ...]) -> None:
        self.operator = operator
        self._bound = bound
        self._launch = launch
        self._keep = keep
        self._handle = operator.device.stream_handle
        self._limits = operator._host_limits(bound)

    def __call__(self, stream: Any = None) -> None:
        """Enqueues the work.

        Args:
            stream: None (the device's current stream), an integer handle, or any object with `.ptr`.

        Raises:
            BindError: a sequence length in host memory is above T or negative; nothing was written.
            DeviceError: the launch failed, or there was no memory for its temporaries.
        """
        if self._limits:
            check_limits(self.operator.name, self._limits)
        try:
            self._launch(self._handle(stream))
        except MemoryError as error:
            raise no_memory(self.operator.name, error) from None

    def __repr__(self) -> str:
        return f"<dispatch of {self.operator.name} on {self.operator.device.name}>"


def _without_memory_error(step: str = "") -> Callable[[Method], Method]:
    """A method of an operator that raises `DeviceError` where the host has not enough memory; `step` is its name for people."""

    def decorated(method: Method) -> Method:
        @wraps(method)
        def called(self: CompiledOperator, *arguments: Any, **options: Any) -> Any:
            try:
                return method(self, *arguments, **options)
            except MemoryError as error:
                raise no_memory(f"{self.name}.{step}" if step else self.name, error) from None

        return called  # type: ignore[return-value]

    return decorated


@dataclass(frozen=True, eq=False, repr=False)
class CompiledOperator:
    """A checked desc and its plan on a device. Immutable; threads may share it.

    Attributes:
        desc: what was compiled.
        device: where it runs.
        feature_level: the cap that the desc was checked against.
        flags: the execution flags.
    """

    desc: OperatorDesc
    device: Device
    feature_level: FeatureLevel
    flags: ExecutionFlags
    _plan: Plan

    @cached_property
    def _fields(self) -> tuple[TensorField, ...]:
        """The tensor members, each element of an array of tensors as one of its own."""
        return tuple(replace(slot.field, name=slot.place) for slot in self.desc.slots())

    @cached_property
    def _descs(self) -> dict[str, TensorDesc]:
        return self.desc.tensors()

    @cached_property
    def _limits(self) -> tuple[Limit, ...]:
        known = self.desc.sizes()
        return tuple(
            Limit(field.name, known[field.marker.at_most], field.marker.at_most)
            for field in self._fields
            if field.marker.at_most is not None and field.name in self._descs
        )

    @cached_property
    def _reserve_configuration(self) -> dict[str, Any]:
        return configuration(self.desc, self.device)

    @cached_property
    def binding_properties(self) -> BindingProperties:
        """Bytes of scratch (without `prepare`) and of packed constants."""
        return BindingProperties(len(self._fields), self._plan.temporary_size, self._plan.persistent_size)

    @property
    def name(self) -> str:
        """The struct's name, for messages."""
        return self.desc.c_name

    @property
    def plan(self) -> str:
        """Which kernels run and why, and which execution flags they heed, for people."""
        if not self.flags:
            return self._plan.describe()
        heeded = self.flags & self._plan.heeded_flags
        ignored = self.flags ^ heeded
        words = [str(heeded)] * bool(heeded) + [f"{ignored} (no effect here)"] * bool(ignored)
        return f"{self._plan.describe()}\nflags: {', '.join(words)}"

    def explain_plan(self) -> PlanReport:
        """What one dispatch has to do and should cost: flops, bytes by kind, where recurrent weights lie, and a model's floor.

        Floors and estimates are a model's, they are not measured. Only GPUs have one, for recurrent operators and batch normalization.
        """
        from dmlpy.devices.report import explain

        return explain(self.desc, self.device, self._plan.cost())

    def __call__(self, *, stream: Any = None, copy: bool = False, validate: bool = False, **tensors: Any) -> Any:
        """Runs once.

        Args:
            stream: as for `Dispatch`.
            copy: whether arrays in host memory are copied to a CUDA operator's device (and passed outputs back).
            validate: whether sequence lengths in GPU memory are read back and checked; this synchronises.
            **tensors: inputs, and outputs that shall be filled, by field name in either spelling; for an array of tensors a list of them.

        Returns:
            Outputs: the described outputs; those that were not passed are allocated.

        Raises:
            BindError: arrays that do not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        return self._run(tensors, None, stream, copy=copy, validate=validate)

    @_without_memory_error("prepare")
    def prepare(self, *, persistent: Any = None, stream: Any = None, copy: bool = False, **constants: Any) -> PreparedOperator:
        """Packs what does not change, in the layout that the kernels read, once for all later dispatches.

        Args:
            persistent: memory to pack into (`binding_properties.persistent_resource_size` bytes, 16-byte aligned); None allocates it.
            stream: as for `Dispatch`; later work must be ordered after it.
            copy: whether arrays in host memory are copied to a CUDA operator's device.
            **constants: all described ones of the constant inputs (weight, recurrence, bias, peephole, projection), by field name.
                Their memory may be changed or freed once the stream has come past this call.

        Raises:
            BindError: a constant is missing or does not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        handle = self.device.stream_handle(stream)
        fields = [field for field in self._fields if field.name in self._plan.constants]
        bound, problems = self._resolve(constants, fields, "constant input", handle, copy=copy)
        area, memory = self._area("persistent", persistent, self._plan.persistent_size, problems)
        if not problems:
            problems = binding.hazards(self.desc, bound, None, area, packing=True)
        if problems:
            raise BindError(f"{self.name}.prepare", problems)
        memory = memory or self.device.allocate(self._plan.persistent_size, handle, f"packed constants of {self.name}")
        self.device.dispatched(self._plan.pack(_pointers(bound), memory.pointer), f"{self.name} prepare")(handle)
        return PreparedOperator(self, memory)

    def bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], temporary: Any = None, persistent: Any = None) -> Dispatch:
        """Binds memory for many dispatches.

        Args:
            inputs: arrays, `Buffer`s or None by field name (an array of tensors as a list, or one by one as `input_tensors[0]`). With
                `persistent` the constant inputs are left out.
            outputs: the same for every described output.
            temporary: scratch (`binding_properties.temporary_resource_size` bytes, 16-byte aligned); None allocates it.
            persistent: memory that `prepare` filled; None packs the constants anew in each dispatch.

        Raises:
            BindError: memory that does not fit, is missing, or is used twice.
            DeviceError: not enough memory for the scratch.
        """
        return self._bind(inputs, outputs, temporary, persistent)

    @_without_memory_error("bind")
    def _bind(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        temporary: Any,
        persistent: Any,
        also_used: Iterable[Memory] = (),
    ) -> Dispatch:
        """`bind`, where scratch too may be `Memory`; `also_used` is more memory of the device's that the work uses."""
        handle = self.device.current_stream()
        ready: tuple[int, int] | None = None
        problems: list[Problem] = []
        if isinstance(persistent, Memory):
            ready = persistent.area
        elif persistent is not None:
            ready, problems = binding.resource(self.device, "persistent", persistent, self._plan.persistent_size)
        bound = []
        for values, fields, kind in ((inputs, self._inputs(persistent), "input"), (outputs, self._outputs(), "output")):
            some, wrong = self._resolve(values, fields, kind, handle)
            bound += some
            problems += wrong
        needed = self._plan.temporary_size if persistent is None else self._plan.prepared_temporary_size
        area, memory = self._area("temporary", temporary, needed, problems)
        if not problems:
            problems = binding.hazards(self.desc, bound, area, ready)
        if problems:
            raise BindError(f"{self.name}.bind", problems)
        memory = memory or self.device.allocate(needed, handle, f"scratch of {self.name}")
        launch = self._plan.bind(_pointers(bound), memory.pointer, None if ready is None else ready[0])
        used = [memory, *([persistent] if isinstance(persistent, Memory) else []), *also_used]
        repeated = self.device.dispatched(self.device.repeatable(self._plan, launch), self.name, used)
        return Dispatch(self, bound, repeated, (used, persistent, temporary))

    @_without_memory_error()
    def _run(self, tensors: Mapping[str, Any], persistent: Memory | None, stream: Any, *, copy: bool, validate: bool) -> Outputs:
        handle = self.device.stream_handle(stream)
        inputs, outputs = self._inputs(persistent), self._outputs()
        values, problems = binding.by_field(self.desc, tensors, (*inputs, *outputs), "tensor")
        problems += binding.missing(self.desc, values, inputs)
        bound: list[Bound] = []
        copied_back: list[tuple[np.ndarray[Any, Any], Bound]] = []
        results: dict[str, Any] = {}
        for field in (*inputs, *outputs):
            if (value := values.get(field.name)) is not None:
                place, wrong = self._place(field, value, handle, copy=copy, copied_back=copied_back)
                problems += wrong
                bound += [place] if place else []
                results[field.name] = value
        if not problems:
            problems = binding.hazards(self.desc, bound, None, None if persistent is None else persistent.area)
            problems += self._length_problems(bound, handle, validate=validate)
        if problems:
            raise BindError(self.name, problems)
        absent = [field for field in outputs if field.name in self._descs and field.name not in values]
        needed = self._plan.temporary_size if persistent is None else self._plan.prepared_temporary_size
        self.device.require(
            needed + sum(self._descs[field.name].reached_bytes for field in absent), f"{self.name} with its outputs and scratch"
        )
        for field in absent:
            results[field.name] = self.device.empty(self._descs[field.name], handle)
            view = self.device.view(results[field.name])
            bound.append(Bound(field.name, self._descs[field.name], True, view.pointer, view.owner))
        memory = self.device.allocate(needed, handle, f"scratch of {self.name}")
        launch = self._plan.bind(_pointers(bound), memory.pointer, None if persistent is None else persistent.pointer)
        self.device.dispatched(launch, self.name, [memory, *([] if persistent is None else [persistent])])(handle)
        for host, item in copied_back:
            data = np.frombuffer(self.device.read(item.pointer, item.desc.reached_bytes, handle), np.uint8)
            host[...] = binding.strided(data, item.desc)
        for field in outputs:
            if field.marker.reserve and field.name in results:
                results[field.name] = Reserve.of(results[field.name], self._reserve_configuration)
        return Outputs(binding.gathered(self.desc, {field.name: results[field.name] for field in outputs if field.name in results}))

    def _inputs(self, persistent: Any) -> tuple[TensorField, ...]:
        constants = () if persistent is None else self._plan.constants
        return tuple(field for field in self._fields if not field.marker.output and field.name not in constants)

    def _outputs(self) -> tuple[TensorField, ...]:
        return tuple(field for field in self._fields if field.marker.output)

    def _resolve(
        self, values: Mapping[str, Any], fields: Any, kind: str, handle: int, *, copy: bool = False
    ) -> tuple[list[Bound], list[Problem]]:
        given, problems = binding.by_field(self.desc, values, fields, kind)
        problems += binding.missing(self.desc, given, fields)
        bound = []
        for field in fields:
            if field.name in given:
                place, wrong = self._place(field, given[field.name], handle, copy=copy, copied_back=[])
                problems += wrong
                bound += [place] if place else []
        return bound, problems

    def _place(
        self, field: TensorField, value: Any, handle: int, *, copy: bool, copied_back: list[tuple[np.ndarray[Any, Any], Bound]]
    ) -> tuple[Bound | None, list[Problem]]:
        desc, output = self._descs[field.name], field.marker.output
        if isinstance(value, Reserve):
            problems = foreign_problems(field, value, self._reserve_configuration)
            if problems:
                return None, problems
            value = value.array
        host = binding.host_array(self.device, value) if copy else None
        if host is None:
            return binding.place(self.device, field.name, desc, value, output=output)
        problems = binding.value_form_problems(field.name, desc, host, output=output)
        if not problems and not output:
            problems = [problem for limit in self._limits if limit.name == field.name for problem in _checked(limit, host)]
        if problems:
            return None, problems
        # A host array brings its values; in the device's memory they take the layout that was compiled.
        staged = np.zeros(desc.reached_bytes, np.uint8)
        if not output:
            binding.strided(staged, desc)[...] = host
        memory = self.device.upload(staged, handle)
        bound = Bound(field.name, desc, output, memory.pointer, memory)
        if output:
            copied_back.append((host, bound))
        return bound, []

    def _area(self, name: str, value: Any, needed: int, problems: list[Problem]) -> tuple[tuple[int, int] | None, Memory | None]:
        if value is None:
            return None, None
        if isinstance(value, Memory):
            return value.area, value
        area, wrong = binding.resource(self.device, name, value, needed)
        problems += wrong
        return area, None if area is None else Memory(area[0], needed, value)

    def _host_limits(self, bound: list[Bound]) -> Limits:
        if self.device.memory_kind != "cpu":
            return []
        places = {item.name: item for item in bound}
        return [(limit, binding.host_values(places[limit.name])) for limit in self._limits if limit.name in places]

    def _length_problems(self, bound: list[Bound], handle: int, *, validate: bool) -> list[Problem]:
        problems = [problem for limit, values in self._host_limits(bound) for problem in _checked(limit, values)]
        if validate and self.device.memory_kind != "cpu":
            places = {item.name: item for item in bound}
            for limit in self._limits:
                if (item := places.get(limit.name)) is not None:
                    data = self.device.read(item.pointer, item.desc.reached_bytes, handle)
                    problems += _checked(limit, binding.strided(np.frombuffer(data, np.uint8), item.desc))
        return problems

    def __repr__(self) -> str:
        return f"<{self.name} compiled for {self.device.name} at feature level {self.feature_level}>"


class PreparedOperator:
    """A compiled operator with its constants packed. Called and bound like the operator, without the constants.

    Attributes:
        operator: the compiled operator.
        binding_properties: bytes of scratch for a dispatch with packed constants, and of the constants.
    """

    def __init__(self, operator: CompiledOperator, memory: Memory) -> None:
        self.operator = operator
        self._memory = memory
        count = len(operator._fields)
        self.binding_properties = BindingProperties(count, operator._plan.prepared_temporary_size, operator._plan.persistent_size)

    @property
    def desc(self) -> OperatorDesc:
        return self.operator.desc

    @property
    def device(self) -> Device:
        return self.operator.device

    @property
    def plan(self) -> str:
        return self.operator.plan

    def explain_plan(self) -> PlanReport:
        """As `CompiledOperator.explain_plan`: the packed constants change nothing."""
        return self.operator.explain_plan()

    def __call__(self, *, stream: Any = None, copy: bool = False, validate: bool = False, **tensors: Any) -> Any:
        """Runs once; as `CompiledOperator.__call__`, without the constant inputs."""
        return self.operator._run(tensors, self._memory, stream, copy=copy, validate=validate)

    def bind(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], temporary: Any = None) -> Dispatch:
        """Binds memory for many dispatches; as `CompiledOperator.bind`, without the constant inputs."""
        return self.operator._bind(inputs, outputs, temporary, self._memory)

    def __repr__(self) -> str:
        return f"<{self.operator.name} prepared for {self.device.name}>"


def _pointers(bound: list[Bound]) -> dict[str, int]:
    return {item.name: item.pointer for item in bound}


def _checked(limit: Limit, values: np.ndarray[Any, Any]) -> list[Problem]:
    return binding.value_problems(limit.name, values, limit.limit, limit.symbol)
