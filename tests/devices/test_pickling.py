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
from dmlpy.compiler import _compile, _compile_arrived, _compile_operator
from dmlpy.devices import cuda
from dmlpy.devices.device import DEVICE_KINDS
from dmlpy.devices.dispatch import BoundWork
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.devices.persistence import pickling
from tests.conftest import cuda_on_cpu
from tests.support.pickled_objects import everything, gru, plus_one, run_all, run_elsewhere, values
from tests.support.tensors import tensor


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
    """They are arrays in the pickle, so that protocol 5 can transfer them out of band."""
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


def test_another_version_is_reported_before_its_descs_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
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

    for cache in (_compile, _compile_operator, _compile_arrived):
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


@pytest.fixture
def packs_otherwise(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """When called, makes the plan of `gru()` pack W's rows in another order than `op` packed them before."""
    kind = type(dml.compile(gru(), "numpy")._plan)
    pack, bind = kind.pack, kind.bind

    def reversed_rows(persistent: int) -> None:
        rows = np.ctypeslib.as_array((ctypes.c_float * 16).from_address(persistent))
        rows[:] = rows[::-1].copy()

    def packed_otherwise(self: Any, constants: Any, persistent: int) -> Any:
        launch = pack(self, constants, persistent)

        def launched(stream: int) -> None:
            launch(stream)
            reversed_rows(persistent)

        return launched

    def read_otherwise(self: Any, pointers: Any, temporary: int, persistent: int | None) -> Any:
        launch = bind(self, pointers, temporary, persistent)
        assert persistent is not None

        def launched(stream: int) -> None:
            reversed_rows(persistent)
            launch(stream)
            reversed_rows(persistent)

        return launched

    def change() -> None:
        monkeypatch.setattr(kind, "pack", packed_otherwise)
        monkeypatch.setattr(kind, "bind", read_otherwise)

    return change


def test_constants_packed_in_another_layout_are_refused(packs_otherwise: Callable[[], None]) -> None:
    op, given = dml.compile(gru(), "numpy"), values(gru())
    pickled = pickle.dumps(op.prepare(**{name: given[name] for name in op.prepared_inputs}))
    packs_otherwise()
    with pytest.raises(dml.PickleError, match=r"packs constants in another layout(.|\n)*prepare\(portable=True"):
        pickle.loads(pickled)


def test_portable_constants_are_packed_anew_where_they_arrive(packs_otherwise: Callable[[], None]) -> None:
    op, given = dml.compile(gru(), "numpy"), values(gru())
    constants = {name: given.pop(name) for name in op.prepared_inputs}
    prepared = op.prepare(portable=True, **constants)
    expected = prepared(**given).output_sequence_tensor
    for constant in constants.values():
        constant[:] = np.nan  # what is stored is a copy
    pickled = pickle.dumps(prepared)
    packs_otherwise()
    made = pickle.loads(pickled)
    np.testing.assert_array_equal(made(**given).output_sequence_tensor, expected)
    again = pickle.loads(pickle.dumps(made))  # and it continues from there
    np.testing.assert_array_equal(again(**given).output_sequence_tensor, expected)


def owning() -> dml.Graph:
    """y = x + w, with w owned."""
    part = tensor(1, 1, 2, 3)
    g = dml.GraphBuilder("owning")
    x, w = g.input("x", part), g.input("w", part.replace(flags="OWNED_BY_DML"))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=x, b_tensor=w))
    return g.build()


@pytest.mark.parametrize("graph", [owning(), plus_one()], ids=["owned inputs", "constants only"])
def test_portable_graphs_fit_any_layout(graph: dml.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3)
    op = dml.compile(graph, "numpy")
    prepared = op.prepare(portable=True, **({"w": x + 1} if op.prepared_inputs else {}))
    pickled = pickle.dumps(prepared)
    monkeypatch.setattr(type(op._packing), "fingerprint", lambda self: b"another layout")
    np.testing.assert_array_equal(pickle.loads(pickled)(x=x).y, prepared(x=x).y)


def test_portable_constants_of_a_gpu_travel(cuda_device: dml.Device) -> None:
    op, given = dml.compile(owned(), cuda_device), values(owned())
    prepared = op.prepare(portable=True, copy=True, b_tensor=given["b_tensor"])
    made, arguments = prepared.__reduce__()
    found = made(*arguments)(a_tensor=cuda_device.from_host(given["a_tensor"]))
    np.testing.assert_array_equal(cuda_device.to_host(found.output_tensor), given["a_tensor"] + given["b_tensor"])


def test_a_plan_that_packs_other_inputs_refuses_portable_constants() -> None:
    op, given = dml.compile(owned(), "numpy"), values(owned())
    made, (_, constants) = op.prepare(portable=True, b_tensor=given["b_tensor"]).__reduce__()
    with pytest.raises(dml.PickleError, match=r"holds \[b_tensor\], and the plan here packs \[weight_tensor"):
        made(dml.compile(gru(), "numpy"), constants)


@pytest.mark.parametrize("index", range(4), ids=["operator", "prepared operator", "graph", "prepared graph"])
def test_a_message_of_dask_is_read_and_its_use_refused(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that failed to read it would lose its connection without a reason."""
    messages = pytest.importorskip("distributed.protocol.pickle")
    with monkeypatch.context() as patch:
        patch.setattr(pickling, "__version__", "0.0.7")
        pickled = pickle.dumps(everything("numpy")[index][0])
    found = pickle.loads(pickle.dumps(messages.loads(pickled)))
    for use in (lambda: found(x=1), lambda: found.desc):
        with pytest.raises(dml.PickleError, match=r"dmlpy 0\.0\.7 wrote this pickle"):
            use()


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
