"""What dmlpy's Python costs: importing, building and checking descs, JSON, and one dispatch over a machine that does nothing.

Benchmarks are no tests: `pytest tests/benchmarks --benchmark-only` runs them, the test command skips them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import dmlpy as dml
from tests.support.cuda.cpu_seam import NullSeam
from tests.support.dispatch_cases import CASES

STEPS, BATCH, FEATURES, HIDDEN = 100, 16, 64, 128


def recurrent() -> dml.RecurrentDesc:
    """A valid layer with every tensor that RNN, GRU and LSTM share."""

    def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
        return dml.TensorDesc(data_type=data_type, sizes=sizes)

    return dml.RNNDesc(
        input_tensor=tensor(1, STEPS, BATCH, FEATURES),
        weight_tensor=tensor(1, 1, HIDDEN, FEATURES),
        recurrence_tensor=tensor(1, 1, HIDDEN, HIDDEN),
        bias_tensor=tensor(1, 1, 1, 2 * HIDDEN),
        hidden_init_tensor=tensor(1, 1, BATCH, HIDDEN),
        sequence_lengths_tensor=tensor(1, 1, 1, BATCH, data_type="UINT32"),
        output_sequence_tensor=tensor(STEPS, 1, BATCH, HIDDEN),
        output_single_tensor=tensor(1, 1, BATCH, HIDDEN),
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    )


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


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", CASES)
def test_dispatch(benchmark: BenchmarkFixture, name: str, data_type: str) -> None:
    """A bound dispatch on a CUDA plan whose launches do nothing: what is left is Python."""
    benchmark(CASES[name].bound(NullSeam(), data_type), 1)
