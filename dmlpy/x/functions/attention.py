# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.attention`."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import dtype, floating, generic, integer

from dmlpy.description.enums import DataType, MultiheadAttentionMaskType
from dmlpy.x.arguments import refuse_others
from dmlpy.x.expressions import Array, Expression, several



class MultiheadAttentionOutputs(NamedTuple):
    """The outputs of `multihead_attention`."""

    output: Expression
    """The result of all heads, side by side."""
    present_key: Expression
    """The keys as they were used, past ones first. If absent, they are not stored."""
    present_value: Expression
    """The values as they were used, past ones first. If absent, they are not stored."""


@refuse_others
def multihead_attention(
    query: Expression | Array | None = None,
    key: Expression | Array | None = None,
    value: Expression | Array | None = None,
    stacked_query_key: Expression | Array | None = None,
    stacked_key_value: Expression | Array | None = None,
    stacked_query_key_value: Expression | Array | None = None,
    bias: Expression | Array | None = None,
    mask: Expression | Array | None = None,
    relative_position_bias: Expression | Array | None = None,
    past_key: Expression | Array | None = None,
    past_value: Expression | Array | None = None,
    *,
    scale: float | str | floating[Any],
    mask_filter_value: float | str | floating[Any],
    head_count: int | integer[Any],
    mask_type: MultiheadAttentionMaskType | str | int = MultiheadAttentionMaskType.NONE,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_key_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_value_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> MultiheadAttentionOutputs:
    """MULTIHEAD_ATTENTION: attention of each of several heads.

    Query, key and value are given alone or stacked: {query, key, value}, {stacked query key, value}, {query, stacked
    key value} or {stacked query key value}; or the query alone, with past keys and values that are all there are, as
    ONNX Runtime describes cross-attention, which Microsoft's page does not mention. The bias is added to them; past
    keys and values go in front of the new ones; the scores of each query and key get the relative position bias, then
    the mask. Keys and queries have heads of head_size, values of value_head_size, which is head_size where values are
    stacked.

    What the page leaves open is as ONNX Runtime and ONNX have it. Of a mask of KEY_QUERY_SEQUENCE_LENGTH_START_END only
    the lengths of the keys are read, as by ONNX Runtime's MultiHeadAttention on the CPU: the tensors give the start of
    each batch entry. Past and present values have value_head_size, as in ONNX's Attention: the page gives them
    head_size, which fits only where the two are equal. If a mask filters out all keys of a query, they all count alike,
    as if it filtered none.

    ::

        output = softmax(scale * Q K^T + relative_position_bias + mask) V, for each head

    Args:
        query: `[batch_size, sequence_length, hidden_size]`. The queries, the heads side by side in the last dimension.
            Leading dimensions of size 1 may be added.
        key: `[batch_size, key_value_sequence_length, key_hidden_size]`. The keys, the heads side by side in the last
            dimension. Leading dimensions of size 1 may be added.
        value: `[batch_size, key_value_sequence_length, value_hidden_size]`. The values, the heads side by side in the
            last dimension. Leading dimensions of size 1 may be added.
        stacked_query_key: `[batch_size, sequence_length, heads, 2, head_size]`. Queries and keys, of equal sequence
            lengths and head counts.
        stacked_key_value: `[batch_size, key_value_sequence_length, heads, 2, head_size]`. Keys and values.
        stacked_query_key_value: `[batch_size, sequence_length, heads, 3, head_size]`. Queries, keys and values, of
            equal sequence lengths and head counts.
        bias: `[bias_size]`. The bias of query, key and value, in this order. If absent, 0.
        mask: `[*mask_sizes]`. The keys that count, in the form that mask_type selects. A size of a BOOLEAN mask may
            also be 1.
        relative_position_bias: `[*position_bias_sizes]`. The bias of the scores. Each size may also be 1. If absent, 0.
        past_key: `[batch_size, heads, past_sequence_length, head_size]`. The keys of earlier steps, given together with
            past_value_tensor.
        past_value: `[batch_size, heads, past_sequence_length, value_head_size]`. The values of earlier steps.
        scale: The factor of the products of queries and keys, usually 1 / sqrt(head_size).
        mask_filter_value: The number added to a score that the mask filters out, usually a large negative one.
        head_count: How many heads there are. At least 1.
        mask_type: The form of the mask. KEY_SEQUENCE_LENGTH: how many keys count. KEY_SEQUENCE_END_START: end and start
            of the keys that count. KEY_QUERY_SEQUENCE_LENGTH_START_END: B lengths of keys, where each of B queries
            starts and the last ends, where each of B lines of keys starts and the last ends; only the lengths matter.
            BOOLEAN: 1 for each score that counts.
        output_data_type: The data type of the output, where the operator has a choice.
        output_present_key_data_type: The data type of the output, where the operator has a choice.
        output_present_value_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `MultiheadAttentionOutputs` of these fields.

        - `output`: `[batch_size, sequence_length, output_hidden_size]`. The result of all heads, side by side.
        - `present_key`: `[batch_size, heads, total_sequence_length, head_size]`. The keys as they were used, past ones
          first. If absent, they are not stored.
        - `present_value`: `[batch_size, heads, total_sequence_length, value_head_size]`. The values as they were used,
          past ones first. If absent, they are not stored.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return MultiheadAttentionOutputs(*several(
        "MULTIHEAD_ATTENTION",
        query_tensor=query,
        key_tensor=key,
        value_tensor=value,
        stacked_query_key_tensor=stacked_query_key,
        stacked_key_value_tensor=stacked_key_value,
        stacked_query_key_value_tensor=stacked_query_key_value,
        bias_tensor=bias,
        mask_tensor=mask,
        relative_position_bias_tensor=relative_position_bias,
        past_key_tensor=past_key,
        past_value_tensor=past_value,
        scale=scale,
        mask_filter_value=mask_filter_value,
        head_count=head_count,
        mask_type=mask_type,
        output_data_type=output_data_type,
        output_present_key_data_type=output_present_key_data_type,
        output_present_value_data_type=output_present_value_data_type,
    ))


class MultiheadAttention1Outputs(NamedTuple):
    """The outputs of `multihead_attention1`."""

    output: Expression
    """The result of all heads, side by side."""
    present_key: Expression
    """The keys as they were used, past ones first. If absent, they are not stored."""
    present_value: Expression
    """The values as they were used, past ones first. If absent, they are not stored."""


@refuse_others
def multihead_attention1(
    query: Expression | Array | None = None,
    key: Expression | Array | None = None,
    value: Expression | Array | None = None,
    stacked_query_key: Expression | Array | None = None,
    stacked_key_value: Expression | Array | None = None,
    stacked_query_key_value: Expression | Array | None = None,
    bias: Expression | Array | None = None,
    mask: Expression | Array | None = None,
    relative_position_bias: Expression | Array | None = None,
    past_key: Expression | Array | None = None,
    past_value: Expression | Array | None = None,
    past_sequence_lengths: Expression | Array | None = None,
    *,
    scale: float | str | floating[Any],
    mask_filter_value: float | str | floating[Any],
    query_head_count: int | integer[Any],
    key_value_head_count: int | integer[Any],
    mask_type: MultiheadAttentionMaskType | str | int = MultiheadAttentionMaskType.NONE,
    output_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_key_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
    output_present_value_data_type: DataType | str | int | dtype[Any] | type[generic] | None = None,
) -> MultiheadAttention1Outputs:
    """MULTIHEAD_ATTENTION1: attention of each of several heads; several may share their keys and values.

    As MULTIHEAD_ATTENTION, with heads of the queries in groups: each head of the keys and values serves as many of the
    queries' heads as the next. Microsoft's page says little about this operator; the groups follow from the names of
    its members.

    What past_sequence_lengths_tensor does is as ONNX Runtime's GroupQueryAttention has it, which is computed by this
    operator on DirectML. Of the past keys and values of a batch entry so many count, the first ones. The new ones
    follow these, and 0 follows up to the end of the present tensors. Attention is then causal: the first query sees the
    past keys that count and the first new key, each later query one more of the new keys. Places after the last new key
    count for no query, and masks and biases of scores have entries for them that are not read. A query without any key
    gives 0. A length below 0, or NaN, counts as 0; one that exceeds the past, or leaves the new keys no room in the
    present tensors, as the greatest that does not; one of floating point is rounded toward zero. Without past tensors
    there are no earlier keys: where DirectML lets past and present share a buffer, the past must be given as an input
    here.

    ::

        output = softmax(scale * Q K^T + relative_position_bias + mask) V, for each head of the queries and its group's K and V

    Args:
        query: `[batch_size, sequence_length, hidden_size]`. The queries, the heads side by side in the last dimension.
            Leading dimensions of size 1 may be added.
        key: `[batch_size, key_value_sequence_length, key_hidden_size]`. The keys, the heads side by side in the last
            dimension. Leading dimensions of size 1 may be added.
        value: `[batch_size, key_value_sequence_length, value_hidden_size]`. The values, the heads side by side in the
            last dimension. Leading dimensions of size 1 may be added.
        stacked_query_key: `[batch_size, sequence_length, heads, 2, head_size]`. Queries and keys, of equal sequence
            lengths and head counts.
        stacked_key_value: `[batch_size, key_value_sequence_length, heads, 2, head_size]`. Keys and values.
        stacked_query_key_value: `[batch_size, sequence_length, heads, 3, head_size]`. Queries, keys and values, of
            equal sequence lengths and head counts.
        bias: `[bias_size]`. The bias of query, key and value, in this order. If absent, 0.
        mask: `[*mask_sizes]`. The keys that count, in the form that mask_type selects. A size of a BOOLEAN mask may
            also be 1.
        relative_position_bias: `[*position_bias_sizes]`. The bias of the scores. Each size may also be 1. If absent, 0.
        past_key: `[batch_size, heads, past_sequence_length, head_size]`. The keys of earlier steps, given together with
            past_value_tensor.
        past_value: `[batch_size, heads, past_sequence_length, value_head_size]`. The values of earlier steps.
        past_sequence_lengths: `[batch_size]`. How many earlier keys and values count, for each batch entry. The present
            tensors may then be buffers for later steps too, that hold more than the new total, or as much as the past,
            if that is enough for the new keys. ONNX Runtime passes INT32. Microsoft's page, which says nothing else
            about the member, gives it the other tensors' types, which are also accepted.
        scale: The factor of the products of queries and keys, usually 1 / sqrt(head_size).
        mask_filter_value: The number added to a score that the mask filters out, usually a large negative one.
        query_head_count: How many heads the queries have: a multiple of key_value_head_count. At least 1.
        key_value_head_count: How many heads the keys and values have. At least 1.
        mask_type: The form of the mask. KEY_SEQUENCE_LENGTH: how many keys count. KEY_SEQUENCE_END_START: end and start
            of the keys that count. KEY_QUERY_SEQUENCE_LENGTH_START_END: B lengths of keys, where each of B queries
            starts and the last ends, where each of B lines of keys starts and the last ends; only the lengths matter.
            BOOLEAN: 1 for each score that counts.
        output_data_type: The data type of the output, where the operator has a choice.
        output_present_key_data_type: The data type of the output, where the operator has a choice.
        output_present_value_data_type: The data type of the output, where the operator has a choice.

    Returns:
        The named tuple `MultiheadAttention1Outputs` of these fields.

        - `output`: `[batch_size, sequence_length, output_hidden_size]`. The result of all heads, side by side.
        - `present_key`: `[batch_size, heads, total_sequence_length, head_size]`. The keys as they were used, past ones
          first. If absent, they are not stored.
        - `present_value`: `[batch_size, heads, total_sequence_length, value_head_size]`. The values as they were used,
          past ones first. If absent, they are not stored.

    Raises:
        DescError: the operator breaks rules; all of them are reported, with the caller's line.
    """
    return MultiheadAttention1Outputs(*several(
        "MULTIHEAD_ATTENTION1",
        query_tensor=query,
        key_tensor=key,
        value_tensor=value,
        stacked_query_key_tensor=stacked_query_key,
        stacked_key_value_tensor=stacked_key_value,
        stacked_query_key_value_tensor=stacked_query_key_value,
        bias_tensor=bias,
        mask_tensor=mask,
        relative_position_bias_tensor=relative_position_bias,
        past_key_tensor=past_key,
        past_value_tensor=past_value,
        past_sequence_lengths_tensor=past_sequence_lengths,
        scale=scale,
        mask_filter_value=mask_filter_value,
        query_head_count=query_head_count,
        key_value_head_count=key_value_head_count,
        mask_type=mask_type,
        output_data_type=output_data_type,
        output_present_key_data_type=output_present_key_data_type,
        output_present_value_data_type=output_present_value_data_type,
    ))

