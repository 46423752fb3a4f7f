"""The dimensions that tuples of indices address, and the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.operators.indexing import GatherDesc, PickNDDesc, ScatterDesc
    from dmlpy.operators.indexing import GatherElementsDesc as ElementsDesc


@dataclass(frozen=True)
class Dimension:
    """A dimension of the gathered elements.

    Attributes:
        size: entries along it.
        of_input: elements of the input from one entry to the next; 0 where indices address it.
        of_indices: elements of the indices from one entry to the next; 0 if all entries share them.
    """

    size: int
    of_input: int
    of_indices: int


@dataclass(frozen=True)
class GatherIndices:
    """The elements of a tensor that tuples of indices address.

    Attributes:
        dimensions: the dimensions of the gathered elements.
        sizes: of the input's dimensions that a tuple indexes.
        strides: of the input along these.
        step: elements from one index of a tuple to the next.
    """

    dimensions: tuple[Dimension, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    step: int = 0

    def fitted(self, dimension_count: int) -> tuple[Dimension, ...]:
        """The dimensions padded with ones in front, or shortened, to so many."""
        missing = dimension_count - len(self.dimensions)
        return (Dimension(1, 0, 0),) * missing + self.dimensions[max(-missing, 0) :]


def slices(desc: GatherDesc) -> GatherIndices:
    """The elements that GATHER reads."""
    x, indices, axis = desc.input_tensor, desc.indices_tensor, desc.axis
    of_input = _dimensions(x, x.dimension_count)
    return GatherIndices(
        (
            *(Dimension(size, stride, 0) for size, stride in of_input[:axis]),
            *(Dimension(size, 0, stride) for size, stride in _dimensions(indices, desc.index_dimensions)),
            *(Dimension(size, stride, 0) for size, stride in of_input[axis + 1 :]),
        ),
        (x.sizes[axis],),
        (x.element_strides[axis],),
    )


def elements(desc: ElementsDesc | ScatterDesc, strides: Sequence[int]) -> GatherIndices:
    """The elements that GATHER_ELEMENTS reads, or SCATTER replaces, in a tensor of the input's sizes and these strides."""
    indices, axis = desc.indices_tensor, desc.axis
    rows = enumerate(zip(indices.sizes, strides, indices.element_strides, strict=True))
    dimensions = (Dimension(size, 0 if at == axis else stride, index_stride) for at, (size, stride, index_stride) in rows)
    return GatherIndices(tuple(dimensions), (desc.input_tensor.sizes[axis],), (strides[axis],))


def blocks(desc: PickNDDesc, strides: Sequence[int]) -> GatherIndices:
    """The elements that GATHER_ND and GATHER_ND1 read, or SCATTER_ND replaces, in a tensor of the input's sizes and these strides."""
    batch, tuple_size = desc.batch_dimensions, desc.indices_tensor.sizes[-1]
    count = desc.input_dimension_count
    of_input = list(zip(desc.input_tensor.sizes[-count:], strides[-count:], strict=True))
    of_indices = _dimensions(desc.indices_tensor, desc.indices_dimension_count)
    indexed = of_input[batch : batch + tuple_size]
    return GatherIndices(
        (
            *(
                Dimension(size, stride, index_stride)
                for (size, stride), (_, index_stride) in zip(of_input[:batch], of_indices[:batch], strict=True)
            ),
            *(Dimension(size, 0, index_stride) for size, index_stride in of_indices[batch:-1]),
            *(Dimension(size, stride, 0) for size, stride in of_input[batch + tuple_size :]),
        ),
        tuple(size for size, _ in indexed),
        tuple(stride for _, stride in indexed),
        of_indices[-1][1],
    )


def _dimensions(tensor: TensorDesc, count: int) -> list[tuple[int, int]]:
    """Size and stride of each of the last `count` dimensions."""
    start = tensor.dimension_count - count
    return list(zip(tensor.sizes[start:], tensor.element_strides[start:], strict=True))
