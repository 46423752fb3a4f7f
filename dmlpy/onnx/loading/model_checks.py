"""`problems_of`: problems of a model as a whole, before any single node is checked."""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import TYPE_CHECKING, TypeAlias

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, defs

from dmlpy.description.coercion import brief
from dmlpy.messages.naming import Count, did_you_mean, listed, plural
from dmlpy.messages.problems import MAX_PROBLEMS, Problem
from dmlpy.onnx.loading import tensors
from dmlpy.onnx.loading.elements import ELEMENTS, element_name, sizes_problem
from dmlpy.onnx.loading.limits import MAX_NAME, OPERANDS, Limits, ModelSize, limit_problem, most_bytes, most_nodes
from dmlpy.onnx.loading.schemas import OWN, attributes_of, domain_of, first_opsets, inputs_of, operators_of, schema_of
from dmlpy.onnx.loading.values import can_be_equal, listed_sizes, value_from_proto

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from onnx import FunctionProto, NodeProto, TypeProto, ValueInfoProto

    from dmlpy.onnx.loading.values import Array

Names: TypeAlias = "ChainMap[str, None]"
"""Names as keys: those of a body are chained before the enclosing ones, which are not copied."""

FunctionKey: TypeAlias = tuple[str, str, str]
"""The key by which a node calls a function: its domain, name and overload."""

MAX_DEPTH = 16
"""The deepest nesting of subgraphs."""
_OF_ONNX_RUNTIME = {
    "SimplifiedLayerNormalization": 1 << 30,
    **dict.fromkeys(("Affine", "Crop", "DynamicSlice", "ImageScaler", "ParametricSoftplus", "Scale", "ScaledTanh"), 9),
    "MeanVarianceNormalization": 8,
}
"""Operators of ONNX's domain that it does not define there, with the last opset in which ONNX Runtime has them.

Its optimizer writes the first one; the others were ONNX's before its first release.
"""
_CONTENT = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
"""The field that holds an attribute of each type."""
_SINGLE = ("f", "i", "s", "t", "g", "sparse_tensor", "tp")


def problems_of(
    model: ModelProto, folder: Path | None, limits: Limits, nodes: int, weights: Mapping[int, Array] | None = None
) -> list[Problem]:
    """All problems of a model, up to a limit.

    Args:
        model: the model.
        folder: the folder of external data; None if there can be none.
        limits: what the model may take.
        nodes: the nodes in its file, each once.
        weights: the bytes of initializers that were read apart, by the identity of the initializer.
    """
    problems: list[Problem] = []
    for problem in _problems(model, folder, limits, nodes, weights or {}):
        problems.append(problem)
        if len(problems) >= MAX_PROBLEMS:
            break
    return problems


def _problems(model: ModelProto, folder: Path | None, limits: Limits, nodes: int, weights: Mapping[int, Array]) -> Iterator[Problem]:
    if not model.HasField("graph"):
        yield Problem("onnx.protobuf", "graph", "missing", "a model's graph")
        return
    opsets: dict[str, int] = {}
    wrong = False
    for item in model.opset_import:
        domain = domain_of(item.domain)
        if not _is_name(item.domain, empty=True) or opsets.get(domain, item.version) != item.version:
            yield Problem("onnx.opset", "opset_import", brief(item.domain), "each domain in one version")
        newest = defs.onnx_opset_version() if domain == "" else 1 << 30
        if not 1 <= item.version <= newest:
            remedy = "install a newer version of the package onnx" if item.version > newest else None
            yield Problem("onnx.opset", f"opset_import[{brief(domain)}]", str(item.version), f"1 to {newest}", (), remedy)
            wrong = True
        opsets[domain] = item.version
    if "" not in opsets and not opsets:
        yield Problem("onnx.opset", "opset_import", "empty", "the version of each domain whose operators the model has")
        return
    if wrong:
        return  # the meaning of operators depends on it
    functions = {(domain_of(function.domain), function.name, function.overload): function for function in model.functions}
    most = limits.nodes if limits.nodes is not None else most_nodes(ModelSize(nodes))
    broken = list(_function_problems(functions, model, limits, most))
    yield from broken
    if not broken:
        yield from _Graphs(folder, opsets, functions, most, weights).problems(model.graph, ChainMap(), "", 0)


def _is_name(text: object, *, empty: bool = False) -> bool:
    """Whether a name is text: protobuf returns invalid UTF-8 as bytes."""
    return isinstance(text, str) and (empty or bool(text)) and len(text) <= MAX_NAME


def _call_problems(node: NodeProto, functions: Mapping[FunctionKey, FunctionProto], place: str) -> Iterator[Problem]:
    """A call of one of the model's functions with more inputs or outputs than it has."""
    called = functions.get((domain_of(node.domain), node.op_type, node.overload))
    if called is not None:
        for what, names, formals in (("inputs", node.input, called.input), ("outputs", node.output, called.output)):
            if len(names) > len(formals):
                yield Problem("onnx.count", f"{place}.{what}", str(len(names)), f"at most {len(formals)}, as the function has")


def _function_problems(functions: Mapping[FunctionKey, FunctionProto], model: ModelProto, limits: Limits, most: int) -> Iterator[Problem]:
    """Functions that are recursive, or expand to too many nodes or bytes."""
    if len(functions) != len(model.functions):
        yield Problem("onnx.function", "functions", "two of the same name and overload", "each function once")
        return
    sizes: dict[FunctionKey, tuple[int, int]] = {}
    open_: set[FunctionKey] = set()

    def size(key: FunctionKey, depth: int) -> tuple[int, int]:
        """The nodes and the bytes to which a function expands."""
        if key in open_ or depth > MAX_DEPTH:
            raise RecursionError
        if key not in sizes:
            open_.add(key)
            nodes, taken = 0, functions[key].ByteSize()
            for called in called_functions(functions[key].node, 0):
                below = size(called, depth + 1) if called in functions else (0, 0)
                nodes, taken = nodes + 1 + below[0], taken + below[1]
            sizes[key] = nodes, taken
            open_.discard(key)
        return sizes[key]

    for key, function in functions.items():
        if not _is_name(function.name) or not _is_name(function.domain, empty=True):
            yield Problem("onnx.function", "functions", brief(function.name), "a function's name")
            return
        for names, what in ((function.input, "inputs"), (function.output, "outputs")):
            if len(set(names)) != len(names) or not all(map(_is_name, names)):
                yield Problem("onnx.function", f"functions[{function.name!r}]", f"{what} {listed(names)}", "each name once")
        if both := [name for name in function.output if name in function.input]:
            found, expected = f"{both[0]!r}, an input and an output", "outputs that its nodes make: Identity makes one of an input"
            yield Problem("onnx.function", f"functions[{function.name!r}]", found, expected)
        for index, node in enumerate(function.node):
            yield from _call_problems(node, functions, f"functions[{function.name!r}].node {index}")
        try:
            size(key, 0)
        except RecursionError:
            yield Problem(
                "onnx.function",
                f"functions[{function.name!r}]",
                "recursive, or nested too deeply",
                f"at most {MAX_DEPTH} nested calls",
            )
            return
    try:
        called = [sizes.get(key, (0, 0)) for key in called_functions(model.graph.node, 0)]
    except RecursionError:
        return  # too deep: reported with the graph
    total = len(called) + sum(nodes for nodes, _ in called)
    if total > most:
        yield limit_problem("nodes", "graph", Count(f"{total} nodes, including those of functions"), most, "nodes")
    total_bytes, allowed = (
        sum(taken for _, taken in called),
        most_bytes(limits, ModelSize(0, sum(item.ByteSize() for item in model.functions))),
    )
    if total_bytes > allowed:
        yield limit_problem("bytes", "functions", f"{total_bytes} bytes in all places where they are called", allowed, "bytes of functions")


def called_functions(nodes: Iterable[NodeProto], depth: int) -> Iterator[FunctionKey]:
    """The operators of nodes, including those of their subgraphs."""
    if depth > MAX_DEPTH:
        raise RecursionError
    for node in nodes:
        yield domain_of(node.domain), node.op_type, node.overload
        for attribute in node.attribute:
            for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from called_functions(body.node, depth + 1)


class _Graphs:
    """The rules of graphs.

    Args:
        folder: the folder of external data.
        opsets: the versions of the domains.
        functions: the model's functions.
        most: the most nodes. Values also count if there are more than `OPERANDS` per node.
        weights: the bytes of initializers that were read apart, by the identity of the initializer.
    """

    def __init__(
        self,
        folder: Path | None,
        opsets: Mapping[str, int],
        functions: Mapping[FunctionKey, FunctionProto],
        most: int,
        weights: Mapping[int, Array],
    ) -> None:
        self.folder = folder
        self.opsets = opsets
        self.functions = functions
        self.most = most
        self.weights = weights
        self.nodes = 0

    def problems(self, graph: GraphProto, around: Names, place: str, depth: int) -> Iterator[Problem]:
        """Problems of a graph and the subgraphs of its nodes.

        Args:
            graph: the graph.
            around: the enclosing names that a body may read, as keys.
            place: the prefix of the problems' places.
            depth: the number of enclosing subgraphs.
        """
        if depth > MAX_DEPTH:
            yield Problem("onnx.size", place.rstrip("/"), f"more than {MAX_DEPTH} bodies within each other", f"at most {MAX_DEPTH}")
            return
        values = len(graph.input) + len(graph.output) + len(graph.initializer) + len(graph.sparse_initializer)
        values += sum(len(node.input) + len(node.output) for node in graph.node)
        self.nodes += len(graph.node) + max(values // OPERANDS - len(graph.node), 0)
        if self.nodes > self.most:
            found = Count(f"{plural(len(graph.node), 'node')} and {values} values") if depth == 0 else f"node {self.nodes}"
            yield limit_problem(
                "nodes", place.rstrip("/") or "graph", found, self.most, f"nodes, of which each may read and make {OPERANDS} values"
            )
            return
        if too_long := _long_names(graph):
            yield Problem(
                "onnx.name", f"{place}names", f"{brief(too_long)}, of {len(too_long)} characters", f"at most {MAX_NAME} characters"
            )
            return
        known = around.new_child()
        inputs = [item.name for item in graph.input]
        constants = [tensor.name for tensor in graph.initializer] + [tensor.values.name for tensor in graph.sparse_initializer]
        for what, names in (("input", inputs), ("initializer", constants)):
            for name, count in Counter(names).items():
                if not _is_name(name) or count > 1:
                    yield Problem("onnx.name", f"{place}{what}s", brief(name), "a name that no other one has")
        yield from self._value_problems(graph, place)
        known.update((name, None) for name in (*inputs, *constants) if isinstance(name, str))
        later = {name for node in graph.node for name in node.output}
        defined = {*inputs, *constants}
        for index, node in enumerate(graph.node):
            label = f"{place}{node.name or f'{node.op_type}_{index}'}" if isinstance(node.name, str) else f"{place}node {index}"
            yield from self._node_problems(node, label, known, later, depth)
            for name in node.output:
                if not _is_name(name, empty=True):
                    yield Problem("onnx.name", f"{label}.output", brief(name), "a name")
                elif name and name in defined:
                    yield Problem("onnx.name", f"{label}.output", repr(name), "a name that nothing else in the graph has")
                elif name:
                    defined.add(name)
                    known[name] = None
        for item in graph.output:
            if isinstance(item.name, str) and item.name not in known:
                yield Problem("onnx.name", f"{place}outputs", repr(item.name), "a value that the graph makes")

    def _value_problems(self, graph: GraphProto, place: str) -> Iterator[Problem]:
        """Problems of the declared values and the initializers of a graph."""
        for item in (*graph.input, *graph.output, *graph.value_info):
            if not _is_name(item.name):
                yield Problem("onnx.name", f"{place}values", brief(item.name), "a name")
            elif (problem := _type_problem(item)) is not None:
                yield problem.under(f"{place}{item.name}")
        for tensor in graph.initializer:
            if (problem := tensors.problem_of(tensor, self.folder, self.weights.get(id(tensor)))) is not None:
                yield problem.under(f"{place}{tensor.name}")
        for sparse in graph.sparse_initializer:
            if (problem := tensors.sparse_problem_of(sparse, self.folder)) is not None:
                yield problem.under(f"{place}{sparse.values.name}")
        yield from _constant_problems(graph, place)

    def _node_problems(self, node: NodeProto, place: str, known: Names, later: set[str], depth: int) -> Iterator[Problem]:
        if not _is_name(node.op_type) or not _is_name(node.domain, empty=True) or not _is_name(node.name, empty=True):
            yield Problem("onnx.name", place, brief(node.op_type), "an operator's name")
            return
        for name in node.input:
            if not _is_name(name, empty=True):
                yield Problem("onnx.name", f"{place}.input", brief(name), "a name")
            elif name and name not in known:
                expected = "a value that is made before" if name in later else "an input, an initializer, or what a node makes"
                reasons = ("nodes are sorted if they can be: these form a circle",) if name in later else ()
                yield Problem("onnx.name", f"{place}.input", repr(name), expected, reasons)
        domain = domain_of(node.domain)
        function = (domain, node.op_type, node.overload) in self.functions
        yield from _call_problems(node, self.functions, place)
        if domain == OWN and not function:
            expected = f"an operator of another domain: dmlpy puts those of {OWN} into the place of a model's nodes, and reads none"
            yield Problem("onnx.operator", place, brief(f"{OWN}.{node.op_type}"), expected)
        if domain == "" and "" not in self.opsets:
            yield Problem("onnx.opset", place, "an operator of ONNX", "a version of ONNX's operators in opset_import")
        opset = self.opsets.get(domain, 1)
        schema = None if function else schema_of(node.op_type, opset, domain)
        is_unknown = schema is None and not function and opset > _OF_ONNX_RUNTIME.get(node.op_type, 0)
        if domain == "" and is_unknown and "" in self.opsets:
            since = first_opsets().get(node.op_type, 0)
            remedy = f"it exists from opset {since} on" if since > opset else did_you_mean(node.op_type, operators_of(opset))
            yield Problem("onnx.operator", place, brief(node.op_type), f"an operator of opset {opset}", (), remedy)
        if schema is not None:
            yield from _form_problems(node, schema, place)
            yield from _body_problems(node, opset, place)
        for name, count in Counter(item.name for item in node.attribute).items():
            if not _is_name(name) or count > 1:
                yield Problem("onnx.attribute", place, f"attribute {brief(name)}", "a name that no other attribute has")
        for item in node.attribute:
            yield from self._attribute_problems(item, schema, f"{place}.{item.name}", known, depth)

    def _attribute_problems(
        self, item: AttributeProto, schema: defs.OpSchema | None, place: str, known: Names, depth: int
    ) -> Iterator[Problem]:
        field = _CONTENT.get(item.type)
        if item.ref_attr_name:
            yield Problem("onnx.attribute", place, "a reference to an attribute of a function", "a value: the node is in no function")
            return
        filled = [name for name in _CONTENT.values() if (item.HasField(name) if name in _SINGLE else len(getattr(item, name)))]
        if field is None or [name for name in filled if name != field] or (field in _SINGLE and field not in filled):
            found = f"of type {item.type} with {listed(filled)}"
            yield Problem("onnx.attribute", place, found, f"a value in {field}" if field else "one of ONNX's types of attributes")
            return
        declarations = {} if schema is None else attributes_of(schema)
        declared = declarations.get(item.name)
        if schema is not None and declared is None:
            allowed, remedy = sorted(declarations), did_you_mean(item.name, declarations)
            expected = f"one of {listed(allowed)}" if allowed else f"nothing: {schema.name} has no attributes"
            yield Problem("onnx.attribute", place, "given", expected, (), remedy)
        elif declared is not None and declared.kind != AttributeProto.AttributeType.Name(item.type):
            yield Problem("onnx.attribute", place, f"of type {AttributeProto.AttributeType.Name(item.type)}", f"of type {declared.kind}")
        for tensor in (*([item.t] if item.HasField("t") else []), *item.tensors):
            if (problem := tensors.problem_of(tensor, self.folder)) is not None:
                yield problem.under(place)
            elif tensor.data_location == TensorProto.EXTERNAL:
                yield Problem("onnx.external", place, "external data", "elements in the model: only initializers lie outside")
        for sparse in (*([item.sparse_tensor] if item.HasField("sparse_tensor") else []), *item.sparse_tensors):
            if (problem := tensors.sparse_problem_of(sparse, self.folder)) is not None:
                yield problem.under(place)
        for body in (*([item.g] if item.HasField("g") else []), *item.graphs):
            yield from self.problems(body, known, f"{place}/", depth + 1)


def _long_names(graph: GraphProto) -> str | None:
    """A name that is too long, which every nested place would repeat."""
    return next((name for name in _names(graph) if len(name) > MAX_NAME), None)


def _names(graph: GraphProto) -> Iterator[str]:
    yield from (item.name for item in (*graph.input, *graph.output, *graph.value_info, *graph.initializer))
    yield from (item.values.name for item in graph.sparse_initializer)
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output, *(item.name for item in node.attribute))


def _constant_problems(graph: GraphProto, place: str) -> Iterator[Problem]:
    """Initializers that do not fit the inputs of the same name."""
    inputs = {item.name: item for item in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in inputs or tensor.data_type not in ELEMENTS:
            continue
        declared = value_from_proto(tensor.name, inputs[tensor.name].type)
        if declared.element in ELEMENTS and declared.element != tensor.data_type:
            expected = f"{element_name(declared.element)}, the type of the input of its name"
            yield Problem("onnx.type", f"{place}{tensor.name}", element_name(tensor.data_type), expected)
        if declared.sizes is not None and not can_be_equal(declared.sizes, tuple(tensor.dims)):
            expected = f"{listed_sizes(declared.sizes)}, the sizes of the input of its name"
            yield Problem("onnx.sizes", f"{place}{tensor.name}", listed(tensor.dims), expected)


_KEYS = frozenset(
    {
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.STRING),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    }
)
"""The types that ONNX gives the keys of maps."""


def _type_problem(item: ValueInfoProto) -> Problem | None:
    return _type_proto_problem(item.type, 0)


def _type_proto_problem(proto: TypeProto, depth: int) -> Problem | None:
    if depth > MAX_DEPTH:
        return Problem("onnx.type", "type", "sequences within sequences", f"at most {MAX_DEPTH} levels")
    kind = proto.WhichOneof("value")
    if kind in ("sequence_type", "optional_type"):
        return _type_proto_problem(getattr(proto, kind).elem_type, depth + 1)
    if kind == "map_type":
        if proto.map_type.key_type not in _KEYS:
            return Problem("onnx.type", "type", f"a map with keys of type {proto.map_type.key_type}", "keys of a type of integers or texts")
        return _type_proto_problem(proto.map_type.value_type, depth + 1)
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return None
    tensor = getattr(proto, kind)
    if tensor.elem_type not in ELEMENTS:
        return Problem("onnx.type", "type", str(tensor.elem_type), "the number of one of ONNX's element types")
    for index, dim in enumerate(tensor.shape.dim):
        if dim.WhichOneof("value") == "dim_value" and not -1 <= dim.dim_value < 1 << 40:
            return Problem("onnx.sizes", f"sizes[{index}]", str(dim.dim_value), "a size: 0 or more, below 2**40; -1 where it is open")
        if dim.WhichOneof("value") == "dim_param" and not _is_name(dim.dim_param, empty=True):
            return Problem("onnx.sizes", f"sizes[{index}]", brief(dim.dim_param), "a symbol's name")
    # Dynamic sizes are not checked here: the array passed at run time exists.
    return sizes_problem("sizes", [max(dim.dim_value, 0) for dim in tensor.shape.dim], tensor.elem_type)


def _form_problems(node: NodeProto, schema: defs.OpSchema, place: str) -> Iterator[Problem]:
    """Wrong numbers of inputs and outputs, and missing attributes."""
    for what, names, least, most in (
        ("inputs", node.input, schema.min_input, schema.max_input),
        ("outputs", node.output, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            allowed = str(least) if least == most else f"{least} or more" if most > 1 << 20 else f"{least} to {most}"
            yield Problem("onnx.count", f"{place}.{what}", str(len(names)), allowed)
    for index, formal in enumerate(inputs_of(schema)):
        if formal.is_required and index < len(node.input) and not node.input[index]:
            yield Problem("onnx.missing", f"{place}.input[{index}]", "left out", f"{formal.name}, which the operator requires")
    given = {item.name for item in node.attribute}
    for name, declared in attributes_of(schema).items():
        if declared.required and name not in given:
            yield Problem("onnx.attribute", f"{place}.{name}", "missing", f"of type {declared.kind}: the operator requires it")


def _body_problems(node: NodeProto, opset: int, place: str) -> Iterator[Problem]:
    """Bodies whose numbers of inputs or outputs differ from their node's."""
    if node.op_type not in ("If", "Loop", "Scan") or domain_of(node.domain):
        return
    given = {"If": 0, "Loop": max(len(node.input), 2), "Scan": len(node.input) - (1 if opset < 9 else 0)}[node.op_type]
    wanted = len(node.output) + (1 if node.op_type == "Loop" else 0)
    for item in node.attribute:
        if item.HasField("g"):
            if len(item.g.input) != given:
                yield Problem(
                    "onnx.count", f"{place}.{item.name}.inputs", str(len(item.g.input)), f"{given}, for the inputs of {node.op_type}"
                )
            if len(item.g.output) < wanted:
                yield Problem("onnx.count", f"{place}.{item.name}.outputs", str(len(item.g.output)), f"{wanted} or more")
