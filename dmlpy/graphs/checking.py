"""Checks of a graph: finds every broken rule of DML_GRAPH_DESC and of its nodes' descs, at once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, FeatureLevel, TensorFlags
from dmlpy.description.markers import Slot
from dmlpy.description.symbolic_sizes import are_symbolic
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, MAX_UINT32, TensorDesc
from dmlpy.graphs.declared import declared_problems
from dmlpy.graphs.desc import GraphDesc
from dmlpy.graphs.nodes import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from dmlpy.messages.naming import Count, c_path, plural
from dmlpy.messages.problems import MAX_PROBLEMS, DescError, Problem, truncate
from dmlpy.validation.checking import LATEST, Level, check, is_valid, parse_level

GRAPHS_SINCE = FeatureLevel.FL_2_1
CONSTANTS_SINCE = FeatureLevel.FL_6_2
_MOST_TOLD = 10
"""The most graph inputs and outputs without an edge, and nodes of a cycle, that are reported one by one: a file may claim billions of them.
"""


def check_graph(graph: GraphDesc, feature_level: Level = LATEST, *, strict: bool = False, lenient: bool = False) -> list[Problem]:
    """Checks a graph; see `Graph.check`.

    Raises:
        DescError: there is no such level, or `graph` is not a graph.
    """
    if not isinstance(graph, GraphDesc):
        raise DescError("check", [Problem("field.form", "graph", brief(graph), "a Graph")])
    level = LATEST if feature_level is None else parse_level(feature_level)
    unlimited = feature_level is None
    valid_at: frozenset[tuple[FeatureLevel, bool, bool, bool]] = graph.__dict__.get("_valid_at", frozenset())
    if (level, strict, lenient, unlimited) in valid_at:
        return []  # a graph never changes: it is checked once
    connections = _Connections(graph)
    unsorted = chain(
        _level_problems(graph, level),
        _count_problems(graph),
        _name_problems(graph),
        _desc_problems(graph, None if unlimited else level, strict=strict),
        connections.problems(),
        declared_problems(graph),
        _size_problems(connections, lenient=lenient),
        _owned_problems(connections),
        _cycle_problems(connections),
        () if lenient else _unused_input_problems(graph),
    )
    problems = sorted(truncate(unsorted, MAX_PROBLEMS), key=lambda problem: _order(graph, problem))
    if not problems:
        graph.__dict__["_valid_at"] = valid_at | {(level, strict, lenient, unlimited)}  # copies for other sizes share the set
    return problems


def lowest_level(graph: GraphDesc) -> FeatureLevel | None:
    """The lowest feature level that accepts the graph and all its nodes; None if none does."""
    if check_graph(graph, LATEST, lenient=True):
        return None
    levels = list(FeatureLevel)
    lowest = levels.index(CONSTANTS_SINCE if any(isinstance(node, ConstantNode) for node in graph.nodes) else GRAPHS_SINCE)
    for desc in dict.fromkeys(node.operator for node in graph.nodes if isinstance(node, OperatorNode)):
        # Each level contains all lower ones, so the search continues at the level that the last desc needed.
        while not is_valid(desc, levels[lowest]):
            lowest += 1
    return levels[lowest]


_MEMBERS = {name: index for index, name in enumerate(GraphDesc.model_fields)}


def _order(graph: GraphDesc, problem: Problem) -> tuple[int, int]:
    _, bracket, rest = problem.path.partition("[")
    return _MEMBERS.get(problem.field, -1), int(rest.partition("]")[0]) if bracket else -1


def _level_problems(graph: GraphDesc, level: FeatureLevel) -> Iterator[Problem]:
    if level < GRAPHS_SINCE:
        since = f"graphs exist from feature level {GRAPHS_SINCE} on (DirectML {GRAPHS_SINCE.directml_version})"
        yield Problem("level.graph", "", f"a graph at feature level {level}", f"feature level {GRAPHS_SINCE} or higher", (since,))
    for index, node in enumerate(graph.nodes):
        if isinstance(node, ConstantNode) and level < CONSTANTS_SINCE:
            why = (graph.label(index), f"constant nodes exist from feature level {CONSTANTS_SINCE} on")
            found, remedy = f"a constant node at feature level {level}", "make it a graph input that is OWNED_BY_DML"
            yield Problem("level.constant", f"nodes[{index}]", found, f"feature level {CONSTANTS_SINCE} or higher", why, remedy)


def _count_problems(graph: GraphDesc) -> Iterator[Problem]:
    for member in ("input_count", "output_count"):
        if not 0 <= getattr(graph, member) <= MAX_UINT32:
            yield Problem("attribute.range", member, str(getattr(graph, member)), f"0 to {MAX_UINT32}")
    if not graph.nodes:
        why = ("a graph cannot join its inputs to its outputs directly",)
        yield Problem("graph.empty", "nodes", "empty", "at least one node", why, "ELEMENT_WISE_IDENTITY copies an input to an output")


def _name_problems(graph: GraphDesc) -> Iterator[Problem]:
    for member, count, what in (("input_names", "input_count", "input"), ("output_names", "output_count", "output")):
        names = getattr(graph, member)
        if names and len(names) != getattr(graph, count):
            expected = f"{getattr(graph, count)}, one for each graph {what}, or none"
            yield Problem("graph.name_count", member, plural(len(names), "name"), expected)
    known: dict[str, str] = {}
    for member, label in (("input_names", graph.input_label), ("output_names", graph.output_label)):
        for index, name in enumerate(getattr(graph, member)):
            if not name:
                yield Problem("graph.name", f"{member}[{index}]", "empty", "a name")
            elif name in known:
                why = ("buffers are bound by these names",)
                yield Problem("graph.name", f"{member}[{index}]", f"{brief(name)}, as {known[name]} is", "a unique name", why)
            known.setdefault(name, label(index))


def _desc_problems(graph: GraphDesc, level: FeatureLevel | None, *, strict: bool) -> Iterator[Problem]:
    # Networks repeat their layers: equal descs are checked once. Symbolic sizes can only be compared by identity.
    checked: dict[OperatorDesc | int, list[Problem]] = {}
    for index, node in enumerate(graph.nodes):
        if not isinstance(node, OperatorNode):
            continue
        key = id(node.operator) if are_symbolic() else node.operator
        if key not in checked:
            checked[key] = check(node.operator, level, strict=strict)
        for problem in checked[key]:
            yield replace(problem.under(f"nodes[{index}]"), why=(graph.label(index), *problem.why))


class _End(NamedTuple):
    """One end of an edge: a slot of a node."""

    node: int
    slot: int


class _Connections:
    """The edges by the slots that they join. Ends that do not exist are left out and reported by `problems`."""

    def __init__(self, graph: GraphDesc) -> None:
        self.graph = graph
        self.inputs = [node.input_slots() for node in graph.nodes]
        self.outputs = [node.output_slots() for node in graph.nodes]
        self.found: list[Problem] = []
        self.fed: dict[_End, list[str]] = defaultdict(list)
        self.read: dict[_End, list[str]] = defaultdict(list)
        self.readers: dict[int, list[_End]] = defaultdict(list)
        """The slots that each graph input feeds."""
        self.links: list[tuple[int, _End, _End]] = []
        """The intermediate edges whose two ends exist: index, writer, reader."""
        self.written: dict[int, list[int]] = defaultdict(list)
        """The output edges of each graph output."""
        for index, edge in enumerate(graph.input_edges):
            self._input_edge(index, edge)
        for index, way_out in enumerate(graph.output_edges):
            self._output_edge(index, way_out)
        for index, link in enumerate(graph.intermediate_edges):
            self._intermediate_edge(index, link)

    def _report(self, problem: Problem) -> None:
        if len(self.found) < MAX_PROBLEMS:
            self.found.append(problem)

    def _input_edge(self, index: int, edge: InputEdge) -> None:
        path = f"input_edges[{index}]"
        known = self._index(f"{path}.graph_input_index", edge.graph_input_index, self.graph.input_count, "input")
        reader = self._end(path, "to_node", edge.to_node_index, "input", edge.to_node_input_index)
        if reader is not None:
            self.fed[reader].append(path)
            if known:
                self.readers[edge.graph_input_index].append(reader)

    def _output_edge(self, index: int, edge: OutputEdge) -> None:
        path = f"output_edges[{index}]"
        writer = self._end(path, "from_node", edge.from_node_index, "output", edge.from_node_output_index)
        if self._index(f"{path}.graph_output_index", edge.graph_output_index, self.graph.output_count, "output"):
            self.written[edge.graph_output_index].append(index)
        if writer is not None:
            self.read[writer].append(path)

    def _intermediate_edge(self, index: int, edge: IntermediateEdge) -> None:
        path = f"intermediate_edges[{index}]"
        writer = self._end(path, "from_node", edge.from_node_index, "output", edge.from_node_output_index)
        reader = self._end(path, "to_node", edge.to_node_index, "input", edge.to_node_input_index)
        if writer is not None:
            self.read[writer].append(path)
        if reader is not None:
            self.fed[reader].append(path)
        if writer is not None and reader is not None:
            self.links.append((index, writer, reader))

    def _index(self, path: str, given: int, count: int, what: str) -> bool:
        if 0 <= given < count:
            return True
        expected = f"0 to {count - 1}: the graph has {plural(count, what)}" if count > 0 else f"no edge: the graph has no {what}s"
        names = f", with a name in {what}_names" if getattr(self.graph, f"{what}_names") else ""
        remedy = f"raise {what}_count{names}" if given >= count else None
        self._report(Problem("graph.index", path, str(given), expected, (self._edge_label(path),), remedy))
        return False

    def _end(self, path: str, side: str, node: int, what: str, slot: int) -> _End | None:
        """The slot at an end of an edge; None, with a problem, if it does not exist."""
        count = len(self.graph.nodes)
        if not 0 <= node < count:
            expected = f"0 to {count - 1}: the graph has {plural(count, 'node')}" if count else "no edge: the graph has no nodes"
            self._report(Problem("graph.index", f"{path}.{side}_index", str(node), expected, (self._edge_label(path),)))
            return None
        end = _End(node, slot)
        slots = self.inputs[node] if what == "input" else self.outputs[node]
        place = f"{path}.{side}_{what}_index"
        if not 0 <= slot < len(slots):
            label = self.graph.label(node)
            expected = f"0 to {len(slots) - 1}: {label} has {plural(len(slots), what)}" if slots else f"no edge: {label} has no {what}s"
            self._report(Problem("graph.index", place, str(slot), expected, (self._edge_label(path), *self._slot_list(slots))))
            return None
        if not self._described(node, slots[slot]):
            field = slots[slot].place
            reason = f"{self.graph.label(node)}: {what} {slot} {c_path(field)} is null"
            remedy = f"describe {field} of the node, or leave the edge out: null slots count, but have no edge"
            why = (reason, *self._slot_list(slots))
            self._report(Problem("graph.slot", place, str(slot), f"an {what} that the desc describes", why, remedy))
            return None
        return end

    def _described(self, node: int, slot: Slot) -> bool:
        return slot.tensor is not None or isinstance(self.graph.nodes[node], ConstantNode)

    @staticmethod
    def _slot_list(slots: Sequence[Slot]) -> tuple[str, ...]:
        listed = [f"{index} {c_path(slot.place)}" for index, slot in enumerate(slots)]
        more = [f"and {len(listed) - 16} more"] if len(listed) > 16 else []
        return (f"slots: {', '.join([*listed[:16], *more])}",) if listed else ()

    def _edge_label(self, path: str) -> str:
        """The name of an edge in messages: `intermediate edge 3 'skip'`."""
        member, _, rest = path.partition("[")
        index = int(rest.partition("]")[0])
        name = getattr(self.graph, member)[index].name
        return f"{member.removesuffix('s').replace('_', ' ')} {index}{' ' + brief(name) if name else ''}"

    def label(self, end: _End, *, output: bool) -> str:
        """The name of a slot in messages: `node 7 'norm' (MEAN_VARIANCE_NORMALIZATION1): input 1 ScaleTensor`."""
        slots = (self.outputs if output else self.inputs)[end.node]
        return f"{self.graph.label(end.node)}: {'output' if output else 'input'} {end.slot} {c_path(slots[end.slot].place)}"

    def path(self, end: _End, *, output: bool = False) -> str:
        """The place of a slot: `nodes[7].scale_tensor`."""
        return f"nodes[{end.node}].{(self.outputs if output else self.inputs)[end.node][end.slot].place}"

    def tensor(self, end: _End, *, output: bool) -> TensorDesc | None:
        """The tensor of a slot that an edge connects; None for a constant."""
        return (self.outputs if output else self.inputs)[end.node][end.slot].tensor

    def problems(self) -> Iterator[Problem]:
        """Yields edges that lead nowhere, slots without an edge or with too many, and graph outputs that are not written exactly once."""
        yield from self.found
        for node, slots in enumerate(self.inputs):
            for index, slot in enumerate(slots):
                if slot.tensor is not None:
                    yield from self._feeding_problems(_End(node, index))
        for node, slots in enumerate(self.outputs):
            # DirectML takes a node of which some outputs have no edge: ONNX Runtime compiles a TopK of which only the indices are read.
            if not any(self.read.get(_End(node, index)) for index in range(len(slots))):
                yield from (self._unread(_End(node, index), slot) for index, slot in enumerate(slots) if self._described(node, slot))
        yield from self._output_problems()

    def _feeding_problems(self, end: _End) -> Iterator[Problem]:
        feeding = self.fed.get(end, ())
        if len(feeding) == 1:
            return
        label = self.label(end, output=False)
        optional = self.inputs[end.node][end.slot].field.optional
        if not feeding:
            place = self.inputs[end.node][end.slot].place
            remedy = f"add an edge to it{f', or leave {place} null' if optional else ''}"
            yield Problem(
                "graph.unfed",
                self.path(end),
                Count("no edge"),
                "one edge that feeds it",
                (f"{label} is described but has no edge",),
                remedy,
            )
        else:
            names = [self._edge_label(path) for path in feeding[:_MOST_TOLD]]
            why = (f"{label} is fed by {', '.join(names)}{' and more' if len(feeding) > _MOST_TOLD else ''}",)
            yield Problem("graph.fed_twice", self.path(end), f"fed by {len(feeding)} edges", "one edge", why)

    def _unread(self, end: _End, slot: Slot) -> Problem:
        several = len(self.outputs[end.node]) > 1
        why = (f"{self.label(end, output=True)} is described but has no edge{', nor has any other output of the node' if several else ''}",)
        remedy = (
            "leave the node out"
            if isinstance(self.graph.nodes[end.node], ConstantNode)
            else "make it a graph output, or leave the node out"
        )
        return Problem("graph.unread", self.path(end, output=True), "read by no edge", "at least one edge", why, remedy)

    def _output_problems(self) -> Iterator[Problem]:
        for output, edges in self.written.items():
            for index in edges[1:]:
                why = (f"{self.graph.output_label(output)} is written by {self._edge_label(f'output_edges[{edges[0]}]')} already",)
                expected = "a graph output that no other edge writes"
                yield Problem("graph.written_twice", f"output_edges[{index}].graph_output_index", str(output), expected, why)
        unwritten = (output for output in range(min(self.graph.output_count, MAX_UINT32)) if output not in self.written)
        labels = [self.graph.output_label(output) for output in islice(unwritten, _MOST_TOLD)]
        for label in labels:
            yield Problem("graph.unwritten", "output_edges", Count(f"no edge to {label}"), "one edge to it")
        more = self.graph.output_count - len(self.written) - len(labels)
        if more > 0:
            yield Problem("graph.unwritten", "output_edges", Count(f"no edge to {more} more graph outputs"), "one edge to each")

    @cached_property
    def followers(self) -> Mapping[int, Mapping[int, int]]:
        """The nodes that each node feeds, with the first edge to each."""
        followers: dict[int, dict[int, int]] = defaultdict(dict)
        for index, writer, reader in self.links:
            followers[writer.node].setdefault(reader.node, index)
        return followers


def _measurable(tensor: TensorDesc) -> bool:
    """Returns whether the tensor's size is known; if not, a problem of its node gives the reason."""
    sizes, strides = tensor.sizes, tensor.strides
    well_formed = 1 <= len(sizes) <= MAX_DIMENSION_COUNT and all(size > 0 for size in sizes) and tensor.data_type.bits > 0
    return well_formed and (strides is None or (len(strides) == len(sizes) and all(stride >= 0 for stride in strides)))


def _size_problems(connections: _Connections, *, lenient: bool) -> Iterator[Problem]:
    for index, writer, reader in connections.links:
        path = f"intermediate_edges[{index}]"
        to = connections.tensor(reader, output=False)
        if to is None or not _measurable(to):
            continue
        node = connections.graph.nodes[writer.node]
        if isinstance(node, ConstantNode):
            if node.data_size != to.size_in_bytes:
                found = f"an edge from {node.data_size} bytes to {to.size_in_bytes} bytes"
                why = (
                    f"{connections.label(writer, output=True)} holds {node.data_size} bytes",
                    _describe(connections, reader, to, output=False),
                )
                yield Problem("graph.constant_size", path, found, "a DataSize equal to the reader's TotalTensorSizeInBytes", why)
            continue
        given = connections.tensor(writer, output=True)
        if given is None or not _measurable(given):
            continue
        same_size = given.size_in_bytes == to.size_in_bytes
        if same_size and (lenient or _same_bytes(given.data_type, to.data_type)):
            continue
        why = (_describe(connections, writer, given, output=True), _describe(connections, reader, to, output=False))
        if not same_size:
            found = f"an edge from {given.size_in_bytes} bytes to {to.size_in_bytes} bytes"
            yield Problem("graph.total_size", path, found, "TotalTensorSizeInBytes equal at both ends", why)
        else:
            remedy = "CAST converts values; where the bytes are meant to be read as another type, check with lenient=True (--lenient)"
            yield Problem("graph.data_type", path, f"an edge from {given.data_type} to {to.data_type}", "one data type", why, remedy)


def _same_bytes(given: DataType, to: DataType) -> bool:
    """Returns whether both ends have one type, or the signed and the unsigned integers of one width.

    Numbers from 0 to the middle of the range have the same bytes in both: ONNX Runtime describes the INT64 indices of TopK as UINT64.
    """
    return given is to or str(given).removeprefix("U") == str(to).removeprefix("U")


def _describe(connections: _Connections, end: _End, tensor: TensorDesc, *, output: bool) -> str:
    """A slot's description of its tensor."""
    return f"{connections.label(end, output=output)} is {tensor.summary()}"


def _owned_problems(connections: _Connections) -> Iterator[Problem]:
    def owned(end: _End) -> bool:
        tensor = connections.tensor(end, output=False)
        return tensor is not None and tensor.flags is TensorFlags.OWNED_BY_DML

    for index, writer, reader in connections.links:
        if owned(reader):
            source = connections.graph.label(writer.node)
            why = [f"{connections.label(reader, output=False)} is fed by intermediate edge {index} from {source}"]
            constant = isinstance(connections.graph.nodes[writer.node], ConstantNode)
            why += ["a constant node's data are copied when the graph is compiled"] if constant else []
            expected = "NONE: only a tensor that a graph input feeds can be owned"
            yield Problem("graph.owned", f"{connections.path(reader)}.flags", "OWNED_BY_DML", expected, tuple(why))
    for index, readers in connections.readers.items():
        flagged = [end for end in readers if owned(end)]
        if not flagged or len(flagged) == len(readers):
            continue
        other = f"{connections.graph.input_label(index)} also feeds {connections.label(flagged[0], output=False)}, which is OWNED_BY_DML"
        for end in readers:
            if not owned(end):
                expected = "OWNED_BY_DML on every tensor that the graph input feeds, or NONE on every one"
                yield Problem(
                    "graph.owned_mixed", f"{connections.path(end)}.flags", "NONE", expected, (connections.label(end, output=False), other)
                )


def _unused_input_problems(graph: GraphDesc) -> Iterator[Problem]:
    # An edge that leads nowhere is reported separately.
    used = {edge.graph_input_index for edge in graph.input_edges}
    for index in islice((index for index in range(min(graph.input_count, MAX_UINT32)) if index not in used), _MOST_TOLD):
        label = graph.input_label(index)
        expected, remedy = "an edge from each graph input", "leave the input out, or bind nothing to it"
        yield Problem("graph.unused_input", "input_edges", Count(f"no edge from {label}"), expected, (f"{label} feeds no node",), remedy)


def _cycle_problems(connections: _Connections) -> Iterator[Problem]:
    for component in _cyclic_components(connections.followers, len(connections.graph.nodes)):
        cycle = _shortest_cycle(connections.followers, component)
        names = [connections.graph.label(node) for node in cycle]
        shown = names if len(names) <= _MOST_TOLD else [*names[: _MOST_TOLD - 1], f"{len(names) - _MOST_TOLD} more nodes", names[-1]]
        edges = [connections.followers[node][after] for node, after in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
        why = [f"{' -> '.join([*shown, names[0]])}", f"by intermediate edges {', '.join(map(str, edges[:_MOST_TOLD]))}"]
        if len(component) > len(cycle):
            why.append(f"{len(component)} nodes lie on cycles that share nodes with this one")
        found = "an input of itself" if len(cycle) == 1 else f"on a cycle of {len(cycle)} nodes"
        yield Problem("graph.cycle", f"nodes[{cycle[0]}]", found, "a graph without cycles", tuple(why))


def _cyclic_components(followers: Mapping[int, Mapping[int, int]], count: int) -> list[set[int]]:
    """The strongly connected components that contain a cycle (Tarjan's algorithm, without recursion)."""
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    components = []
    for root in range(count):
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        waiting.add(root)
        path = [(root, iter(followers.get(root, ())))]
        while path:
            node, rest = path[-1]
            for after in rest:
                if after not in order:
                    order[after] = low[after] = len(order)
                    stack.append(after)
                    waiting.add(after)
                    path.append((after, iter(followers.get(after, ()))))
                    break
                if after in waiting:
                    low[node] = min(low[node], order[after])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    component = {stack.pop()}
                    while node not in component:
                        component.add(stack.pop())
                    waiting -= component
                    if len(component) > 1 or node in followers.get(node, ()):
                        components.append(component)
    return components


def _shortest_cycle(followers: Mapping[int, Mapping[int, int]], component: Iterable[int]) -> list[int]:
    """A shortest cycle through the component's first node that lies on one, in edge order."""
    inside = set(component)
    first = min(inside)
    before: dict[int, int] = {}
    queue = deque([first])
    while queue:
        node = queue.popleft()
        for after in followers.get(node, ()):
            if after == first:
                cycle = [node]
                while cycle[-1] != first:
                    cycle.append(before[cycle[-1]])
                return cycle[::-1]
            if after in inside and after not in before:
                before[after] = node
                queue.append(after)
    raise AssertionError("a component of several nodes holds a cycle through each of them")
