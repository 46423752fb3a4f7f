"""Properties of checking over random descs: valid ones pass, anything else is told and never crashes, blame falls where it belongs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from tests.support import facts_reader as facts
from tests.support.wrong_descs import STRUCTS, size_of

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LEVELS = list(dml.FeatureLevel)
ELEMENT = {"FLOAT32": 4, "FLOAT16": 2, "UINT32": 4}

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


@quick
@given(valid_members())
def test_valid_descs_pass_here_and_at_every_higher_level(case: tuple[str, Members, dml.FeatureLevel]) -> None:
    operator, members, level = case
    desc = build(operator, members)
    for higher in LEVELS[LEVELS.index(level) :]:
        assert dml.check(desc, higher) == []
    assert dml.check(desc, level, strict=True) == []


@quick
@given(valid_members())
def test_outputs_are_inferred(case: tuple[str, Members, dml.FeatureLevel]) -> None:
    operator, members, level = case
    outputs = [facts.python_name(field["name"]) for field in facts.operators()[operator]["fields"] if field["kind"] == "output"]
    bare = build(operator, members | dict.fromkeys(outputs))
    inferred = bare.with_outputs()
    assert dml.check(inferred, level) == []
    for name in outputs:
        tensor = getattr(inferred, name)
        assert tensor.strides is None
        assert tensor.data_type is bare.input_tensor.data_type
        if members[name] is not None:
            assert tensor.sizes == members[name].sizes


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


@settings(quick, max_examples=150)
@given(garbage_descs() | garbage_activations(), st.sampled_from(LEVELS), st.booleans())
def test_check_never_raises(desc: Any, level: dml.FeatureLevel, strict: bool) -> None:
    problems = dml.check(desc, level, strict=strict)
    for problem in problems:
        assert isinstance(problem, dml.Problem)
        assert problem.code
        assert problem.found
        assert problem.expected
        assert problem.field in ("", *type(desc).model_fields)
        assert "\n" not in problem.headline()
    # A broken desc can still be shown, sent and compared.
    assert str(desc).startswith(desc.c_name)
    for tensor in desc.tensors().values():
        assert str(tensor)
    desc.table(problems).to_html()
    assert dml.OperatorDesc.from_json(desc.to_json()) == desc
    if refused := dml.check(desc, level):
        with pytest.raises(dml.CompileError, match=f"^{desc.c_name}: {len(refused)} problem") as caught:
            dml.compile(desc, "numpy", level)
        assert list(caught.value.problems) == refused


def holders(operator: str) -> dict[str, list[tuple[str, int]]]:
    """Where each symbol stands: tensor and axis."""
    found: dict[str, list[tuple[str, int]]] = {}
    for slot, terms in facts.operators()[operator]["shapes"].items():
        for axis, term in enumerate(terms):
            symbol = term.rpartition("*")[2].strip()
            if not symbol.isdigit():
                found.setdefault(symbol, []).append((facts.python_name(slot), axis))
    return found


@quick
@given(valid_members(every_tensor=True), st.data())
def test_whoever_disagrees_is_blamed(case: tuple[str, Members, dml.FeatureLevel], data: st.DataObject) -> None:
    operator, members, level = case
    places = {symbol: found for symbol, found in holders(operator).items() if len(found) >= 3 or symbol == "num_directions"}
    symbol = data.draw(st.sampled_from(sorted(places)))
    name, axis = data.draw(st.sampled_from(places[symbol]))
    sizes = list(members[name].sizes)
    sizes[axis] += data.draw(st.integers(1, 40))
    mutant = dml.TensorDesc(data_type=members[name].data_type, sizes=sizes)
    problems = dml.check(build(operator, members | {name: mutant}), level)
    assert [problem.path for problem in problems] == [f"{name}.sizes[{axis}]"]
    assert problems[0].found == str(sizes[axis])
    assert problems[0].expected.endswith(f"{symbol} = {members[name].sizes[axis]}")
    witness = problems[0].why[1]
    assert witness.startswith(f"{symbol} = ")
    assert ("direction is" in witness) == (symbol == "num_directions")
    assert witness.count("_tensor.sizes") <= 3
    assert f"{name}.sizes[{axis}]" not in witness


MISTAKES: dict[str, tuple[str, Members]] = {
    "alignment.value": ("guaranteed_base_offset_alignment", {"guaranteed_base_offset_alignment": 3}),
    "total_size.small": ("total_tensor_size_in_bytes", {"total_tensor_size_in_bytes": 1}),
    "flag.owned": ("flags", {"flags": "OWNED_BY_DML"}),
    "stride.count": ("strides", {"strides": [1]}),
    "stride.range": ("strides[3]", {"strides": [1000, 100, 10, -1]}),
    "type.support": ("data_type", {"data_type": "INT8", "total_tensor_size_in_bytes": None}),
}


@quick
@given(valid_members(every_tensor=True), st.data())
def test_all_mistakes_are_told_at_once(case: tuple[str, Members, dml.FeatureLevel], data: st.DataObject) -> None:
    operator, members, level = case
    inputs = [facts.python_name(field["name"]) for field in facts.operators()[operator]["fields"] if field["kind"] == "input"]
    chosen = data.draw(st.lists(st.sampled_from(inputs), min_size=1, max_size=3, unique=True))
    expected = set()
    for name in chosen:
        code = data.draw(st.sampled_from(sorted(MISTAKES)))
        place, changes = MISTAKES[code]
        members = members | {name: members[name].replace(**changes)}
        expected.add((code, f"{name}.{place}"))
    desc = build(operator, members | {"activation_descs": []})
    problems = dml.check(desc, level)
    assert {(problem.code, problem.path) for problem in problems} == expected | {("activation_count", "activation_descs")}
    order = list(type(desc).model_fields)
    assert [problem.field for problem in problems] == sorted((problem.field for problem in problems), key=order.index)


small_layouts = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 13)), min_size=1, max_size=5)


def offsets(layout: list[tuple[int, int]]) -> list[int]:
    return [sum(steps) for steps in itertools.product(*([index * stride for index in range(size)] for size, stride in layout))]


@settings(quick, max_examples=300)
@given(small_layouts)
def test_overlap_equals_brute_force(layout: list[tuple[int, int]]) -> None:
    desc = dml.TensorDesc(data_type="FLOAT32", sizes=[size for size, _ in layout], strides=[stride for _, stride in layout])
    found = offsets(layout)
    assert desc.overlaps_itself() == (len(set(found)) < len(found))
    assert bool(desc.problems(output=True)) == desc.overlaps_itself()
    assert desc.problems(output=False) == []


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3000)), min_size=2, max_size=3))
@quick
def test_overlap_of_large_tensors_is_never_missed(layout: list[tuple[int, int]]) -> None:
    desc = dml.TensorDesc(data_type="FLOAT16", sizes=[size for size, _ in layout], strides=[stride for _, stride in layout])
    found = offsets(layout)
    if len(set(found)) < len(found):
        assert desc.overlaps_itself()


@settings(quick, max_examples=200)
@given(small_layouts, st.sampled_from([item for item in dml.DataType if item.bits]))
def test_sizes_in_bytes_equal_brute_force(layout: list[tuple[int, int]], data_type: dml.DataType) -> None:
    desc = dml.TensorDesc(data_type=data_type, sizes=[size for size, _ in layout], strides=[stride for _, stride in layout])
    last = max(offsets(layout))
    assert desc.span == last + 1
    assert desc.reached_bytes == math.ceil((last + 1) * data_type.bits / 8)
    assert desc.minimum_size_in_bytes == 4 * math.ceil(desc.reached_bytes / 4)
    assert desc.element_count == math.prod(size for size, _ in layout)
    assert desc.is_packed == (offsets(layout) == list(range(desc.element_count)))
    minimum = desc.minimum_size_in_bytes
    for total, valid in ((minimum, True), (minimum + 4, True), (minimum - 1, minimum == 1), (1, minimum <= 1)):
        problems = desc.replace(total_tensor_size_in_bytes=total).problems(output=False)
        assert [problem.code for problem in problems if problem.code == "total_size.small"] == ([] if valid else ["total_size.small"])
