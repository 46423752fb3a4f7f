"""Small ONNX models made to cost as much as they can before they run: in nodes, in elements that are known ahead, in bytes and in names.

Each maker takes the folder of the model, where it may write external data.
None of them harms other software: what they ask for is refused or left to the model's run before anyone computes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from onnx.helper import make_function, make_node, make_opsetid, make_sparse_tensor, make_tensor, make_tensor_value_info

from tests.support.onnx.models import model

Maker = Callable[[Path], "ModelProto | bytes"]
BIG = 8 * 10**6
"""Characters or bytes that take up nearly all of a file of 10 MB."""


def constants(**given: Any) -> dict[str, Any]:
    """Initializers: integers are INT64, floats FLOAT."""
    return {name: np.asarray(value, np.float32 if np.asarray(value).dtype.kind == "f" else None) for name, value in given.items()}


def chain(op_type: str, count: int, start: str, *others: str, **attributes: Any) -> list[NodeProto]:
    """Nodes of which each reads the one before it; the last gives y."""
    names = [start, *(f"v{index}" for index in range(1, count)), "y"]
    return [make_node(op_type, [names[index], *others], [names[index + 1]], **attributes) for index in range(count)]


def loop_body(nodes: Sequence[NodeProto], result: str, sizes: Sequence[int] = (2,)) -> GraphProto:
    """The body of a Loop with a state s, which `nodes` make `result` of."""
    body = GraphProto(name="body")
    body.input.extend([make_tensor_value_info("i", TensorProto.INT64, []), make_tensor_value_info("c", TensorProto.BOOL, [])])
    body.input.append(make_tensor_value_info("s", TensorProto.FLOAT, sizes))
    body.output.extend([make_tensor_value_info("c", TensorProto.BOOL, []), make_tensor_value_info(result, TensorProto.FLOAT, sizes)])
    body.node.extend(nodes)
    return body


def scan_body(nodes: Sequence[NodeProto], result: str) -> GraphProto:
    """The body of a Scan of x with a state s."""
    body = GraphProto(name="body")
    body.input.extend([make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("s", "e")])
    body.output.extend([make_tensor_value_info(result, TensorProto.FLOAT, [2])])
    body.node.extend(nodes)
    return body


RELU = [make_node("Relu", ["s"], ["t"])]


def loops(count: int, trips: int, **more: Any) -> ModelProto:
    """Loops one behind the other."""
    nodes = [
        make_node("Loop", ["n", "", f"v{index}" if index else "x"], [f"v{index + 1}"], body=loop_body(RELU, "t"), **more)
        for index in range(count)
    ]
    return model(nodes, {"x": [2]}, [f"v{count}"], constants=constants(n=trips))


def nested_loops(depth: int, trips: int) -> ModelProto:
    """Loops within each other."""
    inner = loop_body(RELU, "t")
    for _ in range(depth - 1):
        inner = loop_body([make_node("Loop", ["n", "", "s"], ["t"], body=inner)], "t")
    return model([make_node("Loop", ["n", "", "x"], ["y"], body=inner)], {"x": [2]}, ["y"], constants=constants(n=trips))


def counted_loop(trips: int) -> ModelProto:
    """A Loop whose condition is computed, and always known."""
    body = loop_body([*RELU, make_node("Less", ["i", "far"], ["goes_on"])], "t")
    body.output[0].name = "goes_on"
    return model([make_node("Loop", ["n", "", "x"], ["y"], body=body)], {"x": [2]}, ["y"], constants=constants(n=trips, far=2**62))


def scans(depth: int, length: int) -> ModelProto:
    """Scans within each other, over the same input."""
    body = scan_body([make_node("Add", ["s", "e"], ["t"])], "t")
    for _ in range(depth - 1):
        body = scan_body([make_node("Scan", ["s", "x"], ["t"], body=body, num_scan_inputs=1)], "t")
    node = make_node("Scan", ["x0", "x"], ["y"], body=body, num_scan_inputs=1)
    return model([node], {"x0": [2], "x": [length, 2]}, ["y"])


def scan_over_batch(batch: int, steps: int) -> ModelProto:
    """Opset 8's Scan, with a batch in front."""
    body = scan_body([make_node("Add", ["s", "e"], ["t"])], "t")
    node = make_node("Scan", ["", "x0", "x"], ["y"], body=body, num_scan_inputs=1)
    return model([node], {"x0": [batch, 2], "x": [batch, steps, 2]}, ["y"], opset=8)


def doubling_functions(depth: int) -> ModelProto:
    """Functions of which each calls the one below it twice."""
    built = model([make_node(f"f{depth}", ["x"], ["y"], domain="own")], {"x": [2]}, ["y"], domains={"own": 1})
    for index in range(depth + 1):
        called = {"op_type": f"f{index - 1}", "domain": "own"} if index else {"op_type": "Relu"}
        body = [make_node(inputs=[f"a{step}"], outputs=[f"a{step + 1}"], **called) for step in range(2)]
        built.functions.append(make_function("own", f"f{index}", ["a0"], ["a2"], body, [make_opsetid("", 21), make_opsetid("own", 1)]))
    return built


def function_with_constant(calls: int, size: int) -> ModelProto:
    """A function that holds much, called often."""
    nodes = [make_node("f", [f"v{index}" if index else "x"], [f"v{index + 1}"], domain="own") for index in range(calls)]
    built = model(nodes, {"x": [2]}, [f"v{calls}"], domains={"own": 1})
    large = make_tensor("w", TensorProto.UINT8, [size], bytes(size), raw=True)
    body = [make_node("Constant", [], ["w"], value=large), make_node("Relu", ["a"], ["b"])]
    built.functions.append(make_function("own", "f", ["a"], ["b"], body, [make_opsetid("", 21)]))
    return built


def texts(op_type: str, count: int, text: str, **attributes: Any) -> ModelProto:
    """Texts that grow from node to node."""
    names = ["v0", *(f"v{index}" for index in range(1, count)), "y"]
    nodes = [make_node(op_type, [names[index]] * 2, [names[index + 1]], **attributes) for index in range(count)]
    built = model(nodes, {}, ["y"], opset=20)
    built.graph.initializer.append(make_tensor("v0", TensorProto.STRING, [1], [text.encode()]))
    return built


def texts_in_loop(trips: int) -> ModelProto:
    """A text that doubles in each iteration."""
    body = loop_body([make_node("StringConcat", ["s", "s"], ["t"])], "t", [1])
    for value in (body.input[2], body.output[1]):
        value.type.tensor_type.elem_type = TensorProto.STRING
    built = model([make_node("Loop", ["n", "", "v0"], ["y"], body=body)], {}, ["y"], opset=20, constants=constants(n=trips))
    built.graph.initializer.append(make_tensor("v0", TensorProto.STRING, [1], [b"ab"]))
    return built


def split_texts(count: int) -> ModelProto:
    """One text of many parts among many short ones."""
    built = model([make_node("StringSplit", ["v0"], ["y", "n"], delimiter=",")], {}, ["y"], opset=20)
    built.graph.initializer.append(make_tensor("v0", TensorProto.STRING, [count], [b"," * count, *[b""] * (count - 1)]))
    return built


def sparse(count: int) -> ModelProto:
    """Sparse tensors with an element each."""
    built = model([make_node("Sum", [f"s{index}" for index in range(count)], ["y"])], {}, ["y"])
    for index in range(count):
        values, indices = make_tensor(f"s{index}", TensorProto.FLOAT, [1], [1.0]), make_tensor("i", TensorProto.INT64, [1], [0])
        built.graph.sparse_initializer.append(make_sparse_tensor(values, indices, [2**26]))
    return built


def made_ahead(node: NodeProto, count: int = 1, **given: Any) -> ModelProto:
    """Nodes that are known ahead, and each as large as the others."""
    nodes = []
    for index in range(count):
        own = NodeProto()
        own.CopyFrom(node)
        own.output[0] = f"y{index}"
        nodes.append(own)
    return model(nodes, {}, [f"y{index}" for index in range(count)], constants=constants(**given))


def grown_sequence(count: int) -> ModelProto:
    """A sequence that each node makes longer."""
    nodes = [make_node("SequenceConstruct", ["x"], ["v0"])]
    nodes += [make_node("SequenceInsert", [f"v{index}", "x"], [f"v{index + 1}"]) for index in range(count)]
    nodes.append(make_node("SequenceLength", [f"v{count}"], ["y"]))
    return model(nodes, {"x": [2]}, ["y"], types={"y": TensorProto.INT64})


def branches(name: str, count: int, *, known: bool) -> ModelProto:
    """A node of control flow with this name around many nodes."""
    bodies = {}
    for which in ("then_branch", "else_branch"):
        body = GraphProto(name=which)
        body.node.extend(chain("Relu", count, "x"))
        body.output.append(make_tensor_value_info("y", TensorProto.FLOAT, [2]))
        bodies[which] = body
    node = make_node("If", ["q"], ["z"], name=name, **bodies)
    given = {"x": [2]} if known else {"x": [2], "q": []}
    return model([node], given, ["z"], types={"q": TensorProto.BOOL}, constants=constants(q=True) if known else {})


def many_branches(count: int, *, known: bool) -> ModelProto:
    """Short Ifs, one behind the other."""
    nodes = []
    for index in range(count):
        bodies = {}
        for which in ("then_branch", "else_branch"):
            body = GraphProto(name=which)
            body.node.append(make_node("Relu", [f"v{index}" if index else "x"], ["t"]))
            body.output.append(make_tensor_value_info("t", TensorProto.FLOAT, [2]))
            bodies[which] = body
        nodes.append(make_node("If", ["q"], [f"v{index + 1}"], **bodies))
    given = {"x": [2]} if known else {"x": [2], "q": []}
    return model(nodes, given, [f"v{count}"], types={"q": TensorProto.BOOL}, constants=constants(q=True) if known else {})


def nested_branches(depth: int) -> ModelProto:
    """Ifs on an input within each other, each in both branches of the one around it once."""
    inner = GraphProto(name="inner")
    inner.node.append(make_node("Relu", ["x"], ["z"]))
    inner.output.append(make_tensor_value_info("z", TensorProto.FLOAT, [2]))
    other = GraphProto()
    other.CopyFrom(inner)
    for level in range(depth):
        outer = GraphProto(name=f"level{level}")
        outer.node.append(make_node("If", ["q"], ["z"], then_branch=inner, else_branch=other))
        outer.output.append(make_tensor_value_info("z", TensorProto.FLOAT, [2]))
        inner = outer
    inner.node[0].name = "outermost"
    return model([*inner.node], {"x": [2], "q": []}, ["z"], types={"q": TensorProto.BOOL})


def turns(count: int) -> ModelProto:
    """Nodes on DirectML and on the host by turns."""
    nodes = []
    for index in range(count):
        nodes.append(make_node("Relu", [f"v{index}" if index else "x"], [f"r{index}"]))
        nodes.append(make_node("Det", [f"r{index}"], [f"d{index}"]))
        nodes.append(make_node("Add", [f"d{index}", "x"], [f"v{index + 1}"]))
    return model(nodes, {"x": [2, 2]}, [f"v{count}"])


def named_loop(size: int) -> ModelProto:
    """A Loop with a long name: each of its nodes repeats it."""
    built = loops(1, 2000)
    built.graph.node[0].name = "n" * size
    return built


def attribute_in_loop(size: int) -> ModelProto:
    """A Loop in whose body a node has a long attribute: each iteration copies it."""
    return _with_attribute(loops(1, 2000), size)


def _with_attribute(built: ModelProto, size: int) -> ModelProto:
    built.graph.node[0].attribute[0].g.node[0].doc_string = "d" * size
    return built


def symbols(size: int, nodes: int) -> ModelProto:
    """A size with a long name, which what is behind it repeats."""
    return model(chain("Relu", nodes, "x"), {"x": ["n" * size]}, ["y"])


def external(folder: Path, count: int, size: int, *, distinct: bool = True) -> ModelProto:
    """Tensors in a file that is nothing but a hole."""
    with (folder / "hole.bin").open("wb") as file:
        file.truncate(size)
    nodes = [make_node("Sum", [f"w{index}" for index in range(count)], ["y"])]
    built = model(nodes, {}, ["y"])
    for index in range(count):
        tensor = TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        tensor.dims.append((size - (4 * index if distinct else 0)) // 4)
        for key, value in {"location": "hole.bin", "offset": 4 * index if distinct else 0, "length": 4 * tensor.dims[0]}.items():
            tensor.external_data.add(key=key, value=str(value))
        built.graph.initializer.append(tensor)
    return built


def empty_messages(field: int, size: int) -> bytes:
    """A graph of nothing but empty messages of one field."""
    payload = bytes([field << 3 | 2, 0]) * (size // 2)
    length, head = len(payload), b""
    while length:
        head, length = head + bytes([length & 127 | (128 if length > 127 else 0)]), length >> 7
    return bytes([7 << 3 | 2]) + head + payload


def operands(op_type: str, count: int) -> ModelProto:
    """A node that reads or makes very many tensors."""
    if op_type == "Concat":
        return model([make_node("Concat", ["x"] * count, ["y"], axis=0)], {"x": [2]}, ["y"])
    return model([make_node("Split", ["x"], [f"y{index}" for index in range(count)], num_outputs=count)], {"x": [count]}, ["y0"])


def inputs(count: int) -> ModelProto:
    """Very many inputs that nobody reads."""
    return model([make_node("Relu", ["x0"], ["y"])], {f"x{index}": [2] for index in range(count)}, ["y"])


FILES: Mapping[str, Maker] = {
    "a loop of 4000": lambda _: loops(1, 4000),
    "a loop of 1900": lambda _: loops(1, 1900),
    "a loop of 2^62": lambda _: loops(1, 2**62),
    "a loop of 2^62 with a condition": lambda _: counted_loop(2**62),
    "100 loops of 4000": lambda _: loops(100, 4000),
    "100 loops of 10": lambda _: loops(100, 10),
    "3 loops within each other": lambda _: nested_loops(3, 4000),
    "4 short loops within each other": lambda _: nested_loops(4, 10),
    "a scan of 4000": lambda _: scans(1, 4000),
    "3 scans within each other": lambda _: scans(3, 1000),
    "a scan over a batch": lambda _: scan_over_batch(10**9, 1),
    "a scan over a batch without steps": lambda _: scan_over_batch(10**9, 0),
    "functions that double": lambda _: doubling_functions(14),
    "a function with a large constant": lambda _: function_with_constant(2000, BIG),
    "texts that double": lambda _: texts("StringConcat", 40, "ab"),
    "long texts that double": lambda _: texts("StringConcat", 40, "a" * 10**6),
    "texts that double in a loop": lambda _: texts_in_loop(40),
    "a text of many parts": lambda _: split_texts(20_000),
    "sparse tensors": lambda _: sparse(21),
    "Expand": lambda _: made_ahead(make_node("Expand", ["a", "s"], [""]), 8, a=1.0, s=[2**13, 2**13]),
    "ConstantOfShape": lambda _: made_ahead(make_node("ConstantOfShape", ["s"], [""]), 200, s=[2**11, 2**11]),
    "outer products": lambda _: made_ahead(make_node("Mul", ["a", "b"], [""]), 200, a=np.ones((2000, 1)), b=np.ones((1, 2000))),
    "MatMul": lambda _: made_ahead(make_node("MatMul", ["a", "a"], [""]), 100, a=np.ones((1000, 1000))),
    "Resize to 2^40": lambda _: made_ahead(make_node("Resize", ["a", "", "", "s"], [""]), a=np.ones((1, 1)), s=[1, 2**40]),
    "Resize": lambda _: made_ahead(make_node("Resize", ["a", "", "", "s"], [""], mode="cubic"), 20, a=np.ones((2, 2)), s=[2000, 2000]),
    "Conv": lambda _: made_ahead(make_node("Conv", ["a", "b"], [""]), a=np.ones((1, 1, 800, 800)), b=np.ones((1, 1, 100, 100))),
    "boxes": lambda _: made_ahead(make_node("NonMaxSuppression", ["a", "b"], [""]), a=np.ones((1, 3000, 4)), b=np.ones((1, 1, 3000))),
    "a grid": lambda _: made_ahead(make_node("GridSample", ["a", "b"], [""]), a=np.ones((1, 1, 99, 99)), b=np.ones((1, 300, 300, 2))),
    "regions": lambda _: made_ahead(
        make_node("RoiAlign", ["a", "b", "c"], [""], sampling_ratio=1000, output_height=50, output_width=50),
        a=np.ones((1, 1, 99, 99)),
        b=np.ones((99, 4)),
        c=np.zeros(99, np.int64),
    ),
    "a sequence that grows": lambda _: grown_sequence(2000),
    "a branch with a long name": lambda _: branches("n" * 4 * 10**6, 20_000, known=True),
    "a loop with a long name": lambda _: named_loop(2 * 10**6),
    "a loop with a name of 4000 characters": lambda _: named_loop(4000),
    "a loop with a long attribute": lambda _: attribute_in_loop(4 * 10**6),
    "a long symbol": lambda _: symbols(4 * 10**6, 500),
    "12,000 branches": lambda _: many_branches(12_000, known=True),
    "300 branches on an input": lambda _: many_branches(300, known=False),
    "branches within each other": lambda _: nested_branches(15),
    "100 turns between host and DirectML": lambda _: turns(100),
    "300 constants": lambda _: model(chain("Relu", 300, "w"), {}, ["y"], constants=constants(w=np.ones(3))),
    "20,000 nodes": lambda _: model(chain("Relu", 20_000, "x"), {"x": [2]}, ["y"]),
    "external data in holes": lambda folder: external(folder, 8, 2**27),
    "external data in one large hole": lambda folder: external(folder, 1, 2**27),
    "empty nodes": lambda _: empty_messages(1, 9_800_000),
    "empty initializers": lambda _: empty_messages(5, 4_000_000),
    "empty types": lambda _: empty_messages(13, 4_000_000),
    "Concat of 60,000": lambda _: operands("Concat", 60_000),
    "Split into 60,000": lambda _: operands("Split", 60_000),
    "100,000 inputs": lambda _: inputs(100_000),
    "10,000 inputs": lambda _: inputs(10_000),
}
"""Makers by what they make."""


def write(name: str, folder: Path) -> Path:
    """Writes a model of `FILES`."""
    made = FILES[name](folder)
    path = folder / "model.onnx"
    path.write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return path
