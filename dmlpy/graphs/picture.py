"""A graph as a picture and as a table."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dmlpy.description.coercion import read_problems
from dmlpy.description.descs import OperatorDesc, show_attribute
from dmlpy.description.enums import TensorFlags
from dmlpy.description.markers import Slot
from dmlpy.description.tensors import TensorDesc
from dmlpy.graphs.desc import GraphDesc
from dmlpy.graphs.nodes import ConstantNode, Node
from dmlpy.messages.naming import c_member, c_path, plural, printable
from dmlpy.messages.problems import Problem
from dmlpy.messages.tables import Table

if TYPE_CHECKING:
    import graphviz

BROKEN = "#b00020"
_LONGEST = 60
_MOST_ATTRIBUTES = 6


def draw(graph: GraphDesc, problems: Iterable[Problem] = ()) -> graphviz.Digraph:
    """Draws a graph; see `Graph.to_graphviz`."""
    import graphviz  # needed by pictures only

    broken = _by_part(problems)
    picture = graphviz.Digraph(name="graph")
    picture.attr(label=escaped(graph.name or ""), labelloc="t", fontname="Helvetica")
    picture.attr("node", fontname="Helvetica", fontsize="11")
    picture.attr("edge", fontname="Helvetica", fontsize="9")
    for index in sorted({edge.graph_input_index for edge in graph.input_edges}):
        picture.node(f"input{index}", _name(graph.input_names, index, "input"), shape="ellipse", style="filled", fillcolor="#e3f2fd")
    for index in sorted({edge.graph_output_index for edge in graph.output_edges}):
        picture.node(f"output{index}", _name(graph.output_names, index, "output"), shape="ellipse", style="filled", fillcolor="#e8f5e9")
    for index, node in enumerate(graph.nodes):
        shape = {"shape": "note"} if isinstance(node, ConstantNode) else {"shape": "box", "style": "rounded"}
        picture.node(f"node{index}", label(_node_lines(index, node)), **shape, **_marks(broken.get(f"nodes[{index}]")))
    ends = {edge.to_node_index for edge in graph.input_edges} | {edge.from_node_index for edge in graph.output_edges}
    ends |= {index for edge in graph.intermediate_edges for index in (edge.from_node_index, edge.to_node_index)}
    for index in sorted(index for index in ends if not 0 <= index < len(graph.nodes)):
        picture.node(f"node{index}", f"no node {index}", shape="box", style="dashed", color=BROKEN, fontcolor=BROKEN)
    for index, edge in enumerate(graph.input_edges):
        reader = _slot(graph, edge.to_node_index, edge.to_node_input_index, output=False)
        _edge(
            picture,
            (f"input{edge.graph_input_index}", f"node{edge.to_node_index}"),
            None,
            reader,
            edge.name,
            broken.get(f"input_edges[{index}]"),
        )
    for index, way_out in enumerate(graph.output_edges):
        writer = _slot(graph, way_out.from_node_index, way_out.from_node_output_index, output=True)
        _edge(
            picture,
            (f"node{way_out.from_node_index}", f"output{way_out.graph_output_index}"),
            writer,
            None,
            way_out.name,
            broken.get(f"output_edges[{index}]"),
        )
    for index, link in enumerate(graph.intermediate_edges):
        writer = _slot(graph, link.from_node_index, link.from_node_output_index, output=True)
        reader = _slot(graph, link.to_node_index, link.to_node_input_index, output=False)
        _edge(
            picture,
            (f"node{link.from_node_index}", f"node{link.to_node_index}"),
            writer,
            reader,
            link.name,
            broken.get(f"intermediate_edges[{index}]"),
        )
    return picture


def svg(graph: GraphDesc) -> str | None:
    """The picture as SVG text; None where the program `dot` is not installed or fails."""
    import graphviz

    if shutil.which("dot") is None:
        return None
    try:
        return str(draw(graph).pipe(format="svg", encoding="utf-8"))
    except (graphviz.ExecutableNotFound, subprocess.CalledProcessError, OSError):
        return None


def tabulate(graph: GraphDesc, problems: Iterable[Problem] = ()) -> Table:
    """Makes a table of a graph; see `Graph.table`."""
    sources: dict[tuple[int, int], str] = {}
    targets: dict[tuple[int, int], list[str]] = defaultdict(list)
    for edge in graph.input_edges:
        sources[edge.to_node_index, edge.to_node_input_index] = _plain(graph.input_names, edge.graph_input_index, "input")
    for link in graph.intermediate_edges:
        sources[link.to_node_index, link.to_node_input_index] = f"node {link.from_node_index}"
        targets[link.from_node_index, link.from_node_output_index].append(f"node {link.to_node_index}")
    for way_out in graph.output_edges:
        target = _plain(graph.output_names, way_out.graph_output_index, "output")
        targets[way_out.from_node_index, way_out.from_node_output_index].append(target)

    broken = _by_part(problems)
    rows: list[tuple[str, ...]] = []
    marked = []
    for index, node in enumerate(graph.nodes):
        if f"nodes[{index}]" in broken:
            marked.append(index)
        fed = [_row_slot(slot, sources.get((index, place), "no edge"), "from") for place, slot in enumerate(node.input_slots())]
        if isinstance(node, ConstantNode):
            read = [f"{node.data_size} bytes to {', '.join(targets[index, 0]) or 'no edge'}"]
        else:
            slots = enumerate(node.output_slots())
            read = [_row_slot(slot, ", ".join(targets[index, place]) or "no edge", "to") for place, slot in slots]
        rows.append((str(index), node.name or "", node.kind(), "\n".join(filter(None, fed)), "\n".join(filter(None, read))))
    title = f"{graph.name or graph.c_name}: {plural(graph.input_count, 'input')}, {plural(graph.output_count, 'output')}"
    return Table(title, ("node", "name", "operator", "inputs", "outputs"), tuple(rows), frozenset(marked))


def _row_slot(slot: Slot, other: str, preposition: str) -> str:
    if slot.tensor is None:
        return ""
    return f"{slot.place} {slot.tensor.data_type} {list(slot.tensor.sizes)} {preposition} {other}"


def _by_part(problems: Iterable[Problem]) -> Mapping[str, list[Problem]]:
    """The problems by node and edge: `nodes[7]`."""
    by_part: dict[str, list[Problem]] = defaultdict(list)
    for problem in read_problems(problems, "Graph"):
        by_part[problem.path.partition("]")[0] + "]"].append(problem)
    return by_part


def _slot(graph: GraphDesc, node: int, index: int, *, output: bool) -> Slot | None:
    """The slot at an end of an edge; None where it leads nowhere."""
    if not 0 <= node < len(graph.nodes):
        return None
    slots = graph.nodes[node].output_slots() if output else graph.nodes[node].input_slots()
    return slots[index] if 0 <= index < len(slots) else None


def _edge(
    picture: graphviz.Digraph, ends: tuple[str, str], writer: Slot | None, reader: Slot | None, name: str | None, broken: Any
) -> None:
    given, taken = (None if slot is None else slot.tensor for slot in (writer, reader))
    texts = [_tensor_text(tensor) for tensor in (given, taken) if tensor is not None]
    # One label if both ends have the same text.
    lines = [name or "", " to ".join(dict.fromkeys(texts))]
    slots = (("from", writer), ("to", reader))
    lines.append(" ".join(f"{word} {c_path(slot.place)}" for word, slot in slots if slot is not None and slot.place not in _PLAIN))
    picture.edge(*ends, label=label(lines), **_marks(broken))


_PLAIN = ("input_tensor", "output_tensor", "data")
"""Slots that carry no more information than an edge's direction."""


def _tensor_text(tensor: TensorDesc) -> str:
    strides = "" if tensor.is_packed else f" strides {list(tensor.strides or ())}"
    owned = ", owned" if tensor.flags is TensorFlags.OWNED_BY_DML else ""
    measurable = tensor.strides is None or len(tensor.strides) == len(tensor.sizes)
    size = f", {tensor.size_in_bytes} bytes" if measurable else ""
    return f"{tensor.data_type} {list(tensor.sizes)}{strides}{size}{owned}"


def _node_lines(index: int, node: Node) -> list[str]:
    lines = [f"{index} {node.kind()}", *([node.name] if node.name else [])]
    if isinstance(node, ConstantNode):
        return [*lines, f"{node.data_size} bytes"]
    return [*lines, *_attribute_lines(node.operator)]


def _attribute_lines(desc: OperatorDesc) -> list[str]:
    names = [name for name in desc.attribute_names() if getattr(desc, name) not in (None, ())]
    lines = [f"{c_member(name)} {show_attribute(getattr(desc, name))}" for name in names[:_MOST_ATTRIBUTES]]
    return [*lines, *(["..."] if len(names) > _MOST_ATTRIBUTES else [])]


def _marks(problems: list[Problem] | None) -> dict[str, str]:
    if not problems:
        return {}
    text = "\\n".join(escape(problem.headline(), longest=400) for problem in problems[:8])
    return {"color": BROKEN, "fontcolor": BROKEN, "penwidth": "2", "tooltip": text}


def _plain(names: tuple[str, ...], index: int, what: str) -> str:
    return names[index] if 0 <= index < len(names) and names[index] else f"{what} {index}"


def _name(names: tuple[str, ...], index: int, what: str) -> str:
    return escaped(_plain(names, index, what))


def escape(text: str, longest: int = _LONGEST) -> str:
    """Text from files: one line, not too long, and nothing in it has a meaning in DOT."""
    if len(text) > longest:
        text = text[: longest - 3] + "..."
    return printable(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')


def escaped(text: str) -> str:
    """Text from files as a label of one line."""
    return _literal(escape(text))


def label(texts: Iterable[str]) -> str:
    """Lines from files as a label."""
    return _literal("\\n".join(escape(text, longest=120) for text in texts if text))


def _literal(text: str) -> str:
    """Text that is not an HTML label, even in angle brackets."""
    import graphviz

    literal: str = graphviz.nohtml(text)
    return literal
