"""The facts in `dmlpy/evidence`: their form, and that dmlpy does what each of them says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.conformance.cases import cases, runs
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.int4 import pack_tensor
from dmlpy.description.registry import OPERATORS
from dmlpy.evidence.descs import evidence_descs
from dmlpy.evidence.facts import FACT_CLASSES, PAGES, Fact, facts
from dmlpy.evidence.sources import sources
from dmlpy.graphs import ConstantNode, Graph, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from tests.support.generators import evidence_descs as make_evidence_descs
from tests.support.released import RELEASED_DESCS
from tests.support.released.attention import recurrent
from tests.support.released.fact_descs import SHOWN
from tests.support.released.fact_values import VALUED, Valued
from tests.support.released.rows import f16, f32, i64, u4, u8, u16, u32, u64
from tests.support.tables import table

KINDS = {kind.short_name(): kind for kind in OPERATORS.values() if not kind.is_extension}
FACTS = {fact.id: fact for fact in facts()}
OPEN = ("differs", "question")


def _form_problems(fact: Fact) -> list[str]:
    found = []
    matched = [[name for name in KINDS if fnmatch(name, pattern)] for pattern in fact.operators]
    if not all(matched):
        found.append("an operator that does not exist")
    if fact.field and not all(any(fact.field in KINDS[name].model_fields for name in names) for names in matched):
        found.append(f"no operator has {fact.field}")
    first, last = map(FeatureLevel.parse, fact.levels)
    if first > last:
        found.append("levels in the wrong order")
    if fact.kind not in FACT_CLASSES or fact.page not in PAGES:
        found.append(f"class {fact.kind} or page {fact.page}")
    if bool(fact.reason) != (fact.kind in OPEN):
        found.append("a reason where dmlpy does the same, or none where it does not")
    if not fact.text.endswith(".") or not fact.sources or not all(place for _, place in fact.sources):
        found.append("no sentence, or no place in a source")
    return [f"{fact.id}: {text}" for text in found]


def test_facts_have_their_form() -> None:
    assert [text for fact in facts() for text in _form_problems(fact)] == []
    assert [name for name, count in Counter(fact.id for fact in facts()).items() if count > 1] == []
    assert [text for text, count in Counter((fact.text, fact.operators, fact.levels) for fact in facts()).items() if count > 1] == []


def test_every_source_is_named_and_used() -> None:
    used = {source.key for fact in facts() for source, _ in fact.sources}
    assert sorted(used) == sorted(sources())
    assert [key for key, source in sources().items() if bool(source.commit) != bool(source.date) or not source.name] == []


@pytest.mark.parametrize("source", sorted({row.source for row in RELEASED_DESCS}))
def test_descs_of_released_programs_are_accepted(source: str) -> None:
    wrong = []
    for row in (row for row in RELEASED_DESCS if row.source == source):
        problems = dml.check(row.complete, row.level)
        found = {problem.severity for problem in problems} or {"accepted"}
        if found != {row.verdict}:
            wrong.append((row.what, row.desc.short_name(), row.level, [str(problem) for problem in problems]))
    assert wrong == []


def test_descs_of_released_programs_are_many_and_different() -> None:
    assert len({(row.desc, row.level) for row in RELEASED_DESCS}) == len(RELEASED_DESCS) >= 253
    assert len({type(row.desc) for row in RELEASED_DESCS}) >= 165


def test_directml_is_asked_about_these_descs() -> None:
    """`dmlpy conformance` needs them where there are no tests: in a wheel, on Windows."""
    assert make_evidence_descs.main(["--check"]) == 0
    assert len(evidence_descs()) == len(RELEASED_DESCS) + len(SHOWN) - 2  # the length of one array contradicts that of another one
    for row in RELEASED_DESCS[::40]:
        assert row.complete in cases(type(row.desc))
        assert row.verdict != "accepted" or row.complete in runs(type(row.desc), FeatureLevel.FL_6_4)


FAMILIES = sorted({row.fact.rpartition("-")[0] for row in SHOWN})


@pytest.mark.parametrize("family", FAMILIES)
def test_descs_show_facts(family: str) -> None:
    wrong = []
    for row in (row for row in SHOWN if row.fact.rpartition("-")[0] == family):
        fact = FACTS[row.fact]
        first, last = map(FeatureLevel.parse, fact.levels)
        problems = dml.check(row.desc, row.level)
        codes = {problem.code for problem in problems}
        if (codes and not row.code) or (row.code and row.code not in codes):
            wrong.append((row.fact, row.level, [str(problem) for problem in problems]))
        if not row.code and not first <= FeatureLevel.parse(row.level) <= last:  # a refusal may be shown below the first level
            wrong.append((row.fact, row.level, ["a level that the fact is not about"]))
        if fact.operators and not fact.is_about(row.desc.short_name()):
            wrong.append((row.fact, row.level, [f"not about {row.desc.short_name()}"]))
    assert wrong == []


def _inputs(row: Valued) -> dict[str, Any]:
    found = {}
    for slot in row.desc.input_slots():
        if slot.tensor is not None:
            tensor = slot.tensor
            array = np.array(row.inputs[slot.place]).astype(tensor.data_type.unpacked).reshape(tensor.sizes)
            found[slot.place] = pack_tensor(array, tensor) if tensor.data_type.bits == 4 else array
    return found


def _first_output(row: Valued) -> np.ndarray[Any, Any]:
    place = next(slot.place for slot in row.desc.output_slots() if slot.tensor is not None)
    result = getattr(dml.compile(row.desc, "numpy")(**_inputs(row)), place)
    return np.asarray(result, np.float64).ravel()


@table("row", VALUED, ids=[f"{row.fact}-{row.desc.short_name()}" for row in VALUED])
def test_results_show_facts(row: Valued) -> None:
    fact = FACTS[row.fact]
    found = _first_output(row)
    np.testing.assert_allclose(found, row.result, rtol=1e-6)
    assert not fact.operators or fact.is_about(row.desc.short_name())
    # A row that records DirectML's result is one where dmlpy says that it differs, and the other way round.
    assert (row.directml is not None) == (fact.kind == "differs")
    assert row.directml is None or not np.allclose(found, row.directml, rtol=1e-6)


RECIPROCAL = [row for row in VALUED if row.directml is not None and row.desc.short_name() == "ELEMENT_WISE_QUANTIZE_LINEAR"]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("row", RECIPROCAL, ids=[row.fact for row in RECIPROCAL])
def test_quantization_divides_where_directml_multiplies_by_the_reciprocal(row: Valued, device: str) -> None:
    """What the facts say of both: dmlpy divides, and the recorded results are those of the rounded reciprocal."""
    x, scale = np.float32(row.inputs["input_tensor"][0]), np.float32(row.inputs["scale_tensor"][0])
    zero = row.inputs["zero_point_tensor"][0]
    assert [np.round(x / scale) + zero] == row.result
    assert [np.round(x * (np.float32(1) / scale)) + zero] == row.directml
    found = dml.compile(row.desc, device)(**_inputs(row)).output_tensor
    np.testing.assert_array_equal(found, row.result)


def _graph(nodes: list[Any], **members: Any) -> Graph:
    return Graph(
        **{"input_count": 1, "output_count": 1, "nodes": nodes, "input_edges": [_in(0)], "output_edges": [_out(len(nodes) - 1)]} | members
    )


def _in(node: int, slot: int = 0, graph_input: int = 0) -> InputEdge:
    return InputEdge(graph_input_index=graph_input, to_node_index=node, to_node_input_index=slot)


def _out(node: int, slot: int = 0, graph_output: int = 0) -> OutputEdge:
    return OutputEdge(from_node_index=node, from_node_output_index=slot, graph_output_index=graph_output)


def _link(writer: int, reader: int, slot: int = 0, output: int = 0) -> IntermediateEdge:
    return IntermediateEdge(from_node_index=writer, from_node_output_index=output, to_node_index=reader, to_node_input_index=slot)


def _node(desc: OperatorDesc) -> OperatorNode:
    return OperatorNode(operator=desc)


def _copy(given: dml.TensorDesc, made: dml.TensorDesc | None = None) -> OperatorNode:
    return _node(dml.ElementWiseIdentityDesc(input_tensor=given, output_tensor=made or given))


def _pair(written: dml.TensorDesc, read: dml.TensorDesc, made: dml.TensorDesc | None = None) -> Graph:
    """A copy whose output another copy reads under another description."""
    return _graph([_copy(written), _copy(read, made)], intermediate_edges=[_link(0, 1)])


def _add(a: dml.TensorDesc) -> OperatorNode:
    return _node(dml.ElementWiseAddDesc(a_tensor=a, b_tensor=a, output_tensor=a))


def _top_k() -> OperatorNode:
    desc = dml.TopK1Desc(input_tensor=f32(4), output_value_tensor=f32(2), output_index_tensor=u64(2), axis=0, k=2)
    return _node(desc)


def _constant_sum() -> Graph:
    return _graph([ConstantNode(data=bytes(8)), _add(f32(2))], input_edges=[_in(1)], intermediate_edges=[_link(0, 1, 1)])


def _read_top_k() -> Graph:
    cast = _node(dml.CastDesc(input_tensor=i64(2), output_tensor=f32(2)))
    return _graph([_top_k(), cast], intermediate_edges=[_link(0, 1, output=1)])


def _null_slots() -> Graph:
    """A layer without a bias and an initial state, whose lengths are still input 5."""
    desc = recurrent(
        dml.RNNDesc,
        states=False,
        bias=False,
        activation_descs=[dml.ActivationTanhDesc()],
        sequence_lengths_tensor=u32(1, 1, 1, 3),
        output_single_tensor=f32(1, 1, 3, 5),
    )
    edges = [_in(0, slot, number) for number, slot in enumerate((0, 1, 2, 5))]
    return _graph([_node(desc)], input_count=4, input_edges=edges, output_edges=[_out(0, 1)])


GRAPHS: list[tuple[str, str, str, str, Callable[[], Graph]]] = [
    ("graphs-01", "2_0", "level.graph", "level.graph", lambda: _graph([_copy(f32(1, 1, 1, 2))])),
    ("graphs-02", "6_1", "level.constant", "level.constant", _constant_sum),
    ("graphs-02", "6_2", "", "", _constant_sum),
    ("graphs-03", "2_1", "", "", lambda: _pair(f32(1, 1, 2, 3), f32(1, 1, 1, 6))),
    ("graphs-04", "5_0", "", "", _read_top_k),
    (
        "graphs-05",
        "6_4",
        "graph.data_type",
        "",
        lambda: _graph(
            [
                _node(dml.FillValueConstantDesc(output_tensor=u8(1, 1), value_data_type="UINT8", value=0)),
                _node(
                    dml.DequantizeDesc(
                        input_tensor=u4(4, 2),
                        quantization_type="SCALE_ZERO_POINT",
                        quantization_tensors=[f32(4, 2), u4(4, 2, strides=[0, 0])],
                        output_tensor=f32(4, 2),
                    )
                ),
            ],
            input_count=2,
            input_edges=[_in(1), _in(1, 1, 1)],
            intermediate_edges=[_link(0, 1, 2)],
        ),
    ),
    ("graphs-06", "4_0", "graph.data_type", "", lambda: _pair(f16(2), u16(2))),
    ("graphs-07", "5_0", "", "", lambda: _graph([_top_k()], output_edges=[_out(0, 1)])),
    ("graphs-08", "4_0", "", "", lambda: _graph([_node(dml.SplitDesc(input_tensor=f32(4), output_tensors=[f32(2), f32(2)], axis=0))])),
    (
        "graphs-09",
        "4_0",
        "graph.unread",
        "graph.unread",
        lambda: _graph([_copy(f32(2)), _copy(f32(2))], input_edges=[_in(0), _in(1)], output_edges=[_out(0)]),
    ),
    ("graphs-10", "4_0", "graph.unused_input", "", lambda: _graph([_copy(f32(2))], input_count=2)),
    (
        "graphs-12",
        "4_0",
        "",
        "",
        lambda: _graph(
            [_copy(f32(2)), _copy(f32(2))], output_count=2, intermediate_edges=[_link(0, 1)], output_edges=[_out(0), _out(1, 0, 1)]
        ),
    ),
    ("graphs-13", "4_0", "", "", lambda: _graph([_copy(f32(2)), _add(f32(2))], intermediate_edges=[_link(0, 1), _link(0, 1, 1)])),
    (
        "graphs-14",
        "4_0",
        "",
        "",
        lambda: _graph(
            [_copy(f32(2, 3)), _copy(f32(6))], output_count=2, input_edges=[_in(0), _in(1)], output_edges=[_out(0), _out(1, 0, 1)]
        ),
    ),
    (
        "graphs-15",
        "6_2",
        "",
        "",
        lambda: _graph([ConstantNode(data=bytes(8)), _copy(f32(2))], input_count=0, input_edges=[], intermediate_edges=[_link(0, 1)]),
    ),
    (
        "graphs-17",
        "4_0",
        "graph.owned_mixed",
        "graph.owned_mixed",
        lambda: _graph(
            [_copy(f32(2, flags="OWNED_BY_DML"), f32(2)), _copy(f32(2))],
            output_count=2,
            input_edges=[_in(0), _in(1)],
            output_edges=[_out(0), _out(1, 0, 1)],
        ),
    ),
    ("graphs-18", "4_0", "", "", _null_slots),
    (
        "graphs-19",
        "4_0",
        "",
        "",
        lambda: _graph([_copy(f32(2)), _copy(f32(2))], input_edges=[_in(1)], intermediate_edges=[_link(1, 0)], output_edges=[_out(0)]),
    ),
]


@pytest.mark.parametrize(("fact", "level", "code", "lenient", "make"), GRAPHS, ids=[f"{row[0]}-{row[1]}" for row in GRAPHS])
def test_graphs_show_facts(fact: str, level: str, code: str, lenient: str, make: Callable[[], Graph]) -> None:
    graph = make()
    assert fact in FACTS
    assert [problem.code for problem in graph.check(level)] == ([code] if code else [])
    assert [problem.code for problem in graph.check(level, lenient=True)] == ([lenient] if lenient else [])


def test_members_come_in_the_order_that_callers_fill_them() -> None:
    assert "initial cell state" in FACTS["recurrent-49"].text
    names = [field.name for field in dml.LSTMDesc.inputs()]
    assert names[4:] == ["hidden_init_tensor", "cell_mem_init_tensor", "sequence_lengths_tensor", "peephole_tensor"]
    assert "input 11" in FACTS["attention-19"].text
    assert [field.name for field in dml.MultiheadAttention1Desc.inputs()][11] == "past_sequence_lengths_tensor"


@pytest.mark.parametrize("kind", [dml.ElementWiseAddDesc, dml.ElementWiseMaxDesc, dml.ElementWiseMinDesc])
def test_sums_and_extremes_accumulate_in_their_second_operand(kind: Any) -> None:
    assert "second operand" in FACTS["elementwise-27"].text
    assert kind.in_place
    a, b = np.float32([1, 5, 3]), np.float32([4, 2, 3])
    wanted = {dml.ElementWiseAddDesc: a + b, dml.ElementWiseMaxDesc: np.maximum(a, b), dml.ElementWiseMinDesc: np.minimum(a, b)}[kind]
    dml.compile(kind(a_tensor=f32(3), b_tensor=f32(3), output_tensor=f32(3)), "numpy")(a_tensor=a, b_tensor=b, output_tensor=b)
    np.testing.assert_array_equal(b, wanted)


def test_a_scaled_copy_runs_in_place() -> None:
    assert "in place" in FACTS["elementwise-28"].text
    x = np.float32([3, 6, 9])
    desc = dml.ElementWiseIdentityDesc(input_tensor=f32(3), output_tensor=f32(3), scale_bias={"scale": 1 / 3, "bias": 0})
    dml.compile(desc, "numpy")(input_tensor=x, output_tensor=x)
    np.testing.assert_allclose(x, [1, 2, 3], rtol=1e-6)
