"""`Cause`: why nodes do not run on DirectML, or not fused: each reason once, with the nodes that only follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dmlpy.messages.naming import printable
from dmlpy.onnx.reporting.work import SIZE_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.node_records import NodeRecord

_MOST_NAMED = 4
"""The most nodes that are named for one reason."""
_VERBS = {
    "deferred": ("is compiled when the sizes of its inputs are known", "are compiled when the sizes of their inputs are known"),
    "host": ("falls back to the host", "fall back to the host"),
    "nowhere": ("runs nowhere", "run nowhere"),
    "invalid": ("is not valid", "are not valid"),
    "refused": (
        "is given to DirectML, which refuses it: the session fails with 80070057",
        "are given to DirectML, which refuses them: the session fails with 80070057",
    ),
    "alone": ("runs outside of fused graphs", "run outside of fused graphs"),
    "older": ("fails in older releases of ONNX Runtime", "fail in older releases of ONNX Runtime"),
}
_BY_SIZES = frozenset({"onnx.dynamic", "onnx.cpu_preferred", "onnx.constant_input"})
"""The codes of problems that nodes have because sizes are not known."""

Roots: TypeAlias = "tuple[str, ...]"
"""The sources of unknown sizes: `size NAME` for an open one of the model's inputs, `node NAME` for a node whose elements decide them."""


@dataclass(frozen=True)
class Cause:
    """A reason why nodes do not run on DirectML, or not fused.

    Attributes:
        what: what the reason does to its nodes: a place of `NodeRecord.where`, `alone` or `older`.
        nodes: the nodes that it holds for, in the order in which they run.
        lines: the reason and its remedy.
        followers: the nodes that wait for sizes which these nodes decide, in order.
        sizes: the open sizes whose absence is the reason; empty for other reasons.
    """

    what: str
    nodes: tuple[NodeRecord, ...]
    lines: tuple[str, ...]
    followers: tuple[NodeRecord, ...] = ()
    sizes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many nodes it concerns."""
        return len(self.nodes) + len(self.followers)

    def headline(self) -> str:
        """The nodes, and what becomes of them, in one line."""
        if self.sizes:
            needed = f"a size for {_shortened([repr(size) for size in self.sizes])}"
            if len(self.nodes) == 1:
                return printable(f"node {_named(self.nodes)} needs {needed}")
            return printable(f"{len(self.nodes)} nodes need {needed}: {_named(self.nodes)}")
        one, several = _VERBS[self.what]
        head = f"node {_named(self.nodes)} {one}" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes {several}: {_named(self.nodes)}"
        return printable(head)

    def __str__(self) -> str:
        lines = [self.headline(), *(f"    {printable(line)}" for line in self.lines)]
        if self.followers:
            verb = "node after it waits" if len(self.followers) == 1 else "nodes after it wait"
            if len(self.nodes) > 1:
                verb = verb.replace("it", "them", 1)
            lines.append(printable(f"    {len(self.followers)} {verb} for its sizes: {_named(self.followers)}"))
        return "\n".join(lines)


def find_causes(nodes: Sequence[NodeRecord], inputs: Mapping[str, Value], solved: Collection[str] = ()) -> tuple[Cause, ...]:
    """The causes, that of most nodes first.

    Args:
        nodes: the nodes in the order in which they run.
        inputs: the inputs of the model whose sizes are not known, by name.
        solved: the nodes that have no reason as soon as the open sizes are known, if that was tried.
    """
    roots = _find_roots(nodes, inputs)
    by_problem: dict[tuple[str, tuple[str, ...]], list[NodeRecord]] = {}
    waiting: dict[Roots, list[NodeRecord]] = {}
    unsized: list[NodeRecord] = []
    for node in nodes:
        for what, problems in ((node.where, node.problems), ("alone", node.alone), ("older", node.older)):
            if not problems:
                continue
            if what != "older" and node.name in solved:
                unsized.append(node)
            elif what != "older" and _waits(node, problems) and roots[node.name]:
                waiting.setdefault(roots[node.name], []).append(node)
            else:
                by_problem.setdefault((what, tuple(line for problem in problems for line in _lines(problem))), []).append(node)
    causes = [Cause(what, tuple(members), lines, _followers(members, waiting)) for (what, lines), members in by_problem.items()]
    if by_sizes := _unique([*unsized, *(node for key, members in waiting.items() if any(map(_is_size, key)) for node in members)]):
        causes.append(_of_open_sizes(by_sizes, inputs))
    for key, members in waiting.items():
        if members and not any(map(_is_size, key)):
            lines = tuple(f"they need the sizes that {name!r} decides" for name in map(_name, key))
            causes.append(Cause("alone" if members[0].alone else members[0].where, tuple(members), lines))
    order = {node.name: index for index, node in enumerate(nodes)}
    return tuple(sorted(causes, key=lambda cause: (-cause.count, order[cause.nodes[0].name])))


def _of_open_sizes(nodes: Sequence[NodeRecord], inputs: Mapping[str, Value]) -> Cause:
    symbols = [size or name for name, value in inputs.items() for size in value.sizes or (None,) if not isinstance(size, int)]
    remedy = "remedy: pass them to dmlpy.onnx.load (sizes=...), or --size to dmlpy onnx check; ONNX Runtime takes free dimension overrides"
    return Cause("deferred", tuple(nodes), (remedy,), (), tuple(dict.fromkeys(symbols)))


def _followers(nodes: Sequence[NodeRecord], waiting: dict[Roots, list[NodeRecord]]) -> tuple[NodeRecord, ...]:
    """The nodes that wait for sizes which only these nodes decide. They leave those that wait."""
    names = {_of_node(node.name) for node in nodes}
    following = [members for key, members in waiting.items() if names.issuperset(key)]
    nodes = tuple(node for members in following for node in members)
    for members in following:
        members.clear()
    return nodes


def _unique(nodes: Sequence[NodeRecord]) -> list[NodeRecord]:
    return list({id(node): node for node in nodes}.values())


def _waits(node: NodeRecord, problems: Sequence[Problem]) -> bool:
    """Whether a node waits only for the sizes of its inputs."""
    if node.op_type in SIZE_OPERATORS and node.domain == "":
        return True
    return all(problem.code in _BY_SIZES and (problem.path.startswith("input") or not problem.path) for problem in problems)


def _lines(problem: Problem) -> Iterator[str]:
    yield problem.headline()
    yield from (f"    {line}" for line in problem.details())


def _named(nodes: Sequence[NodeRecord]) -> str:
    return _shortened([f"{node.name!r} ({node.op_type})" for node in nodes])


def _shortened(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST_NAMED} more" if len(texts) > _MOST_NAMED else ""
    return ", ".join(texts[:_MOST_NAMED]) + more


def _find_roots(nodes: Sequence[NodeRecord], inputs: Mapping[str, Value]) -> dict[str, Roots]:
    """For each node, where the sizes that it waits for come from: the model's inputs, or nodes whose elements decide them."""
    roots: dict[str, dict[str, None]] = {}
    for name, value in inputs.items():
        wanted = [size or name for size in value.sizes or (None,) if not isinstance(size, int)]
        roots[name] = {_of_size(symbol): None for symbol in wanted}
    known = {size for value in inputs.values() for size in value.sizes or () if isinstance(size, str)}
    roots_of: dict[str, Roots] = {}
    for node in nodes:
        reached = {cause: None for name in node.inputs for cause in roots.get(name, ())}
        roots_of[node.name] = tuple(reached)
        if not _waits(node, (*node.problems, *node.alone)) or not reached:
            reached = {_of_node(node.name): None}
        for value in node.outputs:
            symbols = [size for size in ((None,) if value.sizes is None else value.sizes) if not isinstance(size, int)]
            if _computes_sizes(node):
                roots[value.name] = reached
            else:
                roots[value.name] = {_of_size(size): None for size in symbols if size in known} if known.issuperset(symbols) else reached
    return roots_of


def _computes_sizes(node: NodeRecord) -> bool:
    """Whether the elements that a node gives are computed from sizes, so that they wait for these although their own sizes are known."""
    return (node.op_type in SIZE_OPERATORS and node.domain == "") or any(problem.code == "onnx.cpu_preferred" for problem in node.problems)


def _of_size(symbol: str) -> str:
    return f"size {symbol}"


def _of_node(name: str) -> str:
    return f"node {name}"


def _is_size(root: str) -> bool:
    return root.startswith("size ")


def _name(root: str) -> str:
    return root.partition(" ")[2]
