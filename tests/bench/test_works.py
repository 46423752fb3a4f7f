"""The works of `dmlpy bench`: every library computes them, and the results are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.bench.libraries import PEERS, Library, UnsupportedError
from dmlpy.bench.libraries.cupy import LoopRunner
from dmlpy.bench.libraries.dmlpy import Dmlpy
from dmlpy.bench.shapes import BatchNorm, LayerShape, Recurrent, Shape
from dmlpy.bench.work import TOLERANCES, Case, RecurrentWork, SampledWork, relative_error
from tests.conftest import cuda_on_cpu
from tests.support.bench.shapes import stack
from tests.support.tools import require

MIXED = (LayerShape("LSTM", 5, 8, "BIDIRECTIONAL"), LayerShape("LSTM", 16, 6, projection=3), LayerShape("LSTM", 3, 4, "BACKWARD"))
SHAPES: dict[str, Shape] = {
    "stacked GRU": stack(LayerShape("GRU", 5, 8), LayerShape("GRU", 8, 8)),
    "GRU that resets before": stack(LayerShape("GRU", 5, 8, linear_before_reset=False), batch=2),
    "RNN": stack(LayerShape("RNN", 5, 8), batch=1, steps=3),
    "bidirectional, projected, backward": stack(*MIXED),
    "ragged, bidirectional": stack(LayerShape("LSTM", 5, 8, "BIDIRECTIONAL"), LayerShape("LSTM", 16, 8, "BIDIRECTIONAL"), lengths="ragged"),
    "ragged, projected": stack(LayerShape("LSTM", 5, 8, projection=4), LayerShape("LSTM", 4, 8, projection=4), batch=5, lengths="resets"),
    "NCHW": BatchNorm(title="test", suite="batch_norm", sizes=(3, 5, 4, 6), layout="NCHW"),
    "NHWC": BatchNorm(title="test", suite="batch_norm", sizes=(3, 5, 4, 6), layout="NHWC"),
}


def error_of(library: Library, case: Case, mode: Any = "eager") -> float:
    """How far off a library's results are after a few passes over other inputs."""
    work = case.work()
    runner = library.build(work, mode)
    for number in (library.sets - 1, 0):
        runner.run(number)
    if case.trains:
        assert isinstance(work, SampledWork)
        runner.load_upstream(work.upstream(checked=True))
        runner.run(0)
    found, expected = work.select(runner.results()), work.reference()
    assert sorted(found) == sorted(expected)
    error, name = relative_error(found, expected)
    assert error < TOLERANCES[case.dtype], f"{name} of {case.name}"
    for us in (runner.floor_us, runner.estimate_us, runner.estimate_step_us):
        assert (us is not None and us > 0) == library.on_gpu
    return error


@pytest.mark.parametrize("which", ["forward", "training"])
@pytest.mark.parametrize("dtype", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_dmlpy_computes_the_reference(shape: Shape, dtype: Any, which: Any) -> None:
    error = error_of(Dmlpy("numpy", 1), Case(shape, dtype, which))
    assert (error < 1e-6) == (dtype == "FLOAT32")


@pytest.mark.parametrize("shape", [shape for shape in SHAPES.values() if isinstance(shape, Recurrent)], ids=lambda shape: shape.key)
def test_a_plain_loop_computes_the_reference(shape: Recurrent) -> None:
    work = Case(shape, "FLOAT32", "forward").work()
    assert isinstance(work, RecurrentWork)
    runner = LoopRunner(np, lambda function: function, work, 1, lambda: None)
    runner.run(0)
    assert relative_error(work.select(runner.results()), work.reference())[0] < 1e-6


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("which", ["forward", "training"])
def test_dmlpy_computes_the_reference_on_a_gpu(cuda_device: dml.Device, which: Any, mode: Any) -> None:
    error_of(Dmlpy(cuda_device, 1), Case(stack(LayerShape("RNN", 5, 8), LayerShape("RNN", 8, 8)), "FLOAT32", which), mode)


def test_a_gpu_is_timed_by_its_own_clock_and_takes_turns_with_inputs() -> None:
    library = Dmlpy(cuda_on_cpu(), 1)
    work = Case(SHAPES["NCHW"], "FLOAT32", "forward").work()
    runner = library.build(work, "graph")
    runtime: Any = library.place.runtime  # type: ignore[attr-defined]
    before = runtime.counts.copy()
    assert library.microseconds(lambda: runner.run(2), 3) > 0
    assert dict(runtime.counts - before) == {"record_event": 2, "launch_graph": 3, "elapsed_ms": 1}
    assert (library.sets, library.modes(work)) == (3, ("eager", "graph"))
    assert library.versions()["dmlpy"] == dml.__version__
    used = library.peak_bytes()
    assert used is not None
    assert used >= 3 * 5 * 4 * 6 * 4  # y


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize("library", ["torch", "onnxruntime"])
def test_peers_compute_the_reference(library: str, shape: Shape) -> None:
    require(library)
    module, _, name = next(known.target for known in PEERS if known.name == library).partition(":")
    peer = getattr(__import__(module, fromlist=[name]), name)("numpy", 1)
    for which in ("forward", "training") if library == "torch" else ("forward",):
        case = Case(shape, "FLOAT32", which)
        lacking = {
            "torch": {"GRU that resets before"},
            "onnxruntime": {"bidirectional, projected, backward", "ragged, projected", "NCHW", "NHWC"},
        }
        if next(key for key, value in SHAPES.items() if value is shape) in lacking[library]:
            with pytest.raises(UnsupportedError):
                peer.build(case.work(), "eager")
        else:
            error_of(peer, case)


def test_upstream_gradients_of_other_samples_are_zero_in_a_check() -> None:
    work = Case(stack(LayerShape("RNN", 5, 8), batch=8), "FLOAT32", "training").work()
    assert isinstance(work, SampledWork)
    assert work.chosen == [0, 4, 7]
    full, checked = work.upstream(), work.upstream(checked=True)
    assert (checked[:, work.chosen] == full[:, work.chosen]).all()
    assert not np.delete(checked, work.chosen, axis=1).any()
    assert full.all()


def test_errors_are_relative_and_nothing_hides_in_them() -> None:
    expected = {"a": np.array([3.0, 4.0]), "b": np.zeros(2)}
    assert relative_error({"a": np.array([3.0, 4.5]), "b": np.zeros(2)}, expected) == (0.1, "a")
    assert relative_error({"a": expected["a"], "b": np.array([0.0, 0.5])}, expected) == (0.5, "b")
    for broken in (np.array([3.0, np.nan]), np.array([3.0]), np.array([3.0, np.inf])):
        assert relative_error({"a": broken, "b": np.zeros(2)}, expected) == (np.inf, "a")
    assert relative_error({"a": expected["a"]}, expected) == (np.inf, "b")


def test_memory_that_a_case_needs_counts_all_its_tensors() -> None:
    case = Case(stack(LayerShape("RNN", 4, 8), batch=2, steps=3), "FLOAT32", "forward")
    x, y, parameters, states = 3 * 2 * 4, 3 * 2 * 8, 8 * 4 + 8 * 8 + 16, 2 * 2 * 8
    assert case.needed_bytes(1) == 4 * (x + y + parameters + states)
    assert case.needed_bytes(3) == case.needed_bytes(1) + 2 * 4 * x
