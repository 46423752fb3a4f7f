"""Lowers a model node by node: constants are folded, nodes with DirectML equivalents become graphs, the rest runs on the host."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from onnx import GraphProto, NodeProto, TensorProto
from onnx.helper import make_node

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.enums import FeatureLevel
from dmlpy.description.symbolic_sizes import are_symbolic, refuse_specialized
from dmlpy.messages.problems import CompileError, DescError, Problem
from dmlpy.onnx.domains import definitions
from dmlpy.onnx.domains.host_operators import find_problems as find_host_problems
from dmlpy.onnx.domains.remedies import remedy_of
from dmlpy.onnx.loading.limits import OPERANDS
from dmlpy.onnx.loading.model_size import count_nodes
from dmlpy.onnx.loading.schemas import MICROSOFT, domain_of
from dmlpy.onnx.loading.stored_weights import pinned_elements
from dmlpy.onnx.loading.values import Value
from dmlpy.onnx.lowering import constant_folding, control_flow, functions, host_evaluation, sequences, sized_constants, subgraphs
from dmlpy.onnx.lowering.body_types import body_type_problems
from dmlpy.onnx.lowering.declared_values import declared_size_problems, declared_type_problems
from dmlpy.onnx.lowering.initializers import read_initializers
from dmlpy.onnx.lowering.node_evaluation import Float64Program, evaluate_program, has_float64_results, is_float64
from dmlpy.onnx.lowering.node_lowering import lower_node
from dmlpy.onnx.lowering.node_problems import disappear_once_known, last_once_known, makes_invalid
from dmlpy.onnx.lowering.node_records import NodeRecord
from dmlpy.onnx.lowering.passed_values import uncopied_values
from dmlpy.onnx.lowering.programs import build_program
from dmlpy.onnx.lowering.rules import find_rule
from dmlpy.onnx.lowering.shape_inference import infer_outputs
from dmlpy.onnx.lowering.stages import GraphStage, HostStage, Stage
from dmlpy.onnx.nodes import checks
from dmlpy.onnx.nodes.node import Node, NotLowered
from dmlpy.onnx.nodes.operands import in_operands
from dmlpy.onnx.nodes.readings import as_read
from dmlpy.onnx.nodes.unexpected_errors import refuse_unexpected, report_unexpected
from dmlpy.validation.checking import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.onnx.loading.limits import Budget
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.lowering.node_records import Placement
    from dmlpy.onnx.lowering.programs import Program
    from dmlpy.onnx.lowering.scopes import Scope, Values
    from dmlpy.x.expressions import Expression

_COMPUTED = 2
"""The cost, in nodes, of computing one node ahead of time with DirectML's operators."""


@dataclass
class Lowering:
    """A model for given sizes.

    Attributes:
        model: the model.
        level: the highest feature level that may be used.
        stages: by index, in execution order; graphs have even indices, nodes on the host odd ones.
        records: the result of lowering each node, in execution order.
        inputs: the inputs of the model, by name.
        outputs: the outputs of the model, by the model's names.
        contradicted: sizes that the file declares and that the values do not have; empty where sizes are symbolic.
        uncopied: values that no graph can copy to its outputs at this level, with the problems: their nodes belong on the host.
        wide: whether FLOAT32 stands for FLOAT64, in which the graphs are computed.
        budget: the remainder of the model's limits.
    """

    joins_chains: ClassVar[bool] = True
    """Whether chains around quantized numbers may be joined."""

    model: LoadedModel
    level: FeatureLevel
    stages: dict[int, Stage] = field(default_factory=dict)
    records: list[NodeRecord] = field(default_factory=list)
    inputs: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, Value] = field(default_factory=dict)
    contradicted: tuple[Problem, ...] = ()
    uncopied: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    wide: bool = False
    _declared: Mapping[str, Value] = field(default_factory=dict)
    """The values that the file declares, of a lowering of the whole model: nodes alone may be lowered in another type."""
    _is_whole: bool = False
    """Whether types inside bodies are compared, too: of a lowering of the whole model, for sizes that are numbers."""
    _names: dict[str, int] = field(default_factory=dict)
    _first_records: dict[str, int] = field(default_factory=dict)
    _changes: list[tuple[int, tuple[int, ...] | None]] = field(default_factory=list)
    """The contents of each stage before it was changed, in order; None before it existed."""
    budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        self.budget = self.model.budget()

    @classmethod
    def of(cls, model: LoadedModel, inputs: Mapping[str, Value], level: FeatureLevel) -> Self:
        """Lowers a model.

        Args:
            model: the model.
            inputs: its inputs by name, with the known sizes, or with elements.
            level: the highest feature level that may be used.
        """
        lowering = cls._lower_model(model, inputs, level, {})
        while uncopied := lowering.new_uncopied():
            lowering = cls._lower_model(model, inputs, level, uncopied)
        return lowering

    @classmethod
    def _lower_model(
        cls, model: LoadedModel, inputs: Mapping[str, Value], level: FeatureLevel, uncopied: Mapping[str, Sequence[Problem]]
    ) -> Self:
        lowering = cls(model, level, inputs=dict(inputs), uncopied=uncopied)
        lowering._declared, lowering._is_whole = model.declared, not are_symbolic()
        scope = dict(inputs)
        for name in inputs:
            lowering.unique_name(name)
        lowering.load_initializers(model.proto.graph, scope, "")
        joins = cls.joins_chains and model.joins_chains and level >= FeatureLevel.FL_6_2
        nodes: Iterable[NodeProto] = model.proto.graph.node
        if joins and any(node.op_type in ("QuantizeLinear", "MatMulInteger") for node in nodes):  # the ends of all chains
            from dmlpy.onnx.lowering.quantized_chains import join_chains

            nodes = join_chains(model)
        lowering.lower_nodes(nodes, scope, "", model.opsets)
        if not are_symbolic():
            lowering.contradicted = tuple(declared_size_problems(model.declared, scope))
        lowering.outputs = {item.name: lowering.assemble_sequence(scope[item.name]) for item in model.proto.graph.output}
        return lowering

    def new_uncopied(self) -> Mapping[str, Sequence[Problem]]:
        """`uncopied` with further values, for another lowering; empty if there are none."""
        uncopied = uncopied_values(self.stages, self.outputs.values(), self.level)
        return {**self.uncopied, **uncopied} if uncopied.keys() - self.uncopied.keys() else {}

    @property
    def problems(self) -> list[Problem]:
        """Why the model cannot be compiled: problems of nodes that nothing runs, or that are invalid in ONNX."""
        refused = [record for record in self.records if record.where in ("nowhere", "invalid")]
        return [problem.under(record.name) for record in refused for problem in record.problems]

    def unique_name(self, name: str) -> str:
        """The name, with a number appended if it is taken."""
        self.budget.count_name(name)
        while name in self._names:
            self._names[name] += 1
            name = f"{name}_{self._names[name]}"
            self.budget.count_name(name)
        self._names[name] = 0
        return name

    def lower_graph(self, graph: GraphProto, scope: Scope, prefix: str, opsets: Mapping[str, int]) -> None:
        """Loads the initializers and lowers the nodes of a graph: the model's, or the body of a control-flow node.

        Args:
            graph: the graph.
            scope: the values that it may read; computed values are added.
            prefix: the prefix of the names of computed values.
            opsets: the versions of the domains of its nodes.
        """
        self.load_initializers(graph, scope, prefix)
        self.lower_nodes(graph.node, scope, prefix, opsets)

    def load_initializers(self, graph: GraphProto, scope: Scope, prefix: str) -> None:
        """Loads the initializers of a graph, as `lower_graph` does."""
        for name, array in read_initializers(graph, self.model, () if prefix else scope):
            scope[name] = Value.known(self.unique_name(prefix + name), array)

    def lower_nodes(self, nodes: Iterable[NodeProto], scope: Scope, prefix: str, opsets: Mapping[str, int]) -> None:
        """Lowers nodes in execution order, as `lower_graph` does."""
        for index, proto in enumerate(nodes):
            refuse_specialized()
            name = self.unique_name(prefix + (proto.name or f"{proto.op_type}_{index}"))
            with report_unexpected(f"onnx: {self.model.name}", name, proto):
                around = sized_constants.example_scope(proto, scope) if are_symbolic() else scope
                node = self._make_node(proto, name, around, prefix, opsets)
                self._first_records[node.name] = len(self.records)
                values = self._lower_node(node, around, opsets)
                if around is not scope:
                    values = sized_constants.with_sizes(node, values, scope, proto.input, opsets, self._fold_again)
            del self._first_records[node.name]
            scope.update({name: value for name, value in zip(proto.output, values, strict=True) if value is not None})

    def _fold_again(self, proto: NodeProto, opsets: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, Array] | None:
        """The outputs of a node that is folded with these inputs, else None."""
        lowering = Lowering(self.model, self.level)
        scope: Scope = {name: Value.known(name, array) for name, array in arrays.items()}
        lowering.lower_nodes([proto], scope, "", opsets)
        folded = {name: array for name in proto.output if name and (array := scope[name].array) is not None}
        return folded if len(folded) == sum(map(bool, proto.output)) else None

    def _make_node(self, proto: NodeProto, name: str, scope: Scope, prefix: str, opsets: Mapping[str, int]) -> Node:
        """The node with unique names and inferred outputs."""
        self.budget.count_nodes(name, 1 + (len(proto.input) + len(proto.output)) // OPERANDS)
        copy = NodeProto()
        copy.CopyFrom(proto)
        copy.name = name
        domain = domain_of(proto.domain)
        if absent := [given for given in proto.input if given and given not in scope]:
            problem = Problem("onnx.missing", name, f"{absent[0]!r}, an input of a body that its node leaves out", "a value")
            raise DescError(f"onnx: {self.model.name}", [problem])
        inputs = tuple(self._resolve_empty(scope[given]) if given else None for given in proto.input)
        copy, inputs = as_read(copy, domain, inputs)
        copy.input[:] = [value.name if value else "" for value in inputs]
        copy.output[:] = [self.unique_name(prefix + given) if given else "" for given in proto.output]
        node = Node(name, copy, domain, opsets.get(domain, 1), inputs, (), self.level, _refuse_read, self.budget)
        if problems := tuple(self._check_node(node)):
            node = node.changed(problems=problems)
        outputs = infer_outputs(node, opsets, {} if prefix else self.model.types, proto.output)
        node = node.changed(outputs=tuple(value and self._resolve_empty(value) for value in outputs))
        stated = {} if prefix else self._declared
        wrong = () if problems else (*checks.size_problems(node), *declared_type_problems(node, stated, proto.output))
        if self._is_whole and not prefix and not problems:
            wrong = (*wrong, *body_type_problems(node, scope, opsets))
        return node.changed(problems=wrong) if wrong else node

    def _resolve_empty(self, value: Value) -> Value:
        """A value as nodes read it: known if it has no elements, since no DirectML tensor can be empty. `Prediction` overrides it."""
        return constant_folding.fold_empty_value(value)

    def _lower_node(self, node: Node, scope: Scope, opsets: Mapping[str, int]) -> Values:
        """Lowers a node and returns its outputs."""
        if node.problems:
            return self.fall_back(node, node.problems, scope, opsets)
        known = constant_folding.fold_empty_outputs(node) or constant_folding.fold_of_nothing(node) or self._fold(node, opsets)
        if known is not None:
            return self._add_folded(node, known)
        mark = self._mark()
        try:
            with refuse_unexpected(node.proto, node.inputs):
                if control_flow.is_control_flow(node):
                    return control_flow.unroll(self, node, scope, opsets)
                listed = sequences.lower_sequence(self, node)
                return self._lower_to_graph(node) if listed is None else listed
        except NotLowered as reason:
            self._undo(mark)
            problems = tuple(in_operands(node, reason.problems))
        if find_rule(node.op_type, node.opset, node.domain) is None or node.domain == MICROSOFT:
            definition = definitions.find_definition if node.domain == MICROSOFT or node.op_type in definitions.REMOVED else None
            try:
                inlined = functions.expand_function(self, node, opsets, definition)
            except NotLowered as reason:
                return self.fall_back(node, reason.problems, scope, opsets)
            left = [record for record in self.records[mark.records :] if record.where not in ("directml", "folded")]
            deferred = all(record.where == "deferred" for record in left)
            if inlined is not None and not (left and (deferred or host_evaluation.is_supported(node.op_type, node.opset, node.domain))):
                return inlined
            if inlined is not None:
                problems = tuple(self._unknown_inputs(node, left[0])) or left[0].problems
                self._undo(mark)
                return self.fall_back(node, problems, scope, opsets, deferred=deferred)
        return self.fall_back(node, problems, scope, opsets, deferred=self._is_deferrable(node, problems))

    def _is_deferrable(self, node: Node, problems: Sequence[Problem]) -> bool:
        """Whether a node is compiled once all its inputs are available."""
        if control_flow.is_control_flow(node):
            return True
        known = find_rule(node.op_type, node.opset, node.domain) is not None
        return known and disappear_once_known(problems)

    def _check_node(self, node: Node) -> Sequence[Problem]:
        """Checks that a node is valid in ONNX, regardless of DirectML's operators."""
        try:
            with refuse_unexpected(node.proto, node.inputs):
                return checks.problems_of(node)
        except NotLowered as reason:
            return reason.problems

    # Failures are rolled back

    def _unknown_inputs(self, node: Node, record: NodeRecord) -> list[Problem]:
        """The inputs that a definition's node needs to know, as inputs of the node that the definition replaces."""
        if all(problem.code != "onnx.constant_input" for problem in record.problems):
            return []
        makers = {value.name: maker for maker in self.records[self._first_records[node.name] :] for value in maker.outputs}
        waiting, seen = [*record.inputs], set()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += makers[name].inputs if name in makers else []
        problems: list[Problem] = []
        for index, value in enumerate(node.inputs):
            if value is not None and value.array is None and value.name in seen:
                problems.append(node.unknown_problem(index))
        return problems

    def _mark(self) -> _Mark:
        return _Mark(len(self.records), len(self._changes))

    def _undo(self, mark: _Mark) -> None:
        del self.records[mark.records :]
        while len(self._changes) > mark.changed:
            index, lengths = self._changes.pop()
            if lengths is not None:
                self.stages[index].truncate(lengths)
            else:
                del self.stages[index]

    def _before_change(self, index: int) -> None:
        """Records the contents of a stage before it changes, for `_undo`."""
        stage = self.stages.get(index)
        self._changes.append((index, None if stage is None else stage.lengths()))

    def _fold(self, node: Node, opsets: Mapping[str, int]) -> dict[str, Array] | None:
        """The outputs of a node by name if they are known before the model runs; None also if the budget is exhausted."""
        return constant_folding.fold_node(node, opsets, self.budget, self._evaluate)

    def _evaluate(self, node: Node, opsets: Mapping[str, int]) -> dict[str, Array] | None:
        """The outputs of a node whose inputs are known, computed with DirectML's operators; None if it has no equivalent."""
        arrays = {value.name: pinned_elements(value.array) for value in node.inputs if value is not None and value.array is not None}
        self.budget.count_nodes(node.name, _COMPUTED)
        program = SingleNodeLowering.program(self.model, node.proto, opsets, arrays, self.budget)
        if program is not None:
            return evaluate_program(program, arrays)
        wide = (
            SingleNodeLowering.program(self.model, node.proto, opsets, arrays, self.budget, wide=True)
            if is_float64(node.proto, opsets, arrays)
            else None
        )
        computed = Float64Program.of(wide)
        return None if computed is None else computed(arrays)

    def _add_folded(self, node: Node, known: Mapping[str, Array]) -> Values:
        """Adds the outputs of a node that are known before the model runs."""
        values = [Value.known(name, known[name]) if name else None for name in node.proto.output]
        self._record(node, "folded", values)
        return values

    # DirectML

    def _lower_to_graph(self, node: Node) -> Values:
        """Adds a node to a graph of DirectML's operators and returns its outputs.

        Raises:
            NotLowered: no DirectML operator expresses it.
        """
        if wrong := [problem for name in node.proto.output for problem in self.uncopied.get(name, ())]:
            raise NotLowered(wrong)
        index = max((first_stage(value, 0) for value in node.inputs if value is not None), default=0)
        stage = self.stages.get(index)
        self._before_change(index)
        if not isinstance(stage, GraphStage):
            stage = self.stages[index] = GraphStage(index, self.model, self.wide)
        results, operators = lower_node(node, stage)
        self.budget.count_operators(len(operators))
        values: Values = []
        for value, expression in results:
            values.append(value if value is None or value.array is not None else Value(value.name, value.element, value.sizes, None, index))
            if value is not None and expression is not None:
                stage.expressions[value.name] = expression
                stage.results[value.name] = value
        names = tuple(type(desc).short_name() for desc in operators)
        self._record(node, "directml", values, names, tuple(operators), (), index)
        return values

    # The host

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
        """Defers a node, or places it on the host, or nowhere if the reference implementation lacks it; returns its outputs.

        Args:
            node: the node.
            problems: why it is not lowered.
            scope: the values that it may read.
            opsets: the versions of the domains.
            deferred: whether it waits for its inputs.
            stays: whether it runs on the host whatever a run makes known.
        """
        self.budget.count_nodes(node.name, count_nodes([node.proto]) - 1)
        around = {name: self.assemble_sequence(scope[name]) for name in subgraphs.captured_names(node.proto) if name in scope}
        inputs = [None if value is None else self.assemble_sequence(value) for value in node.inputs]
        proto = subgraphs.rename_captured(
            node.proto, {name: value.name for name, value in around.items()}, self.unique_name, self.model.folder
        )
        proto.input[:] = [value.name if value else "" for value in inputs]
        given = [value for value in (*inputs, *around.values()) if value is not None]
        index = max((first_stage(value, 1) for value in given), default=1)
        self._before_change(index)
        stage = self.stages.setdefault(index, HostStage(index))
        assert isinstance(stage, HostStage)
        values: Values = [None if value is None else replace(value, array=None, stage=index) for value in node.outputs]
        where: Placement = "deferred" if deferred else "invalid" if self._is_invalid(problems) else "host"
        if where == "host" and (unsupported := find_host_problems(node)):
            where, problems = "nowhere", unsupported
        elif where == "host" and not self._has_host(node):
            where = "nowhere"
            remedy = remedy_of(node.op_type, node.domain)
            problems = [replace(problem, remedy=remedy) if problem.code == "onnx.kernel" else problem for problem in problems]
        stays |= where == "host" and all(value.is_static for value in given) and last_once_known(problems)
        stage.add(proto, opsets, given, [value for value in values if value is not None], stays=stays)
        self._record(node, where, values, problems=problems, stage=index)
        return values

    def assemble_sequence(self, value: Value) -> Value:
        """The value; a sequence whose tensors are known individually is assembled on the host."""
        if value.items is None:
            return value
        items = [self.assemble_sequence(item) for item in value.items]
        index = max((first_stage(item, 1) for item in items), default=1)
        self._before_change(index)
        stage = self.stages.setdefault(index, HostStage(index))
        assert isinstance(stage, HostStage)
        assembled = replace(value, name=self.unique_name(value.name), stage=index, items=None)
        operator = "Optional" if value.kind == "optional" else "SequenceConstruct" if items else "SequenceEmpty"
        stage.add(make_node(operator, [item.name for item in items], [assembled.name], name=assembled.name), {"": 15}, items, [assembled])
        return assembled

    def _has_host(self, node: Node) -> bool:
        """Whether the host can run a node: by ONNX's reference implementation, or DirectML's operators in FLOAT64 or at a higher level."""
        elements = {value.name: value.element for value in node.inputs if value is not None}
        wide = has_float64_results(node.proto, {node.domain: node.opset}, elements)
        return (
            (wide and find_rule(node.op_type, node.opset, node.domain) is not None)
            or host_evaluation.is_supported(node.op_type, node.opset, node.domain)
            or (self.level < LATEST and _is_lowered_at_latest(node, self.model))
        )

    def _is_invalid(self, problems: Sequence[Problem]) -> bool:
        """Whether a node with these problems contradicts ONNX. `Prediction` overrides it."""
        return makes_invalid(problems)

    def _record(
        self,
        node: Node,
        where: Placement,
        values: Sequence[Value | None],
        operators: tuple[str, ...] = (),
        descs: tuple[OperatorDesc, ...] = (),
        problems: Sequence[Problem] = (),
        stage: int | None = None,
    ) -> None:
        written = tuple(value for value in values if value is not None)
        read = tuple(value.name for value in node.inputs if value is not None)
        self.records.append(
            NodeRecord(node.name, node.op_type, node.domain, where, operators, descs, tuple(problems), read, written, stage)
        )


class SingleNodeLowering(Lowering):
    """Lowers a single node whose inputs are known."""

    @classmethod
    def program(
        cls,
        model: LoadedModel,
        proto: NodeProto,
        opsets: Mapping[str, int],
        arrays: Mapping[str, Array],
        budget: Budget | None = None,
        *,
        wide: bool = False,
    ) -> Program | None:
        """The program that computes the node.

        Args:
            model: its model.
            proto: the node; its inputs have the arrays' names.
            opsets: the versions of the domains.
            arrays: its inputs by name: the program reads the floating-point ones, whose elements do not affect the lowering.
            budget: what it may take; None for a model's.
            wide: whether to treat FLOAT64 tensors as FLOAT32.

        Returns:
            The program, or None if the node is not lowered.

        Raises:
            CompileError: the node is invalid in ONNX.
        """
        made = cls._lower_alone(model, proto, opsets, arrays, budget, wide=wide)
        if any(problem.code == "onnx.constant_input" for record in made.records for problem in record.problems):
            made = cls._lower_alone(model, proto, opsets, arrays, budget, wide=wide, known=True)
        if any(record.where == "invalid" for record in made.records):
            raise CompileError(model.name, made.problems)
        if any(record.where not in ("directml", "folded") for record in made.records):
            return None
        if any(value.kind != "tensor" for value in made.outputs.values()):
            return None
        return build_program(made.stages, made.outputs, made.records[-1].name if made.records else proto.name)

    @classmethod
    def _lower_alone(
        cls,
        model: LoadedModel,
        proto: NodeProto,
        opsets: Mapping[str, int],
        arrays: Mapping[str, Array],
        budget: Budget | None,
        *,
        wide: bool = False,
        known: bool = False,
    ) -> Self:
        """Lowers the node with floating-point inputs read at run time, or with `known` all as constants, since some affect the lowering.

        Of a node of FLOAT64 tensors, with `wide`, those of fewer bits are constants, too.
        """
        made = cls(model, LATEST, wide=wide)
        made.budget = budget or made.budget
        for name, array in arrays.items():
            value = Value.known(made.unique_name(name), array)
            narrow = wide and value.element == TensorProto.DOUBLE
            is_read = array.size and is_float(array.dtype) and not known and narrow == wide
            as_float = array if array.size else array.astype("float32")
            element = TensorProto.FLOAT if narrow else value.element
            value = replace(value, array=None if is_read else as_float if narrow else value.array, element=element)
            made.inputs[name] = value
        scope: Scope = dict(made.inputs)
        made.lower_nodes([proto], scope, "", opsets)
        made.outputs = {name: scope[name] for name in proto.output if name}
        return made

    def _fold(self, node: Node, opsets: Mapping[str, int]) -> dict[str, Array] | None:
        return None if len(self._first_records) == 1 else super()._fold(node, opsets)


def _is_lowered_at_latest(node: Node, model: LoadedModel) -> bool:
    try:
        lower_node(replace(node, level=LATEST), GraphStage(0, model))
    except NotLowered:
        return False
    return True


class _Mark(NamedTuple):
    """A point of a lowering to roll back to: the numbers of records and of changes of stages."""

    records: int
    changed: int


def _refuse_read(value: Value) -> Expression:
    raise AssertionError(f"{value.name} is read before its node is placed")


def first_stage(value: Value, kind: int) -> int:
    """The first stage of a kind, 0 for graphs and 1 for the host, that can read a value."""
    if value.stage is None:
        return kind
    return value.stage if value.stage % 2 == kind else value.stage + 1
