"""The pages of the benchmarks' records, and the models that they are of."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.benchmarks import onnx_models
from tests.benchmarks.model_types import TYPES, in_type
from tests.benchmarks.onnx_models import PAGE, RECORD, Builder, model_of, page, row_name, runner
from tests.support.tools import require


def test_the_page_of_whole_models_has_what_its_record_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(json.loads(RECORD.read_text(encoding="utf-8")))


def test_a_page_has_the_libraries_that_were_measured() -> None:
    times = {"ONNX Runtime": 2.0, "OpenVINO": 1.0, "cpu": 3.0}
    row = {name: {"median_ms": ms, "load_and_first_run_ms": 100 * ms, "memory_bytes": 1e7 * ms} for name, ms in times.items()}
    record = {"processor": "CPU", "threads": 2, "date": "2026-11-29T10:00", "load": [0.25, 0, 0], "versions": {"dmlpy": "1"}}
    refused = {name: own for name, own in row.items() if name != "OpenVINO"}
    lines = page({**record, "models": {"another": refused, "a model": row}}).splitlines()
    assert lines[-1] == "| a model | 3.00 | 1.50 | 3.00 | 20 MB | 10 MB | 30 MB | 200 ms | 100 ms | 300 ms |"
    assert lines.pop(-2) == "| another | 3.00 | 1.50 | – | 20 MB | – | 30 MB | 200 ms | – | 300 ms |"
    assert "| cpu / ONNX Runtime | cpu / OpenVINO | memory, ONNX Runtime |" in lines[-3]


def small() -> Any:
    net = Builder()
    return net.built(net.node("Relu", net.dense("x", 16, 8)), (4, 16), (4, 8))


@pytest.mark.parametrize("dtype", TYPES[1:])
def test_a_model_in_another_type_gives_about_the_same(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("onnxruntime")
    monkeypatch.setitem(onnx_models.MODELS, "small", small)
    name = row_name("small", dtype)
    made: Any = model_of(name)
    x = onnx_models.given_to(made)
    assert x.dtype == (np.float16 if dtype == "FLOAT16" else np.float32)
    expected = runner("numpy", small(), 1)(x.astype(np.float32))
    for library in ("ONNX Runtime", "numpy"):
        found = runner(library, made, 1, dtype)(x)
        assert np.linalg.norm(found - expected) < onnx_models.TOLERANCES[onnx_models.type_of(name)] * np.linalg.norm(expected)
    kinds = {node.op_type for node in made.graph.node}
    names = {"INT8": "DequantizeLinear", "QLINEAR": "QLinearMatMul", "DYNAMIC": "MatMulInteger"}
    assert kinds & {*names.values(), "QuantizeLinear"} >= ({names[dtype]} if dtype in names else set())
    assert ("MatMul" in kinds) == (dtype in ("FLOAT16", "INT8"))


def test_what_is_not_quantized_has_no_row_of_int8() -> None:
    require("onnxruntime")
    net = Builder()
    assert in_type(net.built(net.node("Neg", "x"), (2,), (2,)), "INT8") is None


def test_openvino_is_asked_for_the_model_s_type(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compile_model(model: bytes, device: str, options: dict[str, Any]) -> Any:
        asked.append((model, device, options["INFERENCE_NUM_THREADS"], options["INFERENCE_PRECISION_HINT"]))
        return SimpleNamespace(create_infer_request=lambda: SimpleNamespace(infer=lambda inputs: {0: inputs[0] + 1}))

    core = SimpleNamespace(read_model=lambda data: data, compile_model=compile_model)
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=lambda: core))
    for dtype, hint in (("FLOAT32", "f32"), ("FLOAT16", "f16"), ("INT8", "f32")):
        assert runner("OpenVINO", small(), 3, dtype)(np.zeros(2)).tolist() == [1, 1]
        assert asked.pop() == (small().SerializeToString(), "CPU", 3, hint)


@pytest.mark.parametrize(("wrong", "left"), [("OpenVINO", ["ONNX Runtime", "cpu"]), ("cpu", None)])
def test_a_result_that_differs_has_no_times(wrong: str, left: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_models, "libraries", lambda: ["ONNX Runtime", "OpenVINO", "cpu"])
    monkeypatch.setattr(onnx_models, "memory", lambda *arguments: 1)
    monkeypatch.setattr(onnx_models, "REST_S", 0.0)
    monkeypatch.setattr(onnx_models, "runner", lambda library, *arguments: lambda x: x + (library == wrong))
    if left is None:
        with pytest.raises(SystemExit, match=r"small: cpu differs by "):
            onnx_models.measured("small", small(), 1, 2)
    else:
        assert list(onnx_models.measured("small", small(), 1, 2)) == left
