"""`DeferredNodes`: nodes that are compiled when the sizes of their inputs are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dmlpy.description.symbolic_sizes import are_symbolic
from dmlpy.messages.problems import CompileError
from dmlpy.onnx.loading.elements import element_of_dtype
from dmlpy.onnx.loading.values import Value
from dmlpy.onnx.lowering import control_flow, host_evaluation
from dmlpy.onnx.lowering.model_lowering import Lowering
from dmlpy.onnx.lowering.program_templates import ProgramTemplates
from dmlpy.onnx.lowering.programs import build_program
from dmlpy.onnx.runtime.graph_runs import DeviceTensor
from dmlpy.system import forks
from dmlpy.system.garbage import collections_paused

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.lowering.cache import LRUCache
    from dmlpy.onnx.lowering.programs import Program
    from dmlpy.onnx.lowering.scopes import Scope, Values
    from dmlpy.onnx.lowering.stages import HostNode
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.onnx.runtime.graph_runs import GraphCalls


class Runnable(Protocol):
    """A program that is ready to run."""

    @property
    def held_bytes(self) -> int:
        """The approximate bytes that it holds."""

    def values(self, given: Mapping[str, Any], calls: GraphCalls | None = None) -> dict[str, Any]:
        """Computes its outputs from its inputs, by name; `calls` receives the graphs that ran."""


LowerNodes: TypeAlias = "Callable[[Lowering, Scope], None]"
"""Lowers nodes, and adds the values that they compute to the scope."""

MOST_KNOWN = 64
"""The most elements of a tensor to specialize nodes for: shapes, axes, counts and the like are short, and often the same."""

_BY_DATA = frozenset({"Compress"})
"""Operators whose results have other sizes in each run: recompiling would take longer than the host."""

_MOST_COMPILED = 4
"""The elements of a tensor that nodes are compiled for at the same sizes, such as a loop's counter: with others a node runs on the host."""
_ELEMENTS_BYTES = 1 << 12
"""The bytes of the elements that nodes were compiled for at some sizes."""


@dataclass
class DeferredLowering(Lowering):
    """Lowers nodes whose inputs are available, so all sizes are known. Loops are not unrolled; their bodies are compiled separately.

    Attributes:
        needed: the names of input tensors whose elements a node needs at compile time.
        changing: the names of input tensors whose elements keep changing: nodes that would need them run on the host where it is quick.
    """

    needed: set[str] = field(default_factory=set)
    changing: frozenset[str] = frozenset()

    def _lower_node(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
        if control_flow.is_control_flow(node) and node.op_type != "If":
            return self.fall_back(node, (), scope, opsets)
        return super()._lower_node(node, scope, opsets)

    def fall_back(
        self,
        node: Node,
        problems: Sequence[Problem],
        scope: Scope,
        opsets: Mapping[str, int],
        *,
        deferred: bool = False,
        stays: bool = False,
    ) -> Values:
        wanted = {problem.path for problem in problems if problem.code == "onnx.constant_input" and node.op_type not in _BY_DATA}
        for index, value in enumerate(node.inputs):
            if value is not None and value.array is None and node.input_label(index) in wanted:
                needed = self._inputs_of(value.name)
                if needed & self.changing and not node.domain and host_evaluation.is_quick(node.op_type, node.opset):
                    stays = True
                else:
                    self.needed |= needed
        return super().fall_back(node, problems, scope, opsets, deferred=deferred and not stays, stays=stays)

    def _inputs_of(self, name: str) -> set[str]:
        """The short tensors that determine a value; none if one of them is long, since the value must be computed then."""
        makers = {value.name: record for record in self.records for value in record.outputs}
        waiting, seen = [name], set[str]()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in makers:
                waiting += makers[current].inputs
        given = {name: self.inputs[name] for name in seen if name in self.inputs and self.inputs[name].array is None}
        is_short = all(value.kind == "tensor" and _elements(value) <= MOST_KNOWN for value in given.values())
        return set(given) if is_short else set()


class DeferredNodes:
    """Nodes that are compiled for the sizes of their inputs when these are available. Thread-safe.

    Args:
        name: their name in messages.
        model: their model.
        level: the highest feature level that may be used.
        take: lowers the nodes.
        reads: the values that they read, by name.
        wanted: the names of their outputs.
        run: prepares their program.
        cache: caches the compiled forms.
        fixed: the names of inputs that are the same for the same sizes of the model's inputs, and known when nodes are compiled.

    Attributes:
        is_refused: whether the caller has found that it cannot run their program.
    """

    def __init__(
        self,
        name: str,
        model: LoadedModel,
        level: FeatureLevel,
        take: LowerNodes,
        reads: Mapping[str, Value],
        wanted: Sequence[str],
        run: Callable[[Program], Runnable],
        cache: LRUCache,
        fixed: frozenset[str] = frozenset(),
    ) -> None:
        self.is_refused = False
        self._name = name
        self._model = model
        self._level = level
        self._take = take
        self._known = {name: value for name, value in reads.items() if value.array is not None}
        self._reads = {name: value for name, value in reads.items() if value.array is None}
        self._wanted = wanted
        self._run = run
        self._fixed = fixed
        self._needed: set[str] = {*fixed}
        self._required: set[str] = {*fixed}
        """Those that a node needs which is not quick on the host, or that do not change."""
        self._templates = ProgramTemplates(level, self._lower, cache)
        self._lock = forks.lock()
        self._cache = cache

    def __call__(self, values: Mapping[str, Any], to_host: Callable[[Any], Any], calls: GraphCalls | None = None) -> dict[str, Any]:
        """Computes the nodes' outputs from their inputs, by name.

        Args:
            values: what they read, by name: arrays of NumPy, in the device's memory, `DeviceTensor`, lists of them, maps, or None.
            to_host: copies one of these to NumPy.
            calls: gets the graphs that ran.
        """
        given = {name: values[name] for name in self._reads}
        with self._lock:
            run = self._prepared(given, to_host)
            if calls is not None and self._needed - self._fixed:
                calls.is_whole = False  # other elements may need another program
        return run.values(given, calls)

    def _prepared(self, given: Mapping[str, Any], to_host: Callable[[Any], Any]) -> Runnable:
        """The program for these inputs, compiled if it is not there."""
        sizes = self, tuple(map(form_of, given.values()))
        compiled: dict[str, set[bytes]] = self._cache.get((DeferredNodes, *sizes)) or {}
        for changing in (set[str](), self._changing(compiled)):
            run: Runnable | None = self._cache.get((*sizes, self._elements(given, to_host, changing)))
            if run is not None:
                return run
        with collections_paused():
            run = self._compile(given, to_host, compiled)
        elements = self._elements(given, to_host, self._changing(compiled))
        self._cache.put((*sizes, elements), run, run.held_bytes)
        for name, data in elements:
            others = compiled.setdefault(name, set())
            if len(others) < _MOST_COMPILED:
                others.add(data)
        if elements:
            self._cache.put((DeferredNodes, *sizes), compiled, _ELEMENTS_BYTES)
        return run

    def _changing(self, compiled: Mapping[str, set[bytes]]) -> set[str]:
        """The needed tensors whose elements keep changing at the same sizes.

        Args:
            compiled: the elements that the nodes were compiled for at these sizes.
        """
        return {name for name, variants in compiled.items() if len(variants) >= _MOST_COMPILED} - self._required

    def _elements(
        self, given: Mapping[str, Any], to_host: Callable[[Any], Any], changing: Collection[str]
    ) -> tuple[tuple[str, bytes], ...]:
        """The elements of the needed tensors but for those that keep changing."""
        return tuple((name, to_host(given[name]).tobytes()) for name in sorted(self._needed.difference(changing)))

    def _compile(self, given: Mapping[str, Any], to_host: Callable[[Any], Any], compiled: Mapping[str, set[bytes]]) -> Runnable:
        values = {name: value_from_array(name, array, self._reads[name]) for name, array in given.items()}
        while True:
            known = {name: Value.known(name, to_host(given[name])) for name in self._needed - self._changing(compiled)}
            program = self._templates.program({**values, **known})
            if program is not None:
                return self._run(program)

    def _lower(self, inputs: Mapping[str, Value]) -> Program | None:
        """The program for these inputs; None if it needs the elements of further ones."""
        uncopied: Mapping[str, Sequence[Problem]] = {}
        while True:
            changing = frozenset(name for name in self._needed if inputs[name].array is None)
            lowering = DeferredLowering(self._model, self._level, inputs={**self._known, **inputs}, uncopied=uncopied, changing=changing)
            scope: Scope = dict(lowering.inputs)
            for name in lowering.inputs:
                lowering.unique_name(name)
            self._take(lowering, scope)
            if not lowering.needed <= self._needed - changing:
                if not are_symbolic():
                    self._needed |= lowering.needed
                    self._required |= lowering.needed & changing
                return None
            if problems := lowering.problems:
                raise CompileError(self._name, problems)
            lowering.outputs = {name: lowering.assemble_sequence(scope[name]) for name in self._wanted}
            if not (uncopied := lowering.new_uncopied()):
                return build_program(lowering.stages, lowering.outputs, self._name)


def value_from_array(name: str, array: Any, declared: Value) -> Value:
    """A value with known sizes, from an array.

    Args:
        name: its name.
        array: an array, `DeviceTensor`, a list of arrays, a map, or None.
        declared: what was known of it before.
    """
    if isinstance(array, dict):
        return replace(declared, name=name)
    if isinstance(array, list) or array is None:
        return Value(name, declared.element, None, kind="sequence" if array is not None else "optional", described=declared.described)
    if isinstance(array, DeviceTensor):
        return Value(name, array.value.element, array.value.static_sizes)
    return Value(name, element_of_dtype(np.dtype(array.dtype)), tuple(array.shape))


def form_of(value: Any) -> Hashable:
    """The properties of an input that nodes are compiled for, apart from its elements."""
    if isinstance(value, list | dict) or value is None:
        return str(len(value)) if isinstance(value, list) else type(value).__name__
    if isinstance(value, DeviceTensor):
        return value.value.element, value.value.sizes
    return element_of_dtype(np.dtype(value.dtype)), tuple(value.shape)


def lower_host_nodes(nodes: Iterable[HostNode]) -> LowerNodes:
    """Lowers nodes of the host."""
    listed = tuple(nodes)

    def take(lowering: Lowering, scope: Scope) -> None:
        for node in listed:
            lowering.lower_nodes([node.proto], scope, "", node.opsets)

    return take


def _elements(value: Value) -> int:
    return int(np.prod(value.static_sizes)) if value.is_static else MOST_KNOWN + 1
