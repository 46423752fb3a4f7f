"""Multi-head attention as descs: the forms of its inputs, heads, masks, the past, their messages; sizes against attention in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Found = list[tuple[str, str]]
Array = np.ndarray[Any, np.dtype[np.float32]]
OUTPUTS = ("output_tensor", "output_present_key_tensor", "output_present_value_tensor")


def mask(*sizes: int) -> dml.TensorDesc:
    return tensor(*sizes, data_type="INT32")


# B = 2, S = 10, L = 12, P = 5, 8 heads of 16, values of 6.
SEPARATE = {"query_tensor": tensor(2, 10, 128), "key_tensor": tensor(2, 12, 128), "value_tensor": tensor(2, 12, 48)}
STACKED: dict[str, Any] = {
    "query and key": {"stacked_query_key_tensor": tensor(2, 10, 8, 2, 16), "value_tensor": tensor(2, 10, 48)},
    "key and value": {"query_tensor": tensor(2, 10, 128), "stacked_key_value_tensor": tensor(2, 12, 8, 2, 16)},
    "all": {"stacked_query_key_value_tensor": tensor(2, 10, 8, 3, 16)},
}
PAST = {"past_key_tensor": tensor(2, 8, 5, 16), "past_value_tensor": tensor(2, 8, 5, 6)}
LIKE_KEYS = PAST | {"past_value_tensor": tensor(2, 8, 5, 16)}


def attention(*outputs: str, form: Any = SEPARATE, **members: Any) -> dml.MultiheadAttentionDesc:
    own = {"scale": 0.25, "mask_filter_value": -1e4, "head_count": 8}
    return dml.MultiheadAttentionDesc(**form | own | members).with_outputs(*outputs)


def grouped(**members: Any) -> dml.MultiheadAttention1Desc:
    """8 heads of the queries that share 2 of the keys and values."""
    own: dict[str, Any] = {"scale": 0.25, "mask_filter_value": -1e4, "query_head_count": 8, "key_value_head_count": 2}
    own |= {"query_tensor": tensor(2, 10, 128), "key_tensor": tensor(2, 12, 32), "value_tensor": tensor(2, 12, 12)}
    return dml.MultiheadAttention1Desc(**own | members).with_outputs()


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> Found:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def text(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    return lay_out(desc.c_name, dml.check(desc, level))


def unlike(table: list[tuple[dml.OperatorDesc, Found]]) -> str:
    """The rows whose problems differ from the row's."""
    wrong = [(desc, found) for desc, found in table if sorted(codes(desc)) != sorted(found)]
    return "\n".join(f"expected {found}, found {text(desc)}" for desc, found in wrong)


def test_inputs_and_sizes() -> None:
    good, full = attention(), attention(**PAST)
    table: list[tuple[dml.OperatorDesc, Found]] = [
        (good, []),
        (full, []),
        *((attention(form=form), []) for form in STACKED.values()),
        (good.replace(query_tensor=None), [("attention_inputs", "query_tensor")]),
        (good.replace(key_tensor=None, value_tensor=None), [("attention_inputs", "key_tensor"), ("attention_inputs", "value_tensor")]),
        (
            attention(form=STACKED["key and value"]).replace(key_tensor=tensor(2, 12, 128)),
            [("attention_inputs", "stacked_key_value_tensor")],
        ),
        (attention(form=STACKED["all"]).replace(query_tensor=tensor(2, 10, 128)), [("attention_inputs", "stacked_query_key_value_tensor")]),
        (attention(form=STACKED["query and key"]).replace(value_tensor=None), [("attention_inputs", "value_tensor")]),
        (attention(form=STACKED["query and key"]).replace(value_tensor=tensor(2, 11, 48)), [("size.equal", "value_tensor.sizes[1]")]),
        (good.replace(query_tensor=tensor(1, 1, 2, 10, 128), value_tensor=tensor(1, 2, 12, 48)), []),
        (good.replace(query_tensor=tensor(3, 2, 10, 128)), [("size.equal", "query_tensor.sizes[0]")]),
        (good.replace(query_tensor=tensor(20, 128)), [("dims.support", "query_tensor.sizes")]),
        (good.replace(query_tensor=tensor(2, 10, 127)), [("size.equal", "query_tensor.sizes[2]")]),
        (good.replace(key_tensor=tensor(3, 12, 128)), [("size.equal", "key_tensor.sizes[0]")]),
        (good.replace(output_tensor=tensor(2, 10, 128)), [("size.equal", "output_tensor.sizes[2]")]),
        (good.replace(output_tensor=tensor(2, 12, 48)), [("size.equal", "output_tensor.sizes[1]")]),
        (good.replace(bias_tensor=tensor(128 + 128 + 48)), []),
        (good.replace(bias_tensor=tensor(1, 1, 1, 1, 128 + 128 + 48)), []),
        (good.replace(bias_tensor=tensor(3 * 128)), [("size.equal", "bias_tensor.sizes[0]")]),
        (attention(form=STACKED["all"], bias_tensor=tensor(3 * 128)), []),
        (full.replace(past_value_tensor=None), [("past_pair", "past_value_tensor")]),
        (full.replace(past_value_tensor=tensor(2, 8, 6, 6)), [("size.equal", "past_value_tensor.sizes[2]")]),
        (full.replace(past_value_tensor=tensor(2, 8, 5, 16)), [("size.equal", "past_value_tensor.sizes[3]")]),
        (full.replace(past_key_tensor=tensor(2, 4, 5, 16)), [("size.equal", "past_key_tensor.sizes[1]")]),
        (full.replace(output_present_key_tensor=tensor(2, 8, 12, 16)), [("size.equal", "output_present_key_tensor.sizes[2]")]),
        (attention("output_tensor"), []),
        (good.replace(key_tensor=tensor(2, 12, 128, data_type="FLOAT16")), [("type.equal", "key_tensor.data_type")]),
    ]
    assert not unlike(table), unlike(table)
    assert codes(good, "6_0") == [("level.operator", "")]
    assert codes(grouped(), "6_2") == [("level.operator", "")]


def test_masks_and_biases_of_scores() -> None:
    boolean = {"mask_type": "BOOLEAN"}
    lengths, ends = {"mask_type": "KEY_SEQUENCE_LENGTH"}, {"mask_type": "KEY_SEQUENCE_END_START"}
    packed = {"mask_type": "KEY_QUERY_SEQUENCE_LENGTH_START_END"}
    table: list[tuple[dml.OperatorDesc, Found]] = [
        (attention(mask_tensor=mask(1, 2), **lengths), []),
        (attention(mask_tensor=mask(1, 1, 1, 2), **lengths), []),
        (attention(mask_tensor=mask(2), **lengths), [("dims.support", "mask_tensor.sizes")]),
        (attention(mask_tensor=mask(2, 2), **lengths), [("size.equal", "mask_tensor.sizes[0]")]),
        (attention(mask_tensor=mask(2, 2), **ends), []),
        (attention(mask_tensor=mask(2, 3), **ends), [("size.equal", "mask_tensor.sizes[1]")]),
        (attention(mask_tensor=mask(8), **packed), []),
        (attention(mask_tensor=mask(7), **packed), [("size.equal", "mask_tensor.sizes[0]")]),
        (attention(mask_tensor=mask(2, 8, 10, 12), **boolean), []),
        (attention(mask_tensor=mask(1, 2, 1, 1, 12), **boolean), []),
        (attention(mask_tensor=mask(2, 8, 10, 17), **boolean, **PAST), []),
        (attention(mask_tensor=mask(3, 8, 9, 12), **boolean), [("score_sizes", f"mask_tensor.sizes[{axis}]") for axis in (0, 2)]),
        (attention(mask_tensor=mask(2, 2, 8, 10, 12), **boolean), [("score_sizes", "mask_tensor.sizes[0]")]),
        (attention(mask_tensor=mask(2, 1, 1, 1, 1, 1), **boolean), [("dims.support", "mask_tensor.sizes")]),
        (attention(mask_tensor=tensor(2, 8, 10, 12), **boolean), [("type.support", "mask_tensor.data_type")]),
        (attention(mask_tensor=mask(2, 8, 10, 12)), [("mask_with_type", "mask_type")]),
        (attention(**boolean), [("mask_with_type", "mask_tensor")]),
        (attention(relative_position_bias_tensor=tensor(1, 8, 10, 12)), []),
        (attention(relative_position_bias_tensor=tensor(1, 7, 10, 12)), [("score_sizes", "relative_position_bias_tensor.sizes[1]")]),
        (attention(relative_position_bias_tensor=tensor(10, 12)), [("dims.support", "relative_position_bias_tensor.sizes")]),
    ]
    assert not unlike(table), unlike(table)


def test_head_counts() -> None:
    good, shared, stacked = attention(), grouped(), STACKED["all"]["stacked_query_key_value_tensor"]
    alone = {"query_tensor": None, "key_tensor": None, "value_tensor": None, "stacked_query_key_value_tensor": stacked}
    both = {"query_head_count": 7, "key_value_head_count": 7}
    table: list[tuple[dml.OperatorDesc, Found]] = [
        (good.replace(head_count=7), [("head_count_divides", "head_count")]),
        (good.replace(head_count=0), [("attribute.range", "head_count")]),
        (good.replace(head_count=2**32), [("attribute.range", "head_count")]),
        (shared, []),
        (shared.replace(query_head_count=0), [("attribute.range", "query_head_count")]),
        (shared.replace(**both), [("head_count_divides", name) for name in both]),
        (shared.replace(query_head_count=4), [("size.equal", f"{name}_tensor.sizes[2]") for name in ("query", "output")]),
        (grouped(query_tensor=tensor(2, 10, 48), query_head_count=3), [("head_groups", "key_value_head_count")]),
        (grouped(**alone, output_tensor=tensor(2, 10, 128)), [("head_groups", "key_value_head_count")]),
        (grouped(**alone, key_value_head_count=8), []),
        (grouped(bias_tensor=tensor(128 + 32 + 12)), []),
        (grouped(bias_tensor=tensor(128 + 128 + 48)), [("size.equal", "bias_tensor.sizes[0]")]),
        (grouped(past_key_tensor=tensor(2, 2, 5, 16), past_value_tensor=tensor(2, 2, 5, 6)), []),
        (grouped(**PAST), [("size.equal", f"past_{name}_tensor.sizes[1]") for name in ("key", "value")]),
        (grouped(relative_position_bias_tensor=tensor(1, 8, 10, 12), past_sequence_lengths_tensor=tensor(2)), []),
    ]
    assert not unlike(table), unlike(table)


def test_keys_and_values_that_are_all_from_the_past() -> None:
    """ONNX Runtime's cross-attention: a query, and what an encoder gave once as past keys and values."""
    cross = attention(form={"query_tensor": tensor(2, 10, 128)} | LIKE_KEYS)
    assert [item.sizes for item in (cross.output_tensor, cross.output_present_key_tensor) if item] == [(2, 10, 128), (2, 8, 5, 16)]
    table: list[tuple[dml.OperatorDesc, Found]] = [
        (cross, []),
        (cross.replace(bias_tensor=tensor(3 * 128)), []),
        (cross.replace(mask_tensor=mask(2, 8, 10, 5), mask_type="BOOLEAN"), []),
        (cross.replace(mask_tensor=mask(2, 8, 10, 7), mask_type="BOOLEAN"), [("score_sizes", "mask_tensor.sizes[3]")]),
        (cross.replace(output_tensor=tensor(2, 10, 48)), [("size.equal", "output_tensor.sizes[2]")]),
        (cross.replace(query_tensor=None), [("attention_inputs", "query_tensor")]),
        (cross.replace(key_tensor=tensor(2, 12, 128)).with_outputs(*OUTPUTS), [("attention_inputs", "value_tensor")]),
    ]
    assert not unlike(table), unlike(table)


def test_lengths_of_the_past() -> None:
    """ONNX Runtime's grouped attention: INT32 lengths, present tensors that are buffers for later steps."""
    lengths = {"past_sequence_lengths_tensor": mask(2)}
    buffers = {name: tensor(2, 2, 64, 16) for name in OUTPUTS[1:]}
    kept = {name: tensor(2, 2, 64, 16) for name in ("past_key_tensor", "past_value_tensor")}
    sized = {"value_tensor": tensor(2, 12, 32)}
    table: list[tuple[dml.OperatorDesc, Found]] = [
        (grouped(**lengths, **sized), []),
        (grouped(**lengths, **sized).replace(**buffers), []),
        (grouped(**lengths, **sized, **kept).replace(**buffers), []),
        (grouped(**lengths, **sized, **kept), []),
        (
            grouped(**lengths, **sized, **{name: tensor(2, 2, 11, 16) for name in kept}).replace(
                **{name: tensor(2, 2, 11, 16) for name in buffers}
            ),
            [("size.equal", f"{name}.sizes[2]") for name in OUTPUTS[1:]],  # no room for 12 new keys
        ),
        (grouped(**sized).replace(**buffers), [("size.equal", f"{name}.sizes[2]") for name in OUTPUTS[1:]]),
        (grouped(**sized, **kept).replace(**buffers), [("size.equal", f"{name}.sizes[2]") for name in OUTPUTS[1:]]),
        (
            grouped(**lengths, **sized).replace(**{name: tensor(2, 2, 11, 16) for name in OUTPUTS[1:]}),
            [("size.equal", f"{name}.sizes[2]") for name in OUTPUTS[1:]],
        ),
        (
            grouped(**lengths, **sized, relative_position_bias_tensor=tensor(2, 8, 10, 12)).replace(**buffers),
            [("score_sizes", "relative_position_bias_tensor.sizes[3]")],
        ),
        (grouped(past_sequence_lengths_tensor=tensor(2)), []),
        (grouped(past_sequence_lengths_tensor=mask(1, 1, 2)), []),
        (grouped(past_sequence_lengths_tensor=mask(5)), [("size.equal", "past_sequence_lengths_tensor.sizes[0]")]),
        (
            grouped(past_sequence_lengths_tensor=mask(2, 1)),
            [("size.equal", f"past_sequence_lengths_tensor.sizes[{axis}]") for axis in (0, 1)],
        ),
        (
            grouped(past_sequence_lengths_tensor=tensor(2, data_type="INT64")),
            [("type.support", "past_sequence_lengths_tensor.data_type")],
        ),
    ]
    assert not unlike(table), unlike(table)
    assert grouped(**lengths, **sized).output_present_key_tensor == tensor(2, 2, 12, 16)


def test_messages() -> None:
    assert text(attention().replace(head_count=7)) == (
        "DML_MULTIHEAD_ATTENTION_OPERATOR_DESC: 1 problem\n"
        " 1. head_count is 7, expected a divisor of 128, the last size of query_tensor  [head_count_divides]"
    )
    found = text(attention().replace(query_tensor=tensor(2, 8, 10, 16)))
    assert found.count("remedy: heads lie side by side in the last dimension: sizes [2, 10, 128]") == 3
    assert text(attention(**PAST).replace(output_present_key_tensor=tensor(2, 8, 12, 16))) == (
        "DML_MULTIHEAD_ATTENTION_OPERATOR_DESC: 1 problem\n"
        " 1. output_present_key_tensor.sizes[2] is 12, expected total_sequence_length = 17  [size.equal]\n"
        "      output_present_key_tensor is [batch_size, heads, total_sequence_length, head_size]\n"
        "      total_sequence_length = 17: past_sequence_length + key_value_sequence_length = 5 + 12"
    )
    (problem, _) = dml.check(grouped().replace(query_head_count=4))
    assert problem.remedy == "query_head_count=8 fits"
    fewer = dml.check(attention(form=STACKED["key and value"], **LIKE_KEYS).replace(head_count=4))
    assert {problem.remedy for problem in fewer if problem.field == "query_tensor"} == {"head_count=8 fits"}
    turned = attention(form=STACKED["key and value"], **{name: tensor(2, 5, 8, 16) for name in PAST})
    assert {problem.remedy for problem in dml.check(turned)} == {"heads come before positions: sizes [2, 8, 5, 16]"}
    (padding,) = dml.check(attention(mask_tensor=mask(2, 12), mask_type="BOOLEAN"))
    assert padding.remedy == "for all heads and queries alike: sizes [2, 1, 1, 12]"
    assert not dml.check(attention(mask_tensor=mask(2, 1, 1, 12), mask_type="BOOLEAN"))
    (one,) = dml.check(attention(**PAST).replace(key_tensor=tensor(2, 12, 112)))
    assert one.remedy is None, "a head count that fits one tensor alone is not a remedy"


def attend(query: Array, key: Array, value: Array, past: tuple[Array, Array] | None) -> tuple[Array, Array, Array]:
    """Attention of [B, S, heads, size] queries and [B, L, groups, size] keys and values: output, present keys and values."""
    keys, kept = (np.moveaxis(item, 1, 2) for item in (key, value))
    if past is not None:
        keys, kept = np.concatenate([past[0], keys], axis=2), np.concatenate([past[1], kept], axis=2)
    shared = query.shape[2] // key.shape[2]
    scores = np.einsum("bshi,bhti->bhst", query, keys.repeat(shared, axis=1))
    output = np.einsum("bhst,bhti->bshi", scores, kept.repeat(shared, axis=1))
    return output.reshape(*output.shape[:2], -1), keys, kept


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_outputs_have_the_sizes_of_attention_in_numpy(data: st.DataObject) -> None:
    batch, length, new, groups, shared, size = (data.draw(st.integers(1, 4)) for _ in range(6))
    form = data.draw(st.sampled_from(["separate", "query and key", "key and value", "all"]))
    shared = shared if form in ("separate", "key and value") else 1
    new = new if form in ("separate", "key and value") else length
    query, key = np.ones((batch, length, groups * shared, size), np.float32), np.ones((batch, new, groups, size), np.float32)
    past = np.ones((batch, groups, data.draw(st.integers(1, 3)), size), np.float32) if data.draw(st.booleans()) else None
    flat: dict[str, Array] = {name: item.reshape(*item.shape[:2], -1) for name, item in (("query", query), ("key", key), ("value", key))}
    arrays = dict(flat)
    if form == "query and key":
        arrays = {"stacked_query_key": np.stack([query, key], axis=3), "value": flat["value"]}
    elif form == "key and value":
        arrays = {"query": flat["query"], "stacked_key_value": np.stack([key, key], axis=3)}
    elif form == "all":
        arrays = {"stacked_query_key_value": np.stack([query, key, key], axis=3)}
    arrays |= {} if past is None else {"past_key": past, "past_value": past}
    members: dict[str, Any] = {f"{name}_tensor": dml.TensorDesc.of(item) for name, item in arrays.items()}
    members |= {"scale": 1.0, "mask_filter_value": 0.0}
    descs: list[Any] = [dml.MultiheadAttention1Desc(**members, query_head_count=groups * shared, key_value_head_count=groups)]
    descs += [dml.MultiheadAttentionDesc(**members, head_count=groups)] if shared == 1 else []
    expected = attend(query, key, key, None if past is None else (past, past))
    for desc in descs:
        told = desc.with_outputs()
        assert [getattr(told, name).sizes for name in OUTPUTS] == [item.shape for item in expected]
        assert codes(told) == []
