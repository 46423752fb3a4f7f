"""Views of a tensor: descs with other sizes and strides for the same memory.

A view is not a node: the readers' descs describe how they read the memory. Where no strides express a view, nodes copy the elements into
packed order first, which `copying_nodes` lists.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dmlpy.description.coercion import as_uint, brief, entries
from dmlpy.description.sizes import MAX_SIZE
from dmlpy.description.symbolic_sizes import are_symbolic
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, TensorDesc, packed_strides
from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.enums import DataType


_MOST_PLAIN = 64
"""The numbers that are looked at one by one for a shorter way; more are not sizes of a tensor."""


def view_error(view: str, path: str, found: object, expected: str, *why: str, remedy: str | None = None) -> DescError:
    """The error for a view that the tensor does not have."""
    return DescError(view, [Problem("graph.view", path, str(found), expected, why, remedy)])


def _integers(view: str, path: str, given: Any) -> tuple[int, ...]:
    """Integers that a caller gives.

    Raises:
        DescError: they are something else.
    """
    if type(given) is tuple and len(given) <= _MOST_PLAIN and all(type(number) is int and abs(number) <= MAX_SIZE for number in given):
        return given
    try:
        return entries(given, as_uint)
    except Exception:  # whatever the methods of the caller's type raise
        in_a_list = type(given) is tuple and len(given) == 1 and isinstance(given[0], list | tuple)
        remedy = f"pass them one by one: {view}({brief(given[0])[1:-1]})" if in_a_list else None
        raise view_error(view, path, brief(given), "integers", remedy=remedy) from None


def restride(tensor: TensorDesc, sizes: Sequence[int], strides: Sequence[int]) -> TensorDesc:
    """The same memory with other sizes and strides, of the same total size: DirectML requires it to be equal at both ends of an edge."""
    if are_symbolic():
        return _restride.__wrapped__(tensor, tuple(sizes), tuple(strides))
    if all(type(number) is int for number in (*sizes, *strides)):
        return _restride(tensor, tuple(sizes), tuple(strides))
    return _restride.__wrapped__(tensor, sizes, strides)  # what equals an integer may be none, as True does not


@lru_cache(2048)
def _restride(tensor: TensorDesc, sizes: Sequence[int], strides: Sequence[int]) -> TensorDesc:
    packed = all(size == 1 or step == given for size, step, given in zip(sizes, packed_strides(sizes), strides, strict=True))
    view = tensor.replace(sizes=sizes, strides=None if packed else strides, total_tensor_size_in_bytes=None)
    same = view.size_in_bytes == tensor.size_in_bytes
    return view if same else view.replace(total_tensor_size_in_bytes=tensor.size_in_bytes)


def reshaped_strides(tensor: TensorDesc, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The strides with which the tensor's elements have other sizes in the same order; None if no strides do."""
    # Runs of dimensions that continue each other in memory, last first: a new dimension must fit into one of them.
    runs: list[list[int]] = []
    for size, stride in reversed(list(zip(tensor.sizes, tensor.element_strides, strict=True))):
        if size == 1:
            continue
        if runs and runs[-1][0] * runs[-1][1] == stride:
            runs[-1][0] *= size
        else:
            runs.append([size, stride])
    strides = []
    for size in reversed(sizes):
        if size == 1:
            strides.append(1)
            continue
        if runs and runs[0][0] == 1:
            runs.pop(0)
        if not runs or runs[0][0] % size:
            return None
        strides.append(runs[0][1])
        runs[0] = [runs[0][0] // size, runs[0][1] * size]
    return tuple(reversed(strides))


def broadcast_sizes(*given: Sequence[int]) -> tuple[int, ...] | None:
    """The sizes that several ones broadcast to, aligned at the last dimension as in NumPy; None if there are none."""
    count = max(map(len, given))
    common = []
    for column in zip(*((1,) * (count - len(sizes)) + tuple(sizes) for sizes in given), strict=True):
        size = 1
        for operand_size in column:
            if operand_size != 1:
                if size not in (1, operand_size):
                    return None
                size = operand_size
        common.append(size)
    return tuple(common)


@dataclass(frozen=True, eq=False)
class CopyNode:
    """A node that copies a tensor's elements, with the tensor as `input_tensor`.

    Attributes:
        operator: the operator's short name.
        members: its other members.
        quantization_tensors: the arrays of that member, constants of the graph; empty for operators without it.
        data_type: of the output, where the operator has a choice.
    """

    operator: str
    members: Mapping[str, Any] = field(default_factory=dict)
    quantization_tensors: tuple[np.ndarray[Any, Any], ...] = ()
    data_type: DataType | None = None


def copying_nodes(tensor: TensorDesc, operator: str = "ELEMENT_WISE_IDENTITY", members: Mapping[str, Any] | None = None) -> list[CopyNode]:
    """The nodes, one after the other, by which an operator copies a tensor's elements into packed order.

    Elements of 4 bits, which no such operator takes, become numbers by DEQUANTIZE and integers again by QUANTIZE, both with a scale of 1,
    so that they stay what they are.
    """
    if tensor.data_type.bits != 4:
        return [CopyNode(operator, members or {})]
    scale = {"quantization_type": "SCALE"}
    ones = (np.ones([1] * len(tensor.sizes), np.float16),)
    between = [CopyNode(operator, members)] if members else []
    return [CopyNode("DEQUANTIZE", scale, ones), *between, CopyNode("QUANTIZE", scale, ones, tensor.data_type)]


def reshape(tensor: TensorDesc, sizes: Sequence[int]) -> TensorDesc | None:
    """Views the elements, in their order, with other sizes, of which one may be -1; None if they have to be packed first.

    Raises:
        DescError: the sizes hold another number of elements.
    """
    wanted = _resolve_sizes(tensor, sizes)
    strides = reshaped_strides(tensor, wanted)
    return None if strides is None else restride(tensor, wanted, strides)


def transpose(tensor: TensorDesc, axes: Sequence[int]) -> TensorDesc:
    """Views the tensor with its dimensions in another order: `axes[i]` becomes dimension i; reversed if there are no axes.

    Raises:
        DescError: the axes are not each dimension once.
    """
    count = len(tensor.sizes)
    order = _integers("transpose", "axes", axes) or tuple(reversed(range(count)))
    if sorted(axis + count if axis < 0 else axis for axis in order) != list(range(count)):
        raise view_error("transpose", "axes", listed(order), f"each of the dimensions 0 to {count - 1} once")
    strides = tensor.element_strides
    return restride(tensor, [tensor.sizes[axis] for axis in order], [strides[axis] for axis in order])


def broadcast(tensor: TensorDesc, sizes: Sequence[int]) -> TensorDesc:
    """Repeats dimensions of size 1, and adds leading dimensions, by strides of 0, as NumPy broadcasts.

    Raises:
        DescError: the tensor does not broadcast to the sizes.
    """
    wanted = _integers("broadcast", "sizes", sizes)
    if len(wanted) < len(tensor.sizes) or broadcast_sizes(tensor.sizes, wanted) != wanted:
        why = "sizes are aligned at the last dimension, and only dimensions of size 1 are repeated"
        raise view_error("broadcast", "sizes", listed(wanted), f"sizes that {listed(tensor.sizes)} broadcasts to", why)
    added = len(wanted) - len(tensor.sizes)
    kept = zip(tensor.sizes, tensor.element_strides, wanted[added:], strict=True)
    strides = [0] * added + [stride if size == given else 0 for size, stride, given in kept]
    return restride(tensor, wanted, strides)


def add_leading_ones(tensor: TensorDesc, dimension_count: int) -> TensorDesc:
    """Views the tensor with dimensions of size 1 in front, `dimension_count` in all.

    Raises:
        DescError: the tensor has more dimensions, or the number exceeds that of any tensor.
    """
    (wanted,) = _integers("with_leading_ones", "dimension_count", [dimension_count])
    missing = wanted - len(tensor.sizes)
    if not 0 <= missing <= MAX_DIMENSION_COUNT:
        least = plural(len(tensor.sizes), "dimension")
        expected = f"at least {least}, those of {listed(tensor.sizes)}, and at most {MAX_DIMENSION_COUNT}"
        raise view_error("with_leading_ones", "dimension_count", wanted, expected)
    strides = (tensor.span,) * missing + tensor.element_strides
    return restride(tensor, (1,) * missing + tensor.sizes, strides)


def slice_window(
    tensor: TensorDesc, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
) -> TensorDesc | list[CopyNode]:
    """The elements of a window: a view where it begins at the tensor's first element, else the nodes that copy them, with SLICE1.

    A desc has no offset, so that no view can begin elsewhere.

    Args:
        tensor: the tensor.
        offsets: the first element of the window along each dimension.
        sizes: the elements of the window along each dimension.
        strides: the elements from one that is taken to the next; negative ones begin at the window's end. Default: 1.

    Raises:
        DescError: the lists have other lengths than the tensor has dimensions, or the window exceeds the tensor.
    """
    whole = tensor.sizes
    offsets, sizes = _integers("slice", "offsets", offsets), _integers("slice", "sizes", sizes)
    steps = (1,) * len(whole) if strides is None else _integers("slice", "strides", strides)
    for name, given in (("offsets", offsets), ("sizes", sizes), ("strides", steps)):
        if len(given) != len(whole):
            raise view_error("slice", name, listed(given), f"{len(whole)} of them, one for each dimension of {listed(whole)}")
    for axis, (offset, size, step) in enumerate(zip(offsets, sizes, steps, strict=True)):
        if step == 0 or offset < 0 or size < 1 or offset + size > whole[axis]:
            expected = f"a window within 0 to {whole[axis]}, of at least one element, and a stride other than 0"
            raise view_error("slice", f"dimension {axis}", f"offset {offset}, size {size}, stride {step}", expected)
    if any(offsets) or min(steps) < 0:
        members = {"input_window_offsets": offsets, "input_window_sizes": sizes, "input_window_strides": steps}
        return copying_nodes(tensor, "SLICE1", members)
    taken = [(size - 1) // step + 1 for size, step in zip(sizes, steps, strict=True)]
    return restride(tensor, taken, [stride * step for stride, step in zip(tensor.element_strides, steps, strict=True)])


def _resolve_sizes(tensor: TensorDesc, sizes: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a reshape, with -1 replaced."""
    sizes = _integers("reshape", "sizes", sizes)
    given = [size for size in sizes if size != -1]
    rest, count, possible = math.prod(given), tensor.element_count, tensor.element_count > 0 and all(size > 0 for size in given)
    if possible and sizes.count(-1) == 1 and count % rest == 0:
        return tuple(count // rest if size == -1 else size for size in sizes)
    if not possible or -1 in sizes or rest != count:
        why = f"the value has sizes {listed(tensor.sizes)}"
        raise view_error("reshape", "sizes", listed(sizes), f"sizes of {plural(count, 'element')}; one may be -1", why)
    return sizes


class TensorViews:
    """The views of a value's tensor, with other sizes and strides: for `Value` and `Expression`, which make the nodes that copy.

    A view is not a node: the readers' descs say how they read the memory. Where no strides express a view, nodes copy the elements first.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def tensor(self) -> TensorDesc: ...

    @abstractmethod
    def viewed(self, tensor: TensorDesc) -> Self:
        """Views the same bytes under another desc, which may also have another data type."""

    @abstractmethod
    def _copied_by(self, nodes: Iterable[CopyNode]) -> Self:
        """The output of the last of some nodes, of which each reads the one before."""

    def packed(self) -> Self:
        """The elements in packed order: the value itself if it is packed, else a copy by an ELEMENT_WISE_IDENTITY node."""
        return self if self.tensor.is_packed else self._copied_by(copying_nodes(self.tensor))

    def reshape(self, *sizes: int) -> Self:
        """Views the elements, in their order, with other sizes; one size may be -1, for what the others leave.

        Raises:
            DescError: the sizes hold another number of elements.
        """
        view = reshape(self.tensor, sizes)
        return self.packed().reshape(*sizes) if view is None else self.viewed(view)

    def transpose(self, *axes: int) -> Self:
        """Views the tensor with its dimensions in another order: `axes[i]` is the dimension that becomes dimension i. Default: reversed.

        Raises:
            DescError: the axes are not each dimension once.
        """
        return self.viewed(transpose(self.tensor, axes))

    def broadcast(self, *sizes: int) -> Self:
        """Repeats dimensions of size 1, and adds leading dimensions, by strides of 0, as NumPy broadcasts.

        Raises:
            DescError: the tensor does not broadcast to the sizes.
        """
        return self.viewed(broadcast(self.tensor, sizes))

    def with_leading_ones(self, dimension_count: int) -> Self:
        """Views the tensor with dimensions of size 1 in front, `dimension_count` in all.

        Raises:
            DescError: the tensor has more dimensions, or the number exceeds that of any tensor.
        """
        return self.viewed(add_leading_ones(self.tensor, dimension_count))

    def slice(self, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None) -> Self:
        """The elements of a window: a view where it begins at the tensor's first element, else the output of a SLICE1 node.

        Args:
            offsets: the first element of the window along each dimension.
            sizes: the elements of the window along each dimension.
            strides: the elements from one that is taken to the next; negative ones begin at the window's end. Default: 1.

        Raises:
            DescError: the lists have other lengths than the tensor has dimensions, or the window exceeds the tensor.
        """
        window = slice_window(self.tensor, offsets, sizes, strides)
        return self.viewed(window) if isinstance(window, TensorDesc) else self._copied_by(window)
