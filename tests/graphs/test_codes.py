"""Every code that `dmlpy.graphs` can emit is reached: by a row of another module's table, or by a row of the one below."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dmlpy as dml
from dmlpy.graphs import Graph, GraphBuilder, load_serialized
from dmlpy.graphs.flatbuffer import MAX_BYTES
from dmlpy.graphs.serialized import MAX_NODES
from tests.support.graphs import flatbuffer_writer as writer
from tests.support.graphs.cases import IMAGE, network
from tests.support.graphs.flatbuffer_writer import Attribute, Constant, Dump
from tests.support.graphs.rules import RULES
from tests.support.graphs.serialized import DAMAGED, WRONG, elu, find_union, relu
from tests.support.graphs.unreadable import UNREADABLE

SOURCE = Path(dml.__file__).with_name("graphs")


def cycle(_: Path) -> Any:
    node = {"Type": "ACTIVATION_RELU", "InputTensor": IMAGE, "OutputTensor": IMAGE}
    link = {"FromNodeIndex": 0, "FromNodeOutputIndex": 0, "ToNodeIndex": 0, "ToNodeInputIndex": 0}
    return Graph.from_dict({"InputCount": 0, "OutputCount": 0, "Nodes": [node], "IntermediateEdges": [link]}).check()


def null_slot(_: Path) -> Any:
    graph = network()
    gemm = dml.GEMMDesc(a_tensor=IMAGE, b_tensor=IMAGE, output_tensor=IMAGE, trans_a="NONE", trans_b="NONE", alpha=1, beta=0)
    edge = {"GraphInputIndex": 0, "ToNodeIndex": 5, "ToNodeInputIndex": 2}
    return graph.replace(nodes=[*graph.nodes, gemm], input_edges=[*graph.input_edges, edge]).check()


def of_builder(call: Callable[[GraphBuilder, Any], Any]) -> Callable[[Path], Any]:
    def act(_: Path) -> Any:
        g = GraphBuilder()
        return call(g, g.input("x", IMAGE))

    return act


def with_constant(name: str) -> Callable[[Path], Any]:
    return lambda folder: load_serialized(writer.write(Dump([Constant("c", "c", name), relu(0, "c")], [], ["y"])), folder).graph


def link_out(folder: Path) -> Any:
    (folder / "outside.bin").write_bytes(bytes(24))
    (folder / "inside").mkdir()
    (folder / "inside" / "link.bin").symlink_to(folder / "outside.bin")
    return with_constant("link")(folder / "inside")


def too_large(folder: Path) -> Any:
    with (folder / "large").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    return load_serialized(folder / "large").graph


def vanished(folder: Path) -> Any:
    (folder / "c.bin").write_bytes(bytes(24))
    dump = load_serialized(writer.write(Dump([Constant("c", "c", "c"), relu(0, "c")], [], ["y"])), folder)
    (folder / "c.bin").unlink()
    return dump.read_constant("c")


def too_long(_: Path) -> Any:
    return load_serialized(bytes(MAX_BYTES + 1)).graph  # zeros, which take no memory until they are read


def unknown_type(_: Path) -> Any:
    data = bytearray(writer.write(elu(Attribute("Alpha", "Float32", 1.0))))
    data[find_union(bytes(data))] = 14
    return load_serialized(bytes(data)).graph


# What returns or raises problems, by one of their codes.
OTHERS: dict[str, Callable[[Path], Any]] = {
    "graph.cycle": cycle,
    "graph.slot": null_slot,
    "graph.view": of_builder(lambda g, x: x.reshape(7)),
    "graph.value": of_builder(lambda g, x: g.add(dml.ActivationEluDesc, input_tensor=x, alpha=x)),
    "value.range": lambda _: network().label(99),
    "level.graph": lambda _: network().check("2_0"),
    "level.constant": lambda _: network().check("6_1"),
    "serialized.constant": lambda _: load_serialized(writer.write(Dump([relu()], ["x"], ["y"]))).read_constant("x"),
    "serialized.nodes": lambda _: load_serialized(writer.write(Dump([relu()] * (MAX_NODES + 1), ["x"], ["y"]))).graph,
    "flatbuffer.limit": too_long,
    "flatbuffer.union": unknown_type,
    "file.name": with_constant("../c"),
    "file.missing": with_constant("c"),
    "file.outside": link_out,
    "file.size": too_large,
    "file.unreadable": vanished,
}


def codes_in(source: str) -> Iterator[str]:
    """Codes that a module can emit: the first argument of each call that makes or raises a problem, where it is a text."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="Problem" | "_error" | "_graph_error"), args=[ast.Constant(value=str(code)), *_]):
                yield code
            case ast.Call(func=ast.Attribute(attr="refuse"), args=[ast.Constant(value=str(code)), _, _, _, _]):
                yield f"flatbuffer.{code}"


@pytest.mark.parametrize("code", OTHERS)
def test_every_code_is_reached(code: str, tmp_path: Path) -> None:
    try:
        problems = OTHERS[code](tmp_path)
    except dml.DescError as error:
        problems = error.problems
    assert code in {problem.code for problem in problems}


def test_every_code_of_the_source_has_a_row() -> None:
    emitted = {code for path in SOURCE.glob("*.py") for code in codes_in(path.read_text(encoding="utf-8"))}
    rows = {code for _, code, *_ in (*RULES.values(), *WRONG.values(), *DAMAGED.values())}
    rows |= {code for _, told in UNREADABLE.values() for code, _ in told}
    assert emitted - rows - set(OTHERS) == set()
    assert set(OTHERS) <= emitted
    assert {"graph.total_size", "serialized.edge", "flatbuffer.bounds"} <= emitted
    assert len(emitted) > 35
