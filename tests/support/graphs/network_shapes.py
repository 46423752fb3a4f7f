"""Graphs with the shapes of well-known networks, small enough to be compiled in tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.graphs import Graph, GraphBuilder


def tensor(*sizes: int, **members: Any) -> dml.TensorDesc:
    return dml.TensorDesc(data_type="FLOAT32", sizes=sizes, **members)


class Network:
    """Layers over a `GraphBuilder`; weights are graph inputs that DirectML owns."""

    def __init__(self, name: str) -> None:
        self.g = GraphBuilder(name)
        self.count = 0

    def weight(self, *sizes: int) -> Any:
        self.count += 1
        return self.g.input(f"w{self.count}", tensor(*sizes, flags="OWNED_BY_DML"))

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind} {self.count}"

    def convolution(self, x: Any, channels: int, size: int = 1, stride: int = 1, *, groups: int = 1, relu: bool = True) -> Any:
        pad = size // 2
        members: dict[str, Any] = {
            "mode": "CROSS_CORRELATION", "direction": "FORWARD", "strides": [stride] * 2, "dilations": [1, 1], "start_padding": [pad] * 2,
            "end_padding": [pad] * 2, "output_padding": [0, 0], "group_count": groups,
        }  # fmt: skip
        w = self.weight(channels, x.tensor.sizes[1] // groups, size, size)
        y = self.g.add(dml.ConvolutionDesc, self.name("convolution"), input_tensor=x, filter_tensor=w, **members)
        return self.relu(y) if relu else y

    def relu(self, x: Any) -> Any:
        return self.g.add(dml.ActivationReluDesc, self.name("relu"), input_tensor=x)

    def add(self, a: Any, b: Any) -> Any:
        return self.g.add(dml.ElementWiseAddDesc, self.name("add"), a_tensor=a, b_tensor=b)

    def dense(self, x: Any, width: int) -> Any:
        w = self.weight(*x.tensor.sizes[:2], x.tensor.sizes[3], width)
        return self.g.add(dml.GEMMDesc, self.name("dense"), a_tensor=x, b_tensor=w)


def residual(blocks: tuple[int, ...] = (3, 4, 6, 3), channels: int = 8, image: int = 32) -> Graph:
    """ResNet-50's blocks: three convolutions and a shortcut."""
    n = Network("residual")
    x = n.convolution(n.g.input("x", tensor(1, 3, image, image)), channels, 7, 2)
    for stage, count in enumerate(blocks):
        width = channels << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = n.convolution(x, width)
            y = n.convolution(y, width, 3, stride)
            y = n.convolution(y, 4 * width, relu=False)
            x = n.relu(n.add(y, x if block else n.convolution(x, 4 * width, 1, stride, relu=False)))
    n.g.output("y", n.g.add(dml.AveragePoolingDesc, "pool", input_tensor=x, strides=[1, 1], window_size=list(x.tensor.sizes[2:]),
                            start_padding=[0, 0], end_padding=[0, 0], include_padding=False))  # fmt: skip
    return n.g.build()


def inverted(channels: int = 8, image: int = 32) -> Graph:
    """MobileNetV2's blocks: widened, one convolution for each channel, narrowed."""
    n = Network("inverted")
    x = n.convolution(n.g.input("x", tensor(1, 3, image, image)), channels, 3, 2)
    for factor, width, count, stride in ((1, 4, 1, 1), (6, 6, 2, 2), (6, 8, 3, 2), (6, 16, 4, 2), (6, 24, 3, 1)):
        for block in range(count):
            wide = factor * x.tensor.sizes[1]
            y = n.convolution(x, wide)
            y = n.convolution(y, wide, 3, stride if not block else 1, groups=wide)
            y = n.convolution(y, width, relu=False)
            x = n.add(x, y) if block else y
    n.g.output("y", x)
    return n.g.build()


def transformer(layers: int = 4, rows: int = 16, width: int = 32, heads: int = 4) -> Graph:
    """Layers of attention by GEMM and SOFTMAX1, with heads split by strides, and of two dense ones."""
    n = Network("transformer")
    x = n.g.input("x", tensor(1, 1, rows, width))
    part = width // heads
    for _ in range(layers):
        heads_of = []
        for _ in range(3):
            y = n.dense(x, width)
            split = tensor(1, heads, rows, part, strides=[rows * width, part, width, 1])
            heads_of.append(y.viewed(split))
        q, k, v = heads_of
        scores = n.g.add(dml.GEMMDesc, n.name("scores"), a_tensor=q, b_tensor=k, trans_b="TRANSPOSE", alpha=part**-0.5)
        weights = n.g.add(dml.ActivationSoftmax1Desc, n.name("softmax"), input_tensor=scores, axes=[3])
        mixed = n.g.add(dml.GEMMDesc, n.name("mixed"), a_tensor=weights, b_tensor=v,
                        output_tensor=tensor(1, heads, rows, part, strides=[rows * width, part, width, 1]))  # fmt: skip
        x = n.add(n.dense(mixed.viewed(tensor(1, 1, rows, width)), width), x)
        x = n.add(n.dense(n.relu(n.dense(x, 4 * width)), width), x)
    n.g.output("y", x)
    return n.g.build()


def dense_blocks(layers: int = 6, growth: int = 4, image: int = 8) -> Graph:
    """DenseNet's block: each layer reads all before it, joined."""
    n = Network("dense")
    x = n.convolution(n.g.input("x", tensor(1, 3, image, image)), 8, 3)
    for _ in range(layers):
        y = n.convolution(n.convolution(x, 2 * growth), growth, 3)
        sizes = [1, x.tensor.sizes[1] + growth, image, image]
        x = n.g.add(dml.JoinDesc, n.name("join"), input_tensors=[x, y], output_tensor=tensor(*sizes), axis=1)
    n.g.output("y", x)
    return n.g.build()


def lstm_stack(layers: int = 4, steps: int = 6, batch: int = 2, hidden: int = 8) -> Graph:
    """LSTM layers with constant weights, which are packed when the graph is prepared."""
    n = Network("lstm stack")
    rng = np.random.default_rng(5)
    x = n.g.input("x", tensor(1, steps, batch, hidden))
    for layer in range(layers):
        w, r = (n.g.constant(f"{name}{layer}", rng.standard_normal((1, 1, 4 * hidden, hidden), np.float32) / 4) for name in "wr")
        h = n.g.add(
            dml.LSTMDesc, f"lstm {layer}", outputs=["output_sequence_tensor"], input_tensor=x, weight_tensor=w, recurrence_tensor=r,
            activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()], direction="FORWARD",
            clip_threshold=1.0, use_clip_threshold=False, couple_input_forget=False,
        )  # fmt: skip
        x = h.viewed(tensor(1, steps, batch, hidden))
    n.g.output("y", h)
    return n.g.build()


NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "residual": residual,
    "inverted": inverted,
    "transformer": transformer,
    "dense": dense_blocks,
    "lstm stack": lstm_stack,
}
