"""Graphs for tests."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.graphs import Graph, GraphBuilder

IMAGE = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3, 4, 4])
CHANNELS = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3, 1, 1])
OWNED = CHANNELS.replace(flags="OWNED_BY_DML")

SCALE, BIAS, NORM, RELU, SUM = range(5)
"""The nodes of `network`, in order."""


def network() -> Graph:
    """Every kind of node and edge: y = n + relu(n), with n a normalization whose statistics are owned inputs, scale and bias constants."""
    g = GraphBuilder("net")
    x, mean, variance = g.input("x", IMAGE), g.input("mean", OWNED), g.input("variance", OWNED)
    scale, bias = (g.constant(name, np.ones([1, 3, 1, 1], np.float32)) for name in ("scale", "bias"))
    tensors = {"mean_tensor": mean, "variance_tensor": variance, "scale_tensor": scale, "bias_tensor": bias}
    norm = g.add(dml.BatchNormalizationDesc, "norm", input_tensor=x, **tensors, spatial=True, epsilon=0.5)
    relu = g.add(dml.ActivationReluDesc, "relu", input_tensor=norm)
    g.output("y", g.add(dml.ElementWiseAddDesc, "sum", a_tensor=norm, b_tensor=relu))
    return g.build()


def large_network(nodes: int) -> Graph:
    """Branches of different sizes, so that few descs are equal."""
    g = GraphBuilder("large")
    branches = []
    for number in range(nodes // 10):
        value = g.input(f"x{number}", dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3, 4, 4 + number]))
        for layer in range(3):
            value = g.add(dml.ActivationEluDesc, f"elu {number}.{layer}", input_tensor=value, alpha=1 + layer + number / 4)
            other = g.add(dml.ActivationLinearDesc, f"linear {number}.{layer}", input_tensor=value, alpha=layer, beta=number)
            value = g.add(dml.ElementWiseAddDesc, f"sum {number}.{layer}", a_tensor=value, b_tensor=other)
        branches.append(g.add(dml.ActivationReluDesc, f"relu {number}", input_tensor=value))
    for number, branch in enumerate(branches):
        g.output(f"y{number}", branch)
    return g.build()


def random_network(seed: int) -> Graph:
    """A valid graph as a dump would hold it: nodes in the order of their edges, sizes written out, owned inputs last."""
    chosen = random.Random(seed)
    sizes = [chosen.randint(1, 4) for _ in range(chosen.randint(1, 4))]
    tensor = dml.TensorDesc(data_type=chosen.choice(["FLOAT32", "FLOAT16"]), sizes=sizes)
    tensor = tensor.replace(total_tensor_size_in_bytes=tensor.minimum_size_in_bytes)
    owned = tensor.replace(flags="OWNED_BY_DML")
    count = chosen.randint(1, 12)
    names = [f"in{index}" for index in range(chosen.randint(1, 3))]

    g = GraphBuilder()
    values: list[Any] = [g.input(name, tensor) for name in names]
    constants: list[Any] = []
    results = []
    for number in range(count):
        kind = chosen.choice(["elu", "relu", "add", "add", "raw", "owned"])
        operand = chosen.choice(values)
        if kind == "raw":
            data = np.frombuffer(chosen.randbytes(tensor.minimum_size_in_bytes), np.uint8)
            operand = g.constant(f"raw{number}", data, tensor)
        elif kind == "owned":
            operand = chosen.choice(constants) if constants and chosen.random() < 0.5 else g.input(f"owned{number}", owned)
            constants.append(operand)
        if kind == "add":
            desc: Any = dml.ElementWiseAddDesc
            tensors = {"a_tensor": operand, "b_tensor": chosen.choice(values)}
        else:
            desc = dml.ActivationEluDesc if kind == "elu" else dml.ActivationReluDesc
            tensors = {"input_tensor": operand} | ({"alpha": chosen.randint(-8, 8) / 4} if kind == "elu" else {})
        result = g.add(desc, f"{kind}{number}", **tensors, output_tensor=tensor)
        values.append(result)
        results.append(result)
    # What nobody reads is an output of the graph; so are some others.
    read = {(edge.from_node_index, edge.from_node_output_index) for edge in g.build().intermediate_edges}
    for number, value in enumerate(results):
        if (value.node, value.index) not in read or chosen.random() < 0.2:
            g.output(f"out{number}", value)
    return g.build()
