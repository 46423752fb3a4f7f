"""Models whose inputs have other sizes in each run, with what they are given for some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info

from tests.support.onnx.models import model

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(23)


def normal(*sizes: int) -> Array:
    return RNG.standard_normal(sizes).astype(np.float32)


@dataclass(frozen=True)
class OpenModel:
    """A model and what its runs are given.

    Attributes:
        proto: the model.
        numbers: the numbers that its sizes follow from.
        given: its inputs for one of them.
    """

    proto: ModelProto
    numbers: Sequence[int]
    given: Callable[[int], Mapping[str, Array]]


HEADS, HEAD = 2, 4
WIDTH = HEADS * HEAD


def decoder(layers: int = 2, *, tokens: int | str = 1) -> OpenModel:
    """Attention over a cache of keys and values that grows by a token in each run."""
    constants: dict[str, Array] = {
        "embedding": normal(9, WIDTH),
        "head_sizes": np.asarray([1, -1, HEADS, HEAD], np.int64),
        "whole_sizes": np.asarray([1, -1, WIDTH], np.int64),
        "scale": np.asarray(0.5, np.float32),
        "ones": np.ones(WIDTH, np.float32),
        "logits": normal(WIDTH, 9),
    }
    inputs: dict[str, Any] = {"ids": [1, tokens]}
    nodes, outputs, x = [make_node("Gather", ["embedding", "ids"], ["x"])], ["y"], "x"
    for layer in range(layers):
        of = f"layer{layer}/".__add__
        for name in ("q", "k", "v", "o", "f"):
            constants[of(f"w{name}")] = normal(WIDTH, WIDTH) / 2
        inputs |= {of("past_k"): [1, HEADS, "past", HEAD], of("past_v"): [1, HEADS, "past", HEAD]}
        nodes.append(make_node("LayerNormalization", [x, "ones"], [of("n")], name=of("norm")))
        for name in ("q", "k", "v"):
            nodes.append(make_node("MatMul", [of("n"), of(f"w{name}")], [of(f"{name}1")], name=of(f"{name}_product")))
            nodes.append(make_node("Reshape", [of(f"{name}1"), "head_sizes"], [of(f"{name}2")], name=of(f"{name}_heads")))
            nodes.append(make_node("Transpose", [of(f"{name}2")], [of(f"{name}3")], name=of(f"{name}_turn"), perm=[0, 2, 1, 3]))
        nodes += [
            make_node("Concat", [of("past_k"), of("k3")], [of("keys")], name=of("grow_k"), axis=2),
            make_node("Concat", [of("past_v"), of("v3")], [of("values")], name=of("grow_v"), axis=2),
            make_node("Transpose", [of("keys")], [of("turned")], name=of("turn"), perm=[0, 1, 3, 2]),
            make_node("MatMul", [of("q3"), of("turned")], [of("scores")], name=of("scores")),
            make_node("Mul", [of("scores"), "scale"], [of("scaled")], name=of("scaled")),
            make_node("Softmax", [of("scaled")], [of("weights")], name=of("softmax"), axis=-1),
            make_node("MatMul", [of("weights"), of("values")], [of("read")], name=of("read")),
            make_node("Transpose", [of("read")], [of("back")], name=of("back"), perm=[0, 2, 1, 3]),
            make_node("Reshape", [of("back"), "whole_sizes"], [of("whole")], name=of("whole")),
            make_node("MatMul", [of("whole"), of("wo")], [of("out")], name=of("out")),
            make_node("Add", [x, of("out")], [of("sum")], name=of("sum")),
            make_node("MatMul", [of("sum"), of("wf")], [of("wide")], name=of("wide")),
            make_node("Relu", [of("wide")], [of("y")], name=of("relu")),
        ]
        outputs += [of("keys"), of("values")]
        x = of("y")
    nodes.append(make_node("MatMul", [x, "logits"], ["y"], name="head"))

    def given(past: int) -> dict[str, Array]:
        count = 1 if tokens == 1 else 1 + past % 2 if tokens == "both" else 1
        found: dict[str, Array] = {"ids": RNG.integers(0, 9, (1, count))}
        return found | {name: normal(1, HEADS, past, HEAD) for name in inputs if name != "ids"}

    proto = model(nodes, inputs, outputs, types={"ids": TensorProto.INT64}, constants=constants)
    return OpenModel(proto, [3, 0, 7, 1, 12], given)


def _layers(source: str, name: str, count: int, constants: dict[str, Array]) -> list[Any]:
    """Products and activations, which do not depend on any open size: enough of them for the others to be compiled separately."""
    nodes, last = [], source
    for index in range(count):
        constants[f"w{index}"] = normal(4, 4)
        made = name if index == count - 1 else f"{name}_{index}"
        nodes += [
            make_node("MatMul", [last, f"w{index}"], [f"{made}_product"]),
            make_node("Tanh", [f"{made}_product"], [made]),
        ]
        last = made
    return nodes


def _beside(
    nodes: Sequence[Any], outputs: Sequence[str], constants: dict[str, Array], given: Callable[[int], Any], **more: Any
) -> OpenModel:
    """Nodes of open sizes after a net of known ones, whose output `net` [3, 4] they read."""
    own = dict(constants)
    net = _layers("z", "net", 2 * len(nodes) + 2, own)
    inputs = {"z": [3, 4], **more.pop("inputs")}
    proto = model([*net, *nodes], inputs, outputs, constants=own, **more)
    return OpenModel(proto, [4, 1, 9, 2, 10], lambda number: {"z": normal(3, 4), **given(number)})


def _integers(*numbers: int) -> Array:
    return np.asarray(numbers, np.int64)


def shape_arithmetic() -> OpenModel:
    """Shape, Gather, Concat and Reshape: what they compute is another constant for each size."""
    nodes = [
        make_node("Shape", ["x"], ["shape"]),
        make_node("Gather", ["shape", "first"], ["rows"]),
        make_node("Mul", ["rows", "two"], ["twice"]),
        make_node("Concat", ["twice", "minus"], ["wanted"], axis=0),
        make_node("Reshape", ["x", "wanted"], ["halves"]),
        make_node("ReduceSum", ["net", "minus"], ["sums"], keepdims=0),
        make_node("ReduceMax", ["sums"], ["most"], keepdims=0),
        make_node("Add", ["halves", "most"], ["y"]),
    ]
    constants = {"first": _integers(0), "two": _integers(2), "minus": _integers(-1)}
    return _beside(nodes, ["y", "net"], constants, lambda rows: {"x": normal(rows, 4)}, inputs={"x": ["rows", 4]})


def chosen_rows() -> OpenModel:
    """Sizes that the inputs' sizes do not determine: the number of rows depends on elements."""
    nodes = [
        make_node("TopK", ["x", "count"], ["largest", "places"], axis=0),
        make_node("MatMul", ["largest", "net"], ["y"]),
    ]

    def given(count: int) -> dict[str, Array]:
        return {"x": normal(5, 3), "count": _integers(count)}

    return _beside(nodes, ["y"], {}, given, inputs={"x": ["rows", 3], "count": [1]}, types={"count": TensorProto.INT64})


def clamped_slices() -> OpenModel:
    """Ends that lie within some of the sizes and behind others, and rows that are repeated only if there is one."""
    nodes = [
        make_node("Slice", ["x", "begin", "end"], ["front"]),
        make_node("Expand", ["x", "expanded"], ["wide"]),
        make_node("MatMul", ["front", "net"], ["y"]),
    ]
    constants = {"begin": _integers(0), "end": _integers(5), "expanded": _integers(1, 1)}
    return _beside(nodes, ["y", "wide"], constants, lambda rows: {"x": normal(rows, 3)}, inputs={"x": ["rows", 3]})


def branches() -> OpenModel:
    """An If whose condition follows from a size."""

    def branch(operator: str, name: str) -> Any:
        return make_graph([make_node(operator, ["x"], [name])], name, [], [make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [
        make_node("Shape", ["x"], ["shape"]),
        make_node("ReduceMax", ["shape"], ["longest"], keepdims=0),
        make_node("Greater", ["longest", "limit"], ["is_long"]),
        make_node("If", ["is_long"], ["chosen"], then_branch=branch("Relu", "a"), else_branch=branch("Neg", "b")),
        make_node("MatMul", ["chosen", "net"], ["y"]),
    ]
    return _beside(nodes, ["y"], {"limit": np.asarray(5, np.int64)}, lambda rows: {"x": normal(rows, 3)}, inputs={"x": ["rows", 3]})


def loops() -> OpenModel:
    """A Loop with as many turns as the input has rows: it is unrolled anew for each number."""
    values = [
        make_tensor_value_info("i", TensorProto.INT64, []),
        make_tensor_value_info("c", TensorProto.BOOL, []),
        make_tensor_value_info("s", TensorProto.FLOAT, [4]),
    ]
    outputs = [
        make_tensor_value_info("d", TensorProto.BOOL, []),
        make_tensor_value_info("t", TensorProto.FLOAT, [4]),
        make_tensor_value_info("row", TensorProto.FLOAT, [4]),
    ]
    body = make_graph(
        [
            make_node("Identity", ["c"], ["d"]),
            make_node("Gather", ["x", "i"], ["r"]),
            make_node("Add", ["s", "r"], ["t"]),
            make_node("Tanh", ["t"], ["row"]),
        ],
        "body",
        values,
        outputs,
    )
    nodes = [
        make_node("Shape", ["x"], ["shape"]),
        make_node("Gather", ["shape", "zero"], ["rows"]),
        make_node("Loop", ["rows", "", "start"], ["end", "all"], body=body),
    ]
    proto = model(nodes, {"x": ["rows", 4]}, ["end", "all"], constants={"zero": np.asarray(0, np.int64), "start": normal(4)})
    return OpenModel(proto, [3, 1, 5, 2], lambda rows: {"x": normal(rows, 4)})


def recurrent(operator: str, gates: int, **attributes: Any) -> OpenModel:
    """A layer over any steps and any batch."""
    constants = {"w": normal(1, gates * 5, 3), "r": normal(1, gates * 5, 5), "b": normal(1, gates * 10)}
    nodes = [make_node(operator, ["x", "w", "r", "b"], ["y", "h"], hidden_size=5, **attributes)]
    proto = model(nodes, {"x": ["steps", "batch", 3]}, ["y", "h"], constants=constants)
    return OpenModel(proto, [7, 1, 4, 16], lambda steps: {"x": normal(steps, 1 + steps % 3, 3)})


def images() -> OpenModel:
    """A convolution net over images of any size."""
    nodes = [
        make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        make_node("Relu", ["a"], ["r"]),
        make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER"),
        make_node("GlobalAveragePool", ["p"], ["y"]),
    ]
    proto = model(nodes, {"x": [1, 3, "height", "width"]}, ["y", "p"], constants={"w": normal(4, 3, 3, 3), "b": normal(4)})
    return OpenModel(proto, [6, 11, 3], lambda size: {"x": normal(1, 3, size + 2, 2 * size)})


MODELS: dict[str, Callable[[], OpenModel]] = {
    "decoder": decoder,
    "decoder of one layer": lambda: decoder(1),
    "decoder of any tokens": lambda: decoder(tokens="one"),
    "decoder of one or two tokens": lambda: decoder(tokens="both"),
    "shape arithmetic": shape_arithmetic,
    "clamped slices": clamped_slices,
    "branches": branches,
    "loops": loops,
    "LSTM": lambda: recurrent("LSTM", 4),
    "GRU": lambda: recurrent("GRU", 3, direction="reverse"),
    "RNN": lambda: recurrent("RNN", 1, clip=0.7),
    "images": images,
}
