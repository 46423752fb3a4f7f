"""`GraphDesc`: DML_GRAPH_DESC, the operators of a graph and the edges between them, parsed from every form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import FailFast

from dmlpy.description.coercion import Uint, brief, default, entries, is_whole, to_json_text
from dmlpy.description.json_objects import read_json
from dmlpy.description.structs import Struct
from dmlpy.description.tensors import TensorDesc
from dmlpy.graphs.nodes import Edge, InputEdge, IntermediateEdge, Node, OutputEdge, node_label, read_node
from dmlpy.messages.naming import c_path, did_you_mean, plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.sized_copies import SizedCopy

_EDGES: Mapping[str, type[Edge]] = {"input_edges": InputEdge, "output_edges": OutputEdge, "intermediate_edges": IntermediateEdge}
_TENSORS = ("input_tensors", "output_tensors")
_MOST_UNREADABLE = 100
"""The most nodes, or edges of a kind, that are reported one by one: nobody reads more, and the rest of a file may be as long."""
_MOST_COMPARED = 500
"""The most names that a mistyped one is compared with."""


class GraphDesc(Struct):
    """DML_GRAPH_DESC: operators joined by edges; compared and serialized to JSON as one value.

    Wherever an edge holds an index a name may be given: of a node, of a graph input or output (`input_names`, `output_names`), or the
    field of a slot (`"WeightTensor"`, `"input_tensors[1]"`). The graph stores the index.
    """

    c_name: ClassVar[str] = "DML_GRAPH_DESC"
    c_counts: ClassVar[Mapping[str, str | tuple[str, ...]]] = {
        "NodeCount": "nodes",
        "InputEdgeCount": "input_edges",
        "OutputEdgeCount": "output_edges",
        "IntermediateEdgeCount": "intermediate_edges",
    }

    input_count: Uint
    """The number of the graph's inputs. Optional if `input_names` is given."""

    output_count: Uint
    """The number of the graph's outputs. Optional if `output_names` is given."""

    nodes: tuple[Node, ...]
    """The operator and constant nodes. Edges refer to them by their place here."""

    input_edges: tuple[InputEdge, ...] = default(())
    """The edges from graph inputs to nodes."""

    output_edges: tuple[OutputEdge, ...] = default(())
    """The edges from nodes to graph outputs."""

    intermediate_edges: tuple[IntermediateEdge, ...] = default(())
    """The edges from nodes to nodes."""

    # Only the first invalid name is reported: a list may hold millions.
    input_names: Annotated[tuple[str, ...], FailFast()] = default(())
    """A name for each input of the graph, or none at all. DirectML's struct has no such member."""

    output_names: Annotated[tuple[str, ...], FailFast()] = default(())
    """A name for each output of the graph, or none at all. DirectML's struct has no such member."""

    input_tensors: Annotated[tuple[TensorDesc, ...], FailFast()] = default(())
    """How the memory of each input is bound, or none at all: then as the node reads it that reaches farthest. DirectML's struct has no
    such member.
    """

    output_tensors: Annotated[tuple[TensorDesc, ...], FailFast()] = default(())
    """How the memory of each output is bound, or none at all: then as its node writes it. DirectML's struct has no such member."""

    name: str | None = default(None)
    """The name of the graph in messages."""

    if not TYPE_CHECKING:

        def __init__(self, /, **members: Any) -> None:
            for count, names in (("input_count", "input_names"), ("output_count", "output_names")):
                given = members.get(names, members.get(c_path(names)))
                if not members.keys() & {count, c_path(count)} and _is_list(given) and given:
                    members[count] = len(given)
            super().__init__(**members)

    def replace(self, **members: Any) -> Self:
        """Returns a copy with some members changed; both spellings are accepted. New edges may name the nodes of the copy."""
        named = {self.member_named(spelling) or spelling: value for spelling, value in members.items()}
        if len(named) < len(members):
            return super().replace(**members)  # reports what is given twice
        return type(self)(**self._members() | named)

    @classmethod
    def _by_python_name(cls, members: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
        values, problems = super()._by_python_name(members)
        for member in ("nodes", *_EDGES, "input_names", "output_names", *_TENSORS):
            if member in values and isinstance(values[member], Struct):
                problems.append(Problem("field.form", member, brief(values[member]), "a list", remedy="put it into a list: [...]"))
                values[member] = ()
            elif member in values and not _is_list(given := values[member]):
                try:
                    values[member] = entries(given) if _is_read_once(given) else given
                except Exception as error:  # an iterator of the caller's, which may raise anything or never end
                    values[member] = ()
                    problems.append(Problem("field.form", member, brief(given), "a list", (f"reading it raises {type(error).__name__}",)))
        for member in _TENSORS:
            if _is_list(values.get(member)):
                values[member] = _read_all(member, values[member], _read_tensor, problems)
        if _is_list(values.get("nodes")):
            values["nodes"] = _read_all("nodes", values["nodes"], read_node, problems)
        places = _EdgeNames(values)
        for member, kind in _EDGES.items():
            if _is_list(values.get(member)):
                values[member] = _read_all(member, values[member], lambda data, kind=kind: places.edge(kind, data), problems)
        return values, problems

    def to_dict(self) -> dict[str, Any]:
        """The graph as JSON data in the C spelling, with counts, without members that have their default."""
        data: dict[str, Any] = {"Name": self.name} if self.name is not None else {}
        data |= {"InputCount": self.input_count, "OutputCount": self.output_count}
        data |= {c_path(member): list(names) for member in ("input_names", "output_names") if (names := getattr(self, member))}
        data |= {c_path(member): [item.to_dict() for item in tensors] for member in _TENSORS if (tensors := getattr(self, member))}
        for member, counter in self.counts_before().items():
            data |= {counter: len(getattr(self, member)), c_path(member): [item.to_dict() for item in getattr(self, member)]}
        return data

    def to_json(self, *, indent: int | None = 2) -> str:
        """The graph as JSON text."""
        return to_json_text(self.to_dict(), indent, f"{self.c_name}.to_json")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Builds a graph from JSON data.

        What `to_dict` writes, or shorter: types may drop their prefix; `Type` and the nesting in `Desc` may be left out where they are
        redundant; counts too; and an edge may hold names where it has indices:

            {"InputNames": ["x"], "OutputNames": ["y"],
             "Nodes": [{"Type": "ACTIVATION_RELU", "Name": "relu", "Desc": {"InputTensor": {...}, "OutputTensor": {...}}}],
             "InputEdges": [{"GraphInputIndex": "x", "ToNodeIndex": "relu", "ToNodeInputIndex": "InputTensor"}],
             "OutputEdges": [{"FromNodeIndex": "relu", "FromNodeOutputIndex": 0, "GraphOutputIndex": "y"}]}

        Raises:
            DescError: everything that cannot be read, at once. `check` finds the rules that the graph breaks.
        """
        if not isinstance(data, Mapping):
            raise DescError(cls.c_name, [Problem("field.form", "", brief(data), "an object with Nodes and edges")])
        if wrong := [key for key in data if not isinstance(key, str)]:
            raise DescError(cls.c_name, [Problem("field.form", "", f"the key {brief(wrong[0])}", "a member's name")])
        return cls(**data)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Builds a graph from JSON text.

        Raises:
            DescError: as `from_dict`, or the text is not JSON.
        """
        return cls.from_dict(read_json(text, cls.c_name))

    def label(self, index: int) -> str:
        """The name of a node in messages: `node 7 'norm' (MEAN_VARIANCE_NORMALIZATION1)`, and its origin, if that is known.

        Raises:
            DescError: the graph has no such node.
        """
        if not is_whole(index, len(self.nodes) - 1):
            expected = f"0 to {len(self.nodes) - 1}" if self.nodes else "none: the graph has no nodes"
            raise DescError(f"{self.c_name}.label", [Problem("value.range", "index", brief(index), expected)])
        origin = self.origins[index] if index < len(self.origins) else ""
        return node_label(index, self.nodes[index]) + (f" {origin}" if origin else "")

    @property
    def origins(self) -> tuple[str, ...]:
        """The origin of each node for messages, such as `at net.py:12`; empty if unknown.

        It is not a member: graphs that differ in it are equal, and JSON and pickles leave it out.
        """
        known: tuple[str, ...] = self.__dict__.get("_origins", ())
        return known

    def with_origins(self, origins: Iterable[str]) -> Self:
        """Returns an equal graph whose messages name where each node comes from."""
        graph = self.replace()
        graph.__dict__["_origins"] = tuple(origins)
        return graph

    def attach_template(self, copy: SizedCopy, source: GraphDesc) -> None:
        """Notes that this graph is a copy of one with symbolic sizes."""
        self.__dict__["_template"] = copy, source

    @property
    def template(self) -> tuple[SizedCopy, GraphDesc] | None:
        """The copy that this graph is a part of, and the graph with symbolic sizes; None if it is not a copy."""
        return self.__dict__.get("_template")

    def input_label(self, index: int) -> str:
        """The name of a graph's input in messages: `graph input 2 'mask'`."""
        return f"graph input {index}{' ' + brief(self.input_names[index]) if index < len(self.input_names) else ''}"

    def output_label(self, index: int) -> str:
        """The name of a graph's output in messages: `graph output 0 'logits'`."""
        return f"graph output {index}{' ' + brief(self.output_names[index]) if index < len(self.output_names) else ''}"


def _read_tensor(given: Any) -> TensorDesc:
    return given if isinstance(given, TensorDesc) else TensorDesc.from_dict(given)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_read_once(value: Any) -> bool:
    """Whether a value is an iterator, or may hold more entries than anyone waits for."""
    return isinstance(value, Iterator | range) or (isinstance(value, Iterable) and type(value).__module__ not in ("builtins", "numpy"))


def _read_all(member: str, items: Iterable[Any], read: Any, problems: list[Problem]) -> tuple[Any, ...]:
    """Parses the items, with None in place of those that cannot be read; their problems are added to the list."""
    values: list[Any] = []
    unreadable = 0
    for index, item in enumerate(items):
        if unreadable >= _MOST_UNREADABLE:
            values.append(None)
            continue
        try:
            values.append(read(item))
        except DescError as error:
            problems += [problem.under(f"{member}[{index}]") for problem in error.problems]
            values.append(None)
            unreadable += 1
    return tuple(values)


class _Unresolved(int):
    """A placeholder for an index whose name could not be resolved."""


@dataclass(frozen=True)
class _EdgeNames:
    """Resolves the names in edges."""

    values: Mapping[str, Any]

    @cached_property
    def nodes(self) -> Sequence[Node | None]:
        """The nodes, with None in place of those that cannot be read."""
        given = self.values.get("nodes")
        return given if _is_list(given) else (None,)  # type: ignore[return-value]

    @cached_property
    def lacks_nodes(self) -> bool:
        """Whether some node cannot be read."""
        return any(node is None for node in self.nodes)

    def edge(self, kind: type[Edge], data: Any) -> Edge:
        """The edge with indices in place of names."""
        if isinstance(data, kind):
            return data
        given = kind.members_of(data)
        members = {kind.member_named(spelling) or spelling: value for spelling, value in given.items()}
        resolvers: Mapping[str, Callable[[str], int]] = {
            "graph_input_index": lambda name: _index_of("graph input", self._names["input_names"], name),
            "graph_output_index": lambda name: _index_of("graph output", self._names["output_names"], name),
            "from_node_index": self._node,
            "to_node_index": self._node,
            "from_node_output_index": lambda name: self._slot(members.get("from_node_index"), name, output=True),
            "to_node_input_index": lambda name: self._slot(members.get("to_node_index"), name, output=False),
        }
        problems = []
        for member, resolve in resolvers.items():
            if isinstance(name := members.get(member), str):
                try:
                    members[member] = resolve(name)
                except DescError as error:
                    problems += [problem.under(member) for problem in error.problems]
                    members[member] = _Unresolved()
        # In the given spelling, so that problems are reported in it.
        try:
            edge = kind(**{spelling: members[kind.member_named(spelling) or spelling] for spelling in given})
        except DescError as error:
            reported = {problem.path for problem in problems}
            problems += [problem for problem in error.problems if problem.path not in reported]
        if self.lacks_nodes:
            # The names may belong to nodes that cannot be read, whose problems are reported.
            problems = [problem for problem in problems if problem.code != "graph.reference" or problem.path.startswith("graph")]
        if problems:
            raise DescError(kind.c_name, problems)
        return edge

    def _node(self, name: str) -> int:
        return _index_of("node", self._names["nodes"], name)

    def _slot(self, index: Any, name: str, *, output: bool) -> int:
        if isinstance(index, _Unresolved) or not isinstance(index, int):
            return 0  # the problem of the node's index reports it
        index = int.__index__(index)  # without the methods of a derived class
        if not 0 <= index < len(self.nodes):
            expected = f"an index: there is no node {brief(index)} whose slot is meant"
            raise DescError("edge", [Problem("graph.reference", "", brief(name), expected)])
        node = self.nodes[index]
        if node is None:
            return 0
        # In the given spelling, so that the nearest name is suggested in it.
        in_c = name[:1].isupper()
        key = (index, output, in_c)
        if key not in self._slots:
            places = [slot.place for slot in (node.output_slots() if output else node.input_slots())]
            self._slots[key] = _indices([c_path(place) for place in places] if in_c else places)
        return _index_of(f"{'output' if output else 'input'} of {node_label(index, node)}", self._slots[key], name)

    @cached_property
    def _names(self) -> Mapping[str, Mapping[str, Sequence[int]]]:
        """The indices of each name, per list."""
        names = {member: _indices(self.values.get(member)) for member in ("input_names", "output_names")}
        return names | {"nodes": _indices([node and node.name for node in self.nodes])}

    @cached_property
    def _slots(self) -> dict[tuple[int, bool, bool], Mapping[str, Sequence[int]]]:
        """The indices of the slots that edges have named so far, by node, side and spelling."""
        return {}


def _indices(names: Any) -> Mapping[str, Sequence[int]]:
    """The indices of each name in a list; empty if there is no list."""
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(names if _is_list(names) else ()):
        if isinstance(name, str):
            indices.setdefault(name, []).append(index)
    return indices


def _index_of(what: str, names: Mapping[str, Sequence[int]], name: str) -> int:
    indices = names.get(name, ())
    if len(indices) == 1:
        return indices[0]
    given = f"{brief(name)}, the name of {plural(len(indices), what)}" if indices else brief(name)
    expected = f"an index, or the name of one {what}" if names else f"an index: no {what} has a name"
    remedy = None if indices else did_you_mean(name, list(names)[:_MOST_COMPARED])
    raise DescError("edge", [Problem("graph.reference", "", given, expected, remedy=remedy)])
