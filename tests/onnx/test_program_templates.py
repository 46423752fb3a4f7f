"""Programs for new sizes: equal to those that are lowered for these sizes, in any order of sizes, and of few lowerings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_node

import dmlpy as dml
from dmlpy import onnx
from dmlpy.description.sized_copies import is_alike
from dmlpy.devices.graphs.buffers import BufferAssignment
from dmlpy.messages.problems import CompileError
from dmlpy.onnx.lowering.program_templates import ProgramTemplates
from dmlpy.onnx.lowering.symbolic_inference import _FORMULAS
from dmlpy.validation import checking
from dmlpy.validation.checking import LATEST
from tests.support.onnx_models import model
from tests.support.onnx_open_sizes import decoder, normal
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
        element: the type of the first input, or of all.
    """

    op_type: str
    inputs: Sequence[Sequence[int | str]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[Any] = ()
    outputs: int = 1
    elements: Sequence[int] = ()

    def model(self) -> Any:
        names = [f"x{at}" for at in range(len(self.inputs))]
        constants = {f"c{at}": np.asarray(array) for at, array in enumerate(self.constants)}
        outputs = [f"y{at}" for at in range(self.outputs)]
        node = make_node(self.op_type, [*names, *constants], outputs, **self.attributes)
        types = dict(zip(names, self.elements, strict=False))
        return model([node], dict(zip(names, map(list, self.inputs), strict=True)), outputs, constants=constants, types=types)


AB = ["a", 3, "b"]
BATCH = [[2, "a", 8], [1, 12, 8], [1, 12, 3]]
CASES = {
    "Relu": Case("Relu", [AB]),
    "Softmax": Case("Softmax", [["a", 2, "b"]], {"axis": -1}),
    "LayerNormalization": Case("LayerNormalization", [["a", "b", 6]], {"axis": -1}, [np.ones(6, np.float32)]),
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
    "Conv": Case("Conv", [[1, 2, "a", "b"]], {"pads": [1, 1, 1, 1], "strides": [1, 2]}, [normal(4, 2, 3, 3)]),
    "MaxPool": Case("MaxPool", [[1, 2, "a", "b"]], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
    "LSTM": Case("LSTM", [["a", "b", 3]], {"hidden_size": 2}, [normal(1, 8, 3), normal(1, 8, 2)], outputs=3),
    "GRU": Case("GRU", [["a", "b", 3]], {"hidden_size": 2, "direction": "reverse"}, [normal(1, 6, 3), normal(1, 6, 2)], outputs=2),
}
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

    return ProgramTemplates(LATEST, lower), (lower, inputs), count


@pytest.mark.parametrize("name", CASES)
def test_programs_equal_those_that_are_lowered_for_their_sizes(name: str) -> None:
    """In a random order, so that each size is seen first, second and later in some run; and few are lowered for larger sizes."""
    templates, (lower, inputs), count = prepared(CASES[name].model())
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
    assert count["lowered"] == 0


def test_formulas_are_tested() -> None:
    """Those of several operators by one of these."""
    tested = {id(_FORMULAS[case.op_type]) for case in CASES.values()}
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
    """Fusions, places of values and the validity of descs follow from symbolic sizes, too: nothing is searched or checked again."""
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
    for past in (9, 11, 10, 50):
        given = case.given(past)
        found = compiled(given)
        assert not searched
        right = onnx.load(case.proto, sizes={name: list(array.shape) for name, array in given.items()}).compile("numpy")(given)
        for name, array in right.items():
            assert_close(found[name], array, np.float32)
        searched.clear()
