"""Errors of descs, from constructors and from `check`."""

from __future__ import annotations

from typing import Any

import dmlpy as dml
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.docs.error_examples.example import shows
from dmlpy.inspection.samples import sample
from dmlpy.operators.recurrent.params import ParamsLayout

x = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3])
relu = dml.ActivationReluDesc(input_tensor=x, output_tensor=x)


@shows("alignment.range")
def alignment_range() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(guaranteed_base_offset_alignment=2**32)))


@shows("alignment.value")
def alignment_value() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(guaranteed_base_offset_alignment=24)))


@shows("attribute.level")
def attribute_level() -> Any:
    y = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 4, 3])
    return dml.check(
        dml.Padding1Desc(
            input_tensor=x,
            output_tensor=y,
            padding_mode="WRAP",
            padding_value_data_type="FLOAT32",
            padding_value=0,
            start_padding=[0, 0, 1, 0],
            end_padding=[0, 0, 1, 0],
        ),
        feature_level="6_3",
    )


@shows("count.length")
def count_length() -> Any:
    dml.TensorDesc(DataType="FLOAT32", DimensionCount=3, Sizes=[1, 1, 2, 3])


@shows("elements.limit")
def elements_limit() -> Any:
    large = x.replace(sizes=[1, 1, 2**16, 2**16])
    return dml.check(dml.ActivationReluDesc(input_tensor=large, output_tensor=large))


@shows("field.missing")
def field_missing() -> Any:
    dml.TensorDesc(data_type="FLOAT32")


@shows("field.twice")
def field_twice() -> Any:
    dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3], Sizes=[2, 3])


@shows("field.unknown")
def field_unknown() -> Any:
    dml.TensorDesc(data_type="FLOAT32", size=[2, 3])


@shows("json.syntax")
def json_syntax() -> Any:
    dml.OperatorDesc.from_json('{"Type": "DML_OPERATOR_ACTIVATION_RELU"')


@shows("level.operator")
def level_operator() -> Any:
    return dml.check(dml.ActivationGeluDesc(input_tensor=x, output_tensor=x), feature_level="5_0")


@shows("level.requested")
def level_requested() -> Any:
    dml.check_feature_support("FEATURE_LEVELS", {"RequestedFeatureLevels": ["6_4"]}, feature_level="5_0")


@shows("operator.unknown")
def operator_unknown() -> Any:
    dml.OperatorDesc.from_dict({"Type": "DML_OPERATOR_RELU", "Desc": {}})


class _Empty(NumpyDevice):
    """A user-defined device, which has no plans yet."""

    name = "mine"

    def plan(self, desc: dml.OperatorDesc, flags: dml.ExecutionFlags = dml.ExecutionFlags.NONE) -> None:
        return None


@shows("operator.not_built")
def operator_not_built() -> Any:
    dml.compile(relu, _Empty())


@shows("size.multiple")
def size_multiple() -> Any:
    tensor = dml.TensorDesc
    desc = dml.LSTMDesc(
        input_tensor=tensor(data_type="FLOAT32", sizes=[1, 5, 2, 3]),
        weight_tensor=tensor(data_type="FLOAT32", sizes=[1, 1, 21, 3]),
        recurrence_tensor=tensor(data_type="FLOAT32", sizes=[1, 1, 21, 0]),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
    )
    return dml.check(desc)


@shows("size.unknown")
def size_unknown() -> Any:
    dml.JoinDesc(input_tensors=[x, x.replace(sizes=[2, 3])], axis=3).with_outputs()


@shows("strict.size")
def strict_size() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(total_tensor_size_in_bytes=26)), strict=True)


@shows("strict.alignment")
def strict_alignment() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(guaranteed_base_offset_alignment=8)), strict=True)


@shows("stride.count")
def stride_count() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(strides=[3, 1])))


@shows("stride.range")
def stride_range() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(strides=[6, 6, 3, -1])))


@shows("stride.overlap")
def stride_overlap() -> Any:
    return dml.check(relu.replace(output_tensor=x.replace(strides=[6, 6, 2, 1])))


@shows("stride.nibble")
def stride_nibble() -> Any:
    nibbles = dml.TensorDesc(data_type="UINT4", sizes=[2, 4])
    scale = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1])
    return dml.check(
        dml.QuantizeDesc(
            input_tensor=nibbles.replace(data_type="FLOAT32"),
            quantization_type="SCALE",
            quantization_tensors=[scale],
            output_tensor=nibbles.replace(data_type="INT4", strides=[8, 1]),
        )
    )


@shows("struct.abstract")
def struct_abstract() -> Any:
    dml.OperatorDesc()


@shows("tensor.fused")
def tensor_fused() -> Any:
    return dml.check(dml.ElementWiseAdd1Desc(a_tensor=x, b_tensor=x, output_tensor=x, fused_activation=relu))


@shows("total_size.small")
def total_size_small() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(total_tensor_size_in_bytes=20)))


@shows("total_size.range")
def total_size_range() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(total_tensor_size_in_bytes=2**64)))


@shows("type.unknown")
def type_unknown() -> Any:
    return dml.check(relu.replace(input_tensor=x.replace(data_type="UNKNOWN")))


@shows("effective_rank")
def effective_rank() -> Any:
    deep = x.replace(sizes=[2, 3, 4])
    return dml.check(dml.ActivationSoftmaxDesc(input_tensor=deep, output_tensor=deep), feature_level="3_0")


@shows("padding_cuts")
def padding_cuts() -> Any:
    desc = dml.ConvolutionDesc(
        input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 2]),
        filter_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 2]),
        output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 1]),
        mode="CROSS_CORRELATION",
        direction="BACKWARD",
        strides=[1, 1],
        dilations=[1, 1],
        start_padding=[2, 1],
        end_padding=[2, 1],
        output_padding=[0, 0],
        group_count=1,
    )
    return dml.check(desc)


@shows("layer_output_limit")
def layer_output_limit() -> Any:
    desc = sample(dml.CudnnRNNV3Desc)  # a valid one
    return dml.check(desc.replace(input=dml.TensorDesc(data_type="FLOAT32", sizes=[2**31, 3, 11])))


@shows("num_proj_range")
def num_proj_range() -> Any:
    ParamsLayout("gru", 1, 4, 3, bidirectional=False, num_proj=2)


@shows("skip_input_sizes")
def skip_input_sizes() -> Any:
    ParamsLayout("lstm", 1, 4, 3, bidirectional=False, skip_input=True)


@shows("struct.frozen")
def struct_frozen() -> Any:
    x.sizes = [2, 3]
