"""Properties of checking over random descs: valid ones pass, anything else is reported and never crashes, problems have the right place."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from tests.support.descs import facts_reader as facts
from tests.support.descs.random_descs import LEVELS, Members, build, garbage_activations, garbage_descs, valid_members

quick = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


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


@settings(quick, max_examples=60)
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
def test_all_mistakes_are_reported_at_once(case: tuple[str, Members, dml.FeatureLevel], data: st.DataObject) -> None:
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


@settings(quick, max_examples=100)
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


@settings(quick, max_examples=70)
@given(small_layouts, st.sampled_from([item for item in dml.DataType if item.bits]))
def test_sizes_in_bytes_equal_brute_force(layout: list[tuple[int, int]], data_type: dml.DataType) -> None:
    desc = dml.TensorDesc(data_type=data_type, sizes=[size for size, _ in layout], strides=[stride for _, stride in layout])
    last = max(offsets(layout))
    assert desc.span == last + 1
    assert desc.extent_in_bytes == math.ceil((last + 1) * data_type.bits / 8)
    assert desc.minimum_size_in_bytes == 4 * math.ceil(desc.extent_in_bytes / 4)
    assert desc.element_count == math.prod(size for size, _ in layout)
    assert desc.is_packed == (offsets(layout) == list(range(desc.element_count)))
    minimum = desc.minimum_size_in_bytes
    for total, valid in ((minimum, True), (minimum + 4, True), (minimum - 1, minimum == 1), (1, minimum <= 1)):
        problems = desc.replace(total_tensor_size_in_bytes=total).problems(output=False)
        assert [problem.code for problem in problems if problem.code == "total_size.small"] == ([] if valid else ["total_size.small"])
