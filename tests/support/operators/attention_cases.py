"""Attention by plain loops in float64, and random inputs of its descs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.support.operators.layout_runs import Array

OPERATORS = ("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1")


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
        for index, given_part in enumerate(parts):
            if given_part is not None:
                own = [line.pop(0) for _ in range(given_part.shape[2] * given_part.shape[3])]
                parts[index] = given_part + np.array(own).reshape(given_part.shape[2:])
    query = parts[0]
    assert query is not None
    batches, length = query.shape[:2]
    past = [x[name].reshape(x[name].shape[-4:]) if name in x else None for name in ("past_key_tensor", "past_value_tensor")]
    valid = valid_past(desc, given, batches)
    keys, values = (joined(kept, new, valid, desc.key_lengths[2]) for kept, new in zip(past, parts[1:], strict=True))
    total = keys.shape[2]
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
        for key in range(last_key(desc, valid[batch], at)):
            score = desc.scale * math.fsum(query[batch, at, head] * keys[batch, own, key]) + bias[batch, head, at, key]
            scores.append(score + (0 if counts(desc, given, (batch, head, at, key), whole) else desc.mask_filter_value))
        powers = [math.exp(score - max(scores)) for score in scores]
        if powers:
            total_power = math.fsum(powers)
            output[batch, at, head] = sum(power * value for power, value in zip(powers, values[batch, own], strict=False)) / total_power
    results = {"output_tensor": output, "output_present_key_tensor": keys, "output_present_value_tensor": values}
    return {name: array.reshape(getattr(desc, name).sizes) for name, array in results.items() if getattr(desc, name) is not None}


def valid_past(desc: Any, given: dict[str, Array], batches: int) -> list[int]:
    """How many earlier keys count in each batch entry."""
    past, new, total = desc.key_lengths
    if "past_sequence_lengths_tensor" not in given:
        return [past] * batches
    numbers = given["past_sequence_lengths_tensor"].reshape(-1).tolist()
    return [0 if math.isnan(number) else int(max(0, min(number, past, total - new))) for number in numbers]


def joined(kept: Array | None, new: Array | None, valid: list[int], total: int) -> Array:
    """Keys or values of each head: the earlier ones that count, the new ones, and zeros."""
    either = kept if kept is not None else new.transpose(0, 2, 1, 3)  # type: ignore[union-attr]
    found = np.zeros((either.shape[0], either.shape[1], total, either.shape[3]))
    for batch, count in enumerate(valid):
        if kept is not None:
            found[batch, :, :count] = kept[batch, :, :count]
        if new is not None:
            found[batch, :, count : count + new.shape[1]] = new[batch].transpose(1, 0, 2)
    return found


def last_key(desc: Any, valid: int, query: int) -> int:
    """How many keys a query may see: with lengths of the past, no new one after its own."""
    causal = getattr(desc, "past_sequence_lengths_tensor", None) is not None
    new = desc.key_lengths[1]
    return valid + (min(new, query + 1) if causal else new)


def counts(desc: Any, given: dict[str, Array], place: tuple[int, int, int, int], whole: tuple[int, ...]) -> bool:
    """Whether the mask lets a score be."""
    batch, key = place[0], place[3]
    match desc.mask_type.name:
        case "NONE":
            return True
        case "BOOLEAN":
            mask = given["mask_tensor"]
            return bool(np.broadcast_to(mask.reshape(mask.shape[-4:]), whole)[place])
        case "KEY_SEQUENCE_LENGTH" | "KEY_QUERY_SEQUENCE_LENGTH_START_END":
            return bool(key < given["mask_tensor"].reshape(-1)[batch])
    end, start = given["mask_tensor"].reshape(2, -1)[:, batch]
    return bool(start <= key < end)


def arrays(desc: Any, rng: np.random.Generator) -> dict[str, Array]:
    found = {}
    for slot in desc.input_slots():
        if slot.tensor is not None:
            sizes, dtype = slot.tensor.sizes, slot.tensor.data_type.numpy
            if slot.place == "past_sequence_lengths_tensor":
                found[slot.place] = rng.integers(0, 9, sizes).astype(dtype)
            elif dtype.kind == "f":
                found[slot.place] = rng.normal(size=sizes).astype(dtype)
            elif desc.mask_type.name == "BOOLEAN":
                found[slot.place] = rng.integers(0, 2, sizes, dtype)
            elif desc.mask_type.name == "KEY_SEQUENCE_END_START":  # of which some leave no key
                limits = np.stack([rng.integers(2, 9, sizes[-1]), rng.integers(0, 4, sizes[-1])])
                found[slot.place] = limits.astype(dtype).reshape(sizes)
            else:  # starts and ends after the lengths, of whatever value, are not read
                found[slot.place] = rng.integers(2, 9, sizes).astype(dtype)
    return found
