"""`OperatorTables`: which tensors each method of an operator binds; and the error for a call of `bind` that does not fit its signature."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from dmlpy.devices.memory.binding import KnownLayouts
from dmlpy.messages.problems import BindError, Problem
from dmlpy.validation.tensor_arguments import CONSTANTS, TensorArguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import TensorField

Method = TypeVar("Method", bound="Callable[..., Any]")
_MOST_SHOWN = 4


class OperatorTables:
    """The tensors that an operator's methods bind, computed once. The second of each pair is for an operator with packed constants.

    Attributes:
        inputs: the inputs of `bind`.
        outputs: the outputs of `bind`.
        all: inputs and outputs, of a call.
        constants: the inputs of `prepare`.
        layouts: the layouts of arrays that were checked, by place.
        reserves: the described outputs that are reserves.

    Args:
        desc: the operator.
        fields: its tensor members, each element of an array of tensors as a separate one.
        constants: the inputs that `prepare` packs.
    """

    def __init__(self, desc: OperatorDesc, fields: Sequence[TensorField], constants: Sequence[str]) -> None:
        described = desc.tensors()
        self.layouts = {name: KnownLayouts() for name in described}
        inputs = [field for field in fields if not field.marker.output]
        outputs = [field for field in fields if field.marker.output]
        unpacked = [field for field in inputs if field.name not in constants]
        order = [field.name for field in inputs]

        self.inputs = (
            TensorArguments(desc, inputs, "input", order, packable=constants),
            TensorArguments(desc, unpacked, "input", order, packed=constants),
        )
        self.outputs = TensorArguments(desc, outputs, "output", [field.name for field in outputs])
        self.all = (
            TensorArguments(desc, [*inputs, *outputs], "tensor"),
            TensorArguments(desc, [*unpacked, *outputs], "tensor", packed=constants),
        )
        self.constants = TensorArguments(desc, [field for field in inputs if field.name in constants], CONSTANTS)
        self.reserves = tuple(field.name for field in outputs if field.marker.reserve and field.name in described)
        self._output_slots = [slot for slot in desc.output_slots() if slot.tensor is not None]

    def gathered_outputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Groups output values by field; those of an array of tensors form a tuple."""
        gathered: dict[str, Any] = {}
        for slot in self._output_slots:
            value = values[slot.place]
            gathered[slot.field.name] = value if slot.index is None else (*gathered.get(slot.field.name, ()), value)
        return gathered


class BoundNames(NamedTuple):
    """The tensors that `bind` takes.

    Attributes:
        subject: the name of the operator or graph.
        inputs: the names of the inputs.
        outputs: the names of the outputs.
    """

    subject: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Bindable(Protocol):
    """An object with a method `bind`."""

    def _bound_names(self) -> BoundNames: ...


def with_call_errors(bind: Method) -> Method:
    """Wraps `bind` so that arguments that it does not take raise a `BindError` with the tensors' names.

    The signature is kept, so that type checkers find the mistake as well.
    """
    parameters = [*signature(bind).parameters][1:]

    @wraps(bind)
    def called(self: Bindable, *arguments: Any, **options: Any) -> Any:
        try:
            return bind(self, *arguments, **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # raised within `bind`
                raise
        raise _call_error(self._bound_names(), parameters, arguments, options)

    return called  # type: ignore[return-value]


def _call_error(names: BoundNames, parameters: Sequence[str], arguments: Sequence[object], options: Iterable[str]) -> BindError:
    """The error for these arguments, which are not those that `bind` takes."""
    unnamed = [*parameters[: len(arguments)], *["one more"] * (len(arguments) - len(parameters))]
    found = ", ".join([*unnamed, *(f"{name}=..." for name in options)])
    why = ("inputs and outputs are mappings of names to memory, or lists in the struct's order",)
    remedy = f"bind({_mapping(names.inputs)}, {_mapping(names.outputs)})"
    expected = f"bind({', '.join(parameters)})"
    return BindError(f"{names.subject}.bind", [Problem("bind.form", "call", f"bind({found})", expected, why, remedy)])


def _mapping(names: Sequence[str]) -> str:
    shown = [f'"{name}": ...' for name in names[:_MOST_SHOWN]] + ["..."] * (len(names) > _MOST_SHOWN)
    return f"{{{', '.join(shown)}}}"
