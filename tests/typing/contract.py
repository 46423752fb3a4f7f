"""The public interface as users write it. Type-checked by the tests, and run by them on the NumPy device."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy import x

T, B, N, H = 7, 3, 11, 5


def describe() -> dml.RNNDesc:
    """A desc with lists for sizes and texts for enumerations."""
    x_desc = dml.TensorDesc(data_type="FLOAT32", sizes=[1, T, B, N])
    assert x_desc.sizes == (1, T, B, N)
    sizes: tuple[int, ...] = x_desc.sizes
    data_type: dml.DataType = x_desc.data_type
    assert data_type is dml.DataType.FLOAT32
    desc = dml.RNNDesc(
        input_tensor=x_desc,
        weight_tensor=dml.TensorDesc(data_type=dml.DataType.FLOAT32, sizes=(1, 1, H, sizes[-1])),
        recurrence_tensor=dml.TensorDesc.of(np.zeros((1, 1, H, H), np.float32)),
        sequence_lengths_tensor=dml.TensorDesc(
            data_type="UINT32", sizes=np.array([1, 1, 1, B]).tolist(), strides=[B, B, B, 1], flags="NONE"
        ),
        activation_descs=[dml.ActivationTanhDesc()],
        direction="FORWARD",
    ).with_outputs("output_sequence_tensor", "output_single_tensor")
    direction: dml.RecurrentDirection = desc.direction
    activations: tuple[dml.ActivationDesc, ...] = desc.activation_descs
    output: dml.TensorDesc | None = desc.output_sequence_tensor
    assert (direction.count, len(activations), output is not None) == (1, 1, True)
    return desc


def lstm() -> dml.LSTMDesc:
    """The struct with the most members."""
    tensor = dml.TensorDesc(
        data_type=np.float16, sizes=[1, 2, 4 * H, H], total_tensor_size_in_bytes=None, guaranteed_base_offset_alignment=16
    )
    desc = dml.LSTMDesc(
        input_tensor=tensor.replace(sizes=[1, T, B, H]),
        weight_tensor=tensor,
        recurrence_tensor=tensor,
        peephole_tensor=dml.TensorDesc(data_type=np.dtype("float16"), sizes=[1, 1, 2, 3 * H]),
        activation_descs=(
            dml.ActivationHardSigmoidDesc(alpha=0.2, beta=0.5),
            dml.ActivationEluDesc(alpha=np.float32(0.5)),
            dml.ActivationSoftplusDesc(steepness=2),
        )
        * 2,
        direction=dml.RecurrentDirection.BIDIRECTIONAL,
        clip_threshold=3.0,
        use_clip_threshold=True,
    )
    threshold: float = desc.clip_threshold
    assert threshold == 3.0
    return desc.with_outputs()


def gru() -> dml.GRUDesc:
    members: dict[str, Any] = {"InputTensor": dml.TensorDesc(data_type="FLOAT32", sizes=[1, T, B, H])}
    weights = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 3 * H, H])
    activations = [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc()]
    desc = dml.GRUDesc(**members, weight_tensor=weights, recurrence_tensor=weights, activation_descs=activations, direction="backward")
    return desc.replace(linear_before_reset=True).with_outputs("OutputSingleTensor")


def pooling() -> dml.MaxPooling2Desc:
    """A struct that inherits its members from several classes."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 8, 8])
    desc = dml.MaxPooling2Desc(
        input_tensor=tensor, strides=[1, 1], window_size=(2, 2), start_padding=[0, 0], end_padding=[0, 0], dilations=[2, 2]
    )
    window: tuple[int, ...] = desc.window_size
    assert window == (2, 2)
    return desc.with_outputs()


def use(device: dml.Device | str | None) -> np.ndarray[Any, Any]:
    """Check, compile, run, prepare, bind, dispatch."""
    desc = describe()
    problems: list[dml.Problem] = dml.check(desc, feature_level="1_0")
    assert problems == []
    dml.check(desc, dml.FeatureLevel.FL_5_0, strict=True)
    op: dml.CompiledOperator = dml.compile(
        desc, device=device, feature_level="6_4", flags=["DISABLE_META_COMMANDS", dml.ExecutionFlags.NONE]
    )
    flags: dml.ExecutionFlags = op.flags
    assert dml.compile(desc, device, flags=flags | dml.ExecutionFlags.DESCRIPTORS_VOLATILE).flags == 6
    x, w, r = (np.ones(shape, np.float32) for shape in ((1, T, B, N), (1, 1, H, N), (1, 1, H, H)))
    lengths = np.array([T, 0, 2], np.uint32).reshape(1, 1, 1, B)
    y = op(input_tensor=x, weight_tensor=w, recurrence_tensor=r, sequence_lengths_tensor=lengths).output_sequence_tensor
    p: dml.PreparedOperator = op.prepare(weight_tensor=w, recurrence_tensor=r, persistent=None, stream=None)
    assert np.array_equal(p(input_tensor=x, sequence_lengths_tensor=lengths).output_sequence_tensor, y)
    inputs = {"input_tensor": x, "weight_tensor": w, "recurrence_tensor": r, "sequence_lengths_tensor": lengths}
    outputs = {"output_sequence_tensor": np.empty_like(y), "output_single_tensor": np.empty((1, 1, B, H), np.float32)}
    d: dml.Dispatch = op.bind(inputs, outputs, temporary=None, persistent=None)
    d(stream=None)
    assert np.array_equal(outputs["output_sequence_tensor"], y)
    exact: dml.Outputs = dml.reference(desc, inputs)
    wide: dml.Outputs = dml.reference(desc, {"input_tensor": x}, dtype=np.float32, **dict(list(inputs.items())[1:]))
    assert np.allclose(exact.output_sequence_tensor, y)
    assert np.allclose(wide.output_sequence_tensor, y)
    size: int = op.binding_properties.temporary_resource_size + op.binding_properties.persistent_resource_size
    assert size >= 0
    found: np.ndarray[Any, Any] = outputs["output_single_tensor"]
    return found


def errors() -> None:
    """What can be caught, and what it holds."""
    try:
        dml.compile(describe().replace(direction="BIDIRECTIONAL"), "numpy")
    except dml.CompileError as error:
        first: dml.Problem = error.problems[0]
        place: str = first.path
        result: dml.HResult = error.hresult
        if (place, result) != ("weight_tensor.sizes[1]", dml.HResult.E_INVALIDARG):
            raise
    try:
        dml.OperatorDesc.from_json("{}")
    except ValueError as error:
        if not isinstance(error, dml.DescError):
            raise


def travel() -> None:
    """JSON and back preserves the class."""
    desc = gru()
    again: dml.GRUDesc = dml.GRUDesc.from_dict(desc.to_dict())
    any_kind: dml.OperatorDesc = dml.OperatorDesc.from_json(desc.to_json(flat=True))
    assert again == desc
    assert any_kind == desc


def expressions() -> float:
    """Functions of `dmlpy.x` with their arguments, Python's operators, and what they give."""
    image = x.input("image", [1, 3, 8, 8])
    features: x.Expression = x.convolution(image, np.ones((4, 3, 3, 3), np.float32), strides=[2, 2], mode="CROSS_CORRELATION")
    pooled: x.MaxPooling2Outputs = x.max_pooling2(features * 2 + 1.0, window_size=(2, 2))
    values, indices = pooled
    chosen = x.if_(values >= 0.5, values, -values[:, ::2, 0] @ np.ones((2, 1), np.float32))
    parts: tuple[x.Expression, ...] = x.split(x.join([chosen, chosen], axis=1), axis=1, output_axis_sizes=[3, 5])
    with x.tensor_policy(x.TensorPolicy.interleaved_channel), x.name_scope("head"):
        reduced = x.reduce(parts[0].reshape(-1).with_leading_ones(2), function=dml.ReduceFunction.SUM)
    graph: dml.Graph = x.graph({"reduced": reduced, "indices": indices}, "net")
    assert graph.check() == []
    network = x.compile([reduced, indices], "numpy", flags=["NONE"])
    tensor: dml.TensorDesc = reduced.tensor
    assert tensor.sizes == (1, 1)
    return float(network(image=np.ones((1, 3, 8, 8), np.float32)).output_0[0, 0])
