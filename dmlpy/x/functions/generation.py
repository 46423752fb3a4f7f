# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.generation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy import dtype, floating, generic, integer, number

from dmlpy.description.enums import DataType, RandomGeneratorType
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, one, several



@refuse_others
def diagonal_matrix(
    *,
    offset: int | integer[Any] = 0,
    value: float | str | floating[Any] = 1.0,
    output_sizes: Sequence[int],
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> Expression:
    """DIAGONAL_MATRIX: matrices with one value along a diagonal, and 0 elsewhere.

    ::

        output[..., y, x] = value where x == y + offset, else 0

    Args:
        offset: How far the diagonal lies right of the main one, or left of it if negative. One past the edge leaves
            zeros.
        value: The value of the diagonal. For tensors of integers it is rounded toward zero and held within their range.
        output_sizes: The sizes of the output, which no input determines.
        output_data_type: The data type of the output, where the operator has a choice.

    Returns:
        `[*batch, output_height, output_width]`. The matrices, of up to two batch dimensions. No other member determines
        their sizes.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "DIAGONAL_MATRIX",
        offset=offset,
        value=value,
        output_sizes=output_sizes,
        output_data_type=output_data_type,
    )


@refuse_others
def diagonal_matrix1(
    input: Expression | Array | None = None,
    *,
    value_data_type: DataType | str | int | dtype[Any] | type[generic],
    value: int | float | str | Mapping[str, Any] | number[Any],
    diagonal_fill_begin: int | integer[Any],
    diagonal_fill_end: int | integer[Any],
    output_sizes: Sequence[int] | None = None,
) -> Expression:
    """DIAGONAL_MATRIX1: matrices with one value along a band of diagonals, and the input elsewhere.

    With d = x - y the band is diagonal_fill_begin <= d < diagonal_fill_end. Where begin is above end, it is all but end
    <= d < begin; where they are equal, it is empty.

    ::

        output[..., y, x] = value where x - y lies in the band, else input[..., y, x]

    Args:
        input: `[*batch, output_height, output_width]`. The matrices whose elements outside the band are copied. If
            absent, these are 0.
        value_data_type: The type of the band's value. The element type of output_tensor.
        value: The value of the band.
        diagonal_fill_begin: The first diagonal of the band: 0 is the main one, 1 the next to the right.
        diagonal_fill_end: The diagonal after the last of the band.
        output_sizes: The sizes of the output, where they shall not be inferred.

    Returns:
        `[*batch, output_height, output_width]`. The matrices with the band, of up to two batch dimensions.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "DIAGONAL_MATRIX1",
        input_tensor=input,
        value_data_type=value_data_type,
        value=value,
        diagonal_fill_begin=diagonal_fill_begin,
        diagonal_fill_end=diagonal_fill_end,
        output_sizes=output_sizes,
    )


@refuse_others
def fill_value_constant(
    *,
    value_data_type: DataType | str | int | dtype[Any] | type[generic],
    value: int | float | str | Mapping[str, Any] | number[Any],
    output_sizes: Sequence[int],
) -> Expression:
    """FILL_VALUE_CONSTANT: a tensor of one value.

    ::

        output = value

    Args:
        value_data_type: The type of value. The element type of output_tensor.
        value: The value of every element.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[*sizes]`. The tensor to fill. No other member determines its sizes.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "FILL_VALUE_CONSTANT",
        value_data_type=value_data_type,
        value=value,
        output_sizes=output_sizes,
    )


@refuse_others
def fill_value_sequence(
    *,
    value_data_type: DataType | str | int | dtype[Any] | type[generic],
    value_start: int | float | str | Mapping[str, Any] | number[Any],
    value_delta: int | float | str | Mapping[str, Any] | number[Any],
    output_sizes: Sequence[int],
) -> Expression:
    """FILL_VALUE_SEQUENCE: a tensor of values at equal distances, counted in row-major order whatever the strides.

    Integers wrap around. So a sequence of an unsigned type may descend: a negative value_delta is stored as the number
    that wraps to it, -2 of UINT8 as 254. Of floats, each element is the formula's value, rounded once.

    ::

        output[i] = value_start + i * value_delta

    Args:
        value_data_type: The type of value_start and value_delta. The element type of output_tensor.
        value_start: The first element.
        value_delta: The distance from one element to the next.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        `[*sizes]`. The sequence. No other member determines its sizes.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return one(
        "FILL_VALUE_SEQUENCE",
        value_data_type=value_data_type,
        value_start=value_start,
        value_delta=value_delta,
        output_sizes=output_sizes,
    )


class RandomGeneratorOutputs(NamedTuple):
    """The outputs of `random_generator`."""

    values: Expression
    """The random bits, 32 in each element. No other member determines its sizes."""
    state: Expression
    """The state after the last block that was used."""


@refuse_others
def random_generator(
    input_state: Expression | Array,
    *,
    type: RandomGeneratorType | str | int = RandomGeneratorType.PHILOX_4X32_10,
    output_sizes: Sequence[int],
) -> RandomGeneratorOutputs:
    """RANDOM_GENERATOR: random bits of Philox 4x32-10, and the state to continue from.

    The state is six words, the lowest first: a counter of 128 bits, then a key of 64. The output in row-major order is
    philox(counter), philox(counter + 1), ..., four words each.

    ::

        output[4i ... 4i + 3] = philox_4x32_10(counter + i, key), output_state = (counter + ceil(elements / 4), key)

    Args:
        input_state: `[*ones, 6]`. The state to start from.
        type: The generator.
        output_sizes: The sizes of the output, which no input determines.

    Returns:
        The named tuple `RandomGeneratorOutputs` of these fields.

        - `values`: `[*sizes]`. The random bits, 32 in each element. No other member determines its sizes.
        - `state`: `[*ones, 6]`. The state after the last block that was used.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return RandomGeneratorOutputs(*several(
        "RANDOM_GENERATOR",
        input_state_tensor=input_state,
        type=type,
        output_sizes=output_sizes,
    ))

