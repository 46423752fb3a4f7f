"""`map_blocks` on a cluster of processes: the same bits as in one process, whatever happens to the workers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.pickled_objects import everything, run_all
from tests.support.tensors import tensor

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
if not sys.platform.startswith("linux"):
    pytest.skip("workers are killed and bounded as Linux does it", allow_module_level=True)
from dmlpy.dask import map_blocks
from tests.support.dask import cluster_faults
from tests.support.dask.chunked import INPUTS, STEPS, Array, lstm, values

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers of one thread each."""
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None, "silence_logs": logging.ERROR}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def two(client: Any) -> list[str]:
    """The addresses of two workers; one that was killed is waited for."""
    client.wait_for_workers(2, timeout=60)
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


def layer(**changed: Any) -> tuple[Any, list[Array]]:
    """A layer over chunks of 4, 4 and 3 utterances, and what one process gives for them."""
    desc = lstm()
    given: dict[str, Any] = values(desc)
    given["input_tensor"] = da.from_array(given["input_tensor"], chunks=(1, STEPS, 4, INPUTS))
    alone = dask.compute(*map_blocks(desc, device="numpy", **given), scheduler="sync")
    change = changed.pop("change", lambda array: array)
    given["input_tensor"] = change(given["input_tensor"])
    return map_blocks(desc, **({"device": "numpy"} | changed | given)), list(alone)


def assert_same(found: Any, expected: list[Array]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_bits_are_those_of_one_process_and_constants_are_sent_and_packed_once(client: Any) -> None:
    two(client)
    client.run(cluster_faults.count)
    outputs, alone = layer()
    assert_same(dask.compute(*outputs), alone)
    for told in client.run(cluster_faults.counts).values():
        assert told["received"] <= 1
        assert told["ready"] <= 2  # for chunks of 4, and of 3


def test_state_goes_from_worker_to_worker(client: Any) -> None:
    two(client)
    desc = lstm("BACKWARD")
    given: dict[str, Any] = values(desc, steps=20)
    given["input_tensor"] = da.from_array(given["input_tensor"], chunks=(1, 6, 4, INPUTS))
    outputs = map_blocks(desc, device="numpy", carry=True, **given)
    assert_same(dask.compute(*outputs), list(dask.compute(*outputs, scheduler="sync")))


def test_a_worker_that_is_killed_changes_nothing(client: Any, tmp_path: Path) -> None:
    two(client)
    marker = str(tmp_path / "killed")
    outputs, alone = layer(change=lambda x: x.map_blocks(cluster_faults.killed_once, marker=marker, last=2, meta=x._meta))
    assert_same(dask.compute(*outputs), alone)
    assert Path(marker).exists()


def test_a_chunk_of_another_size_than_its_array_says_is_named(client: Any) -> None:
    two(client)
    outputs, _ = layer(change=lambda x: x.map_blocks(cluster_faults.shortened, meta=x._meta))
    message = r"chunk \(\d,\), batch_size \d+ to \d+ \(on tcp://.*\)(.|\n)*input_tensor is \[1, 6, \d, 3\], expected \[1, 6, \d, 3\]"
    with pytest.raises(dml.BindError, match=message):
        dask.compute(*outputs)


def test_a_worker_without_a_gpu_is_named(client: Any) -> None:
    two(client)
    outputs, _ = layer(device="cuda:9")
    with pytest.raises(
        dml.DeviceError, match=r"chunk .*\(on tcp://.*device 'cuda:9' does not exist on this machine(.|\n)*only workers with a GPU"
    ):
        dask.compute(*outputs)


def test_a_worker_without_memory_is_named_and_another_one_does_the_work(client: Any) -> None:
    one, other = two(client)
    part = tensor(1, 1, 1, 1 << 20)
    relu = dml.ActivationReluDesc(input_tensor=part, output_tensor=part)
    output = map_blocks(relu, input_tensor=da.ones((1, 1, 64, 1 << 20), chunks=(1, 1, 64, 1 << 20), dtype="float32"), device="numpy")
    client.run(cluster_faults.bound_memory, 64 << 20, workers=[one])
    try:
        last = output.output_tensor[0, 0, -1, -5:]
        with pytest.raises(dml.DeviceError, match=rf"chunk \(0,\), sizes\[2\] 0 to 63 \(on {one}\)(.|\n)*smaller chunks") as caught:
            client.compute(last, workers=[one]).result()
        assert caught.value.hresult == dml.HResult.E_OUTOFMEMORY
        np.testing.assert_array_equal(client.compute(last, workers=[other]).result(), np.ones(5, np.float32))
    finally:
        client.run(cluster_faults.bound_memory, None, workers=[one])


def test_another_version_of_dmlpy_is_refused_by_name(client: Any) -> None:
    one, _ = two(client)
    (before,) = client.run(cluster_faults.pretend_version, "0.0.9", workers=[one]).values()
    outputs, _ = layer()
    try:
        with pytest.raises(
            dml.PickleError, match=rf"chunk (.|\n)*{one}.*dmlpy {before} wrote this pickle, and dmlpy 0\.0\.9 is to load it"
        ):
            client.compute(outputs.output_single_tensor, workers=[one]).result()
    finally:
        client.run(cluster_faults.pretend_version, before, workers=[one])


@pytest.mark.parametrize(
    "index",
    [pytest.param(0, id="operator", marks=pytest.mark.slow), pytest.param(1, id="prepared operator"),
     pytest.param(2, id="graph", marks=pytest.mark.slow), pytest.param(3, id="prepared graph", marks=pytest.mark.slow)],
)  # fmt: skip
def test_what_is_compiled_by_another_version_fails_in_the_task_that_uses_it(client: Any, index: int) -> None:
    one, _ = two(client)
    (before,) = client.run(cluster_faults.pretend_version, "0.0.9", workers=[one]).values()
    made, given = everything("numpy")[index]
    try:
        for sent in (made, client.scatter(made)):
            task = client.submit(run_all, [(sent, given)], workers=[one], pure=False)
            with pytest.raises(dml.PickleError, match=rf"dmlpy {before} wrote this pickle, and dmlpy 0\.0\.9 is to load it"):
                task.result(timeout=60)
    finally:
        client.run(cluster_faults.pretend_version, before, workers=[one])
    found = client.submit(run_all, [(made, given)], workers=[one], pure=False).result(timeout=60)  # its connection is as it was
    assert_same(found, run_all([(made, given)]))
