"""What users of DirectML ran into: their descriptors, the message that dmlpy gives, and the same mended as the message says.

Each row is a public complaint, most of them about an error of no more words than "The parameter is incorrect" (80070057). Where the
thread has sizes they are its own; where it has none they are the smallest with the same fault.

No check of a descriptor can find the others:

- The descriptors are valid and the results wrong, or other than on another device: DirectML/issues/83, 234 and 483;
  onnxruntime/issues/9582, 15459 and 19837.
- Temporary memory, the lack of memory, and the device removal that follows belong to a device at run time: DirectML/issues/65, 492, 542
  and 550; onnxruntime/issues/10708, 22700 and 26606.
- DirectML.dll is missing or older than the program asks for, before there is any descriptor: DirectML/issues/659;
  onnxruntime/issues/3360, 15628, 18666 and 21432; onnxruntime-genai/issues/521. What an older one lacks is in the table.
- Runs from several threads, and recompiling for each new size: onnxruntime/issues/14550, 20713, 22147 and 25577.
- The fault lies in the program above, or the thread does not contain a descriptor: DirectML/issues/218 and 328; onnxruntime/issues/5197 and
  17516. Packages that cannot be installed: DirectML/issues/128 and 615.
- Weights in PyTorch's order of gates, i f g o instead of DirectML's i o f c, have the same sizes: only the numbers differ.
- A size of 1 in BATCH_NORMALIZATION_GRAD (sdk-api/pull/1262) is how its statistics repeat, by the page of today. Element-wise operators
  repeat by strides alone: they are in the table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.graphs import Graph, GraphBuilder, OperatorNode
from dmlpy.messages.problems import lay_out
from tests.support.descs.messages import GATES, gru, in_order
from tests.support.tensors import tensor

Wrong = dml.OperatorDesc | Graph

DIRECTML = "https://github.com/microsoft/DirectML"
ONNXRUNTIME = "https://github.com/microsoft/onnxruntime"
GENAI = "https://github.com/microsoft/onnxruntime-genai"
DOCS = "https://github.com/MicrosoftDocs/sdk-api"


@dataclass(frozen=True)
class Complaint:
    """A row.

    Attributes:
        url: the thread.
        did: what its author did.
        wrong: what the author described.
        found: the codes and places of all problems.
        told: pieces of the messages, in this order, that would have saved the author the day.
        mended: what the messages lead to; it has no problems. None where another feature level is all that is wanted.
        level: the feature level that the author had.
    """

    url: str
    did: str
    wrong: Wrong
    found: list[tuple[str, str]]
    told: list[str]
    mended: Wrong | None
    level: str = "6_4"


def owned(*sizes: int) -> dml.TensorDesc:
    return tensor(*sizes, flags="OWNED_BY_DML")


def everywhere(code: str, *places: str) -> list[tuple[str, str]]:
    return [(code, place) for place in places]


def gemm(a: dml.TensorDesc, b: dml.TensorDesc, output: dml.TensorDesc, **members: Any) -> dml.GEMMDesc:
    return dml.GEMMDesc(a_tensor=a, b_tensor=b, output_tensor=output, **members)


def add(a: dml.TensorDesc, b: dml.TensorDesc, output: dml.TensorDesc) -> dml.ElementWiseAddDesc:
    return dml.ElementWiseAddDesc(a_tensor=a, b_tensor=b, output_tensor=output)


def identity(given: dml.TensorDesc, output: dml.TensorDesc) -> dml.ElementWiseIdentityDesc:
    return dml.ElementWiseIdentityDesc(input_tensor=given, output_tensor=output)


def relu(*sizes: int) -> dml.ActivationReluDesc:
    return dml.ActivationReluDesc(input_tensor=tensor(*sizes), output_tensor=tensor(*sizes))


def instance_norm(*statistics: int) -> dml.MeanVarianceNormalization1Desc:
    """32 groups of 320 channels of 320 elements: each group is a row of 3200."""
    tensors = {name: tensor(*statistics) for name in ("scale_tensor", "bias_tensor")}
    return dml.MeanVarianceNormalization1Desc(
        input_tensor=tensor(1, 1, 32, 3200), output_tensor=tensor(1, 1, 32, 3200), axes=[2, 3], **tensors
    )


def batch_norm(*statistics: int) -> dml.BatchNormalizationDesc:
    tensors = {f"{name}_tensor": tensor(*statistics) for name in ("mean", "variance", "scale", "bias")}
    return dml.BatchNormalizationDesc(input_tensor=tensor(2, 3), output_tensor=tensor(2, 3), spatial=True, epsilon=1e-5, **tensors)


def pool(size: int) -> dml.AveragePoolingDesc:
    arrays = {"strides": [2, 2], "window_size": [3, 3], "start_padding": [0, 0], "end_padding": [0, 0]}
    given, output = tensor(1, 8, 28, 28), tensor(1, 8, size, size)
    return dml.AveragePoolingDesc(input_tensor=given, output_tensor=output, include_padding=False, **arrays)


def convolution(
    given: dml.TensorDesc, weights: dml.TensorDesc, output: dml.TensorDesc, padding: int, added: int = 0, direction: str = "FORWARD"
) -> dml.ConvolutionDesc:
    arrays = {
        "strides": [2, 2],
        "dilations": [1, 1],
        "start_padding": [padding] * 2,
        "end_padding": [padding] * 2,
        "output_padding": [added] * 2,
    }
    return dml.ConvolutionDesc(input_tensor=given, filter_tensor=weights, output_tensor=output, direction=direction, **arrays)


def transposed(size: int, output_padding: int) -> dml.ConvolutionDesc:
    return convolution(tensor(1, 16, 8, 8), tensor(16, 8, 3, 3), tensor(1, 8, size, size), 1, output_padding, "BACKWARD")


def first_layer(given: dml.TensorDesc, output: dml.TensorDesc) -> dml.ConvolutionDesc:
    return convolution(given, tensor(64, 3, 7, 7), output, 3)


def lstm(given: dml.TensorDesc, output: dml.TensorDesc, *bias: int, direction: str = "FORWARD", hidden: int = 10) -> dml.LSTMDesc:
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    return dml.LSTMDesc(
        input_tensor=given,
        weight_tensor=tensor(1, directions, 4 * hidden, given.sizes[3]),
        recurrence_tensor=tensor(1, directions, 4 * hidden, hidden),
        bias_tensor=tensor(*bias),
        output_sequence_tensor=output,
        activation_descs=GATES * directions,
        direction=direction,
    )


def wide_lstm(*bias: int) -> dml.LSTMDesc:
    return lstm(tensor(1, 10, 2, 64), tensor(10, 2, 2, 512), *bias, direction="BIDIRECTIONAL", hidden=512)


STEPS, ENTRY = tensor(1, 24, 1, 20), tensor(24, 1, 1, 10)


def identity_before_gru() -> Graph:
    g = GraphBuilder()
    x, weight, recurrence = g.input("x", tensor(1, 2, 3, 3)), g.input("weight", owned(1, 1, 15, 3)), g.input("r", owned(1, 1, 15, 5))
    copies = [
        g.add(dml.ElementWiseIdentityDesc, input_tensor=value, output_tensor=value.tensor.replace(flags="NONE"))
        for value in (weight, recurrence)
    ]
    desc = gru(tensor(1, 1, 15, 3), tensor(1, 1, 15, 5))
    g.output("y", g.add(desc, "gru", input_tensor=x, weight_tensor=copies[0], recurrence_tensor=copies[1]))
    return g.build()


def gather(indices: dml.TensorDesc, rank: int = 4) -> dml.GatherDesc:
    ones = [1] * (rank - 2)
    return dml.GatherDesc(
        input_tensor=tensor(*ones, 5, 4), indices_tensor=indices, output_tensor=tensor(*ones, 3, 4), axis=rank - 2, index_dimensions=1
    )


def cast(input_bytes: int | None) -> dml.CastDesc:
    """FLOAT16 to FLOAT32 of an odd count."""
    given = tensor(3, data_type="FLOAT16", total_tensor_size_in_bytes=input_bytes)
    return dml.CastDesc(input_tensor=given, output_tensor=tensor(3, total_tensor_size_in_bytes=12))


def strided_product(total_bytes: int | None) -> dml.GEMMDesc:
    """A's strides step over the heads of a buffer [2, 4, 2, 8]; its size is that of the packed tensor, where it is given."""
    a = tensor(2, 1, 4, 8, strides=[64, 8, 16, 1], total_tensor_size_in_bytes=total_bytes)
    return gemm(a, tensor(2, 1, 8, 3), tensor(2, 1, 4, 3))


def upsampling() -> Graph:
    g = GraphBuilder()
    members: dict[str, Any] = {"interpolation_mode": "LINEAR", "rounding_direction": "DECREASING", "scales": [1, 1, 2, 2]}
    members |= {"input_pixel_offsets": [0.5] * 4, "output_pixel_offsets": [-0.5] * 4, "output_tensor": tensor(1, 3, 8, 8)}
    larger = g.add(dml.Resample2Desc, "up", input_tensor=g.input("x", tensor(1, 3, 4, 4)), **members)
    g.output("y", g.add(dml.ActivationGeluDesc, "gelu", input_tensor=larger))
    return g.build()


def graph(
    nodes: dict[str, dml.OperatorDesc], inputs: list[tuple[str, str, int]], outputs: list[str], *links: tuple[str, str], unused: str = ""
) -> Graph:
    """A graph of named nodes, whose edges are given as the author gave them: input edges by slot, the others by their first slots."""
    names = list(dict.fromkeys([name for name, _, _ in inputs] + [unused] * bool(unused)))
    return Graph(
        input_names=names,
        output_names=[f"{node} output" for node in outputs],
        nodes=[OperatorNode(operator=desc, name=name) for name, desc in nodes.items()],
        input_edges=[{"GraphInputIndex": name, "ToNodeIndex": node, "ToNodeInputIndex": slot} for name, node, slot in inputs],
        output_edges=[{"FromNodeIndex": node, "FromNodeOutputIndex": 0, "GraphOutputIndex": f"{node} output"} for node in outputs],
        intermediate_edges=[
            {"FromNodeIndex": writer, "FromNodeOutputIndex": 0, "ToNodeIndex": reader, "ToNodeInputIndex": 0} for writer, reader in links
        ],
    )


NORM = instance_norm(1, 1, 32, 1)
NORM_INPUTS = [("x", "norm", 0), ("scale", "norm", 1), ("bias", "norm", 2)]
CONV = first_layer(tensor(1, 3, 28, 28), tensor(1, 64, 14, 14))
PAD = dml.PaddingDesc(
    input_tensor=tensor(1, 1, 2, 3),
    output_tensor=tensor(1, 1, 4, 7),
    padding_mode="CONSTANT",
    padding_value=0,
    start_padding=[0, 0, 1, 2],
    end_padding=[0, 0, 1, 2],
)

COMPLAINTS = [
    Complaint(
        f"{DIRECTML}/issues/74",
        "added tensors [2, 2], which work, though the page asked for 4 or 5 dimensions: it depends on the level",
        add(tensor(2, 2), tensor(2, 2), tensor(2, 2)),
        everywhere("dims.support", "a_tensor.sizes", "b_tensor.sizes", "output_tensor.sizes"),
        ["has 2 dimensions [2, 2], expected 4 to 5 dimensions", "feature level 2_0", "sizes [1, 1, 2, 2]; or feature level 3_0 takes 2"],
        add(tensor(1, 1, 2, 2), tensor(1, 1, 2, 2), tensor(1, 1, 2, 2)),
        level="2_0",
    ),
    Complaint(
        f"{DIRECTML}/issues/272",
        "multiplied stacks of matrices without the second leading dimension",
        gemm(tensor(3, 5, 7), tensor(3, 7, 2), tensor(3, 5, 2)),
        everywhere("dims.support", "a_tensor.sizes", "b_tensor.sizes", "output_tensor.sizes"),
        [
            "a_tensor.sizes has 3 dimensions [3, 5, 7], expected 4 dimensions",
            "put ones in front: sizes [1, 3, 5, 7]; or feature level 4_0 takes 3",
        ],
        gemm(tensor(1, 3, 5, 7), tensor(1, 3, 7, 2), tensor(1, 3, 5, 2)),
        level="3_1",
    ),
    Complaint(
        f"{DIRECTML}/issues/271",
        "ran a network with a tensor of more dimensions than there may be",
        identity(tensor(*[2] * 9), tensor(*[2] * 9)),
        everywhere("dims.range", "input_tensor.sizes", "output_tensor.sizes"),
        ["input_tensor.sizes has 9 dimensions, expected 1 to 8 dimensions"],
        identity(tensor(4, *[2] * 7), tensor(4, *[2] * 7)),
    ),
    Complaint(
        f"{ONNXRUNTIME}/issues/21583",
        "multiplied matrices in three leading dimensions",
        gemm(tensor(1, 64, 4, 8, 72), tensor(1, 64, 4, 72, 1), tensor(1, 64, 4, 8, 1)),
        everywhere("dims.support", "a_tensor.sizes", "b_tensor.sizes", "output_tensor.sizes"),
        ["5 dimensions [1, 64, 4, 8, 72], expected 2 to 4", "fold the leading dimensions of every tensor", "sizes [64, 4, 72, 1] here"],
        gemm(tensor(64, 4, 8, 72), tensor(64, 4, 72, 1), tensor(64, 4, 8, 1)),
    ),
    Complaint(
        f"{ONNXRUNTIME}/issues/26529",
        "the same, with one matrix for all entries",
        gemm(tensor(2, 3, 4, 5, 6), tensor(1, 1, 1, 6, 7), tensor(2, 3, 4, 5, 7)),
        everywhere("dims.support", "a_tensor.sizes", "b_tensor.sizes", "output_tensor.sizes"),
        ["sizes [6, 4, 5, 6], strides [120, 30, 6, 1] here", "sizes [6, 4, 6, 7], strides [0, 0, 7, 1] here"],
        gemm(tensor(6, 4, 5, 6), tensor(6, 4, 6, 7, strides=[0, 0, 7, 1]), tensor(6, 4, 5, 7)),
    ),
    Complaint(
        f"{ONNXRUNTIME}/issues/13330",
        "normalized [1, 32, 3200], with the 32 scales where the channels of four dimensions are",
        instance_norm(1, 32, 1, 1),
        everywhere("statistics_sizes", "scale_tensor.sizes[1]", "bias_tensor.sizes[1]"),
        [
            "scale_tensor.sizes[1] is 32, expected 1",
            "from input_tensor.sizes[1]",
            "sizes [1, 1, 32, 1] repeat along all dimensions but 2",
        ],
        instance_norm(1, 1, 32, 1),
    ),
    Complaint(
        f"{DIRECTML}/issues/306",
        "gave a linear layer its bias as a vector",
        gemm(tensor(3, 8), tensor(4, 8), tensor(3, 4), c_tensor=tensor(4), trans_b="TRANSPOSE"),
        everywhere("dims.support", "c_tensor.sizes"),
        ["c_tensor.sizes has 1 dimension [4], expected 2 to 4 dimensions", "remedy: strides of 0 repeat it: sizes [3, 4], strides [0, 1]"],
        gemm(tensor(3, 8), tensor(4, 8), tensor(3, 4), c_tensor=tensor(3, 4, strides=[0, 1]), trans_b="TRANSPOSE"),
    ),
    Complaint(
        f"{DIRECTML}/issues/306",
        "gave batch normalization its statistics as vectors",
        batch_norm(3),
        everywhere("statistics_sizes", *(f"{name}_tensor.sizes" for name in ("mean", "variance", "scale", "bias"))),
        ["mean_tensor.sizes is [3], expected 2 dimensions, with ones where it repeats", "sizes [1, 3] repeat along all dimensions but 1"],
        batch_norm(1, 3),
    ),
    Complaint(
        f"{ONNXRUNTIME}/issues/20575",
        "compiled a graph of which one input of one node had no edge",
        graph({"norm": NORM}, [NORM_INPUTS[0], NORM_INPUTS[2]], ["norm"]),
        everywhere("graph.unfed", "nodes[0].scale_tensor"),
        ["node 0 'norm' (MEAN_VARIANCE_NORMALIZATION1): input 1 ScaleTensor is described but has no edge", "add an edge to it"],
        graph({"norm": NORM}, NORM_INPUTS, ["norm"]),
    ),
    Complaint(
        f"{ONNXRUNTIME}/issues/20575",
        "joined tensors of different sizes",
        graph({"first": relu(1, 1, 8, 8), "next": relu(1, 2, 8, 8)}, [("x", "first", 0)], ["next"], ("first", "next")),
        everywhere("graph.total_size", "intermediate_edges[0]"),
        [
            "an edge from 256 bytes to 512 bytes, expected TotalTensorSizeInBytes equal at both ends",
            "node 0 'first' (ACTIVATION_RELU): output 0 OutputTensor is FLOAT32 [1, 1, 8, 8]",
            "node 1 'next' (ACTIVATION_RELU): input 0 InputTensor is FLOAT32 [1, 2, 8, 8]",
        ],
        graph({"first": relu(1, 1, 8, 8), "next": relu(1, 1, 8, 8)}, [("x", "first", 0)], ["next"], ("first", "next")),
    ),
    Complaint(
        f"{ONNXRUNTIME}/pull/14155",
        "left a node in the graph whose result nobody wanted any more",
        graph({"used": relu(1, 3), "left over": relu(1, 3)}, [("x", "used", 0), ("x", "left over", 0)], ["used"]),
        everywhere("graph.unread", "nodes[1].output_tensor"),
        ["node 1 'left over' (ACTIVATION_RELU): output 0 OutputTensor is described but has no edge", "or leave the node out"],
        graph({"used": relu(1, 3)}, [("x", "used", 0)], ["used"]),
    ),
    Complaint(
        f"{DIRECTML}/issues/133",
        "made an input of a graph and did not use it",
        graph({"pad": PAD}, [("input", "pad", 0)], ["pad"], unused="input1"),
        everywhere("graph.unused_input", "input_edges"),
        ["graph input 1 'input1' feeds no node", "leave the input out, or bind nothing to it"],
        graph({"pad": PAD}, [("input", "pad", 0)], ["pad"]),
    ),
    Complaint(
        f"{DIRECTML}/issues/68",
        "took a graph of one convolution to have the operator's three inputs, of which the bias was null",
        graph({"conv": CONV}, [("input", "conv", 0), ("filter", "conv", 1), ("bias", "conv", 2)], ["conv"]),
        everywhere("graph.slot", "input_edges[2].to_node_input_index"),
        [
            "node 0 'conv' (CONVOLUTION): input 2 BiasTensor is null",
            "slots: 0 InputTensor, 1 FilterTensor, 2 BiasTensor",
            "leave the edge out: null slots count, but have no edge",
        ],
        graph({"conv": CONV}, [("input", "conv", 0), ("filter", "conv", 1)], ["conv"]),
    ),
    Complaint(
        f"{DIRECTML}/issues/153",
        "let DirectML own the weights of a GRU",
        gru(owned(1, 1, 15, 3), owned(1, 1, 15, 5)),
        everywhere("flag.owned", "weight_tensor.flags", "recurrence_tensor.flags"),
        [
            "weight_tensor.flags is OWNED_BY_DML, expected NONE",
            "does not support OWNED_BY_DML on any input",
            "in a graph ELEMENT_WISE_IDENTITY can own them",
        ],
        identity_before_gru(),
    ),
    Complaint(
        f"{DIRECTML}/issues/205",
        "had to compute the sizes of pooling, and forgot the last window",
        pool(12),
        everywhere("size.equal", "output_tensor.sizes[2]", "output_tensor.sizes[3]"),
        ["output_tensor.sizes[2] is 12, expected out[0] = 13", "window_size[0]) // strides[0] + 1 = (28 + 0 + 0 - 3) // 2 + 1"],
        pool(13),
    ),
    Complaint(
        f"{DIRECTML}/issues/149",
        "had to compute the sizes of a transposed convolution, and gave one that no output padding makes",
        transposed(17, output_padding=0),
        everywhere("size.equal", "output_tensor.sizes[2]", "output_tensor.sizes[3]"),
        ["is 17, expected out[0] = 15", "+ output_padding[0] = (8 - 1) * 2 + 1 + (3 - 1) * 1 - 1 - 1 + 0"],
        transposed(15, output_padding=0),
    ),
    Complaint(
        f"{DIRECTML}/issues/149",
        "computed the sizes without the output padding that was given",
        transposed(15, output_padding=1),
        everywhere("size.equal", "output_tensor.sizes[2]", "output_tensor.sizes[3]"),
        ["is 15, expected out[0] = 16", "= (8 - 1) * 2 + 1 + (3 - 1) * 1 - 1 - 1 + 1", "output_padding [0, 0] makes these sizes"],
        transposed(15, output_padding=0),
    ),
    Complaint(
        f"{ONNXRUNTIME}/pull/14225",
        "changed the strides of an operand, and not its size in bytes",
        strided_product(2 * 4 * 8 * 4),
        everywhere("total_size.small", "a_tensor.total_tensor_size_in_bytes"),
        [
            "is 256, expected at least 480 = (119 + 1) * 32 bits",
            "119 is the sum of (sizes - 1) * strides",
            "leave it out: dmlpy computes it",
        ],
        strided_product(None),
    ),
    Complaint(
        f"{GENAI}/pull/773",
        "cast an odd count of FLOAT16 elements, with count * 2 bytes",
        cast(6),
        everywhere("total_size.small", "input_tensor.total_tensor_size_in_bytes"),
        ["is 6, expected at least 8 = (2 + 1) * 16 bits in bytes, rounded up to a multiple of 4", "leave it out"],
        cast(8),
    ),
    Complaint(
        f"{DIRECTML}/issues/611",
        "ran a model on a device of a lower level than its operators",
        upsampling(),
        everywhere("level.operator", "nodes[0]", "nodes[1]"),
        [
            "DML_OPERATOR_RESAMPLE2 at feature level 5_0, expected feature level 5_1 or higher",
            "node 0 'up' (RESAMPLE2)",
            "(DirectML 1.9.0)",
            "DML_OPERATOR_ACTIVATION_GELU at feature level 5_0",
        ],
        None,
        level="5_0",
    ),
    Complaint(
        f"{DIRECTML}/issues/727",
        "gathered by INT64 indices",
        gather(tensor(1, 1, 1, 3, data_type="INT64")),
        everywhere("type.support", "indices_tensor.data_type"),
        ["indices_tensor.data_type is INT64, expected UINT32", "feature level 2_1", "feature level 3_0 takes INT64"],
        gather(tensor(1, 1, 1, 3, data_type="UINT32")),
        level="2_1",
    ),
    Complaint(
        f"{DIRECTML}/issues/727",
        "gave the indices as a vector, as ONNX has them",
        gather(tensor(3, data_type="INT64"), rank=2),
        everywhere("dims.equal", "indices_tensor.sizes"),
        ["has 1 dimension, expected 2 dimensions", "in as many dimensions as input_tensor has", "put ones in front: sizes [1, 3]"],
        gather(tensor(1, 3, data_type="INT64"), rank=2),
    ),
    Complaint(
        f"{DIRECTML}/issues/363",
        "gave an LSTM its input with the batch first",
        lstm(tensor(1, 1, 24, 20), ENTRY, 1, 1, 1, 80),
        everywhere("size.equal", "output_sequence_tensor.sizes[0]", "output_sequence_tensor.sizes[2]"),
        ["is 24, expected seq_length = 1", "from input_tensor.sizes[1]", "is sizes [1, 24, 1, 20], strides [480, 20, 480, 1]"],
        lstm(tensor(1, 24, 1, 20, strides=[480, 20, 480, 1]), ENTRY, 1, 1, 1, 80),
    ),
    Complaint(
        f"{DIRECTML}/issues/363",
        "gave one bias of the two",
        lstm(STEPS, ENTRY, 1, 1, 1, 40),
        everywhere("size.equal", "bias_tensor.sizes[3]"),
        ["is 40, expected 8*hidden_size = 80", "it holds Wb, then Rb: where there is one bias only, follow it with as many zeros"],
        lstm(STEPS, ENTRY, 1, 1, 1, 80),
    ),
    Complaint(
        f"{DIRECTML}/issues/363",
        "gave the bias of one direction",
        wide_lstm(1, 1, 1, 4096),
        everywhere("size.equal", "bias_tensor.sizes[2]"),
        ["is 1, expected num_directions = 2", "[1, 1, num_directions, 8*hidden_size]", "direction is BIDIRECTIONAL"],
        wide_lstm(1, 1, 2, 4096),
    ),
    Complaint(
        f"{DIRECTML}/issues/363",
        "gave the directions of the bias where all other tensors have them",
        wide_lstm(1, 2, 1, 4096),
        everywhere("size.equal", "bias_tensor.sizes[1]", "bias_tensor.sizes[2]"),
        ["bias_tensor is [1, 1, num_directions, 8*hidden_size]", "the sizes are right in another order: [1, 1, 2, 4096]"],
        wide_lstm(1, 1, 2, 4096),
    ),
    Complaint(
        f"{DIRECTML}/issues/130",
        "reshaped by ELEMENT_WISE_IDENTITY",
        identity(tensor(1, 2, 3, 4), tensor(1, 24, 1, 1)),
        everywhere("size.equal", *(f"output_tensor.sizes[{axis}]" for axis in (1, 2, 3))),
        ["is 24, expected sizes[1] = 2", "a reshape needs no operator", "as [1, 24, 1, 1] where it is read"],
        graph({"before": relu(1, 2, 3, 4), "after": relu(1, 24, 1, 1)}, [("x", "before", 0)], ["after"], ("before", "after")),
    ),
    Complaint(
        f"{DIRECTML}/issues/75",
        "transposed by ELEMENT_WISE_IDENTITY",
        identity(tensor(1, 1, 2, 3), tensor(1, 1, 3, 2)),
        everywhere("size.equal", "output_tensor.sizes[2]", "output_tensor.sizes[3]"),
        ["is 3, expected sizes[2] = 2", "to transpose, describe the input in the output's order: sizes [1, 1, 3, 2], strides [0, 0, 1, 3]"],
        identity(tensor(1, 1, 3, 2, strides=[0, 0, 1, 3]), tensor(1, 1, 3, 2)),
    ),
    Complaint(
        f"{DIRECTML}/issues/240",
        "told the layout NHWC by the sizes",
        first_layer(tensor(1, 28, 28, 3), tensor(1, 14, 14, 64)),
        everywhere("size.equal", "filter_tensor.sizes[1]", "output_tensor.sizes[1]", "output_tensor.sizes[3]"),
        [
            "if the channels lie last, input_tensor is sizes [1, 3, 28, 28], strides [2352, 1, 84, 3]",
            "output_tensor is sizes [1, 64, 14, 14]: strides alone define a layout",
        ],
        first_layer(tensor(1, 3, 28, 28, strides=[2352, 1, 84, 3]), tensor(1, 64, 14, 14)),
    ),
    Complaint(
        f"{DOCS}/pull/1262",
        "took a size of 1 to repeat",
        add(tensor(1, 3, 4, 4), tensor(1, 3, 1, 1), tensor(1, 3, 4, 4)),
        everywhere("size.equal", "b_tensor.sizes[2]", "b_tensor.sizes[3]"),
        [
            "b_tensor.sizes[2] is 1, expected sizes[2] = 4",
            "by strides of 0, never by its sizes: sizes [1, 3, 4, 4] and strides [0, 1, 0, 0]",
        ],
        add(tensor(1, 3, 4, 4), tensor(1, 3, 4, 4, strides=[0, 1, 0, 0]), tensor(1, 3, 4, 4)),
    ),
]


def problems_of(described: Wrong, level: str) -> list[dml.Problem]:
    return described.check(level) if isinstance(described, Graph) else dml.check(described, level)


def through_json(described: Wrong) -> Wrong:
    data = json.loads(json.dumps(described.to_dict()))
    return Graph.from_dict(data) if isinstance(described, Graph) else dml.OperatorDesc.from_dict(data)


def faults(complaint: Complaint) -> list[str]:
    """What the messages for a row's author lack."""
    problems = problems_of(complaint.wrong, complaint.level)
    text = lay_out(complaint.wrong.c_name, problems)
    found = []
    if [(problem.code, problem.path) for problem in problems] != complaint.found:
        found.append("other problems")
    if (missing := in_order(complaint.told, text)) is not None:
        found.append(f"not told: {missing}")
    if problems_of(through_json(complaint.wrong), complaint.level) != problems:
        found.append("told otherwise of JSON")
    level = "6_4" if complaint.mended is None else complaint.level
    found += [f"mended: {problem}" for problem in problems_of(complaint.mended or complaint.wrong, level)]
    return [f"{complaint.url}: {complaint.did}: {fault}\n{text}" for fault in found]


def test_every_author_learns_what_to_change() -> None:
    found = [fault for complaint in COMPLAINTS for fault in faults(complaint)]
    assert not found, f"{len(found)} faults\n" + "\n\n".join(found)


def test_sizes_that_directml_leaves_to_the_caller_are_taken() -> None:
    # Both threads ask for what the structs allow: pooling rounded up (205), one of the sizes that a stride leaves open (149).
    assert not [problem for size in (13, 14) for problem in dml.check(pool(size))]
    assert not [problem for size in (15, 16) for problem in dml.check(transposed(size, output_padding=0))]


def test_pieces_are_looked_for_in_order() -> None:
    assert in_order(["b", "c"], "a b c") is None
    assert in_order(["c", "b"], "a b c") == "b"


def test_an_error_is_more_than_its_number() -> None:
    complaint = next(item for item in COMPLAINTS if item.url.endswith("/21583"))
    assert isinstance(complaint.wrong, dml.OperatorDesc)
    with pytest.raises(dml.CompileError, match="DML_GEMM_OPERATOR_DESC: 3 problems") as caught:
        dml.compile(complaint.wrong, "numpy")
    assert caught.value.hresult == dml.HResult.E_INVALIDARG
    assert list(caught.value.problems) == problems_of(complaint.wrong, "6_4")
