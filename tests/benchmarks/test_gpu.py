"""Recurrent layers on a GPU, beside PyTorch's (cuDNN) where that is installed: the same sizes and types, TF32 off; forward with weights
packed before, and forward with backward (all gradients) as training does it.

    pytest tests/benchmarks/test_gpu.py -m gpu --benchmark-only

`extra_info["us"]` is the median of microseconds a step, `torch_us` PyTorch's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import dmlpy as dml
from tests.benchmarks.on_gpu import ROUNDS, milliseconds, torch_on_gpu

pytestmark = pytest.mark.gpu

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def dispatch_of(cell: str, steps: int, batch: int, hidden: int, dtype: Any) -> dml.Dispatch:
    """A layer bound on the GPU, I = H, with random weights that are packed."""
    device, rng = dml.device("cuda"), np.random.default_rng(0)
    rows = GATES[cell] * hidden
    sizes = {
        "input_tensor": (1, steps, batch, hidden),
        "weight_tensor": (1, 1, rows, hidden),
        "recurrence_tensor": (1, 1, rows, hidden),
        "bias_tensor": (1, 1, 1, 2 * rows),
    }
    arrays = {name: device.from_host((rng.standard_normal(size) * hidden**-0.5).astype(dtype)) for name, size in sizes.items()}
    descs: dict[str, Any] = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
    sigmoid, tanh = dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()
    desc: dml.RecurrentDesc
    if cell == "LSTM":
        desc = dml.LSTMDesc(**descs, activation_descs=[sigmoid, tanh, tanh], direction="FORWARD")
    elif cell == "GRU":
        desc = dml.GRUDesc(**descs, activation_descs=[sigmoid, tanh], direction="FORWARD", linear_before_reset=True)
    else:
        desc = dml.RNNDesc(**descs, activation_descs=[tanh], direction="FORWARD")
    desc = desc.with_outputs()
    x = arrays.pop("input_tensor")
    stream = device.current_stream()
    outputs = {field.name: device.empty(desc.tensors()[field.name], stream) for field in desc.outputs()}
    return dml.compile(desc, device).prepare(**arrays).bind({"input_tensor": x}, outputs)


def training_of(cell: str, steps: int, batch: int, hidden: int, dtype: Any) -> tuple[dml.Dispatch, dml.Dispatch]:
    """A network of one layer and its gradient bound on the GPU, I = H."""
    device, rng = dml.device("cuda"), np.random.default_rng(0)
    mode = "rnn_tanh" if cell == "RNN" else cell.lower()

    def random(*sizes: int) -> Any:
        return device.from_host((rng.standard_normal(sizes) * hidden**-0.5).astype(dtype))

    given = {"input": random(steps, batch, hidden), "input_h": random(1, batch, hidden)}
    given["params"] = random(dml.params_size(1, hidden, hidden, rnn_mode=mode))
    if cell == "LSTM":
        given["input_c"] = random(1, batch, hidden)
    members: dict[str, Any] = {name: dml.TensorDesc.of(array) for name, array in given.items()}
    names = ["output", "output_h", *(["output_c"] if cell == "LSTM" else []), "reserve_space"]
    network = dml.CudnnRNNV3Desc(**members, rnn_mode=mode).with_outputs(*names)
    gradient = network.gradient()
    stream = device.current_stream()
    outputs, gradients = (
        {field.name: device.empty(desc.tensors()[field.name], stream) for field in desc.outputs() if field.name in desc.tensors()}
        for desc in (network, gradient)
    )
    upstream = {name: random(*tensor.sizes) for name, tensor in gradient.tensors().items() if name.startswith("output")}
    forward = dml.compile(network, device).bind(given, outputs)
    reserve = {"reserve_space": outputs["reserve_space"]}
    return forward, dml.compile(gradient, device).bind(given | upstream | reserve, gradients)


def torch_training(cell: str, steps: int, batch: int, hidden: int, dtype: Any) -> Callable[[], object] | None:
    """PyTorch's forward and backward pass of the same sizes on its current stream, or None."""
    torch = torch_on_gpu()
    if torch is None:
        return None
    kind = {"float32": torch.float32, "float16": torch.float16}[np.dtype(dtype).name]
    layer = getattr(torch.nn, cell)(hidden, hidden).to("cuda", kind).train()
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=kind, requires_grad=True)
    upstream = torch.randn(steps, batch, hidden, device="cuda", dtype=kind)
    leaves = [x, *layer.parameters()]
    return lambda: torch.autograd.grad(layer(x)[0], leaves, upstream)


def torch_layer(cell: str, steps: int, batch: int, hidden: int, dtype: Any) -> Callable[[], object] | None:
    """PyTorch's forward pass of the same sizes on its current stream, or None."""
    torch = torch_on_gpu()
    if torch is None:
        return None
    kind = {"float32": torch.float32, "float16": torch.float16}[np.dtype(dtype).name]
    layer = getattr(torch.nn, cell)(hidden, hidden).to("cuda", kind).eval()
    x = torch.randn(steps, batch, hidden, device="cuda", dtype=kind)

    def run() -> None:
        with torch.no_grad():
            layer(x)

    return run


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("cell", list(GATES))
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(100, 1, 64), (100, 64, 64), (100, 16, 256), (50, 64, 512), (100, 64, 1024)])
def test_forward(benchmark: BenchmarkFixture, cell: str, steps: int, batch: int, hidden: int, dtype: Any) -> None:
    dispatch = dispatch_of(cell, steps, batch, hidden, dtype)
    found: list[float] = []
    benchmark.pedantic(lambda: found.append(milliseconds(dispatch)), rounds=ROUNDS, warmup_rounds=3)
    benchmark.extra_info["plan"] = dispatch.operator.plan.splitlines()[0]
    benchmark.extra_info["us"] = 1e3 * statistics.median(found[3:]) / steps
    theirs = torch_layer(cell, steps, batch, hidden, dtype)
    if theirs is not None:
        times = [milliseconds(theirs) for _ in range(ROUNDS + 3)][3:]
        benchmark.extra_info["torch_us"] = 1e3 * statistics.median(times) / steps


@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("cell", list(GATES))
@pytest.mark.parametrize(("steps", "batch", "hidden"), [(100, 64, 64), (100, 16, 256), (50, 64, 512)])
def test_training(benchmark: BenchmarkFixture, cell: str, steps: int, batch: int, hidden: int, dtype: Any) -> None:
    forward, backward = training_of(cell, steps, batch, hidden, dtype)

    def both() -> None:
        forward()
        backward()

    found: list[float] = []
    benchmark.pedantic(lambda: found.append(milliseconds(both)), rounds=ROUNDS, warmup_rounds=3)
    benchmark.extra_info["plan"] = backward.operator.plan
    benchmark.extra_info["us"] = 1e3 * statistics.median(found[3:]) / steps
    theirs = torch_training(cell, steps, batch, hidden, dtype)
    if theirs is not None:
        times = [milliseconds(theirs) for _ in range(ROUNDS + 3)][3:]
        benchmark.extra_info["torch_us"] = 1e3 * statistics.median(times) / steps
