"""Types and sizes of a node's outputs, by ONNX's inference."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TensorProto, defs, helper, numpy_helper, shape_inference

from dmlpy.description.sized_arrays import SizedArray, example_array
from dmlpy.description.symbolic_sizes import are_symbolic
from dmlpy.onnx.domains.host_operators import describe_outputs
from dmlpy.onnx.loading.schemas import inputs_of
from dmlpy.onnx.loading.values import Value, value_from_proto
from dmlpy.onnx.lowering.subgraph_types import infer_from_subgraphs
from dmlpy.onnx.lowering.symbolic_inference import example_of, slice_sizes, with_symbolic_sizes
from dmlpy.onnx.nodes import inference_guard
from dmlpy.onnx.nodes.equations import result_sizes
from dmlpy.onnx.nodes.microsoft_outputs import empty_outputs
from dmlpy.onnx.nodes.node import NotLowered
from dmlpy.onnx.nodes.resizing import resized
from dmlpy.onnx.nodes.windows import cropped_sizes, transposed_sizes

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from onnx import OperatorSetIdProto, TypeProto

    from dmlpy.onnx.nodes.node import Node

_MOST = 1024
"""The most elements of a known input that inference reads: shapes, axes and the like are short."""
_READS_ANY_NUMBER = frozenset({"OneHot", "Range", "Resize", "Upsample"})
"""Operators of whose inputs inference reads floats and bytes, too."""
_WITH_AXIS = frozenset({"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "PRelu", "Pow", "Sub", "Xor"})
_BROADCAST_SINCE = 7
"""The opset from which on these operators broadcast as NumPy does; before, attributes say how."""
_BY_HEAD = 4
"""The dimensions of an input of Attention that states its heads."""
_PRESENT_VALUES = 2
"""The output of Attention that is the values of all steps; the keys come before, the scores after."""
_LIKE_FIRST = frozenset(
    {"Affine", "GroupNormalization", "ImageScaler", "MeanVarianceNormalization", "ParametricSoftplus", "Scale", "ScaledTanh"}
)
"""Operators of which ONNX infers nothing, and whose output has the sizes of the first input."""
_VIEWED_BY_AXES = frozenset({"Squeeze", "Unsqueeze"})
_UNPOOLED_SIZES = 2
"""The input of MaxUnpool that holds the sizes of its output."""


def infer_outputs(node: Node, opsets: Mapping[str, int], types: Mapping[str, TypeProto], labels: Sequence[str]) -> tuple[Value | None, ...]:
    """The outputs of a node; None for omitted ones.

    Args:
        node: the node, without its outputs. If it is invalid in ONNX, only `types` determines them.
        opsets: the versions of the domains.
        types: types that the model's file states or implies, for operators that ONNX does not know.
        labels: the outputs' names there.
    """
    from_bodies = infer_from_subgraphs(node)
    inferred: Mapping[str, TypeProto] = {} if node.schema is None or node.problems else _infer_once(node, node.schema, opsets)
    described = () if not node.domain or node.problems else describe_outputs(node) or empty_outputs(node)
    values: list[Value | None] = []
    from_file: set[int] = set()
    for index, (name, label) in enumerate(zip(node.proto.output, labels, strict=True)):
        proto = inferred.get(name, types.get(label))
        value = None if not name else (from_bodies[index] or Value(name, None, None)) if proto is None else value_from_proto(name, proto)
        if from_bodies[index] is None and name not in inferred:
            from_file.add(index)
        if value is not None and index == 0 and name in inferred and node.op_type == "ConvTranspose" and not node.domain:
            value = replace(value, sizes=_transposed_sizes(node) or value.sizes)
        if value is not None and index == 0 and node.op_type in ("DynamicSlice", "Slice") and not node.domain:
            value = replace(value, sizes=_sliced_sizes(node) or value.sizes)
        if value is not None and node.op_type == "Einsum" and not node.domain:
            value = replace(value, sizes=_product_sizes(node) or value.sizes)
        if value is not None and index == 0 and node.op_type in ("Resize", "Upsample") and not node.domain:
            value = replace(value, sizes=_resized_sizes(node) or value.sizes)
        if value is not None and value.sizes is None and (sizes := _infer_own_sizes(node, opsets, index)) is not None:
            value = replace(value, sizes=sizes)
            from_file.discard(index)
        if value is not None and index < len(described):
            element, found_sizes = described[index]
            value = replace(value, element=element or value.element, sizes=found_sizes or value.sizes)
        values.append(value)
    return with_symbolic_sizes(node, values, from_file) if are_symbolic() else tuple(values)


_INFERRED: dict[Hashable, tuple[TypeProto | None, ...]] = {}
"""The types of the outputs of nodes by `_key_of`: networks repeat their layers."""
_MOST_INFERRED = 2048
"""The most nodes of `_INFERRED`."""
_MOST_KEY_BYTES = 1024
"""The bytes of the attributes, and of each known input, up to which the types of a node's outputs are kept."""


def _infer_once(node: Node, schema: defs.OpSchema, opsets: Mapping[str, int]) -> Mapping[str, TypeProto]:
    """The types of a node's outputs by name, as far as ONNX infers them, of a node that is valid in ONNX."""
    key = _key_of(node, schema, opsets)
    kept = None if key is None else _INFERRED.get(key)
    if kept is not None:
        return {name: proto for name, proto in zip(node.proto.output, kept, strict=True) if proto is not None}
    inferred = _infer_by_versions(node, schema, opsets)
    if key is not None:
        if len(_INFERRED) >= _MOST_INFERRED:
            _INFERRED.clear()
        _INFERRED[key] = tuple(inferred.get(name) for name in node.proto.output)
    return inferred


def _key_of(node: Node, schema: defs.OpSchema, opsets: Mapping[str, int]) -> Hashable | None:
    """What the inference of a node reads, but for names; None if that is much, or has symbolic sizes."""
    if are_symbolic() or sum(item.ByteSize() for item in node.proto.attribute) > _MOST_KEY_BYTES:
        return None
    inputs: list[Hashable] = []
    for value in node.inputs:
        if value is None:
            inputs.append(None)
            continue
        if value.kind != "tensor":
            return None
        elements: Hashable = None
        if _is_read(node, value):
            assert value.array is not None
            if value.array.nbytes > _MOST_KEY_BYTES:
                return None
            elements = value.array.tobytes()
        inputs.append((value.element, value.sizes, value.array is None, elements))
    attributes = tuple(item.SerializeToString() for item in node.proto.attribute)
    names = [*node.proto.input]
    twice = tuple(map(names.index, names)) if len({*names}) < len(names) else ()
    versions = tuple(opsets.items())
    return schema.name, schema.domain, schema.since_version, versions, attributes, tuple(inputs), twice, tuple(map(bool, node.proto.output))


def _infer_by_versions(node: Node, schema: defs.OpSchema, opsets: Mapping[str, int]) -> Mapping[str, TypeProto]:
    inferred: dict[str, TypeProto] = {}
    for known in _versions(schema):
        for name, stated in _infer_by_schema(known, node, opsets).items():
            if name not in inferred or not _has_sizes(inferred[name]):
                inferred[name] = stated if known is schema else _with_own_type(node, name, stated)
        if all(_has_sizes(inferred.get(name)) for name in node.proto.output if name):
            break
    return inferred


def _infer_by_schema(schema: defs.OpSchema, node: Node, opsets: Mapping[str, int]) -> Mapping[str, TypeProto]:
    """The types of a node's outputs by a version of its operator, as far as ONNX infers them."""
    if not inference_guard.allows_inference(node, schema):
        return {}
    given = {value.name: value for value in node.inputs if value is not None}
    known = {name: _make_tensor(value) for name, value in given.items() if _is_read(node, value)}
    imports = [*_imports(tuple(opsets.items()))]
    try:
        types = {name: example_of(value).proto for name, value in given.items()}
        return shape_inference.infer_node_outputs(schema, _for_inference(node), types, known, opset_imports=imports)
    except Exception:  # ONNX raises many classes for invalid models; the lowering reports missing types
        return {}


def _versions(schema: defs.OpSchema) -> Iterator[defs.OpSchema]:
    """A version of an operator, then the later ones, which are rarely asked for: finding them takes longer than most inferences."""
    yield schema
    yield from _later_versions(schema.name, schema.since_version, schema.domain)


@lru_cache(64)
def _imports(opsets: tuple[tuple[str, int], ...]) -> tuple[OperatorSetIdProto, ...]:
    """The versions of the domains as ONNX's inference takes them."""
    return tuple(helper.make_opsetid(name, version) for name, version in opsets)


@cache
def _later_versions(op_type: str, version: int, domain: str) -> tuple[defs.OpSchema, ...]:
    """The later versions of an operator: early versions of old operators, and some defined in terms of others, infer no sizes."""
    schemas = [schema for schema in defs.get_all_schemas_with_history() if (schema.name, schema.domain) == (op_type, domain)]
    return tuple(sorted((schema for schema in schemas if schema.since_version > version), key=lambda schema: schema.since_version))


def _has_sizes(proto: TypeProto | None) -> bool:
    return proto is not None and (proto.WhichOneof("value") != "tensor_type" or proto.tensor_type.HasField("shape"))


def _infer_own_sizes(node: Node, opsets: Mapping[str, int], index: int) -> tuple[int, ...] | None:
    """The sizes of an output if no version of ONNX's inference determines them, though all inputs are known; None if unknown."""
    given = [value for value in node.inputs if value is not None]
    if node.domain or node.problems or not given or not all(value.is_static for value in given):
        return None
    if index and node.op_type == "Attention":
        return _attention_sizes(node, index)
    if index:
        return None
    sizes = [value.static_sizes for value in given]
    if node.op_type in _WITH_AXIS and opsets.get("", 1) < _BROADCAST_SINCE:
        return sizes[0]  # the second one is repeated along the first one's other axes
    if node.op_type in _LIKE_FIRST or (node.op_type == "Transpose" and not sizes[0]):
        return sizes[0]
    if node.op_type == "Crop":
        return _cropped_sizes(node)
    if node.op_type == "GatherND" and len(sizes) == 2 and sizes[1]:
        batch = int(node.attribute("batch_dims", 0))
        return (*sizes[1][:-1], *sizes[0][batch + sizes[1][-1] :])
    if node.op_type == "MaxUnpool" and len(given) > _UNPOOLED_SIZES and given[_UNPOOLED_SIZES].array is not None:
        return node.integers(_UNPOOLED_SIZES)
    return None


def _cropped_sizes(node: Node) -> tuple[int, ...] | None:
    """The sizes of a Crop's output; None if the node is wrong."""
    try:
        sizes = cropped_sizes(node)
    except (NotLowered, TypeError, ValueError):  # the rule names what is wrong
        return None
    return sizes if min(sizes) > 0 else None


def _attention_sizes(node: Node, index: int) -> tuple[int, ...] | None:
    """The sizes of Attention's present keys, present values or scores, which ONNX infers for four dimensions with past ones alone."""

    def by_head(index: int, heads: str) -> tuple[int, ...]:
        if node.rank(index) == _BY_HEAD:
            return node.sizes(index)
        (batch, length, width), count = node.sizes(index), int(node.attribute(heads, 0))
        return batch, count, length, width // count

    if any(value is None for value in node.inputs[:3]):
        return None
    try:
        queries, keys = by_head(0, "q_num_heads"), by_head(2 if index == _PRESENT_VALUES else 1, "kv_num_heads")
    except (ArithmeticError, ValueError):  # the rule names what is wrong
        return None
    length = keys[2] + (node.sizes(4)[2] if node.has(4) else 0)
    return (*queries[:3], length) if index > _PRESENT_VALUES else (*keys[:2], length, keys[3])


def _sliced_sizes(node: Node) -> tuple[int, ...] | None:
    """The sizes of a Slice's output; None if its data's sizes or its bounds are unknown.

    ONNX's inference leaves out axes that do not ascend before opset 10, and takes no end for the beginning where the step is negative.
    """
    data, *bounds = node.inputs
    if node.problems or data is None or not data.is_static or any(map(_is_open, bounds)):
        return None
    return slice_sizes(node, example_of(data).static_sizes)


def _product_sizes(node: Node) -> tuple[int, ...] | None:
    """The sizes of an Einsum's output; None if its inputs' are unknown. ONNX's inference takes a letter's first size, be it 1."""
    if node.problems or any(value is None or not value.is_static for value in node.inputs):
        return None
    with suppress(NotLowered):  # which its check reports
        return result_sizes(node.changed(inputs=tuple(value and example_of(value) for value in node.inputs)))
    return None


def _is_open(value: Value | None) -> bool:
    """Whether the elements of an input are not known, or follow from symbolic sizes."""
    return value is not None and (value.array is None or isinstance(value.array, SizedArray))


def _transposed_sizes(node: Node) -> tuple[int, ...] | None:
    """The sizes of a ConvTranspose's output; None if its inputs' sizes are unknown.

    ONNX's inference leaves out each dimension of an `output_shape` that is below that of the input, and counts `output_padding` twice with
    SAME_UPPER and SAME_LOWER.
    """
    if any(value is None or not value.is_static for value in node.inputs[:2]):
        return None
    given = node.changed(inputs=tuple(value and example_of(value) for value in node.inputs))
    return transposed_sizes(given) if given.rank(0) == given.rank(1) else None


def _resized_sizes(node: Node) -> tuple[int, ...] | None:
    """The sizes of what is resized without elements, which ONNX's inference rounds otherwise than ONNX Runtime; None for other data."""
    data, *others = node.inputs
    if node.problems or data is None or not data.is_static or 0 not in data.static_sizes or any(map(_is_open, others)):
        return None
    try:
        return tuple(resized(node)[0])
    except (NotLowered, ArithmeticError, ValueError):  # the rule names what is wrong
        return None


def _for_inference(node: Node) -> NodeProto:
    """The node with the default of an attribute for which ONNX's inference assumes another, and without axes that count from the end.

    Squeeze and Unsqueeze have such axes from opset 11 on; ONNX Runtime takes them before, ONNX's inference ignores them there.
    """
    changed: dict[str, Any] = {}
    if node.op_type == "STFT" and all(item.name != "onesided" for item in node.proto.attribute):
        changed["onesided"] = 1
    axes = node.attribute("axes") if node.op_type in _VIEWED_BY_AXES and not node.domain else None
    if axes and min(axes) < 0 and node.inputs[0] is not None and node.inputs[0].sizes is not None:
        rank = len(node.inputs[0].sizes) + (len(axes) if node.op_type == "Unsqueeze" else 0)
        changed["axes"] = [axis % rank for axis in axes]
    if not changed:
        return node.proto
    copy = NodeProto()
    copy.CopyFrom(node.proto)
    del copy.attribute[:]
    copy.attribute.extend(item for item in node.proto.attribute if item.name not in changed)
    copy.attribute.extend(helper.make_attribute(name, value) for name, value in changed.items())
    return copy


def _with_own_type(node: Node, name: str, stated: TypeProto) -> TypeProto:
    """The inference of a later version of an operator, with the element type of the node's own version: the mask of Dropout was no BOOL."""
    schema = node.schema
    assert schema is not None
    place = [*node.proto.output].index(name)
    variable = schema.outputs[place].type_str if place < len(schema.outputs) else ""
    source = next((index for index, formal in enumerate(inputs_of(schema)) if formal.type_str == variable), None)
    value = node.inputs[source] if source is not None and source < len(node.inputs) else None
    if value is None or value.element is None or stated.WhichOneof("value") != "tensor_type":
        return stated
    stated.tensor_type.elem_type = value.element
    return stated


def _is_read(node: Node, value: Value) -> bool:
    """Whether ONNX's inference may read the elements of an input: they are known, few, and no weights."""
    if value.array is None or (array := example_array(value.array)).size > _MOST:
        return False
    return node.op_type in _READS_ANY_NUMBER or (array.dtype.kind in "iu" and array.dtype.itemsize > 1)


def _make_tensor(value: Value) -> TensorProto:
    assert value.array is not None
    array = example_array(value.array)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), value.name)
