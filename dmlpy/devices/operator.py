"""`CompiledOperator`: called, prepared, or bound to memory; and `PreparedOperator`, which has its constants packed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np

from dmlpy.description.array_problems import value_problems
from dmlpy.description.enums import at_level
from dmlpy.description.flags import flag_problems, is_set
from dmlpy.description.outputs import Outputs
from dmlpy.devices.dispatch import BoundedValues, Dispatch, ValueBound
from dmlpy.devices.host.memory import without_memory_error
from dmlpy.devices.memory import binding
from dmlpy.devices.memory.binding import BoundTensor
from dmlpy.devices.memory.binding_table import BoundNames, OperatorTables, with_call_errors
from dmlpy.devices.memory.reserve import Reserve, configuration, foreign_problems
from dmlpy.devices.persistence.pickling import Bytes, Refused, host_bytes, layout_fingerprint, packed_bytes, packed_memory
from dmlpy.devices.plan import ArrayPlan, BindingProperties, BoundAddress, Launch, Plan
from dmlpy.devices.staged_calls import StagedCalls
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import BindError, PickleError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.description.markers import TensorField
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.reporting.report import PlanReport
    from dmlpy.validation.tensor_arguments import TensorArguments

_MOST_SHOWN = 6
"""The tensors whose sizes an operator's `repr` shows."""


@foreign_members
@dataclass(frozen=True, eq=False, repr=False)
class CompiledOperator:
    """A checked desc and its plan on a device. Immutable; threads may share it.

    A pickle holds the desc, the device's name, the feature level and the flags: it is compiled again where it is loaded, once in a process.
    `cuda` is the first GPU there; any other index stays as it was named.

    Attributes:
        desc: the compiled desc.
        device: the device that it runs on.
        feature_level: the level that the desc was checked against; None if it has tensors of BFLOAT16, which no level accepts.
        flags: the execution flags.
    """

    desc: OperatorDesc
    device: Device
    feature_level: FeatureLevel | None
    flags: ExecutionFlags
    _plan: Plan

    @cached_property
    def _fields(self) -> tuple[TensorField, ...]:
        """The tensor members, with each element of an array of tensors as a separate one."""
        return tuple(slot.field if slot.index is None else replace(slot.field, name=slot.place) for slot in self.desc.slots())

    @cached_property
    def _descs(self) -> dict[str, TensorDesc]:
        return self.desc.tensors()

    @cached_property
    def _tables(self) -> OperatorTables:
        return OperatorTables(self.desc, self._fields, self._plan.constants)

    @cached_property
    def _value_bounds(self) -> tuple[ValueBound, ...]:
        bounded = [(slot.place, slot.field.marker.at_most) for slot in self.desc.slots() if slot.tensor is not None]
        return tuple(ValueBound(place, self.desc.sizes()[most], most) for place, most in bounded if most is not None)

    @cached_property
    def _reserve_configuration(self) -> dict[str, Any]:
        return configuration(self.desc, self.device, self._plan)

    @cached_property
    def _staged(self) -> StagedCalls | None:
        """The calls that are staged; None if those of this operator are not."""
        staged = StagedCalls(self)
        return staged if staged.is_possible else None

    @cached_property
    def binding_properties(self) -> BindingProperties:
        """The bytes of scratch (without `prepare`) and of packed constants."""
        return BindingProperties(len(self._fields), self._plan.temporary_size, self._plan.persistent_size)

    @property
    def prepared_inputs(self) -> tuple[str, ...]:
        """The described inputs that `prepare` takes, all at once, in the struct's order; empty if it packs nothing."""
        return self._plan.constants

    @property
    def _current(self) -> CompiledOperator:
        """The operator to pack constants for: this one, unless its plan has been replaced meanwhile."""
        plan = self._plan.current
        return self if plan is self._plan else replace(self, _plan=plan)

    @property
    def reusing(self) -> CompiledOperator | None:
        """The operator whose dispatches reuse the constants that the last dispatch of this one packed; None if they are not kept."""
        plan = self._plan.reusing
        return None if plan is None else replace(self, _plan=plan)

    @cached_property
    def name(self) -> str:
        """The struct's name, for messages."""
        return self.desc.c_name

    @property
    def plan(self) -> str:
        """Describes which kernels run and why, and which execution flags they support."""
        lines = [] if self._plan.strategy is None else [f"strategy: {self._plan.strategy}"]
        lines.append(self._plan.describe())
        if self.flags:
            used = self.flags & self._plan.supported_flags
            ignored = self.flags ^ used
            words = [str(used)] * bool(used) + [f"{ignored} (no effect here)"] * bool(ignored)
            lines.append(f"flags: {', '.join(words)}")
        return "\n".join(lines)

    def explain_plan(self) -> PlanReport:
        """Reports the work and the predicted cost of one dispatch: flops, bytes by kind, where recurrent weights are, and a model's floor.

        Floors and estimates come from a model and are not measured. Only GPUs have one.
        """
        from dmlpy.devices.reporting.report import explain

        return explain(self.desc, self.device, self._plan.cost())

    def __call__(
        self,
        *unnamed: Never,
        stream: Any = None,
        copy: bool = False,
        validate: bool = False,
        temporary: Any = None,
        **tensors: Any,
    ) -> Outputs:
        """Runs once.

        If the stream is being captured, the call is captured, and the memory that it allocates is kept as long as the CUDA graph.

        Args:
            *unnamed: nothing: arrays are given by name.
            stream: as for `Dispatch`.
            copy: whether arrays in host memory are copied to the device of a CUDA operator, and passed outputs back; not during a capture.
            validate: whether sequence lengths in GPU memory are read back and checked; this synchronizes, so not during a capture.
            temporary: scratch, as for `bind`; None allocates it. It may be reused as soon as the stream has completed this call.
            **tensors: inputs, and outputs to fill, by field name in either spelling; for an array of tensors a list of them.

        Returns:
            Outputs: the described outputs; those that were not passed are allocated.

        Raises:
            BindError: arrays or scratch that do not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        if unnamed:
            raise self._unnamed_error(unnamed)
        return self._run(tensors, None, stream, copy=copy, validate=validate, temporary=temporary)

    @without_memory_error("prepare")
    def prepare(
        self, *unnamed: Never, persistent: Any = None, stream: Any = None, copy: bool = False, portable: bool = False, **constants: Any
    ) -> PreparedOperator:
        """Packs the constants, in the layout that the kernels read, once for all later dispatches.

        Args:
            *unnamed: nothing: constants are given by name.
            persistent: memory to pack into (`binding_properties.persistent_resource_size` bytes, 16-byte aligned); None allocates it.
            stream: as for `Dispatch`; later work must be ordered after it.
            copy: whether arrays in host memory are copied to a CUDA operator's device.
            portable: whether copies of the constants are stored in host memory, which a pickle then holds instead of packed bytes: it is
                repacked where it is loaded, in the layout of the plan there. With constants on a GPU this synchronises.
            **constants: all of `prepared_inputs` (the described ones of weight, recurrence, bias, peephole and projection, or the inputs
                flagged OWNED_BY_DML), by field name. Their memory may be changed or freed once the stream has completed this call.

        Raises:
            BindError: a constant is missing or does not fit; nothing was written.
            DeviceError: not enough memory, a failed launch.
        """
        if unnamed:
            raise binding.unnamed_error(self.name, self.prepared_inputs, unnamed, "op.prepare")
        work = self._preparation(constants, persistent, self.device.stream_handle(stream), copy=copy, portable=portable)
        return cast("PreparedOperator", work.enqueue())

    def _preparation(
        self, constants: Mapping[str, Any], persistent: Any, handle: int, *, copy: bool, portable: bool = False
    ) -> binding.Preparation:
        """Checks the arguments of `prepare`, and returns its work."""
        if (current := self._current) is not self:
            return current._preparation(constants, persistent, handle, copy=copy, portable=portable)
        if (plan := self.device.tuned(self.desc, self._plan, handle)) is not self._plan:
            tuned = replace(self, _plan=plan)
            return tuned._preparation(constants, persistent, handle, copy=copy, portable=portable)
        producers: list[int] = []
        bound, problems = self._resolve(constants, self._tables.constants, handle, copy=is_set(copy))
        problems += flag_problems(copy=copy, portable=portable)
        area, memory = self._area("persistent", persistent, self._plan.persistent_size, problems, producers)
        if not problems:
            problems = binding.hazards(self.desc, bound, None, area, packing=True)
        if problems:
            raise BindError(f"{self.name}.prepare", problems)

        def enqueue() -> PreparedOperator:
            binding.order_after_producers(self.device, bound, handle, producers)
            # First, since it raises in a capture, which must then be undisturbed.
            kept = {item.name: host_bytes(item, self.device, handle) for item in bound} if portable or not bound else None
            filled = memory or self.device.allocate(self._plan.persistent_size, handle, f"packed constants of {self.name}")
            self.device.dispatched(self._plan.pack(_pointers(bound), filled.pointer), f"{self.name} prepare")(handle)
            return PreparedOperator(self, filled, kept)

        return binding.Preparation(enqueue, bound, area)

    @with_call_errors
    def bind(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any],
        temporary: Any = None,
        persistent: Any = None,
    ) -> Dispatch:
        """Binds memory for many dispatches.

        Args:
            inputs: arrays, `Buffer`s or None by field name (an array of tensors as a list, or one by one as `input_tensors[0]`), or a list
                of them all in the struct's order, as DirectML binds them: None for each optional one that is absent, the elements of an
                array of tensors one after the other. With `persistent` the inputs that `prepare` has packed are left out, or None.
            outputs: the same for every described output.
            temporary: scratch (`binding_properties.temporary_resource_size` bytes, 16-byte aligned); None allocates it.
            persistent: memory that `prepare` filled; None packs the constants in each dispatch.

        Raises:
            BindError: memory that does not fit, is missing, or is used twice.
            DeviceError: not enough memory for the scratch.
        """
        return self._bind(inputs, outputs, temporary, persistent)

    @without_memory_error("bind")
    def _bind(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any],
        temporary: Any,
        persistent: Any,
    ) -> Dispatch:
        """Binds as `bind` does, where scratch and persistent memory may also be `Memory`."""
        handle = self.device.current_stream()
        problems: list[Problem] = []
        producers: list[int] = []
        ready, packed = self._area("persistent", persistent, self._plan.persistent_size, problems, producers)
        bound = []
        for values, table in ((inputs, self._tables.inputs[persistent is not None]), (outputs, self._tables.outputs)):
            some, wrong = self._resolve(values, table, handle)
            bound += some
            problems += wrong
        needed = self._plan.temporary_size if persistent is None else self._plan.prepared_temporary_size
        area, memory = self._area("temporary", temporary, needed, problems, producers)
        if not problems:
            problems = binding.hazards(self.desc, bound, area, ready)
        if problems:
            raise BindError(f"{self.name}.bind", problems)
        if memory is None:
            memory = self.device.allocate(needed, handle, f"scratch of {self.name}")
            producers += binding.previous_users(self.device, memory, handle)
        used = [memory] if packed is None else [memory, packed]
        pointer = memory.pointer

        def launched(bound: Sequence[BoundTensor]) -> Launch:
            return self._launch(bound, pointer, None if ready is None else ready[0], relocated=self.device.relocates)

        areas = {"temporary": memory.area} | ({} if ready is None else {"persistent": ready})
        return Dispatch(self, bound, launched, areas, used, (persistent, temporary), producers)

    @without_memory_error()
    def _run(
        self, tensors: Mapping[str, Any], packed: PreparedOperator | None, stream: Any, *, copy: bool, validate: bool, temporary: Any
    ) -> Outputs:
        staged = self._staged if packed is None else packed._staged
        plain = stream is temporary is None and copy is validate is False
        if plain and staged is not None and (outputs := staged.run(tensors)) is not None:
            return outputs
        device, tables, prepared, persistent = self.device, self._tables, packed is not None, None if packed is None else packed._memory
        handle = device.stream_handle(stream)
        values, problems = tables.all[prepared].by_place(tensors)
        problems += tables.inputs[prepared].missing(values, problems) + flag_problems(copy=copy, validate=validate)
        bound: list[BoundTensor] = []
        copied_back: list[tuple[np.ndarray[Any, Any], BoundTensor]] = []
        for field in tables.all[prepared].fields:
            if (value := values.get(field.name)) is not None:
                item, wrong = self._bind_tensor(field, value, handle, copy=is_set(copy), copied_back=copied_back)
                problems += wrong
                if item is not None:
                    bound.append(item)
        needed = self._plan.prepared_temporary_size if prepared else self._plan.temporary_size
        producers: list[int] = []
        area, scratch = self._area("temporary", temporary, needed, problems, producers)
        if not problems:
            problems = binding.hazards(self.desc, bound, area, None if persistent is None else persistent.area)
            if device.memory_kind != "cpu":
                binding.order_after_producers(device, bound, handle, producers)
            problems += self._length_problems(bound, handle, validate=validate)
        if problems:
            raise BindError(self.name, problems)
        absent = {name: desc for name, desc in tables.outputs.descs.items() if name not in values}
        purpose = f"{self.name} with its outputs and scratch"
        device.require((needed if scratch is None else 0) + sum([desc.extent_in_bytes for desc in absent.values()]), purpose)
        given = {**values} if staged is not None and absent.keys() == tables.outputs.descs.keys() else None
        if absent:
            allocated = device.outputs(absent, handle, purpose)
            values.update(allocated)
            bound += [binding.bind_allocated(device, name, absent[name], array) for name, array in allocated.items()]
        memory = scratch or device.allocate(needed, handle, f"scratch of {self.name}")
        launch = self._launch(bound, memory.pointer, None if persistent is None else persistent.pointer)
        device.dispatched(launch, self.name, [memory] if persistent is None else [memory, persistent])(handle)
        for host, item in copied_back:
            data = np.frombuffer(device.read(item.pointer, item.desc.extent_in_bytes, handle), np.uint8)
            binding.copy_back(data, item.desc, host)
        for name in tables.reserves:
            values[name] = Reserve.of(values[name], self._reserve_configuration)
        if staged is not None and given is not None:
            staged.remember(tensors, given)
        return Outputs(tables.gathered_outputs(values))

    def _launch(self, bound: Sequence[BoundTensor], temporary: int, persistent: int | None, *, relocated: bool = False) -> Launch:
        """The work over this memory; `relocated` says that other memory may replace that of the tensors."""
        if isinstance(self._plan, ArrayPlan):
            return self._plan.bind_arrays({item.name: item.values() for item in bound})
        pointers = _pointers(bound)
        if relocated:
            pointers = {name: BoundAddress(pointer, name) for name, pointer in pointers.items()}
            temporary, persistent = BoundAddress(temporary, None), None if persistent is None else BoundAddress(persistent, None)
        return self._plan.bind(pointers, temporary, persistent)

    def _resolve(
        self, values: Mapping[str, Any] | Sequence[Any], table: TensorArguments, handle: int, *, copy: bool = False
    ) -> tuple[list[BoundTensor], list[Problem]]:
        given, problems = table.by_place(values)
        if not given and problems and problems[0].code == "bind.form":  # that the tensors are missing follows from it
            return [], problems
        problems += table.missing(given, problems)
        bound = []
        for field in table.fields:
            if field.name in given:
                item, wrong = self._bind_tensor(field, given[field.name], handle, copy=copy)
                problems += wrong
                if item is not None:
                    bound.append(item)
        return bound, problems

    def _bind_tensor(
        self,
        field: TensorField,
        value: Any,
        handle: int,
        *,
        copy: bool,
        copied_back: list[tuple[np.ndarray[Any, Any], BoundTensor]] | None = None,
    ) -> tuple[BoundTensor | None, list[Problem]]:
        """The memory of a value; in a call, which has a list for the outputs that are copied back, it may be a copy."""
        name, desc, output = field.name, self._descs[field.name], field.marker.output
        if isinstance(value, Reserve):
            problems = foreign_problems(field, value, self._reserve_configuration)
            if problems:
                return None, problems
            value = value.array
        host = binding.host_array(self.device, value) if copy else None
        if host is None and copied_back is not None and desc.data_type.bits == 4:
            host = binding.int4_array(self.device, value)
        if host is None:
            return binding.bind_tensor(self.device, name, desc, value, output=output, known=self._tables.layouts[name])
        problems = binding.value_form_problems(name, desc, host, output=output, copied=True)
        if not problems and not output:
            problems = [
                problem for value_bound in self._value_bounds if value_bound.name == name for problem in _value_problems(value_bound, host)
            ]
        if problems:
            return None, problems
        # A host array is copied; in the device's memory its values take the compiled layout.
        memory = self.device.upload(binding.stage(desc, None if output else host), handle)
        bound = BoundTensor(name, desc, output, memory.pointer, memory)
        if output and copied_back is not None:
            copied_back.append((host, bound))
        return bound, []

    def _area(
        self, name: str, value: Any, needed: int, problems: list[Problem], producers: list[int]
    ) -> tuple[tuple[int, int] | None, Memory | None]:
        if value is None:
            return None, None
        area, wrong = binding.resource(self.device, name, value, needed, producers)
        problems += wrong
        return area, binding.memory_of(value, area)

    def _bind_reserve(self, old: BoundTensor, value: Any) -> tuple[BoundTensor | None, list[Problem]]:
        """The memory of a value that replaces another one."""
        field = next(field for field in self._fields if field.name == old.name)
        return self._bind_tensor(field, value, self.device.current_stream(), copy=False)

    def _host_bounded_values(self, bound: Sequence[BoundTensor]) -> BoundedValues:
        if not self._value_bounds or self.device.memory_kind != "cpu":
            return []
        places = {item.name: item for item in bound}
        return [(value_bound, places[value_bound.name].values()) for value_bound in self._value_bounds if value_bound.name in places]

    def _length_problems(self, bound: list[BoundTensor], handle: int, *, validate: bool) -> list[Problem]:
        if not self._value_bounds:
            return []
        problems = [problem for value_bound, values in self._host_bounded_values(bound) for problem in _value_problems(value_bound, values)]
        if is_set(validate) and self.device.memory_kind != "cpu":
            places = {item.name: item for item in bound}
            for value_bound in self._value_bounds:
                if (item := places.get(value_bound.name)) is not None:
                    data = self.device.read(item.pointer, item.desc.extent_in_bytes, handle)
                    problems += _value_problems(value_bound, binding.strided(np.frombuffer(data, np.uint8), item.desc))
        return problems

    def _unnamed_error(self, unnamed: Sequence[object], packed: Sequence[str] = ()) -> TypeError:
        """The error for arrays that are not given by name."""
        names = [slot.place for slot in self.desc.input_slots() if slot.tensor is not None and slot.place not in packed]
        return binding.unnamed_error(self.name, names, unnamed)

    def _bound_names(self) -> BoundNames:
        return BoundNames(self.name, tuple(self._tables.inputs[False].descs), tuple(self._tables.outputs.descs))

    def _repr_html_(self) -> str:
        from dmlpy.devices.reporting.notebook import operator_html

        return operator_html(self.desc, f"{self!r}\n{self.plan}")

    def __copy__(self) -> CompiledOperator:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledOperator:
        return self

    def __repr__(self) -> str:
        shown = [f"{name} {desc.data_type} {listed(desc.sizes)}" for name, desc in islice(self._descs.items(), _MOST_SHOWN)]
        more = [f"... {len(self._descs) - _MOST_SHOWN} more"] if len(self._descs) > _MOST_SHOWN else []
        return f"<{self.name} compiled for {self.device.name} {at_level(self.feature_level)}: {', '.join([*shown, *more])}>"


@foreign_members
class PreparedOperator:
    """A compiled operator with its constants packed. Called and bound like the operator, without the constants. Immutable.

    A pickle holds the operator's and, if it was prepared with `portable=True`, the constants, which are repacked where it is loaded.
    Else it holds the packed bytes, and loading it raises `PickleError` if the plan packs in another layout.

    Attributes:
        operator: the compiled operator.
        binding_properties: bytes of scratch for a dispatch with packed constants, and of the constants.
    """

    def __init__(self, operator: CompiledOperator, memory: Memory, constants: Mapping[str, Bytes] | None = None) -> None:
        self.operator = operator
        self._memory, self._constants = memory, constants
        count = len(operator._fields)
        self.binding_properties = BindingProperties(count, operator._plan.prepared_temporary_size, operator._plan.persistent_size)

    @property
    def desc(self) -> OperatorDesc:
        """The desc that was compiled."""
        return self.operator.desc

    @property
    def device(self) -> Device:
        """The device that runs the operator, and in whose memory the packed constants are."""
        return self.operator.device

    @property
    def plan(self) -> str:
        """The plan of the operator, as `CompiledOperator.plan` describes it."""
        return self.operator.plan

    @property
    def _tables(self) -> OperatorTables:
        return self.operator._tables

    @property
    def _value_bounds(self) -> tuple[ValueBound, ...]:
        return self.operator._value_bounds

    @cached_property
    def _staged(self) -> StagedCalls | None:
        """The calls that are staged; None if those of this operator are not."""
        same = PreparedOperator(self.operator, self._memory)  # not this object: a cycle would hold the packed constants until it is found
        staged = StagedCalls(same, self.operator.prepared_inputs)
        return staged if staged.is_possible else None

    def explain_plan(self) -> PlanReport:
        """Reports what `CompiledOperator.explain_plan` reports: packing constants does not change it."""
        return self.operator.explain_plan()

    def __call__(
        self,
        *unnamed: Never,
        stream: Any = None,
        copy: bool = False,
        validate: bool = False,
        temporary: Any = None,
        **tensors: Any,
    ) -> Outputs:
        """Runs once, as `CompiledOperator.__call__` does, without the constant inputs."""
        if unnamed:
            raise self.operator._unnamed_error(unnamed, self.operator.prepared_inputs)
        return self.operator._run(tensors, self, stream, copy=copy, validate=validate, temporary=temporary)

    @with_call_errors
    def bind(
        self, inputs: Mapping[str, Any] | Sequence[Any], outputs: Mapping[str, Any] | Sequence[Any], temporary: Any = None
    ) -> Dispatch:
        """Binds memory for many dispatches, as `CompiledOperator.bind` does; in a list the constant inputs are None."""
        return self.operator._bind(inputs, outputs, temporary, self._memory)

    def _bound_names(self) -> BoundNames:
        tables = self.operator._tables
        return BoundNames(self.operator.name, tuple(tables.inputs[True].descs), tuple(tables.outputs.descs))

    def _repr_html_(self) -> str:
        from dmlpy.devices.reporting.notebook import operator_html

        return operator_html(self.desc, f"{self!r}\n{self.plan}")

    def __reduce__(self) -> tuple[Any, ...]:
        operator = self.operator
        if self._constants is not None:
            return _pack_again, (operator, self._constants)
        packed = packed_bytes(operator.device, self._memory, operator._plan.persistent_size)
        return _restore_prepared, (operator, packed, layout_fingerprint(operator))

    def __copy__(self) -> PreparedOperator:
        return self

    def __deepcopy__(self, memo: Any) -> PreparedOperator:
        return self

    def __repr__(self) -> str:
        return f"<{self.operator.name} prepared for {self.device.name}>"


def _restore_prepared(operator: CompiledOperator | Refused, packed: Bytes, fingerprint: bytes) -> PreparedOperator | Refused:
    """Restores a prepared operator from a pickle with packed constants."""
    if isinstance(operator, Refused):
        return operator
    return PreparedOperator(operator, packed_memory(operator, packed, fingerprint))


def _pack_again(operator: CompiledOperator | Refused, constants: Mapping[str, Bytes]) -> PreparedOperator | Refused:
    """Restores a prepared operator from a pickle with its constants.

    Raises:
        PickleError: the plan here packs other inputs.
    """
    if isinstance(operator, Refused):
        return operator
    operator = operator._current
    device, plan, purpose = operator.device, operator._plan, f"packed constants of {operator.name}"
    if set(plan.constants) != set(constants):
        raise PickleError(
            f"a pickle of a prepared {operator.name} holds {listed(list(constants))}, and the plan here packs {listed(plan.constants)}: "
            "pickle the compiled operator and the constants, and call prepare here"
        )
    handle = device.current_stream()
    sources = {name: device.upload(data, handle) for name, data in constants.items()}
    memory = device.allocate(plan.persistent_size, handle, purpose)
    pack = plan.pack({name: source.pointer for name, source in sources.items()}, memory.pointer)
    device.dispatched(pack, f"{operator.name} prepare", [memory, *sources.values()])(handle)
    device.synchronize(handle)  # dispatches may go into other streams
    return PreparedOperator(operator, memory, constants)


def _pointers(bound: Sequence[BoundTensor]) -> Mapping[str, int]:
    return {item.name: item.pointer for item in bound}


def _value_problems(value_bound: ValueBound, values: np.ndarray[Any, Any]) -> list[Problem]:
    return value_problems(value_bound.name, values, value_bound.most, value_bound.symbol)
