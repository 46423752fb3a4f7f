# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.indexing`."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import integer

from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several



@refuse_others
def gather(
    input: Expression | Array,
    indices: Expression | Array,
    *,
    axis: int | integer[Any],
    index_dimensions: int | integer[Any],
) -> Expression:
    """GATHER: picks slices of a tensor along an axis, one for each index.

    The output's sizes are the input's with those of the actual indices in place of the axis. All tensors have one
    dimension count, so leading ones are added, or those of the input left out. Of signed types, a negative index counts
    from the end. An index out of range reads some element of the input; here the nearest along the axis.

    ::

        output[p..., i..., s...] = input[p..., indices[i...], s...], p the coordinates before axis, s those after it

    Args:
        input: `[*sizes]`. The tensor that the indices point into.
        indices: `[*indices]`. The indices.
        axis: The dimension of the input that is indexed. A dimension, 0 to len(sizes) - 1.
        index_dimensions: How many dimensions of the indices are actual, 0 for a single index. The dimensions before
            them have size 1.

    Returns:
        `[*gathered]`. The slices.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "GATHER",
        input_tensor=input,
        indices_tensor=indices,
        axis=axis,
        index_dimensions=index_dimensions,
    )


@refuse_others
def gather_elements(
    input: Expression | Array,
    indices: Expression | Array,
    *,
    axis: int | integer[Any],
) -> Expression:
    """GATHER_ELEMENTS: picks single elements along an axis, one for each index.

    Of signed types, a negative index counts from the end. An index out of range is not defined by the reference; here
    it reads the nearest element along the axis.

    ::

        output[c] = input[c with indices[c] along axis]

    Args:
        input: `[*sizes]`. The tensor that is read.
        indices: `[*indices]`. The index along axis of each element that is read.
        axis: The dimension that the operator works along, the only one in which the tensors' sizes may differ. A
            dimension, 0 to len(sizes) - 1.

    Returns:
        `[*indices]`. The elements that are read.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "GATHER_ELEMENTS",
        input_tensor=input,
        indices_tensor=indices,
        axis=axis,
    )


@refuse_others
def gather_nd(
    input: Expression | Array,
    indices: Expression | Array,
    *,
    input_dimension_count: int | integer[Any],
    indices_dimension_count: int | integer[Any],
) -> Expression:
    """GATHER_ND: picks blocks of a tensor, one for each tuple of indices.

    The last dimension of the indices holds tuples; each indexes the first actual dimensions of the input and selects
    the elements there. The output's sizes are those of the actual indices but the last, then those of a block, with
    ones in front. Of signed types, a negative index counts from the end. An index out of range is not defined by the
    reference; here the nearest in its dimension is read.

    ::

        output[i..., s...] = input[indices[i..., 0], indices[i..., 1], ..., s...]

    Args:
        input: `[*sizes]`. The tensor that the indices point into.
        indices: `[*indices]`. The tuples of indices, along the last dimension. The dimensions before the last
            indices_dimension_count have size 1.
        input_dimension_count: How many dimensions of the input are actual. The dimensions before them have size 1. At
            least 1.
        indices_dimension_count: How many dimensions of the indices are actual. At least 1.

    Returns:
        `[*gathered]`. The blocks.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "GATHER_ND",
        input_tensor=input,
        indices_tensor=indices,
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
    )


@refuse_others
def gather_nd1(
    input: Expression | Array,
    indices: Expression | Array,
    *,
    input_dimension_count: int | integer[Any],
    indices_dimension_count: int | integer[Any],
    batch_dimension_count: int | integer[Any],
) -> Expression:
    """GATHER_ND1: picks blocks of a tensor, one for each tuple of indices, for each entry of a batch.

    The last dimension of the indices holds tuples; each indexes the actual dimensions of the input after those of the
    batch and picks what lies there. The output's sizes are those of the actual indices but the last, then those of a
    block, with ones in front. Of signed types, a negative index counts from the end. An index out of range is not
    defined by the reference; here the nearest in its dimension is read.

    ::

        output[b..., i..., s...] = input[b..., indices[b..., i..., 0], indices[b..., i..., 1], ..., s...]

    Args:
        input: `[*sizes]`. The tensor that the indices point into.
        indices: `[*indices]`. The tuples of indices, along the last dimension. The dimensions before the last
            indices_dimension_count have size 1.
        input_dimension_count: How many dimensions of the input are actual. The dimensions before them have size 1. At
            least 1.
        indices_dimension_count: How many dimensions of the indices are actual. At least 1.
        batch_dimension_count: How many of the first actual dimensions of input and indices are a batch. With 0 there is
            none.

    Returns:
        `[*gathered]`. The blocks of each batch entry.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "GATHER_ND1",
        input_tensor=input,
        indices_tensor=indices,
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
        batch_dimension_count=batch_dimension_count,
    )


class NonzeroCoordinatesOutputs(NamedTuple):
    """The outputs of `nonzero_coordinates`."""

    count: Expression  # type: ignore[assignment]
    """How many elements are not zero."""
    coordinates: Expression
    """A row of coordinates for each element of the input. A row may leave out the coordinates of leading
    dimensions of size 1.
    """


@refuse_others
def nonzero_coordinates(
    input: Expression | Array,
) -> NonzeroCoordinatesOutputs:
    """NONZERO_COORDINATES: the coordinates of all non-zero elements, in row-major order.

    What the coordinates hold behind the last that is counted is not defined; here zeros. The dimension counts of the
    three tensors are their own.

    ::

        output_coordinates[k] = coordinates of the k-th element of input that is not 0, for k < output_count

    Args:
        input: `[*sizes]`. The tensor that is searched. +0 and -0 are zero, NaN is not.

    Returns:
        The named tuple `NonzeroCoordinatesOutputs` of these fields.

        - `count`: `[*ones]`. How many elements are not zero.
        - `coordinates`: `[*leading_ones, input_element_count, coordinate_size]`. A row of coordinates for each element
          of the input. A row may leave out the coordinates of leading dimensions of size 1.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return NonzeroCoordinatesOutputs(*several(
        "NONZERO_COORDINATES",
        input_tensor=input,
    ))


@refuse_others
def one_hot(
    indices: Expression | Array,
    values: Expression | Array,
    *,
    axis: int | integer[Any],
    output_length: int | integer[Any],
) -> Expression:
    """ONE_HOT: sequences along an axis that hold one value at an index, and another value elsewhere.

    An index out of range leaves its sequence without the value. Of signed types, a negative index counts from the end.
    The reference demands one dimension count of all tensors; that of the values is not checked, as ONNX Runtime always
    gives them four dimensions.

    ::

        output[c] = values[1] where c along axis is indices[c with 0 along axis], else values[0]

    Args:
        indices: `[*indices]`. The place of the value in each sequence.
        values: `[*values]`. The value of the other elements, then the value itself, in any number of dimensions.
            Further elements are not used.
        axis: The dimension that the operator works along, the only one in which the tensors' sizes may differ. A
            dimension, 0 to len(sizes) - 1.
        output_length: The size of the result along the axis.

    Returns:
        `[*sizes]`. The sequences. No other member determines their length.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "ONE_HOT",
        indices_tensor=indices,
        values_tensor=values,
        axis=axis,
        output_length=output_length,
    )


@refuse_others
def scatter(
    input: Expression | Array,
    indices: Expression | Array,
    updates: Expression | Array,
    *,
    axis: int | integer[Any],
) -> Expression:
    """SCATTER: copies a tensor and replaces single elements along an axis, one for each index.

    Two indices of one element are invalid: which of them wins is not defined; here the last in row-major order. Of
    signed types, a negative index counts from the end. An index out of range is not defined either; here it writes
    nothing. The header also calls the operator DML_OPERATOR_SCATTER_ELEMENTS. Its page has types for feature level 1_0,
    but 2_0 brought it.

    ::

        output = input, then output[c with indices[c] along axis] = updates[c]

    Args:
        input: `[*sizes]`. The tensor that is copied.
        indices: `[*indices]`. The index along axis of the element that each update replaces.
        updates: `[*indices]`. The elements that are written.
        axis: The dimension that the operator works along, the only one in which the tensors' sizes may differ. A
            dimension, 0 to len(sizes) - 1.

    Returns:
        `[*sizes]`. The copy with its elements replaced.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SCATTER",
        input_tensor=input,
        indices_tensor=indices,
        updates_tensor=updates,
        axis=axis,
    )


@refuse_others
def scatter_nd(
    input: Expression | Array,
    indices: Expression | Array,
    updates: Expression | Array,
    *,
    input_dimension_count: int | integer[Any],
    indices_dimension_count: int | integer[Any],
) -> Expression:
    """SCATTER_ND: copies a tensor and replaces blocks of it, one for each tuple of indices.

    The last dimension of the indices holds tuples; each indexes the first actual dimensions of the input and replaces
    the elements there. Two tuples of one place are invalid: which of them wins is not defined; here the last in row-
    major order. Of signed types, a negative index counts from the end. An index out of range is not defined by the
    reference; here its tuple writes nothing.

    ::

        output = input, then output[indices[i..., 0], indices[i..., 1], ..., s...] = updates[i..., s...]

    Args:
        input: `[*sizes]`. The tensor that the indices point into.
        indices: `[*indices]`. The tuples of indices, along the last dimension. The dimensions before the last
            indices_dimension_count have size 1.
        updates: `[*updates]`. The blocks that are written.
        input_dimension_count: How many dimensions of the input are actual. The dimensions before them have size 1. At
            least 1.
        indices_dimension_count: How many dimensions of the indices are actual. At least 1.

    Returns:
        `[*sizes]`. The copy with its blocks replaced.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "SCATTER_ND",
        input_tensor=input,
        indices_tensor=indices,
        updates_tensor=updates,
        input_dimension_count=input_dimension_count,
        indices_dimension_count=indices_dimension_count,
    )

