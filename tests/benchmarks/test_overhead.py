"""What dmlpy's Python costs: importing, building and checking descs, JSON, and one dispatch over a machine that does nothing.

Benchmarks are no tests: `pytest tests/benchmarks --benchmark-only` runs them, the test command skips them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import dmlpy as dml

STEPS, BATCH, FEATURES = 100, 16, 64
ACTIVATIONS: dict[type[dml.RecurrentDesc], list[dml.ActivationDesc]] = {
    dml.RNNDesc: [dml.ActivationTanhDesc()],
    dml.GRUDesc: [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
    dml.LSTMDesc: [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
}


def recurrent(kind: type[dml.RecurrentDesc] = dml.RNNDesc, hidden: int = 128) -> dml.RecurrentDesc:
    """A valid layer with every tensor that RNN, GRU and LSTM share."""

    def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
        return dml.TensorDesc(data_type=data_type, sizes=sizes)

    rows = len(kind.gate_names) * hidden
    members: dict[str, Any] = {
        "input_tensor": tensor(1, STEPS, BATCH, FEATURES),
        "weight_tensor": tensor(1, 1, rows, FEATURES),
        "recurrence_tensor": tensor(1, 1, rows, hidden),
        "bias_tensor": tensor(1, 1, 1, 2 * rows),
        "hidden_init_tensor": tensor(1, 1, BATCH, hidden),
        "sequence_lengths_tensor": tensor(1, 1, 1, BATCH, data_type="UINT32"),
        "output_sequence_tensor": tensor(STEPS, 1, BATCH, hidden),
        "output_single_tensor": tensor(1, 1, BATCH, hidden),
        "activation_descs": ACTIVATIONS[kind],
        "direction": "FORWARD",
    }
    return kind(**members)


def test_check(benchmark: BenchmarkFixture) -> None:
    desc = recurrent()
    assert benchmark(dml.check, desc) == []


def test_construction(benchmark: BenchmarkFixture) -> None:
    benchmark(recurrent)


def test_json_round_trip(benchmark: BenchmarkFixture) -> None:
    desc = recurrent()

    def there_and_back() -> dml.OperatorDesc:
        return dml.OperatorDesc.from_json(desc.to_json())

    assert benchmark(there_and_back) == desc


def test_import(benchmark: BenchmarkFixture) -> None:
    """Seconds that `import dmlpy` takes where numpy and pydantic are imported already: `extra_info["import_s"]`, each in a new process."""
    program = (
        "import sys, time, numpy, pydantic; start = time.perf_counter(); import dmlpy; "
        "print(time.perf_counter() - start); sys.exit('cupy' in sys.modules)"
    )
    seconds: list[float] = []

    def import_once() -> None:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        seconds.append(float(done.stdout))

    benchmark.pedantic(import_once, rounds=11, warmup_rounds=1)
    benchmark.extra_info["import_s"] = {"median": statistics.median(seconds[1:]), "least": min(seconds[1:])}


@pytest.mark.parametrize("kind", list(ACTIVATIONS), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("hidden", [32, 1024])
@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "packing"])
def test_dispatch(benchmark: BenchmarkFixture, kind: type[dml.RecurrentDesc], hidden: int, prepared: bool) -> None:
    """A bound dispatch on a CUDA plan whose launches do nothing: what is left is Python."""
    from dmlpy.devices.cuda.device import CudaDevice
    from tests.cpu_seam import NullSeam

    device = CudaDevice(NullSeam())
    desc = recurrent(kind, hidden)
    operator = dml.compile(desc, device)
    arrays: dict[str, Any] = {
        name: device.from_host(np.zeros(tensor.sizes, tensor.data_type.numpy)) for name, tensor in desc.tensors().items()
    }
    outputs = {name: arrays.pop(name) for name in ("output_sequence_tensor", "output_single_tensor")}
    if prepared:
        constants = {name: arrays.pop(name) for name in ("weight_tensor", "recurrence_tensor", "bias_tensor")}
        dispatch = operator.prepare(**constants).bind(arrays, outputs)
    else:
        dispatch = operator.bind(arrays, outputs)
    benchmark(dispatch, 1)
