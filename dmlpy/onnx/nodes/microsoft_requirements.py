"""The inputs and attributes that nodes of com.microsoft must and may have: ONNX has no schemas of these operators."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.values import can_be_equal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.onnx.nodes.node import Node

PASTS = {"DecoderMaskedMultiHeadAttention": 5, "GroupQueryAttention": 3, "MultiHeadAttention": 6}
"""The input of an operator that has the keys of past steps; the next one has the values."""
TABLE = Path(__file__).with_suffix(".json")


class Requirement(NamedTuple):
    """The requirements on the nodes of an operator.

    Attributes:
        inputs: the names of the first inputs; those without a name may be left out.
        attributes: the names of the attributes.
        known: the names of all attributes that they may have; None for an operator that the table lacks.
    """

    inputs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None


@cache
def _requirements() -> Mapping[str, Requirement]:
    """The operators that dmlpy runs."""
    stored = json.loads(TABLE.read_text("utf-8"))
    return {name: Requirement(*(tuple(item[member]) for member in Requirement._fields)) for name, item in stored.items()}


def part_problems(node: Node) -> Iterator[Problem]:
    """The inputs and attributes that a node of com.microsoft lacks, and attributes that its operator does not have."""
    required = _requirements().get(node.op_type, Requirement())
    for index, name in enumerate(required.inputs):
        if name and not node.has(index):
            yield Problem("onnx.missing", f"input {index} {name!r}", "left out", "an input that the operator requires")
    for name in required.attributes:
        if name not in node.attributes:
            yield Problem("onnx.missing", name, "left out", "an attribute that the operator requires")
    if (known := required.known) is None:
        return
    for name in node.attributes:
        if name not in known:
            expected = f"one of {node.op_type}'s: {listed(known)}" if known else "none"
            yield Problem("onnx.invalid", name, "an attribute that it does not have", expected)


def past_problems(node: Node, index: int) -> Iterator[Problem]:
    """Keys of past steps without values, or of others: without elements they are as good as left out, but then both are.

    Args:
        node: the node.
        index: the input that has the keys; the next one has the values.
    """
    keys, values = node.has(index), node.has(index + 1)
    if keys != values:
        absent, given = (index + 1, index) if keys else (index, index + 1)
        yield Problem("onnx.invalid", f"input {absent}", "left out", f"given, as input {given} is: keys and values of the same past steps")
        return
    first, second = (node.value(at).sizes if keys else None for at in (index, index + 1))
    # Other sizes may not be known yet, but what has no elements is left out already.
    is_sized = first is not None and second is not None and len(first) == len(second) == 4
    if is_sized and first and second and None not in (first[2], second[2]) and first[2] != second[2]:
        expected = f"{first[2]} past steps, as input {index}, {listed(first)}, has"
        yield Problem("onnx.invalid", f"input {index + 1}", listed(second), expected)
    if node.op_type == "GroupQueryAttention":
        yield from _grouped_past_problems(node, index)


def _grouped_past_problems(node: Node, index: int) -> Iterator[Problem]:
    """Keys and values of past steps that have other heads than the new ones, with elements or without.

    Args:
        node: a GroupQueryAttention.
        index: the input that has the keys of past steps.
    """
    heads, groups = (node.attribute(name, 0) for name in ("num_heads", "kv_num_heads"))
    is_quantized = node.attribute("kv_cache_bit_width", 0) or "k_quant_type" in node.attributes
    new = node.value(1 if node.has(1) else 0).sizes if groups else None
    if is_quantized or new is None or len(new) != 3 or not isinstance(new[2], int):
        return
    size = new[2] // (groups if node.has(1) else heads + 2 * groups)
    for at in (index, index + 1):
        sizes = node.value(at).sizes if node.has(at) else None
        if sizes is None or len(sizes) != 4:
            continue
        if not can_be_equal((sizes[1], sizes[3]), (groups, size)):
            expected = f"[batch, {groups}, steps, {size}], for the heads of the new keys and values"
            yield Problem("onnx.invalid", f"input {at}", listed(sizes), expected)
