"""The problems of operands whose sizes do not fit each other, in ONNX's terms.

DirectML's operators find the same, in terms of their tensors. So this is asked after a node was not lowered, and costs nothing before; or
of operands without elements, which DirectML's operators do not have.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.graphs.views import broadcast_sizes
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dmlpy.onnx.nodes.node import Node

_BROADCAST = frozenset(
    {
        *("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less"),
        *("LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "Pow", "StringConcat", "Sub", "Sum"),
        *("Where", "Xor"),
    }
)
_SINCE = 7
"""The opset from which on operands broadcast as in NumPy; before, attributes said how."""
_MISFITS = frozenset({"expression.sizes", "graph.view", "groups_of_channels", "size.equal"})
"""The problems of sizes that do not fit each other."""
_ALIGNED = "sizes are aligned at the last dimension, and only dimensions of size 1 are repeated"


def in_operands(node: Node, problems: Sequence[Problem]) -> Sequence[Problem]:
    """The problems of a node that was not lowered; those of its operands if they are about sizes that do not fit."""
    return (any(problem.code in _MISFITS for problem in problems) and [*misfits(node)]) or problems


def empty_problems(node: Node) -> Iterator[Problem]:
    """The problems of operands some of which have no elements: no operator of DirectML compares their sizes."""
    if any(value is not None and value.is_empty for value in node.inputs):
        yield from misfits(node)


def misfits(node: Node) -> Iterator[Problem]:
    """The problems of operands whose sizes are known and do not fit each other."""
    rule = _broadcast if node.op_type in _BROADCAST else _RULES.get(node.op_type)
    known = all(value is None or value.is_static for value in node.inputs)
    if rule is not None and known and not node.domain and node.opset >= _SINCE:
        yield from rule(node)


def _operand(node: Node, index: int) -> str:
    return f"{node.input_label(index)}, {node.value(index).name!r}"


def _sized(node: Node, index: int) -> str:
    return f"{_operand(node, index)}, {listed(node.sizes(index))}"


def _first(node: Node) -> str:
    """The sizes of the first operand, as a reason: the problem itself names those alone that matter, as other sizes may be open."""
    return f"{_operand(node, 0)}, is {listed(node.sizes(0))}"


def _problem(node: Node, index: int, expected: str, *why: str, remedy: str | None = None) -> Problem:
    return Problem("onnx.invalid", f"{_operand(node, index)},", listed(node.sizes(index)), expected, why, remedy)


def _by_channel(wide: Sequence[int], narrow: Sequence[int]) -> str | None:
    """The remedy if the narrower operand has an element for each channel of the wider one."""
    if len(narrow) == 1 and len(wide) > 2 and wide[1] == narrow[0]:
        return f"give it sizes {listed([narrow[0], *[1] * (len(wide) - 2)])} if it has an element for each channel"
    return None


def _broadcast(node: Node) -> Iterator[Problem]:
    """The first operand that does not broadcast with those before it."""
    places = [index for index, value in enumerate(node.inputs) if value is not None]
    for count, index in enumerate(places):
        before = [node.sizes(place) for place in places[:count]]
        if count and broadcast_sizes(*before, node.sizes(index)) is None:
            others = " and ".join(_sized(node, place) for place in places[:count])
            remedy = _by_channel(max(before, key=len), node.sizes(index))
            yield _problem(node, index, f"sizes that broadcast with those of {others}", _ALIGNED, remedy=remedy)
            return


def _slope(node: Node) -> Iterator[Problem]:
    if broadcast_sizes(node.sizes(0), node.sizes(1)) != node.sizes(0):
        remedy = _by_channel(node.sizes(0), node.sizes(1))
        yield _problem(node, 1, f"sizes that broadcast to those of {_sized(node, 0)}", _ALIGNED, remedy=remedy)


def _matrices(node: Node) -> Iterator[Problem]:
    """The last dimension of A is the one before the last of B; the dimensions before these broadcast."""
    a, b = node.sizes(0), node.sizes(1)
    inner = b[-2] if len(b) > 1 else b[0]
    if inner != a[-1]:
        place = f"{'the dimension before the last' if len(b) > 1 else 'its only dimension'} is {inner}"
        transposed = len(b) > 1 and b[-1] == a[-1]
        remedy = "transpose its last two dimensions, if they are [columns, rows]" if transposed else None
        yield _problem(node, 1, f"{a[-1]} rows, as the last dimension of {_operand(node, 0)}", place, _first(node), remedy=remedy)
    elif broadcast_sizes(a[:-2], b[:-2]) is None:
        expected = f"dimensions before the last two that broadcast with those of {_operand(node, 0)}"
        yield _problem(node, 1, expected, _first(node), _ALIGNED)


def _general_product(node: Node) -> Iterator[Problem]:
    """[M, K] times [K, N], each of which may be given transposed, plus C, which broadcasts to [M, N]."""
    sides = [bool(node.attribute(name, 0)) for name in ("transA", "transB")]
    (rows, inner), (second, columns) = (
        node.sizes(index)[::-1] if transposed else node.sizes(index) for index, transposed in enumerate(sides)
    )
    if inner != second:
        place = "the last" if sides[1] else "the first"
        whose = f"the {'first' if sides[0] else 'last'} dimension of {_operand(node, 0)}"
        remedy = f"set transB to {int(not sides[1])}" if columns == inner else None
        forms = ("[K, M]" if sides[0] else "[M, K]", "[N, K]" if sides[1] else "[K, N]")
        why = f"A is {forms[0]} and B is {forms[1]}: transA is {int(sides[0])}, transB {int(sides[1])}"
        yield _problem(node, 1, f"{inner} as {place} dimension, as {whose}", why, _first(node), remedy=remedy)
    elif node.has(2) and broadcast_sizes(node.sizes(2), (rows, columns)) != (rows, columns):
        yield _problem(node, 2, f"sizes that broadcast to those of the product, {listed([rows, columns])}", _ALIGNED)


def _convolution(node: Node) -> Iterator[Problem]:
    """The weights' channels are those of a group of the input; a transposed convolution's are all of the input first."""
    group, weights = int(node.attribute("group", 1)), node.sizes(1)
    channels = node.sizes(0)[1]
    if group < 1 or channels % group:
        yield Problem("onnx.invalid", "group", str(group), f"a divisor of the {channels} channels of {_operand(node, 0)}")
        return
    if node.op_type == "ConvTranspose":
        if weights[0] != channels:
            yield _problem(
                node, 1, f"{channels} as first size, the channels of {_operand(node, 0)}", "W is [C, M / group, ...]", _first(node)
            )
        made = weights[1] * group
    else:
        if weights[1] * group != channels:
            why = f"W is [M, C / group, ...], and group is {group}"
            yield _problem(
                node, 1, f"{channels // group} as second size, of the {channels} channels of {_operand(node, 0)}", why, _first(node)
            )
        made = weights[0]
    bias = 3 if node.op_type == "DeformConv" else 2
    if node.has(bias) and node.sizes(bias) != (made,):
        yield _problem(node, bias, f"{listed([made])}: one for each channel of the output")


def _scattered(node: Node) -> Iterator[Problem]:
    """An update for each tuple of indices: the dimensions of the data that the tuple leaves."""
    if wrong := [*_looked_up(node)]:
        yield from wrong
        return
    data, indices = node.sizes(0), node.sizes(1)
    wanted = (*indices[:-1], *data[indices[-1] :]) if indices else data
    if node.sizes(2) != wanted:
        why = f"those of {_sized(node, 1)}, but the last, and those of {_sized(node, 0)} behind the first {indices[-1] if indices else 0}"
        yield _problem(node, 2, listed(wanted), why)


def nothing_to_index(node: Node) -> Problem:
    """The problem of indices along an axis that has no elements: no range of indices would be right."""
    return _problem(node, 0, f"elements for the indices, {_sized(node, 1)}")


def _extreme(node: Node) -> Iterator[Problem]:
    """The largest of no elements has no place."""
    axis = node.axis(int(node.attribute("axis", 0)), node.rank(0))
    sizes = node.sizes(0)
    if sizes and not sizes[axis] and 0 not in (*sizes[:axis], *sizes[axis + 1 :]):
        yield _problem(node, 0, f"at least one element along axis {axis}")


def _looked_up(node: Node) -> Iterator[Problem]:
    """Indices along an axis, or tuples of indices, of no elements."""
    sizes, indices = node.sizes(0), node.sizes(1)
    if node.op_type.endswith("ND"):
        first = int(node.attribute("batch_dims", 0))
        axes = range(first, min(first + (indices[-1] if indices else 0), len(sizes)))
    else:
        axis = node.axis(int(node.attribute("axis", 0)), len(sizes))
        axes = range(axis, axis + 1)
    if prod(indices) and any(not sizes[axis] for axis in axes):
        yield nothing_to_index(node)


_RULES: dict[str, Callable[[Node], Iterator[Problem]]] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), _extreme),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements"), _looked_up),
    "Conv": _convolution,
    "DeformConv": _convolution,
    "ConvTranspose": _convolution,
    "Gemm": _general_product,
    "MatMul": _matrices,
    "PRelu": _slope,
    "ScatterND": _scattered,
}
