"""The plans of diagonals and sequences in packed tensors, and the parameters of their kernels."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.isa import host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, FixedArray, Float64, UnitParameters, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.reference.registry import Array

BANDS = Kernel("dmlpy.devices.cpu.generation.kernels:build_bands", 5)
"""Matrices with bands along their diagonals."""
SEQUENCE = Kernel("dmlpy.devices.cpu.generation.kernels:build_sequence", 5)
"""Numbers with equal distances: the type of tensors, and the instruction set."""

_BYTES_OF_A_THREAD = 1 << 18
"""Bytes that are worth waking another thread for."""


class BandsParameters(UnitParameters):
    """The parameters of the kernel of bands. A tile is some of the rows."""

    height: Count = field("rows of a matrix")
    width: Count = field("columns")
    element: Bytes = field("the size of an element")
    input: Address = field("the elements outside of the bands; 0 if they are zeros")
    output: Address = field("the output")
    values: Address = field("the value of the bands, and zero")
    count: Count = field("bands")
    bands: Address = field("the first diagonal of each band and the one behind its last, int64 [bands, 2]: 0 is the main one")


class BandsPlan(PlanWithoutConstants):
    """Matrices that are an input or zeros but for a value along some of their diagonals.

    Args:
        output: the desc of the output.
        has_input: whether there is an input.
        value: the value, of the output's type.
        bands: the first diagonal of each band and the one behind its last; those right of the main one, 0, are positive.
    """

    temporary_size = 0

    def __init__(self, output: TensorDesc, has_input: bool, value: Array, bands: Sequence[tuple[int, int]]) -> None:
        *batch, self._height, self._width = output.sizes
        self._rows, self._element, self._has_input = prod(batch) * self._height, output.data_type.numpy.itemsize, has_input
        self._values, self._bands = FixedArray(np.array([value, 0], output.data_type.numpy)), FixedArray(np.array(bands, np.int64))
        moved = self._rows * self._width * self._element
        self._shares = WorkShares(self._rows, Threads.of(available_threads(), moved, _BYTES_OF_A_THREAD))

    def load(self) -> None:
        BANDS()

    def describe(self) -> str:
        return f"compiled by LLVM on {self._shares}; {self._rows} rows of {self._width} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            "height": self._height,
            "width": self._width,
            "element": self._element,
            "input": tensors["input_tensor"] if self._has_input else 0,
            "output": tensors["output_tensor"],
            "values": self._values,
            "count": len(self._bands.array),
            "bands": self._bands,
        }
        return TaskLaunch.of(BANDS(), BandsParameters.bound(values), self._shares.threads)


class SequenceParameters(UnitParameters):
    """The parameters of the kernel of sequences. A tile is some of the vectors."""

    elements: Count = field("elements of the output")
    output: Address = field("the output")
    start: Float64 = field("the first number")
    delta: Float64 = field("from a number to the next")


class SequencePlan(PlanWithoutConstants):
    """Numbers with equal distances, computed in double precision and rounded once.

    Args:
        output: the desc of the output, of FLOAT32 or FLOAT16.
        start: the first number.
        delta: from a number to the next.
    """

    temporary_size = 0

    def __init__(self, output: TensorDesc, start: float, delta: float) -> None:
        self._elements, self._values = output.element_count, {"start": start, "delta": delta}
        self._storage, vectors = storage_of(output.data_type), -(-output.element_count // host_isa().lanes)
        moved = self._elements * output.data_type.numpy.itemsize
        self._shares = WorkShares(vectors, Threads.of(available_threads(), moved, _BYTES_OF_A_THREAD))

    def load(self) -> None:
        SEQUENCE(self._storage, host_isa())

    def describe(self) -> str:
        return f"compiled by LLVM, float64 arithmetic on {self._shares}; {self._elements} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = {
            **self._shares.values,
            "elements": self._elements,
            "output": tensors["output_tensor"],
            **self._values,
        }
        return TaskLaunch.of(SEQUENCE(self._storage, host_isa()), SequenceParameters.bound(values), self._shares.threads)
