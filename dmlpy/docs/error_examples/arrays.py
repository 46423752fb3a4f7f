"""Errors of arrays, buffers and bindings: when one is raised, nothing was written."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.docs.error_examples.example import shows

x = np.zeros((1, 1, 2, 3), np.float32)
desc = dml.ActivationReluDesc(input_tensor=dml.TensorDesc.of(x)).with_outputs()
relu = dml.compile(desc, "numpy")
sequence = {"input_tensor": np.zeros((1, 5, 2, 3), np.float32)}
weights = {"weight_tensor": np.zeros((1, 1, 4, 3), np.float32), "recurrence_tensor": np.zeros((1, 1, 4, 4), np.float32)}
described = {name: dml.TensorDesc.of(array) for name, array in (sequence | weights).items()}
activations = [dml.ActivationTanhDesc()]
layer = dml.RNNDesc(**described, activation_descs=activations, direction="FORWARD").with_outputs("output_single_tensor")
training = dml.RNNTrainingDesc(**described, activation_descs=activations, direction="FORWARD")
rnn = dml.compile(layer, "numpy")


@shows("array.device")
def array_device() -> Any:
    class OnGpu:
        """GPU memory as a CUDA library describes it."""

        __cuda_array_interface__ = {"shape": (1, 1, 2, 3), "typestr": "<f4", "data": (4096, False), "version": 3}

    relu(input_tensor=OnGpu())


@shows("array.dims")
def array_dims() -> Any:
    dml.TensorDesc.of(x, dimension_count=2)


@shows("array.kind")
def array_kind() -> Any:
    relu(input_tensor="zeros")


@shows("array.read_only")
def array_read_only() -> Any:
    y = np.zeros_like(x)
    y.flags.writeable = False
    relu(input_tensor=x, output_tensor=y)


@shows("array.shape")
def array_shape() -> Any:
    relu(input_tensor=x.swapaxes(2, 3).copy())


@shows("array.strides")
def array_strides() -> Any:
    relu(input_tensor=np.asfortranarray(x))


@shows("array.type")
def array_type() -> Any:
    relu(input_tensor=x.astype(np.float64))


@shows("bind.alignment")
def bind_alignment() -> Any:
    shifted = np.zeros(26, np.uint8)[2:].view(np.float32).reshape(x.shape)
    relu(input_tensor=shifted)


@shows("bind.count")
def bind_count() -> Any:
    join = dml.JoinDesc(input_tensors=[desc.input_tensor, desc.input_tensor], axis=3).with_outputs()
    dml.compile(join, "numpy")(input_tensors=[x, x, x])


@shows("bind.form")
def bind_form() -> Any:
    relu.bind({"input_tensor": x}, 5)


@shows("bind.misplaced")
def bind_misplaced() -> Any:
    relu.bind({"input_tensor": x, "output_tensor": np.zeros_like(x)}, {})


@shows("bind.missing")
def bind_missing() -> Any:
    relu()


@shows("bind.packed")
def bind_packed() -> Any:
    prepared = rnn.prepare(**weights)
    prepared(**sequence, weight_tensor=weights["weight_tensor"])


@shows("bind.twice")
def bind_twice() -> Any:
    relu(input_tensor=x, InputTensor=x)


@shows("bind.unexpected")
def bind_unexpected() -> Any:
    add = dml.ElementWiseQuantizeLinearDesc(
        input_tensor=desc.input_tensor,
        scale_tensor=desc.input_tensor,
        output_tensor=desc.input_tensor.replace(data_type="UINT8"),
    )
    dml.compile(add, "numpy")(input_tensor=x, scale_tensor=x, zero_point_tensor=x.astype(np.uint8))


@shows("bind.unknown")
def bind_unknown() -> Any:
    relu(input=x)


@shows("buffer.form")
def buffer_form() -> Any:
    relu(input_tensor=dml.Buffer(4096, "24"))


@shows("buffer.pointer")
def buffer_pointer() -> Any:
    relu(input_tensor=dml.Buffer(0, 24))


@shows("buffer.size")
def buffer_size() -> Any:
    relu(input_tensor=dml.Buffer(x.ctypes.data, 20))


@shows("hazard.outputs")
def hazard_outputs() -> Any:
    values = dml.TopK1Desc(input_tensor=desc.input_tensor, axis=3, k=2, axis_direction="INCREASING").with_outputs()
    memory = np.zeros(16, np.uint8).view(np.float32).reshape(1, 1, 2, 2)
    dml.compile(values, "numpy")(input_tensor=x, output_value_tensor=memory, output_index_tensor=memory.view(np.uint32))


@shows("hazard.in_place")
def hazard_in_place() -> Any:
    memory = np.zeros(12, np.float32)
    relu(input_tensor=memory[:6].reshape(x.shape), output_tensor=memory[1:7].reshape(x.shape))


@shows("hazard.temporary")
def hazard_temporary() -> Any:
    scratch = np.zeros(2**16, np.uint8)
    last = scratch[:32].view(np.float32).reshape(1, 1, 2, 4)
    rnn.bind(sequence | weights, {"output_single_tensor": last}, temporary=scratch)


@shows("hazard.persistent")
def hazard_persistent() -> Any:
    memory = np.zeros(2**16, np.uint8)
    w = memory[:48].view(np.float32).reshape(1, 1, 4, 3)
    rnn.prepare(persistent=memory, weight_tensor=w, recurrence_tensor=weights["recurrence_tensor"])


@shows("resource.size")
def resource_size() -> Any:
    rnn.prepare(persistent=np.zeros(16, np.uint8), **weights)


@shows("resource.alignment")
def resource_alignment() -> Any:
    memory = np.zeros(2**16, np.uint8)
    begin = -memory.ctypes.data % 16 + 8
    rnn.bind(sequence | weights, {"output_single_tensor": np.zeros((1, 1, 2, 4), np.float32)}, temporary=memory[begin:])


@shows("profile.runs")
def profile_runs() -> Any:
    relu.bind([x], [np.empty_like(x)]).profile(runs=0)


@shows("resource.kind")
def resource_kind() -> Any:
    rnn.prepare(persistent=np.zeros((256, 256), np.float32).T, **weights)


@shows("reserve.foreign")
def reserve_foreign() -> Any:
    forward = training.with_outputs("output_single_tensor", "reserve_tensor")
    reserve = dml.compile(forward, "numpy")(**sequence, **weights).reserve_tensor
    gradient = (
        training.replace(activation_descs=[dml.ActivationSigmoidDesc()]).with_outputs("output_single_tensor", "reserve_tensor").gradient()
    )
    given = {"reserve_tensor": reserve, "output_single_gradient_tensor": np.zeros((1, 1, 2, 4), np.float32)}
    dml.compile(gradient, "numpy")(**sequence, **weights, **given)


@shows("reserve.missing")
def reserve_missing() -> Any:
    training.replace(output_single_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 4])).gradient()


@shows("gradient.activation")
def gradient_activation() -> Any:
    statistics = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 1])
    forward = dml.BatchNormalizationTrainingDesc(
        input_tensor=desc.input_tensor,
        scale_tensor=statistics,
        bias_tensor=statistics,
        epsilon=1e-5,
        fused_activation=dml.ActivationReluDesc(),
    ).with_outputs()
    forward.gradient()


@shows("value.range")
def value_range() -> Any:
    lengths = dml.TensorDesc(data_type="UINT32", sizes=[1, 1, 1, 2])
    ragged = dml.compile(layer.replace(sequence_lengths_tensor=lengths), "numpy")
    ragged(**sequence, **weights, sequence_lengths_tensor=np.array([[[[5, 6]]]], np.uint32))
