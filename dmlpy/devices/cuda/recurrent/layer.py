"""RNN, LSTM and GRU on CUDA, and their training forms: the base of all strategies of kernels, and the strategy `persistent_block`.

The products with the input come first, see `input_product`, then the recurrence. `strategies` chooses the strategy, and
raw_kernels/recurrent/layer.cu documents each one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.matrix_products import FLOAT, headline, supported_flags, workspace
from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, Struct, scalar_type, strided, struct
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.recurrent.base import BlockRecurrencePlan, RecurrencePlan
from dmlpy.devices.cuda.recurrent.block_shapes import pack_recurrence, recurrence_bytes
from dmlpy.devices.cuda.recurrent.common import (
    LAYER,
    PACK_BIAS,
    activations_type,
    cell_type,
    check_rows,
    copy,
    copy_kernel,
    fill_layer,
    pack_bias_kernel,
    work_of,
)
from dmlpy.devices.cuda.recurrent.input_product import Chunk, InputProduct
from dmlpy.devices.cuda.recurrent.model import cost_of, product_us
from dmlpy.devices.cuda.recurrent.reserve import ReserveAddresses
from dmlpy.devices.plan import Launch, Layout, Pointers, in_order
from dmlpy.operators.recurrent.gradient import ReserveDesc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.operators.recurrent.layer import RecurrentDesc

RESERVE = struct(("saved", np.uint64), ("hidden", np.uint64), ("memory", np.uint64))
SEQUENCE = struct(
    *LAYER,
    ("input_product", np.uint64),
    ("first_times", np.int32, (2,)),
    ("bias", np.uint64),
    ("peephole", np.uint64),
    ("hidden_init", STRIDED),
    ("cell_mem_init", STRIDED),
    ("sequence_lengths", STRIDED),
    ("output_sequence", STRIDED),
    ("output_single", STRIDED),
    ("output_cell_single", STRIDED),
    ("step_mask", STRIDED),
    ("reserve", RESERVE),
)
PERSISTENT_BLOCK = struct(("sequence", SEQUENCE), ("recurrence", np.uint64))
STEP = struct(
    ("sequence", SEQUENCE),
    ("state_dropout", STRIDED),
    ("product", np.uint64),
    ("projected", np.uint64),
    ("hidden", np.uint64),
    ("memory", np.uint64),
    ("shown", np.uint64),
    ("operand", np.uint64),
    ("late_operand", np.uint64),
    ("step", np.int64),
    ("state_size", np.int32),
    ("operands", np.int32),
)
_STRIDED_OF_SEQUENCE = tuple(name for name in SEQUENCE.names or () if SEQUENCE[name] == STRIDED)
Pass = Literal["Inference", "Training"]
"""The pass that kernels are compiled for. Training kernels also handle a step mask, a reserve, dropout of states and a projection."""

_TRAINING = frozenset(("step_mask_tensor", "reserve_tensor", "state_dropout_tensor", "projection_tensor"))
"""Tensors that the code of inference does not handle."""

_SELECTING = frozenset(("sequence_lengths_tensor", "step_mask_tensor"))
"""Tensors by which a sample may skip steps."""

SLICES = (1, 2, 4, 8)
"""Samples that one block of `persistent_block` can have."""


# the kernels, by their template arguments


def persistent_block_kernel(data_type: np.dtype[Any], samples: int, run: Pass, cell: str, forward: str, backward: str) -> Kernel:
    """The kernel for slices of `samples`; `cell`, `forward` and `backward` are C++ types: see `cell_type`, `activations_type`."""
    scalar = scalar_type(data_type)
    entry = f"persistent_block<{scalar}, {samples}, {run}, {cell}, {forward}, {backward}>"
    return Kernel("recurrent/layer.cu", entry, PERSISTENT_BLOCK, f"PersistentBlockParameters<{scalar}>", dynamic_shared=True)


def step_kernel(name: str, data_type: np.dtype[Any], run: Pass, cell: str, forward: str, backward: str) -> Kernel:
    """The kernel `step` or `reset`, which have the same parameters."""
    scalar = scalar_type(data_type)
    return Kernel("recurrent/layer.cu", f"{name}<{scalar}, {run}, {cell}, {forward}, {backward}>", STEP, f"StepParameters<{scalar}>")


def project_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `project`, which takes the parameters of `step`."""
    scalar = scalar_type(data_type)
    return Kernel("recurrent/layer.cu", f"project<{scalar}>", STEP, f"StepParameters<{scalar}>")


class LayerMemory(NamedTuple):
    """A launch's packed constants and scratch by name, as addresses, and its first launches: clearing memory, packing."""

    packed: dict[str, int]
    scratch: dict[str, int]
    prologue: list[Launch]


class RecurrentPlan(RecurrencePlan):
    """The base of the strategies' plans: packed constants, scratch, and the product of the input with its weights.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        reason: why this strategy was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count, or a kernel cannot be compiled.
    """

    launches_steps = False
    """Whether each step is a separate launch."""

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        super().__init__(desc, library, reason, tf32)
        sizes = self._sizes
        self._tf32 = tf32 and self._type == FLOAT
        self.supported_flags = supported_flags(self._tf32)
        check_rows(desc, sizes.gates)
        run: Pass = "Training" if _TRAINING & self._tensors.keys() else "Inference"
        forward, backward = (activations_type(desc.activations_of(direction)) for direction in (0, sizes.num_directions - 1))
        self._types = (run, cell_type(self._cell), forward, backward)
        in_chunks, training = self.launches_steps, run == "Training"
        self._input = InputProduct(desc, library, training=training, in_chunks=in_chunks, tf32=self._tf32)
        self._packed = Layout(self._packed_arrays(), ALIGNMENT)
        self._scratch = Layout(self._scratch_arrays(), ALIGNMENT)
        self.constants = desc.constant_inputs()
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._scratch.size
        self.temporary_size = self._packed.size + self._scratch.size
        self._bias_kernel = pack_bias_kernel(self._type)

    def kernels(self) -> list[Kernel]:
        needed = [copy_kernel(self._type, self._type), *self._input.kernels()]
        if "bias_tensor" in self._tensors:
            needed.append(self._bias_kernel)
        if "peephole_tensor" in self._tensors:
            needed.append(copy_kernel(self._type, FLOAT))
        return needed

    def describe(self) -> str:
        lines = [
            f"{headline(self._library, self._type, tf32=self._tf32)}; {self._reason}",
            f"pack: {', '.join(self.constants)} (once with prepare, else on every dispatch)",
            self._input.describe(),
            *self._describe_recurrence(),
        ]
        if "reserve_tensor" in self._tensors:
            place = ", in the place of the input product" if self._input.in_place else ""
            lines.append(f"reserve: {self._cell.saved} values of each unit and step{place}, and the states around each step")
        if "step_mask_tensor" in self._tensors:
            lines.append("step mask: read in each step")
        return "\n".join(lines)

    def cost(self) -> Cost:
        if self.estimate is None:
            return Cost()
        work, gpu = work_of(self._desc, tf32=self._tf32), GpuModel.of(self._library.limits)
        rows, columns = work.steps * work.batch, work.directions * work.gates * work.hidden
        step_products = 2 * rows * columns * FLOAT.itemsize if self.launches_steps else 0
        traffic = {"input product": 2 * self._input.size, "products of steps": step_products}  # written and read
        product = product_us(gpu, work.arithmetic, rows, columns, work.inputs, work.itemsize, self._input.item_bytes_in_memory)
        return cost_of(self.estimate, work, gpu, product, traffic, self.not_resident)

    # memory

    def _packed_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes = self._sizes
        gate_rows = sizes.num_directions * sizes.gates * sizes.hidden_size
        bias_rows = sizes.num_directions * (sizes.gates + self._cell.resets_last)
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = [
            ("weight", (gate_rows, sizes.input_size), self._type),
            *self._recurrence_arrays(),
        ]
        if "bias_tensor" in self._tensors:
            arrays.append(("bias", (bias_rows, sizes.hidden_size), FLOAT))
        if "peephole_tensor" in self._tensors:
            arrays.append(("peephole", (3 * sizes.num_directions, sizes.hidden_size), FLOAT))
        if self._cell.projection:
            arrays.append(("projection", (sizes.num_directions * sizes.state_size, sizes.hidden_size), self._type))
        return arrays

    def _recurrence_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The packed form of R."""
        sizes = self._sizes
        return [("recurrence", (sizes.num_directions * sizes.gates * sizes.hidden_size, sizes.state_size), self._type)]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        return [*self._input.arrays(), workspace(self._library)]

    # work

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        return in_order(self._pack(constants, self._packed.pointers(persistent)))

    def _pack(self, constants: Pointers, packed: Mapping[str, int]) -> list[Launch]:
        work = [self._copy("weight_tensor", constants, packed["weight"], self._type), *self._pack_recurrence(constants, packed)]
        if "bias_tensor" in self._tensors:
            argument = np.zeros(1, PACK_BIAS)
            argument["bias"] = strided(self._tensors["bias_tensor"], constants["bias_tensor"])
            argument["destination"] = packed["bias"]
            argument["directions"] = self._sizes.num_directions
            argument["gates"] = self._sizes.gates
            argument["hidden_size"] = self._sizes.hidden_size
            argument["keep_last_apart"] = self._cell.resets_last
            work.append(self._library.launch_elements(self._bias_kernel, self._tensors["bias_tensor"].element_count, argument))
        if "peephole_tensor" in self._tensors:
            work.append(self._copy("peephole_tensor", constants, packed["peephole"], FLOAT))
        if self._cell.projection:
            work.append(self._copy("projection_tensor", constants, packed["projection"], self._type))
        return work

    def _pack_recurrence(self, constants: Pointers, packed: Mapping[str, int]) -> list[Launch]:
        return [self._copy("recurrence_tensor", constants, packed["recurrence"], self._type)]

    def _copy(self, name: str, tensors: Pointers, destination: int, data_type: np.dtype[Any]) -> Launch:
        """Copies a bound tensor to a packed one."""
        return copy(self._library, self._tensors[name], tensors[name], destination, data_type)

    def _places(self, tensors: Pointers, temporary: int, persistent: int | None) -> LayerMemory:
        prologue = self._blank(tensors)
        if persistent is not None:
            return LayerMemory(self._packed.pointers(persistent), self._scratch.pointers(temporary), prologue)
        packed = self._packed.pointers(temporary)
        return LayerMemory(packed, self._scratch.pointers(temporary + self._packed.size), [*prologue, *self._pack(tensors, packed)])

    def _blank(self, tensors: Pointers) -> list[Launch]:
        """Clears the reserve if steps may leave entries unwritten, which would otherwise hold stale memory.

        All of it is written if it holds the input product, or if every sample takes every step.
        """
        reserve = self._reserve(tensors)
        if reserve is None or self._input.in_place or not _SELECTING & self._tensors.keys():
            return []
        return [partial(self._library.runtime.memset, reserve.saved, 0, reserve.hidden - reserve.saved)]

    def _reserve(self, tensors: Pointers) -> ReserveAddresses | None:
        """The parts of the bound reserve, if one is described."""
        if isinstance(self._desc, ReserveDesc) and "reserve_tensor" in self._tensors:
            return ReserveAddresses.of(self._desc, tensors["reserve_tensor"])
        return None

    def _input_product_place(self, tensors: Pointers, places: LayerMemory) -> int:
        """The address of the input product: in the reserve, if the steps save values for the gradient there, or in the scratch."""
        reserve = self._reserve(tensors)
        return places.scratch["input_product"] if reserve is None or not self._input.in_place else reserve.saved

    def _input_product(self, tensors: Pointers, places: LayerMemory, chunk: Chunk | None = None) -> list[Launch]:
        """The work that computes the product of all steps, or of a chunk."""
        place = self._input_product_place(tensors, places)
        return self._input.work(chunk or self._input.chunks[0], tensors, places.scratch, places.packed["weight"], place)

    def _sequence(self, tensors: Pointers, places: LayerMemory) -> Struct:
        """The struct `Sequence`, as an array of one element."""
        sequence = np.zeros(1, SEQUENCE)
        fill_layer(sequence, self._desc)
        sequence["input_product"] = self._input_product_place(tensors, places)
        sequence["bias"] = places.packed.get("bias", 0)
        sequence["peephole"] = places.packed.get("peephole", 0)
        for name in _STRIDED_OF_SEQUENCE:
            sequence[name] = strided(self._tensors.get(f"{name}_tensor"), tensors.get(f"{name}_tensor"))
        reserve = self._reserve(tensors)
        if reserve is not None:
            sequence["reserve"] = (reserve.saved, reserve.hidden, reserve.memory)
        return sequence


class PersistentBlockPlan(BlockRecurrencePlan, RecurrentPlan):
    """A layer by `persistent_block`."""

    @property
    def _kernel(self) -> Kernel:
        return persistent_block_kernel(self._type, self._shape.samples, *self._types)

    def _describe_recurrence(self) -> list[str]:
        return [self._shape.describe(self._kernel)]

    def _recurrence_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        return [("recurrence", (self._sizes.num_directions, recurrence_bytes(self._desc)), np.dtype(np.uint8))]

    def _pack_recurrence(self, constants: Pointers, packed: Mapping[str, int]) -> list[Launch]:
        """Packs R: a thread has a row of each gate, and sums over the columns."""
        sizes, name = self._sizes, "recurrence_tensor"
        _, along_direction, along_row, along_column = self._tensors[name].element_strides
        strides = (along_direction, 0, along_row, along_column)
        counts = (sizes.num_directions, 1, sizes.gates * sizes.hidden_size, sizes.hidden_size)
        return [pack_recurrence(self._library, self._desc, constants[name], strides, counts, packed["recurrence"])]

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = self._places(tensors, temporary, persistent)
        argument = np.zeros(1, PERSISTENT_BLOCK)
        argument["sequence"] = self._sequence(tensors, places)
        argument["recurrence"] = places.packed["recurrence"]
        return in_order([*places.prologue, *self._input_product(tensors, places), self._launch_recurrence(argument)])


# shared memory


def block_shared_bytes(desc: RecurrentDesc, samples: int) -> int:
    """The dynamic shared memory of one block of `persistent_block`, in bytes: R in the storage type and its samples' float32 states."""
    sizes = desc.geometry
    padded = -(-sizes.hidden_size // 4) * 4
    states = 3 if desc.cell.resets_first else 2
    return states * samples * padded * FLOAT.itemsize + recurrence_bytes(desc)
