"""Fuzzes graphs: hostile indices, sizes and types in `dml.Graph`.

    python -m tests.fuzzing.graphs --seconds 60 --seed 1

Promises: a graph is refused with an error of dmlpy's own, or it is made; then checking, drawing, showing and storing it raise nothing, and
compiling it nothing else. What compiles and is small runs. A graph that is stored equals the one that is read.
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.fuzzing import hostile
from tests.fuzzing.tally import FuzzRun, run
from tests.support.graphs import cases as graph_cases
from tests.support.graphs.random_graphs import random_graph

MAX_TEXT = 10**6
MAX_RUN_BYTES = 2**20
"""Of all tensors of a graph that is run."""
LEVELS = list(dml.FeatureLevel)
EDGES = {
    "input_edges": ("graph_input_index", "to_node_index", "to_node_input_index"),
    "output_edges": ("from_node_index", "from_node_output_index", "graph_output_index"),
    "intermediate_edges": ("from_node_index", "from_node_output_index", "to_node_index", "to_node_input_index"),
}


def mutated(fuzz: FuzzRun) -> str:
    """A valid graph with members that contradict it."""
    chance = fuzz.chance
    graph = _valid(chance.randrange(60))
    changes: dict[str, Any] = {}
    for _ in range(chance.choice([1, 1, 2, 4])):
        _change(fuzz, graph, changes)
    found: list[str] = []
    made: list[dml.Graph] = []
    with fuzz.answers(found):
        made.append(graph.replace(**changes))
    return used(fuzz, made[0]) if made else found[0]


@cache
def _valid(number: int) -> dml.Graph:
    return random_graph(number, 6) if number % 2 else graph_cases.random_network(number)


def _change(fuzz: FuzzRun, graph: dml.Graph, changes: dict[str, Any]) -> None:
    chance = fuzz.chance
    name = chance.choice([*EDGES, *EDGES, "nodes", "nodes", "nodes", "input_count", "output_count", "input_names", "input_tensors", "name"])
    now = changes.get(name, getattr(graph, name))
    items = list(now) if isinstance(now, list) or (isinstance(now, tuple) and now is getattr(graph, name)) else []
    way = chance.random()
    if not items or way < 0.1:
        changes[name] = hostile.value(chance)
    elif way < 0.2:
        del items[chance.randrange(len(items))]
        changes[name] = items
    elif way < 0.3:
        items.insert(chance.randrange(len(items)), chance.choice(items))
        changes[name] = items
    else:
        index = chance.randrange(len(items))
        items[index] = _other_node(fuzz, items[index]) if name == "nodes" else _other_edge(fuzz, name, items[index])
        changes[name] = items


def _other_edge(fuzz: FuzzRun, name: str, edge: Any) -> Any:
    if name not in EDGES or type(edge) is dict:
        return hostile.value(fuzz.chance)
    data = {member: getattr(edge, member) for member in EDGES[name] if hasattr(edge, member)}
    data[fuzz.chance.choice(EDGES[name])] = _index(fuzz)
    return data


def _index(fuzz: FuzzRun) -> Any:
    """An index, right, wrong, or a name where one may be."""
    chance = fuzz.chance
    way = chance.random()
    if way < 0.5:
        return chance.randrange(8)
    if way < 0.7:
        return chance.choice(["relu0", "n1", "in0", "InputTensor", "input_tensors[1]", "output_tensor", "input_tensors[99999999999]", "["])
    return chance.choice(hostile.INTEGERS) if way < 0.9 else hostile.value(chance)


def _other_node(fuzz: FuzzRun, node: Any) -> Any:
    """The node with another tensor, or another one."""
    chance = fuzz.chance
    way = chance.random()
    if way < 0.1:
        return hostile.value(chance)
    if way < 0.4 or not isinstance(node, dml.OperatorNode):
        return _node(fuzz)
    desc = node.operator
    slots = [slot for slot in (*desc.input_slots(), *desc.output_slots()) if slot.tensor is not None and slot.index is None]
    if not slots:
        return _node(fuzz)
    slot = chance.choice(slots)
    try:
        return node.replace(operator=desc.replace(**{slot.field.name: _tensor(fuzz, slot.tensor)}))
    except dml.DescError:
        return _node(fuzz)


def _tensor(fuzz: FuzzRun, now: Any) -> dml.TensorDesc:
    """A tensor with another type, other sizes, strides or flags: all of them fit the struct."""
    chance = fuzz.chance
    sizes = [chance.choice([1, 1, 2, 3, 4, 7, 2**16, 2**31, 2**32 - 1]) for _ in range(chance.choice([len(now.sizes)] * 3 + [1, 5, 8]))]
    members: dict[str, Any] = {}
    for name in chance.sample(["data_type", "sizes", "strides", "flags", "total_tensor_size_in_bytes"], chance.choice([1, 1, 2])):
        members[name] = {
            "data_type": chance.choice(list(dml.DataType)),
            "sizes": sizes,
            "strides": [chance.choice([0, 1, 2, 3, 24, 2**31, 2**32 - 1]) for _ in now.sizes],
            "flags": chance.choice(["NONE", "OWNED_BY_DML"]),
            "total_tensor_size_in_bytes": chance.choice([4, 24, 2**20, 2**63, 2**64 - 4]),
        }[name]
    return now.replace(**members)


def _node(fuzz: FuzzRun) -> Any:
    chance = fuzz.chance
    if chance.random() < 0.2:
        return dml.ConstantNode(data=bytes(chance.choice([0, 1, 4, 96])), name=chance.choice([None, "", "relu0", "é\0"]))
    return dml.OperatorNode(operator=sample(OPERATORS[chance.choice(list(OPERATORS))]), name=chance.choice([None, "", "n1", "\x1b[31m"]))


def drawn(fuzz: FuzzRun) -> str:
    """A graph of operators of all kinds, joined at random; now and then each input and output has its edge."""
    chance = fuzz.chance
    nodes = [_node(fuzz) for _ in range(chance.choice([0, 1, 2, 5]))]
    ends: dict[str, Any] = {name: [] for name in EDGES}
    if chance.random() < 0.7:
        _join(fuzz, nodes, ends)
    for _ in range(chance.choice([0, 0, 1, 3])):
        name = chance.choice(list(EDGES))
        ends[name].append({member: _index(fuzz) for member in EDGES[name]})
    counts = {"input_count": len(ends["input_edges"]), "output_count": len(ends["output_edges"])}
    if chance.random() < 0.2:
        counts[chance.choice(list(counts))] = _index(fuzz)
    found: list[str] = []
    made: list[dml.Graph] = []
    with fuzz.answers(found):
        made.append(dml.Graph(nodes=nodes, **counts, **ends))
    return used(fuzz, made[0]) if made else found[0]


def _join(fuzz: FuzzRun, nodes: Sequence[Any], ends: dict[str, Any]) -> None:
    """An edge for each tensor of each node, from the graph's inputs or, of any type and sizes, from another node."""
    sources: list[tuple[int, int]] = []
    for number, node in enumerate(nodes):
        for index, slot in enumerate(node.input_slots()):
            if slot.tensor is not None and sources and fuzz.chance.random() < 0.3:
                ends["intermediate_edges"].append(
                    dict(zip(EDGES["intermediate_edges"], (*fuzz.chance.choice(sources), number, index), strict=True))
                )
            elif slot.tensor is not None:
                count = len(ends["input_edges"])
                ends["input_edges"].append(dict(zip(EDGES["input_edges"], (count, number, index), strict=True)))
        written = [(number, index) for index, slot in enumerate(node.output_slots()) if isinstance(node, dml.ConstantNode) or slot.tensor]
        for end in written:
            count = len(ends["output_edges"])
            ends["output_edges"].append(dict(zip(EDGES["output_edges"], (*end, count), strict=True)))
        sources += written


def used(fuzz: FuzzRun, graph: dml.Graph) -> str:
    """All that can be asked of a graph, valid or not; and the error when it is compiled."""
    chance = fuzz.chance
    fuzz.promise(dml.Graph.from_dict(json.loads(graph.to_json())) == graph, "a graph that is read as another")
    fuzz.promise(pickle.loads(pickle.dumps(graph)) == graph, "a copy that differs")
    problems = graph.check(chance.choice(LEVELS), strict=chance.random() < 0.3, lenient=chance.random() < 0.3)
    for text in (str(graph), graph.to_dot(problems), graph.table(problems).to_html(), "".join(map(str, problems))):
        fuzz.promise(len(text) < MAX_TEXT, "a graph's text of more than a million characters")
    graph.lowest_level()
    found: list[str] = []
    with fuzz.answers(found):
        _run(dml.compile(graph, "numpy"))
    return found[0]


def _run(graph: Any) -> None:
    """Runs what was compiled on ones, if it is small."""
    tensors = graph.inputs | graph.outputs
    needed = sum(tensor.size_in_bytes for tensor in tensors.values()) + graph.binding_properties.temporary_resource_size
    if needed < MAX_RUN_BYTES:
        given = {name: np.ones(tensor.sizes, tensor.data_type.numpy) for name, tensor in graph.inputs.items() if tensor.data_type.bits > 4}
        owned = {name: given.pop(name) for name in graph.prepared_inputs if name in given}
        with np.errstate(all="ignore"):
            (graph.prepare(**owned) if owned else graph)(**given)


KINDS = {"mutated": mutated, "drawn": drawn}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer; the status of the process."""
    return run(arguments, __doc__, KINDS)


if __name__ == "__main__":
    sys.exit(main())
