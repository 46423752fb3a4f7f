"""Members and descs that Hypothesis draws: valid ones and garbage."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from tests.support.descs import facts_reader as facts
from tests.support.descs.wrong_descs import STRUCTS, size_of

LEVELS = list(dml.FeatureLevel)


Members = dict[str, Any]


@st.composite
def layouts(draw: st.DrawFn, sizes: tuple[int, ...], *, output: bool) -> tuple[int, ...] | None:
    """Strides of a legal layout: packed, padded, transposed; for inputs also broadcast."""
    if draw(st.booleans()):
        return None
    strides, reach = [0] * len(sizes), 1
    for axis in draw(st.permutations(range(len(sizes)))):
        strides[axis] = reach + draw(st.integers(0, 3))
        reach = strides[axis] * sizes[axis]
        if not output and draw(st.integers(0, 4)) == 0:
            strides[axis] = 0
    return tuple(strides)


@st.composite
def tensor_descs(draw: st.DrawFn, data_type: str, sizes: tuple[int, ...], *, output: bool = False) -> dml.TensorDesc:
    strides = draw(layouts(sizes, output=output))
    plain = dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)
    total = draw(st.sampled_from([None, plain.minimum_size_in_bytes, plain.minimum_size_in_bytes + 4, 2**40]))
    alignment = draw(st.sampled_from([0, 16, 256]))
    return plain.replace(total_tensor_size_in_bytes=total, guaranteed_base_offset_alignment=alignment)


def floats_of(name: str, attribute: str) -> st.SearchStrategy[float]:
    """Values that an activation's attribute may have at any level."""
    if (name, attribute) == ("DML_OPERATOR_ACTIVATION_SOFTPLUS", "Steepness"):
        return st.floats(1, 100, width=32)
    numbers = st.floats(width=32)
    return numbers.filter(lambda value: value != 0) if (name, attribute) == ("DML_OPERATOR_ACTIVATION_CELU", "Alpha") else numbers


@st.composite
def activations(draw: st.DrawFn, level: dml.FeatureLevel) -> dml.OperatorDesc:
    names = facts.recurrent_activations(accepted=True)
    name = draw(st.sampled_from([name for name in names if dml.FeatureLevel.parse(facts.operators()[name]["introduced"]) <= level]))
    attributes = [field["name"] for field in facts.operators()[name]["fields"] if field["type"] == "FLOAT"]
    return OPERATORS[name](**{attribute: draw(floats_of(name, attribute)) for attribute in attributes})


@st.composite
def valid_members(draw: st.DrawFn, *, every_tensor: bool = False) -> tuple[str, Members, dml.FeatureLevel]:
    """An operator, members of a valid desc by Python name, and a level at which it is valid."""
    operator = draw(st.sampled_from(STRUCTS))
    fact, relation = facts.operators()[operator], facts.relations()[operator]
    level = draw(st.sampled_from(LEVELS))
    direction = draw(st.sampled_from(sorted(relation["directions"])))
    symbols = {symbol: draw(st.integers(1, 6)) for symbol in ("seq_length", "batch_size", "input_size", "hidden_size")}
    symbols["num_directions"] = relation["directions"][direction]
    data_type = draw(st.sampled_from(["FLOAT32", "FLOAT16"]))
    outputs = [field["name"] for field in fact["fields"] if field["kind"] == "output"]
    wanted = draw(st.sets(st.sampled_from(outputs), min_size=1))
    members: Members = {}
    for slot, field in facts.tensors(fact).items():
        is_output = field["kind"] == "output"
        present = not field["optional"] or every_tensor or (slot in wanted if is_output else draw(st.booleans()))
        sizes = tuple(size_of(term, symbols) for term in fact["shapes"][slot])
        own = "UINT32" if slot in relation["type_of_its_own"] else data_type
        members[facts.python_name(slot)] = draw(tensor_descs(own, sizes, output=is_output)) if present else None
    count = relation["activations"]["both_ways" if symbols["num_directions"] == 2 else "one_way"]
    members["activation_descs"] = [draw(activations(level)) for _ in range(count)]
    members["direction"] = direction
    for field in fact["fields"]:
        if field.get("enum") == "BOOL":
            members[facts.python_name(field["name"])] = draw(st.booleans())
        elif field["type"] == "FLOAT":
            members[facts.python_name(field["name"])] = draw(st.floats(2**-20, 2**20, width=32))
    return operator, members, level


def build(operator: str, members: Members) -> Any:
    return OPERATORS[operator](**members)


# Numbers of every magnitude, legal and not; small ones often enough that layouts are legal by chance.
numbers = st.one_of(st.integers(0, 5), st.integers(-(2**70), 2**70), st.sampled_from([2**31, 2**32 - 1, 2**32, 2**64]))


garbage_tensors = st.builds(
    lambda data_type, sizes, strides, flags, total, alignment: dml.TensorDesc(
        data_type=data_type,
        sizes=sizes,
        strides=strides,
        flags=flags,
        total_tensor_size_in_bytes=total,
        guaranteed_base_offset_alignment=alignment,
    ),
    st.sampled_from(list(dml.DataType)),
    st.lists(numbers, max_size=10),
    st.none() | st.lists(numbers, max_size=10),
    st.sampled_from(list(dml.TensorFlags)),
    st.none() | numbers,
    numbers,
)


@st.composite
def garbage_activations(draw: st.DrawFn) -> dml.OperatorDesc:
    name = draw(st.sampled_from([name for name in OPERATORS if "_ACTIVATION_" in name]))
    members: Members = {}
    for field in facts.operators()[name]["fields"]:
        if field["type"] == "FLOAT":
            members[field["name"]] = draw(st.floats())
        elif field["type"] == "UINT_ARRAY":
            members[field["name"]] = draw(st.lists(numbers, max_size=4))
        elif field["type"] == "TENSOR_DESC":
            members[field["name"]] = draw(st.none() | garbage_tensors)
    return OPERATORS[name](**members)


@st.composite
def garbage_descs(draw: st.DrawFn) -> Any:
    operator = draw(st.sampled_from(STRUCTS))
    members: Members = {}
    for field in facts.operators()[operator]["fields"]:
        name = facts.python_name(field["name"])
        if field["type"] == "TENSOR_DESC":
            members[name] = draw((st.none() | garbage_tensors) if field["optional"] else garbage_tensors)
        elif field["type"] == "FLOAT":
            members[name] = draw(st.floats())
        elif field.get("enum") == "BOOL":
            members[name] = draw(st.booleans())
    members["activation_descs"] = draw(st.lists(garbage_activations(), max_size=4))
    members["direction"] = draw(st.sampled_from(list(dml.RecurrentDirection)))
    return build(operator, members)
