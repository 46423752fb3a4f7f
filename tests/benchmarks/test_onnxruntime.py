"""The NumPy device beside ONNX Runtime's CPU provider: the same layer, the same arrays, two threads each, taking turns.

    pip install onnx onnxruntime threadpoolctl
    pytest tests/benchmarks/test_onnxruntime.py --benchmark-only

`extra_info["onnxruntime_over_dmlpy"]` is the ratio of the medians: above 1 dmlpy is faster.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import dmlpy as dml

THREADS = 2
REST_S = 0.03
"""Both libraries' threads spin for a while after their work; so long until the other one is measured."""

Array = np.ndarray[Any, np.dtype[Any]]
GATES = {"GRU": 3, "LSTM": 4}


def arrays_of(cell: str, steps: int, batch: int, hidden: int) -> dict[str, Array]:
    """Random input and constants in ONNX's layout, I = H."""
    rng = np.random.default_rng(0)
    rows = GATES[cell] * hidden
    sizes = {"X": (steps, batch, hidden), "W": (1, rows, hidden), "R": (1, rows, hidden), "B": (1, 2 * rows)}
    scales = {"X": 1.0, "W": hidden**-0.5, "R": hidden**-0.5, "B": 0.1}
    return {name: rng.standard_normal(size, np.float32) * np.float32(scales[name]) for name, size in sizes.items()}


def session_of(cell: str, arrays: dict[str, Array]) -> Any:
    """The layer alone as an ONNX Runtime session; weights are initialisers, so that they are packed once."""
    import onnx
    import onnxruntime

    hidden = arrays["R"].shape[2]
    names = ["Y", "Y_h", "Y_c"] if cell == "LSTM" else ["Y", "Y_h"]
    more: dict[str, Any] = {"linear_before_reset": 1} if cell == "GRU" else {}
    node = onnx.helper.make_node(cell, ["X", "W", "R", "B"], names, hidden_size=hidden, **more)
    graph = onnx.helper.make_graph(
        [node],
        cell,
        [onnx.helper.make_tensor_value_info("X", onnx.TensorProto.FLOAT, arrays["X"].shape)],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names],
        [onnx.numpy_helper.from_array(arrays[name], name) for name in "WRB"],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def dispatch_of(cell: str, arrays: dict[str, Array]) -> tuple[dml.Dispatch, Array]:
    """The layer bound on the NumPy device with packed weights, and the output that a call fills."""
    rows = arrays["R"].shape[1]
    inputs: dict[str, Any] = {
        "input_tensor": arrays["X"][None],
        "weight_tensor": arrays["W"][None],
        "recurrence_tensor": arrays["R"][None],
        "bias_tensor": arrays["B"].reshape(1, 1, 1, 2 * rows),
    }
    descs: dict[str, Any] = {name: dml.TensorDesc.of(array) for name, array in inputs.items()}
    sigmoid, tanh = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()
    desc: dml.RecurrentDesc
    if cell == "LSTM":
        desc = dml.LSTMDesc(**descs, activation_descs=[sigmoid, tanh, tanh], direction="FORWARD")
    else:
        desc = dml.GRUDesc(**descs, activation_descs=[sigmoid, tanh], direction="FORWARD", linear_before_reset=True)
    desc = desc.with_outputs()
    x = inputs.pop("input_tensor")
    outputs = {field.name: np.empty(desc.tensors()[field.name].sizes, np.float32) for field in desc.outputs()}
    prepared = dml.compile(desc, "numpy").prepare(**inputs)
    return prepared.bind({"input_tensor": x}, outputs), outputs["output_sequence_tensor"]


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(100, 1, 128), (100, 16, 256), (50, 64, 512)])
def test_forward(benchmark: BenchmarkFixture, cell: str, steps: int, batch: int, hidden: int) -> None:
    for package in ("onnx", "onnxruntime", "threadpoolctl"):
        pytest.importorskip(package)
    import threadpoolctl

    arrays = arrays_of(cell, steps, batch, hidden)
    session, (dispatch, output) = session_of(cell, arrays), dispatch_of(cell, arrays)
    binding = session.io_binding()
    theirs = np.empty((steps, 1, batch, hidden), np.float32)
    binding.bind_cpu_input("X", arrays["X"])
    binding.bind_output("Y", "cpu", 0, np.float32, theirs.shape, theirs.ctypes.data)
    for item in session.get_outputs()[1:]:
        binding.bind_output(item.name, "cpu")
    seconds: list[float] = []

    def run_theirs() -> None:
        """A timed run of ONNX Runtime before each timed dispatch; both warm."""
        time.sleep(REST_S)
        session.run_with_iobinding(binding)
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        seconds.append(time.perf_counter() - start)
        time.sleep(REST_S)
        dispatch()

    with threadpoolctl.threadpool_limits(THREADS, "blas"):
        benchmark.pedantic(dispatch, setup=run_theirs, rounds=41, warmup_rounds=1)
    np.testing.assert_allclose(output, theirs, rtol=1e-4, atol=1e-5)
    ours = benchmark.stats.stats.median
    benchmark.extra_info["onnxruntime_median_s"] = statistics.median(seconds[1:])
    benchmark.extra_info["onnxruntime_over_dmlpy"] = statistics.median(seconds[1:]) / ours
    benchmark.extra_info["onnxruntime_over_dmlpy_least"] = min(seconds[1:]) / benchmark.stats.stats.min
