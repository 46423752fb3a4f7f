"""Whole convolutional networks and single convolutions with dmlpy on the NumPy device and ONNX Runtime on the CPU, on one thread.

    pip install onnx onnxruntime threadpoolctl
    python tests/benchmarks/networks.py [NAME ...] [--rounds 15] [--nodes] [--json FILE]

The networks have the shapes of SqueezeNet 1.1, MobileNetV2 and ResNet-18 at 224 x 224, batch 1, with random weights. Each is built once as
a graph of dmlpy's, whose weights are owned and prepared, and as an ONNX model; the results must agree. Both libraries run in this process
on one thread and take turns, and the least processor time of all rounds counts, which other work on the machine prolongs least. `--nodes`
adds the time of each kind of node of dmlpy's graph, each with memory of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.messages.json_text import lay_out

OPSET, IR_VERSION = 14, 8
TOLERANCE = 1e-4
"""The largest norm of the difference of results, relative to that of the result: ONNX Runtime folds normalizations into filters."""

Array = np.ndarray[Any, Any]
Value = tuple[str, Any]
"""A value by its name in the ONNX model, and in dmlpy's graph."""


class Network:
    """A network that is built for both libraries at the same time.

    Args:
        sizes: the input's.
    """

    def __init__(self, *sizes: int) -> None:
        self._rng = np.random.default_rng(1)
        self._graph = dml.GraphBuilder()
        self._nodes: list[Any] = []
        self._initializers: list[Any] = []
        self.weights: dict[str, Array] = {}
        self.sizes = sizes
        self.x: Value = ("x", self._graph.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=sizes)))

    def _weight(self, array: Array, sizes: tuple[int, ...]) -> Value:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        array = array.astype(np.float32)
        self._initializers.append(numpy_helper.from_array(array, name))
        self.weights[name] = array.reshape(sizes)
        return name, self._graph.input(name, dml.TensorDesc(data_type="FLOAT32", sizes=sizes, flags="OWNED_BY_DML"))

    def _node(self, value: Any, operator: str, *inputs: Value | str, **attributes: Any) -> Value:
        from onnx import helper

        names = [given if isinstance(given, str) else given[0] for given in inputs]
        output = f"{operator}{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output, value

    def conv(
        self,
        x: Value,
        count: int,
        window: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        then: str = "",
        transposed: bool = False,
    ) -> Value:
        """A convolution to `count` channels; `then` are the letters of what follows: b (bias), n (normalization), r (RELU), 6 (RELU6)."""
        channels = x[1].tensor.sizes[1]
        first, second = (channels, count) if transposed else (count, channels)
        sizes = (first, second // groups, window, window)
        filters = self._weight(self._rng.standard_normal(sizes) * (2 / (second // groups * window**2)) ** 0.5, sizes)
        given: dict[str, Any] = {"bias_tensor": None}
        inputs = [x, filters]
        if "b" in then:
            inputs.append(self._statistic(count, 0.0))
            given["bias_tensor"] = inputs[-1][1]
        value = self._graph.add(
            dml.ConvolutionDesc,
            **{"input_tensor": x[1], "filter_tensor": filters[1], **given},
            **{"strides": [stride] * 2, "dilations": [1, 1], "start_padding": [padding] * 2, "end_padding": [padding] * 2},
            **{"output_padding": [0, 0], "group_count": groups, "direction": "BACKWARD" if transposed else "FORWARD"},
        )
        attributes = {"kernel_shape": [window] * 2, "strides": [stride] * 2, "pads": [padding] * 4, "group": groups}
        y = self._node(value, "ConvTranspose" if transposed else "Conv", *inputs, **attributes)
        y = self._normalized(y, count) if "n" in then else y
        return self.relu(y) if "r" in then else self._relu6(y) if "6" in then else y

    def _statistic(self, count: int, centre: float) -> Value:
        return self._weight(centre + self._rng.uniform(-0.5, 0.5, count), (1, count, 1, 1))

    def _normalized(self, x: Value, count: int) -> Value:
        scale, bias, mean, variance = (self._statistic(count, centre) for centre in (1.0, 0.0, 0.0, 1.0))
        value = self._graph.add(
            dml.BatchNormalizationDesc,
            **{"input_tensor": x[1], "mean_tensor": mean[1], "variance_tensor": variance[1]},
            **{"scale_tensor": scale[1], "bias_tensor": bias[1], "epsilon": 1e-5},
        )
        return self._node(value, "BatchNormalization", x, scale, bias, mean, variance)

    def relu(self, x: Value) -> Value:
        return self._node(self._graph.add(dml.ActivationReluDesc, input_tensor=x[1]), "Relu", x)

    def _relu6(self, x: Value) -> Value:
        from onnx import numpy_helper

        if not any(initializer.name == "six" for initializer in self._initializers):
            limits = {"zero": np.float32(0), "six": np.float32(6)}
            self._initializers += [numpy_helper.from_array(np.array(value), name) for name, value in limits.items()]
        return self._node(self._graph.add(dml.ElementWiseClipDesc, input_tensor=x[1], min=0.0, max=6.0), "Clip", x, "zero", "six")

    def add(self, a: Value, b: Value) -> Value:
        return self._node(self._graph.add(dml.ElementWiseAddDesc, a_tensor=a[1], b_tensor=b[1]), "Add", a, b)

    def join(self, a: Value, b: Value) -> Value:
        return self._node(self._graph.add(dml.JoinDesc, input_tensors=[a[1], b[1]], axis=1), "Concat", a, b, axis=1)

    def largest(self, x: Value, padding: int = 0) -> Value:
        """Max pooling with a window of 3 and a stride of 2."""
        own = {"strides": [2, 2], "window_size": [3, 3], "start_padding": [padding] * 2, "end_padding": [padding] * 2}
        value = self._graph.add(dml.MaxPoolingDesc, input_tensor=x[1], **own)
        return self._node(value, "MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[padding] * 4)

    def mean(self, x: Value) -> Value:
        """The mean of each whole image."""
        own = {"strides": [1, 1], "window_size": x[1].tensor.sizes[2:], "start_padding": [0, 0], "end_padding": [0, 0]}
        value = self._graph.add(dml.AveragePoolingDesc, input_tensor=x[1], **own, include_padding=False)
        return self._node(value, "GlobalAveragePool", x)

    def built(self, y: Value) -> tuple[dml.Graph, Any]:
        """The graph, and the ONNX model."""
        from onnx import TensorProto, helper

        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.sizes)
        result = helper.make_tensor_value_info(y[0], TensorProto.FLOAT, y[1].tensor.sizes)
        graph = helper.make_graph(self._nodes, "network", [given], [result], self._initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        self._graph.output("y", y[1])
        return self._graph.build(), model


def squeezenet(net: Network) -> Value:
    x = net.largest(net.conv(net.x, 64, 3, stride=2, then="br"))
    for squeezed, expanded, pooled in (
        *((16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True)),
        *((48, 192, False), (48, 192, False), (64, 256, False), (64, 256, False)),
    ):
        x = net.conv(x, squeezed, 1, then="br")
        x = net.join(net.conv(x, expanded, 1, then="br"), net.conv(x, expanded, 3, padding=1, then="br"))
        x = net.largest(x) if pooled else x
    return net.mean(net.conv(x, 1000, 1, then="br"))


def mobilenet(net: Network) -> Value:
    x, channels = net.conv(net.x, 32, 3, stride=2, padding=1, then="n6"), 32
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for factor, count, times, first in blocks:
        for stride in (first, *[1] * (times - 1)):
            hidden = channels * factor
            y = net.conv(x, hidden, 1, then="n6") if factor > 1 else x
            y = net.conv(y, hidden, 3, stride=stride, padding=1, groups=hidden, then="n6")
            y = net.conv(y, count, 1, then="n")
            x = net.add(x, y) if stride == 1 and channels == count else y
            channels = count
    return net.mean(net.conv(x, 1280, 1, then="n6"))


def resnet18(net: Network) -> Value:
    x, channels = net.largest(net.conv(net.x, 64, 7, stride=2, padding=3, then="nr"), 1), 64
    for count, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = net.conv(net.conv(x, count, 3, stride=stride, padding=1, then="nr"), count, 3, padding=1, then="n")
        x = net.conv(x, count, 1, stride=stride, then="n") if stride > 1 or channels != count else x
        x, channels = net.relu(net.add(x, y)), count
    return net.mean(x)


SUBJECTS: dict[str, tuple[tuple[int, ...], Callable[[Network], Value]]] = {
    "squeezenet": ((1, 3, 224, 224), squeezenet),
    "mobilenet-v2": ((1, 3, 224, 224), mobilenet),
    "resnet-18": ((1, 3, 224, 224), resnet18),
    "3x3-56x56-64": ((1, 64, 56, 56), lambda net: net.conv(net.x, 64, 3, padding=1, then="br")),
    "1x1-28x28-512": ((1, 512, 28, 28), lambda net: net.conv(net.x, 512, 1, then="br")),
    "depthwise-3x3-112x112-32": ((1, 32, 112, 112), lambda net: net.conv(net.x, 32, 3, padding=1, groups=32, then="br")),
    "stem-7x7-stride-2": ((1, 3, 224, 224), lambda net: net.conv(net.x, 64, 7, stride=2, padding=3, then="br")),
    "transposed-4x4-stride-2": ((1, 64, 28, 28), lambda net: net.conv(net.x, 64, 4, stride=2, padding=1, then="br", transposed=True)),
}


def least(work: Callable[[], Any]) -> float:
    """The processor time of a call, in milliseconds."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def measured(name: str, rounds: int, nodes: bool) -> dict[str, Any]:
    """The figures of one subject."""
    import onnxruntime

    sizes, build = SUBJECTS[name]
    net = Network(*sizes)
    graph, model = net.built(build(net))
    x = np.random.default_rng(2).standard_normal(sizes, np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compiled = dml.compile(graph, "numpy")
    result = np.empty(compiled.outputs["y"].sizes, np.float32)
    dispatch = compiled.prepare(**net.weights).bind({"x": x}, {"y": result})
    dispatch()
    wanted = session.run(None, {"x": x})[0]
    error = float(np.linalg.norm(result - wanted) / np.linalg.norm(wanted))
    if not error <= TOLERANCE:
        raise SystemExit(f"{name}: the libraries disagree, by {error:.2g} of the result's norm")
    times = [(least(dispatch), least(lambda: session.run(None, {"x": x}))) for _ in range(rounds)]
    own, peer = (min(column) for column in zip(*times, strict=True))
    properties = compiled.binding_properties
    found: dict[str, Any] = {"dmlpy_ms": own, "onnxruntime_ms": peer, "ratio": own / peer, "difference": error}
    found |= {"temporary_bytes": properties.temporary_resource_size, "persistent_bytes": properties.persistent_resource_size}
    return found | ({"nodes_ms": by_kind(compiled)} if nodes else {})


def by_kind(compiled: dml.CompiledGraph) -> dict[str, float]:
    """The time of each kind of node, in milliseconds, the longest first."""
    totals: dict[str, float] = defaultdict(float)
    for step in compiled._program.steps:
        desc = step.operator.desc
        arrays = {place: np.ones(tensor.span, np.float32) for place, tensor in desc.tensors().items()}
        views = {
            place: np.lib.stride_tricks.as_strided(array, desc.tensors()[place].sizes, desc.tensors()[place].numpy_strides())
            for place, array in arrays.items()
        }
        outputs = {slot.place: views.pop(slot.place) for slot in desc.output_slots() if slot.tensor is not None}
        prepared = step.operator.prepare(**{place: views.pop(place) for place in step.operator.prepared_inputs})
        dispatch = prepared.bind(views, outputs)
        totals[desc.short_name()] += min(least(dispatch) for _ in range(5))
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def main() -> None:
    from threadpoolctl import threadpool_limits

    from dmlpy.bench import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SUBJECTS)}; all by default")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--nodes", action="store_true", help="the time of each kind of node, too")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    report: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "processor": machine.host(1).processor, "threads": 1}
    report["load"] = os.getloadavg()
    report["versions"] = {name: __import__(name).__version__ for name in ("dmlpy", "numpy", "onnxruntime")}
    with threadpool_limits(1):
        for name in arguments.names or SUBJECTS:
            report[name] = found = measured(name, arguments.rounds, arguments.nodes)
            memory = f"{found['temporary_bytes'] / 1e6:.1f} MB of scratch and tensors"
            both = f"dmlpy {found['dmlpy_ms']:7.2f} ms, ONNX Runtime {found['onnxruntime_ms']:7.2f} ms: {found['ratio']:5.2f} times"
            print(f"{name:26} {both}, {memory}", flush=True)
            for kind, spent in found.get("nodes_ms", {}).items():
                print(f"    {spent:7.2f} ms {kind}")
    if arguments.json:
        arguments.json.write_text(lay_out(report), encoding="utf-8")


if __name__ == "__main__":
    main()
