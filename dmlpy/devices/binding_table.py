"""`OperatorTables`: which tensors each method of an operator binds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.binding import KnownLayouts
from dmlpy.validation.tensor_arguments import TensorArguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import TensorField


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
        self.constants = TensorArguments(desc, [field for field in inputs if field.name in constants], "constant input")
        self.reserves = tuple(field.name for field in outputs if field.marker.reserve and field.name in described)
        self._output_slots = [slot for slot in desc.output_slots() if slot.tensor is not None]

    def gathered_outputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Groups output values by field; those of an array of tensors form a tuple."""
        found: dict[str, Any] = {}
        for slot in self._output_slots:
            value = values[slot.place]
            found[slot.field.name] = value if slot.index is None else (*found.get(slot.field.name, ()), value)
        return found
