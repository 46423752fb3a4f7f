"""A graph with branches."""

from __future__ import annotations

import numpy as np

import dmlpy as dml
from tests.support.tensors import tensor


def branches() -> dml.Graph:
    """x is read twice, once as another shape; one value is an output and read on; nodes are listed in another order than they run in."""
    g = dml.GraphBuilder("branches")
    x = g.input("x", tensor(2, 3, 4))
    elu = g.add(dml.ActivationEluDesc, "elu", input_tensor=x, alpha=0.5)
    flat = g.add(dml.ActivationTanhDesc, "tanh", input_tensor=x.viewed(tensor(6, 4)))
    g.output("flat", flat)
    g.output("rows", g.add(dml.ActivationSoftmax1Desc, "softmax", input_tensor=flat.viewed(tensor(2, 12)), axes=[1]))
    slope = g.constant("slope", np.full((2, 3, 4), 0.25, np.float32))
    g.output("y", g.add(dml.ActivationParameterizedReluDesc, "prelu", input_tensor=elu, slope_tensor=slope))
    graph = g.build()
    last = len(graph.nodes) - 1
    turned = {"to_node_index", "from_node_index"}
    edges = {
        member: [
            edge.replace(**{name: last - getattr(edge, name) for name in turned & type(edge).model_fields.keys()})
            for edge in getattr(graph, member)
        ]
        for member in ("input_edges", "output_edges", "intermediate_edges")
    }
    return graph.replace(nodes=graph.nodes[::-1], **edges)
