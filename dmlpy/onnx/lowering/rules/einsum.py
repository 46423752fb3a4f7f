"""Einsum: GEMM over the letters that two tensors share and the result lacks, after sums and diagonals of each tensor."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.graphs.views import restride
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.nodes.equations import letters_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@lowers("Einsum")
def einsum(node: Node) -> Expression:
    """GEMM or ELEMENT_WISE_MULTIPLY of one tensor after another; REDUCE sums a letter that no later tensor and no result has."""
    terms, result = letters_of(node)
    parts = [_diagonal(node.x(index) if term else node.x(index).reshape(1), term) for index, term in enumerate(terms)]
    product, letters = parts[0]
    for index, (other, other_letters) in enumerate(parts[1:], 1):
        later = {letter for term in terms[index + 1 :] for letter in term} | set(result)
        product, letters = _product(
            _sum_letters(product, letters, {*other_letters, *later}), _sum_letters(other, other_letters, {*letters, *later}), later
        )
    product, letters = _sum_letters(product, letters, set(result))
    return product.transpose(*(letters.index(letter) for letter in result)) if result else product


def _diagonal(tensor: Expression, term: str) -> tuple[Expression, str]:
    """A view with each letter once: adding the strides of equal letters selects a diagonal."""
    letters = "".join(dict.fromkeys(term))
    if len(letters) == len(term):
        return tensor, term
    packed = tensor.packed()
    strides, sizes = packed.tensor.element_strides, packed.tensor.sizes
    axes_of = {letter: [axis for axis, given in enumerate(term) if given == letter] for letter in letters}
    view = restride(
        packed.tensor,
        [min(sizes[axis] for axis in axes) for axes in axes_of.values()],
        [sum(strides[axis] for axis in axes) for axes in axes_of.values()],
    )
    return packed.viewed(view), letters


def _sum_letters(tensor: Expression, letters: str, kept: set[str]) -> tuple[Expression, str]:
    """The tensor summed over unused letters."""
    axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
    if not axes:
        return tensor, letters
    left = "".join(letter for letter in letters if letter in kept)
    sizes = [tensor.sizes[axis] for axis in range(len(letters)) if axis not in axes]
    added = max(0, 4 - len(letters))
    sums = x.reduce(tensor.with_leading_ones(len(letters) + added), function="SUM", axes=[axis + added for axis in axes])
    return sums.reshape(*(sizes or [1])), left


def _product(one: tuple[Expression, str], other: tuple[Expression, str], later: set[str]) -> tuple[Expression, str]:
    """The product of two tensors, summed over their common letters that are not used later."""
    (a, first), (b, second) = one, other
    sizes: dict[str, int] = {}
    for tensor, letters in (one, other):
        for letter, size in zip(letters, tensor.sizes, strict=False):
            sizes[letter] = max(size, sizes.get(letter, 1))
    shared = [letter for letter in first if letter in second]
    inner = [letter for letter in shared if letter not in later]
    batch = [letter for letter in shared if letter in later]
    rows, columns = [letter for letter in first if letter not in shared], [letter for letter in second if letter not in shared]
    left = _order_letters(a, first, [*batch, *rows, *inner], sizes)
    right = _order_letters(b, second, [*batch, *inner, *columns], sizes)

    def count(letters: Iterable[str]) -> int:
        return prod(sizes[letter] for letter in letters)

    if inner:
        product = left.reshape(count(batch), count(rows), count(inner)) @ right.reshape(count(batch), count(inner), count(columns))
    else:
        product = x.multiply(left.reshape(count(batch), count(rows), 1), right.reshape(count(batch), 1, count(columns)))
    names = "".join([*batch, *rows, *columns])
    return product.reshape(*(sizes[letter] for letter in names)) if names else product, names


def _order_letters(tensor: Expression, letters: str, wanted: list[str], sizes: dict[str, int]) -> Expression:
    """The tensor with its dimensions in a given order, broadcast to the other one's sizes."""
    if not letters:
        return tensor
    moved = tensor.transpose(*(letters.index(letter) for letter in wanted))
    return moved.broadcast(*(sizes[letter] for letter in wanted))
