"""Shared by plans and kernels of recurrent layers: parameters, activations, and the layout of the reserve."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, Float32, Float64, KernelStruct, StagedParameters, field
from dmlpy.operators import activation as descs

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.operators.recurrent.gradient import ReserveDesc

COMPILED: dict[type[ActivationDesc], str] = {
    descs.ActivationSigmoidDesc: "sigmoid",
    descs.ActivationTanhDesc: "tanh",
    descs.ActivationReluDesc: "relu",
    descs.ActivationHardSigmoidDesc: "hard_sigmoid",
}
"""The activations that have names."""

IDENTITY, LINEAR, LEAKY, THRESHOLDED, ELU, CELU, SCALED_ELU, SCALED_TANH = range(8)
SOFTSIGN, SOFTPLUS, PARAMETRIC_SOFTPLUS, SHRINK, GELU = range(8, 13)

_OTHERS: dict[type[ActivationDesc], tuple[int, tuple[str, ...]]] = {
    descs.ActivationIdentityDesc: (IDENTITY, ()),
    descs.ActivationLinearDesc: (LINEAR, ("alpha", "beta")),
    descs.ActivationLeakyReluDesc: (LEAKY, ("alpha",)),
    descs.ActivationThresholdedReluDesc: (THRESHOLDED, ("alpha",)),
    descs.ActivationEluDesc: (ELU, ("alpha",)),
    descs.ActivationCeluDesc: (CELU, ("alpha",)),
    descs.ActivationScaledEluDesc: (SCALED_ELU, ("alpha", "gamma")),
    descs.ActivationScaledTanhDesc: (SCALED_TANH, ("alpha", "beta")),
    descs.ActivationSoftsignDesc: (SOFTSIGN, ()),
    descs.ActivationSoftplusDesc: (SOFTPLUS, ("steepness",)),
    descs.ActivationParametricSoftplusDesc: (PARAMETRIC_SOFTPLUS, ("alpha", "beta")),
    descs.ActivationShrinkDesc: (SHRINK, ("bias", "threshold")),
    descs.ActivationGeluDesc: (GELU, ()),
}
"""The number of each other activation, and its constants."""

OF_A_ROLE = 3
CONSTANTS = 3 * OF_A_ROLE
"""Floats in the constants of a time loop's activations."""


def names_of(activations: tuple[ActivationDesc, ...]) -> tuple[str, ...]:
    """The names by which time loops are compiled with these activations."""
    return tuple(COMPILED.get(type(activation), "other") for activation in activations)


def constants_of(activations: tuple[ActivationDesc, ...]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The constants of a time loop's activations, its parameter `functions`: for each role the activation's number and two constants."""
    constants = np.zeros((CONSTANTS // OF_A_ROLE, OF_A_ROLE), np.float32)
    for role, activation in enumerate(activations):
        number, names = _OTHERS.get(type(activation), (0, ()))
        if isinstance(activation, descs.ActivationHardSigmoidDesc):
            names = ("alpha", "beta")
        constants[role, 0] = number
        if names:
            with np.errstate(over="ignore"):
                constants[role, 1 : 1 + len(names)] = [getattr(activation, name) for name in names]
    return constants.reshape(-1)


REPEATS, BLANK = 1, 2
"""The output of a sample that skips a step: the previous output, or zeros. 0 marks samples that take the step."""

STATES = 3
"""Buffers for h that steps use in turn. With two, a step overwrites data that other cores have just read: measured a sixth slower."""


class TimeLoopParameters(StagedParameters):
    """The parameters of the time loops of both passes.

    Samples may skip steps: a state's row r is that of sample order[r], such that those that take a step are among the first rows. h has as
    many entries as there are hidden units, or with a projection its own.

    Constants are packed by blocks of as many units as a vector has lanes.
    """

    steps: Count = field("steps of this loop")
    time: Count = field("the first of the times that the steps are at")
    backward: Flag = field("whether the layer's steps go from the last time to the first")
    batch: Count = field("samples")
    hidden: Count = field("hidden units")
    entries: Count = field("entries of h")
    blocks: Count = field("blocks of hidden units")
    entry_blocks: Count = field("blocks of entries")
    block_groups: Count = field("parts of the blocks that a stage's tiles are for")
    sample_groups: Count = field("parts of the rows that a stage's tiles are for")
    step_stage: Address = field("the stage of a step, or the first of two")
    second_stage: Address = field("the second stage of a step, if it has one")
    order: Address = field("the sample of each row [batch]")
    bases: Address = field("rows before each step [T + 1]: step t has bases[t + 1] - bases[t]")
    skips: Address = field("where steps are masked, what each sample does at a step [T, batch]: see `packing.ActiveRows`")
    couple: Flag = field("whether the forget gate is 1 less the input gate")
    peephole: Address = field("packed peepholes [blocks, 3, lanes]")
    recurrence: Address = field("packed R")
    candidate: Address = field("R of the gate that waits for the reset gate, packed apart")
    projection: Address = field("the packed projection")
    zeros: Address = field("a row of zeros as long as a sum")
    saved: Address = field("the reserve's gates of this direction [T, saved_values, batch, hidden]")
    saved_values: Count = field("values of a unit that the reserve has for a step")
    state_dropout: Address = field("the multipliers of what each gate sees of h")
    candidate_dropout: Address = field("the multipliers of r * h")
    scratch: Address = field("memory of each thread's own for the products of a tile")
    scratch_size: Bytes = field("from a thread's to the next")
    clip: Float64 = field("the bound of the gates' sums; 0 for none")
    functions: Address = field("that of `constants`")
    constants: Float32 = field("what `constants_of` gives", count=CONSTANTS)


class LayerParameters(TimeLoopParameters):
    """The parameters of the time loop of a layer.

    It runs the steps in chunks that share an input product. A matrix is packed [blocks, parts, terms, fused, lanes], where a part has the
    gates whose sums stay in registers at once; the products are those of `product_kernels.build_gate_products`. With dropout each gate's
    product reads its own copy of x or h, and is a separate part.
    """

    chunk: Count = field("steps that share an input product")
    inputs: Count = field("entries of x")
    input_stage: Address = field("the stage of a chunk's input products")
    input_product: Address = field("their product")
    step_product: Address = field("the product of the first stage of a step")
    second_product: Address = field("that of the second one")
    input: Address = field("the input at time 0")
    input_row: Bytes = field("from a sample's row to the next, then over the steps")
    weights: Address = field("packed W")
    bias: Address = field("packed biases [blocks, gates, lanes]")
    hidden_bias: Address = field("those of R where they are not added to W's")
    parts: Address = field("a chunk's input products [blocks, chunk * batch, gates, lanes]")
    turn: Count = field("the number of the state that is read first")
    state: Address = field("STATES buffers of h [batch, entry_blocks * lanes], then what dropout lets the gates see of it")
    state_size: Bytes = field("from a buffer to the next")
    state_row: Bytes = field("from a row of a buffer to the next")
    state_gates: Count = field("gates for which dropout has a copy of h")
    state_gate: Bytes = field("from a gate's copy of h to the next")
    memory: Address = field("the cell state [batch, blocks * lanes]")
    memory_row: Bytes = field("from a row of it to the next, and of the three that follow")
    update: Address = field("a GRU's update gates, where a second stage needs them")
    reset: Address = field("what the product with the candidate's matrix takes: r * h")
    cell_output: Address = field("what the projection takes")
    output: Address = field("the output at time 0")
    output_step: Bytes = field("from a step of the output to the next")
    output_row: Bytes = field("from a sample's row of the output to the next")
    rows: Address = field("where samples skip steps, the number of each row of the input products")
    gathered: Address = field("where rows are copied first, room for a chunk's, for each thread")
    gathered_size: Bytes = field("from a thread's room to the next")
    gathered_row: Bytes = field("from a row there to the next, and of the multipliers of x")
    input_dropout: Address = field("the multipliers of x by sample [batch, gates, ...]")
    input_gate: Bytes = field("from a gate's copy of a row of x to the next")
    saved_hidden: Address = field("the reserve's h after each step [T, batch, entries]")
    saved_memory: Address = field("the reserve's cell states after each step [T, batch, hidden]")


class GradientParameters(TimeLoopParameters):
    """The parameters of the time loop of a gradient, which runs the steps of the layer in reverse order.

    Matrices are packed in panels of some blocks, whose sums of some samples stay in registers.
    """

    product: Address = field("`product_kernels.build_product` of a panel")
    narrow_product: Address = field("that of a last panel of one block, which is packed [terms, lanes]")
    panel: Count = field("blocks of a panel")
    columns: Count = field("samples whose sums of a panel stay in registers, at most")
    terms: Count = field("gates' gradients that enter the product with `recurrence` [panels, terms, panel, lanes]")
    gates: Address = field("the gates' gradients of the first row of `time`")
    gates_row: Bytes = field("from a row of the gates' gradients to the next")
    state_gradient: Bytes = field("from the gates' gradients of a row to its dh, which enters the product with the projection")
    operand: Address = field("rows of r * h[t-1], or of what is projected")
    carry: Address = field("dh [entry_blocks, batch, lanes]")
    memory_carry: Address = field("dc [blocks, batch, lanes]")
    hidden_before: Address = field("h before each step [T, batch, entries]")
    memory_before: Address = field("the cell state before each step [T, batch, hidden]")
    memory_after: Address = field("the cell state after each step [T, batch, hidden]")
    upstream: Address = field("the gradient of the output at time 0")
    upstream_step: Bytes = field("from a step of it to the next")
    upstream_row: Bytes = field("from a sample's row of it to the next")
    dropout_row: Bytes = field("from a sample's row of the multipliers to the next")


class PackingParameters(StagedParameters):
    """The parameters of the packing of matrices. A tile is a block of units of one matrix."""

    tiles: Count = field("how many tiles there are")
    blocks: Count = field("the most blocks of a matrix")
    matrices: Address = field("a `PackedMatrixParameters` for each matrix")


class PackedMatrixParameters(KernelStruct):
    """A matrix that is packed to [blocks, terms, gates, lanes], or to [blocks, terms, vectors, lanes] with more units in a block."""

    transposed: Flag = field("whether it is [gates, units, terms]; else it is [terms, units] of one gate")
    units: Count = field("its units")
    terms: Count = field("its terms")
    gates: Count = field("its gates")
    vectors: Count = field("the vectors of units in a block")
    source: Address = field("where it lies")
    source_gate: Bytes = field("from a gate to the next")
    source_row: Bytes = field("from a row to the next")
    target: Address = field("where it is packed")
    target_block: Bytes = field("from a block there to the next")


def count_stages(steps: int, chunk: int, *, two: bool) -> int:
    """The stages of a time loop: one for each chunk's input product, and one for each step, or two."""
    return -(-steps // chunk) + (1 + two) * steps


def count_gradient_stages(steps: int, *, two: bool) -> int:
    """The stages of a gradient's time loop: one for each step, or two, and one for the first dh."""
    return 1 + (1 + two) * steps


def copied(parameters: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """A copy of a time loop's parameters, with pointers to its own constants."""
    copy = parameters.copy()
    copy["functions"] = copy["constants"].ctypes.data
    return copy


Array = np.ndarray[Any, np.dtype[Any]]

RESERVE_LAYOUT = "rows"
"""The name of this layout in a reserve's configuration."""


def saves_argument(activation: ActivationDesc, clips: bool) -> bool:
    """Returns whether the reserve has a gate's sum, not its value: if it is clipped, or its derivative depends on the sum."""
    return clips or type(activation) not in COMPILED


@dataclass(frozen=True)
class ReserveRows:
    """Views of a reserve.

    Attributes:
        saved: [D, T, K, B, H]: for each gate, in the desc's order, its value or its sum (`saves_argument`); for a GRU with
            linear_before_reset then h[t-1] Rh^T + Rbh. Zeros for the f of coupled gates, and past a sequence's end.
        hidden: [D, T + 1, B, S]: h before and after each step. A forward layer's step t leads from slot t to slot t + 1, a backward one's
            from slot t + 1 to slot t. Slots past a sequence's end hold the carried state.
        memory: [D, T + 1, B, H]: the same for the cell state; None except for LSTM.

    S is H, or with a projection its size.
    """

    saved: Array
    hidden: Array
    memory: Array | None

    @classmethod
    def of(cls, desc: ReserveDesc, array: Array) -> ReserveRows:
        """The parts of a reserve, from a packed array of `reserve_size` elements."""
        sizes, cell = desc.geometry, desc.cell
        directions, steps, batch, hidden = sizes.num_directions, sizes.seq_length, sizes.batch_size, sizes.hidden_size
        shapes = [(directions, steps, cell.saved, batch, hidden), (directions, steps + 1, batch, sizes.state_size)]
        if cell.has_memory:
            shapes.append((directions, steps + 1, batch, hidden))
        flat, parts, start = array.reshape(-1), [], 0
        for shape in shapes:
            parts.append(flat[start : start + prod(shape)].reshape(shape))
            start += prod(shape)
        return cls(parts[0], parts[1], parts[2] if cell.has_memory else None)
