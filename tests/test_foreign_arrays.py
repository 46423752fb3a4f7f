"""Objects that say that they are arrays and are not: whatever takes arrays reports them as dmlpy's errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import TensorProto
from onnx.helper import make_node, make_tensor_sequence_value_info

import dmlpy as dml
from dmlpy import eager, nn, onnx, x
from dmlpy.keras import Sequential
from dmlpy.keras.simple import Dense
from tests.support.onnx.models import model

ONES = np.ones((2, 3), np.float32)
STEPS, WEIGHTS, RECURRENCE = (np.ones(sizes, np.float32) for sizes in ((2, 2, 3), (4, 3), (4, 4)))


class Interface:
    """An array by `__array_interface__`, in the memory of another one."""

    def __init__(self, **said: Any) -> None:
        self._memory = np.zeros(100, np.float32)
        address = self._memory.ctypes.data
        self.__array_interface__ = {"version": 3, "shape": (2, 3), "typestr": "<f4", "data": (address, False)} | said


class Raising:
    """An array whose methods raise what nobody expects of them."""

    def __init__(self, place: Any, shared: Exception) -> None:
        self._place, self._shared = place, shared

    def __dlpack_device__(self) -> Any:
        if isinstance(self._place, Exception):
            raise self._place
        return self._place

    def __dlpack__(self, **_: Any) -> Any:
        raise self._shared


class NoArray:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("no array")


class NoInterface:
    @property
    def __array_interface__(self) -> Any:
        raise ValueError("no interface")


class PageLocked:
    """An array in page-locked memory of the host, as PyTorch's pinned tensors are; of DLPack before version 1."""

    def __init__(self, array: Any, kind: int) -> None:
        self._array, self._kind = array, kind

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self._array.__dlpack__()
        pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
        after_data = (pointer_of(capsule, b"dltensor") or 0) + ctypes.sizeof(ctypes.c_void_p)
        ctypes.c_int32.from_address(after_data).value = self._kind
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, 0


OBJECTS: dict[str, Callable[[], Any]] = {
    "strides of another rank": lambda: Interface(strides=(12,)),
    "sizes beyond memory": lambda: Interface(shape=(2**40, 2**40)),
    "negative sizes": lambda: Interface(shape=(2, -3)),
    "an interface that raises": NoInterface,
    "a conversion that raises": NoArray,
    "a place that raises": lambda: Raising(RuntimeError("no place"), BufferError("no memory")),
    "a place of one number": lambda: Raising((1,), BufferError("no memory")),
    "a place of text": lambda: Raising("x", BufferError("no memory")),
    "memory that is not shared": lambda: Raising((1, 0), KeyError("no memory")),
    "texts": lambda: np.full((2, 3), "a"),
    "records": lambda: np.zeros((2, 3), [("a", "<f4")]),
    "dates": lambda: np.zeros((2, 3), "M8[s]"),
    "rows of several lengths": lambda: [[1.0], [2.0, 3.0]],
}

TENSOR = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3])
ADD = dml.ElementWiseAddDesc(a_tensor=TENSOR, b_tensor=TENSOR, output_tensor=TENSOR)


def graph() -> dml.Graph:
    return x.graph(x.add(x.input("a", TENSOR), x.input("b", TENSOR)))


def operator() -> Any:
    return dml.compile(ADD, "numpy")


def layers() -> Sequential:
    return Sequential([Dense(2, input_dim=3)], device="numpy")


def added() -> onnx.Model:
    return onnx.load(model([make_node("Add", ["a", "b"], ["y"])], {"a": [2, 3], "b": [2, 3]}, ["y"]))


def listed() -> Any:
    made = model([make_node("SequenceLength", ["s"], ["n"])], {}, ["n"], types={"n": TensorProto.INT64})
    made.graph.input.append(make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2, 3]))
    return onnx.load(made).compile("numpy")


TAKERS: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "an input": lambda: lambda given: operator()(a_tensor=ONES, b_tensor=given),
    "an output": lambda: lambda given: operator().bind([ONES, ONES], [given]),
    "a graph": lambda: lambda given: dml.compile(graph(), "numpy")(a=ONES, b=given),
    "dml.reference": lambda: lambda given: dml.reference(ADD, [ONES, given]),
    "dml.compare": lambda: lambda given: dml.compare(graph(), {"a": ONES, "b": given}, ("numpy", "reference")),
    "dmlpy.eager": lambda: lambda given: eager.add(ONES, given),
    "dmlpy.eager, first": lambda: lambda given: eager.add(given, ONES),
    "dmlpy.nn": lambda: lambda given: nn.rnn(given, WEIGHTS, RECURRENCE, device="numpy"),
    "dmlpy.nn, a state": lambda: lambda given: nn.rnn(STEPS, WEIGHTS, RECURRENCE, h0=given, device="numpy"),
    "dmlpy.nn, lengths": lambda: lambda given: nn.rnn(STEPS, WEIGHTS, RECURRENCE, lengths=given, device="numpy"),
    "an ONNX model": lambda: (lambda run: lambda given: run(a=ONES, b=given))(added().compile("numpy")),
    "a list for an ONNX model": lambda: (lambda run: lambda given: run(s=[ONES, given]))(listed()),
    "onnx.load": lambda: lambda given: onnx.load(added().loaded.proto, constants={"b": given}),
    "onnx.export": lambda: lambda given: onnx.export(graph(), constants={"b": given}),
    "predict": lambda: layers().predict,
    "set_weights": lambda: lambda given: layers().set_weights([given, np.zeros(2)]),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_what_is_no_array_is_reported(taker: str) -> None:
    take = TAKERS[taker]()
    for name, make in OBJECTS.items():
        try:
            take(make())
        except dml.DmlError:
            continue
        except Exception as error:
            pytest.fail(f"{name}: {type(error).__name__}: {error}")
        pytest.fail(f"{name}: accepted")


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ({"a": 1}, ["b is {'a': 1}, expected float32 [2, 3]"]),
        (Raising((7, 0), BufferError("no memory")), ["b is <", "expected float32 [2, 3]", "on a DLPack device of type 7"]),
    ],
)
def test_what_is_no_array_for_an_onnx_model_is_named(given: Any, texts: list[str]) -> None:
    with pytest.raises(dml.BindError) as caught:
        TAKERS["an ONNX model"]()(given)
    assert len(caught.value.problems) == 1
    assert all(text in str(caught.value) for text in texts)


READ: dict[str, Callable[[Any], Any]] = {
    "an input": lambda given: operator()(a_tensor=ONES, b_tensor=given).output_tensor,
    "a graph": lambda given: dml.compile(graph(), "numpy")(a=ONES, b=given).output,
    "dmlpy.eager": lambda given: eager.add(ONES, given),
    "dmlpy.eager, first": lambda given: eager.add(given, ONES),
    "dmlpy.nn": lambda given: nn.rnn(STEPS, given, RECURRENCE[:2, :2], device="numpy")[0],
    "an ONNX model": lambda given: added().compile("numpy")(a=ONES, b=given)["y"],
}


@pytest.mark.parametrize("kind", [3, 11], ids=["CUDA", "ROCm"])
@pytest.mark.parametrize("reader", READ)
def test_page_locked_memory_is_read_as_all_of_the_hosts(reader: str, kind: int) -> None:
    given = np.full((2, 3), 0.5, np.float32)
    np.testing.assert_array_equal(READ[reader](PageLocked(given, kind)), READ[reader](given))


@pytest.mark.parametrize(("given", "message"), [(np.ones((5, 3), np.float32), "of sizes [5, 3]"), (np.ones((2, 3)), "float64")])
def test_constants_of_an_onnx_model_are_those_of_its_inputs(given: Any, message: str) -> None:
    with pytest.raises(dml.DescError) as caught:
        onnx.load(added().loaded.proto, constants={"b": given})
    assert f"constants['b'] is {message}, expected" in str(caught.value)


def test_an_array_by_its_interface_alone_is_broadcast() -> None:
    np.testing.assert_array_equal(eager.add(ONES, Interface(shape=()), device="numpy"), ONES)


def test_what_is_no_graph_is_not_compared() -> None:
    with pytest.raises(dml.DescError, match=r"graph is .*, expected a graph") as caught:
        dml.compare(ADD, [ONES, ONES], ("numpy", "reference"))
    assert caught.value.problems[0].remedy == "dml.reference computes a single operator in float64"
