"""Calls of a compiled graph that reuse the launches of earlier calls: results, memory, threads, errors, and the Python that runs."""

from __future__ import annotations

import gc
import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.graphs import calls
from dmlpy.devices.numpy import array_functions
from dmlpy.graphs import Graph
from dmlpy.messages.problems import BindError, DeviceError
from tests.support.structure.python_calls import python_calls
from tests.support.tensors import tensor

Array = np.ndarray[Any, np.dtype[Any]]
HOSTS = pytest.mark.parametrize("device", ["numpy", "cpu"])

MOMENTS: dict[str, Any] = {"axes": [2, 3], "normalize_variance": True, "epsilon": 0.1, "fused_activation": dml.ActivationTanhDesc()}
"""Members of an operator that NumPy runs on both devices."""


def random_graph(seed: int) -> Graph:
    """Compiled nodes and NumPy's by turns, of odd sizes, with views, several outputs, constants, and values that share memory."""
    chosen = random.Random(seed)
    rows, columns = chosen.randint(4, 9), chosen.randint(17, 33)
    g = dml.GraphBuilder()
    values: list[Any] = [g.input(f"x{index}", tensor(rows, columns)) for index in range(3)]
    weights = g.input("w", tensor(1, 1, columns, columns))
    numbers = np.random.default_rng(seed).standard_normal((rows, columns), np.float32)
    values.append(g.constant("c", numbers))
    for _ in range(chosen.randint(3, 14)):
        kind, value = chosen.choice(["add", "add", "relu", "softmax", "gemm", "sum", "turned", "moments"]), chosen.choice(values)
        if kind == "add":
            value = g.add(dml.ElementWiseAddDesc, a_tensor=value, b_tensor=chosen.choice(values))
        elif kind == "gemm":
            value = g.add(dml.GEMMDesc, a_tensor=value.reshape(1, 1, rows, columns), b_tensor=weights).reshape(rows, columns)
        elif kind == "turned":
            value = g.add(dml.ActivationTanhDesc, input_tensor=value.transpose(1, 0)).transpose(1, 0)
        elif kind == "sum":
            value = g.add(dml.CumulativeSummationDesc, input_tensor=value, axis=1, axis_direction="INCREASING", has_exclusive_sum=False)
        elif kind == "moments":  # by NumPy, also on the device cpu
            image = value.reshape(1, 1, rows, columns)
            value = g.add(dml.MeanVarianceNormalization1Desc, input_tensor=image, **MOMENTS).reshape(rows, columns)
        elif kind == "softmax":
            value = g.add(dml.ActivationSoftmax1Desc, input_tensor=value, axes=[chosen.randint(0, 1)])
        else:
            value = g.add(dml.ActivationReluDesc, input_tensor=value)
        values.append(value)
    g.output("y", g.add(dml.ElementWiseMultiplyDesc, a_tensor=values[-1], b_tensor=values[0]))
    g.output("z", chosen.choice(values[4:]))
    return g.build(prune=True)


def arrays(op: Any, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(desc.sizes, np.float32) for name, desc in op.inputs.items()}


def bound_alone(op: Any, given: dict[str, Array]) -> dict[str, Array]:
    """What launches give that are made for this memory alone."""
    outputs = {name: np.full(desc.sizes, np.nan, np.float32) for name, desc in op.outputs.items()}
    op.bind(given, outputs)()
    return outputs


@HOSTS
@pytest.mark.parametrize("scratch", [1 << 20, 0], ids=["kept", "allocated"])
@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(device: str, scratch: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of launches that are made anew: with other inputs, with outputs and scratch of the caller's, and with one array twice."""
    monkeypatch.setattr(calls, "_MOST_SCRATCH", scratch)
    op: Any = dml.compile(random_graph(seed), device, fuse=bool(seed % 2))
    own = np.empty(op.binding_properties.temporary_resource_size + 64, np.uint8)
    own = own[-own.ctypes.data % 64 :]
    for turn in range(5):
        given = arrays(op, turn)
        if turn == 3:
            given |= dict.fromkeys([name for name in given if name != "w"], next(iter(given.values())))
        expected = bound_alone(op, given)
        named = ((), ("y",), (), ("y", "z"), ())[turn]
        passed = {name: np.full(op.outputs[name].sizes, np.nan, np.float32) for name in named}
        found = op(**given, **passed, temporary=own if turn == 2 else None).as_dict()
        own[...] = 255
        assert all(found[name] is array for name, array in passed.items())
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=f"{turn}: {name}")


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


def misaligned(array: Array) -> Array:
    return np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)


WRONG: dict[str, dict[str, Any]] = {
    "x is an array with strides [1, 8]": {"x": np.asfortranarray(np.zeros((8, 4), np.float32))},
    "x is an array with strides [-4, 1]": {"x": np.flipud(np.zeros((8, 4), np.float32))},
    "x is [8, 8], expected [8, 4]": {"x": np.zeros((8, 8), np.float32)},
    "x is INT32": {"x": np.zeros((8, 4), np.int32)},
    "y is not given": {"y": None},
    "q is not among the inputs": {"q": np.zeros((8, 4), np.float32)},
    "z is a read-only array": {"z": read_only(np.zeros((8, 4), np.float32))},
    "expected an address that is a multiple of 4": {"z": misaligned(np.zeros((8, 4), np.float32))},
}


@HOSTS
def test_arguments_of_any_form(device: str) -> None:
    """What is not a packed array, shares memory or does not fit is bound with all checks, after a call that needed none of them."""
    g = dml.GraphBuilder()
    g.output("z", g.add(dml.ElementWiseAddDesc, a_tensor=g.input("x", tensor(8, 4)), b_tensor=g.input("y", tensor(8, 4))))
    op: Any = dml.compile(g.build(), device)
    x, y = np.arange(64, dtype=np.float32).reshape(2, 8, 4)
    given = {"x": x, "y": y}
    for form in (np.asarray, read_only, np.asarray):
        np.testing.assert_array_equal(op(**{name: form(array) for name, array in given.items()}).z, x + y)
    said = {}
    for message, changes in WRONG.items():
        with pytest.raises(BindError) as raised:
            op(**given | changes)
        said[message] = str(raised.value)
    assert {message: text for message, text in said.items() if message not in text} == {}
    kept = np.zeros(40, np.float32)
    x[...] = kept[:32].reshape(8, 4)
    with pytest.raises(BindError, match=r"hazard\.in_place"):
        op(x=kept[:32].reshape(8, 4), y=y, z=kept[8:].reshape(8, 4))
    beside = np.zeros((2, 8, 4), np.float32)
    np.testing.assert_array_equal(op(x=beside[0], y=y, z=beside[1]).z, y)


@HOSTS
def test_concurrent_calls(device: str) -> None:
    """More threads than launches wait."""
    op: Any = dml.compile(random_graph(1), device)
    given = [arrays(op, seed) for seed in range(12)]
    expected = [bound_alone(op, own) for own in given]
    with ThreadPoolExecutor(6) as pool:
        for own, found in zip(expected * 10, pool.map(lambda own: op(**own).as_dict(), given * 10), strict=True):
            for name, array in own.items():
                np.testing.assert_array_equal(found[name], array)
    assert 0 < len(op._calls._waiting) <= 4


@HOSTS
def test_a_call_keeps_neither_inputs_nor_outputs(device: str) -> None:
    op: Any = dml.compile(random_graph(2), device)
    for seed in range(2):
        given = arrays(op, seed)
        found = op(**given).as_dict()
        seen = [weakref.ref(array) for array in (*given.values(), *found.values())]
        del given, found
        gc.collect()
        assert not any(each() is not None for each in seen)


def test_an_error_between_nodes_leaves_the_graph_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    g = dml.GraphBuilder()
    x = g.input("x", tensor(3, 5))
    y = g.add(dml.ElementWiseAddDesc, "twice", a_tensor=x, b_tensor=x)
    scaled = g.add(dml.MeanVarianceNormalization1Desc, "scaled", input_tensor=y.reshape(1, 1, 3, 5), **MOMENTS)
    g.output("z", g.add(dml.ActivationReluDesc, input_tensor=scaled.reshape(3, 5)))
    op: Any = dml.compile(g.build(), "cpu")
    given = arrays(op, 1)
    right = op(**given).z.copy()

    def fails(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(array_functions.WholePlan, "_only_result", fails)
        with pytest.raises(DeviceError, match="DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC needs more memory"):
            op(**given)
    with pytest.raises(BindError, match=r"x is \[3, 4\], expected \[3, 5\]"):
        op(x=np.zeros((3, 4), np.float32))
    for _ in range(2):
        np.testing.assert_array_equal(op(**given).z, right)


@HOSTS
def test_sequence_lengths_are_checked_in_each_call(device: str) -> None:
    g = dml.GraphBuilder()
    lengths = tensor(1, 1, 1, 2, data_type="UINT32")
    layer = g.add(
        dml.RNNDesc,
        outputs=["output_sequence_tensor"],
        input_tensor=g.input("x", tensor(1, 4, 2, 3)),
        weight_tensor=g.input("w", tensor(1, 1, 5, 3)),
        recurrence_tensor=g.input("r", tensor(1, 1, 5, 5)),
        sequence_lengths_tensor=g.input("lengths", lengths),
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    )
    g.output("y", layer)
    op: Any = dml.compile(g.build(), device)
    given = arrays(op, 1) | {"lengths": np.array([[[[4, 2]]]], np.uint32)}
    for _ in range(2):
        assert not op(**given).y[0, 2:, 1].any()
        with pytest.raises(BindError, match="lengths"):
            op(**given | {"lengths": np.array([[[[4, 5]]]], np.uint32)})


# The Python that runs


def chain(nodes: int) -> Graph:
    """Compiled nodes that all read one input."""
    g = dml.GraphBuilder()
    x, y = g.input("x", tensor(8, 8)), g.input("y", tensor(8, 8))
    for node in range(nodes):
        added = g.add(dml.ElementWiseAddDesc, a_tensor=x, b_tensor=y)
        x = g.add(dml.ActivationSoftmax1Desc, input_tensor=added, axes=[1]) if node % 2 else added
    g.output("z", x)
    return g.build()


def test_no_python_runs_for_a_compiled_node() -> None:
    pytest.importorskip("llvmlite")
    counted = []
    for nodes in (4, 200):
        op: Any = dml.compile(chain(nodes), "cpu")
        given = arrays(op, 3)
        op(**given)
        z = op(**given).z
        dispatch = op.bind(given, {"z": z})
        others = [arrays(op, seed) for seed in (1, 2)]

        def call(op: Any = op, given: Any = given) -> None:
            op(**given)

        def rebind(dispatch: Any = dispatch, others: Any = others) -> None:
            dispatch.rebind(**others[0])
            dispatch()
            others.reverse()

        rebind()
        counted.append([python_calls(call), python_calls(dispatch), python_calls(rebind)])
    assert counted[0] == counted[1]
    of_call, of_dispatch, of_rebinding = counted[0]
    assert of_call <= 60
    assert of_dispatch <= 22
    assert of_rebinding <= 110
