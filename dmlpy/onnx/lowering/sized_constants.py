"""Constants that follow from symbolic sizes: shape arithmetic, and arrays that are as long as a size, such as positions and zeros.

A node whose inputs are such constants is computed for the example like any other constant. Elements of shape arithmetic become formulas;
other results are computed again for each set of sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlpy.description.sized_arrays import SizedArray, example_array
from dmlpy.description.symbolic_sizes import NoTemplateError, specialize_all
from dmlpy.messages.problems import DmlError
from dmlpy.onnx.loading.schemas import domain_of
from dmlpy.onnx.loading.values import Value
from dmlpy.onnx.lowering import host_evaluation, subgraphs
from dmlpy.onnx.lowering.constant_folding import NEVER_FOLDED
from dmlpy.onnx.lowering.symbolic_inference import with_symbolic_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import NodeProto

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.lowering.scopes import Scope, Values
    from dmlpy.onnx.nodes.node import Node

Fold: TypeAlias = Callable[["NodeProto", "Mapping[str, int]", "Mapping[str, Array]"], "Mapping[str, Array] | None"]
"""Computes a node whose inputs are known; None if it is not known before the model runs."""

_MOST_BYTES = 1 << 20
"""The most bytes of a result that is computed for each set of sizes: larger ones count towards the model's limits."""
_MOST_NUMBERS = 64
"""The most elements that become formulas: shapes and the like are short."""

_MOVED: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Expand"), (0,)),
    "Where": (1, 2),
}
"""Operators whose results are elements of these inputs; all of those of Concat are."""


def example_scope(proto: NodeProto, scope: Scope) -> Scope:
    """The scope with a node's inputs for the example's sizes if all of them are known and some follow from symbolic sizes."""
    names = [name for name in proto.input if name]
    if (
        domain_of(proto.domain)
        or proto.op_type in NEVER_FOLDED
        or not all(name in scope and scope[name].array is not None for name in names)
    ):
        return scope
    if not any(isinstance(scope[name].array, SizedArray) for name in names) or any(True for _ in subgraphs.subgraphs_of(proto)):
        return scope
    return {**scope, **{name: _as_example(scope[name]) for name in names}}


def _as_example(value: Value) -> Value:
    assert value.array is not None
    return Value.known(value.name, example_array(value.array))


def with_sizes(node: Node, found: Values, scope: Scope, given: Sequence[str], opsets: Mapping[str, int], fold: Fold) -> Values:
    """The outputs of a node as they follow from symbolic sizes.

    Args:
        node: the node with the example's inputs.
        found: its outputs for these.
        scope: the values, of which some are for other sizes, too.
        given: the names of its inputs there.
        opsets: the versions of the domains.
        fold: computes the node again for other inputs.
    """
    reading = replace(node, inputs=tuple(scope[name] if name else None for name in given))
    if any(value is not None and value.array is None for value in found):
        specialize_all()
        return found
    numbers = _numbers(reading, found, opsets)
    if numbers is not None:
        return [value and replace(value, array=array) for value, array in zip(found, numbers, strict=True)]
    compute = _computed(reading, opsets, fold)
    sized = with_symbolic_sizes(reading, found, ())
    arrays: list[Any] = [value.array for value in reading.inputs if value is not None]
    places = {place for array in arrays if isinstance(array, SizedArray) for place in array.places}
    symbolic: Values = []
    for value in sized:
        if value is None or value.array is None:
            symbolic.append(value)
        else:
            array: Any = SizedArray(value.array, value.static_sizes, partial(_output, compute, value.name), places)
            symbolic.append(replace(value, array=array))
    return symbolic


def _output(compute: Callable[[Sequence[int]], Mapping[str, Array]], name: str, values: Sequence[int]) -> Array:
    return compute(values)[name]


def _computed(node: Node, opsets: Mapping[str, int], fold: Fold) -> Callable[[Sequence[int]], Mapping[str, Array]]:
    """A function that computes the outputs of a node for the numbers of a trace."""
    given = {value.name: value.array for value in node.inputs if value is not None and value.array is not None}
    wanted = [name for name in node.proto.output if name]
    is_quick = host_evaluation.is_quick(node.op_type, node.opset)
    program = host_evaluation.HostProgram([node.proto], dict(opsets), [*given], wanted) if is_quick else None

    def compute(values: Sequence[int]) -> Mapping[str, Array]:
        arrays = {name: array.at(values) if isinstance(array, SizedArray) else array for name, array in given.items()}
        try:
            results = fold(node.proto, opsets, arrays) if program is None else program(arrays)
        except DmlError:
            raise NoTemplateError from None  # which the node itself reports
        if results is None or any(not array.size or array.nbytes > _MOST_BYTES for array in results.values()):
            raise NoTemplateError
        return results

    return compute


# Shape arithmetic


def _numbers(node: Node, found: Values, opsets: Mapping[str, int]) -> list[Any] | None:
    """The outputs of a node of shape arithmetic, with elements as formulas; None for other nodes."""
    arrays = [value.array for value in found if value is not None and value.array is not None]
    if len(arrays) != len(found) or any(array.size > _MOST_NUMBERS or array.dtype not in (np.int64, np.bool_) for array in arrays):
        return None
    try:
        listed = _elements(node, arrays, opsets)
    except (ArithmeticError, TypeError, ValueError, DmlError):
        return None
    if listed is None:
        return None
    sized = [SizedArray.of(numbers, array.shape, array.dtype) for numbers, array in zip(listed, arrays, strict=True)]
    return sized if all(np.array_equal(example_array(symbolic), array) for symbolic, array in zip(sized, arrays, strict=True)) else None


def _elements(node: Node, arrays: Sequence[Array], opsets: Mapping[str, int]) -> list[list[Any]] | None:
    """The elements of each output."""
    if node.op_type in ("Shape", "Size"):
        sizes = node.sizes(0)
        return [[prod(sizes)] if node.op_type == "Size" else [*sizes[slice(node.attribute("start", 0), node.attribute("end"))]]]
    given = [None if value is None or value.array is None else _as_objects(value.array) for value in node.inputs]
    if node.op_type == "Cast":
        return None if given[0] is None or arrays[0].dtype != np.int64 else [[*given[0].flat]]
    if node.op_type == "Concat" or node.op_type in _MOVED:
        return _moved(node, _MOVED.get(node.op_type, tuple(range(len(given)))), given, opsets)
    function = _ARITHMETIC.get(node.op_type)
    if function is not None:
        operands = [item for item, value in zip(given, node.inputs, strict=True) if value is not None]
        if any(item is None for item in operands):
            return None  # such as comparisons of positions, which are as many as a size
        result = operands[0] if len(operands) == 1 else function(operands[0], operands[1])
        for item in operands[2:]:
            result = function(result, item)
        return [[*np.asarray(result, object).flat]]
    if node.op_type in _REDUCED and given[0] is not None and arrays[0].size == 1:
        total = None
        for number in given[0].flat:
            total = number if total is None else _REDUCED[node.op_type](total, number)
        return [[total]]
    return None


def _as_objects(array: Array | SizedArray) -> Any:
    """The elements as objects; None if they are not integers, or no formulas of them are known."""
    if isinstance(array, SizedArray):
        if array.numbers is None:
            return None
        objects = np.empty(len(array.numbers), object)
        objects[:] = array.numbers
        return objects.reshape(array.shape)
    return array.astype(object) if array.dtype.kind in "iub" else None


def _moved(node: Node, places: Sequence[int], given: Sequence[Any], opsets: Mapping[str, int]) -> list[list[Any]] | None:
    """The elements that a node picks: it is computed with their numbers in order in place of them."""
    arrays: dict[str, Array] = {}
    elements: list[Any] = []
    for index, (value, objects) in enumerate(zip(node.inputs, given, strict=True)):
        if value is None or value.array is None:
            continue
        if index not in places:
            if isinstance(value.array, SizedArray):
                return None
            arrays[value.name] = value.array
            continue
        if objects is None:
            return None
        if value.name in arrays:
            continue  # the same value again
        arrays[value.name] = np.arange(len(elements), len(elements) + objects.size).reshape(objects.shape)
        elements += objects.flat
    results = host_evaluation.evaluate_node(node.proto, opsets, arrays)
    return [[elements[at] for at in results[name].flat] for name in node.proto.output]


def _divide(one: Any, other: Any) -> Any:
    """ONNX's division of integers, which rounds towards zero."""
    quotient = _positive(one) // _positive(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _positive(number: Any) -> Any:
    return -number if number < 0 else number


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": _divide,
    "Min": min,
    "Max": max,
    "Equal": operator.eq,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "And": lambda one, other: one and other,
    "Or": lambda one, other: one or other,
}
_ARITHMETIC: dict[str, Any] = {name: np.frompyfunc(function, 2, 1) for name, function in _FUNCTIONS.items()}
"""Functions of arrays of objects, which repeat their operands as ONNX does."""

_REDUCED: dict[str, Callable[[Any, Any], Any]] = {"ReduceProd": operator.mul, "ReduceSum": operator.add, "ReduceMax": max, "ReduceMin": min}
