"""Programs for new sizes: equal to those that are lowered for these sizes, in any order of sizes, and of few lowerings."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node, make_tensor, make_tensor_value_info

import dmlpy as dml
from dmlpy import onnx
from dmlpy.description.sized_copies import is_alike
from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.graphs.buffers import BufferAssignment
from dmlpy.devices.graphs.scheduler import TaskGraph
from dmlpy.graphs import checking as graph_checking
from dmlpy.messages.problems import CompileError
from dmlpy.onnx.lowering.cache import LRUCache
from dmlpy.onnx.lowering.program_templates import ProgramTemplates
from dmlpy.onnx.lowering.symbolic_inference import _FORMULAS
from dmlpy.validation import checking
from dmlpy.validation.checking import LATEST
from tests.support.onnx.models import model
from tests.support.onnx.open_sizes import decoder, normal
from tests.support.tolerance import assert_close

RNG = np.random.default_rng(31)


@dataclass(frozen=True)
class Case:
    """A node of open sizes.

    Attributes:
        op_type: its operator.
        inputs: the sizes of its inputs, with names for those that are open.
        attributes: its attributes.
        constants: inputs that are known, behind the others.
        outputs: how many outputs it has.
        elements: the types of the first inputs, where they are not FLOAT.
        opset: the version of the operator.
    """

    op_type: str
    inputs: Sequence[Sequence[int | str]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[Any] = ()
    outputs: int = 1
    elements: Sequence[int] = ()
    opset: int = 21

    def model(self) -> Any:
        names = [f"x{at}" for at in range(len(self.inputs))]
        constants = {f"c{at}": np.asarray(array) for at, array in enumerate(self.constants)}
        outputs = [f"y{at}" for at in range(self.outputs)]
        node = make_node(self.op_type, [*names, *constants], outputs, **self.attributes)
        types = dict(zip(names, self.elements, strict=False))
        inputs = dict(zip(names, map(list, self.inputs), strict=True))
        domains = {"com.microsoft": 1}
        return model([node], inputs, outputs, constants=constants, types=types, opset=self.opset, domains=domains)


ROUNDED_UP, ROUNDED_SCALE = "MaxPool rounded up", "Resize, nearest, by a rounded scale"
AB = ["a", 3, "b"]
I64, U8 = TensorProto.INT64, TensorProto.UINT8
QUANTIZED = (np.float32(0.1), np.uint8(3))
BATCH = [[2, "a", 8], [1, 12, 8], [1, 12, 3]]
CASES = {
    "Relu": Case("Relu", [AB]),
    "Softmax": Case("Softmax", [["a", 2, "b"]], {"axis": -1}),
    "LayerNormalization": Case("LayerNormalization", [["a", "b", 6]], {"axis": -1}, [np.ones(6, np.float32)]),
    "LayerNormalization and its statistics": Case(
        "LayerNormalization", [["a", "b", 6]], {"axis": 1}, [np.ones((1, 6), np.float32)], outputs=3
    ),
    "Dropout": Case("Dropout", [AB], outputs=2),
    "BatchNormalization": Case("BatchNormalization", [["a", 3, "b", 5]], {}, [np.ones(3, np.float32)] * 4),
    "Add": Case("Add", [AB, [3, 1]]),
    "Add of two": Case("Add", [AB, ["a", 1, "b"]]),
    "Where": Case("Where", [["b"], AB, [1]], elements=[TensorProto.BOOL]),
    "MatMul": Case("MatMul", [[2, "a", 4], [2, 4, "b"]]),
    "MatMul of five": Case("MatMul", [[2, 3, 2, "a", 4], [4, "b"]]),
    "Gemm": Case("Gemm", [["a", 4], ["b", 4], ["b"]], {"transB": 1}),
    "Transpose": Case("Transpose", [["a", 2, "b"]], {"perm": [2, 0, 1]}),
    "Concat": Case("Concat", [[2, "a", 4], [2, "b", 4], [2, 1, 4]], {"axis": 1}),
    "Reshape": Case("Reshape", [["a", 2, "b", 4]], {}, [[0, -1, 8]]),
    "Flatten": Case("Flatten", [["a", 2, "b"]], {"axis": 2}),
    "Squeeze": Case("Squeeze", [["a", 1, "b", 1]], {}, [[1, 3]]),
    "Unsqueeze": Case("Unsqueeze", [["a", "b"]], {}, [[0, 2]]),
    "Gather": Case("Gather", [["a", 5, "b"]], {"axis": 1}, [[2, 0, 4]]),
    "Expand": Case("Expand", [["a", 1, "b"]], {}, [[1, 6, 1]]),
    "Slice": Case("Slice", [["a", 4, "b"]], {}, [[1, 0], [2**31, 3], [0, 1]]),
    "Slice of steps": Case("Slice", [["a", 4, "b"]], {}, [[-1, 2, -3], [-(2**31), 4, -1], [0, 1, 2], [-1, 1, 2]]),
    "Split": Case("Split", [["a", 5, "b"]], {"axis": 1}, [[2, 3]], outputs=2),
    "ReduceMean": Case("ReduceMean", [["a", 3, "b"]], {"keepdims": 0}, [[1]]),
    "ArgMax": Case("ArgMax", [["a", 3, "b"]], {"axis": 1, "keepdims": 1}),
    "GlobalAveragePool": Case("GlobalAveragePool", [[1, 3, "a", "b"]]),
    "Conv of the same size": Case(
        "Conv", [[1, 2, "a", "b"]], {"auto_pad": "SAME_UPPER", "strides": [1, 2], "dilations": [2, 1]}, [normal(4, 2, 3, 2)]
    ),
    "Conv": Case("Conv", [[1, 2, "a", "b"]], {"pads": [1, 1, 1, 1], "strides": [1, 2]}, [normal(4, 2, 3, 3)]),
    "MaxPool": Case("MaxPool", [[1, 2, "a", "b"]], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
    ROUNDED_UP: Case("MaxPool", [[1, 2, "a", "b"]], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "ConvTranspose": Case("ConvTranspose", [[1, 2, "a", "b"]], {"pads": [1, 0, 1, 0], "strides": [2, 1]}, [normal(2, 3, 3, 3)]),
    "Pad": Case("Pad", [["a", 3, "b"]], {}, [[0, 1, 2, 0, 0, 1]]),
    "Tile": Case("Tile", [["a", 3, "b"]], {}, [[1, 2, 3]]),
    "Resize": Case("Resize", [[1, 2, "a", "b"]], {"mode": "linear"}, [np.zeros(0, np.float32), np.asarray([1, 1, 2, 0.75], np.float32)]),
    "Resize, cubic": Case(
        "Resize", [[1, 2, "a", "b"]], {"mode": "cubic"}, [np.zeros(0, np.float32), np.asarray([1, 1, 2, 0.75], np.float32)]
    ),
    "Resize, cubic, aligned": Case(
        "Resize",
        [[1, 2, "a", "b"]],
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        [np.zeros(0, np.float32), np.asarray([1, 1, 1.5, 2], np.float32)],
    ),
    "Resize, cubic, to known sizes": Case(
        "Resize",
        [[1, 2, "a", "b"]],
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        [np.zeros(0, np.float32), np.zeros(0, np.float32), [1, 2, 3, 50]],
    ),
    "Resize, linear, aligned": Case(
        "Resize",
        [[1, 2, "a", "b"]],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        [np.zeros(0, np.float32), np.asarray([1, 1, 1.5, 2], np.float32)],
    ),
    ROUNDED_SCALE: Case(
        "Resize", [[1, 2, "a", "b"]], {"mode": "nearest"}, [np.zeros(0, np.float32), np.asarray([1, 1, 0.7, 1.3], np.float32)]
    ),
    "GridSample": Case("GridSample", [[2, 3, "a", "b"], [2, "b", "a", 2]], {"mode": "nearest", "padding_mode": "reflection"}),
    "GridSample, aligned": Case(
        "GridSample", [[2, 3, "a", "b"], [2, "b", "a", 2]], {"mode": "cubic", "padding_mode": "border", "align_corners": 1}
    ),
    "Resize, linear without the outside": Case(
        "Resize", [["a", 2, "b"]], {"mode": "linear", "exclude_outside": 1}, [np.zeros(0, np.float32), np.asarray([1, 1, 3], np.float32)]
    ),
    "EmbedLayerNormalization": Case(
        "EmbedLayerNormalization",
        [["a", "b"], ["a", "b"]],
        {"domain": "com.microsoft"},
        [normal(9, 4), normal(99, 4), normal(2, 4), np.ones(4, np.float32), np.ones(4, np.float32)],
        outputs=2,
        elements=[TensorProto.INT32, TensorProto.INT32],
    ),
    "Upsample of opset 9": Case("Upsample", [[1, 2, "a", "b"]], {"mode": "nearest"}, [np.asarray([1, 1, 3, 1], np.float32)], opset=9),
    "DepthToSpace": Case("DepthToSpace", [[1, 8, "a", "b"]], {"blocksize": 2}),
    "SpaceToDepth": Case("SpaceToDepth", [[1, 2, "a", "b"]], {"blocksize": 1}),
    "GatherElements": Case("GatherElements", [["a", "b"], ["a", "b"]], {"axis": 1}, elements=[TensorProto.FLOAT, TensorProto.INT64]),
    "MatMulInteger": Case("MatMulInteger", [["a", "b", 6]], {}, [np.ones((6, 3), np.int8)], elements=[TensorProto.UINT8]),
    "QLinearMatMul": Case(
        "QLinearMatMul", [["a", "b", 6]], {}, [*QUANTIZED, np.ones((6, 3), np.int8), QUANTIZED[0], np.int8(0), *QUANTIZED], elements=[U8]
    ),
    "DynamicQuantizeLinear": Case("DynamicQuantizeLinear", [["a", "b"]], outputs=3),
    "Einsum": Case("Einsum", [["a", "b", 2, 3], ["a", 5, 2, 3]], {"equation": "bqhd,bkhd->bhqk"}),
    "TopK": Case("TopK", [["a", 5, "b"]], {"axis": 1}, [[3]], outputs=2),
    "OneHot": Case("OneHot", [["a", "b"]], {"axis": 1}, [5, np.asarray([0, 1], np.float32)], elements=[I64]),
    "GatherND": Case("GatherND", [["a", 3, "b"]], {}, [[[0, 1], [0, 2]]]),
    "ScatterElements": Case("ScatterElements", [["a", 5, "b"], ["a", 1, "b"], ["a", 1, "b"]], {"axis": 1}, elements=[1, I64]),
    "Split of equal parts": Case("Split", [["a", 6, "b"]], {"axis": 1, "num_outputs": 3}, outputs=3),
    "Squeeze of opset 11": Case("Squeeze", [["a", 1, "b", 1]], {"axes": [1, 3]}, opset=11),
    "Unsqueeze of opset 11": Case("Unsqueeze", [["a", "b"]], {"axes": [0, 2]}, opset=11),
    "Slice of opset 9": Case("Slice", [["a", 4, "b"]], {"starts": [1, 0], "ends": [2**31, 3], "axes": [1, 0]}, opset=9),
    "Split of opset 11": Case("Split", [["a", 5, "b"]], {"axis": 1, "split": [2, 3]}, outputs=2, opset=11),
    "ReduceMean of opset 11": Case("ReduceMean", [["a", 3, "b"]], {"axes": [1], "keepdims": 0}, opset=11),
    "LSTM": Case("LSTM", [["a", "b", 3]], {"hidden_size": 2}, [normal(1, 8, 3), normal(1, 8, 2)], outputs=3),
    "GRU": Case("GRU", [["a", "b", 3]], {"hidden_size": 2, "direction": "reverse"}, [normal(1, 6, 3), normal(1, 6, 2)], outputs=2),
}


def arithmetic(nodes: Sequence[Sequence[Any]], outputs: Sequence[str] = ("y",), *, opset: int = 17, **constants: Any) -> Any:
    """A model of what PyTorch's exporters write: nodes that compute with the sizes of x [a, b, 6].

    Args:
        nodes: the operator, its inputs and outputs separated by spaces, and its attributes.
        outputs: the outputs.
        opset: the version of the operators.
        **constants: initializers.
    """
    made = [
        make_node(op_type, given.replace("-", "").split(" "), results.split(), **dict(*more)) for op_type, given, results, *more in nodes
    ]
    held = {name: np.asarray(value) for name, value in constants.items()}
    return model(made, {"x": ["a", "b", 6]}, outputs, constants=held, opset=opset)


DIMS = [
    ("Shape", "x", "shape"),
    *(("Gather", f"shape at{at}", f"d{at}", {"axis": 0}) for at in range(3)),
    *(("Unsqueeze", f"d{at} first", f"s{at}") for at in range(3)),
]
PLACES = {"at0": 0, "at1": 1, "at2": 2, "first": [0]}
ZERO = make_tensor("zero", TensorProto.FLOAT, [1], [0.0])
MODELS: dict[str, Any] = {
    "heads": lambda: arithmetic(
        [
            *DIMS,
            ("Div", "d2 two", "half"),
            ("Unsqueeze", "half first", "h"),
            ("Concat", "s0 s1 two1 h", "wanted", {"axis": 0}),
            ("Reshape", "x wanted", "parts"),
            ("Transpose", "parts", "y", {"perm": [0, 2, 1, 3]}),
        ],
        two=2,
        two1=[2],
        **PLACES,
    ),
    "sizes by Shape of a part": lambda: arithmetic(
        [
            ("Shape", "x", "rows", {"start": 0, "end": 1}),
            ("Shape", "x", "columns", {"start": 1, "end": 2}),
            ("Mul", "rows columns", "both"),
            ("Concat", "both six", "wanted", {"axis": 0}),
            ("Reshape", "x wanted", "y"),
        ],
        six=[6],
    ),
    "signs": lambda: arithmetic(
        [
            *DIMS,
            ("Sub", "s0 s1", "less"),
            ("Mul", "less less", "square"),
            ("Add", "square s1", "more"),
            ("Max", "more s0", "most"),
            ("Min", "most s1", "least"),
            ("Expand", "one least", "ones"),
            ("Size", "x", "size"),
            ("Unsqueeze", "size first", "count"),
            ("Reshape", "x count", "y"),
        ],
        ["y", "ones"],
        one=[1.0],
        **PLACES,
    ),
    "a choice by size": lambda: arithmetic(
        [
            *DIMS,
            ("Equal", "shape six", "is_six"),
            ("Where", "is_six ones shape", "chosen"),
            ("Gather", "chosen picks", "rest"),
            ("Expand", "one rest", "y"),
        ],
        six=[6],
        ones=[1, 1, 1],
        picks=[1, 2],
        one=[1.0],
        **PLACES,
    ),
    "positions": lambda: arithmetic(
        [*DIMS, ("Range", "at0 d1 at1", "positions"), ("Gather", "table positions", "rows"), ("Add", "x rows", "y")],
        table=normal(70, 6),
        **PLACES,
    ),
    "the front of a table": lambda: arithmetic(
        [*DIMS, ("Slice", "table first s1 first", "rows"), ("Add", "x rows", "y")], table=normal(120, 6), **PLACES
    ),
    "a causal mask": lambda: arithmetic(
        [
            *DIMS,
            ("Concat", "s1 s1", "square", {"axis": 0}),
            ("ConstantOfShape", "square", "zeros", {"value": ZERO}),
            ("Add", "zeros one", "ones"),
            ("Trilu", "ones", "below", {"upper": 0}),
            ("MatMul", "below x", "y"),
        ],
        one=np.float32(1),
        **PLACES,
    ),
    "states of zeros": lambda: arithmetic(
        [
            *DIMS,
            ("Concat", "one s1 two", "wanted", {"axis": 0}),
            ("Expand", "nothing wanted", "state"),
            ("LSTM", "x w r - - state state", "y h c", {"hidden_size": 2}),
        ],
        ["y", "h"],
        w=normal(1, 8, 6),
        r=normal(1, 8, 2),
        one=[1],
        two=[2],
        nothing=np.float32(0),
        **PLACES,
    ),
    "twice as large": lambda: arithmetic(
        [*DIMS, ("Mul", "shape twice", "wanted"), ("Resize", "x - - wanted", "y", {"mode": "nearest"})], twice=[1, 2, 3], **PLACES
    ),
    "opset 11": lambda: arithmetic(
        [
            ("Shape", "x", "shape"),
            ("Gather", "shape at0", "d0"),
            ("Unsqueeze", "d0", "s0", {"axes": [0]}),
            ("Cast", "s0", "cast", {"to": I64}),
            ("Concat", "cast rest", "wanted", {"axis": 0}),
            ("Reshape", "x wanted", "y"),
        ],
        opset=11,
        rest=[-1, 2],
        at0=0,
    ),
}
"""Sizes that nodes compute, and constants that are as long as a size."""
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
    *("Resize, cubic, aligned", "Resize, cubic, to known sizes"),
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
    for number, (a, b) in enumerate(((21, 43), (23, 45), (25, 47), (27, 49), (29, 49))):
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
