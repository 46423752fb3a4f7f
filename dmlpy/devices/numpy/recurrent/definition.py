"""Training forms and gradients of RNN, LSTM and GRU in NumPy: their definition on whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.numpy.array_functions import WholePlan
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, arrays_of, packing_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from dmlpy.devices.numpy.recurrent.cells import Arrays
    from dmlpy.operators.recurrent.gradient import ReserveDesc

_ALIGNMENT = 64


class DefinitionPlan(Plan):
    """A training form or a gradient on the host. Its reserve is that of the definition; packed constants are copies in the compute type.

    Args:
        desc: a checked desc.
    """

    reserve_layout = "definition"

    def __init__(self, desc: ReserveDesc) -> None:
        self._desc, self._tensors, sizes = desc, desc.tensors(), desc.geometry
        rows = sizes.gates * sizes.hidden_size * sizes.batch_size
        self._whole = WholePlan(desc, rows * max(sizes.input_size * sizes.seq_length, sizes.state_size))
        self.constants = desc.constant_inputs()
        self._packed = Layout([(name, self._tensors[name].sizes, COMPUTE) for name in self.constants], _ALIGNMENT)
        self.persistent_size = self._packed.size
        self.temporary_size = self.prepared_temporary_size = 0

    def describe(self) -> str:
        sizes = self._desc.geometry
        return (
            f"NumPy, {COMPUTE} arithmetic; {sizes.num_directions} direction(s), one after the other, as `dmlpy.reference` defines them\n"
            f"a product for the input of all {sizes.seq_length} steps, and one for all gates of each step\n"
            "temporaries are allocated in each dispatch"
        )

    @property
    def packing(self) -> Hashable:
        return packing_of(self._desc, self.constants, self._packed)

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        packed, given = self._packed.arrays_at(persistent), arrays_of(self._tensors, constants)

        def launch(stream: int) -> None:
            for name, array in given.items():
                packed[name][...] = array

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes and types."""
        packed = {} if persistent is None else self._packed.arrays_at(persistent)
        return self._whole.bind_arrays({**arrays, **packed})
