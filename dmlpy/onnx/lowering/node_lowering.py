"""`lower_node`: lowers one node to DirectML's operators, in the graph of its stage."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeAlias

from dmlpy import x
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.messages.problems import DescError, Problem
from dmlpy.onnx.loading.elements import FLOATS, data_type_of, element_of
from dmlpy.onnx.loading.values import Sizes, Value
from dmlpy.onnx.lowering.rules import LoweredOutputs, LoweringRule, find_rule, may_be_empty
from dmlpy.onnx.nodes.levels import cap_of, with_remedy
from dmlpy.onnx.nodes.microsoft_sizes import GROWING, PRODUCTS
from dmlpy.onnx.nodes.node import Node, NotLowered, inexpressible_problems
from dmlpy.onnx.nodes.unexpected_errors import refuse_unexpected
from dmlpy.validation.checking import check
from dmlpy.x.producers import OperatorProducer, Producer
from dmlpy.x.source_locations import locate_at, name_scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.onnx.lowering.stages import GraphStage
    from dmlpy.x.expressions import Expression

_CONSTANTS = FeatureLevel.FL_6_2
"""The lowest level whose graphs have constants."""
_OWN_SIZES = frozenset({"AveragePool", "LpPool", "MaxPool", "Resize", "Upsample"})
"""Operators whose sizes in ONNX Runtime differ from ONNX's inference: their rules determine the sizes."""
_CASTS = frozenset({"Cast", "CastLike"})
_PRECISIONS = frozenset({"stash_type", "softmax_precision"})
"""Attributes that name the type in which a node computes."""
_RANK = 4
"""The dimensions that DirectML asks for at least: rules add them."""
Results: TypeAlias = "list[tuple[Value | None, Expression | None]]"


def lower_node(node: Node, stage: GraphStage) -> tuple[Results, list[OperatorDesc]]:
    """The outputs of a node with their expressions, and the operators of these.

    Args:
        node: the node, which knows the highest feature level that it may use.
        stage: the stage in which it reads its inputs.

    Raises:
        NotLowered: no DirectML operator expresses it.
    """
    function = find_rule(node.op_type, node.opset, node.domain)
    if function is None:
        raise NotLowered([_no_operator(node)])
    node = node.without_empty(may_be_empty(node.op_type, node.domain))
    if problems := list(_inexpressible_outputs(node)):
        raise NotLowered(problems)
    first = Producer(name="", origin="").serial
    with ExitStack() as contexts:
        contexts.enter_context(locate_at(f"from ONNX node {node.name!r}"))
        contexts.enter_context(name_scope(node.name))
        contexts.enter_context(refuse_unexpected(node.proto, node.inputs))
        try:
            results = _apply_rule(node, function, stage)
        except DescError as error:
            raise NotLowered(error.problems) from None
    operators = list(_collect_operators((expression for _, expression in results if expression is not None), first))
    # An undocumented operator counts as missing: the node's results are certain without it.
    named_problems = ((problem, type(desc).short_name()) for desc in operators for problem in check(desc, cap_of(node.level)))
    wrong = [with_remedy(problem).under(name) for problem, name in named_problems] or list(_narrowing_casts(node, operators))
    if wrong:
        raise NotLowered(wrong)
    return results, operators


def _narrowing_casts(node: Node, operators: Iterable[OperatorDesc]) -> Iterator[Problem]:
    """The operators that take digits off FLOAT64 tensors, if the node is not said to: the host computes it in FLOAT64."""
    if node.op_type in _CASTS or (node.schema is not None and _PRECISIONS & node.schema.attributes.keys()):
        return
    for desc in operators:
        if type(desc).short_name() == "CAST" and desc.tensors()["input_tensor"].data_type is DataType.FLOAT64:
            output = desc.tensors()["output_tensor"].data_type
            if output in FLOATS:
                why = ("the digits of FLOAT64 tensors would be lost",)
                yield Problem("type.support", "output_tensor.data_type", str(output), "FLOAT64", why).under("CAST")


def _apply_rule(node: Node, function: LoweringRule, stage: GraphStage) -> Results:
    """The outputs of a node that reads known values as inputs owned by DirectML, or as constants if its operators do not support these."""
    key = node.name, function, tuple(value is not None and value.array is not None for value in node.inputs)
    if key not in stage.model.without_owned_inputs:
        try:
            return [*_match_outputs(node, function(node.with_reader(stage.read, wide=stage.wide)))]
        except DescError as error:
            if all(problem.code != "flag.owned" for problem in error.problems):
                raise
        stage.model.without_owned_inputs.add(key)
    reader = stage.read_constant if node.level >= _CONSTANTS else stage.read_plain
    return [*_match_outputs(node, function(node.with_reader(reader, wide=stage.wide)))]


def _no_operator(node: Node) -> Problem:
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return Problem("onnx.kernel", "", f"{name} of opset {node.opset}", "an operator with an equivalent in DirectML")


def _inexpressible_outputs(node: Node) -> Iterator[Problem]:
    """Why DirectML's tensors cannot hold the outputs of a node; its inputs are checked when they are read."""
    for index, value in enumerate(node.outputs):
        if value is not None and value.element is not None and value.array is None:
            yield from inexpressible_problems(f"output {index}", value)


def _match_outputs(node: Node, lowered: LoweredOutputs) -> Iterator[tuple[Value | None, Expression | None]]:
    """The outputs with ONNX's types and sizes, and their expressions."""
    given = lowered if isinstance(lowered, tuple) else (lowered,)
    for index, name in enumerate(node.proto.output):
        expected = node.outputs[index] if index < len(node.outputs) else None
        expression = given[index] if index < len(given) else None
        if not name or expected is None:
            yield None, None
            continue
        if expected.array is not None:
            yield expected, None
            continue
        if expression is None:
            raise node.refusal("onnx.output", f"output {index}", repr(name), "an output that nobody reads: no DirectML operator gives it")
        if expected.sizes is None and _may_have_added_dimensions(node, index, len(expression.sizes)):
            raise node.refusal("onnx.sizes", f"output {index}", "of unknown dimensions", "sizes that follow from those of the inputs")
        element = expected.element or element_of(expression.data_type)
        wanted = data_type_of(element)
        assert wanted is not None
        if expression.data_type is not wanted:
            expression = x.cast(expression, output_data_type=wanted)
        sizes: Sizes = expression.sizes
        if expected.sizes is not None and expected.is_static and node.op_type not in _OWN_SIZES:
            sizes = expected.sizes
        elif expected.sizes is not None and (added := len(sizes) - len(expected.sizes)) > 0 and sizes[:added] == (1,) * added:
            sizes = sizes[added:]  # ONNX's inference finds the number of dimensions alone, as of OneHot with a depth of FLOAT64
        elif expected.sizes is None and node.domain and sizes == (1,) and _is_scalar(node):
            sizes = ()
        value = Value(expected.name, element, sizes)
        yield value, expression.reshape(*value.tensor_sizes)


def _may_have_added_dimensions(node: Node, index: int, rank: int) -> bool:
    """Whether a result of unknown sizes has dimensions that only DirectML asks for: later axes would be others.

    ONNX's inference, which takes them away, fails where inputs contradict each other. Rules of other domains take them away themselves.
    """
    if node.domain:
        return index == 0 and rank > max(1, _highest_rank(node)) and node.op_type not in GROWING
    return rank == _RANK > _highest_rank(node)


def _is_scalar(node: Node) -> bool:
    """Whether the one element that a node of another domain gives is a scalar: ONNX infers no sizes for it."""
    vectors = node.op_type in PRODUCTS and all(node.rank(index) == 1 for index in (0, 1))
    over_all = node.op_type == "QLinearReduceMean" and not node.attribute("keepdims", 1)
    return vectors or over_all or _highest_rank(node) == 0


def _highest_rank(node: Node) -> int:
    return max((len(value.sizes or ()) for value in node.inputs if value is not None), default=0)


def _collect_operators(expressions: Iterable[Expression], first: int) -> Iterator[OperatorDesc]:
    """The operators of expressions created since a serial number, in order of creation."""
    producers: set[Producer] = set()
    waiting: list[Producer] = [expression._ref.producer for expression in expressions]
    while waiting:
        source = waiting.pop()
        if source.serial > first and source not in producers and isinstance(source, OperatorProducer):
            producers.add(source)
            waiting += [ref.producer for ref in source.inputs.values()]
    for source in sorted(producers, key=lambda source: source.serial):
        assert isinstance(source, OperatorProducer)
        yield source.desc
