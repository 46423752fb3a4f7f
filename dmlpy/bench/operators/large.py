"""A GPU case: an operator at a size that fills a GPU, with a part of the results checked.

The inputs are drawn on the host, the same for every library. They are so large that drawing each element would take longer than measuring,
so a block of them is drawn and repeated; its length is coprime to the sizes, so no two rows are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.operator_records.record import Array, Torch, once

if TYPE_CHECKING:
    from dmlpy.bench.shapes import DataType

_SEED = 2
BLOCK = (1 << 20) + 7
"""Elements that are drawn of an input; a prime."""
CYCLED_BYTES = 256 << 20
"""The least total size of the input sets that are used in turn: twice the L2 cache of any GPU, so none is cached."""

Variant = Callable[[Any], AbstractContextManager[Any]]
"""Given PyTorch's module, returns a context that selects its kernels."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a case.

    Attributes:
        sizes: in the desc's order.
        order: the axes from the outermost in memory to the innermost; empty for the desc's order.
        repeated: axes of stride 0.
        data_type: None for that of the case.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    data_type: str | None = None

    @property
    def _order(self) -> tuple[int, ...]:
        return self.order or tuple(range(len(self.sizes)))

    @property
    def _stored(self) -> list[int]:
        """The sizes as they lie in memory."""
        return [1 if axis in self.repeated else self.sizes[axis] for axis in self._order]

    @property
    def places(self) -> tuple[int, ...]:
        """The position of each of the desc's axes among those in memory."""
        return tuple(self._order.index(axis) for axis in range(len(self.sizes)))

    def desc(self, dtype: DataType) -> dml.TensorDesc:
        """The tensor's desc."""
        strides, step = [0] * len(self.sizes), 1
        for axis in reversed(self._order):
            if axis not in self.repeated:
                strides[axis] = step
                step *= self.sizes[axis]
        packed = not self.order and not self.repeated
        return dml.TensorDesc(data_type=self.data_type or dtype, sizes=self.sizes, strides=None if packed else strides)

    def array(self, rng: np.random.Generator, dtype: DataType) -> Array:
        """Standard normal numbers in the desc's layout."""
        block = rng.standard_normal(min(BLOCK, prod(self._stored)), np.float32).astype(dtype.lower())
        return self.from_memory(np.resize(block, self._stored))

    def from_memory(self, memory: Array) -> Array:
        """Packed memory of this layout as an array in the desc's order."""
        array = memory.reshape(self._stored).transpose(self.places)
        return np.broadcast_to(array, self.sizes) if self.repeated else array

    def in_memory(self, array: Array) -> Array:
        """The memory below such an array, without repetitions."""
        memory = once(array).transpose(self._order)
        return memory.copy() if self.repeated else np.ascontiguousarray(memory)


@dataclass(frozen=True)
class Sample:
    """An independent part of the work: some rows, images or channels.

    Attributes:
        axes: the axis of each tensor along which they lie, by field. Tensors that all of them need are not listed.
        count: the number that is checked.
    """

    axes: Mapping[str, int]
    count: int

    def chosen(self, size: int) -> list[int]:
        """The checked indices: the first, the last, and evenly spaced ones between, at different offsets in power-of-two blocks."""
        if self.count == 1:
            return [size - 1]
        return sorted({place * (size - 1) // (self.count - 1) for place in range(self.count)})


@dataclass(frozen=True)
class LargeCase:
    """An operator at one size.

    Attributes:
        operator: its short name, as in `dmlpy ops`.
        form: the difference from the operator's other cases.
        inputs: by field; outputs likewise.
        samples: the parts that are compared with float64.
        torch: PyTorch's equivalent, as in `Row`.
        members: the desc's members that are not tensors.
        variants: kernels that PyTorch must use in FLOAT16, by name, each measured; if empty, PyTorch chooses.
        half_precision: whether products of FLOAT32 may be rounded to TF32, in every library.
        lacking: the outputs that PyTorch does not have.
    """

    operator: str
    form: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    samples: tuple[Sample, ...]
    torch: Torch
    members: Mapping[str, Any] = field(default_factory=dict)
    variants: Mapping[str, Variant] = field(default_factory=dict)
    half_precision: bool = False
    lacking: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The operator and the form: `CONVOLUTION:NHWC`."""
        return f"{self.operator}:{self.form}"

    def desc(self, dtype: DataType) -> dml.OperatorDesc:
        """The operator's desc."""
        return self._described({name: tensor.desc(dtype) for name, tensor in self._tensors().items()})

    def sampled_desc(self, dtype: DataType) -> dml.OperatorDesc:
        """The desc of the sampled part, whose tensors are packed."""
        sizes = {name: list(tensor.sizes) for name, tensor in self._tensors().items()}
        for sample in self.samples:
            for name, axis in sample.axes.items():
                sizes[name][axis] = len(sample.chosen(sizes[name][axis]))
        types = {name: tensor.data_type or dtype for name, tensor in self._tensors().items()}
        return self._described({name: dml.TensorDesc(data_type=types[name], sizes=tensor_sizes) for name, tensor_sizes in sizes.items()})

    def sampled(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The sampled part of inputs or outputs."""
        sampled = dict(arrays)
        for sample in self.samples:
            for name in sample.axes.keys() & sampled.keys():
                axis = sample.axes[name]
                sampled[name] = np.take(sampled[name], sample.chosen(self._tensors()[name].sizes[axis]), axis)
        return sampled

    def sampled_text(self) -> str:
        """The checked part of the results as text: 32 of 4096 in axis 2."""
        parts = []
        for sample in self.samples:
            for name in sample.axes.keys() & self.outputs.keys():
                axis, size = sample.axes[name], self.outputs[name].sizes[sample.axes[name]]
                parts.append(f"{len(sample.chosen(size))} of {size} in axis {axis}")
        return ", ".join(dict.fromkeys(parts))

    def arrays(self, dtype: DataType) -> dict[str, Array]:
        """The inputs by field, the same in every process."""
        rng = np.random.default_rng([_SEED, *self.operator.encode()])  # forms that differ in layout have the same numbers
        return {name: tensor.array(rng, dtype) for name, tensor in self.inputs.items()}

    def sets(self, dtype: DataType) -> int:
        """The number of input sets that are used in turn."""
        stored = sum(tensor.desc(dtype).extent_in_bytes for tensor in self.inputs.values())
        return math.ceil(CYCLED_BYTES / stored)

    def _tensors(self) -> dict[str, Tensor]:
        return {**self.inputs, **self.outputs}

    def _described(self, tensors: Mapping[str, dml.TensorDesc]) -> dml.OperatorDesc:
        kind = next(kind for kind in OPERATORS.values() if kind.short_name() == self.operator)
        members: dict[str, Any] = {**self.members, **tensors}
        desc: dml.OperatorDesc = kind(**members)
        return desc
