"""Code carried over from C as users type it: names of directml.h, imported one by one and used as types and as values."""

from __future__ import annotations

from typing import assert_type

import dmlpy as dml
from dmlpy import directml
from dmlpy.directml import (
    DML_ACTIVATION_ELU_OPERATOR_DESC,
    DML_BINDING_PROPERTIES,
    DML_BUFFER_BINDING,
    DML_BUFFER_TENSOR_DESC,
    DML_GEMM_OPERATOR_DESC,
    DML_GRAPH_DESC,
    DML_GRAPH_EDGE_DESC,
    DML_GRAPH_NODE_DESC,
    DML_INPUT_GRAPH_EDGE_DESC,
    DML_OPERATOR_DESC,
    DML_OPERATOR_GEMM,
    DML_OPERATOR_GRAPH_NODE_DESC,
    DML_OUTPUT_GRAPH_EDGE_DESC,
    DML_RECURRENT_NETWORK_DIRECTION_FORWARD,
    DML_RNN_OPERATOR_DESC,
    DML_SIZE_2D,
    DML_TARGET_VERSION,
    DML_TENSOR_DATA_TYPE,
    DML_TENSOR_DATA_TYPE_FLOAT32,
    DML_TENSOR_DESC,
    DML_TENSOR_DIMENSION_COUNT_MAX1,
    DML_TENSOR_FLAG_NONE,
    DML_TENSOR_TYPE_BUFFER,
    DML_UPSAMPLE_2D_OPERATOR_DESC,
    DMLCalcBufferTensorSize,
)

float32: dml.DataType = DML_TENSOR_DATA_TYPE_FLOAT32
assert_type(DMLCalcBufferTensorSize(DML_TENSOR_DATA_TYPE_FLOAT32, 2, [2, 3]), int)


def tensor(data_type: DML_TENSOR_DATA_TYPE, *sizes: int) -> dml.TensorDesc:
    """A tensor in both of its structs."""
    assert len(sizes) <= DML_TENSOR_DIMENSION_COUNT_MAX1
    return DML_TENSOR_DESC(DML_TENSOR_TYPE_BUFFER, DML_BUFFER_TENSOR_DESC(data_type=data_type, sizes=sizes, flags=DML_TENSOR_FLAG_NONE))


def gemm() -> dml.GEMMDesc:
    """A matrix product."""
    a, b, c = (tensor(DML_TENSOR_DATA_TYPE_FLOAT32, *sizes) for sizes in ((2, 3), (3, 4), (2, 4)))
    desc: dml.GEMMDesc = DML_GEMM_OPERATOR_DESC(a_tensor=a, b_tensor=b, output_tensor=c)
    assert DML_OPERATOR_DESC(DML_OPERATOR_GEMM, desc) is desc
    return desc


def layer() -> DML_RNN_OPERATOR_DESC:
    """A recurrent layer, with every member in C's spelling: counts, lists, enumerations in each of their forms."""
    x = DML_BUFFER_TENSOR_DESC(
        DataType=DML_TENSOR_DATA_TYPE_FLOAT32, Flags=DML_TENSOR_FLAG_NONE, DimensionCount=4, Sizes=[1, 7, 3, 11], Strides=None
    )
    w, r, h = (DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=sizes) for sizes in ((1, 1, 5, 11), (1, 1, 5, 5), (1, 1, 3, 5)))
    elu = DML_ACTIVATION_ELU_OPERATOR_DESC(Alpha=0.5)
    desc = DML_RNN_OPERATOR_DESC(
        InputTensor=x,
        WeightTensor=w,
        RecurrenceTensor=r,
        OutputSingleTensor=h,
        ActivationDescCount=1,
        ActivationDescs=[elu],
        Direction=DML_RECURRENT_NETWORK_DIRECTION_FORWARD,
    )
    alpha: float = elu.alpha
    assert alpha == 0.5
    return desc.replace(Direction="BACKWARD")


def resampled() -> dml.Upsample2DDesc:
    """A struct with a struct as a member."""
    x = DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1, 1, 2, 2])
    y = DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1, 1, 4, 6])
    size = DML_SIZE_2D(Width=3, Height=2)
    return DML_UPSAMPLE_2D_OPERATOR_DESC(InputTensor=x, OutputTensor=y, ScaleSize=size, InterpolationMode="LINEAR")


def graph() -> DML_GRAPH_DESC:
    """The product as a graph."""
    node = DML_OPERATOR_GRAPH_NODE_DESC(operator=gemm(), name="product")
    edges = [DML_INPUT_GRAPH_EDGE_DESC(graph_input_index=index, to_node_index=0, to_node_input_index=index) for index in range(2)]
    output = DML_OUTPUT_GRAPH_EDGE_DESC(from_node_index=0, from_node_output_index=0, graph_output_index=0)
    assert DML_GRAPH_EDGE_DESC(directml.DML_GRAPH_EDGE_TYPE_OUTPUT, output) is output
    return DML_GRAPH_DESC(
        input_count=2,
        output_count=1,
        nodes=[DML_GRAPH_NODE_DESC(directml.DML_GRAPH_NODE_TYPE_OPERATOR, node)],
        input_edges=edges,
        output_edges=[output],
    )


def properties(desc: DML_RNN_OPERATOR_DESC | DML_GEMM_OPERATOR_DESC) -> DML_BINDING_PROPERTIES:
    """What a binding needs."""
    return dml.compile(desc, "numpy").binding_properties


def part(address: int) -> dml.Buffer:
    """A range of memory."""
    assert int(DML_TARGET_VERSION) == 0x6400
    return DML_BUFFER_BINDING(address, Offset=16, SizeInBytes=64)
