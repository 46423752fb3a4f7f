"""The guard in front of ONNX's C++ code, which reads some nodes without checks: inconsistent nodes are not passed to it.

Attributes and known inputs that name axes are compared with ranks, lists with the number that they must have, counts with 1, texts with
their grammar. Operators without a specific rule follow the names, which mean the same wherever ONNX uses them; a test fails if a
version of ONNX has a name of numbers that is not listed here. Texts that ONNX only compares with words pass.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx import AttributeProto

from dmlpy.description.sized_arrays import example_array
from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import MAX_DIMENSIONS, type_string
from dmlpy.onnx.loading.schemas import attributes_of, inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnx import defs

    from dmlpy.onnx.loading.schemas import FormalInput
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.nodes.node import Node

DOMAINS = frozenset({"", "ai.onnx.preview"})
"""The domains of operators that ONNX infers or defines."""
CONTROL_FLOW = frozenset({"FlexAttention", "If", "Loop", "Scan", "SequenceMap"})
"""Operators whose subgraphs, with unchecked nodes, ONNX would infer, too."""

AXES = frozenset({"axis", "axes", "batch_axis", "time_axis"})
"""Names of attributes and inputs that are axes of input 0, unless `_axes_rank` says otherwise."""
COUNTS = frozenset(
    {
        *("blocksize", "chunk_size", "group", "hidden_size", "kv_num_heads", "max_gram_length", "min_gram_length", "num_groups"),
        *(
            "num_heads",
            "num_outputs",
            "num_scan_inputs",
            "offset_group",
            "output_height",
            "output_width",
            "q_num_heads",
            "sample_size",
            "size",
        ),
    }
)
"""Names of attributes that are 1 or more."""
NATURAL = frozenset({"block_size", "batch_dims", "max_skip_count", "rotary_embedding_dim"})
"""Names of attributes that are 0 or more."""
FLAGS = frozenset(
    {
        *("align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "center_point_box", "count_include_pad", "detect_negative"),
        *("detect_positive", "exclude_outside", "input_forget", "interleaved", "inverse", "is_case_sensitive", "is_causal", "keepdims"),
        *("largest", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided", "output_sequence", "periodic", "saturate"),
        *("select_last_index", "sorted", "training_mode", "transA", "transB", "upper"),
    }
)
"""Names of attributes that are 0 or 1. ONNX Runtime, ONNX's inference and its reference each take other numbers in their own way."""
SPATIAL = {"dilations": 1, "kernel_shape": 1, "output_padding": 0, "pads": None, "strides": 1}
"""Names of lists with an entry for each dimension behind batch and channels, `pads` two; and the least that the entries may be."""
LISTS = frozenset(
    {"ends", "ngram_counts", "ngram_indexes", "output_shape", "paddings", "perm", "pooled_shape", "scales", "split", "starts"}
)
"""Names of other lists; `_lengths` says how long they are, the rules of single operators what they hold."""
_SPATIAL_OPERATORS = frozenset(
    {"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "LpPool", "MaxPool", "MaxUnpool", "QLinearConv"}
)
_EACH_AXIS_ONCE = frozenset({"CenterCropPad", "Resize", "Unsqueeze"})
"""Operators of which ONNX Runtime refuses an axis that is named twice. Squeeze and reductions take it once."""
SCALARS = frozenset(
    {
        *("axis", "depth", "delta", "dft_length", "frame_length", "frame_step", "limit", "lower_edge_hertz", "num_mel_bins"),
        *("position", "sample_rate", "start", "upper_edge_hertz"),
    }
)
"""Names of inputs of which ONNX reads one element."""
_SCALED = frozenset({"QuantizeLinear", "DequantizeLinear"})
"""Operators whose axis is that of several scales."""
ROWS = frozenset(
    {
        *("axes", "block_shape", "ends", "image_shape", "output_shape", "pads", "repeats", "roi", "scales", "shape", "sizes", "split"),
        *("starts", "steps"),
    }
)
"""Names of inputs that are lists."""

LISTED = ROWS - {"split"} | {"size"}
"""Names of inputs with entries for the axes of a tensor."""


class Violation(NamedTuple):
    """A reason not to pass a node to ONNX's C++ code.

    Attributes:
        problem: the problem.
        refused: whether the node is rejected; else only its outputs are not inferred.
    """

    problem: Problem
    refused: bool = True


def attribute_problems(node: Node) -> list[Problem]:
    """The rules of ONNX that attributes and known inputs of a node break."""
    return [finding.problem for finding in _violations(node) if finding.refused]


def allows_inference(node: Node, schema: defs.OpSchema) -> bool:
    """Whether a node may be passed to ONNX's C++ code, by a version of its operator."""
    return node.domain in DOMAINS and node.op_type not in CONTROL_FLOW and _fits(node, schema) and not any(True for _ in _violations(node))


def allows_definition(node: Node) -> bool:
    """Whether ONNX's C++ code may write the definition of a node by other operators, for which subgraphs are copied only."""
    return node.domain in DOMAINS and node.schema is not None and _fits(node, node.schema) and not any(True for _ in _violations(node))


def _fits(node: Node, schema: defs.OpSchema) -> bool:
    """Whether a node has the inputs, outputs and attributes that a version of its operator has."""
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        return False
    if not schema.min_output <= len(node.proto.output) <= schema.max_output:
        return False
    formals = inputs_of(schema)
    for index, value in enumerate(node.inputs):
        formal = formals[min(index, len(formals) - 1)]
        if (value is None and index < schema.min_input) or (value is not None and not _is_of(value, formal)):
            return False
    given = {item.name: item for item in node.proto.attribute}
    for name, declared in attributes_of(schema).items():
        if name not in given and declared.required:
            return False
        if name in given and AttributeProto.AttributeType.Name(given[name].type) != declared.kind:
            return False
    return True


def _is_of(value: Value, formal: FormalInput) -> bool:
    """Whether an input is of a type that its operator takes."""
    if value.kind != "tensor":
        prefix = {"sequence": "seq(", "optional": "optional("}.get(value.kind)
        return prefix is not None and any(allowed.startswith(prefix) for allowed in formal.types)
    return value.element is None or type_string(value.element) in formal.types


def _violations(node: Node) -> Iterator[Violation]:
    schema = node.schema
    assert schema is not None
    stated = {item.name for item in node.proto.attribute}
    for name in attributes_of(schema):
        value = node.attribute(name)
        if value is not None:
            for finding in _attribute_violations(node, name, value):
                yield Violation(finding.problem, finding.refused and name in stated)
    formals = inputs_of(schema)
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        name = formals[min(index, len(formals) - 1)].name
        if value.is_static and (name in LISTED or (node.op_type, name) == ("ConstantOfShape", "input")):
            yield from _list_length_violations(node, index, prod(value.static_sizes))
        if value.array is not None and value.array.dtype.kind in "iuf":
            yield from _input_violations(node, index, name, example_array(value.array))


def _list_length_violations(node: Node, index: int, count: int) -> Iterator[Violation]:
    """A list with entries for the axes of a tensor that has more of them than any: ONNX makes room for all."""
    most = 2 * MAX_DIMENSIONS
    if count > most:
        yield Violation(
            Problem("onnx.invalid", node.input_label(index), plural(count, "number"), f"at most {most}: a start and an end for each axis")
        )


def _attribute_violations(node: Node, name: str, value: Any) -> Iterator[Violation]:
    if name in AXES:
        yield from _axes_violations(node, name, value if isinstance(value, list) else [value], refused=True)
    elif name in COUNTS or name in NATURAL:
        least = 1 if name in COUNTS else 0
        if value < least:
            yield Violation(Problem("onnx.invalid", name, str(value), f"{least} or more"))
    elif name in FLAGS:
        if value not in (0, 1):
            yield Violation(Problem("onnx.invalid", name, str(value), "0 or 1"))
    elif isinstance(value, list) and (value or (name in SPATIAL and name in node.attributes)):
        yield from _list_violations(node, name, value)


def _list_violations(node: Node, name: str, values: Sequence[Any]) -> Iterator[Violation]:
    """A list that has an entry for each of something."""
    length = _expected_length(node, name)
    if length is not None and len(values) != length[0]:
        yield Violation(Problem("onnx.invalid", name, plural(len(values), "number"), f"{length[0]}: {length[1]}"))
    least = SPATIAL.get(name)
    if least is not None and min(values, default=least) < least:
        yield Violation(Problem("onnx.invalid", name, listed(values), f"numbers of {least} or more"))


def _expected_length(node: Node, name: str) -> tuple[int, str] | None:
    """How long a list is, and what its entries are; None if that is not known."""
    rank = _rank(node, 0)
    if name in SPATIAL and node.op_type in _SPATIAL_OPERATORS:
        window = node.attribute("kernel_shape")
        if rank is None and not window:
            return None
        spatial, why = (len(window), "as kernel_shape has") if rank is None else (max(rank - 2, 0), f"the {rank} dimensions but two")
        return (2 * spatial, "a start and an end for each axis") if name == "pads" else (spatial, why)
    if name in ("pads", "paddings") and node.op_type == "Pad":
        return None if rank is None else (2 * rank, "a start and an end for each axis")
    if name in ("scales", "perm"):
        return None if rank is None else (rank, "one for each axis")
    if name == "pooled_shape":
        return 2, "height and width"
    if name == "split":
        return len(node.proto.output), "one for each output"
    return None


def _axes_violations(node: Node, name: str, given: Sequence[int], *, refused: bool) -> Iterator[Violation]:
    rank = _axes_rank(node, given)
    if rank is None:
        return
    least, most = -rank, rank - (0 if node.op_type == "Flatten" else 1)
    for axis in given:
        if not least <= axis <= most:
            # Where a tensor has no dimensions, some operators of ONNX Runtime take its only element for one.
            yield Violation(Problem("onnx.invalid", name, str(axis), f"{least} to {most}"), refused=refused and rank > 0)
            return
    goes_once = node.op_type == "Squeeze" or node.op_type.startswith("Reduce")
    if not goes_once and len({axis % max(rank, 1) for axis in given}) != len(given):
        is_told = node.op_type in _EACH_AXIS_ONCE
        yield Violation(Problem("onnx.invalid", name, listed(given), "each axis once"), refused=refused and is_told)


def _axes_rank(node: Node, given: Sequence[int]) -> int | None:
    """The number of dimensions that axes are of; None if it is not known."""
    rank = _rank(node, 0)
    if rank is None or node.op_type == "ConcatFromSequence":
        return None
    if node.op_type in _SCALED:
        scale = node.inputs[1]
        is_single = scale is None or not scale.sizes or scale.sizes == (1,)
        return None if is_single else rank  # one scale for all elements has no axis: neither ONNX nor ONNX Runtime reads one
    return rank + {"OneHot": 1, "Unsqueeze": len(given)}.get(node.op_type, 0)


def _rank(node: Node, index: int) -> int | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None or value.sizes is None else len(value.sizes)


def _input_violations(node: Node, index: int, name: str, array: Array) -> Iterator[Violation]:
    """A known input of which ONNX reads elements."""
    label = node.input_label(index)
    if name in SCALARS and array.size != 1:
        yield Violation(Problem("onnx.invalid", label, listed(array.shape), "one element"), refused=False)
    elif name in ROWS and array.ndim > 1:
        yield Violation(Problem("onnx.invalid", label, listed(array.shape), "at most one dimension"), refused=name == "axes")
    elif name in AXES and array.dtype.kind in "iu":
        yield from _axes_violations(node, label, array.ravel().tolist(), refused=True)
    elif name in ("frame_step", "delta") and not array.all():
        yield Violation(Problem("onnx.invalid", label, "0", "a step"), refused=False)
    elif name == "repeats" and (rank := _rank(node, 0)) is not None and len(array) != rank:
        yield Violation(Problem("onnx.invalid", label, plural(len(array), "number"), f"{rank}, one for each axis"))
