"""What a caller binds and must not: each mistake is reported, and nothing is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.fuzzing.hostile import Raises, RaisingMapping
from tests.support.recurrent.small_rnn import Array, B, H, I, T, codes, inputs, on, poisoned, rnn
from tests.support.tensors import tensor


def wrong_arrays() -> list[Any]:
    """Name, what replaces an input or output (a function of the good host array), and the problem's code."""

    def shifted(array: Array) -> Array:
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:]
        return raw.view(array.dtype).reshape(array.shape)

    return [
        ("input_tensor", lambda a: a.astype(np.float64), "array.type"),
        ("input_tensor", lambda a: a.astype(np.float16), "array.type"),
        ("input_tensor", lambda a: a > 0, "array.type"),
        ("input_tensor", lambda a: a[0], "array.shape"),
        ("input_tensor", lambda a: np.ascontiguousarray(a.swapaxes(1, 2)), "array.shape"),
        ("input_tensor", lambda a: np.ascontiguousarray(a.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2), "array.strides"),
        ("input_tensor", lambda a: a[:, :, :, ::-1], "array.strides"),
        ("input_tensor", lambda a: a.tolist(), "array.kind"),
        ("input_tensor", lambda a: None, "bind.missing"),
        ("input_tensor", shifted, "bind.alignment"),
        ("weight_tensor", lambda a: np.broadcast_to(a[:, :, :1], a.shape), "array.strides"),
        ("sequence_lengths_tensor", lambda a: a.astype(np.int32), "array.type"),
        ("sequence_lengths_tensor", lambda a: np.full_like(a, T + 1), "value.range"),
        ("output_sequence_tensor", lambda a: a[:-1], "array.shape"),
        ("output_sequence_tensor", lambda a: np.require(a.copy(), requirements="W").astype(np.float16), "array.type"),
    ]


@pytest.mark.parametrize(("name", "make", "code"), wrong_arrays(), ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_arrays_on_numpy(name: str, make: Any, code: str) -> None:
    desc = rnn()
    op = dml.compile(desc, "numpy")
    arrays = inputs(desc)
    output = np.full(desc.output_sequence_tensor.sizes, np.nan, np.float32)  # type: ignore[union-attr]
    good = {**arrays, "output_sequence_tensor": output}
    bad = good | {name: make(good[name])}
    with pytest.raises(dml.BindError) as error:
        op(**bad)
    assert codes(error).get(name) == code or any(path.startswith(f"{name}[") and found == code for path, found in codes(error).items())
    assert np.isnan(output).all(), "a refused call writes nothing"
    assert error.value.hresult == dml.HResult.E_INVALIDARG
    op(**good)
    assert not np.isnan(output).any(), "the device is usable after an error"


def test_read_only_output_is_refused() -> None:
    desc = rnn()
    output = np.zeros(desc.output_sequence_tensor.sizes, np.float32)  # type: ignore[union-attr]
    output.flags.writeable = False
    with pytest.raises(dml.BindError) as error:
        dml.compile(desc, "numpy")(**inputs(desc), output_sequence_tensor=output)
    assert codes(error) == {"output_sequence_tensor": "array.read_only"}


def test_all_wrong_arrays_are_reported_at_once() -> None:
    desc = rnn()
    arrays = inputs(desc)
    with pytest.raises(dml.BindError) as error:
        dml.compile(desc, "numpy")(
            input_tensor=arrays["input_tensor"][0],
            weigth_tensor=arrays["weight_tensor"],
            recurrence_tensor=arrays["recurrence_tensor"].astype(np.float16),
            sequence_lengths_tensor=arrays["sequence_lengths_tensor"],
            bias_tensor=np.zeros((1, 1, 1, 2 * H), np.float32),
        )
    assert codes(error) == {
        "weigth_tensor": "bind.unknown",
        "bias_tensor": "bind.unexpected",
        "weight_tensor": "bind.missing",
        "input_tensor": "array.shape",
        "recurrence_tensor": "array.type",
    }
    remedies = {problem.path: problem.remedy for problem in error.value.problems}
    assert remedies["weigth_tensor"] == "did you mean weight_tensor?"
    assert remedies["input_tensor"] == f"only dimensions of size 1 differ: array.reshape(1, {T}, {B}, {I})"
    assert remedies["recurrence_tensor"] == "cast it: array.astype(numpy.float32)"


@pytest.mark.parametrize(
    ("buffer", "code"),
    [(dml.Buffer(0, 10**6), "buffer.pointer"), (dml.Buffer(4096, 8), "buffer.size"), (dml.Buffer(4098, 10**6), "bind.alignment")],
)
def test_wrong_buffers(any_device: dml.Device, buffer: dml.Buffer, code: str) -> None:
    desc = rnn()
    given = on(any_device, inputs(desc)) | {"input_tensor": buffer}
    outputs = {field.name: poisoned(any_device, getattr(desc, field.name)) for field in desc.outputs()}
    with pytest.raises(dml.BindError) as error:
        dml.compile(desc, any_device).bind(given, outputs)
    assert codes(error) == {"input_tensor": code}


def test_guaranteed_alignment_is_demanded() -> None:
    desc = rnn(input_tensor=tensor(1, T, B, I, guaranteed_base_offset_alignment=64))
    arrays = inputs(desc)
    block = np.zeros(arrays["input_tensor"].size + 64, np.float32)
    start = (-block.ctypes.data % 64) // 4
    for offset, fits in ((0, True), (4, False)):
        given = block[start + offset :][: arrays["input_tensor"].size].reshape(1, T, B, I)
        if fits:
            dml.compile(desc, "numpy")(**arrays | {"input_tensor": given})
        else:
            with pytest.raises(dml.BindError, match="a multiple of 64 "):
                dml.compile(desc, "numpy")(**arrays | {"input_tensor": given})


def hazard_cases() -> list[Any]:
    """Which memory is used twice, and the problem."""
    return [
        ("input_tensor", "output_sequence_tensor", "hazard.in_place"),
        ("recurrence_tensor", "output_single_tensor", "hazard.in_place"),
        ("output_sequence_tensor", "output_single_tensor", "hazard.outputs"),
        ("temporary", "output_single_tensor", "hazard.temporary"),
        ("temporary", "input_tensor", "hazard.temporary"),
        ("temporary", "persistent", "hazard.temporary"),
        ("persistent", "output_single_tensor", "hazard.persistent"),
        ("persistent", "input_tensor", None),
        ("input_tensor", "recurrence_tensor", None),
    ]


@pytest.mark.parametrize(("first", "second", "code"), hazard_cases())
def test_hazards_at_bind(any_device: dml.Device, first: str, second: str, code: str | None) -> None:
    desc = rnn()
    op = dml.compile(desc, any_device)
    sizes = {name: item.extent_in_bytes for name, item in desc.tensors().items()}
    sizes |= {"temporary": op.binding_properties.temporary_resource_size, "persistent": op.binding_properties.persistent_resource_size}
    apart = 256 + max(sizes.values()) // 256 * 256
    block = any_device.from_host(np.zeros((len(sizes) + 1) * apart, np.uint8))
    base = any_device.view(block).pointer
    base += -base % 256
    areas = {name: dml.Buffer(base + index * apart, size) for index, (name, size) in enumerate(sizes.items())}
    areas[second] = dml.Buffer(areas[first].pointer, sizes[second])
    persistent = areas["persistent"] if "persistent" in (first, second) else None
    fields = [field for field in desc.tensor_fields() if field.name in sizes]
    skipped = ("weight_tensor", "recurrence_tensor") if persistent else ()
    arguments = (
        {field.name: areas[field.name] for field in fields if not field.marker.output and field.name not in skipped},
        {field.name: areas[field.name] for field in fields if field.marker.output},
    )
    if code is None:
        op.bind(*arguments, temporary=areas["temporary"], persistent=persistent)
        return
    with pytest.raises(dml.BindError) as error:
        op.bind(*arguments, temporary=areas["temporary"], persistent=persistent)
    assert code in {problem.code for problem in error.value.problems}


def test_hazard_at_call_leaves_memory_untouched() -> None:
    desc = rnn(input_tensor=tensor(1, T, B, H), weight_tensor=tensor(1, 1, H, H), recurrence_tensor=tensor(1, 1, H, H))
    arrays = inputs(desc)
    before = arrays["input_tensor"].copy()
    with pytest.raises(dml.BindError, match="never runs in place"):
        dml.compile(desc, "numpy")(**arrays, output_sequence_tensor=arrays["input_tensor"].reshape(T, 1, B, H))
    np.testing.assert_array_equal(arrays["input_tensor"], before)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.zeros(4, np.uint8), "resource.size"),
        (np.zeros(1 << 20, np.uint8)[::2], "resource.kind"),
        # As large as it looks only: finding out allocates nothing.
        (np.broadcast_to(np.uint8(0), 1 << 50), "resource.kind"),
        (dml.Buffer(None, 1 << 20), "buffer.form"),
        (dml.Buffer(0, 1 << 20), "buffer.pointer"),
        (dml.Buffer(-16, 1 << 20), "buffer.pointer"),
        (dml.Buffer(1 << 64, 1 << 20), "buffer.pointer"),
        (dml.Buffer(2**64 - 16, 1 << 20), "buffer.size"),
        (dml.Buffer(1 << 10_000, 1 << 20), "buffer.pointer"),
        (dml.Buffer(4096, -1), "buffer.size"),
        (dml.Buffer(4096, 1 << 10_000), "buffer.size"),
        (dml.Buffer(Raises(), 1 << 20), "buffer.form"),
        (Raises(), "array.kind"),
        ("scratch", "array.kind"),
    ],
)
def test_wrong_scratch(value: Any, code: str) -> None:
    desc = rnn()
    outputs = {field.name: np.zeros(getattr(desc, field.name).sizes, np.float32) for field in desc.outputs()}
    with pytest.raises(dml.BindError) as error:
        dml.compile(desc, "numpy").bind(inputs(desc), outputs, temporary=value)
    assert codes(error) == {"temporary": code}


def test_what_is_given_in_the_wrong_place_is_reported_where_it_belongs() -> None:
    desc = rnn()
    op, arrays = dml.compile(desc, "numpy"), inputs(desc)
    outputs = {field.name: np.zeros(getattr(desc, field.name).sizes, np.float32) for field in desc.outputs()}
    constants = {name: arrays.pop(name) for name in ("weight_tensor", "recurrence_tensor")}
    with pytest.raises(dml.BindError) as error:
        op.bind({**arrays, **constants, **outputs}, outputs)
    assert codes(error) == dict.fromkeys(outputs, "bind.misplaced")
    with pytest.raises(dml.BindError) as error:
        op.prepare(**constants, **arrays)
    assert codes(error) == dict.fromkeys(arrays, "bind.misplaced")
    assert {problem.remedy for problem in error.value.problems} == {"pass it with the inputs"}  # which cannot be owned
    prepared = op.prepare(**constants)
    for attempt in (lambda: prepared(**arrays, **constants), lambda: prepared.bind({**arrays, **constants}, outputs)):
        with pytest.raises(dml.BindError) as error:
            attempt()
        assert codes(error) == dict.fromkeys(constants, "bind.packed")
    with pytest.raises(dml.BindError) as error:
        op(**arrays, **constants, InputTensor=arrays["input_tensor"])
    assert codes(error) == {"InputTensor": "bind.twice"}
    prepared(**arrays, **dict.fromkeys(constants))


def test_addresses_of_numpys_integers() -> None:
    desc = rnn()
    arrays = inputs(desc)
    raw = {name: dml.Buffer(np.uintp(array.ctypes.data), np.int64(array.nbytes)) for name, array in arrays.items()}
    op = dml.compile(desc, "numpy")
    np.testing.assert_array_equal(op(**raw).output_single_tensor, op(**arrays).output_single_tensor)


@pytest.mark.parametrize("given", [None, 3, "input_tensor", np.zeros(1), Raises(), RaisingMapping(x=1), {1: None, "weight": None}])
def test_what_is_bound_has_names(given: Any, any_device: dml.Device) -> None:
    desc = rnn()
    op = dml.compile(desc, any_device)
    arrays = on(any_device, inputs(desc))
    outputs = {field.name: poisoned(any_device, getattr(desc, field.name)) for field in desc.outputs()}
    for bind, place in [(lambda: op.bind(given, outputs), "inputs"), (lambda: op.bind(arrays, given), "outputs")]:
        with pytest.raises(dml.BindError) as error:
            bind()
        assert codes(error)[place] == "bind.form"
    g = dml.GraphBuilder()
    relu = g.add(dml.ActivationReluDesc, "relu", input_tensor=g.input("x", tensor(2, 3)))
    g.output("y", relu)
    graph = dml.compile(g.build(), any_device)
    with pytest.raises(dml.BindError) as error:
        graph.bind(given, given)
    assert codes(error) | {"inputs": "bind.form", "outputs": "bind.form"} == codes(error)


@pytest.mark.parametrize("stream", [-1, 2**64, 2**5000, True, "0", Raises(), object(), 0.0])
def test_wrong_streams(stream: Any, any_device: dml.Device) -> None:
    desc = rnn()
    op = dml.compile(desc, any_device)
    with pytest.raises(dml.DeviceError, match="stream is"):
        op(**on(any_device, inputs(desc)), stream=stream)


class _Broken:
    """Arrays of other libraries that break their protocols."""

    class Interface:
        __cuda_array_interface__: Any = {"shape": (2,)}

    class InterfaceOfFloats:
        __cuda_array_interface__: Any = {"shape": (2.0,), "typestr": "<f4", "data": (4096, False), "version": 3}

    class InterfaceOfOneStride:
        __cuda_array_interface__: Any = {"shape": (2, 3), "strides": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}

    class InterfaceAboveAddresses:
        __cuda_array_interface__: Any = {"shape": (2,), "typestr": "<f4", "data": (2**64, False), "version": 3}

    class InterfaceRaises:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("requires grad")

    class ArrayInterface:
        __array_interface__: Any = {"shape": (2,)}

    class Dlpack:
        def __dlpack__(self, **options: Any) -> Any:
            raise AttributeError("no memory")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0


@pytest.mark.parametrize(
    "value",
    [
        _Broken.Interface(),
        _Broken.InterfaceOfFloats(),
        _Broken.InterfaceOfOneStride(),
        _Broken.InterfaceAboveAddresses(),
        _Broken.InterfaceRaises(),
        Raises(),
        _Broken.ArrayInterface(),
        _Broken.Dlpack(),
        np.ma.zeros((1, T, B, I), np.float32),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arrays_that_cannot_be_read_are_no_arrays(value: Any) -> None:
    desc = rnn()
    with pytest.raises(dml.BindError) as error:
        dml.compile(desc, "numpy")(**inputs(desc) | {"input_tensor": value})
    assert codes(error) == {"input_tensor": "array.kind"}
    with pytest.raises(dml.DescError) as refused:
        dml.TensorDesc.of(value)
    assert codes(refused) == {"": "array.kind"}
