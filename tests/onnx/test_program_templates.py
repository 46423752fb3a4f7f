"""Programs for new sizes: equal to those that are lowered for these sizes, in any order of sizes, and of few lowerings."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node, make_tensor_value_info

import dmlpy as dml
from dmlpy import onnx
from dmlpy.description.sized_copies import is_alike
from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.graphs.buffers import BufferAssignment
from dmlpy.devices.graphs.scheduler import TaskGraph
from dmlpy.graphs import checking as graph_checking
from dmlpy.messages.problems import CompileError
from dmlpy.onnx.lowering.cache import LRUCache
from dmlpy.onnx.lowering.model_lowering import Lowering
from dmlpy.onnx.lowering.program_templates import ProgramTemplates, _holds_numbers
from dmlpy.onnx.lowering.symbolic_inference import _FORMULAS, _UNKNOWN
from dmlpy.onnx.nodes.node import NotLowered
from dmlpy.onnx.runtime.deferred_nodes import DeferredNodes
from dmlpy.validation import checking
from dmlpy.validation.checking import LATEST
from tests.support.onnx.models import model
from tests.support.onnx.open_size_models import CASES, DIMS, MODELS, PLACES, ROUNDED_SCALE, ROUNDED_UP, Case, arithmetic
from tests.support.onnx.open_sizes import decoder, normal
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(31)


NIGHTLY = ("GridSample, aligned", "signs", "a choice by size", "sizes by Shape of a part")

SIZES = ((4, 6), (5, 9), (7, 5), (100, 7), (6, 64), (8, 8), (1, 5), (3, 1), (1, 1), (2, 3), (17, 2))
"""Two that differ in both, others, such that are equal, and ones, which broadcast."""


def prepared(made: Any) -> tuple[ProgramTemplates, Any, Counter[str]]:
    """The templates of a model, what lowers it without any, and a count of lowerings."""
    loaded, count = onnx.load(made), Counter[str]()

    def lower(inputs: Mapping[str, Any]) -> Any:
        count["lowered"] += 1
        own = loaded.with_inputs({name: value.sizes for name, value in inputs.items()})
        if problems := own.interpretation().problems:
            raise CompileError("case", problems)
        return own.program()

    def inputs(**sizes: int) -> dict[str, Any]:
        def of(value: Any) -> Any:
            return replace(value, sizes=tuple(sizes.get(size, size) if isinstance(size, str) else size for size in value.sizes))

        return {name: of(value) for name, value in loaded.inputs.items()}

    return ProgramTemplates(LATEST, lower, LRUCache(1 << 28)), (lower, inputs), count


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in NIGHTLY)) for name in (*CASES, *MODELS)])
def test_programs_equal_those_that_are_lowered_for_their_sizes(name: str) -> None:
    """In a random order, so that each size is seen first, second and later in some run; and few are lowered for larger sizes."""
    templates, (lower, inputs), count = prepared(CASES[name].model() if name in CASES else MODELS[name]())
    order = [(4, 6), (5, 9), (7, 11), *[SIZES[at] for at in RNG.permutation(len(SIZES))]]
    for a, b in order:
        given = inputs(a=a, b=b)
        found, expected = templates.program(given), lower(given)
        assert found is not None
        assert is_alike(found, expected), (a, b)
        assert [graph.to_dict() for graph in found.graphs] == [graph.to_dict() for graph in expected.graphs]
        assert not any(graph.check(lenient=True) for graph in found.graphs)
    count.clear()
    for a, b in ((21, 33), (22, 35), (90, 47), (31, 29)):
        assert templates.program(inputs(a=a, b=b)) is not None
    assert count["lowered"] == 0 or name in (ROUNDED_UP, ROUNDED_SCALE), "where some sizes differ, templates for ones leave no room for all"


@pytest.mark.parametrize("by_tuples", [False, True])
def test_a_template_refuses_indices_beyond_the_data(by_tuples: bool) -> None:
    """Positions along one size that index another: they are in range only where that is as large."""
    nodes = [
        *DIMS,
        ("Range", "at0 d0 at1", "positions"),
        *([("Unsqueeze", "positions second", "rows"), ("Transpose", "x", "turned", {"perm": [1, 0, 2]})] if by_tuples else []),
        ("GatherND", "turned rows", "y") if by_tuples else ("Gather", "x positions", "y", {"axis": 1}),
    ]
    templates, (lower, inputs), count = prepared(arithmetic(nodes, second=[1], **PLACES))
    for a, b in ((4, 6), (5, 9), (7, 11)):
        assert is_alike(templates.program(inputs(a=a, b=b)), lower(inputs(a=a, b=b)))
    count.clear()
    templates.program(inputs(a=12, b=12))
    assert not count
    with pytest.raises(CompileError, match="expected -12 to 11: axis"):
        templates.program(inputs(a=13, b=12))


def test_odd_and_even_sizes_have_templates_of_their_own() -> None:
    templates, (lower, inputs), count = prepared(CASES[ROUNDED_UP].model())
    for a in range(10, 20):
        given = inputs(a=a, b=2)
        assert is_alike(templates.program(given), lower(given))
        count.clear()
    for a in range(20, 26):
        templates.program(inputs(a=a, b=2))
    assert count["lowered"] == 0


def test_a_template_gives_way_to_one_of_the_sizes_that_come() -> None:
    """The one whose last use is longest ago, once none has held for some sizes; each time it takes more of them."""
    parts = [3, 5, 7, 9, 11, 13]
    nodes = [make_node("Slice", ["x", "zero", f"n{at}", "zero"], [f"y{at}"]) for at in parts]
    constants = {"zero": np.array([0]), **{f"n{at}": np.array([at]) for at in parts}}
    templates, (lower, inputs), count = prepared(model(nodes, {"x": ["a", 2]}, [f"y{at}" for at in parts], constants=constants))

    def lowered(*sizes: int) -> list[int]:
        """For which of the sizes nodes were lowered: symbolically, or once more where a template is compared with them."""
        found = []
        for a in sizes:
            count.clear()
            program = templates.program(inputs(a=a))
            found += [a] * bool(count["lowered"])
            assert is_alike(program, lower(inputs(a=a)))
        return found

    assert lowered(4, 6, 8, 10, 12) == [4, 6, 8, 10, 12]
    assert lowered(6, 8, 10, 12) == []
    assert lowered(*range(20, 30)) == [20, 21, 22, 23, 24], "the last one for a template"
    assert lowered(8, 10, 12) == [], "that of 6 gave way"
    assert lowered(*[4, 6] * 6) == [*[4, 6] * 5, 6], "the ninth has a template for 4"


def test_templates_count_towards_what_is_kept() -> None:
    """Where there is no room for a template, or when others take it, nodes are lowered again."""
    templates, (_, inputs), count = prepared(CASES["MatMul"].model())
    cache = templates._cache
    for a, b in ((4, 6), (5, 9)):
        templates.program(inputs(a=a, b=b))
    assert cache.used_bytes > 1 << 16
    cache.put("another", None, cache.max_bytes)
    assert len(cache) == 1
    count.clear()
    templates.program(inputs(a=21, b=33))
    assert count["lowered"] == 1


def test_formulas_are_tested() -> None:
    """Those of several operators by one of these."""
    op_types = {case.op_type for case in CASES.values()} | {node.op_type for made in MODELS.values() for node in made().graph.node}
    tested = {id(_FORMULAS[op_type]) for op_type in op_types if op_type in _FORMULAS}
    untested = {name for name, formula in _FORMULAS.items() if id(formula) not in tested}
    assert not untested


@pytest.mark.parametrize(
    "compute",
    [
        lambda size: 3 / size,
        lambda size: size / 3,
        lambda size: size**2,
        lambda size: divmod(size, 2),
        abs,
        round,
        range,
        lambda size: size > 1,
    ],
    ids=["dividend", "divisor", "power", "remainder", "magnitude", "rounded", "range", "comparison"],
)
def test_a_formula_that_needs_an_unknown_size_gives_way(compute: Any) -> None:
    with pytest.raises(NotLowered):
        compute(_UNKNOWN)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def test_no_result_depends_on_the_order_of_sizes(seed: int) -> None:
    """Caches of attention of which keys and values may differ, which is refused with the same words as for these sizes alone."""
    case, rng = decoder(1), np.random.default_rng(seed)
    compiled = onnx.load(case.proto).compile("numpy")
    for _ in range(14):
        keys, number = rng.integers(0, 7, 2)
        given = dict(case.given(int(keys)))
        if number == 0:
            given["layer0/past_v"] = normal(1, 2, int(keys) + 1, 4)
        alone = onnx.load(case.proto, sizes={name: list(array.shape) for name, array in given.items()})
        if number == 0:
            with pytest.raises(dml.DmlError) as expected:
                alone.compile("numpy")
            with pytest.raises(dml.DmlError) as told:
                compiled(given)
            assert str(told.value) == str(expected.value)
            continue
        right, found = alone.compile("numpy")(given), compiled(given)
        for name, array in right.items():
            assert_close(found[name], array, np.float32)


def test_a_device_finds_places_once_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fusions, places of values and the validity of descs follow from symbolic sizes, too: nothing is searched or checked again.

    For more than 32 keys NumPy's softmax has another strategy, and these sizes a template of their own.
    """
    searched = Counter[str]()
    made, problems = BufferAssignment.__init__, checking._problems

    def checked(*arguments: Any, **options: Any) -> Any:
        searched["descs"] += 1
        return problems(*arguments, **options)

    def searching(own: Any, *arguments: Any) -> None:
        searched["graphs"] += 1
        made(own, *arguments)

    monkeypatch.setattr(BufferAssignment, "__init__", searching)
    monkeypatch.setattr(checking, "_problems", checked)
    case = decoder(1)
    compiled = onnx.load(case.proto).compile("numpy")
    for past in (5, 7, 6, 8):
        compiled(case.given(past))
    searched.clear()
    for past in (9, 11, 10, 50, 60, 70, 12):
        given = case.given(past)
        found = compiled(given)
        assert bool(searched) == (past in (50, 60)), "the second one is compared with what numbers give"
        right = onnx.load(case.proto, sizes={name: list(array.shape) for name, array in given.items()}).compile("numpy")(given)
        for name, array in right.items():
            assert_close(found[name], array, np.float32)
        searched.clear()


def test_copies_of_what_knows_other_sizes() -> None:
    """A graph never changes, and a compiled model may be shared: a copy is the object itself, with what is known of other sizes."""
    templates, (_, inputs), _ = prepared(CASES["Softmax"].model())
    programs = [templates.program(inputs(a=a, b=b)) for a, b in SIZES[:6]]
    graph = next(graph for program in programs if program is not None for graph in program.graphs if graph.template is not None)
    for copied in (copy.copy(graph), copy.deepcopy([graph])[0], graph.model_copy(), graph.model_copy(deep=True)):
        assert copied is graph
    loaded = pickle.loads(pickle.dumps(graph))
    assert loaded == graph
    assert loaded.template is None
    compiled = onnx.load(CASES["Softmax"].model()).compile("numpy")
    assert copy.copy(compiled) is copy.deepcopy({"model": compiled})["model"] is compiled


def test_an_lstm_of_a_new_length_solves_no_size_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sizes as numbers are formulas as well."""
    solved = Counter[str]()
    bound = dml.LSTMDesc._bound_sizes

    def solving(desc: Any) -> Any:
        solved["descs"] += 1
        return bound(desc)

    monkeypatch.setattr(dml.LSTMDesc, "_bound_sizes", solving)
    proto = CASES["LSTM"].model()
    compiled = onnx.load(proto).compile("numpy")
    for steps in (4, 5, 9, 7):
        compiled(x0=normal(steps, 2, 3))
    solved.clear()
    for steps in (11, 30):
        given = {"x0": normal(steps, 2, 3)}
        found = compiled(given)
        assert not solved
        for name, array in onnx.load(proto, sizes={"x0": [steps, 2, 3]}).compile("numpy")(given).items():
            assert_close(found[name], array, np.float32)
        solved.clear()


PLANNED_ANEW = {
    *("Resize", "Resize, linear, aligned", ROUNDED_SCALE, "Upsample of opset 9", "twice as large"),
    "Resize, cubic, aligned",
}
"""What needs numbers, as NumPy does that finds weights of elements, or has another strategy for one of these sizes."""
ONE_OF_A_FAMILY = (
    *(
        "Softmax",
        "LayerNormalization",
        "BatchNormalization",
        "Where",
        "Gemm",
        "MatMul of five",
        "Concat",
        "Slice of steps",
        "ReduceMean",
        "GlobalAveragePool",
    ),
    *("Conv", "MaxPool", "ConvTranspose", "Pad", "GatherElements", "ScatterElements", "Dropout", "a causal mask", "LSTM"),
    *("Add of two", "GridSample"),
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in ONE_OF_A_FAMILY)) for name in (*CASES, *MODELS)]
)
def test_plans_of_new_sizes_follow_and_compute_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a model that is compiled for these sizes alone, bit for bit; the first sizes tell all that the device plans."""
    pytest.importorskip("llvmlite")
    planned, plan, search, own = Counter[str](), CpuDevice.plan, TaskGraph.order, CASES.get(name, Case("", [["a", "b", 6]]))
    level_problems = graph_checking._level_problems

    def planning(device: CpuDevice, desc: Any, *flags: Any) -> Any:
        planned[type(desc).__name__] += 1
        return plan(device, desc, *flags)

    def searching(tasks: TaskGraph, given: Sequence[int]) -> tuple[int, ...]:
        planned["order of nodes"] += 1
        return search(tasks, given)

    def graph_checked(*arguments: Any) -> Any:
        planned["checks of graphs"] += name != "a causal mask"  # the constant of each size is computed by a graph
        return level_problems(*arguments)

    monkeypatch.setattr(CpuDevice, "plan", planning)
    monkeypatch.setattr(TaskGraph, "order", searching)
    monkeypatch.setattr(graph_checking, "_level_problems", graph_checked)
    proto = own.model() if name in CASES else MODELS[name]()
    compiled = onnx.load(proto).compile("cpu")
    for number, (a, b) in enumerate(((21, 41), (23, 43), (25, 45), (27, 47), (29, 47))):
        given = {}
        for value, shape, element in zip_longest(proto.graph.input, own.inputs, own.elements):
            sizes = [{"a": a, "b": b}.get(size, size) for size in shape]
            dtype = helper.tensor_dtype_to_np_dtype(element or TensorProto.FLOAT)
            given[value.name] = normal(*sizes) if dtype == np.float32 else RNG.integers(0, 2, sizes).astype(dtype)
        planned.clear()
        found = compiled(given)
        new = +planned
        if number < 2:
            continue
        right = onnx.load(proto, sizes={key: list(array.shape) for key, array in given.items()}).compile("cpu")(given)
        for key, array in right.items():
            np.testing.assert_array_equal(found[key], array, strict=True)
    assert bool(new) == (name in PLANNED_ANEW), new


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("elements that are not zero", lambda a, b: normal(a, b, 6) * (RNG.random((a, b, 6)) > 0.2).astype(np.float32)),
        ("sizes that follow from elements", lambda a, b: np.minimum(normal(a, b, 6), 2.5) + np.float32(b)),
        ("lengths of floats that follow from elements", lambda a, b: np.minimum(normal(a, b, 6), 0.5) + np.float32(b)),
        ("random numbers of a computed size", lambda a, b: normal(a, b, 6)),
    ],
)
def test_nodes_that_wait_are_lowered_for_few_sizes(name: str, given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither they nor the model around them, once templates hold; also for sizes that are elements of what the model computes."""
    count, lower, of = Counter[str](), DeferredNodes._lower, vars(Lowering)["_lower_model"].__func__

    def waiting(own: Any, inputs: Any) -> Any:
        count["waiting"] += 1
        return lower(own, inputs)

    def whole(cls: Any, *arguments: Any) -> Any:
        count["whole"] += 1
        return of(cls, *arguments)

    monkeypatch.setattr(DeferredNodes, "_lower", waiting)
    monkeypatch.setattr(Lowering, "_lower_model", classmethod(whole))
    proto = MODELS[name]()
    compiled = onnx.load(proto).compile("numpy")
    for a, b in ((4, 6), (5, 9), (7, 11)):
        compiled(x=given(a, b))
    count.clear()
    for a, b in ((6, 8), (8, 7), (9, 13))[: 1 if "follow" in name else 3]:  # elements that keep changing are left to the host
        x = given(a, b)
        found = compiled(x=x)
        assert not count
        for key, array in onnx.load(proto, sizes={"x": [a, b, 6]}).compile("numpy")(x=x).items():
            np.testing.assert_array_equal(found[key], array, strict=True)
        count.clear()


def test_whole_numbers_that_are_no_lengths_leave_templates_for_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scales of a Resize that the model computes: no template takes them as symbols, and those of other sizes hold for one scale each."""
    count, lower = Counter[str](), DeferredNodes._lower

    def lowered(own: Any, inputs: Any) -> Any:
        count["lowered"] += 1
        return lower(own, inputs)

    monkeypatch.setattr(DeferredNodes, "_lower", lowered)
    nodes = [make_node("Mul", ["s", "one"], ["scales"]), make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")]
    proto = model(nodes, {"x": ["a", "b"], "s": [2]}, ["y"], constants={"one": np.float32(1)})
    compiled = onnx.load(proto).compile("numpy")
    scales = ((2, 2), (4, 4), (3, 2))
    for number in range(12):
        compiled(x=normal(number + 2, 20 - number), s=np.array(scales[number % 3], np.float32))
    count.clear()
    for scale in scales:
        x = normal(31, 17)
        found = compiled(x=x, s=np.array(scale, np.float32))["y"]
        np.testing.assert_array_equal(found, np.repeat(np.repeat(x, scale[0], 0), scale[1], 1))
    assert not count


@pytest.mark.parametrize(
    ("array", "are_numbers"),
    [
        (np.array([3.0, -2.0], np.float32), True),
        (np.float64(1 << 20), True),
        (np.array([3], np.int32), True),
        (np.array([3, 2.5], np.float32), False),
        (np.array([-0.0], np.float32), False),
        (np.array([np.nan], np.float32), False),
        (np.array([np.inf]), False),
        (np.array([1 << 24], np.int32), False),
        (np.zeros(0, np.float32), False),
        (np.ones(65, np.float32), False),
        (np.array([True]), False),
    ],
)
def test_whole_numbers_of_other_types_may_be_symbolic(array: Any, are_numbers: bool) -> None:
    """Where an integer says all of an element: not the sign of zero, nor what FLOAT32 rounds."""
    assert _holds_numbers(np.asarray(array)) is are_numbers


@pytest.mark.parametrize("stated", [None, ["a", "b", 8]], ids=["", "sizes that the file states"])
def test_a_chain_over_two_open_sizes_is_found_once(stated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides are formulas as well; sizes that a file states for an operator that ONNX does not know hold for all."""
    pytest.importorskip("llvmlite")
    searched = Counter[str]()
    made = BufferAssignment.__init__

    def searching(own: Any, *arguments: Any) -> None:
        searched["graphs"] += 1
        made(own, *arguments)

    monkeypatch.setattr(BufferAssignment, "__init__", searching)
    nodes = [
        make_node("Add", ["x", "bias"], ["s"]),
        make_node("Mul", ["s", "x"], ["t"]),
        make_node("FastGelu", ["t"], ["y"], domain="com.microsoft"),
    ]
    proto = model(nodes, {"x": ["a", "b", 8]}, ["y"], constants={"bias": normal(8)}, domains={"com.microsoft": 1})
    if stated is not None:
        proto.graph.output[0].CopyFrom(make_tensor_value_info("y", TensorProto.FLOAT, stated))
    compiled = onnx.load(proto).compile("cpu")
    for a, b in ((4, 6), (5, 9), (7, 11), (6, 12)):
        compiled(x=normal(a, b, 8))
    searched.clear()
    for a, b in ((8, 13), (9, 14)):
        given = {"x": normal(a, b, 8)}
        found = compiled(given)
        assert not searched
        right = onnx.load(proto, sizes={"x": [a, b, 8]}).compile("cpu")(given)
        np.testing.assert_array_equal(found["y"], right["y"])
        searched.clear()
