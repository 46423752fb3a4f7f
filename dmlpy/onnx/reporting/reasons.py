"""`format_reasons`: the reasons why nodes do not run on DirectML, or unfused, as text. Equal reasons are reported once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.naming import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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


def format_reasons(nodes: Sequence[NodeRecord], inputs: Mapping[str, Value]) -> list[str]:
    """A text for each reason, in the order of the first nodes that it holds for.

    Args:
        nodes: the nodes in the order in which they run.
        inputs: the inputs of the model whose sizes are not known, by name.
    """
    causes = _find_causes(nodes, inputs)
    found: dict[tuple[str, tuple[str, ...]], list[NodeRecord]] = {}
    alone: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
    for node in nodes:
        for what, problems in ((node.where, node.problems), ("alone", node.alone), ("older", node.older)):
            if not problems:
                continue
            own = tuple(line for problem in problems for line in _lines(problem))
            key = what, (_waits(problems) and causes[node.name]) or own
            found.setdefault(key, []).append(node)
            alone.setdefault(key, own)
    return [_format_reason(what, held, lines if len(held) > 1 else alone[what, lines]) for (what, lines), held in found.items()]


def _waits(problems: Sequence[Problem]) -> bool:
    """Whether a node waits only for the sizes of its inputs."""
    return all(problem.code == "onnx.dynamic" and problem.path.startswith("input") for problem in problems)


def _lines(problem: Problem) -> Iterator[str]:
    yield problem.headline()
    yield from (f"    {line}" for line in problem.details())


def _format_reason(what: str, nodes: Sequence[NodeRecord], lines: Sequence[str]) -> str:
    one, several = _VERBS[what]
    named = [f"{node.name!r} ({node.op_type})" for node in nodes[:_MOST_NAMED]]
    if len(nodes) == 1:
        head = f"node {named[0]} {one}"
    else:
        more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
        head = f"{len(nodes)} nodes {several}: {', '.join(named)}{more}"
    return "\n".join([printable(head), *(f"    {printable(line)}" for line in lines)])


def _find_causes(nodes: Sequence[NodeRecord], inputs: Mapping[str, Value]) -> dict[str, tuple[str, ...]]:
    """For each node, where the sizes that it waits for come from: the model's inputs, or nodes whose elements decide them."""
    roots: dict[str, dict[str, None]] = {}
    for name, value in inputs.items():
        wanted = [size or name for size in value.sizes or (None,) if not isinstance(size, int)]
        roots[name] = {_needed_size(symbol): None for symbol in wanted}
    known = {size for value in inputs.values() for size in value.sizes or () if isinstance(size, str)}
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        reached = {cause: None for name in node.inputs for cause in roots.get(name, ())}
        found[node.name] = tuple(reached)
        if not _waits((*node.problems, *node.alone)) or not reached:
            reached = {f"they need the sizes of what {node.name!r} ({node.op_type}) gives": None}
        for value in node.outputs:
            symbols = [size for size in ((None,) if value.sizes is None else value.sizes) if not isinstance(size, int)]
            roots[value.name] = {_needed_size(size): None for size in symbols if size in known} if known.issuperset(symbols) else reached
    return found


def _needed_size(symbol: str) -> str:
    return f"they need a size for {symbol!r}"
