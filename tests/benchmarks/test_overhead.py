"""What dmlpy's Python costs: importing, building and checking descs, JSON, and one dispatch over a machine that does nothing.

Benchmarks are not tests: `pytest tests/benchmarks --benchmark-only` runs them, the test command skips them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.dispatch import MAX_CACHED_LAUNCHES, BoundWork
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.operators.dispatch_cases import CASES

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
    benchmark(CASES[name].bound(DryRunRuntime(), data_type), 1)


@pytest.mark.parametrize("memory", ["in turns", "new"])
@pytest.mark.parametrize("nodes", [1, 100])
def test_rebind_and_dispatch(benchmark: BenchmarkFixture, nodes: int, memory: str) -> None:
    """A graph over launches that do nothing gets another input before each dispatch: one of two, or one of more than are cached."""
    device = CudaDevice(DryRunRuntime())
    desc = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 16, 16])
    g = dml.GraphBuilder()
    value = g.input("x", desc)
    for _ in range(nodes):
        value = g.add(dml.ActivationSoftmax1Desc, input_tensor=value, axes=[3])
    g.output("y", value)
    inputs = [device.empty(desc, 0) for _ in range(2 if memory == "in turns" else MAX_CACHED_LAUNCHES + 1)]
    dispatch = dml.compile(g.build(), device).bind([inputs[0]], [device.empty(desc, 0)])
    turns = cycle(inputs)

    def rebind_and_dispatch() -> None:
        dispatch.rebind(x=next(turns))
        dispatch()

    benchmark(rebind_and_dispatch)


def small_addition() -> dict[str, Callable[[], Any]]:
    """An addition of four numbers by dmlpy on NumPy, and by NumPy itself."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 4])
    op = dml.compile(dml.ElementWiseAddDesc(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor), "numpy")
    a, b, output = (np.ones((1, 1, 1, 4), np.float32) for _ in range(3))
    return {
        "call": lambda: op(a_tensor=a, b_tensor=b),
        "call with an output": lambda: op(a_tensor=a, b_tensor=b, output_tensor=output),
        "bind": lambda: op.bind({"a_tensor": a, "b_tensor": b}, {"output_tensor": output}),
        "bind a list": lambda: op.bind([a, b], [output]),
        "dispatch": op.bind([a, b], [output]),
        "NumPy": lambda: np.add(a, b, output),
    }


@pytest.mark.parametrize("name", small_addition())
def test_small_addition(benchmark: BenchmarkFixture, name: str) -> None:
    """All of it is Python: the addition takes a third of a microsecond."""
    benchmark(small_addition()[name])


class Nothing(BoundWork):
    """A dispatch of no work."""

    def _enqueue(self, stream: int) -> None:
        pass


@pytest.mark.parametrize("guarded", [False, True], ids=["alone", "guarded"])
def test_guard_of_a_dispatch(benchmark: BenchmarkFixture, guarded: bool) -> None:
    """What it costs a dispatch to notice a second call: the difference of the two."""
    work = Nothing("nothing", dml.device("numpy"))
    benchmark(work if guarded else lambda: work._enqueue(work._stream_handle(None)))
