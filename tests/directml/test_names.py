"""The alias module holds every C name that dmlpy has, and nothing else."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import directml
from dmlpy.description.enums import DmlEnum, DmlFlags
from dmlpy.description.registry import OPERATORS
from dmlpy.directml import header
from dmlpy.inspection.samples import sample

CONSTANTS = {
    "DML_TENSOR_DIMENSION_COUNT_MAX": 5,
    "DML_TENSOR_DIMENSION_COUNT_MAX1": 8,
    "DML_TEMPORARY_BUFFER_ALIGNMENT": 256,
    "DML_PERSISTENT_BUFFER_ALIGNMENT": 256,
    "DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT": 16,
    "DML_TARGET_VERSION": 0x6400,
}
WRAPPERS = ("DML_TENSOR_DESC", "DML_OPERATOR_DESC", "DML_GRAPH_NODE_DESC", "DML_GRAPH_EDGE_DESC")
OF_THE_HEADER = (*CONSTANTS, *WRAPPERS, "DML_BUFFER_BINDING", "DMLCalcBufferTensorSize")
FLOAT32, UINT4 = directml.DML_TENSOR_DATA_TYPE_FLOAT32, directml.DML_TENSOR_DATA_TYPE_UINT4


def matrix_product() -> dml.GEMMDesc:
    a, b = (directml.DML_BUFFER_TENSOR_DESC(data_type=FLOAT32, sizes=sizes) for sizes in ((2, 3), (3, 4)))
    return dml.GEMMDesc(a_tensor=a, b_tensor=b).with_outputs()


def test_every_struct_and_enumeration_member_has_its_c_name() -> None:
    expected: dict[str, object] = {kind.c_name: kind for kind in OPERATORS.values() if not kind.is_extension}
    for kind in (dml.TensorDesc, dml.ScaleBias, dml.Size2D, dml.FeatureQueryFeatureLevels, dml.FeatureDataFeatureLevels):
        expected[kind.c_name] = kind
    for query in (dml.FeatureQueryTensorDataTypeSupport, dml.FeatureDataTensorDataTypeSupport):
        expected[query.c_name] = query
    for enumeration in (enumeration for enumeration in DmlEnum.__subclasses__() if enumeration.prefix()):
        expected["DML_TENSOR_FLAGS" if enumeration is dml.TensorFlags else enumeration.prefix().removesuffix("_")] = enumeration
        expected |= {member.c_name: member for member in enumeration}
    for flags in DmlFlags.__subclasses__():
        expected[flags.prefix().removesuffix("_") + "S"] = flags
        expected |= {flags.prefix() + name: member for name, member in flags.__members__.items()}
    for part in (dml.Graph, dml.OperatorNode, dml.ConstantNode, dml.InputEdge, dml.OutputEdge, dml.IntermediateEdge):
        expected[part.c_name] = part
    expected |= {kind.type_name: kind.type_name for kind in OPERATORS.values() if not kind.is_extension}
    expected["DML_OPERATOR_SCATTER_ELEMENTS"] = "DML_OPERATOR_SCATTER"
    expected["DML_BINDING_PROPERTIES"] = dml.compile(matrix_product(), "numpy").binding_properties.__class__
    expected |= {name: getattr(header, name) for name in OF_THE_HEADER}
    assert {name: getattr(directml, name) for name in directml.__all__} == expected


def test_binding_properties_are_read_by_their_c_names() -> None:
    found: Any = directml.DML_BINDING_PROPERTIES(11, 256, 512)
    assert (found.RequiredDescriptorCount, found.TemporaryResourceSize, found.PersistentResourceSize) == (11, 256, 512)
    with pytest.raises(AttributeError, match="BindingProperties has no member 'TemporarySize'"):
        _ = found.TemporarySize
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_c_program_reads_the_same() -> None:
    desc = directml.DML_RNN_OPERATOR_DESC(
        InputTensor=directml.DML_BUFFER_TENSOR_DESC(DataType=directml.DML_TENSOR_DATA_TYPE_FLOAT32, Sizes=[1, 2, 3, 4]),
        WeightTensor=directml.DML_BUFFER_TENSOR_DESC(DataType="DML_TENSOR_DATA_TYPE_FLOAT32", Sizes=[1, 1, 5, 4], DimensionCount=4),
        RecurrenceTensor=directml.DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1, 1, 5, 5]),
        OutputSingleTensor=directml.DML_BUFFER_TENSOR_DESC(DataType="FLOAT32", Sizes=[1, 1, 3, 5]),
        ActivationDescCount=1,
        ActivationDescs=[directml.DML_ACTIVATION_TANH_OPERATOR_DESC()],
        Direction=directml.DML_RECURRENT_NETWORK_DIRECTION_FORWARD,
    )
    assert dml.check(desc, directml.DML_FEATURE_LEVEL_1_0) == []


def test_constants_have_the_numbers_of_the_header() -> None:
    assert {name: getattr(directml, name) for name in CONSTANTS} == CONSTANTS


def test_operator_types_are_what_descs_and_json_hold() -> None:
    desc = matrix_product()
    assert desc.type_name == directml.DML_OPERATOR_GEMM
    assert sample(dml.RNNDesc).type_name == directml.DML_OPERATOR_RNN
    assert dml.OperatorDesc.from_dict(desc.to_dict() | {"Type": directml.DML_OPERATOR_GEMM}) == desc
    assert directml.DML_OPERATOR_DESC(Type=directml.DML_OPERATOR_GEMM, Desc=desc) is desc
    assert directml.DML_OPERATOR_SCATTER_ELEMENTS == directml.DML_OPERATOR_SCATTER


def test_a_graph_in_the_structs_of_c_is_that_graph() -> None:
    desc = matrix_product()
    node = directml.DML_OPERATOR_GRAPH_NODE_DESC(Operator=desc, Name="product")
    edges = [directml.DML_INPUT_GRAPH_EDGE_DESC(GraphInputIndex=index, ToNodeIndex=0, ToNodeInputIndex=index) for index in (0, 1)]
    output = directml.DML_OUTPUT_GRAPH_EDGE_DESC(FromNodeIndex=0, FromNodeOutputIndex=0, GraphOutputIndex=0)
    graph = directml.DML_GRAPH_DESC(
        InputCount=2,
        OutputCount=1,
        NodeCount=1,
        Nodes=[directml.DML_GRAPH_NODE_DESC(Type=directml.DML_GRAPH_NODE_TYPE_OPERATOR, Desc=node)],
        InputEdgeCount=2,
        InputEdges=[directml.DML_GRAPH_EDGE_DESC(Type=directml.DML_GRAPH_EDGE_TYPE_INPUT, Desc=edge) for edge in edges],
        OutputEdgeCount=1,
        OutputEdges=[directml.DML_GRAPH_EDGE_DESC(Type=directml.DML_GRAPH_EDGE_TYPE_OUTPUT, Desc=output)],
    )
    assert graph == dml.Graph(nodes=[node], input_count=2, output_count=1, input_edges=edges, output_edges=[output])
    assert dml.check(graph) == []


TENSOR = directml.DML_BUFFER_TENSOR_DESC(data_type=FLOAT32, sizes=(1,))
CONSTANT = directml.DML_CONSTANT_DATA_GRAPH_NODE_DESC(Data=b"1234")
EDGE = directml.DML_OUTPUT_GRAPH_EDGE_DESC(FromNodeIndex=0, FromNodeOutputIndex=0, GraphOutputIndex=0)


@pytest.mark.parametrize(
    ("wrapper", "kind", "desc", "place", "expected"),
    [
        ("DML_TENSOR_DESC", 0, TENSOR, "Type", "one of DML_TENSOR_TYPE_BUFFER"),
        ("DML_TENSOR_DESC", "BUFFER", None, "Desc", "DML_BUFFER_TENSOR_DESC"),
        ("DML_OPERATOR_DESC", "DML_OPERATOR_RNN", matrix_product(), "Desc", "DML_RNN_OPERATOR_DESC"),
        ("DML_OPERATOR_DESC", "DML_OPERATOR_RNM", matrix_product(), "type", None),
        ("DML_GRAPH_NODE_DESC", directml.DML_GRAPH_NODE_TYPE_OPERATOR, CONSTANT, "Desc", "DML_OPERATOR_GRAPH_NODE_DESC"),
        ("DML_GRAPH_NODE_DESC", directml.DML_GRAPH_NODE_TYPE_OPERATOR, matrix_product(), "Desc", "DML_OPERATOR_GRAPH_NODE_DESC"),
        ("DML_GRAPH_EDGE_DESC", directml.DML_GRAPH_EDGE_TYPE_INPUT, EDGE, "Desc", "DML_INPUT_GRAPH_EDGE_DESC"),
        ("DML_GRAPH_EDGE_DESC", "INVALID", EDGE, "Type", None),
    ],
)
def test_a_type_and_a_desc_that_do_not_belong_together(wrapper: str, kind: Any, desc: Any, place: str, expected: str | None) -> None:
    with pytest.raises(dml.DescError) as caught:
        getattr(directml, wrapper)(kind, desc)
    (problem,) = caught.value.problems
    assert problem.path == place
    assert expected in (None, problem.expected)


def test_the_right_types_and_descs_belong_together() -> None:
    assert directml.DML_TENSOR_DESC(directml.DML_TENSOR_TYPE_BUFFER, TENSOR) is TENSOR
    assert directml.DML_GRAPH_NODE_DESC("CONSTANT", CONSTANT) is CONSTANT


@pytest.mark.parametrize(
    ("data_type", "sizes", "strides", "size"),
    [
        ("FLOAT16", (1, 1, 1, 3), None, 8),
        (UINT4, (1, 1, 1, 5), None, 4),
        (FLOAT32, (1, 1, 4, 4), (0, 0, 0, 1), 16),
        (FLOAT32, (2**31, 1), (2, 1), ((2**31 - 1) * 2 + 1) * 4),
    ],
)
def test_the_size_of_a_tensor_is_that_of_the_helper(data_type: Any, sizes: Any, strides: Any, size: int) -> None:
    assert directml.DMLCalcBufferTensorSize(data_type, len(sizes), sizes, strides) == size


@pytest.mark.parametrize(
    "arguments", [("UNKNOWN", 1, (1,)), ("FLOAT31", 1, (1,)), (FLOAT32, 2, (1,)), (FLOAT32, 1, (0,)), (FLOAT32, 1, (1,), (1, 1))]
)
def test_a_tensor_that_cannot_be_has_no_size(arguments: Any) -> None:
    with pytest.raises(dml.DescError):
        directml.DMLCalcBufferTensorSize(*arguments)


def test_a_buffer_binding_is_a_range_of_memory_that_operators_take() -> None:
    memory = np.zeros(64, np.float32)
    a = directml.DML_BUFFER_BINDING(memory, 64, 24)
    b = directml.DML_BUFFER_BINDING(Buffer=dml.Buffer(memory.ctypes.data, 256), Offset=128, SizeInBytes=48)
    memory[16:22], memory[32:44] = np.arange(6), np.arange(12)
    product = dml.compile(matrix_product(), "numpy")(ATensor=a, BTensor=b).output_tensor
    assert product.tolist() == (np.arange(6).reshape(2, 3) @ np.arange(12).reshape(3, 4)).tolist()
    assert (a.Buffer is memory, a.Offset, a.SizeInBytes, a.pointer) == (True, 64, 24, memory.ctypes.data + 64)
    assert directml.DML_BUFFER_BINDING(memory, 64).SizeInBytes == 192
    assert directml.DML_BUFFER_BINDING(memory.ctypes.data, 64, 24) == a


@pytest.mark.parametrize(
    ("arguments", "member"),
    [
        ((None,), "Buffer"),
        ((0,), "Buffer"),
        (("memory",), "Buffer"),
        ((np.zeros(4)[::-1],), "Buffer"),
        ((4096,), "SizeInBytes"),
        ((4096, -1, 4), "Offset"),
        ((np.zeros(4), 33), "Offset"),
        ((np.zeros(4), 16, 17), "SizeInBytes"),
        ((np.zeros(4), 16, "4"), "SizeInBytes"),
    ],
)
def test_a_range_that_the_memory_does_not_have(arguments: Any, member: str) -> None:
    with pytest.raises(dml.BindError) as caught:
        directml.DML_BUFFER_BINDING(*arguments)
    assert [problem.path for problem in caught.value.problems] == [member]
