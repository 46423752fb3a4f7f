"""Pickles and copies of what is compiled: compiled again where they are loaded, packed constants carried along; a dispatch refuses."""

from __future__ import annotations

import copy
import ctypes
import multiprocessing
import os
import pickle
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.compiler import _compile, _compile_arrived, _planned
from dmlpy.devices import cuda, pickling
from dmlpy.devices.device import DEVICE_KINDS
from dmlpy.devices.dispatch import BoundWork
from dmlpy.devices.numpy.device import NumpyDevice
from tests.conftest import cuda_on_cpu
from tests.support.tensors import tensor
from tests.support.travellers import everything, gru, plus_one, run_all, run_elsewhere, values


def owned() -> dml.ElementWiseAddDesc:
    part = tensor(1, 1, 2, 3)
    return dml.ElementWiseAddDesc(a_tensor=part, b_tensor=part.replace(flags="OWNED_BY_DML"), output_tensor=part)


def graph() -> Any:
    return dml.compile(plus_one(), "numpy", "6_2", "DISABLE_META_COMMANDS")


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda made: pickle.loads(pickle.dumps(made)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
EACH = pytest.mark.parametrize("again", COPIES.values(), ids=COPIES)


@EACH
@pytest.mark.parametrize("desc", [gru(), owned()], ids=lambda desc: desc.short_name())
def test_an_operator(desc: dml.OperatorDesc, again: Any) -> None:
    op = dml.compile(desc, "numpy", "5_0", "DISABLE_META_COMMANDS")
    _compile.cache_clear()
    made = again(op)
    assert (made.desc, made.device, made.feature_level, made.flags) == (op.desc, op.device, op.feature_level, op.flags)
    given = values(desc)
    for one, other in zip(op(**given), made(**given), strict=True):
        np.testing.assert_array_equal(one, other)


@EACH
@pytest.mark.parametrize("desc", [gru(), owned()], ids=lambda desc: desc.short_name())
def test_a_prepared_operator(desc: dml.OperatorDesc, again: Any) -> None:
    op, given = dml.compile(desc, "numpy"), values(desc)
    prepared = op.prepare(**{name: given.pop(name) for name in op.prepared_inputs})
    made = again(prepared)
    assert made.operator is op
    assert made.binding_properties == prepared.binding_properties
    for one, other in zip(prepared(**given), made(**given), strict=True):
        np.testing.assert_array_equal(one, other)


@EACH
def test_a_graph(again: Any) -> None:
    op = graph()
    made = again(op)
    assert (made.graph, made.device, made.feature_level, made.flags) == (op.graph, op.device, op.feature_level, op.flags)
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    np.testing.assert_array_equal(made(x=x).y, x + 1)


STARTED = [
    pytest.param(method, marks=pytest.mark.skipif(method not in multiprocessing.get_all_start_methods(), reason=f"no {method} here"))
    for method in ("spawn", "fork", "forkserver")
]


@pytest.mark.parametrize("method", STARTED)
# Of threads that a fork leaves behind, which Python warns of, dmlpy needs none.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_processes_give_the_same(method: str) -> None:
    work = everything("numpy")
    for found, expected in zip(run_elsewhere(method, work), run_all(work), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_cloudpickle_carries_them_in_functions() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    work = everything("numpy")
    for found, expected in zip(pickle.loads(cloudpickle.dumps(lambda: run_all(work)))(), run_all(work), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_packed_constants_need_no_copy() -> None:
    """They are arrays in the pickle, so that protocol 5 can hand them over beside it."""
    prepared, _ = everything("numpy")[1]
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(prepared, 5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == prepared.binding_properties.persistent_resource_size > 0
    assert pickle.loads(pickled, buffers=buffers).operator is prepared.operator


@pytest.mark.parametrize("index", range(4), ids=["operator", "prepared operator", "graph", "prepared graph"])
def test_another_version_is_refused_by_name(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = everything("numpy")[index][0]
    with monkeypatch.context() as patch:
        patch.setattr(pickling, "__version__", "0.0.7")
        pickled = pickle.dumps(made)
    with pytest.raises(dml.PickleError, match=rf"dmlpy 0\.0\.7 wrote this pickle, and dmlpy {re.escape(dml.__version__)} is to load it"):
        pickle.loads(pickled)


def test_another_version_is_told_before_its_descs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be of classes that are not there."""
    monkeypatch.setattr(pickling, "__version__", "0.0.7")
    pickled = pickle.dumps(dml.compile(gru(), "numpy")).replace(b"GRUDesc", b"GRXDesc")
    monkeypatch.undo()
    with pytest.raises(dml.PickleError, match="Install the same version"):
        pickle.loads(pickled)


@pytest.mark.parametrize("made", [dml.compile(gru(), "numpy"), graph()], ids=["operator", "graph"])
def test_threads_that_load_a_pickle_compile_it_once(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled, compiled = pickle.dumps(made), []
    plan = NumpyDevice.plan

    def planned_slowly(self: Any, *given: Any) -> Any:
        compiled.append(given)
        time.sleep(0.02)
        return plan(self, *given)

    for cache in (_compile, _planned, _compile_arrived):
        cache.cache_clear()
    monkeypatch.setattr(NumpyDevice, "plan", planned_slowly)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(pickle.loads, [pickled] * 4))
    assert all(item is found[0] for item in found)
    assert len(compiled) == 1


@pytest.mark.parametrize(("index", "written"), [(0, b"cuda"), (3, b"cuda:3")])
def test_the_first_gpu_is_the_receivers_and_others_are_as_named(index: int, written: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is called by the index that the process knows it by: the receiver's `cuda` is the first one that it sees."""
    device = cuda_on_cpu()
    device.name = f"cuda:{index}"
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda asked: device if asked == index else "there is one only")
    pickled = pickle.dumps(dml.compile(owned(), f"cuda:{index}"))
    assert re.findall(rb"cuda(?::\d)?", pickled) == [written]
    assert pickle.loads(pickled).device is device


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_after_a_fork_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_used_by", {os.getpid() + 1})
    monkeypatch.setitem(DEVICE_KINDS, "cuda", cuda._device)
    with pytest.raises(dml.DeviceError, match="start processes with the method spawn or forkserver"):
        dml.device("cuda")


def test_constants_packed_in_another_layout_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    op, given = dml.compile(gru(), "numpy"), values(gru())
    pickled = pickle.dumps(op.prepare(**{name: given[name] for name in op.prepared_inputs}))
    plan = op._plan
    pack = type(plan).pack

    def packed_otherwise(self: Any, constants: Any, persistent: int) -> Any:
        """As a plan would that keeps W's rows in another order."""
        launch = pack(self, constants, persistent)

        def launched(stream: int) -> None:
            launch(stream)
            rows = np.ctypeslib.as_array((ctypes.c_float * 16).from_address(persistent))
            rows[:] = rows[::-1].copy()

        return launched

    monkeypatch.setattr(type(plan), "pack", packed_otherwise)
    with pytest.raises(dml.PickleError, match="packs constants in another layout"):
        pickle.loads(pickled)


def test_a_fingerprint_is_the_same_each_time() -> None:
    op = dml.compile(gru(), "numpy")
    assert pickling.layout_fingerprint(op) == pickling.layout_fingerprint(op) != pickling.layout_fingerprint(dml.compile(owned(), "numpy"))


def test_a_device_made_by_hand_cannot_be_found_again() -> None:
    with pytest.raises(dml.PickleError, match="its device was made by hand"):
        pickle.dumps(dml.compile(owned(), NumpyDevice()))


def dispatches() -> list[BoundWork]:
    x = np.ones((1, 1, 2, 3), np.float32)
    return [dml.compile(owned(), "numpy").bind([x, x], [x.copy()]), graph().bind([x], [x.copy()])]


@EACH
@pytest.mark.parametrize("dispatch", dispatches(), ids=["operator", "graph"])
def test_a_dispatch_says_why_it_cannot(dispatch: BoundWork, again: Any) -> None:
    with pytest.raises(dml.PickleError, match="bound to memory of this process, at fixed addresses") as caught:
        again(dispatch)
    assert isinstance(caught.value, TypeError)
    dispatch()
