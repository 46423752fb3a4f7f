"""`PreparedOperator`: a compiled operator with its constants packed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dmlpy.devices.pickling import Refused, layout_fingerprint, packed_bytes, packed_memory
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import PickleError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.device import Device, Memory
    from dmlpy.devices.dispatch import Dispatch
    from dmlpy.devices.operator import CompiledOperator
    from dmlpy.devices.pickling import Bytes
    from dmlpy.devices.report import PlanReport


@dataclass(frozen=True)
class BindingProperties:
    """The memory that an operator needs: DML_BINDING_PROPERTIES.

    Attributes:
        required_descriptor_count: tensors that a dispatch binds, undescribed optional ones included.
        temporary_resource_size: bytes of scratch for one dispatch.
        persistent_resource_size: bytes of constants packed by `prepare`.
    """

    required_descriptor_count: int
    temporary_resource_size: int
    persistent_resource_size: int


class PreparedOperator:
    """A compiled operator with its constants packed. Called and bound like the operator, without the constants. Immutable.

    A pickle holds the operator's and, if it was prepared with `portable=True`, the constants, which are packed anew where it is loaded.
    Else it holds the packed bytes, and loading it raises `PickleError` where the plan packs in another layout.

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
        return self.operator.desc

    @property
    def device(self) -> Device:
        return self.operator.device

    @property
    def plan(self) -> str:
        return self.operator.plan

    def explain_plan(self) -> PlanReport:
        """Reports what `CompiledOperator.explain_plan` reports: packing constants changes nothing."""
        return self.operator.explain_plan()

    def __call__(self, *, stream: Any = None, copy: bool = False, validate: bool = False, temporary: Any = None, **tensors: Any) -> Any:
        """Runs once, as `CompiledOperator.__call__` does, without the constant inputs."""
        return self.operator._run(tensors, self._memory, stream, copy=copy, validate=validate, temporary=temporary)

    def bind(
        self, inputs: Mapping[str, Any] | Sequence[Any], outputs: Mapping[str, Any] | Sequence[Any], temporary: Any = None
    ) -> Dispatch:
        """Binds memory for many dispatches, as `CompiledOperator.bind` does; in a list the constant inputs are None."""
        return self.operator._bind(inputs, outputs, temporary, self._memory)

    def _repr_html_(self) -> str:
        return described(self)

    def __reduce__(self) -> tuple[Any, ...]:
        operator = self.operator
        if self._constants is not None:
            return _packed_anew, (operator, self._constants)
        packed = packed_bytes(operator.device, self._memory, operator._plan.persistent_size)
        return _prepared, (operator, packed, layout_fingerprint(operator))

    def __copy__(self) -> PreparedOperator:
        return self

    def __deepcopy__(self, memo: Any) -> PreparedOperator:
        return self

    def __repr__(self) -> str:
        return f"<{self.operator.name} prepared for {self.device.name}>"


def described(operator: CompiledOperator | PreparedOperator) -> str:
    """The desc's table and the plan, for a notebook."""
    from dmlpy.messages.tables import paragraph_html

    return operator.desc.table().to_html() + paragraph_html(f"{operator!r}\n{operator.plan}")


def _prepared(operator: CompiledOperator | Refused, packed: Bytes, fingerprint: bytes) -> PreparedOperator | Refused:
    """Restores a prepared operator from a pickle with packed constants."""
    if isinstance(operator, Refused):
        return operator
    return PreparedOperator(operator, packed_memory(operator, packed, fingerprint))


def _packed_anew(operator: CompiledOperator | Refused, constants: Mapping[str, Bytes]) -> PreparedOperator | Refused:
    """Restores a prepared operator from a pickle with its constants.

    Raises:
        PickleError: the plan here packs other inputs.
    """
    if isinstance(operator, Refused):
        return operator
    operator = operator.standing
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
