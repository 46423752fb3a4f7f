"""Helpers of the recurrent plans on CUDA: C++ names of cells and activations, copies, biases, and tensors as matrices."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import RecurrentDirection
from dmlpy.devices.cuda.common.functors import ATTRIBUTES, functor
from dmlpy.devices.cuda.common.matrix_products import FLOAT, MOST_ROWS, TF32_CAPABILITY
from dmlpy.devices.cuda.kernels import ELEMENT_THREADS, STRIDED, Kernel, KernelLibrary, Struct, scalar_type, strided, struct
from dmlpy.devices.cuda.recurrent.model import Work
from dmlpy.messages.problems import DeviceError
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cuda.performance.gpu_model import Arithmetic
    from dmlpy.devices.cuda.runtime.interface import Limits
    from dmlpy.devices.plan import Launch
    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.operators.recurrent.layer import RecurrentCell, RecurrentDesc

COPY = struct(("source", STRIDED), ("destination", np.uint64), ("sizes", np.int64, (4,)))
SCALE = struct(("source", STRIDED), ("factor", STRIDED), ("destination", np.uint64), ("sizes", np.int64, (4,)))
PACK_BIAS = struct(
    ("bias", STRIDED),
    ("destination", np.uint64),
    ("directions", np.int64),
    ("gates", np.int64),
    ("hidden_size", np.int64),
    ("keep_last_apart", np.int64),
)

LAYER = (
    ("activations", np.float32, (2, 3, 2)),
    ("clip_threshold", np.float32),
    ("seq_length", np.int32),
    ("batch_size", np.int32),
    ("hidden_size", np.int32),
    ("num_directions", np.int32),
    ("backward", np.int32, (2,)),
)
"""The fields of `Layer` of raw_kernels/common/layer.cuh, which each `Sequence` begins with."""


MOST_ENTRIES = (2**16 - 1) * ELEMENT_THREADS
"""The most entries of a sample's state: blocks of them are the second axis of a grid, samples the first, which `MOST_ROWS` limits."""
MOST_CAPTURED_STEPS = 8192
"""Steps that `per_step` puts into one CUDA graph: beyond them the graph's memory, kilobytes a step, outweighs the time saved."""


# kernels


def copy_kernel(source: np.dtype[Any], destination: np.dtype[Any]) -> Kernel:
    """The kernel `copy`, from a strided tensor into a packed one of the same or another element type."""
    types = f"<{scalar_type(source)}, {scalar_type(destination)}>"
    return Kernel("pack.cu", f"copy{types}", COPY, f"CopyParameters{types}")


def scale_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `scale`: a strided tensor times a packed one, all of this element type."""
    scalar = scalar_type(data_type)
    return Kernel("pack.cu", f"scale<{scalar}>", SCALE, f"ScaleParameters<{scalar}>")


def pack_bias_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `pack_bias` for biases of this element type, summed in float32."""
    scalar = scalar_type(data_type)
    return Kernel("pack.cu", f"pack_bias<{scalar}>", PACK_BIAS, f"PackBiasParameters<{scalar}>")


def rounds_to_tf32(limits: Limits, data_type: np.dtype[Any], allowed: bool) -> bool:
    """Returns whether float32 factors of a gradient's products are rounded to TF32.

    Besides where TF32 is allowed, they are for FLOAT16 storage, whose mantissa is no longer, on devices with TF32.
    """
    return allowed or (data_type != FLOAT and limits.compute_capability >= TF32_CAPABILITY)


def storage_type(desc: RecurrentDesc) -> np.dtype[Any]:
    """The element type of all tensors of the desc except the sequence lengths."""
    return desc.input_tensor.data_type.numpy


def work_of(desc: RecurrentDesc, *, tf32: bool = False) -> Work:
    """The work of a checked desc's recurrence, in the arithmetic of its tensors' type.

    Args:
        desc: what to run.
        tf32: whether factors of float32 matrix products are rounded to TF32.
    """
    sizes, cell, backward = desc.geometry, desc.cell, isinstance(desc, RecurrentGradDesc)
    of_float: Arithmetic = "tf32" if tf32 else "float"
    return Work(
        gates=sizes.gates,
        hidden=sizes.hidden_size,
        inputs=sizes.input_size,
        batch=sizes.batch_size,
        steps=sizes.seq_length,
        directions=sizes.num_directions,
        arithmetic=of_float if storage_type(desc) == FLOAT else "half",
        training="reserve_tensor" in desc.tensors() and not backward,
        resets_first=cell.resets_first,
        backward=backward,
        projected=sizes.state_size if cell.projection else None,
    )


def cell_type(cell: RecurrentCell) -> str:
    """A cell with its flags, as C++ spells it: `Lstm<false, false, true>`."""

    def flags(*values: bool) -> str:
        return ", ".join(str(value).lower() for value in values)

    if cell.kind == "LSTM":
        return f"Lstm<{flags(cell.clip is not None, cell.couple_input_forget, cell.peephole)}>"
    return f"Gru<{flags(cell.linear_before_reset)}>" if cell.kind == "GRU" else "Rnn"


def activations_type(descs: Iterable[ActivationDesc]) -> str:
    """One direction's activations, as C++ spells them: `Activations<Sigmoid, Tanh>`."""
    return f"Activations<{', '.join(functor(type(desc)) for desc in descs)}>"


def fill_layer(sequence: Struct, desc: RecurrentDesc) -> None:
    """Sets the `LAYER` fields of a one-element struct."""
    for direction in range(desc.geometry.num_directions):
        for role, activation in enumerate(desc.activations_of(direction)):
            for index, attribute in enumerate(ATTRIBUTES[type(activation)]):
                sequence["activations"][0, direction, role, index] = getattr(activation, attribute)
    sequence["clip_threshold"] = desc.cell.clip or 0.0
    for name in ("seq_length", "batch_size", "hidden_size", "num_directions"):
        sequence[name] = getattr(desc.geometry, name)
    sequence["backward"] = backward_directions(desc)


def backward_directions(desc: RecurrentDesc) -> tuple[bool, bool]:
    """Returns whether each of two directions runs from the end; with one direction the second entry is unused."""
    return desc.direction is RecurrentDirection.BACKWARD, True


def launch_states(library: KernelLibrary, kernel: Kernel, sizes: tuple[int, int, int], argument: Struct) -> Launch:
    """A launch with one thread per entry of an array [D][B][size]: `StateEntry` of raw_kernels/common/layer.cuh."""
    directions, batch, size = sizes
    blocks = -(-size // ELEMENT_THREADS)
    threads = -(-size // (32 * blocks)) * 32
    return library.launch(kernel, (batch, blocks, directions), threads, argument)


def check_rows(desc: RecurrentDesc, gate_rows: int) -> None:
    """Raises DeviceError for sizes beyond what the device's matrix products and kernels can index; a hidden unit has `gate_rows` rows."""
    sizes = desc.geometry
    rows = sizes.seq_length * sizes.batch_size
    columns = {
        "D * G * H": sizes.num_directions * gate_rows * sizes.hidden_size,
        "D * S": sizes.num_directions * sizes.state_size,
        "I": sizes.input_size,
    }
    widest = max(columns, key=lambda name: columns[name])
    if max(rows, columns[widest]) > MOST_ROWS:
        raise DeviceError(f"a matrix of {rows} = T * B rows and {columns[widest]} = {widest} columns: at most {MOST_ROWS} of each")
    if max(sizes.hidden_size, sizes.state_size) > MOST_ENTRIES:
        raise DeviceError(f"states of {sizes.hidden_size} = H and {sizes.state_size} = S entries: at most {MOST_ENTRIES}")


# memory and order


def row_stride(tensor: TensorDesc) -> int | None:
    """The row stride in elements if the rows of the tensor's last axis form a matrix that a product can read; else None."""
    *_, middle, rows, columns = tensor.sizes
    *_, middle_stride, stride, column_stride = tensor.element_strides
    if columns > 1 and column_stride != 1:
        return None
    if rows == 1:
        rows, stride = middle, middle_stride
    elif middle > 1 and middle_stride != rows * stride:
        return None
    if rows == 1:
        return columns
    return stride if columns <= stride <= MOST_ROWS else None


def copy(library: KernelLibrary, tensor: TensorDesc, pointer: int, destination: int, data_type: np.dtype[Any]) -> Launch:
    """Copies a floating-point tensor at an address to a packed one, in an element type."""
    argument = np.zeros(1, COPY)
    argument["source"] = strided(tensor, pointer)
    argument["destination"] = destination
    argument["sizes"] = tensor.sizes
    return library.launch_elements(copy_kernel(tensor.data_type.numpy, data_type), tensor.element_count, argument)


def scale(
    library: KernelLibrary,
    data_type: np.dtype[Any],
    sizes: Sequence[int],
    source: tuple[int, Sequence[int]],
    factor: tuple[int, Sequence[int]],
    destination: int,
) -> Launch:
    """The packed element-wise product of two tensors of one type, each given by its address and element strides."""
    argument = np.zeros(1, SCALE)
    argument["source"] = (source[0], tuple(source[1]))
    argument["factor"] = (factor[0], tuple(factor[1]))
    argument["destination"] = destination
    argument["sizes"] = sizes
    return library.launch_elements(scale_kernel(data_type), prod(sizes), argument)
