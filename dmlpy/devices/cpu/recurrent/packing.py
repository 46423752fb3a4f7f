"""Matrices packed in blocks of units, for time loops: each launch packs those that no `prepare` has packed before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.cpu.isa import FLOAT_BYTES
from dmlpy.devices.cpu.jit import ACQUIRE, Kernel, make_struct
from dmlpy.devices.cpu.launches import Task, steal_timeout_of
from dmlpy.devices.cpu.recurrent.parameters import PACKED_MATRIX, PACKING_PARAMETERS
from dmlpy.devices.threads import available_threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.isa import Isa

Array = np.ndarray[Any, np.dtype[Any]]

PACKING = Kernel("dmlpy.devices.cpu.recurrent.packing_kernels:build_packing", 5, returns=True)
"""The packing of matrices in blocks of units: the instruction set."""

_FLOATS_OF_A_THREAD = 1 << 17
"""Floats that are worth waking another thread for: a few tens of microseconds."""


class PackedMatrix(NamedTuple):
    """A matrix and its place: target[block][term][gate][lane] is that of the unit block * lanes + lane, or 0 past the last unit.

    Attributes:
        source: [gates, units, terms], or [terms, units] for one gate whose units lie beside each other; `is_packable`.
        target: [blocks, terms, gates, lanes]; of [terms, units] [blocks, terms, lanes], or in place of `simd_math` those of several
        vectors.
            All but the blocks lie densely.
    """

    source: Array
    target: Array


def is_packable(source: Array) -> bool:
    """Returns whether an array is one of float32 whose rows are contiguous; others are copied by NumPy."""
    return source.dtype == np.float32 and (source.strides[-1] == FLOAT_BYTES or source.shape[-1] == 1)


def bind_packing(matrices: Sequence[PackedMatrix], isa: Isa) -> Task:
    """Binds the packing of some matrices, as a part of a launch.

    Args:
        matrices: one or more matrices.
        isa: that whose lanes the blocks have.
    """
    records = np.zeros(len(matrices), PACKED_MATRIX)
    for record, (source, target) in zip(records, matrices, strict=True):
        transposed = source.ndim == 3
        record["transposed"], record["terms"] = transposed, source.shape[-1] if transposed else source.shape[0]
        record["units"] = source.shape[1]
        record["gates"], record["source_gate"] = (source.shape[0], source.strides[0]) if transposed else (1, 0)
        record["vectors"] = 1 if transposed else target.shape[-1] // isa.lanes
        record["source"], record["source_row"] = source.ctypes.data, source.strides[-2]
        record["target"], record["target_block"] = target.ctypes.data, target.strides[0]
    blocks = max(len(target) for _, target in matrices)
    tiles, floats = len(matrices) * blocks, sum(source.size for source, _ in matrices)
    values = {
        "tiles": tiles,
        "blocks": blocks,
        "matrices": records.ctypes.data,
        "acquire": ACQUIRE.address(),
        "steal_timeout": steal_timeout_of(floats // tiles),
    }
    parameters = make_struct(PACKING_PARAMETERS, values)
    threads = max(1, min(available_threads(), floats // _FLOATS_OF_A_THREAD))
    return Task(PACKING.address(isa), parameters.ctypes.data, 1, tiles, threads, False, (parameters, records, matrices))
