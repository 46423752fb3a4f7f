"""The product of a layer's input with its weights, X W^T, for all steps or in chunks, which a recurrence on CUDA reads.

It is rounded to the storage type for inference. In training it is float32, since in most cells it lies where the steps save what a gradient
needs. Sums are float32 in any case. Beyond the largest half, 65504, a FLOAT16 product counts as infinite.

The plan with a launch for each step computes the product of some steps at a time if that of all steps would not stay in the L2 cache until
it is
read: scratch is smaller, and the product hardly moves through memory. A single launch for the whole sequence has no such chunks:
each would load R on chip again. By the model's rates, none of them measured, that takes an H100 6 to 10 us for 227 to 400 KB in each block,
while a chunk of a quarter of its L2 cache takes 7 us to memory and back, most of which the steps hide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.devices.cuda.common.matrix_products import FLOAT, gemm
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.recurrent.common import backward_directions, copy, copy_kernel, row_stride, scale, scale_kernel, storage_type
from dmlpy.devices.cuda.runtime.interface import Matrix, MatrixProduct

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
    from dmlpy.devices.plan import Launch, Pointers
    from dmlpy.operators.recurrent.layer import RecurrentDesc

L2_PART = 1 / 4
"""The share of the L2 cache for a chunk's product: R must stay there too."""
LEAST_ROWS = 2048
"""The fewest rows of a chunk's product: fewer would leave multiprocessors idle, and read W too often."""


def can_be_in_chunks(desc: RecurrentDesc) -> bool:
    """Returns whether the product can be computed in chunks, which requires every step to be at the same time in all samples."""
    backward = backward_directions(desc)[: desc.geometry.num_directions]
    return not (any(backward) and "sequence_lengths_tensor" in desc.tensors())


class Chunk(NamedTuple):
    """Consecutive steps of a recurrence: the first, and their number."""

    first: int
    steps: int


class InputProduct:
    """The product's memory and order. It has rows [T][B] of [D][G H] values; a chunk has only its steps' rows.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        training: whether it is a training pass.
        in_chunks: whether it may be computed in chunks.
        tf32: whether factors of float32 matrix products may be rounded to TF32.

    Attributes:
        data_type: the type of the product.
        in_place: whether it lies where the steps save values for the gradient; a thread reads a step's gates before it saves values there.
        chunks: the steps of each chunk.
    """

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, *, training: bool, in_chunks: bool, tf32: bool) -> None:
        self._library = library
        self._sizes = sizes = desc.geometry
        self._tensors = desc.tensors()
        self._type = storage_type(desc)
        self._tf32 = tf32
        self._backward = backward_directions(desc)
        self._drops = "input_dropout_tensor" in self._tensors
        self._stride = None if self._drops else row_stride(self._tensors["input_tensor"])
        self._columns = sizes.num_directions * sizes.gates * sizes.hidden_size
        self.data_type = FLOAT if training else self._type
        self.in_place = "reserve_tensor" in self._tensors and desc.cell.saved == sizes.gates
        steps = self._chunk_steps() if in_chunks and can_be_in_chunks(desc) else sizes.seq_length
        self.chunks = [Chunk(first, min(steps, sizes.seq_length - first)) for first in range(0, sizes.seq_length, steps)]

    def _chunk_steps(self) -> int:
        """The number of steps of every chunk except the last, which may have fewer."""
        sizes = self._sizes
        rows = GpuModel.of(self._library.limits).l2_bytes * L2_PART / (self._columns * self.data_type.itemsize)
        most = max(1, int(max(rows, LEAST_ROWS)) // sizes.batch_size)
        chunks = -(-sizes.seq_length // most)
        return -(-sizes.seq_length // chunks)

    @property
    def size(self) -> int:
        """The bytes of the product of all steps."""
        return self._sizes.seq_length * self._sizes.batch_size * self._columns * self.data_type.itemsize

    @property
    def item_bytes_in_memory(self) -> int:
        """The bytes of a value of the product in the GPU's memory; 0 if chunks are read while the L2 cache holds them."""
        return self.data_type.itemsize if len(self.chunks) == 1 else 0

    def kernels(self) -> list[Kernel]:
        """All kernels that `work` launches."""
        if self._drops:
            return [scale_kernel(self._type)]
        return [copy_kernel(self._type, self._type)] if self._stride is None else []

    def arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        """The scratch arrays that `work` needs besides "workspace"."""
        rows = self.chunks[0].steps * self._sizes.batch_size
        arrays: list[tuple[str, Sequence[int], np.dtype[Any]]] = []
        if not self.in_place:
            arrays.append(("input_product", (rows, self._columns), self.data_type))
        if self._stride is None:
            arrays.append(("input", (rows, self._sizes.input_size), self._type))
        return arrays

    def describe(self) -> str:
        """Describes the product in one line."""
        sizes = self._sizes
        product = f"[{sizes.seq_length * sizes.batch_size}, {sizes.input_size}]"
        if self._drops:
            times = sizes.num_directions * sizes.gates
            product += f" by {sizes.hidden_size} gate rows, {times} times; input copied for each with its dropout"
        else:
            reading = "copied first: its rows do not form a matrix" if self._stride is None else "read in place"
            product += f" by all {self._columns} gate rows; input {reading}"
        if len(self.chunks) > 1:
            product += f"; formed in {len(self.chunks)} chunks of up to {self.chunks[0].steps} steps"
        return f"input product, {self.data_type}: {product}"

    def first_times(self, chunk: Chunk) -> tuple[int, int]:
        """The time whose product is first in memory, for each direction; 0 if the product of all steps is stored."""
        if self.in_place or len(self.chunks) == 1:
            return 0, 0
        first, second = (self._first_time(chunk, direction) for direction in range(2))
        return first, second

    def work(self, chunk: Chunk, tensors: Pointers, scratch: Mapping[str, int], weight: int, product: int) -> list[Launch]:
        """The work that computes the product of a chunk.

        Args:
            chunk: one of `chunks`.
            tensors: the bound tensors.
            scratch: addresses of the scratch arrays.
            weight: address of W of all directions, packed.
            product: the address of the product of all steps if it is `in_place`, else that of the chunk.
        """
        directions = self._sizes.num_directions
        if len(self.chunks) == 1:
            return self._of(range(directions), 0, chunk.steps, tensors, scratch, weight, product)
        work = []
        for direction in range(directions):
            time = self._first_time(chunk, direction)
            row = time * self._sizes.batch_size if self.in_place else 0
            place = product + row * self._columns * self.data_type.itemsize
            work += self._of(range(direction, direction + 1), time, chunk.steps, tensors, scratch, weight, place)
        return work

    def _first_time(self, chunk: Chunk, direction: int) -> int:
        return self._sizes.seq_length - chunk.first - chunk.steps if self._backward[direction] else chunk.first

    def _of(
        self, directions: range, time: int, times: int, tensors: Pointers, scratch: Mapping[str, int], weight: int, place: int
    ) -> list[Launch]:
        """The product of some directions at some times; `place` is the address of the first time, for all directions."""
        sizes, item = self._sizes, self._type.itemsize
        rows, inputs = times * sizes.batch_size, sizes.input_size
        source = self._tensors["input_tensor"]
        pointer = tensors["input_tensor"] + time * source.element_strides[1] * item

        def multiplied(left: Matrix, first_gate: int, gates: int) -> Launch:
            first, columns = first_gate * sizes.hidden_size, gates * sizes.hidden_size
            right = Matrix(weight + first * inputs * item, columns, inputs, inputs, self._type)
            result = Matrix(place + first * self.data_type.itemsize, rows, columns, self._columns, self.data_type)
            return gemm(self._library, scratch, MatrixProduct(left, right, result, tf32=self._tf32))

        gates = range(directions.start * sizes.gates, directions.stop * sizes.gates)
        if self._stride is not None:
            return [multiplied(Matrix(pointer, rows, inputs, self._stride, self._type), gates.start, len(gates))]
        copied = Matrix(scratch["input"], rows, inputs, inputs, self._type)
        if not self._drops:
            whole = source.replace(sizes=(1, times, sizes.batch_size, inputs), strides=source.element_strides)
            return [
                copy(self._library, whole, pointer, copied.pointer, self._type),
                multiplied(copied, gates.start, len(gates)),
            ]
        work = []
        for gate in gates:
            # X times the dropout of one gate, which is the same at every step.
            of_direction, of_gate, *rest = self._tensors["input_dropout_tensor"].element_strides
            along = gate // sizes.gates * of_direction + gate % sizes.gates * of_gate
            factor = tensors["input_dropout_tensor"] + along * item, (0, 0, *rest)
            shape = (1, times, sizes.batch_size, inputs)
            work.append(scale(self._library, self._type, shape, (pointer, source.element_strides), factor, copied.pointer))
            work.append(multiplied(copied, gate, 1))
        return work
