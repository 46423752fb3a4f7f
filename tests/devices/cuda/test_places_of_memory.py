"""Memory of another GPU is refused wherever memory is given; memory that every GPU can use is taken. Over a CuPy of two GPUs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices import Memory
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime
from tests.support.cuda.fakes.cupy_bindings import MANAGED, ON_DEVICE, REGISTERED, UNREGISTERED, FakeGpus, MemoryPointer
from tests.support.recurrent.small_rnn import inputs, rnn
from tests.support.tensors import tensor

SIZES = (2, 3, 4)
BYTES = 4 * 24
RELU = dml.ActivationReluDesc(input_tensor=tensor(*SIZES), output_tensor=tensor(*SIZES))


class ByInterface:
    """Offers `__cuda_array_interface__` alone, which does not name the GPU."""

    def __init__(self, array: Any) -> None:
        self.owner = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": None}


class ByDlpack:
    """Offers DLPack alone."""

    def __init__(self, array: Any, device: tuple[int, int]) -> None:
        self.array, self.device = array, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int) -> Any:
        return self.array


def by_dlpack(array: Any) -> ByDlpack:
    found, kind = sys.modules["cupy"].cuda.runtime._gpus.found(array.data.ptr)
    return ByDlpack(array, (13, 0) if kind == MANAGED else (2, found))


def as_buffer(array: Any) -> dml.Buffer:
    return dml.Buffer(array.data.ptr, int(np.prod(array.shape)) * array.dtype.itemsize)


FORMS: dict[str, Callable[[Any], Any]] = {
    "CuPy": lambda array: array,
    "__cuda_array_interface__": ByInterface,
    "DLPack": by_dlpack,
    "Buffer": as_buffer,
}
EACH_FORM = pytest.mark.parametrize("form", FORMS)


class Given:
    """Arrays of both GPUs, and what is compiled for the first."""

    def __init__(self, runtime: CupyRuntime) -> None:
        self.gpu, self.other = CudaDevice(runtime, 0), CudaDevice(runtime, 1)
        self.relu = dml.compile(RELU, self.gpu)
        self.rnn = dml.compile(rnn(), self.gpu)
        builder = dml.GraphBuilder()
        owned = builder.input("b", tensor(*SIZES, flags="OWNED_BY_DML"))
        builder.output("y", builder.add(dml.ElementWiseAdd1Desc, a_tensor=builder.input("a", tensor(*SIZES)), b_tensor=owned))
        self.graph = dml.compile(builder.build(), self.gpu)

    def own(self) -> Any:
        return self.gpu.from_host(np.ones(SIZES, np.float32))

    def packed(self) -> dict[str, Any]:
        return {name: self.gpu.from_host(array) for name, array in inputs(rnn()).items() if name in self.rnn.prepared_inputs}

    def rnn_memory(self) -> tuple[dict[str, Any], dict[str, Any]]:
        given = {name: self.gpu.from_host(array) for name, array in inputs(rnn()).items()}
        return given, {field.name: self.gpu.empty(rnn().tensors()[field.name], 0) for field in rnn().outputs()}


DOORS: dict[str, tuple[str, Callable[[Given, Any], object]]] = {
    "call, input": ("array.device", lambda given, wrong: given.relu(input_tensor=wrong)),
    "call, output": ("array.device", lambda given, wrong: given.relu(input_tensor=given.own(), output_tensor=wrong)),
    "call, temporary": ("resource.kind", lambda given, wrong: given.rnn(**given.rnn_memory()[0], temporary=wrong)),
    "bind, input": ("array.device", lambda given, wrong: given.relu.bind([wrong], [given.own()])),
    "bind, output": ("array.device", lambda given, wrong: given.relu.bind([given.own()], [wrong])),
    "rebind": ("array.device", lambda given, wrong: given.relu.bind([given.own()], [given.own()]).rebind(output_tensor=wrong)),
    "prepare, constant": ("array.device", lambda given, wrong: given.rnn.prepare(**given.packed() | {"weight_tensor": wrong})),
    "initializer, constant": (
        "array.device",
        lambda given, wrong: dml.OperatorInitializer([given.rnn])([given.packed() | {"weight_tensor": wrong}]),
    ),
    "initializer, temporary": (
        "resource.kind",
        lambda given, wrong: dml.OperatorInitializer([given.rnn])([given.packed()], temporary=wrong),
    ),
    "initializer, persistent": (
        "resource.kind",
        lambda given, wrong: dml.OperatorInitializer([given.rnn])([given.packed()], persistent=[wrong]),
    ),
    "prepare, persistent": ("resource.kind", lambda given, wrong: given.rnn.prepare(persistent=wrong, **given.packed())),
    "bind, temporary": ("resource.kind", lambda given, wrong: given.rnn.bind(*given.rnn_memory(), temporary=wrong)),
    "bind, persistent": ("resource.kind", lambda given, wrong: given.rnn.bind(*given.rnn_memory(), persistent=wrong)),
    "graph, call": ("array.device", lambda given, wrong: given.graph(a=wrong, b=given.own())),
    "graph, output": ("array.device", lambda given, wrong: given.graph(a=given.own(), b=given.own(), y=wrong)),
    "graph, call, temporary": ("resource.kind", lambda given, wrong: given.graph(a=given.own(), b=given.own(), temporary=wrong)),
    "graph, prepare": ("array.device", lambda given, wrong: given.graph.prepare(b=wrong)),
    "graph, prepare, persistent": ("resource.kind", lambda given, wrong: given.graph.prepare(b=given.own(), persistent=wrong)),
    "graph, bind": ("array.device", lambda given, wrong: given.graph.prepare(b=given.own()).bind({"a": wrong}, [given.own()])),
    "graph, temporary": (
        "resource.kind",
        lambda given, wrong: given.graph.prepare(b=given.own()).bind({"a": given.own()}, [given.own()], temporary=wrong),
    ),
    "graph, rebind": (
        "array.device",
        lambda given, wrong: given.graph.prepare(b=given.own()).bind({"a": given.own()}, [given.own()]).rebind(a=wrong),
    ),
}


def as_memory(array: Any) -> Memory:
    return Memory(array.data.ptr, int(np.prod(array.shape)) * array.dtype.itemsize, array)


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("door", "form"),
    [(door, form) for door in DOORS for form in FORMS.values()]
    + [(door, as_memory) for door, (code, _) in DOORS.items() if code == "resource.kind"],
)
def test_memory_of_another_gpu_is_refused(door: str, form: Callable[[Any], Any], runtime: CupyRuntime, gpus: FakeGpus) -> None:
    given = Given(runtime)
    code, use = DOORS[door]
    sizes = SIZES if code == "array.device" else (1 << 20,)
    wrong = form(given.other.from_host(np.ones(sizes, np.float32)))
    with pytest.raises(dml.BindError) as error:
        use(given, wrong)
    (problem,) = (problem for problem in error.value.problems if problem.code == code)
    assert problem.found.endswith("on cuda:1")
    assert "memory of cuda:0" in problem.expected
    if code == "array.device":
        assert any("compiled for cuda:0" in why for why in problem.why)
        assert problem.remedy == "copy it to cuda:0, or compile with device='cuda:1'"


@pytest.mark.parametrize("ordinal", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize(
    ("kind", "form"),
    # CuPy does not take DLPack's page-locked memory.
    [(MANAGED, form) for form in FORMS] + [(REGISTERED, form) for form in FORMS if form != "DLPack"],
)
def test_memory_of_every_gpu_is_taken(kind: int, device: int, ordinal: int, form: str, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    gpu = CudaDevice(runtime, ordinal)
    array = sys.modules["cupy"].ndarray(SIZES, np.float32, MemoryPointer(gpus.new_memory(kind, BYTES, device), device))
    op = dml.compile(RELU, gpu)
    value = FORMS[form](array)
    for _ in range(2):
        op(input_tensor=value)
    dispatch = op.bind([gpu.from_host(np.ones(SIZES, np.float32))], [value])
    dispatch()
    assert [run[1] for run in gpus.launches] == [ordinal] * 3


@EACH_FORM
def test_a_known_layout_does_not_let_another_gpus_array_in(form: str, runtime: CupyRuntime) -> None:
    given = Given(runtime)
    use = FORMS[form]
    given.relu(input_tensor=use(given.own()))
    with pytest.raises(dml.BindError, match="on cuda:1, expected memory of cuda:0"):
        given.relu(input_tensor=use(given.other.from_host(np.ones(SIZES, np.float32))))
    given.relu(input_tensor=use(given.own()))


@pytest.mark.parametrize("form", ["__cuda_array_interface__", "Buffer"])
@pytest.mark.parametrize(("kind", "device", "where"), [(ON_DEVICE, 1, "on cuda:1"), (UNREGISTERED, 0, "in host memory|cannot access")])
def test_an_address_may_become_memory_of_another_place(
    form: str, kind: int, device: int, where: str, runtime: CupyRuntime, gpus: FakeGpus
) -> None:
    """What was allocated there may be freed, and the address be used for other memory."""
    given = Given(runtime)
    value = FORMS[form](given.own())
    given.relu(input_tensor=value)
    dispatch = given.relu.bind([value], [given.own()])
    pointer = value.pointer if isinstance(value, dml.Buffer) else value.owner.data.ptr
    gpus.blocks[pointer] = (device, gpus.blocks[pointer][1])
    gpus.kinds[pointer] = kind
    for use in (lambda: given.relu(input_tensor=value), lambda: dispatch.rebind(input_tensor=value)):
        with pytest.raises(dml.BindError, match=where):
            use()


@pytest.mark.parametrize(("form", "times"), [("CuPy", 0), ("DLPack", 0), ("__cuda_array_interface__", 6), ("Buffer", 6)])
def test_arrays_that_name_their_gpu_ask_nothing_of_cuda(form: str, times: int, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    given = Given(runtime)
    value = FORMS[form](given.own())
    dispatch = given.relu.bind([given.own()], [given.own()])
    gpus.asked.clear()
    for _ in range(3):
        given.relu(input_tensor=value)
        dispatch.rebind(input_tensor=value)
    assert len(gpus.asked) == times


@pytest.mark.parametrize("pageable", [False, True])
def test_a_buffer_of_host_memory_is_refused_where_kernels_cannot_access_it(pageable: bool, runtime: CupyRuntime, gpus: FakeGpus) -> None:
    gpus.pageable = pageable
    op = dml.compile(RELU, CudaDevice(runtime, 0))
    buffer = dml.Buffer(gpus.new_memory(UNREGISTERED), 4096)
    if pageable:
        op(input_tensor=buffer)
        assert len(gpus.launches) == 1
        return
    with pytest.raises(dml.BindError, match="a buffer in host memory, expected memory of cuda:0"):
        op(input_tensor=buffer)
    assert gpus.launches == []


def test_an_interface_to_host_memory_is_refused(runtime: CupyRuntime, gpus: FakeGpus) -> None:
    class Wrong:
        __cuda_array_interface__ = {"version": 3, "shape": SIZES, "typestr": "<f4", "data": (gpus.new_memory(UNREGISTERED), False)}

    with pytest.raises(dml.BindError, match="its memory is the host's, which cuda:0 cannot access") as error:
        dml.compile(RELU, CudaDevice(runtime, 0))(input_tensor=Wrong())
    assert [problem.code for problem in error.value.problems] == ["array.kind"]
