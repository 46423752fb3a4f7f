"""Pickles and copies of what is compiled: compiled again where they are loaded, packed constants carried along; a dispatch refuses."""

from __future__ import annotations

import copy
import ctypes
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.compiler import _compile
from dmlpy.devices import pickling
from dmlpy.devices.dispatch import BoundWork
from dmlpy.devices.numpy.device import NumpyDevice
from tests.support.tensors import tensor

T, B, F, H = 4, 3, 5, 6
Array = np.ndarray[Any, np.dtype[Any]]


def gru() -> dml.GRUDesc:
    return dml.GRUDesc(
        input_tensor=tensor(1, T, B, F),
        weight_tensor=tensor(1, 1, 3 * H, F),
        recurrence_tensor=tensor(1, 1, 3 * H, H),
        bias_tensor=tensor(1, 1, 1, 6 * H),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
        linear_before_reset=True,
    ).with_outputs("output_sequence_tensor")


def owned() -> dml.ElementWiseAddDesc:
    part = tensor(1, 1, 2, 3)
    return dml.ElementWiseAddDesc(a_tensor=part, b_tensor=part.replace(flags="OWNED_BY_DML"), output_tensor=part)


def values(desc: dml.OperatorDesc) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {slot.place: rng.standard_normal(slot.tensor.sizes, np.float32) for slot in desc.input_slots() if slot.tensor}


def graph() -> Any:
    g = dml.GraphBuilder("one")
    x = g.input("x", tensor(1, 1, 2, 3))
    ones = g.constant("ones", np.ones((1, 1, 2, 3), np.float32))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=x, b_tensor=ones))
    return dml.compile(g.build(), "numpy", "6_2", "DISABLE_META_COMMANDS")


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


PROGRAM = """
import pickle, sys
import numpy as np
prepared, given = pickle.load(sys.stdin.buffer)
np.save(sys.stdout.buffer, prepared(**given).output_sequence_tensor)
"""


def test_a_new_process_loads_a_prepared_operator() -> None:
    op, given = dml.compile(gru(), "numpy"), values(gru())
    prepared = op.prepare(**{name: given.pop(name) for name in op.prepared_inputs})
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=pickle.dumps((prepared, given)), capture_output=True, check=True)
    written = np.frombuffer(done.stdout[-4 * T * B * H :], np.float32)
    np.testing.assert_array_equal(written, prepared(**given).output_sequence_tensor.reshape(-1))


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
