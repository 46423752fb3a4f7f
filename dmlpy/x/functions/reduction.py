# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.reduction`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import bool_, dtype, generic, integer

from dmlpy.description.enums import AxisDirection, DataType, ReduceFunction
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several



@refuse_others
def argmax(
    input: Expression | Array,
    *,
    axes: Sequence[int],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ARGMAX: the index of the largest element of each group.

    Over several axes the index counts positions within those axes alone, the last fastest. A NaN is ignored; where
    there is nothing else, the index is that of the first element that counts.

    ::

        output = argmax(input, over the elements that differ only along axes)

    Args:
        input: `[*sizes]`. The input x.
        axes: The dimensions that a group extends along. A repeated one counts once. A dimension, 0 to len(sizes) - 1.
        axis_direction: The one of equal elements that counts: INCREASING takes the first, as REDUCE does, DECREASING
            the last.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*reduced]`. The index of one element of each group.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ARGMAX",
        input_tensor=input,
        axes=axes,
        axis_direction=axis_direction,
        output_data_type=output_data_type,
    )


@refuse_others
def argmin(
    input: Expression | Array,
    *,
    axes: Sequence[int],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """ARGMIN: the index of the smallest element of each group.

    Over several axes the index counts positions within those axes alone, the last fastest. A NaN is ignored; where
    there is nothing else, the index is that of the first element that counts.

    ::

        output = argmin(input, over the elements that differ only along axes)

    Args:
        input: `[*sizes]`. The input x.
        axes: The dimensions that a group extends along. A repeated one counts once. A dimension, 0 to len(sizes) - 1.
        axis_direction: The one of equal elements that counts: INCREASING takes the first, as REDUCE does, DECREASING
            the last.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*reduced]`. The index of one element of each group.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ARGMIN",
        input_tensor=input,
        axes=axes,
        axis_direction=axis_direction,
        output_data_type=output_data_type,
    )


@refuse_others
def cumulative_product(
    input: Expression | Array,
    *,
    axis: int | integer[Any],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    has_exclusive_product: bool | bool_ = False,
) -> Expression:
    """CUMULATIVE_PRODUCT: the running product along an axis.

    Integers wrap around.

    ::

        output[i] = product(input[0..i]); up to i - 1 if has_exclusive_product; from the other end if DECREASING

    Args:
        input: `[*sizes]`. The input x.
        axis: The dimension to accumulate along. A dimension, 0 to len(sizes) - 1.
        axis_direction: The order in which elements are accumulated: INCREASING starts at index 0, DECREASING at the
            last index.
        has_exclusive_product: Whether an element's value is left out of its product. The first element is then 1.

    Returns:
        `[*sizes]`. The running results.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "CUMULATIVE_PRODUCT",
        input_tensor=input,
        axis=axis,
        axis_direction=axis_direction,
        has_exclusive_product=has_exclusive_product,
    )


@refuse_others
def cumulative_summation(
    input: Expression | Array,
    *,
    axis: int | integer[Any],
    axis_direction: AxisDirection | str | int = AxisDirection.INCREASING,
    has_exclusive_sum: bool | bool_ = False,
) -> Expression:
    """CUMULATIVE_SUMMATION: the running sum along an axis.

    Integers wrap around.

    ::

        output[i] = sum(input[0..i]); up to i - 1 if has_exclusive_sum; from the other end if DECREASING

    Args:
        input: `[*sizes]`. The input x.
        axis: The dimension to accumulate along. A dimension, 0 to len(sizes) - 1.
        axis_direction: The order in which elements are accumulated: INCREASING starts at index 0, DECREASING at the
            last index.
        has_exclusive_sum: Whether an element's value is left out of its sum. The first element is then 0.

    Returns:
        `[*sizes]`. The running results.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "CUMULATIVE_SUMMATION",
        input_tensor=input,
        axis=axis,
        axis_direction=axis_direction,
        has_exclusive_sum=has_exclusive_sum,
    )


@refuse_others
def reduce(
    input: Expression | Array,
    *,
    function: ReduceFunction | str | int,
    axes: Sequence[int] | None = None,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """REDUCE: reduces each group of n elements x to one element, by a function.

    SUM adds, AVERAGE divides the sum by n, MULTIPLY multiplies, MIN and MAX take the smallest and the largest. L1 =
    sum(|x|), L2 = sqrt(sum(x^2)), SUM_SQUARE = sum(x^2), LOG_SUM = log(sum(x)), LOG_SUM_EXP = log(sum(exp(x))). ARGMIN
    and ARGMAX give the index of the smallest and the largest, an integer, the first of equal ones; over several axes it
    counts positions within those axes alone, the last fastest. From feature level 3_0 on the operators ARGMIN and
    ARGMAX replace them. Integers wrap around. To MIN and MAX a NaN is the smallest and the largest of its group; ARGMIN
    and ARGMAX ignore it.

    ::

        output = function(input, over the elements that differ only along axes)

    Args:
        input: `[*sizes]`. The input x.
        function: The function that reduces a group.
        axes: The dimensions that a group extends along. A repeated one counts once. A dimension, 0 to len(sizes) - 1.
            Default: all dimensions.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*reduced]`. The reduced groups. ARGMIN and ARGMAX give indices.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "REDUCE",
        input_tensor=input,
        function=function,
        axes=axes,
        output_data_type=output_data_type,
    )


class TopKOutputs(NamedTuple):
    """The outputs of `top_k`."""

    value: Expression
    """The k elements along axis."""
    index: Expression  # type: ignore[assignment]
    """The indices along axis of these elements."""


@refuse_others
def top_k(
    input: Expression | Array,
    *,
    axis: int | integer[Any],
    k: int | integer[Any],
    output_index_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> TopKOutputs:
    """TOP_K: the k largest elements along an axis, the largest first, and their indices.

    Of equal elements the one with the lower index comes first; NaN is larger than any number. k may be the whole size
    along the axis: then this is a sort. The operator exists from feature level 1_0 on, though the first types on its
    page are those of 2_0; they are taken for 1_0 too.

    ::

        output_value = the k largest of input along axis, output_index = where they were

    Args:
        input: `[*sizes]`. The input x.
        axis: The dimension along which elements are compared. A dimension, 0 to len(sizes) - 1.
        k: How many elements are taken: at most the input's size along axis. At least 1.
        output_index_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `TopKOutputs` of these fields.

        - `value`: `[*taken]`. The k elements along axis.
        - `index`: `[*taken]`. The indices along axis of these elements.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return TopKOutputs(*several(
        "TOP_K",
        input_tensor=input,
        axis=axis,
        k=k,
        output_index_data_type=output_index_data_type,
    ))


class TopK1Outputs(NamedTuple):
    """The outputs of `top_k1`."""

    value: Expression
    """The k elements along axis."""
    index: Expression  # type: ignore[assignment]
    """The indices along axis of these elements."""


@refuse_others
def top_k1(
    input: Expression | Array,
    *,
    axis: int | integer[Any],
    k: int | integer[Any],
    axis_direction: AxisDirection | str | int = AxisDirection.DECREASING,
    output_index_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> TopK1Outputs:
    """TOP_K1: the k largest or smallest elements along an axis, and their indices.

    Of equal elements the one with the lower index comes first, in either direction; NaN is larger than any number. k
    may be the whole size along the axis: then this is a sort.

    ::

        output_value = the k largest (DECREASING) or smallest (INCREASING) of input along axis, output_index = where they were

    Args:
        input: `[*sizes]`. The input x.
        axis: The dimension along which elements are compared. A dimension, 0 to len(sizes) - 1.
        k: How many elements are taken: at most the input's size along axis. At least 1.
        axis_direction: DECREASING takes the k largest, the largest first, as TOP_K does. INCREASING takes the k
            smallest, the smallest first.
        output_index_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `TopK1Outputs` of these fields.

        - `value`: `[*taken]`. The k elements along axis.
        - `index`: `[*taken]`. The indices along axis of these elements.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return TopK1Outputs(*several(
        "TOP_K1",
        input_tensor=input,
        axis=axis,
        k=k,
        axis_direction=axis_direction,
        output_index_data_type=output_index_data_type,
    ))

