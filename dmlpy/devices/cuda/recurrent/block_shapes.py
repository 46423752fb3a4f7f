"""The shapes of the kernels named `persistent_block`, of a layer and of its gradient: all steps in one launch, with R in shared memory.

R is packed beforehand in the order of shared memory, so that a block copies it in words of 16 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cuda.kernels import STRIDED, Kernel, KernelLibrary, scalar_type, struct
from dmlpy.devices.cuda.recurrent.common import storage_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.devices.cuda.runtime.interface import Limits
    from dmlpy.devices.plan import Launch
    from dmlpy.operators.recurrent.layer import RecurrentDesc

PACK_VECTOR4 = struct(("source", STRIDED), ("destination", np.uint64), ("sizes", np.int64, (4,)), ("count", np.int64))

MOST_PERSISTENT_BLOCK_THREADS = 384
"""`most_persistent_block_threads` of raw_kernels/common/layer.cuh."""


# R as a block has it in shared memory


def pack_vector4_kernel(data_type: np.dtype[Any]) -> Kernel:
    """The kernel `pack_vector4` for elements of this type."""
    scalar = scalar_type(data_type)
    return Kernel("pack.cu", f"pack_vector4<{scalar}>", PACK_VECTOR4, f"PackVector4Parameters<{scalar}>")


def recurrence_bytes(desc: RecurrentDesc) -> int:
    """The bytes of R of one direction, stored in groups of four and padded to words of 16 bytes."""
    sizes = desc.geometry
    padded = -(-sizes.hidden_size // 4) * 4
    return -(-sizes.gates * sizes.hidden_size * padded * storage_type(desc).itemsize // 16) * 16


def pack_recurrence(
    library: KernelLibrary, desc: RecurrentDesc, pointer: int, strides: Sequence[int], sizes: Sequence[int], destination: int
) -> Launch:
    """Packs R of all directions from an address into groups of four.

    Args:
        library: the device's kernels.
        desc: a checked desc.
        pointer: the address of the tensor.
        strides: the strides in elements of the axes that `sizes` counts.
        sizes: directions, gates, threads of a block, and terms of a thread's sums.
        destination: the target address, `recurrence_bytes` for each direction.
    """
    data_type = storage_type(desc)
    argument = np.zeros(1, PACK_VECTOR4)
    argument["source"], argument["destination"], argument["sizes"] = (pointer, tuple(strides)), destination, sizes
    argument["count"] = recurrence_bytes(desc) // (4 * data_type.itemsize)
    return library.launch_elements(pack_vector4_kernel(data_type), sizes[0] * int(argument["count"][0]), argument)


# the shapes of a launch


class BlockShape(NamedTuple):
    """The launch of `persistent_block`.

    Attributes:
        samples: the samples of the batch in one block.
        grid: slices of the batch, directions.
        threads: the threads of a block, one for each hidden unit in whole warps.
        shared_bytes: dynamic shared memory of a block.
    """

    samples: int
    grid: tuple[int, int]
    threads: int
    shared_bytes: int

    def summary(self) -> str:
        """Describes the launch in a few words."""
        width, height = self.grid
        return f"R in each of {width} x {height} blocks with {self.samples} sample(s), {self.shared_bytes} bytes of shared memory"

    def describe(self, kernel: Kernel) -> str:
        width, height = self.grid
        return f"{kernel.entry}: {width} x {height} blocks of {self.threads} threads, {self.shared_bytes} bytes of shared memory, once"


def block_shape(desc: RecurrentDesc, samples: int, shared_bytes: int) -> BlockShape:
    """The launch of `persistent_block` whose blocks have `samples` and this much shared memory."""
    sizes = desc.geometry
    return BlockShape(samples, (-(-sizes.batch_size // samples), sizes.num_directions), -(-sizes.hidden_size // 32) * 32, shared_bytes)


def block_shapes(desc: RecurrentDesc, limits: Limits, slices: Sequence[int], shared_bytes: Callable[[int], int]) -> list[BlockShape] | str:
    """The shapes of `persistent_block` that fit the device, or the reason why none does.

    Args:
        desc: a checked desc.
        limits: the device's capabilities.
        slices: the possible numbers of samples of a block, ascending.
        shared_bytes: the dynamic shared memory of a block with this many samples.
    """
    available, hidden_size = limits.shared_memory_per_block, desc.geometry.hidden_size
    fitting = [shape for samples in slices if (shape := block_shape(desc, samples, shared_bytes(samples))).shared_bytes <= available]
    if not fitting:
        return f"R needs {shared_bytes(slices[0])} bytes of shared memory, a block has {available}"
    if hidden_size > MOST_PERSISTENT_BLOCK_THREADS:
        return f"hidden_size {hidden_size} is above {MOST_PERSISTENT_BLOCK_THREADS}, the threads of a block"
    return fitting
