"""Tensors from attributes, and the optimizer."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper

from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.loading.elements import element_of
from dmlpy.reference.conversion import of_float, of_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.description.enums import DataType
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


def _fill(node: Node, number: np.ndarray[Any, Any], data_type: DataType, sizes: Sequence[int]) -> Value:
    """A tensor filled with one number."""
    element = element_of(data_type)
    value = helper.make_tensor("value", element, [1], [number.item()])
    return node.add("ConstantOfShape", node.writer.integers(sizes), element=element, value=value)


@exports("FILL_VALUE_CONSTANT")
def fill(node: Node) -> Value:
    """ConstantOfShape."""
    data_type = node.desc.value_data_type
    return _fill(node, of_scalar(node.desc.value, data_type), data_type, node.sizes("output_tensor"))


@exports("FILL_VALUE_SEQUENCE")
def sequence(node: Node) -> Value:
    """Range, times the step plus the start: in DOUBLE for floats, so that each element is rounded once."""
    desc, sizes = node.desc, node.sizes("output_tensor")
    start: float = of_scalar(desc.value_start, desc.value_data_type).item()
    step: float = of_scalar(desc.value_delta, desc.value_data_type).item()
    numbers = [node.writer.constant(np.asarray(number, np.int64)) for number in (0, prod(sizes), 1)]
    whole = node.add("Range", *numbers)
    if isinstance(start, float):
        whole = whole.cast(TensorProto.DOUBLE)
    elif desc.value_data_type.name == "UINT64":
        whole = whole.cast(TensorProto.UINT64)
    return (whole * step + start).reshape(sizes)


@exports("DIAGONAL_MATRIX")
def diagonal(node: Node) -> Value:
    """Where, by diagonal number: ONNX Runtime's EyeLike supports few types."""
    data_type, sizes = node.tensor("output_tensor").data_type, node.sizes("output_tensor")
    mask = _diagonals(node, sizes).equals(node.desc.offset)
    value = _fill(node, of_float(node.desc.value, data_type), data_type, [1])
    return _expand(mask.where(value, _fill(node, np.zeros((), data_type.numpy), data_type, [1])), sizes)


@exports("DIAGONAL_MATRIX1")
def band(node: Node) -> Value:
    """Where, by diagonal number."""
    desc, data_type, sizes = node.desc, node.tensor("output_tensor").data_type, node.sizes("output_tensor")
    number, (first, last) = _diagonals(node, sizes), (desc.diagonal_fill_begin, desc.diagonal_fill_end)
    after, before = number >= number.like(first), number < number.like(last)
    mask = after & before if first <= last else after | before
    value = _fill(node, of_scalar(desc.value, desc.value_data_type), desc.value_data_type, [1])
    if node.has("input_tensor"):
        return mask.where(value, node.x("input_tensor"))
    return _expand(mask.where(value, _fill(node, np.zeros((), data_type.numpy), data_type, [1])), sizes)


def _diagonals(node: Node, sizes: Sequence[int]) -> Value:
    """The diagonal number of each element of a matrix: 0 is the main one, those to the right are positive."""

    def count(size: int) -> Value:
        return node.add("Range", *(node.writer.constant(np.asarray(number, np.int64)) for number in (0, size, 1)))

    return count(sizes[-1]) - count(sizes[-2]).reshape([sizes[-2], 1])


def _expand(matrix: Value, sizes: Sequence[int]) -> Value:
    return matrix.expand(sizes) if len(sizes) > 2 else matrix


@exports("ADAM_OPTIMIZER", wide=True)
def adam(node: Node) -> dict[str, Value]:
    """Adam's formula; the step's powers in DOUBLE, as 1 - beta^t cancels in the first steps."""
    desc = node.desc
    gradient = node.x("gradient_tensor")
    first = node.x("input_first_moment_tensor") * desc.beta1 + gradient * (1 - desc.beta1)
    second = node.x("input_second_moment_tensor") * desc.beta2 + gradient * gradient * (1 - desc.beta2)
    step = node.x("training_step_tensor").cast(TensorProto.DOUBLE).reshape([1])
    powers = [1.0 - step.like(beta).apply("Pow", step) for beta in (desc.beta1, desc.beta2)]
    rate = (powers[1].apply("Sqrt") / powers[0] * desc.learning_rate).cast(first.element)
    return {
        "output_parameters_tensor": node.x("input_parameters_tensor") - rate * first / (second.apply("Sqrt") + desc.epsilon),
        "output_first_moment_tensor": first,
        "output_second_moment_tensor": second,
    }
