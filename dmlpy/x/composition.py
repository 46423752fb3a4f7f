"""Builds and compiles the graph of expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from dmlpy.compiler import compile as compile_graph
from dmlpy.description.coercion import brief, entries
from dmlpy.description.enums import ExecutionFlags
from dmlpy.graphs.builder import GraphBuilder, Value
from dmlpy.messages.naming import Count
from dmlpy.messages.problems import DescError, Problem
from dmlpy.x.arguments import refuse_others
from dmlpy.x.producers import ConstantProducer, InputProducer, OperatorProducer, Producer, TensorOperand, TensorRef
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.devices.graphs import CompiledGraph
    from dmlpy.graphs import Graph

    Outputs: TypeAlias = TensorOperand | Sequence[TensorOperand | None] | Mapping[str, TensorOperand]


@refuse_others
def graph(outputs: Outputs, name: str | None = None, *, inputs: Sequence[TensorOperand] | None = None) -> Graph:
    """The graph that gives expressions: nodes that no output needs are left out, and optional outputs that nothing reads are null.

    An output that an operator's struct requires and nothing reads becomes an output of the graph behind the others, since DirectML requires
    an edge from it.

    Args:
        outputs: an expression, whose name is `output`; expressions by name; or a sequence: the fields of a named tuple are the names, of
            another sequence `output_0`, `output_1`. None in a sequence is passed over.
        name: the graph's name, for messages.
        inputs: the graph's inputs in order, also those that nothing reads. Default: those that are read, in the order of their making.

    Returns:
        The graph; its messages name the lines that made its nodes.

    Raises:
        DescError: outputs that are not expressions, two inputs of one name, or an input that `inputs` lacks.
    """
    named = _outputs_by_name(outputs)
    builder = GraphBuilder(name)
    needed = _needed_producers(ref.producer for ref in named.values())
    read = {(ref.producer, ref.index) for producer in needed if isinstance(producer, OperatorProducer) for ref in producer.inputs.values()}
    read |= {(ref.producer, ref.index) for ref in named.values()}
    values: dict[tuple[Producer, int], Value] = {}
    for way_in in _inputs(needed, inputs):
        values[way_in, 0] = builder.input(way_in.name, way_in.tensor)
    unread: dict[str, Value] = {}
    names: dict[str, int] = {}
    for producer in needed:
        builder.origin = producer.origin
        unique_name = _unique(producer.name, names) if not isinstance(producer, InputProducer) else ""
        if isinstance(producer, ConstantProducer):
            values[producer, 0] = builder.constant(unique_name, memoryview(producer.data), producer.tensor)
        elif isinstance(producer, OperatorProducer):
            for field, value in _add_operator(builder, producer, unique_name, read, values).items():
                if (producer, value.index) not in read:
                    unread[f"{unique_name}.{field}"] = value
    builder.origin = ""
    for output, ref in named.items():
        builder.output(output, values[ref.producer, ref.index].viewed(ref.tensor))
    for output, value in unread.items():
        builder.output(output, value)
    return builder.build()


@refuse_others
def compile(
    outputs: Outputs,
    device: Device | str | None = None,
    feature_level: FeatureLevel | str | int | None = None,
    flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
    *,
    name: str | None = None,
) -> CompiledGraph:
    """Compiles the graph that gives expressions.

    Args:
        outputs: as for `graph`.
        device: as for `dmlpy.compile`.
        feature_level: as for `dmlpy.compile`.
        flags: as for `dmlpy.compile`.
        name: the graph's name, for messages.

    Raises:
        DescError: as `graph`.
        CompileError: as `dmlpy.compile`; its problems name the lines that made the nodes.
        DeviceError: there is no such device.
    """
    return compile_graph(graph(outputs, name), device, feature_level, flags)


def _outputs_by_name(outputs: Any) -> dict[str, TensorRef]:
    """The outputs by name."""
    given: dict[str, Any] = {"outputs": outputs}
    with suppress(Exception):  # a caller's own mapping or sequence, whose methods raise anything, is not an expression
        if isinstance(outputs, TensorOperand):
            given = {"output": outputs}
        elif isinstance(outputs, Mapping):
            given = dict(outputs)
        elif isinstance(outputs, list | tuple):
            names = getattr(outputs, "_fields", None) or [f"output_{index}" for index in range(len(outputs))]
            given = {name: value for name, value in zip(names, outputs, strict=True) if value is not None}
    wrong = [
        Problem("field.form", name, brief(value), "an expression") for name, value in given.items() if not isinstance(value, TensorOperand)
    ]
    if wrong or not given:
        wrong = wrong or [Problem("graph.empty", "outputs", "empty", "at least one expression")]
        raise DescError(f"graph {caller_location()}", wrong)
    return {name: value._ref for name, value in given.items()}


def _needed_producers(outputs: Iterable[Producer]) -> list[Producer]:
    """The producers that the outputs need, in an order in which they can run."""
    needed: set[Producer] = set()
    waiting = list(outputs)
    while waiting:
        if (producer := waiting.pop()) not in needed:
            needed.add(producer)
            waiting += [ref.producer for ref in producer.inputs.values()] if isinstance(producer, OperatorProducer) else []
    return sorted(needed, key=lambda producer: producer.serial)


def _inputs(needed: Iterable[Producer], given: Sequence[TensorOperand] | None) -> list[InputProducer]:
    """The graph's inputs in order."""
    read = [producer for producer in needed if isinstance(producer, InputProducer)]
    if given is not None:
        try:
            given = entries(given)
        except Exception:  # no sequence, or whatever the methods of the caller's type raise
            raise DescError(
                f"graph {caller_location()}", [Problem("field.form", "inputs", brief(given), "a sequence of expressions")]
            ) from None
        if wrong := [Problem("field.form", "inputs", brief(item), "expressions") for item in given if not isinstance(item, TensorOperand)]:
            raise DescError(f"graph {caller_location()}", wrong)
        declared = [item._ref.producer for item in given]
        if missing := [producer for producer in read if producer not in declared]:
            expected = "each input that the outputs need"
            raise DescError(
                f"graph {caller_location()}", [Problem("expression.inputs", "inputs", Count(f"no {missing[0].name!r}"), expected)]
            )
        read = [producer for producer in declared if isinstance(producer, InputProducer)]
    known: dict[str, InputProducer] = {}
    for producer in read:
        if producer.name in known:
            why = tuple(f"{producer.name!r} is made {item.origin}" for item in (known[producer.name], producer))
            raise DescError(
                f"graph {caller_location()}", [Problem("graph.name", "inputs", f"two of the name {producer.name!r}", "unique names", why)]
            )
        known[producer.name] = producer
    return list(known.values())


def _unique(name: str, known: dict[str, int]) -> str:
    """The name, with a number behind it if it is not the first of its kind."""
    known[name] = known.get(name, -1) + 1
    return f"{name}_{known[name]}" if known[name] else name


def _add_operator(
    builder: GraphBuilder,
    producer: OperatorProducer,
    name: str,
    read: set[tuple[Producer, int]],
    values: dict[tuple[Producer, int], Value],
) -> dict[str, Value]:
    """Adds an operator without the optional outputs that nothing reads; its outputs by field, also put among the values."""
    slots = producer.desc.output_slots()
    unread = [
        slot.place
        for index, slot in enumerate(slots)
        if slot.tensor is not None and slot.field.optional and slot.index is None and (producer, index) not in read
    ]
    members: dict[str, Any] = dict.fromkeys(unread)
    for place, ref in producer.inputs.items():
        value = values[ref.producer, ref.index].viewed(ref.tensor)
        field, bracket, _ = place.partition("[")
        if bracket:
            members.setdefault(field, []).append(value)
        else:
            members[field] = value
    given = builder.add(producer.desc, name, **members)
    inputs = {slots[value.index].place: value for value in (given if isinstance(given, tuple) else (given,))}
    values.update({(producer, value.index): value for value in inputs.values()})
    return inputs
