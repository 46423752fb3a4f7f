"""Calling, preparing and binding compiled operators: results, and every way in which arrays and memory can be wrong."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices import DEVICE_KINDS
from dmlpy.devices.numpy import array_functions
from dmlpy.devices.numpy import device as numpy_device
from tests.support.devices import DeviceOfNothing
from tests.support.recurrent.small_rnn import Array, B, H, I, T, codes, inputs, on, poisoned, rnn
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close


def check_outputs(device: dml.Device, desc: dml.RecurrentDesc, arrays: dict[str, Array], results: dict[str, Any]) -> None:
    for name, wanted in dml.reference(desc, arrays).as_dict().items():
        assert_close(device.to_host(results[name]), wanted, np.float32, terms=H)


def test_call_allocates_the_outputs(any_device: dml.Device) -> None:
    desc, op = rnn(), dml.compile(rnn(), any_device)
    arrays = inputs(desc)
    results = op(**on(any_device, arrays))
    check_outputs(any_device, desc, arrays, results.as_dict())
    sequence, single = results
    assert sequence is results.output_sequence_tensor is results.OutputSequenceTensor
    assert single is results.output_single_tensor
    assert len(results) == 2
    with pytest.raises(AttributeError, match="the desc describes output_sequence_tensor"):
        results.output_cell_single_tensor  # noqa: B018  (reading it raises)


def test_call_fills_passed_outputs_and_takes_c_names(any_device: dml.Device) -> None:
    desc, op = rnn(), dml.compile(rnn(), any_device)
    arrays = inputs(desc)
    output = poisoned(any_device, desc.output_sequence_tensor)
    given = on(any_device, arrays)
    results = op(InputTensor=given.pop("input_tensor"), OutputSequenceTensor=output, **given)
    assert results.output_sequence_tensor is output
    check_outputs(any_device, desc, arrays, results.as_dict())


def test_prepared_operator_gives_the_same_bits(any_device: dml.Device) -> None:
    desc, op = rnn(), dml.compile(rnn(), any_device)
    arrays = inputs(desc)
    given = on(any_device, arrays)
    plain = op(**given)
    prepared = op.prepare(weight_tensor=given.pop("weight_tensor"), RecurrenceTensor=given.pop("recurrence_tensor"))
    for _ in range(2):
        again = prepared(**given)
        for name, array in again.as_dict().items():
            np.testing.assert_array_equal(any_device.to_host(array), any_device.to_host(plain.as_dict()[name]))
    assert prepared.binding_properties.persistent_resource_size == op.binding_properties.persistent_resource_size > 0
    assert prepared.binding_properties.temporary_resource_size < op.binding_properties.temporary_resource_size


def test_constants_are_read_by_prepare_only(any_device: dml.Device) -> None:
    desc, op = rnn(), dml.compile(rnn(), any_device)
    arrays = inputs(desc)
    given = on(any_device, arrays)
    constants = {name: np.array(arrays[name]) for name in ("weight_tensor", "recurrence_tensor")}
    prepared = op.prepare(copy=True, **constants)
    for array in constants.values():
        array[...] = np.nan
    results = prepared(**{name: array for name, array in given.items() if name not in constants})
    check_outputs(any_device, desc, arrays, results.as_dict())


@pytest.mark.parametrize("prepared", [False, True])
def test_dispatch_runs_again_on_changed_input(any_device: dml.Device, prepared: bool) -> None:
    desc = rnn()
    op = dml.compile(desc, any_device)
    arrays = inputs(desc)
    given = on(any_device, arrays)
    outputs = {field.name: poisoned(any_device, getattr(desc, field.name)) for field in desc.outputs()}
    if prepared:
        ready = op.prepare(weight_tensor=given.pop("weight_tensor"), recurrence_tensor=given.pop("recurrence_tensor"))
        dispatch = ready.bind(given, outputs)
    else:
        dispatch = op.bind({**given, "bias_tensor": None}, outputs)
    dispatch()
    check_outputs(any_device, desc, arrays, outputs)
    dispatch(stream=any_device.current_stream())
    check_outputs(any_device, desc, arrays, outputs)


def test_bind_to_raw_memory_and_own_scratch(any_device: dml.Device) -> None:
    desc = rnn()
    op = dml.compile(desc, any_device)
    arrays = inputs(desc)
    given = on(any_device, arrays)
    outputs = {field.name: poisoned(any_device, getattr(desc, field.name)) for field in desc.outputs()}
    properties = op.binding_properties
    assert properties.required_descriptor_count == len(desc.tensor_fields())

    def memory(size: int) -> tuple[Any, dml.Buffer]:
        array = any_device.from_host(np.full(size + 16, 0xFF, np.uint8))
        pointer = any_device.view(array).pointer
        return array, dml.Buffer(pointer + -pointer % 16, size)

    def raw(name: str, array: Any) -> dml.Buffer:
        return dml.Buffer(any_device.view(array).pointer, getattr(desc, name).extent_in_bytes)

    keep_persistent, persistent = memory(properties.persistent_resource_size)
    op.prepare(
        weight_tensor=raw("weight_tensor", weight := given.pop("weight_tensor")),
        recurrence_tensor=given.pop("recurrence_tensor"),
        persistent=persistent,
    )
    del weight  # its memory has been read
    keep_temporary, temporary = memory(properties.temporary_resource_size)
    dispatch = op.bind(
        {name: raw(name, array) for name, array in given.items()},
        {name: raw(name, array) for name, array in outputs.items()},
        temporary=temporary,
        persistent=persistent,
    )
    dispatch()
    check_outputs(any_device, desc, arrays, outputs)
    for keep in (keep_persistent, keep_temporary):
        assert (any_device.to_host(keep)[-1:] == 0xFF).all()


def test_streams(any_device: dml.Device) -> None:
    op = dml.compile(rnn(), any_device)
    given = on(any_device, inputs(rnn()))
    number = any_device.current_stream()
    streams = SimpleNamespace(ptr=number), SimpleNamespace(cuda_stream=number), SimpleNamespace(__cuda_stream__=lambda: (0, number))
    for stream in (None, number, *streams):
        assert any_device.stream_handle(stream) == number
        op(stream=stream, **given)
    with pytest.raises(dml.DeviceError, match="stream is 'main', expected None, the integer handle of a stream, or a stream of"):
        op(stream="main", **given)


def test_lengths_are_checked_at_each_dispatch_on_the_host() -> None:
    desc = rnn()
    arrays = inputs(desc)
    outputs = {field.name: np.full(getattr(desc, field.name).sizes, np.nan, np.float32) for field in desc.outputs()}
    dispatch = dml.compile(desc, "numpy").bind(arrays, outputs)
    dispatch()
    for output in outputs.values():
        output[...] = np.nan
    arrays["sequence_lengths_tensor"][..., 1] = T + 3
    with pytest.raises(dml.BindError, match=rf"sequence_lengths_tensor\[1\] is {T + 3}, expected 0 to {T}"):
        dispatch()
    assert all(np.isnan(output).all() for output in outputs.values())


def test_host_arrays_need_copy(cuda_device: dml.Device) -> None:
    desc = rnn()
    op = dml.compile(desc, cuda_device)
    arrays = inputs(desc)
    with pytest.raises(dml.BindError) as error:
        op(**arrays)
    assert set(codes(error).values()) == {"array.device"}
    assert "copy=True" in str(error.value)


def test_copy_brings_values_and_takes_them_back(cuda_device: dml.Device) -> None:
    desc = rnn()
    op = dml.compile(desc, cuda_device)
    arrays = inputs(desc)
    strided = arrays | {"input_tensor": np.asfortranarray(arrays["input_tensor"])}
    output = np.full(desc.output_sequence_tensor.sizes, np.nan, np.float32)  # type: ignore[union-attr]
    results = op(**strided, output_sequence_tensor=output, copy=True)
    assert results.output_sequence_tensor is output
    check_outputs(cuda_device, desc, arrays, {"output_sequence_tensor": output, "output_single_tensor": results.output_single_tensor})


def test_copy_checks_lengths_on_the_host(cuda_device: dml.Device) -> None:
    desc = rnn()
    arrays = inputs(desc) | {"sequence_lengths_tensor": np.full((1, 1, 1, B), T + 1, np.uint32)}
    with pytest.raises(dml.BindError, match="sequence_lengths_tensor"):
        dml.compile(desc, cuda_device)(**arrays, copy=True)


def test_device_lengths_are_clamped_or_validated(cuda_device: dml.Device) -> None:
    desc = rnn()
    op = dml.compile(desc, cuda_device)
    arrays = inputs(desc)
    arrays["sequence_lengths_tensor"][...] = [2, T + 9, T]
    given = on(cuda_device, arrays)
    with pytest.raises(dml.BindError, match=rf"sequence_lengths_tensor\[1\] is {T + 9}"):
        op(**given, validate=True)
    results = op(**given)
    clamped = arrays | {"sequence_lengths_tensor": np.minimum(arrays["sequence_lengths_tensor"], T)}
    check_outputs(cuda_device, desc, clamped, results.as_dict())


def test_gpu_array_for_the_numpy_device_is_refused(cuda_device: dml.Device) -> None:
    with pytest.raises(dml.BindError) as error:
        dml.compile(rnn(), "numpy")(**on(cuda_device, inputs(rnn())))
    assert set(codes(error).values()) == {"array.device"}


def test_dlpack_and_buffer_protocol_arrays() -> None:
    class OnlyDlpack:
        def __init__(self, array: Array) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    desc = rnn()
    arrays = inputs(desc)
    output = np.full(desc.output_sequence_tensor.sizes, np.nan, np.float32)  # type: ignore[union-attr]
    wrapped = {name: OnlyDlpack(array) for name, array in arrays.items()}
    # NumPy below 2.3 takes what comes by DLPack as read-only.
    taken = OnlyDlpack(output) if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else output
    dml.compile(desc, "numpy")(**wrapped, output_sequence_tensor=taken)
    assert_close(output, dml.reference(desc, arrays).output_sequence_tensor, np.float32, terms=H)
    assert dml.TensorDesc.of(OnlyDlpack(arrays["input_tensor"])) == desc.input_tensor


def test_an_output_of_a_producer_older_than_dlpack_1_is_written() -> None:
    """Its capsules cannot mark memory as read-only; those of newer producers do."""

    class Older:
        def __init__(self, array: Array) -> None:
            self.array = array

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    class Unversioned(Older):
        def __dlpack__(self, stream: Any = None, **options: Any) -> Any:
            return self.array.__dlpack__()

    class Newer(Older):
        def __dlpack__(self, stream: Any = None, **options: Any) -> Any:
            return self.array.__dlpack__(stream=stream, **options)

    desc = dml.ActivationReluDesc(input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3])).with_outputs()
    x = np.array([[-1, 0, 2]], np.float32)
    for producer in (Older, Unversioned):
        out = np.full((1, 3), np.nan, np.float32)
        dml.compile(desc, "numpy")(input_tensor=producer(x), output_tensor=producer(out))
        np.testing.assert_array_equal(out, np.maximum(x, 0))
    fixed = np.zeros((1, 3), np.float32)
    fixed.flags.writeable = False
    with pytest.raises(dml.BindError, match=r"read-?only"):
        dml.compile(desc, "numpy")(input_tensor=x, output_tensor=Newer(fixed))


def test_memory_that_is_not_aligned_is_refused_with_a_remedy() -> None:
    desc = dml.ActivationReluDesc(input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3])).with_outputs()
    shifted = np.zeros(13, np.uint8)[1:].view(np.float32).reshape(1, 3)
    with pytest.raises(dml.BindError) as caught:
        dml.compile(desc, "numpy")(input_tensor=shifted)
    (problem,) = caught.value.problems
    assert (problem.code, problem.remedy) == ("bind.alignment", "pass a copy, which is aligned: array.copy()")
    dml.compile(desc, "numpy")(input_tensor=shifted.copy())
    with pytest.raises(dml.BindError) as caught:
        dml.compile(desc, "numpy")(input_tensor=dml.Buffer(shifted.ctypes.data, 12))
    (problem,) = caught.value.problems
    assert (problem.code, problem.remedy) == ("bind.alignment", None)  # a Buffer has no copy


ADDRESS = "pass the address: ctypes.cast(pointer, ctypes.c_void_p).value"


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (4096, "make it an array: numpy.asarray(..., numpy.float32); if it is an address: dmlpy.Buffer(address, 12)"),
        (True, "make it an array: numpy.asarray(..., numpy.float32)"),
        (ctypes.c_void_p(4096), "describe the memory: dmlpy.Buffer(pointer.value, 12)"),
        (bytes(12), "read it as an array: numpy.frombuffer(..., numpy.float32)"),
        (dml.Buffer(ctypes.c_void_p(4096), 12), ADDRESS),
        (dml.Buffer(ctypes.pointer(ctypes.c_float()), 12), ADDRESS),
        (dml.Buffer((ctypes.c_float * 3)(), 12), ADDRESS),
        (dml.Buffer("4096", 12), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_memory_is_refused_with_a_remedy(value: object, remedy: str | None) -> None:
    desc = dml.ActivationReluDesc(input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3])).with_outputs()
    with pytest.raises(dml.BindError) as caught:
        dml.compile(desc, "numpy")(input_tensor=value)
    (problem,) = caught.value.problems
    code = "buffer.form" if isinstance(value, dml.Buffer) else "array.kind"
    assert (problem.code, problem.remedy) == (code, remedy)


def test_compile_is_cached_and_refuses_with_all_problems() -> None:
    assert dml.compile(rnn(), "numpy") is dml.compile(rnn(), "NumPy")
    assert dml.compile(rnn(), "numpy") is not dml.compile(rnn(), "numpy", feature_level="5.0")
    bad = rnn().replace(weight_tensor=tensor(1, 1, H, I + 1), activation_descs=[])
    with pytest.raises(dml.CompileError) as error:
        dml.compile(bad, "numpy")
    # Two tensors disagree on input_size: the tie goes to the earlier field, so the later one is blamed.
    assert [problem.path for problem in error.value.problems] == ["weight_tensor.sizes[3]", "activation_descs"]
    assert error.value.desc is bad
    assert "✗" in error.value._repr_html_()


def test_operators_without_a_plan_say_so() -> None:
    desc = dml.ActivationTanhDesc(input_tensor=tensor(2, 3), output_tensor=tensor(2, 3))
    assert dml.check(desc) == []
    with pytest.raises(dml.CompileError, match="runs on numpy") as error:
        dml.compile(desc, DeviceOfNothing())
    assert error.value.hresult == dml.HResult.E_NOTIMPL


PARTS = [None, "the semantics of its negative half are undocumented"]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("in_a_graph", [False, True])
def test_the_reason_why_a_device_does_not_run_an_operator(monkeypatch: pytest.MonkeyPatch, part: str | None, in_a_graph: bool) -> None:
    """NumPy names the part of a desc that nothing defines; for what runs on NumPy, another device's error names NumPy."""
    place = tensor(1, 1, 1, 1023 + 2 * in_a_graph + (part is None))  # sizes of no other test: compiled operators are cached
    desc: Any = dml.ElementWiseErfDesc(input_tensor=place, output_tensor=place)
    builder = dml.GraphBuilder()
    builder.output("y", builder.add(dml.ElementWiseErfDesc, "erf", input_tensor=builder.input("x", place)))
    nothing = DeviceOfNothing()
    nothing.name = "nothing"
    for module in (array_functions, numpy_device):
        monkeypatch.setattr(module, "why_undefined", lambda desc: part)
    for device in (nothing, dml.device("numpy")) if part else (nothing,):
        with pytest.raises(dml.CompileError) as caught:
            dml.compile(builder.build() if in_a_graph else desc, device)
        (problem,) = caught.value.problems
        assert (problem.code, problem.path) == ("operator.not_built", "nodes[0]" if in_a_graph else "")
        assert problem.why == (part or "nothing has no plan for it",)
        assert problem.remedy == (None if part else "compile it for the device 'cpu'")


@pytest.mark.parametrize("name", ["cuda:99", "cuda:x", "cuda:²", "cuda:" + 5000 * "9", "numpy:1", "cpu:1", "tpu", "nunpy"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(dml.DeviceError) as error:
        dml.device(name)
    assert name[:40] in str(error.value)
    assert any(word in str(error.value) for word in ("GPU", "CuPy", "driver")) == (name == "cuda:99")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("host", "cpu"),
        ("HOST", "cpu"),
        ("numba", "cpu"),
        ("cput", "cpu"),
        ("gpu", "cuda"),
        ("gpu:1", "cuda:1"),
        ("cuba:1", "cuda:1"),
        (2, "cuda:2"),
        (SimpleNamespace(type="cpu", index=None), "cpu"),  # as PyTorch has them
        (SimpleNamespace(type="cuda", index=1), "cuda:1"),
        (SimpleNamespace(type="cuda", index=None), "cuda"),
        (SimpleNamespace(platform="gpu", id=1), "cuda:1"),  # JAX
        (SimpleNamespace(platform="cpu", id=0), "cpu"),
        (SimpleNamespace(id=3), "cuda:3"),  # CuPy
    ],
)
def test_other_names_of_devices_get_a_remedy(name: Any, meant: str) -> None:
    with pytest.raises(dml.DeviceError, match=f"did you mean '{meant}'\\?$"):
        dml.device(name)


class Untold:
    """An object whose kind cannot be read."""

    @property
    def type(self) -> Any:
        raise RuntimeError


@pytest.mark.parametrize("name", [True, -1, 1.0, b"cpu", {}, float, SimpleNamespace(type="meta"), SimpleNamespace(type=[]), Untold()])
def test_what_stands_for_no_device_gets_no_remedy(name: Any) -> None:
    with pytest.raises(dml.DeviceError, match=r"^device is (.|\n)*, expected 'cpu', 'numpy', .* or None$"):
        dml.device(name)


def test_memory_that_will_not_fit_is_refused_with_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    many = 2048
    device = dml.device("numpy")
    one = tensor(1, 1, many, many, strides=[0, 0, 0, 0])
    desc = rnn(input_tensor=tensor(1, T, B, many), weight_tensor=one, recurrence_tensor=one, sequence_lengths_tensor=None)
    given = {name: np.broadcast_to(np.float32(0.001), item.sizes) for name, item in desc.tensors().items() if name == "weight_tensor"}
    given |= {"recurrence_tensor": given["weight_tensor"], "input_tensor": np.ones((1, T, B, many), np.float32)}
    outputs = {field.name: np.full(getattr(desc, field.name).sizes, np.nan, np.float32) for field in desc.outputs()}
    op = dml.compile(desc, device)
    monkeypatch.setattr(type(device), "available_memory", lambda self: 20_000_000)
    for attempt in (
        lambda: op(**given, **outputs),
        lambda: op.bind(given, outputs),
        lambda: op.prepare(weight_tensor=given["weight_tensor"], recurrence_tensor=given["recurrence_tensor"]),
    ):
        with pytest.raises(dml.DeviceError, match=r"DML_RNN_OPERATOR_DESC.* needs \d+\.\d MB; 20\.0 MB are available on numpy") as error:
            attempt()
        assert error.value.hresult == dml.HResult.E_OUTOFMEMORY
    assert all(np.isnan(output).all() for output in outputs.values())
    monkeypatch.undo()
    op(**given, **outputs)
    assert not any(np.isnan(output).any() for output in outputs.values())


def test_a_compiled_operator_is_immutable() -> None:
    op = dml.compile(rnn(), "numpy")
    for name in ("desc", "device", "feature_level"):
        with pytest.raises(AttributeError):
            setattr(op, name, None)
    assert op is dml.compile(rnn(), "numpy")
    assert op.desc == rnn()


def test_threads_share_an_operator() -> None:
    desc = rnn()
    op = dml.compile(desc, "numpy")
    failures: list[str] = []

    def work(seed: int) -> None:
        arrays = inputs(desc, seed)
        wanted = dml.reference(desc, arrays).as_dict()
        for _ in range(20):
            for name, array in op(**arrays).as_dict().items():
                if not np.allclose(array, wanted[name], atol=1e-5):
                    failures.append(f"{name} of seed {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_missing_gpu_is_reported_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DEVICE_KINDS, "cuda", lambda index: "the driver is too old")
    with pytest.raises(dml.DeviceError, match=r"device 'cuda:1' does not exist on this machine: the driver is too old"):
        dml.device("cuda:1")
    assert dml.device() is dml.device("cpu")
    assert [device.name for device in dml.list_devices()] == ["numpy", "cpu"]
