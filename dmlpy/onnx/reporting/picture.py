"""A report as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.graphs.picture import BROKEN, escape, escaped, label

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import graphviz

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.node_records import NodeRecord
    from dmlpy.onnx.reporting.partitions import Partition

_COLOURS = {"graph": "#e8f0fe", "late": "#f1ecfb", "host": "#fdecea", "alone": "#fff4e0"}


def draw(
    model: str,
    nodes: Sequence[NodeRecord],
    partitions: Iterable[Partition],
    inputs: Mapping[str, Value],
    outputs: Mapping[str, Value],
) -> graphviz.Digraph:
    """Draws a report: see `Report.to_graphviz`."""
    import graphviz  # needed by pictures only

    picture = graphviz.Digraph(name="model")
    picture.attr(label=escaped(model), labelloc="t", fontname="Helvetica")
    picture.attr("node", fontname="Helvetica", fontsize="11")
    picture.attr("edge", fontname="Helvetica", fontsize="9")
    sources: dict[str, str] = {}
    for index, (name, value) in enumerate(inputs.items()):
        sources[value.name] = f"input{index}"
        picture.node(f"input{index}", label([name, value.summary()]), shape="ellipse", style="filled", fillcolor="#e3f2fd")
    names = {node.name: f"node{index}" for index, node in enumerate(nodes)}
    records = {node.name: node for node in nodes}
    for index, partition in enumerate(partitions):
        with picture.subgraph(name=f"cluster{index}") as part:
            part.attr(label=partition.place, style="filled,rounded", color=_COLOURS[partition.place], fontname="Helvetica", fontsize="9")
            for name in partition.nodes:
                _node(part, names[name], records[name])
    for node in nodes:
        if node.stage is None:
            _node(picture, names[node.name], node)
        sources |= {value.name: names[node.name] for value in node.outputs}
    sizes = {value.name: value.summary() for node in nodes for value in node.outputs}
    for node in nodes:
        for given in node.inputs:
            if given in sources:
                picture.edge(sources[given], names[node.name], label=escaped(sizes.get(given, "")))
    for index, (name, value) in enumerate(outputs.items()):
        picture.node(f"output{index}", label([name, value.summary()]), shape="ellipse", style="filled", fillcolor="#e8f5e9")
        if value.name in sources:
            picture.edge(sources[value.name], f"output{index}")
    return picture


def _node(picture: graphviz.Digraph, name: str, node: NodeRecord) -> None:
    style = {"shape": "box", "style": "rounded"}
    if node.where == "folded":
        style = {"shape": "note", "color": "#808080", "fontcolor": "#808080"}
    elif node.where != "directml":
        text = "\\n".join(escape(problem.headline(), longest=400) for problem in node.problems[:8])
        style |= {"color": BROKEN, "fontcolor": BROKEN, "penwidth": "2", "tooltip": text}
    picture.node(name, label([node.name, node.op_type, *node.operators[:6]]), **style)
