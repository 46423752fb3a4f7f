"""RNN, LSTM and GRU on CUDA, and their training forms: the input product of all steps first, then the recurrence in one of the families.

`families` chooses the family; raw_kernels/recurrent/layer.cu says what each one does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.kernels import ALIGNMENT, STRIDED, Kernel, KernelLibrary, Struct, scalar_type, strided, struct
from dmlpy.devices.cuda.machine import Machine
from dmlpy.devices.cuda.recurrent.common import (
    FLOAT,
    LAYER,
    PACK_BIAS,
    activations_type,
    arithmetic,
    cell_type,
    check_rows,
    copy,
    copy_kernel,
    fill_layer,
    gemm,
    heeded_flags,
    launch_states,
    pack_bias_kernel,
    row_stride,
    scale,
    scale_kernel,
    storage_type,
    work_of,
    workspace,
)
from dmlpy.devices.cuda.recurrent.model import Estimate, cost_of, product_us
from dmlpy.devices.cuda.recurrent.reserve import Reserve
from dmlpy.devices.cuda.recurrent.walk import WalkShape, pack_recurrence, quads_kernel, recurrence_bytes
from dmlpy.devices.cuda.seam import Matrix
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers, in_order
from dmlpy.operators.recurrent.gradient import ReserveDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc

RESERVE = struct(("kept", np.uint64), ("hidden", np.uint64), ("memory", np.uint64))
SEQUENCE = struct(
    *LAYER,
    ("input_product", np.uint64),
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
WALK = struct(("sequence", SEQUENCE), ("recurrence", np.uint64))
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
"""What the kernels do beside the outputs: nothing, or what a step mask, a reserve, dropout of states or a projection asks for."""

_TRAINING = frozenset(("step_mask_tensor", "reserve_tensor", "state_dropout_tensor", "projection_tensor"))
"""Tensors that a pass of inference has no code for."""

SLICES = (1, 2, 4, 8)
"""Samples that one block of `walk` can take."""
MOST_CAPTURED_STEPS = 8192
"""Steps that `step` puts into one CUDA graph: beyond them the graph's own memory, kilobytes a step, outweighs what it saves."""


# the kernels, by what distinguishes their instances


def walk_kernel(data_type: np.dtype[Any], samples: int, run: Pass, cell: str, forward: str, backward: str) -> Kernel:
    """`walk` for slices of `samples`; `cell`, `forward` and `backward` are C++ types: see `cell_type`, `activations_type`."""
    scalar = scalar_type(data_type)
    entry = f"walk<{scalar}, {samples}, {run}, {cell}, {forward}, {backward}>"
    return Kernel("recurrent/layer.cu", entry, WALK, f"WalkParameters<{scalar}>", dynamic_shared=True)


def step_kernel(name: str, data_type: np.dtype[Any], run: Pass, cell: str, forward: str, backward: str) -> Kernel:
    """`step` or `reset`, which take the same."""
    scalar = scalar_type(data_type)
    return Kernel("recurrent/layer.cu", f"{name}<{scalar}, {run}, {cell}, {forward}, {backward}>", STEP, f"StepParameters<{scalar}>")


def project_kernel(data_type: np.dtype[Any]) -> Kernel:
    """`project`, which takes what `step` takes."""
    scalar = scalar_type(data_type)
    return Kernel("recurrent/layer.cu", f"project<{scalar}>", STEP, f"StepParameters<{scalar}>")


class _Places(NamedTuple):
    """Where a launch finds its packed constants and its scratch, by name, and the work that packs them first."""

    packed: dict[str, int]
    scratch: dict[str, int]
    prologue: list[Launch]


class RecurrentPlan(Plan):
    """What the families share: packed constants, scratch, and the product of the input with its weights.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        reason: why this family was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Raises:
        DeviceError: a size is beyond what the device's matrix products count, or a kernel cannot be compiled.
    """

    estimate: Estimate | None = None
    """What the model says of the recurrence; set by `families`."""

    steps_apart = 0
    """Steps that are launched by themselves; none where one launch is for the whole sequence."""

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        self._desc = desc
        self._library = library
        self._reason = reason
        self._sizes = sizes = desc.geometry
        self._cell = desc.cell
        self._tensors = desc.tensors()
        self._type = storage_type(desc)
        self._tf32 = tf32 and self._type == FLOAT
        self.heeded_flags = heeded_flags(self._tf32)
        check_rows(desc, sizes.gates)
        run: Pass = "Training" if _TRAINING & self._tensors.keys() else "Inference"
        forward, backward = (activations_type(desc.activations_of(direction)) for direction in (0, sizes.num_directions - 1))
        self._types = (run, cell_type(self._cell), forward, backward)
        # A thread reads a step's gates before it keeps something in their place.
        self._keeps_in_place = "reserve_tensor" in self._tensors and self._cell.kept == sizes.gates
        self._drops_input = "input_dropout_tensor" in self._tensors
        self._input_stride = None if self._drops_input else row_stride(self._tensors["input_tensor"])
        self._packed = Layout(self._packed_arrays(), ALIGNMENT)
        self._scratch = Layout(self._scratch_arrays(), ALIGNMENT)
        self.constants = desc.constant_inputs()
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._scratch.size
        self.temporary_size = self.persistent_size + self.prepared_temporary_size
        self._bias_kernel = pack_bias_kernel(self._type)
        for kernel in self.kernels():
            library.function(kernel)

    def kernels(self) -> list[Kernel]:
        """Every kernel that this plan launches."""
        needed = [copy_kernel(self._type, self._type)]
        if self._drops_input:
            needed.append(scale_kernel(self._type))
        if "bias_tensor" in self._tensors:
            needed.append(self._bias_kernel)
        if "peephole_tensor" in self._tensors:
            needed.append(copy_kernel(self._type, FLOAT))
        return needed

    def describe(self) -> str:
        sizes = self._sizes
        product = f"[{sizes.seq_length * sizes.batch_size}, {sizes.input_size}]"
        if self._drops_input:
            times = sizes.num_directions * sizes.gates
            product += f" by {sizes.hidden_size} gate rows, {times} times; input copied for each with its dropout"
        else:
            reading = "copied first: its rows do not form a matrix" if self._input_stride is None else "read in place"
            product += f" by all {sizes.num_directions * sizes.gates * sizes.hidden_size} gate rows; input {reading}"
        lines = [
            f"CUDA, {self._library.limits.name}, {self._type} storage, {arithmetic(self._tf32)}; {self._reason}",
            f"pack: {', '.join(self.constants)} (once with prepare, else on every dispatch)",
            f"input product: {product}",
            *self._describe_recurrence(),
        ]
        if "reserve_tensor" in self._tensors:
            place = ", in the place of the input product" if self._keeps_in_place else ""
            lines.append(f"reserve: {self._cell.kept} values of each unit and step{place}, and the states around each step")
        if "step_mask_tensor" in self._tensors:
            lines.append("step mask: read in each step")
        return "\n".join(lines)

    @abstractmethod
    def _describe_recurrence(self) -> list[str]:
        """What follows the input product, for `describe`."""

    def cost(self) -> Cost:
        if self.estimate is None:
            return Cost()
        work, machine = work_of(self._desc), Machine.of(self._library.limits)
        if self._tf32:
            work = replace(work, arithmetic="tf32")
        rows, columns = work.steps * work.batch, work.directions * work.gates * work.hidden
        moved = 2 * rows * columns * FLOAT.itemsize  # written and read
        traffic = {"input product": moved, "products of steps": moved if self.estimate.family == "step" else 0}
        product = product_us(machine, work.arithmetic, rows, columns, work.inputs, work.itemsize)
        return cost_of(self.estimate, work, machine, product, traffic)

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
        sizes = self._sizes
        rows = sizes.seq_length * sizes.batch_size
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        if not self._keeps_in_place:
            arrays.append(("input_product", (rows, sizes.num_directions * sizes.gates * sizes.hidden_size), FLOAT))
        if self._input_stride is None:
            arrays.append(("input", (rows, sizes.input_size), self._type))
        return [*arrays, workspace(self._library)]

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
        """A packed copy of a bound tensor."""
        return copy(self._library, self._tensors[name], tensors[name], destination, data_type)

    def _places(self, tensors: Pointers, temporary: int, persistent: int | None) -> _Places:
        if persistent is not None:
            return _Places(self._packed.pointers(persistent), self._scratch.pointers(temporary), [])
        packed = self._packed.pointers(temporary)
        return _Places(packed, self._scratch.pointers(temporary + self.persistent_size), self._pack(tensors, packed))

    def _reserve(self, tensors: Pointers) -> Reserve | None:
        """The parts of the bound reserve, if one is described."""
        if isinstance(self._desc, ReserveDesc) and "reserve_tensor" in self._tensors:
            return Reserve.of(self._desc, tensors["reserve_tensor"])
        return None

    def _input_product_place(self, tensors: Pointers, places: _Places) -> int:
        """Where the product [T B, D G H] goes: where the steps keep their gates, or into the scratch."""
        reserve = self._reserve(tensors)
        return places.scratch["input_product"] if reserve is None or not self._keeps_in_place else reserve.kept

    def _input_product(self, tensors: Pointers, places: _Places) -> list[Launch]:
        """X W^T of all steps and directions: [T B, D G H]."""
        sizes, library = self._sizes, self._library
        rows, columns = sizes.seq_length * sizes.batch_size, sizes.num_directions * sizes.gates * sizes.hidden_size
        place, weight = self._input_product_place(tensors, places), places.packed["weight"]
        if not self._drops_input:
            work = []
            pointer, stride = tensors["input_tensor"], self._input_stride
            if stride is None:
                pointer, stride = places.scratch["input"], sizes.input_size
                work.append(self._copy("input_tensor", tensors, pointer, self._type))
            left = Matrix(pointer, rows, sizes.input_size, stride, self._type)
            right = Matrix(weight, columns, sizes.input_size, sizes.input_size, self._type)
            return [*work, gemm(library, places.scratch, left, right, Matrix(place, rows, columns, columns, FLOAT), tf32=self._tf32)]
        work = []
        left = Matrix(places.scratch["input"], rows, sizes.input_size, sizes.input_size, self._type)
        for gate in range(sizes.num_directions * sizes.gates):
            work.append(self._scaled_input(tensors, *divmod(gate, sizes.gates), left.pointer))
            first = gate * sizes.hidden_size
            right = Matrix(
                weight + first * sizes.input_size * self._type.itemsize, sizes.hidden_size, sizes.input_size, sizes.input_size, self._type
            )
            product = Matrix(place + first * FLOAT.itemsize, rows, sizes.hidden_size, columns, FLOAT)
            work.append(gemm(library, places.scratch, left, right, product, tf32=self._tf32))
        return work

    def _scaled_input(self, tensors: Pointers, direction: int, gate: int, destination: int) -> Launch:
        """X times the input dropout of one gate, which is the same at every step."""
        source, factor = self._tensors["input_tensor"], self._tensors["input_dropout_tensor"]
        of_direction, of_gate, *rest = factor.element_strides
        start = tensors["input_dropout_tensor"] + (direction * of_direction + gate * of_gate) * self._type.itemsize
        scaled = ((tensors["input_tensor"], source.element_strides), (start, (0, 0, *rest)))
        return scale(self._library, self._type, source.sizes, *scaled, destination)

    def _sequence(self, tensors: Pointers, places: _Places) -> Struct:
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
            sequence["reserve"] = (reserve.kept, reserve.hidden, reserve.memory)
        return sequence


class WalkPlan(RecurrentPlan):
    """One launch of `walk` for the whole sequence, of this shape."""

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, shape: WalkShape, reason: str, tf32: bool = False) -> None:
        self._shape = shape
        super().__init__(desc, library, reason, tf32)

    @property
    def _kernel(self) -> Kernel:
        return walk_kernel(self._type, self._shape.samples, *self._types)

    def kernels(self) -> list[Kernel]:
        return [*super().kernels(), quads_kernel(self._type), self._kernel]

    def _describe_recurrence(self) -> list[str]:
        return [self._shape.describe(self._kernel)]

    def _recurrence_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        return [("recurrence", (self._sizes.num_directions, recurrence_bytes(self._desc)), np.dtype(np.uint8))]

    def _pack_recurrence(self, constants: Pointers, packed: Mapping[str, int]) -> list[Launch]:
        """A thread has a row of each gate, and its sums run over the columns."""
        sizes, name = self._sizes, "recurrence_tensor"
        _, along_direction, along_row, along_column = self._tensors[name].element_strides
        strides = (along_direction, 0, along_row, along_column)
        counts = (sizes.num_directions, 1, sizes.gates * sizes.hidden_size, sizes.hidden_size)
        return [pack_recurrence(self._library, self._desc, constants[name], strides, counts, packed["recurrence"])]

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = self._places(tensors, temporary, persistent)
        argument = np.zeros(1, WALK)
        argument["sequence"] = self._sequence(tensors, places)
        argument["recurrence"] = places.packed["recurrence"]
        walk = self._library.launch(self._kernel, self._shape.grid, self._shape.threads, argument, self._shape.shared_bytes)
        return in_order([*places.prologue, *self._input_product(tensors, places), walk])


class StepPlan(RecurrentPlan):
    """A matrix product and a launch of `step` for each step; twice that for a GRU that resets before the product, or a projection."""

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        self._drops_state = "state_dropout_tensor" in desc.tensors()
        super().__init__(desc, library, reason, tf32)
        self.steps_apart = self._sizes.seq_length
        self.capturable = self.steps_apart <= MOST_CAPTURED_STEPS

    @property
    def _step_kernel(self) -> Kernel:
        return step_kernel("step", self._type, *self._types)

    @property
    def _reset_kernel(self) -> Kernel:
        return step_kernel("reset", self._type, *self._types)

    def kernels(self) -> list[Kernel]:
        needed = [*super().kernels(), self._step_kernel]
        if self._cell.resets_first:
            needed.append(self._reset_kernel)
        if self._cell.projection:
            needed.append(project_kernel(self._type))
        if self._drops_state:
            needed.append(scale_kernel(self._type))
        return needed

    def _describe_recurrence(self) -> list[str]:
        sizes, gates = self._sizes, self._first_gates
        by = (
            f"by {sizes.hidden_size} gate rows for each of {gates} gates and"
            if self._drops_state
            else f"by {gates * sizes.hidden_size} gate rows for"
        )
        lines = [f"{sizes.seq_length} times: product [{sizes.batch_size}, {sizes.state_size}] {by} each direction"]
        if self._cell.resets_first:
            lines.append(f"    {self._reset_kernel.entry}, product by {sizes.hidden_size} gate rows")
        lines.append(f"    {self._step_kernel.entry}")
        if self._cell.projection:
            lines.append(f"    product by {sizes.state_size} rows of the projection, {project_kernel(self._type).entry}")
        return lines

    @property
    def _first_gates(self) -> int:
        """Gates whose product is of H[t-1] itself."""
        return self._sizes.gates - self._cell.resets_first

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes = self._sizes
        rows = (sizes.num_directions, sizes.batch_size)
        state = (*rows, sizes.state_size)
        arrays = [*super()._scratch_arrays(), ("product", (*rows, sizes.gates, sizes.hidden_size), FLOAT), ("hidden", state, FLOAT)]
        if self._cell.has_memory:
            arrays.append(("memory", (*rows, sizes.hidden_size), FLOAT))
        if self._cell.projection:
            arrays.append(("projected", state, FLOAT))
        if "step_mask_tensor" in self._tensors:
            arrays.append(("shown", state, FLOAT))
        if self._drops_state:
            arrays.append(("operand", (*state, self._first_gates), self._type))
        elif self._type != FLOAT:
            arrays.append(("operand", state, self._type))
        if self._cell.resets_first or self._cell.projection:
            arrays.append(("late_operand", (*rows, sizes.hidden_size), self._type))
        return arrays

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        places = self._places(tensors, temporary, persistent)
        sizes, scratch, library = self._sizes, places.scratch, self._library
        starts_at_zero = "hidden_init_tensor" not in self._tensors
        first_product = 0 if starts_at_zero else scratch["product"]
        argument = np.zeros(1, STEP)
        argument["sequence"] = self._sequence(tensors, places)
        argument["state_dropout"] = strided(self._tensors.get("state_dropout_tensor"), tensors.get("state_dropout_tensor"))
        for name in ("hidden", "memory", "shown", "projected", "late_operand"):
            argument[name] = scratch.get(name, 0)
        argument["operand"] = scratch.get("operand", scratch["hidden"])
        argument["state_size"] = sizes.state_size
        argument["operands"] = self._first_gates
        prologue = [*places.prologue, *self._input_product(tensors, places)]
        if not starts_at_zero:
            prologue.append(self._first_operand(tensors, int(argument["operand"][0])))

        products = self._state_products(places)
        late_products = self._late_products(places)
        units = (sizes.num_directions, sizes.batch_size, sizes.hidden_size)
        entries = (sizes.num_directions, sizes.batch_size, sizes.state_size)
        step = launch_states(library, self._step_kernel, units, argument)
        reset = launch_states(library, self._reset_kernel, units, argument) if self._cell.resets_first else None
        project = launch_states(library, project_kernel(self._type), entries, argument) if self._cell.projection else None
        keeps = "reserve_tensor" in self._tensors

        def launch(stream: int) -> None:
            for part in prologue:
                part(stream)
            for index in range(sizes.seq_length):
                argument["step"] = index  # a launch takes its argument's value, so all steps share one
                argument["product"] = scratch["product"] if index else first_product
                multiplies = index or not starts_at_zero  # there is no product with a state of zero, but its reset is kept
                if multiplies:
                    for product in products:
                        product(stream)
                if reset is not None and (multiplies or keeps):
                    reset(stream)
                    if multiplies:
                        for product in late_products:
                            product(stream)
                step(stream)
                if project is not None:
                    for product in late_products:
                        product(stream)
                    project(stream)

        return launch

    def _first_operand(self, tensors: Pointers, operand: int) -> Launch:
        """The initial state as the first products read it."""
        if not self._drops_state:
            return self._copy("hidden_init_tensor", tensors, operand, self._type)
        sizes = self._sizes
        _, of_direction, *rest = self._tensors["hidden_init_tensor"].element_strides
        state = (tensors["hidden_init_tensor"], (of_direction, 0, *rest))
        factor = (tensors["state_dropout_tensor"], self._tensors["state_dropout_tensor"].element_strides)
        shape = (sizes.num_directions, self._first_gates, sizes.batch_size, sizes.state_size)
        return scale(self._library, self._type, shape, state, factor, operand)

    def _state_products(self, places: _Places) -> list[Launch]:
        """For each direction the products of the state with the recurrence: of all gates at once, or with dropout of each gate."""
        sizes, gates = self._sizes, self._first_gates
        operand = places.scratch.get("operand", places.scratch["hidden"])
        bytes_of_state = sizes.batch_size * sizes.state_size * self._type.itemsize
        work = []
        for direction in range(sizes.num_directions):
            if self._drops_state:
                for gate in range(gates):
                    work.append(self._recurrent_product(places, operand + (direction * gates + gate) * bytes_of_state, direction, gate, 1))
            else:
                work.append(self._recurrent_product(places, operand + direction * bytes_of_state, direction, 0, gates))
        return work

    def _late_products(self, places: _Places) -> list[Launch]:
        """For each direction the product that waits for a part of the step: of r . H[t-1], or the projection of o . h(C[t])."""
        sizes, item = self._sizes, self._type.itemsize
        work = []
        for direction in range(sizes.num_directions):
            left = places.scratch.get("late_operand", 0) + direction * sizes.batch_size * sizes.hidden_size * item
            if self._cell.resets_first:
                work.append(self._recurrent_product(places, left, direction, self._first_gates, 1))
            if self._cell.projection:
                right = places.packed["projection"] + direction * sizes.state_size * sizes.hidden_size * item
                projected = places.scratch["projected"] + direction * sizes.batch_size * sizes.state_size * FLOAT.itemsize
                work.append(
                    gemm(
                        self._library,
                        places.scratch,
                        Matrix(left, sizes.batch_size, sizes.hidden_size, sizes.hidden_size, self._type),
                        Matrix(right, sizes.state_size, sizes.hidden_size, sizes.hidden_size, self._type),
                        Matrix(projected, sizes.batch_size, sizes.state_size, sizes.state_size, FLOAT),
                        tf32=self._tf32,
                    )
                )
        return work

    def _recurrent_product(self, places: _Places, operand: int, direction: int, first: int, count: int) -> Launch:
        """The product of an operand with the recurrence of `count` gates from `first` on."""
        sizes = self._sizes
        batch, hidden, state, gate_rows = sizes.batch_size, sizes.hidden_size, sizes.state_size, sizes.gates * sizes.hidden_size
        right = places.packed["recurrence"] + (direction * gate_rows + first * hidden) * state * self._type.itemsize
        product = places.scratch["product"] + (direction * batch * gate_rows + first * hidden) * FLOAT.itemsize
        return gemm(
            self._library,
            places.scratch,
            Matrix(operand, batch, state, state, self._type),
            Matrix(right, count * hidden, state, state, self._type),
            Matrix(product, batch, count * hidden, gate_rows, FLOAT),
            tf32=self._tf32,
        )


# what a walk takes


def walk_shared_bytes(desc: RecurrentDesc, samples: int) -> int:
    """Dynamic shared memory of one block of `walk`: R in the storage type and the states of its samples in float32."""
    sizes = desc.geometry
    padded = -(-sizes.hidden_size // 4) * 4
    states = 3 if desc.cell.resets_first else 2
    return states * samples * padded * FLOAT.itemsize + recurrence_bytes(desc)
