"""The NumPy device's attention against plain loops in float64, and against ONNX's Attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support import relation_descs as descs
from tests.support.layout_runs import Array, layouts, run
from tests.support.onnx_reference import onnx_outputs
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

OPERATORS = ("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")


def doubtful(desc: Any) -> bool:
    """Whether a desc has what nobody has told the meaning of."""
    return desc.mask_type.name == "KEY_QUERY_SEQUENCE_LENGTH_START_END" or getattr(desc, "past_sequence_lengths_tensor", None) is not None


def plain(desc: Any, given: dict[str, Array]) -> dict[str, Array]:
    """One head, one query and one key after the other."""
    x = {name: array.astype(np.float64) for name, array in given.items()}
    query_heads, heads = (getattr(desc, name) for name in desc.head_counts)

    def lines(name: str, count: int) -> Array | None:
        """[batch, length, heads, size]"""
        return None if name not in x else x[name].reshape(*x[name].shape[-3:-1], count, x[name].shape[-1] // count)

    parts = [lines("query_tensor", query_heads), lines("key_tensor", heads), lines("value_tensor", heads)]
    for name, at in (("query_key", (0, 1)), ("key_value", (1, 2)), ("query_key_value", (0, 1, 2))):
        if f"stacked_{name}_tensor" in x:
            for layer, part in enumerate(at):
                parts[part] = x[f"stacked_{name}_tensor"][:, :, :, layer]
    if "bias_tensor" in x:
        line = list(x["bias_tensor"].reshape(-1))
        for at, part in enumerate(parts):
            if part is not None:
                own = [line.pop(0) for _ in range(part.shape[2] * part.shape[3])]
                parts[at] = part + np.array(own).reshape(part.shape[2:])
    query = parts[0]
    assert query is not None
    past = [x[name].reshape(x[name].shape[-4:]) if name in x else None for name in ("past_key_tensor", "past_value_tensor")]
    keys, values = (
        np.concatenate([own for own in (kept, None if new is None else new.transpose(0, 2, 1, 3)) if own is not None], 2)
        for kept, new in zip(past, parts[1:], strict=True)
    )
    batches, length, total = query.shape[0], query.shape[1], keys.shape[2]
    output = np.zeros((batches, length, query_heads, values.shape[-1]))
    whole = (batches, query_heads, length, total)
    bias = (
        np.broadcast_to(x["relative_position_bias_tensor"].reshape(-1, *x["relative_position_bias_tensor"].shape[-3:]), whole)
        if ("relative_position_bias_tensor" in x)
        else np.zeros(whole)
    )
    for batch, head, at in np.ndindex(batches, query_heads, length):
        own = head // (query_heads // heads)
        scores = []
        for key in range(total):
            score = desc.scale * math.fsum(query[batch, at, head] * keys[batch, own, key]) + bias[batch, head, at, key]
            scores.append(score + (0 if counts(desc, given, (batch, head, at, key), whole) else desc.mask_filter_value))
        powers = [math.exp(score - max(scores)) for score in scores]
        output[batch, at, head] = sum(power * value for power, value in zip(powers, values[batch, own], strict=True)) / math.fsum(powers)
    results = {"output_tensor": output, "output_present_key_tensor": keys, "output_present_value_tensor": values}
    return {name: array.reshape(getattr(desc, name).sizes) for name, array in results.items() if getattr(desc, name) is not None}


def counts(desc: Any, given: dict[str, Array], place: tuple[int, int, int, int], whole: tuple[int, ...]) -> bool:
    """Whether the mask lets a score be."""
    batch, key = place[0], place[3]
    match desc.mask_type.name:
        case "NONE":
            return True
        case "BOOLEAN":
            mask = given["mask_tensor"]
            return bool(np.broadcast_to(mask.reshape(mask.shape[-4:]), whole)[place])
        case "KEY_SEQUENCE_LENGTH":
            return bool(key < given["mask_tensor"].reshape(1, -1)[0, batch])
    end, start = given["mask_tensor"].reshape(2, -1)[:, batch]
    return bool(start <= key < end)


def arrays(desc: Any, rng: np.random.Generator) -> dict[str, Array]:
    found = {}
    for slot in desc.input_slots():
        if slot.tensor is not None:
            sizes, dtype = slot.tensor.sizes, slot.tensor.data_type.numpy
            if dtype.kind == "f":
                found[slot.place] = rng.normal(size=sizes).astype(dtype)
            elif desc.mask_type.name == "BOOLEAN":
                found[slot.place] = rng.integers(0, 2, sizes, dtype)
            else:  # ends, then starts, of which some leave no key
                limits = np.stack([rng.integers(2, 9, sizes[-1]), rng.integers(0, 4, sizes[-1])])[: 2 if sizes[-2] == 2 else 1]
                found[slot.place] = limits.astype(dtype).reshape(sizes)
    return found


def compare(desc: Any, given: dict[str, Array], what: str) -> None:
    for own in layouts(desc):
        found = run(own, given)
        for name, wanted in plain(desc, given).items():
            assert_close(found[name], wanted, found[name].dtype, terms=40, what=f"{what}: {name}")


def test_every_form_of_attention() -> None:
    rng, computed, refused = np.random.default_rng(31), 0, 0
    for operator in OPERATORS:
        for own in descs.valid_descs(f"DML_OPERATOR_{operator}"):
            desc: Any = dml.OperatorDesc.from_dict(descs.data(f"DML_OPERATOR_{operator}", own.members))
            if doubtful(desc):
                refused += 1
                with pytest.raises(dml.DmlError):
                    run(desc, {})
                continue
            computed += 1
            compare(desc, arrays(desc, rng), f"{operator}, {own.about}")
    assert computed > 25
    assert refused > 3


def test_masks_and_biases_that_repeat_and_keys_that_none_sees() -> None:
    rng = np.random.default_rng(32)
    members: dict[str, Any] = {"query_tensor": tensor(2, 3, 12), "key_tensor": tensor(2, 5, 6), "value_tensor": tensor(2, 5, 10)}
    members |= {"query_head_count": 4, "key_value_head_count": 2, "scale": 0.6}
    for sizes in ((2, 4, 3, 5), (1, 1, 1, 1), (2, 1, 1, 5), (1, 4, 3, 1), (1, 1, 3, 5)):
        for filter_value in (-1e4, -1.5, 0.0, 2.0):
            desc = dml.MultiheadAttention1Desc(
                mask_tensor=tensor(*sizes, data_type="INT32"),
                relative_position_bias_tensor=tensor(*sizes),
                mask_type="BOOLEAN",
                mask_filter_value=filter_value,
                **members,
            ).with_outputs("output_tensor")
            compare(desc, arrays(desc, rng), f"{sizes} {filter_value}")
    for mask_type, ends in (("KEY_SEQUENCE_LENGTH", [[0, 99]]), ("KEY_SEQUENCE_END_START", [[4, 2], [1, 3]])):
        desc = dml.MultiheadAttention1Desc(
            mask_tensor=tensor(len(ends), 2, data_type="INT32"), mask_type=mask_type, mask_filter_value=-1e4, **members
        ).with_outputs("output_tensor")
        compare(desc, arrays(desc, rng) | {"mask_tensor": np.array(ends, np.int32)}, mask_type)


def test_inputs_that_are_broadcast_and_one_of_each() -> None:
    rng = np.random.default_rng(33)
    for data_type in ("FLOAT32", "FLOAT16"):
        one = tensor(1, 1, 1, data_type=data_type)
        desc = dml.MultiheadAttentionDesc(
            query_tensor=one, key_tensor=one, value_tensor=one, scale=2.0, mask_filter_value=-1.0, head_count=1
        ).with_outputs("output_tensor")
        compare(desc, arrays(desc, rng), "one element")
        three = tensor(2, 3, 6, data_type=data_type)
        desc = dml.MultiheadAttentionDesc(
            query_tensor=three, key_tensor=three, value_tensor=three, scale=0.5, mask_filter_value=-1.0, head_count=2
        ).with_outputs("output_tensor")
        given = {name: np.broadcast_to(array[..., :1], array.shape) for name, array in arrays(desc, rng).items()}
        wanted = plain(desc, given)["output_tensor"]
        for own in layouts(desc, broadcast=True):
            found = run(own, given)["output_tensor"]
            assert_close(found, wanted, found.dtype, terms=40, what="broadcast")


def test_past_keys_that_are_all() -> None:
    rng, past = np.random.default_rng(34), tensor(2, 3, 5, 4)
    desc = dml.MultiheadAttentionDesc(
        query_tensor=tensor(2, 6, 12), past_key_tensor=past, past_value_tensor=past, scale=0.5, mask_filter_value=-1e4, head_count=3
    ).with_outputs()
    compare(desc, arrays(desc, rng), "the past alone")


def test_values_of_another_size_than_those_kept_are_refused() -> None:
    """The page gives both the size of the keys' heads; what is kept then is not told."""
    desc = dml.MultiheadAttentionDesc(
        query_tensor=tensor(1, 2, 4), key_tensor=tensor(1, 3, 4), value_tensor=tensor(1, 3, 2), scale=1, mask_filter_value=0, head_count=1
    ).with_outputs("output_tensor", "output_present_value_tensor")
    assert dml.check(desc) == []
    with pytest.raises(dml.DmlError):
        run(desc, {})


def test_large_scores_do_not_overflow() -> None:
    three = tensor(1, 3, 2)
    desc = dml.MultiheadAttentionDesc(
        query_tensor=three, key_tensor=three, value_tensor=three, scale=1e4, mask_filter_value=-1e4, head_count=1
    ).with_outputs()
    x = np.array([[[3, 0], [0, 5], [-2, -1]]], np.float32)
    found = run(desc, {"query_tensor": x, "key_tensor": x, "value_tensor": x})["output_tensor"]
    np.testing.assert_array_equal(found, x)  # each query's best key is itself


@pytest.mark.onnx_reference
def test_onnx_attends_alike() -> None:
    rng = np.random.default_rng(35)
    for query_heads, heads, past in ((4, 4, 0), (4, 2, 0), (6, 2, 3), (3, 1, 2)):
        sizes = {"Q": (2, 3, query_heads * 4), "K": (2, 5, heads * 4), "V": (2, 5, heads * 4), "M": (2, query_heads, 3, 5 + past)}
        if past:
            sizes |= {"PK": (2, heads, past, 4), "PV": (2, heads, past, 4)}
        x = {name: rng.normal(size=own).astype(np.float32) for name, own in sizes.items()}
        attributes = {"q_num_heads": query_heads, "kv_num_heads": heads, "scale": 0.3}
        wanted = onnx_outputs("Attention", list(x.values()), 3, opset=23, **attributes)
        names = ["query_tensor", "key_tensor", "value_tensor", "relative_position_bias_tensor", "past_key_tensor", "past_value_tensor"]
        members: dict[str, Any] = {name: tensor(*own) for name, own in zip(names, sizes.values(), strict=False)}
        members |= {"query_head_count": query_heads, "key_value_head_count": heads, "scale": 0.3, "mask_filter_value": -1e4}
        made = ("output_tensor", "output_present_key_tensor", "output_present_value_tensor")
        found = run(dml.MultiheadAttention1Desc(**members).with_outputs(*made), dict(zip(names, x.values(), strict=False)))
        for name, own in zip(made, wanted, strict=True):
            assert_close(found[name], own, np.float32, terms=20, what=name)
