"""OpenVINO and JAX beside single operators, with a fake of each module: neither is needed to test what is asked of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.bench.libraries import Library, NotInstalledError, UnsupportedError
from dmlpy.bench.libraries.jax import ONE_THREAD, Jax
from dmlpy.bench.libraries.openvino import OpenVino
from dmlpy.bench.operators.jax_functions import FUNCTIONS
from dmlpy.bench.operators.scaling import case_of
from dmlpy.bench.operators.shape import select
from dmlpy.bench.work import TOLERANCES, Case, OperatorWork, relative_error
from dmlpy.inspection.operator_records import CASES
from tests.support.tables import table

REFUSAL = "Exception from core.cpp:105:\nSummary:\n-- No conversion rule found for operations: Relu-21\nTo facilitate the conversion\n"


class _Core:
    """OpenVINO's core: models are run by ONNX's reference implementation."""

    def __init__(self, asked: list[dict[str, Any]]) -> None:
        self._asked = asked

    def read_model(self, model: bytes) -> Any:
        from onnx.reference import ReferenceEvaluator

        if b"Relu" in model:
            raise RuntimeError(REFUSAL)
        return ReferenceEvaluator(model)

    def compile_model(self, model: Any, device: str, options: dict[str, Any]) -> Any:
        self._asked.append({"device": device, **options})
        return SimpleNamespace(create_infer_request=lambda: _Request(model))


class _Request:
    def __init__(self, model: Any) -> None:
        self._model, self._inputs, self._results = model, dict[str, Any](), dict[str, Any]()

    def set_tensor(self, name: str, tensor: Any) -> None:
        self._inputs[name] = tensor

    def infer(self) -> None:
        self._results = dict(zip(self._model.output_names, self._model.run(None, self._inputs), strict=True))

    def get_tensor(self, name: str) -> Any:
        return SimpleNamespace(data=self._results[name])


@pytest.fixture
def openvino(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What OpenVINO is asked for."""
    asked: list[dict[str, Any]] = []
    module = SimpleNamespace(Core=lambda: _Core(asked), Tensor=lambda array: array, __version__="2026.1-17-abc")
    monkeypatch.setitem(sys.modules, "openvino", module)
    return asked


class _Ready(np.ndarray[Any, Any]):
    """An array that says when it has been waited for."""

    waited = False

    def block_until_ready(self) -> None:
        self.waited = True


class _Compiled:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def lower(self, *given: Any) -> _Compiled:
        self._function(*given)  # it is traced
        return self

    def compile(self) -> _Compiled:
        return self

    def __call__(self, *given: Any) -> Any:
        found = self._function(*given)
        ready = [np.array(array).view(_Ready) for array in (found if isinstance(found, tuple) else (found,))]
        return tuple(ready) if isinstance(found, tuple) else ready[0]


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What JAX is told; its functions are NumPy's."""
    told: dict[str, Any] = {}

    def mapped(function: Callable[[Any], Any], value: Any) -> Any:
        return tuple(map(function, value)) if isinstance(value, tuple) else function(value)

    module = SimpleNamespace(
        __version__="0.9",
        numpy=np,
        nn=SimpleNamespace(),
        jit=_Compiled,
        tree=SimpleNamespace(map=mapped),
        config=SimpleNamespace(update=told.__setitem__),
        clear_caches=lambda: told.update(cleared=True),
    )
    monkeypatch.setitem(sys.modules, "jax", module)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    monkeypatch.setenv("XLA_FLAGS", "--own")
    return told


def work_of(operator: str, dtype: Any = "FLOAT32") -> OperatorWork:
    work = Case(select([operator], [dtype], scales=(0.25,))[0], dtype, "forward").work()
    assert isinstance(work, OperatorWork)
    return work


def error_of(library: Library, work: OperatorWork) -> float:
    runner = library.build(work, "eager")
    runner.run(0)
    return relative_error(runner.results(), work.reference())[0]


@table("operator", ["ELEMENT_WISE_ADD", "JOIN", "SPLIT", "GATHER", "QUANTIZE", "MEAN_VARIANCE_NORMALIZATION1"])
def test_openvino_computes_the_nodes_of_onnx(operator: str, openvino: list[dict[str, Any]]) -> None:
    openvino.clear()
    library = OpenVino("cpu", 1)
    assert library.versions() == {"openvino": "2026.1"}
    assert error_of(library, work_of(operator)) < TOLERANCES["FLOAT32"]
    assert openvino == [{"device": "CPU", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}]


def test_openvino_computes_halves_as_such(openvino: list[dict[str, Any]]) -> None:
    """The limits of a Clip have the type of what they limit."""
    assert error_of(OpenVino("cpu", 2), work_of("CLIP", "FLOAT16")) < TOLERANCES["FLOAT16"]
    assert [(own["INFERENCE_NUM_THREADS"], own["INFERENCE_PRECISION_HINT"]) for own in openvino] == [(2, "f16")]


@pytest.mark.usefixtures("openvino")
def test_what_openvino_refuses_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"OpenVINO refuses the model: No conversion rule found for operations: Relu-21$"):
        OpenVino("cpu", 1).build(work_of("RELU"), "eager")
    with pytest.raises(UnsupportedError, match="no equivalent"):
        OpenVino("cpu", 1).build(work_of("FOLD"), "eager")


@table("operator", ["ELEMENT_WISE_SQRT", "ELEMENT_WISE_ADD", "JOIN", "SPLIT", "ARGMAX", "GATHER_ND", "GEMM", "SPACE_TO_DEPTH"])
def test_jax_computes_the_functions_of_its_table(operator: str, jax: dict[str, Any]) -> None:
    jax.clear()
    library = Jax("cpu", 1)
    assert (os.environ["JAX_PLATFORMS"], os.environ["XLA_FLAGS"]) == ("cpu", f"--own {ONE_THREAD}")
    assert jax == {"jax_enable_x64": True}
    runner = library.build(work := work_of(operator), "eager")
    runner.run(0)
    kept = runner._kept  # type: ignore[attr-defined]
    assert all(array.waited for array in (kept if isinstance(kept, tuple) else (kept,)))
    assert relative_error(runner.results(), work.reference())[0] < TOLERANCES["FLOAT32"]
    library.release()
    assert jax["cleared"]


@pytest.mark.usefixtures("jax")
def test_what_jax_refuses_is_named() -> None:
    with pytest.raises(UnsupportedError, match="no equivalent"):
        Jax("cpu", 2).build(work_of("FOLD"), "eager")
    with pytest.raises(UnsupportedError, match=r"JAX refuses the function: .*has no attribute 'relu'"):
        Jax("cpu", 2).build(work_of("RELU"), "eager")


def test_every_function_of_jax_is_of_an_operator() -> None:
    assert FUNCTIONS.keys() < {case.operator for case in CASES.values()}
    assert len(FUNCTIONS) > 120


@pytest.mark.parametrize(("module", "library", "package"), [("openvino", OpenVino, "openvino onnx"), ("jax", Jax, r"'jax\[cpu\]'")])
def test_a_missing_library_is_absent(module: str, library: type[Library], package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    monkeypatch.setenv("XLA_FLAGS", "")
    with pytest.raises(NotInstalledError, match=f"pip install {package}"):
        library("cpu", 1)


# sizes


def test_a_scaled_case_has_so_many_times_the_elements() -> None:
    for scale in (0.25, 4):
        names = ["ADD", "GEMM", "CONVOLUTION", "SPLIT", "SLICE", "ROI_POOLING", "LSTM"]
        shapes = select(names, [], scales=(scale,))
        assert len(shapes) == len(names) + 2, "CONVOLUTION in three forms"
        for shape in shapes:
            usual = select([shape.key.partition("@")[0]], [])[0]
            assert shape.key == f"{usual.key}@{scale:g}"
            most, before = (_outputs(own.desc("FLOAT32")) for own in (shape, usual))
            assert most == scale * before, shape.key


def _outputs(desc: dml.OperatorDesc) -> int:
    """The elements of the largest output."""
    return max(slot.tensor.element_count for slot in desc.output_slots() if slot.tensor is not None)


def test_what_is_repeated_stays_so() -> None:
    shape: Any = select(["MEAN_VARIANCE_NORMALIZATION1"], [], scales=(4,))[0]
    arrays = shape.arrays("FLOAT32")
    assert arrays["scale_tensor"].shape == arrays["input_tensor"].shape == (1024, 1024)
    assert arrays["scale_tensor"].strides == (0, 4)
    assert len(np.unique(arrays["input_tensor"][::256, 0])) == 4  # drawn, not repeated


def test_operators_without_such_a_size_are_left_out() -> None:
    assert [shape.key for shape in select(["CONVOLUTION", "FILL_VALUE_CONSTANT", "TOP_K"], [], scales=(1 / 64, 1))] == [
        *("CONVOLUTION", "CONVOLUTION:DEPTHWISE", "CONVOLUTION:POINTWISE", "FILL_VALUE_CONSTANT", "TOP_K")
    ]
    with pytest.raises(ValueError, match="MAX_UNPOOLING has one size"):
        case_of("MAX_UNPOOLING@4")
