"""Calls that are given their scratch: operators and graphs, prepared or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices import Memory
from tests.support.recurrent.small_rnn import Array, codes, inputs, on, poisoned, rnn
from tests.support.tables import table

CONSTANTS = ("weight_tensor", "recurrence_tensor")


class Call(NamedTuple):
    """What is called, and the arguments by name. All have the output `result`, of which `desc` is the layout."""

    run: Any
    given: dict[str, Any]
    result: str
    desc: dml.TensorDesc


def operator(device: dml.Device, arrays: dict[str, Array]) -> Call:
    desc = rnn()
    assert desc.output_sequence_tensor is not None
    return Call(dml.compile(desc, device), on(device, arrays), "output_sequence_tensor", desc.output_sequence_tensor)


def prepared(device: dml.Device, arrays: dict[str, Array]) -> Call:
    call = operator(device, arrays)
    constants = {name: call.given.pop(name) for name in CONSTANTS}
    return call._replace(run=call.run.prepare(**constants))


def graph(device: dml.Device, arrays: dict[str, Array], constants: tuple[str, ...] = ()) -> Call:
    builder = dml.GraphBuilder()
    members: dict[str, Any] = {"activation_descs": [dml.ActivationTanhDesc()], "direction": "FORWARD"}
    for name, array in arrays.items():
        members[name] = builder.constant(name, array) if name in constants else builder.input(name, dml.TensorDesc.of(array))
    hidden = builder.add(dml.RNNDesc, "layer", outputs=["output_sequence_tensor"], **members)
    builder.output("y", builder.add(dml.ActivationSoftmax1Desc, "softmax", input_tensor=hidden, axes=[3]))
    compiled = dml.compile(builder.build(), device)
    given = {name: array for name, array in arrays.items() if name not in constants}
    return Call(compiled, on(device, given), "y", compiled.outputs["y"])


def prepared_graph(device: dml.Device, arrays: dict[str, Array]) -> Call:
    call = graph(device, arrays, CONSTANTS)
    return call._replace(run=call.run.prepare())


CALLS = pytest.mark.parametrize("make", [operator, prepared, graph, prepared_graph])
Make = Callable[[dml.Device, dict[str, Array]], Call]


def block(device: dml.Device, size: int, byte: int = 0xFF) -> tuple[Any, dml.Buffer]:
    """An array that is filled, and memory within it that is aligned and as large as that."""
    array = device.from_host(np.full(size + 2 * 256, byte, np.uint8))
    pointer = device.view(array).pointer
    return array, dml.Buffer(pointer + -pointer % 256, size)


@CALLS
@pytest.mark.parametrize("kind", ["array", "buffer", "memory"])
def test_a_call_works_in_the_scratch_that_it_is_given(
    kind: str, make: Make, any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = make(any_device, inputs(rnn()))
    wanted = any_device.to_host(getattr(call.run(**call.given), call.result))
    size = call.run.binding_properties.temporary_resource_size
    assert size
    array, buffer = block(any_device, size)
    purposes: list[str] = []
    allocate = type(any_device).allocate

    def noted(device: dml.Device, size: int, stream: int, purpose: str) -> Any:
        purposes.append(purpose)
        return allocate(device, size, stream, purpose)

    monkeypatch.setattr(type(any_device), "allocate", noted)
    for _ in range(2):
        temporary = {"array": array, "buffer": buffer, "memory": Memory(buffer.pointer, size, array)}[kind]
        found = call.run(**call.given, temporary=temporary)
        np.testing.assert_array_equal(any_device.to_host(getattr(found, call.result)), wanted)
    assert not [purpose for purpose in purposes if "scratch" in purpose]
    start = any_device.view(array).pointer
    data = any_device.to_host(array)
    used = data if kind == "array" else data[buffer.pointer - start :][:size]
    assert (used != 0xFF).any()
    untouched = data[size:] if kind == "array" else np.concatenate([data[: buffer.pointer - start], data[buffer.pointer - start + size :]])
    assert (untouched == 0xFF).all()


def too_small(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    return {}, block(device, size - 1)[1]


def misaligned(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    return {}, dml.Buffer(block(device, size + 16)[1].pointer + 4, size)


def too_small_memory(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    array, buffer = block(device, size - 1)
    return {}, Memory(buffer.pointer, size - 1, array)


def misaligned_memory(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    array, buffer = block(device, size + 16)
    return {}, Memory(buffer.pointer + 4, size, array)


def strided(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    desc = dml.TensorDesc(data_type="UINT8", sizes=[size], strides=[2])
    return {}, device.empty(desc, device.current_stream())


def no_array(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    return {}, "scratch"


def an_output(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    output = poisoned(device, call.desc)
    return {call.result: output}, dml.Buffer(device.view(output).pointer // 16 * 16, size)


def an_input(device: dml.Device, call: Call, size: int) -> tuple[dict[str, Any], Any]:
    return {}, dml.Buffer(device.view(call.given["input_tensor"]).pointer // 16 * 16, size)


@CALLS
@table(
    ("wrong", "code"),
    [
        (too_small, "resource.size"),
        (misaligned, "resource.alignment"),
        (too_small_memory, "resource.size"),
        (misaligned_memory, "resource.alignment"),
        (strided, "resource.kind"),
        (no_array, "array.kind"),
        (an_output, "hazard.temporary"),
        (an_input, "hazard.temporary"),
    ],
)
def test_wrong_scratch_is_refused_and_nothing_is_written(
    wrong: Callable[[dml.Device, Call, int], tuple[dict[str, Any], Any]], code: str, make: Make, any_device: dml.Device
) -> None:
    call = make(any_device, inputs(rnn()))
    outputs, temporary = wrong(any_device, call, call.run.binding_properties.temporary_resource_size)
    if not outputs:
        outputs = {call.result: poisoned(any_device, call.desc)}
    with pytest.raises(dml.BindError) as error:
        call.run(**call.given, **outputs, temporary=temporary)
    assert codes(error) == {"temporary": code}
    assert np.isnan(any_device.to_host(outputs[call.result])).all()


def test_scratch_of_another_memory_is_refused(cuda_device: dml.Device) -> None:
    call = operator(cuda_device, inputs(rnn()))
    with pytest.raises(dml.BindError) as error:
        call.run(**call.given, temporary=np.empty(call.run.binding_properties.temporary_resource_size, np.uint8))
    assert codes(error) == {"temporary": "resource.kind"}


@pytest.mark.parametrize(("less", "more", "code"), [(1, 0, "resource.size"), (0, 4, "resource.alignment")])
def test_packed_constants_in_memory_that_does_not_fit_are_refused(less: int, more: int, code: str, any_device: dml.Device) -> None:
    """Both where they are packed and where they are bound."""
    given = {name: any_device.from_host(array) for name, array in inputs(rnn()).items()}
    op = dml.compile(rnn(), any_device)
    constants = {name: given.pop(name) for name in op.prepared_inputs}
    size = op.binding_properties.persistent_resource_size
    assert size
    array, buffer = block(any_device, size + 16)
    memory = Memory(buffer.pointer + more, size - less, array)
    with pytest.raises(dml.BindError) as error:
        op.prepare(**constants, persistent=memory)
    assert codes(error) == {"persistent": code}
    outputs = {
        name: any_device.empty(tensor, any_device.current_stream()) for name, tensor in op.desc.tensors().items() if "output" in name
    }
    with pytest.raises(dml.BindError) as error:
        op.bind(given, outputs, persistent=memory)
    assert codes(error) == {"persistent": code}


def test_scratch_may_be_given_to_what_needs_none(cuda_device: dml.Device) -> None:
    x = dml.TensorDesc(data_type="FLOAT32", sizes=[3])
    op = dml.compile(dml.ActivationReluDesc(input_tensor=x, output_tensor=x), cuda_device)
    assert op.binding_properties.temporary_resource_size == 0
    given = cuda_device.from_host(np.array([-1, 0, 2], np.float32))
    found = op(input_tensor=given, temporary=cuda_device.from_host(np.zeros(1, np.uint8)))
    np.testing.assert_array_equal(cuda_device.to_host(found.output_tensor), [0, 0, 2])
