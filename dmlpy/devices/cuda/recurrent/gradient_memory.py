"""The memory of a plan of recurrent gradients on CUDA: the arrays of its scratch, the matrices in it, and the structs of its kernels.

Letters as in raw_kernels/recurrent/gradient_results.cu: T steps, B samples, D directions, G gates, H hidden units, S entries of h, Q rows
of gate gradients for each unit and step.
"""

from __future__ import annotations

from math import isqrt, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cuda.common.matrix_products import FLOAT, supported_flags, workspace
from dmlpy.devices.cuda.kernels import ALIGNMENT, KernelLibrary, Struct, strided
from dmlpy.devices.cuda.recurrent.base import RecurrencePlan
from dmlpy.devices.cuda.recurrent.common import (
    activations_type,
    cell_type,
    check_rows,
    fill_layer,
    rounds_to_tf32,
    row_stride,
)
from dmlpy.devices.cuda.recurrent.gradient_kernels import SEQUENCE, STEPS
from dmlpy.devices.cuda.recurrent.gradient_tables import HALF, MOST_PARTS, NO_SCALE, Scale, StridedRows, narrowed, scale_of, scaled
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cuda.recurrent.reserve import ReserveAddresses
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

PRODUCTS = ("input_gradient_tensor", "weight_gradient_tensor", "recurrence_gradient_tensor", "projection_gradient_tensor")
"""The outputs that a matrix product over all steps computes."""


class GradientAddresses(NamedTuple):
    """Addresses of the parts of the reserve, of named scratch arrays, and of the bound tensors."""

    reserve: ReserveAddresses
    scratch: dict[str, int]
    tensors: Pointers


class GradientMemory(RecurrencePlan, PlanWithoutConstants):
    """The memory layout of a recurrent gradient.

    The products over all steps have factors of the storage type; for FLOAT16 the gate gradients are scaled to its range. Products within
    steps have float32 factors. Those of FLOAT16 and BFLOAT16 storage are rounded to TF32, whose mantissa is no shorter, where the device
    has it.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        reason: why this strategy was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32 for FLOAT32 storage too.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count.
    """

    _desc: RecurrentGradDesc

    def __init__(self, desc: RecurrentGradDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        super().__init__(desc, library, reason, tf32)
        sizes = self._sizes
        self._narrow, self._scales = self._type != FLOAT, self._type == HALF
        self._tf32 = rounds_to_tf32(library.limits, self._type, tf32)
        self.supported_flags = supported_flags(tf32 and not self._narrow)
        last = sizes.num_directions - 1
        self._types = (cell_type(desc.cell), *(activations_type(desc.activations_of(direction)) for direction in (0, last)))
        self._gradient_rows = sizes.gates + desc.cell.resets_last
        self._rows = sizes.seq_length * sizes.batch_size
        check_rows(desc, self._gradient_rows)
        self._chunk_rows = max(32, isqrt(self._rows))
        self._chunks = -(-self._rows // self._chunk_rows)
        self._selects = "sequence_lengths_tensor" in self._tensors or "step_mask_tensor" in self._tensors
        self._scratch = Layout(self._scratch_arrays(), ALIGNMENT)
        self.temporary_size = self._scratch.size

    # arrays

    def _is_matrix(self, name: str, data_type: np.dtype[Any]) -> bool:
        """Returns whether the tensor can be read in place as a matrix of this type."""
        return self._type == data_type and row_stride(self._tensors[name]) is not None

    @property
    def _factors(self) -> dict[str, np.dtype[Any]]:
        """The inputs, besides the layer's input, that products read whole, and the type they are read in."""
        return {"weight_tensor": self._type} if "input_gradient_tensor" in self._tensors else {}

    @property
    def _copied(self) -> dict[str, np.dtype[Any]]:
        """The inputs that must first be copied to a matrix of that type."""
        return {name: data_type for name, data_type in self._factors.items() if not self._is_matrix(name, data_type)}

    @property
    def _unpacked(self) -> list[str]:
        """The outputs that must be copied from a float32 matrix."""
        names = [name for name in PRODUCTS if name in self._tensors and not self._is_matrix(name, FLOAT)]
        summed = "input_gradient_tensor" in self._tensors and "input_dropout_tensor" in self._tensors
        return ["input_gradient_tensor", *(name for name in names if name != "input_gradient_tensor")] if summed else names

    @property
    def _rebuilds(self) -> bool:
        """Whether a product needs an operand that the reserve does not hold."""
        name = "recurrence_gradient_tensor" if self._cell.resets_first else "projection_gradient_tensor"
        return (self._cell.resets_first or self._cell.projection) and name in self._tensors

    @property
    def _copies_states(self) -> bool:
        """Whether the product for R reads a copy of h: times dropout's multipliers, and zero at steps that a sample skips.

        There the reserve holds the carried state; if it is infinite, its product with the skipped step's zero gradient is NaN.
        """
        return "recurrence_gradient_tensor" in self._tensors and ("state_dropout_tensor" in self._tensors or self._selects)

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, wanted, rows = self._sizes, self._tensors, self._rows
        directions, hidden = sizes.num_directions, sizes.hidden_size
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = [
            ("gate_gradients", (rows, directions, self._gradient_rows, hidden), FLOAT)
        ]
        if "step_mask_tensor" in wanted:
            arrays.append(("unmasked", (2, sizes.batch_size), np.dtype(np.int32)))
        arrays += [(short(name), wanted[name].sizes, data_type) for name, data_type in self._copied.items()]
        arrays += [(short(name), wanted[name].sizes, FLOAT) for name in self._unpacked]
        drops = "input_dropout_tensor" in wanted
        if "weight_gradient_tensor" in wanted and (drops or self._selects or not self._is_matrix("input_tensor", self._type)):
            arrays.append(("input", (rows, sizes.input_size), self._type))
        if "input_gradient_tensor" in wanted and drops:
            arrays.append(("input_product", (rows, sizes.input_size), FLOAT))
        if self._rebuilds or self._copies_states:
            arrays.append(("operand", (rows, max(hidden, sizes.state_size)), self._type))
        arrays += self._narrowed_arrays()
        columns = {"bias_gradient_tensor": self._gradient_rows, "peephole_gradient_tensor": 3}
        widest = max((count for name, count in columns.items() if name in wanted), default=0)
        if widest:
            arrays.append(("partial", (self._chunks, directions * widest * hidden), FLOAT))
        return [*arrays, workspace(self._library)]

    def _narrowed_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The copies, in a type of 2 bytes, of float32 values that the recurrence and the reserve hold; for FLOAT16 with their scales."""
        sizes, wanted, rows = self._sizes, self._tensors, self._rows
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        if not self._narrow:
            return arrays
        if any(name in wanted for name in PRODUCTS[:3]):
            shape = rows, sizes.num_directions, self._gradient_rows, sizes.hidden_size
            arrays += [("narrow_gradients", shape, self._type), *self._parts("parts")]
        if "recurrence_gradient_tensor" in wanted and not self._copies_states:
            arrays.append(("states", self._state_slots, self._type))
        if "projection_gradient_tensor" in wanted:
            arrays += [("narrow_state_gradients", (rows, sizes.num_directions, sizes.state_size), self._type), *self._parts("state_parts")]
        return arrays

    def _parts(self, name: str) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The array of the parts of a scale, if there is one."""
        return [(name, (MOST_PARTS,), FLOAT)] if self._scales else []

    @property
    def _state_slots(self) -> tuple[int, int, int, int]:
        """The sizes of h before and after each step, as the reserve holds it."""
        sizes = self._sizes
        return sizes.num_directions, sizes.seq_length + 1, sizes.batch_size, sizes.state_size

    def _table(self, name: str, places: GradientAddresses) -> StridedRows:
        """The tensor as the rows of its last axis, in place or in scratch."""
        tensor, copied = self._tensors[name], short(name)
        if copied in places.scratch:
            return StridedRows(places.scratch[copied], tensor.sizes[-1], self._scratch.arrays[copied][2])
        stride = row_stride(tensor)
        assert stride is not None  # as `_is_matrix` found
        return StridedRows(places.tensors[name], stride, self._type)

    def _gate_gradients(self, places: GradientAddresses) -> StridedRows:
        """The float32 gate gradients that the recurrence leaves."""
        sizes = self._sizes
        return StridedRows(places.scratch["gate_gradients"], sizes.num_directions * self._gradient_rows * sizes.hidden_size)

    def _factor_gradients(self, places: GradientAddresses) -> StridedRows:
        """The gate gradients as factors of the products over all steps, in the storage type; scaled for FLOAT16."""
        table = self._gate_gradients(places)
        return StridedRows(places.scratch["narrow_gradients"], table.stride, self._type) if self._narrow else table

    def _gradient_scale(self, places: GradientAddresses) -> Scale:
        return scale_of(places.scratch["parts"], self._rows * self._gate_gradients(places).stride) if self._scales else NO_SCALE

    def _narrowed(self, places: GradientAddresses) -> list[Launch]:
        """Makes the copies of `_narrowed_arrays`, but of state gradients."""
        work, scratch = list[Launch](), places.scratch
        if "narrow_gradients" in scratch:
            table = self._gate_gradients(places)
            work += self._narrow_copy(table.pointer, self._rows * table.stride, scratch["narrow_gradients"], scratch.get("parts"))
        if "states" in scratch:
            work.append(narrowed(self._library, places.reserve.hidden, prod(self._state_slots), scratch["states"], self._type))
        return work

    def _narrow_copy(self, source: int, count: int, destination: int, parts: int | None) -> list[Launch]:
        """Copies float32 gradients to the storage type, with a scale if there are `parts`."""
        if parts is None:
            return [narrowed(self._library, source, count, destination, self._type)]
        return scaled(self._library, source, count, destination, parts)

    @property
    def _narrowed_bytes(self) -> int:
        """Bytes moved to convert float32 values to the storage type: each is written, and read once, or twice with a scale."""
        reads = {"narrow_gradients": 1 + self._scales, "narrow_state_gradients": 1 + self._scales, "states": 1}
        copies = {name: prod(self._scratch.arrays[name][1]) for name in reads if name in self._scratch.arrays}
        return sum(count * (reads[name] * FLOAT.itemsize + self._type.itemsize) for name, count in copies.items())

    def _multiplier(self, name: str, places: GradientAddresses, direction: int, gate: int) -> tuple[int, tuple[int, ...]]:
        """One gate's multipliers as a `STRIDED`, indexed (0, 0, sample, column); marked absent if the tensor is."""
        if name not in self._tensors:
            return strided(None, None)
        along_direction, along_gate, *strides = self._tensors[name].element_strides
        offset = (direction * along_direction + gate * along_gate) * self._type.itemsize
        return places.tensors[name] + offset, (0, 0, *strides)

    # structs

    def _field(self, name: str, places: GradientAddresses) -> tuple[int, tuple[int, ...]]:
        return strided(self._tensors.get(f"{name}_tensor"), places.tensors.get(f"{name}_tensor"))

    def _steps(self, places: GradientAddresses) -> Struct:
        steps = np.zeros(1, STEPS)
        for name in ("sequence_lengths", "step_mask"):
            steps[name] = self._field(name, places)
        steps["unmasked"] = places.scratch.get("unmasked", 0)
        steps["seq_length"], steps["batch_size"] = self._sizes.seq_length, self._sizes.batch_size
        return steps

    def _sequence(self, places: GradientAddresses) -> Struct:
        """The struct `Sequence`, as an array of one element."""
        sequence = np.zeros(1, SEQUENCE)
        fill_layer(sequence, self._desc)
        sequence["steps"] = self._steps(places)
        for name in ("saved", "hidden", "memory"):
            sequence[name] = getattr(places.reserve, name)
        for name in ("peephole", "output_sequence_gradient", "output_single_gradient", "output_cell_single_gradient"):
            sequence[name] = self._field(name, places)
        sequence["gate_gradients"] = places.scratch["gate_gradients"]
        sequence["state_size"] = self._sizes.state_size
        return sequence


def short(name: str) -> str:
    """The name of a tensor's copy in scratch."""
    return name.removesuffix("_tensor")
