"""Messages as they print, errors as they behave, and every code of a problem shown to be reachable."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.messages.naming import Count, plural
from dmlpy.messages.problems import DmlError, Problem, and_more, lay_out
from dmlpy.operators.recurrent.params import ParamsLayout
from tests.support.descs.messages import reference_of_undefined
from tests.support.descs.own_descs import batch_norm as own_batch_norm
from tests.support.descs.own_descs import network, training
from tests.support.descs.wrong_descs import in_python, valid
from tests.support.devices import DeviceOfNothing
from tests.support.structure.problem_codes import SOURCE, codes_in
from tests.support.tables import table
from tests.support.tensors import rnn, tensor

BAD_RNN = """\
DML_RNN_OPERATOR_DESC: 5 problems
 1. weight_tensor.sizes[1] is 1, expected num_directions = 2  [size.equal]
      weight_tensor is [1, num_directions, hidden_size, input_size]
      num_directions = 2: direction is BIDIRECTIONAL
 2. bias_tensor.sizes[3] is 11, expected 2*hidden_size = 10  [size.equal]
      bias_tensor is [1, 1, num_directions, 2*hidden_size]
      hidden_size = 5: from weight_tensor.sizes[2], recurrence_tensor.sizes[2], recurrence_tensor.sizes[3] and 1 more
 3. sequence_lengths_tensor.data_type is INT32, expected UINT32  [type.support]
      remedy: describe it as UINT32: numbers of 0 to 2147483647 have the same bytes in both
 4. output_single_tensor.strides[1] is 0, expected a stride that keeps the 2 entries of axis 1 apart  [stride.broadcast]
      an output cannot be broadcast: entries would overwrite each other
 5. activation_descs has 1 activation, expected 2: f of the forward time loop, then f of the backward one  [activation_count]
      num_directions = 2: direction is BIDIRECTIONAL"""

BAD_LSTM = """\
DML_LSTM_OPERATOR_DESC: 5 problems
 1. InputTensor.Sizes has 3 dimensions [7, 3, 11], expected 4 dimensions  [dims.support]
      InputTensor is [1, seq_length, batch_size, input_size]
      feature level 5_0
      remedy: put ones in front: sizes [1, 7, 3, 11]
 2. WeightTensor.Flags is OWNED_BY_DML, expected NONE  [flag.owned]
      DML_LSTM_OPERATOR_DESC does not support OWNED_BY_DML on any input
      remedy: pass it at execution; CompiledOperator.prepare packs weights once, and in a graph ELEMENT_WISE_IDENTITY can own them
 3. PeepholeTensor.TotalTensorSizeInBytes is 56, expected at least 60 = (14 + 1) * 32 bits in bytes, rounded up to a multiple of 4  \
[total_size.small]
      14 is the sum of (sizes - 1) * strides
      remedy: leave it out: dmlpy computes it
 4. ActivationDescs[2] is DML_OPERATOR_ACTIVATION_GELU at feature level 5_0, expected feature level 5_1 or higher  [level.operator]
      DML_OPERATOR_ACTIVATION_GELU exists from feature level 5_1 on (DirectML 1.9.0)
 5. ClipThreshold is nan, expected a number above 0  [clip_threshold_positive]
      UseClipThreshold is True"""


def bad_rnn() -> dml.RNNDesc:
    return rnn(
        direction="BIDIRECTIONAL",
        recurrence_tensor=tensor(1, 2, 5, 5),
        bias_tensor=tensor(1, 1, 2, 11),
        sequence_lengths_tensor=tensor(1, 1, 1, 3, data_type="INT32"),
        output_single_tensor=tensor(1, 2, 3, 5, strides=[30, 0, 5, 1]),
    )


def bad_lstm() -> dml.LSTMDesc:
    members = in_python(valid("DML_OPERATOR_LSTM"))
    members["input_tensor"] = tensor(7, 3, 11)
    members["weight_tensor"] = tensor(1, 1, 20, 11, flags="OWNED_BY_DML")
    members["peephole_tensor"] = tensor(1, 1, 1, 15, total_tensor_size_in_bytes=56)
    members["activation_descs"] = [dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationGeluDesc()]
    return dml.LSTMDesc(**(members | {"use_clip_threshold": True, "clip_threshold": "nan"}))


def test_message_of_a_bad_rnn() -> None:
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(bad_rnn(), "numpy")
    assert str(caught.value) == BAD_RNN
    assert caught.value.desc == bad_rnn()


def test_message_of_a_bad_lstm_in_c() -> None:
    problems = [problem.in_c(dml.LSTMDesc.model_fields) for problem in dml.check(bad_lstm(), "5_0")]
    assert lay_out("DML_LSTM_OPERATOR_DESC", problems) == BAD_LSTM


def test_layout_of_a_report() -> None:
    one = Problem("size.equal", "a.b[1]", "3", "4", ("because", "of this"), "do that")
    assert str(one) == "a.b[1] is 3, expected 4  [size.equal]\n     because\n     of this\n     remedy: do that"
    assert lay_out("X", []) == "X: no problems"
    assert lay_out("X", [one]).splitlines()[:2] == ["X: 1 problem", " 1. a.b[1] is 3, expected 4  [size.equal]"]
    assert lay_out("X", [one] * 12).splitlines()[-4] == "12. a.b[1] is 3, expected 4  [size.equal]"
    assert Problem("c", "", "this", "that").headline() == "this, expected that  [c]"
    assert one.to_dict() == {
        "code": "size.equal",
        "path": "a.b[1]",
        "c_path": "A.B[1]",
        "found": "3",
        "expected": "4",
        "why": ["because", "of this"],
        "remedy": "do that",
        "severity": "error",
    }


@pytest.mark.parametrize(
    ("path", "prefix", "under", "field"),
    [
        ("sizes[1]", "weight_tensor", "weight_tensor.sizes[1]", "weight_tensor"),
        ("[0].alpha", "activation_descs", "activation_descs[0].alpha", "activation_descs"),
        ("", "bias_tensor", "bias_tensor", "bias_tensor"),
    ],
)
def test_places_are_nested(path: str, prefix: str, under: str, field: str) -> None:
    moved = Problem("c", path, "x", "y").under(prefix)
    assert (moved.path, moved.field) == (under, field)


ERRORS = [dml.DescError, dml.CompileError, dml.BindError, dml.DeviceError, dml.DispatchError, dml.PickleError]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_are_of_one_family(kind: type[DmlError]) -> None:
    problems = [Problem("a.b", "x", "1", "2", ("w",), "r")]
    error = kind("subject", problems, dml.HResult.E_OUTOFMEMORY)
    assert issubclass(kind, dml.DmlError)
    assert issubclass(kind, ValueError) == (kind is dml.DescError)
    for other in (error, pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert other.subject == "subject"
        assert other.problems == tuple(problems)
        assert other.hresult == dml.HResult.E_OUTOFMEMORY
        assert str(other) == "subject: 1 problem\n 1. x is 1, expected 2  [a.b]\n      w\n      remedy: r"
    assert str(kind("a whole sentence")) == "a whole sentence"
    assert kind("a whole sentence").problems == ()
    expected = dml.HResult.DXGI_ERROR_UNSUPPORTED if kind is dml.DeviceError else dml.HResult.E_INVALIDARG
    assert kind("x").hresult == expected


def test_a_compile_error_keeps_its_desc() -> None:
    with pytest.raises(dml.CompileError) as caught:
        dml.compile(bad_rnn(), "numpy")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.desc == bad_rnn()
    assert again.problems == caught.value.problems


# Every code, with a way to reach it. Codes of the running of models and of the command line are in the tests of those parts.
HOST = {"input_tensor": (1, 7, 3, 11), "weight_tensor": (1, 1, 5, 11), "recurrence_tensor": (1, 1, 5, 5)}


def arrays(**changes: Any) -> dict[str, Any]:
    return {name: np.zeros(shape, np.float32) for name, shape in HOST.items()} | changes


def with_lengths(*lengths: int) -> Any:
    op = dml.compile(rnn(sequence_lengths_tensor=tensor(1, 1, 1, 3, data_type="UINT32")), "numpy")
    return op(**arrays(sequence_lengths_tensor=np.array(lengths, np.uint32).reshape(1, 1, 1, 3)))


def call(**changes: Any) -> Any:
    return dml.compile(rnn(), "numpy")(**arrays(**changes))


def bind(outputs: Any = None, temporary: Any = None, persistent: Any = None, **changes: Any) -> Any:
    described = {"output_single_tensor": np.zeros((1, 1, 3, 5), np.float32)} if outputs is None else outputs
    return dml.compile(rnn(), "numpy").bind(arrays(**changes), described, temporary, persistent)


def memory(size: int = 1 << 16, alignment: int = 64) -> np.ndarray[Any, Any]:
    """Host bytes that begin at a multiple of the alignment and at no larger power of two."""
    block = np.zeros(size + 2 * 4096, np.uint8)
    start = -block.ctypes.data % 4096 + alignment
    return block[start : start + size]


def shared_outputs() -> Any:
    op = dml.compile(rnn(output_single_tensor=None).with_outputs(), "numpy")
    area = memory(7 * 3 * 5 * 4).view(np.float32)
    return op.bind(arrays(), {"output_sequence_tensor": area.reshape(7, 1, 3, 5), "output_single_tensor": area[:15].reshape(1, 1, 3, 5)})


def persistent_over_input() -> Any:
    area = memory()
    weights = area[: 55 * 4].view(np.float32).reshape(1, 1, 5, 11)
    constants = {"weight_tensor": weights, "recurrence_tensor": arrays()["recurrence_tensor"]}
    return dml.compile(rnn(), "numpy").prepare(persistent=area, **constants)


def output_in_temporary() -> Any:
    area = memory()
    inner = area[: 15 * 4].view(np.float32).reshape(1, 1, 3, 5)
    return bind(outputs={"output_single_tensor": inner}, temporary=area)


def in_place() -> Any:
    area = memory(7 * 3 * 11 * 4).view(np.float32)
    return bind(input_tensor=area.reshape(1, 7, 3, 11), outputs={"output_single_tensor": area[:15].reshape(1, 1, 3, 5)})


def read_only() -> np.ndarray[Any, Any]:
    found = np.zeros((1, 1, 3, 5), np.float32)
    found.flags.writeable = False
    return found


class OnGpu:
    __cuda_array_interface__ = {"shape": (1, 7, 3, 11), "typestr": "<f4", "data": (4096, False), "strides": None, "version": 3}


def foreign_reserve() -> Any:
    desc = training("RNN", "FORWARD").gradient("bias_gradient_tensor")
    op = dml.compile(desc, "numpy")
    zeros = {name: np.zeros(item.sizes, item.data_type.numpy) for name, item in desc.tensors().items() if name != "bias_gradient_tensor"}
    return op(**zeros | {"reserve_tensor": dml.Reserve(zeros["reserve_tensor"], {"device": "cpu", "cell": "GRU"})})


def softmax(*sizes: int) -> dml.ActivationSoftmaxDesc:
    return dml.ActivationSoftmaxDesc(input_tensor=tensor(*sizes), output_tensor=tensor(*sizes))


def fused_relu() -> dml.BatchNormalizationTrainingDesc:
    x, statistic = tensor(2, 3), tensor(1, 3)
    relu = dml.ActivationReluDesc()
    return dml.BatchNormalizationTrainingDesc(input_tensor=x, scale_tensor=statistic, bias_tensor=statistic, fused_activation=relu)


def batch_norm(kind: Any, *, statistic: tuple[int, ...] = (1, 3, 1, 1), level: str = "6_4", **members: Any) -> list[Problem]:
    """The problems of a normalization of [2, 3, 4, 5] whose first statistic has these sizes."""
    names = [field.name for field in kind.inputs() if not field.optional]
    whole = tensor(2, 3, 4, 5)
    given = {name: whole if "input" in name else tensor(1, 3, 1, 1) for name in names}
    given[kind.statistics[0]] = tensor(*statistic)
    return dml.check(kind(**given | members).with_outputs(), level)


def unary(kind: Any, first: dml.TensorDesc, second: dml.TensorDesc, **more: Any) -> Any:
    return dml.check(kind(input_tensor=first, output_tensor=second, **more))


def quantize(tensors: list[dml.TensorDesc]) -> list[Problem]:
    return dml.check(dml.QuantizeDesc(input_tensor=tensor(6), quantization_type="SCALE", quantization_tensors=tensors).with_outputs())


def gather_nd1(**members: Any) -> list[Problem]:
    given = {"input_tensor": tensor(2, 3), "indices_tensor": tensor(2, 1, data_type="INT32")}
    counts = {"input_dimension_count": 2, "indices_dimension_count": 2, "batch_dimension_count": 1}
    return dml.check(dml.GatherND1Desc(**given | counts | members))


def slice1(**members: Any) -> list[Problem]:
    given = {"input_tensor": tensor(4), "input_window_offsets": [0], "input_window_sizes": [4], "input_window_strides": [2]}
    return dml.check(dml.Slice1Desc(**given | members))


def pooling(**members: Any) -> list[Problem]:
    windows = {"strides": (1, 1), "window_size": (2, 2), "start_padding": (0, 0), "end_padding": (0, 0)}
    return dml.check(dml.MaxPoolingDesc(input_tensor=tensor(1, 1, 3, 3), **{**windows, **members}))


def convolution(**members: Any) -> list[Problem]:
    arrays = dict.fromkeys(("strides", "dilations", "start_padding", "end_padding", "output_padding"), (1, 1))
    tensors = {"input_tensor": tensor(1, 2, 3, 3), "filter_tensor": tensor(2, 2, 3, 3)}
    return dml.check(dml.ConvolutionDesc(**{**tensors, **arrays, **members}))


def roi_gradient(**members: Any) -> list[Problem]:
    tensors = {"input_tensor": tensor(1, 1, 3, 3), "input_gradient_tensor": tensor(2, 1, 1, 1), "roi_tensor": tensor(2, 4)}
    tensors["batch_indices_tensor"] = tensor(2, data_type="UINT32")
    sampled = {
        "reduction_function": "MAX",
        "interpolation_mode": "LINEAR",
        "minimum_samples_per_output": 1,
        "maximum_samples_per_output": 1,
    }
    return dml.check(dml.ROIAlignGradDesc(**{**tensors, **sampled, **members}))


def roi_pooling(width: int) -> list[Problem]:
    pooled = {"Width": width, "Height": 1}
    return dml.check(dml.ROIPoolingDesc(input_tensor=tensor(1, 1, 3, 3), roi_tensor=tensor(1, 1, 2, 5), pooled_size=pooled))


def product(**members: Any) -> list[Problem]:
    tensors = {"a_tensor": tensor(2, 3, data_type="INT8"), "b_tensor": tensor(3, 4, data_type="INT8")}
    scales = {"a_scale_tensor": tensor(1, 1), "b_scale_tensor": tensor(1, 1)}
    return dml.check(dml.MatrixMultiplyIntegerToFloatDesc(**{**tensors, **scales, **members}))


def softmax_of_product(axis: int) -> list[Problem]:
    softmax = dml.ActivationSoftmax1Desc(axes=[axis])
    return dml.check(dml.GEMMDesc(a_tensor=tensor(1, 1), b_tensor=tensor(1, 1), fused_activation=softmax))


def picked() -> list[Problem]:
    tensors = {"input_tensor": tensor(2, 3, 4), "indices_tensor": tensor(2, 3, 1, data_type="INT32")}
    return gather_nd1(**tensors, input_dimension_count=3, indices_dimension_count=3, batch_dimension_count=0)


def attention(**members: Any) -> list[Problem]:
    qkv = tensor(2, 4, 6)
    own: dict[str, Any] = {"query_tensor": qkv, "key_tensor": qkv, "value_tensor": qkv, "scale": 1, "mask_filter_value": -1e4}
    return dml.check(dml.MultiheadAttentionDesc(**own | {"head_count": 2} | members))


def quantized_convolution() -> list[Problem]:
    """A scale for each of two channels with one zero point."""
    one, pixels = tensor(1, 1, 1, 1), tensor(1, 1, 3, 3, data_type="UINT8")
    filters = {"filter_tensor": tensor(2, 1, 1, 1, data_type="INT8"), "filter_scale_tensor": tensor(1, 2, 1, 1)}
    zero_point = tensor(1, 1, 1, 1, data_type="INT8")
    slid = {"strides": [1, 1], "dilations": [1, 1], "start_padding": [0, 0], "end_padding": [0, 0], "group_count": 1}
    desc = dml.QuantizedLinearConvolutionDesc(
        input_tensor=pixels, input_scale_tensor=one, **filters, filter_zero_point_tensor=zero_point, output_scale_tensor=one, **slid
    )
    return dml.check(desc.with_outputs(data_types={"output_tensor": "UINT8"}))


def variance(level: str, *scale: int) -> list[Problem]:
    desc = dml.MeanVarianceNormalization1Desc(input_tensor=tensor(2, 3), scale_tensor=tensor(*scale), axes=[1])
    return dml.check(desc, level)


def upsample(width: int) -> list[Problem]:
    size = dml.Size2D(width=width, height=1)
    return dml.check(dml.Upsample2DDesc(input_tensor=tensor(1, 1, 2, 2), scale_size=size, interpolation_mode=0))


def bind_join(arrays: Any) -> Any:
    join = dml.JoinDesc(input_tensors=[tensor(1), tensor(1)], axis=0).with_outputs()
    return dml.compile(join, "numpy")(input_tensors=arrays)


def bind_unprepared() -> Any:
    g = dml.GraphBuilder()
    x = g.input("x", tensor(3, flags="OWNED_BY_DML"))
    g.output("y", g.add(dml.ActivationReluDesc, input_tensor=x))
    return dml.compile(g.build(), "numpy").bind([np.zeros(3, np.float32)], [np.zeros(3, np.float32)])


CODES: dict[str, Callable[[], Any]] = {
    "attention_inputs": lambda: attention(query_tensor=None),
    "attribute.length": lambda: pooling(strides=(1, 1, 1)),
    "attribute.level": lambda: dml.check(
        dml.PaddingDesc(input_tensor=tensor(3), padding_mode="WRAP", padding_value=0, start_padding=[1], end_padding=[1]), "6_3"
    ),
    "head_count_divides": lambda: attention(head_count=5),
    "head_groups": lambda: dml.check(dml.MultiheadAttention1Desc(query_head_count=3, key_value_head_count=2, scale=1, mask_filter_value=0)),
    "image_channels": lambda: dml.check(dml.ValueScale2DDesc(input_tensor=tensor(1, 3, 2, 2), scale=1, bias=[0])),
    "level.requested": lambda: dml.check_feature_support("FEATURE_LEVELS", {"RequestedFeatureLevels": ["6_0"]}, "5_0"),
    "mask_with_type": lambda: attention(mask_type="BOOLEAN"),
    "past_pair": lambda: attention(past_key_tensor=tensor(2, 2, 1, 3)),
    "scale_channels": lambda: variance("3_1", 1, 1),
    "scale_with_bias": lambda: variance("5_1", 1, 3),
    "score_sizes": lambda: attention(relative_position_bias_tensor=tensor(1, 1, 4, 5)),
    "top_k_limit": lambda: dml.check(dml.TopKDesc(input_tensor=tensor(2, 3), axis=1, k=4)),
    "upsample_limit": lambda: upsample(0),
    "axis_choice": lambda: dml.check(dml.JoinDesc(input_tensors=[tensor(1, 2), tensor(1, 3)], output_tensor=tensor(1, 5), axis=0)),
    "batch_dimension_range": lambda: gather_nd1(batch_dimension_count=2),
    "coordinate_range": lambda: dml.check(
        dml.NonzeroCoordinatesDesc(input_tensor=tensor(2, 3), output_coordinates_tensor=tensor(6, 3, data_type="UINT32"))
    ),
    "dimension_count_range": lambda: gather_nd1(input_dimension_count=3),
    "fused_axes": lambda: softmax_of_product(2),
    "fused_function": lambda: convolution(fused_activation=dml.ActivationHardmaxDesc()),
    "bind.unprepared": bind_unprepared,
    "groups_of_channels": lambda: convolution(group_count=3),
    "images_given": lambda: roi_gradient(input_tensor=None),
    "padding_cuts": lambda: convolution(direction="BACKWARD", start_padding=(9, 1)),
    "padding_dimensions": lambda: gather_nd1(input_dimension_count=1),
    "padding_entries": lambda: pooling(start_padding=(1,)),
    "picked_dimensions": picked,
    "pooled_size_positive": lambda: roi_pooling(0),
    "quantized_counts": lambda: product(a_scale_tensor=tensor(3, 1)),
    "quantized_filter_counts": quantized_convolution,
    "quantized_dims": lambda: product(b_scale_tensor=tensor(1)),
    "sample_bounds": lambda: roi_gradient(minimum_samples_per_output=2),
    "slice_count": lambda: slice1(output_tensor=tensor(3)),
    "split_sum": lambda: dml.check(dml.SplitDesc(input_tensor=tensor(3), output_tensors=[tensor(1)], axis=0)),
    "tensor_array_empty": lambda: dml.check(dml.JoinDesc(input_tensors=[], axis=0)),
    "tuple_size": lambda: gather_nd1(indices_tensor=tensor(2, 3, data_type="INT32")),
    "values_count": lambda: dml.check(
        dml.OneHotDesc(indices_tensor=tensor(1, data_type="INT32"), values_tensor=tensor(1), output_tensor=tensor(3), axis=0)
    ),
    "whole_blocks": lambda: dml.check(dml.DepthToSpaceDesc(input_tensor=tensor(1, 6, 1, 1), block_size=2)),
    "window_bounds": lambda: slice1(input_window_offsets=[2]),
    "window_fits": lambda: pooling(window_size=(4, 1)),
    "attribute.choice": lambda: dml.check(dml.QuantizeDesc(input_tensor=tensor(6), quantization_type="NONE", quantization_tensors=[])),
    "attribute.type": lambda: unary(dml.ElementWiseClip1Desc, tensor(2), tensor(2), min_max_data_type="INT8", min=0, max=1),
    "exponent_type": lambda: dml.check(
        dml.ElementWisePowDesc(input_tensor=tensor(1, 1, 1, 2), exponent_tensor=tensor(1, 1, 1, 2, data_type="FLOAT16")), "2_1"
    ),
    "quantization_block": lambda: quantize([tensor(4)]),
    "quantization_tensor_count": lambda: quantize([]),
    "quantization_tensor_types": lambda: quantize([tensor(1, data_type="INT8")]),
    "quantize_scale_type": lambda: unary(
        dml.ElementWiseQuantizeLinearDesc, tensor(2), tensor(2, data_type="INT8"), scale_tensor=tensor(2, data_type="FLOAT16")
    ),
    "zero_point_level": lambda: dml.check(
        dml.ElementWiseDequantizeLinearDesc(input_tensor=tensor(2, data_type="INT8"), scale_tensor=tensor(2)), "6_1"
    ),
    "activation_count": lambda: dml.check(rnn(activation_descs=[])),
    "activation_kind": lambda: dml.check(rnn(activation_descs=[dml.ActivationHardmaxDesc()])),
    "alignment.range": lambda: tensor(1, guaranteed_base_offset_alignment=-1).problems(output=False),
    "alignment.value": lambda: tensor(1, guaranteed_base_offset_alignment=6).problems(output=False),
    "array.device": lambda: call(input_tensor=OnGpu()),
    "array.dims": lambda: dml.TensorDesc.of(np.zeros((2, 2)), dimension_count=1),
    "array.kind": lambda: call(input_tensor="x"),
    "array.read_only": lambda: call(output_single_tensor=read_only()),
    "array.shape": lambda: call(input_tensor=np.zeros((7, 3, 11), np.float32)),
    "array.strides": lambda: call(input_tensor=np.asfortranarray(arrays()["input_tensor"])),
    "array.type": lambda: call(input_tensor=np.zeros((1, 7, 3, 11))),
    "attribute.axis": lambda: unary(dml.ActivationSoftmax1Desc, tensor(2, 2), tensor(2, 2), axes=[2]),
    "attribute.range": lambda: dml.check(rnn(activation_descs=[dml.ActivationEluDesc(alpha=1e39)])),
    "bind.alignment": lambda: call(input_tensor=memory(7 * 3 * 11 * 4, 2).view(np.float32).reshape(1, 7, 3, 11)),
    "bind.count": lambda: bind_join([np.zeros(1, np.float32)] * 3),
    "bind.form": lambda: bind(outputs=np.zeros((1, 1, 3, 5), np.float32)),
    "bind.misplaced": lambda: bind(output_single_tensor=np.zeros((1, 1, 3, 5), np.float32)),
    "bind.missing": lambda: call(weight_tensor=None),
    "bind.packed": lambda: bind(persistent=memory()),
    "bind.twice": lambda: call(InputTensor=arrays()["input_tensor"]),
    "bind.unexpected": lambda: call(bias_tensor=np.zeros(3)),
    "bind.unknown": lambda: call(weights=np.zeros(3)),
    "buffer.form": lambda: bind(input_tensor=dml.Buffer(4096, None)),
    "buffer.pointer": lambda: bind(input_tensor=dml.Buffer(0, 4096)),
    "buffer.size": lambda: bind(input_tensor=dml.Buffer(4096, 920)),
    "cell_states": lambda: dml.check(network(rnn_mode="gru", num_proj=0, input_h=tensor(4, 3, 5))),
    "celu_alpha": lambda: unary(dml.ActivationCeluDesc, tensor(2), tensor(2), alpha=0),
    "clip_threshold_positive": lambda: dml.check(bad_lstm()),
    "count.length": lambda: tensor(1, DimensionCount=2),
    "dims.equal": lambda: unary(dml.ActivationTanhDesc, tensor(2, 3), tensor(2, 3, 1)),
    "dims.range": lambda: tensor().problems(output=False),
    "dims.support": lambda: dml.check(rnn(input_tensor=tensor(7, 3, 11))),
    "dropout_range": lambda: dml.check(network(dropout=1.0)),
    "effective_rank": lambda: dml.check(softmax(1, 2, 3, 4)),
    "elements.limit": lambda: tensor(2**16, 2**16).problems(output=False),
    "field.form": lambda: rnn(direction="UP"),
    "field.missing": lambda: dml.RNNDesc(),
    "field.twice": lambda: rnn(Direction=0),
    "field.unknown": lambda: rnn(weights=None),
    "finite_attributes": lambda: dml.check(training("RNN", activation_descs=[dml.ActivationEluDesc(alpha="inf")] * 2)),
    "flag.output": lambda: tensor(1, flags="OWNED_BY_DML").problems(output=True),
    "flag.owned": lambda: dml.check(bad_lstm()),
    "gradient_of_absent": lambda: dml.check(training("LSTM").gradient().replace(peephole_tensor=None)),
    "fused_activation_kind": lambda: batch_norm(dml.BatchNormalizationTrainingDesc, fused_activation=dml.ActivationSwishDesc()),
    "given_statistics": lambda: dml.check(own_batch_norm(mean=None)),
    "gradient.activation": lambda: fused_relu().gradient(),
    "hazard.in_place": in_place,
    "hazard.outputs": shared_outputs,
    "hazard.persistent": persistent_over_input,
    "hazard.temporary": output_in_temporary,
    "json.syntax": lambda: dml.OperatorDesc.from_json("{"),
    "json.depth": lambda: dml.OperatorDesc.from_json("[" * 10_000),
    "layer_output_limit": lambda: dml.check(network(input=tensor(2**31, 3, 11))),
    "level.operator": lambda: dml.check(bad_lstm(), "1_0"),
    "num_proj_range": lambda: ParamsLayout("gru", 1, 4, 3, bidirectional=False, num_proj=2),
    "operator.not_built": lambda: dml.compile(rnn(), DeviceOfNothing()),
    "operator.undefined": reference_of_undefined,
    "operator.unknown": lambda: dml.OperatorDesc.from_dict({"Type": "RNN2"}),
    "reserve.foreign": foreign_reserve,
    "reserve.missing": lambda: training("RNN").replace(reserve_tensor=None).gradient(),
    "reserve_training": lambda: dml.check(network().replace(is_training=False)),
    "resource.alignment": lambda: bind(temporary=memory(alignment=8)),
    "resource.kind": lambda: bind(temporary=np.asfortranarray(np.zeros((64, 64), np.float32))),
    "resource.size": lambda: bind(persistent=memory(16)),
    "size.equal": lambda: dml.check(bad_rnn()),
    "size.multiple": lambda: dml.check(only_odd_gates()),
    "size.range": lambda: tensor(0).problems(output=False),
    "size.unknown": lambda: dml.GatherElementsDesc(
        input_tensor=tensor(2, 2), indices_tensor=tensor(2, data_type="UINT32"), axis=0
    ).with_outputs(),
    "skip_input_sizes": lambda: ParamsLayout("lstm", 1, 4, 3, bidirectional=False, skip_input=True),
    "softplus_steepness": lambda: unary(dml.ActivationSoftplusDesc, tensor(2), tensor(2), steepness=0),
    "spatial_statistics": lambda: batch_norm(dml.BatchNormalizationDesc, spatial=False, level="3_1"),
    "statistics_sizes": lambda: batch_norm(dml.BatchNormalizationDesc, statistic=(1, 1, 1, 3)),
    "some_output": lambda: dml.check(rnn(output_single_tensor=None)),
    "strict.alignment": lambda: tensor(1, guaranteed_base_offset_alignment=8).problems(output=False, strict=True),
    "strict.size": lambda: tensor(1, total_tensor_size_in_bytes=6).problems(output=False, strict=True),
    "stride.broadcast": lambda: tensor(2, strides=[0]).problems(output=True),
    "stride.count": lambda: tensor(2, strides=[1, 1]).problems(output=False),
    "stride.nibble": lambda: tensor(2, data_type="INT4", strides=[2]).problems(output=True),
    "stride.overlap": lambda: tensor(2, 3, strides=[2, 1]).problems(output=True),
    "stride.range": lambda: tensor(2, strides=[-1]).problems(output=False),
    "stride.reserve": lambda: dml.check(training("RNN").replace(reserve_tensor=tensor(1, 1, 1, 450, strides=[0, 0, 0, 2]))),
    "struct.frozen": lambda: setattr(rnn(), "direction", 0),
    "struct.abstract": lambda: dml.ActivationDesc(),
    "tensor.fused": lambda: dml.check(rnn(activation_descs=[dml.ActivationTanhDesc(input_tensor=tensor(1))])),
    "tensor.missing": lambda: dml.check(dml.ActivationTanhDesc()),
    "total_size.range": lambda: tensor(1, total_tensor_size_in_bytes=-1).problems(output=False),
    "total_size.small": lambda: tensor(4, total_tensor_size_in_bytes=12).problems(output=False),
    "type.equal": lambda: dml.check(rnn(weight_tensor=tensor(1, 1, 5, 11, data_type="FLOAT16"))),
    "type.support": lambda: dml.check(rnn(weight_tensor=tensor(1, 1, 5, 11, data_type="INT32"))),
    "profile.runs": lambda: (
        dml.compile(dml.ActivationReluDesc(input_tensor=tensor(1, 1, 1, 2)).with_outputs(), "numpy")
        .bind([np.zeros((1, 1, 1, 2), np.float32)], [np.zeros((1, 1, 1, 2), np.float32)])
        .profile(runs=0)
    ),
    "type.unknown": lambda: tensor(1, data_type="UNKNOWN").problems(output=False),
    "value.range": lambda: with_lengths(7, 8, 0),
    "whole_layers": lambda: dml.check(network(input_h=tensor(3, 3, 2), input_c=tensor(3, 3, 5))),
}


def only_odd_gates() -> dml.LSTMDesc:
    """An LSTM none of whose tensors determines hidden_size."""
    return dml.LSTMDesc(
        input_tensor=tensor(1, 7, 3, 11),
        weight_tensor=tensor(1, 1, 21, 11),
        recurrence_tensor=tensor(1, 1, 21, 0),
        activation_descs=[dml.ActivationTanhDesc()] * 3,
        direction="FORWARD",
    )


def problems_of(make: Callable[[], Any]) -> list[Problem]:
    try:
        return list(make())
    except dml.DmlError as error:
        return list(error.problems)


@table("code", CODES)
def test_every_code_is_reached(code: str) -> None:
    found = problems_of(CODES[code])
    assert code in {problem.code for problem in found}
    for problem in found:
        assert "\n" not in str(problem.headline())


def test_every_code_of_the_source_is_in_the_table() -> None:
    elsewhere = (
        *("cli/", "docs/", "dxdispatch", "devices/cuda", "keras", "torch/", "dask/", "graphs", "onnx/", "x/", "pydirectml/"),
        *("conformance/command", "inspection/directml_records"),  # whose code is that of any file that cannot be read
    )
    files = [path for path in SOURCE.rglob("*.py") if not path.relative_to(SOURCE).as_posix().startswith(elsewhere)]
    emitted = {code for path in files for code in codes_in(path.read_text(encoding="utf-8"))}
    rules = {name for kind in OPERATORS.values() for name in kind.rules()}
    assert emitted | rules == set(CODES)
    assert len(emitted) > 40


def test_one_bias_in_place_of_two_has_its_own_remedy() -> None:
    for cell, gates in ((dml.RNNDesc, 1), (dml.LSTMDesc, 4), (dml.GRUDesc, 3)):
        roles = len(cell.activation_roles)
        tensors = {
            "input_tensor": [1, 5, 3, 7],
            "weight_tensor": [1, 2, gates * 4, 7],
            "recurrence_tensor": [1, 2, gates * 4, 4],
            "bias_tensor": [1, 1, 1, gates * 4],
        }
        desc = cell(
            **{name: dml.TensorDesc(data_type="FLOAT32", sizes=sizes) for name, sizes in tensors.items()},
            activation_descs=[dml.ActivationTanhDesc()] * roles * 2,
            direction="BIDIRECTIONAL",
        ).with_outputs()
        found = {problem.path: problem.remedy for problem in dml.check(desc)}
        assert found["bias_tensor.sizes[3]"] == "it holds Wb, then Rb: where there is one bias only, follow it with as many zeros"
        assert found["bias_tensor.sizes[2]"] is None, "one direction of two is not one bias of two"


def test_numbers_agree_with_their_nouns() -> None:
    flat = dml.TensorDesc(data_type="FLOAT32", sizes=[3])
    desc = dml.ActivationTanhDesc(input_tensor=flat, output_tensor=flat)
    assert [problem.found for problem in dml.check(desc, "1_0")] == ["1 dimension [3]"] * 2


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (plural(3, "array"), "weights has 3 arrays"),
        (Count(f"{plural(2, 'dimension')} [2, 3]"), "weights has 2 dimensions [2, 3]"),
        (str(plural(1, "entry")), "weights has 1 entry"),
        ("2 dimensions", "weights is 2 dimensions"),
        ("3", "weights is 3"),
    ],
)
def test_a_place_has_what_is_counted_and_is_any_other_text(found: str, sentence: str) -> None:
    problem = dml.Problem("weights.count", "weights", found, "2")
    assert problem.sentence() == sentence
    assert and_more(problem).sentence() == f"{sentence}, and more of this kind follow"
