"""Whole ONNX models with dmlpy, ONNX Runtime and OpenVINO on the CPU, in one run: the time of a run, of loading and compiling, and memory.

    pip install -e '.[cpu,onnx]' onnxruntime openvino
    python -m tests.benchmarks.onnx_models [NAME ...] [--type FLOAT16 ...] [--threads 2] [--rounds 25] [--save]

The models have the shapes of MobileNetV2, SqueezeNet 1.1, ResNet-18, EfficientNet-B0 and a vision transformer at 224 x 224, LSTMs of two
layers, and a transformer of four layers, all with random weights; one of a thousand small nodes shows what loading and compiling take. Each
is measured in FLOAT32, in FLOAT16 and quantized to INT8: with QuantizeLinear and DequantizeLinear (INT8), with operators such as
QLinearConv (QLINEAR), and transformers dynamically (DYNAMIC); a model that this does not change has no row. The results must agree; where
OpenVINO's do not, it has no times. OpenVINO may be missing. The libraries run in this process on the same number of threads and take turns,
with a rest between them, for the threads of one library may look for work a while after its last; a turn is one run that does not count and
three that do. Times are the medians and the least of all rounds. Memory is by how much the resident set of a process of its own grows by
loading the model and running it thrice. `--save` writes records/onnx_models.json and the page records/README.md.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dmlpy.messages.json_text import lay_out
from tests.benchmarks import networks
from tests.benchmarks.model_types import TYPES, in_type

RECORD = Path(__file__).parent / "records" / "onnx_models.json"
PAGE = RECORD.with_name("README.md")
DEVICE = "cpu"
REST_S = 0.15
"""The pause before each turn."""
RUNS = 3
"""The runs of a turn."""
TOLERANCES = {"FLOAT32": 1e-4, "FLOAT16": 2e-2, "INT8": 0.1, "QLINEAR": 0.1, "DYNAMIC": 0.1}
"""The largest norm of the difference of results, relative to that of the result. Of bytes, libraries join nodes, and differ by steps."""
PEERS = ("ONNX Runtime", "OpenVINO")

Array = np.ndarray[Any, Any]
Model = Any
"""A ModelProto: onnx has no types."""


class Builder:
    """An ONNX model in the making."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(1)

    def node(self, operator: str, *inputs: str, outputs: int = 1, result: int = 0, **attributes: Any) -> str:
        """Adds a node, and returns the name of one of its outputs."""
        from onnx import helper

        names = [f"{operator}{len(self.nodes)}.{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[result]

    def constant(self, array: Any) -> str:
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return f"w{len(self.weights) - 1}"

    def weight(self, *sizes: int, scale: float) -> str:
        return self.constant((self._rng.standard_normal(sizes) * scale).astype(np.float32))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.weight(inputs, outputs, scale=inputs**-0.5)), self.weight(outputs, scale=0.1))

    def built(self, y: str, given: tuple[int, ...], result: tuple[int, ...]) -> Model:
        from onnx import TensorProto, helper

        x, output = (helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in (("x", given), (y, result)))
        graph = helper.make_graph(self.nodes, "model", [x], [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network(name: str) -> Model:
    sizes, build = networks.SUBJECTS[name]
    net = networks.Network(*sizes)
    return net.built(build(net))[1]


def lstm(batch: int, steps: int = 100, inputs: int = 64, hidden: int = 128) -> Model:
    net, y = Builder(), "x"
    for size in (inputs, hidden):
        weights = [net.weight(1, 4 * hidden, terms, scale=hidden**-0.5) for terms in (size, hidden)]
        y = net.node("LSTM", y, *weights, net.weight(1, 8 * hidden, scale=0.1), hidden_size=hidden)
        y = net.node("Squeeze", y, net.constant(np.array([1], np.int64)))
    return net.built(y, (steps, batch, inputs), (steps, batch, hidden))


def transformer(tokens: int = 128, width: int = 256, layers: int = 4, heads: int = 4) -> Model:
    net = Builder()
    return net.built(encoder(net, "x", tokens, width, layers, heads), (1, tokens, width), (1, tokens, width))


def vision_transformer(patch: int = 16, width: int = 384, layers: int = 6, heads: int = 6) -> Model:
    net, side = Builder(), 224 // patch
    patches = net.node("Conv", "x", net.weight(width, 3, patch, patch, scale=0.04), net.weight(width, scale=0.1), strides=[patch, patch])
    tokens = net.node("Transpose", net.node("Reshape", patches, net.constant(np.array([1, width, side * side], np.int64))), perm=[0, 2, 1])
    tokens = net.node("Concat", net.weight(1, 1, width, scale=0.1), tokens, axis=1)
    tokens = net.node("Add", tokens, net.weight(1, side * side + 1, width, scale=0.02))
    y = encoder(net, tokens, side * side + 1, width, layers, heads)
    first = net.node("Gather", y, net.constant(np.array(0, np.int64)), axis=1)
    return net.built(net.dense(first, width, 1000), (1, 3, 224, 224), (1, 1000))


def efficientnet() -> Model:
    """EfficientNet-B0, with batch normalizations folded into convolutions, as exporters do it."""
    net = Builder()

    def convolved(x: str, inputs: int, outputs: int, window: int = 1, stride: int = 1, groups: int = 1) -> str:
        weights = net.weight(outputs, inputs // groups, window, window, scale=(window * window * inputs / groups) ** -0.5)
        more: dict[str, Any] = {"strides": [stride] * 2, "pads": [window // 2] * 4, "group": groups}
        return net.node("Conv", x, weights, net.weight(outputs, scale=0.1), **more)

    def silu(x: str) -> str:
        return net.node("Mul", x, net.node("Sigmoid", x))

    x, before = silu(convolved("x", 3, 32, 3, 2)), 32
    blocks = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    for growth, after, repeats, first_stride, window in blocks:
        for number in range(repeats):
            stride, wide = first_stride if number == 0 else 1, before * growth
            h = silu(convolved(x, before, wide)) if growth > 1 else x
            h = silu(convolved(h, wide, wide, window, stride, wide))
            squeezed = silu(convolved(net.node("GlobalAveragePool", h), wide, before // 4))
            h = net.node("Mul", h, net.node("Sigmoid", convolved(squeezed, before // 4, wide)))
            h = convolved(h, wide, after)
            x, before = net.node("Add", h, x) if stride == 1 and before == after else h, after
    pooled = net.node("Flatten", net.node("GlobalAveragePool", silu(convolved(x, before, 1280))))
    return net.built(net.dense(pooled, 1280, 1000), (1, 3, 224, 224), (1, 1000))


def encoder(net: Builder, x: str, tokens: int, width: int, layers: int, heads: int) -> str:
    """The layers of a transformer, each normalized before attention and dense layers."""
    size = width // heads

    def normalized(x: str) -> str:
        return net.node("LayerNormalization", x, net.weight(width, scale=1.0), net.weight(width, scale=0.1), axis=-1, epsilon=1e-5)

    def head(x: str, order: list[int]) -> str:
        sizes = net.constant(np.array([1, tokens, heads, size], np.int64))
        return net.node("Transpose", net.node("Reshape", net.dense(x, width, width), sizes), perm=order)

    for _ in range(layers):
        h = normalized(x)
        query, key, value = head(h, [0, 2, 1, 3]), head(h, [0, 2, 3, 1]), head(h, [0, 2, 1, 3])
        scores = net.node("Mul", net.node("MatMul", query, key), net.constant(np.float32(size**-0.5)))
        seen = net.node("Transpose", net.node("MatMul", net.node("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        seen = net.node("Reshape", seen, net.constant(np.array([1, tokens, width], np.int64)))
        x = net.node("Add", x, net.dense(seen, width, width))
        h = net.dense(normalized(x), width, 4 * width)
        grown = net.node("Add", net.node("Erf", net.node("Div", h, net.constant(np.float32(2**0.5)))), net.constant(np.float32(1.0)))
        x = net.node("Add", x, net.dense(net.node("Mul", net.node("Mul", h, net.constant(np.float32(0.5))), grown), 4 * width, width))
    return normalized(x)


def bert(layers: int, width: int, heads: int, tokens: int = 128, words: int = 30_522) -> Model:
    """BERT with its embeddings, and a mask: the sizes of its base are 12 layers of 768 with 12 heads."""
    from onnx import TensorProto, helper

    net, size = Builder(), width // heads

    def normalized(x: str) -> str:
        return net.node("LayerNormalization", x, net.weight(width, scale=1.0), net.weight(width, scale=0.1), axis=-1, epsilon=1e-12)

    def head(x: str, order: list[int]) -> str:
        sizes = net.constant(np.array([0, 0, heads, size], np.int64))
        return net.node("Transpose", net.node("Reshape", net.dense(x, width, width), sizes), perm=order)

    words_read = net.node("Gather", net.weight(words, width, scale=0.02), "ids")
    placed = net.node("Add", words_read, net.weight(1, tokens, width, scale=0.02))
    x = normalized(net.node("Add", placed, net.node("Gather", net.weight(2, width, scale=0.02), "types")))
    seen = net.node("Cast", net.node("Unsqueeze", "mask", net.constant(np.array([1, 2], np.int64))), to=TensorProto.FLOAT)
    bias = net.node("Mul", net.node("Sub", net.constant(np.float32(1)), seen), net.constant(np.float32(-10_000)))
    for _ in range(layers):
        query, key, value = head(x, [0, 2, 1, 3]), head(x, [0, 2, 3, 1]), head(x, [0, 2, 1, 3])
        scores = net.node("Add", net.node("Div", net.node("MatMul", query, key), net.constant(np.float32(size**0.5))), bias)
        heads_read = net.node("Transpose", net.node("MatMul", net.node("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        attended = net.node("Reshape", heads_read, net.constant(np.array([0, 0, width], np.int64)))
        x = normalized(net.node("Add", net.dense(attended, width, width), x))
        h = net.dense(x, width, 4 * width)
        grown = net.node("Add", net.node("Erf", net.node("Div", h, net.constant(np.float32(2**0.5)))), net.constant(np.float32(1)))
        h = net.node("Mul", net.node("Mul", h, grown), net.constant(np.float32(0.5)))
        x = normalized(net.node("Add", net.dense(h, 4 * width, width), x))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, (1, tokens)) for name in ("ids", "types", "mask")]
    output = helper.make_tensor_value_info(x, TensorProto.FLOAT, (1, tokens, width))
    graph = helper.make_graph(net.nodes, "bert", inputs, [output], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(nodes: int) -> Model:
    """A graph of small products, sums, activations and factors by turns."""
    net, y = Builder(), "x"
    for _ in range(nodes // 4):
        y = net.node("Relu", net.dense(y, 16, 16))
        y = net.node("Mul", y, net.weight(16, scale=1.0))
    return net.built(y, (4, 16), (4, 16))


MODELS: dict[str, Callable[[], Model]] = {
    "MobileNetV2, 1x3x224x224": lambda: network("mobilenet-v2"),
    "SqueezeNet 1.1, 1x3x224x224": lambda: network("squeezenet"),
    "ResNet-18, 1x3x224x224": lambda: network("resnet-18"),
    "EfficientNet-B0, 1x3x224x224": efficientnet,
    "vision transformer, 6 layers of 384, 1x3x224x224": vision_transformer,
    "LSTM, 2 layers of 128, T=100, B=1": lambda: lstm(1),
    "LSTM, 2 layers of 128, T=100, B=16": lambda: lstm(16),
    "transformer, 4 layers of 256, 128 tokens": transformer,
    "1,000 nodes": lambda: chain(1000),
}
START_UP_MODELS: dict[str, Callable[[], Model]] = {
    "BERT, 4 layers of 256": lambda: bert(4, 256, 4),
    "BERT, 12 layers of 768": lambda: bert(12, 768, 12),
    "4,000 nodes": lambda: chain(4000),
}
"""The models that `tests.benchmarks.model_start_up` measures besides: what loading them takes, not a run."""


def row_name(name: str, dtype: str) -> str:
    """A model in a type, as records name it: FLOAT32 goes without saying."""
    return name if dtype == "FLOAT32" else f"{name}, {dtype}"


def type_of(row: str) -> str:
    return next((dtype for dtype in TYPES if row.endswith(f", {dtype}")), "FLOAT32")


def model_of(row: str) -> Model | None:
    """The model of a row; None if it cannot have that type."""
    dtype = type_of(row)
    return in_type(MODELS[row.removesuffix(f", {dtype}")](), dtype)


def libraries() -> list[str]:
    """Those that are measured here: ONNX Runtime, with which results are compared, comes first."""
    return [PEERS[0], *(name for name in PEERS[1:] if importlib.util.find_spec(name.lower())), DEVICE]


def runner(library: str, model: Model, threads: int, dtype: str = "FLOAT32") -> Callable[[Array], Array]:
    """Loads and compiles a model with one of `PEERS` or for a device of dmlpy; returns what runs it."""
    if library == "OpenVINO":
        import openvino

        hint = "f16" if dtype == "FLOAT16" else "f32"
        core, options = openvino.Core(), {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": hint}
        request = core.compile_model(core.read_model(model.SerializeToString()), "CPU", options).create_infer_request()
        return lambda x: np.array(request.infer([x])[0])
    if library == "ONNX Runtime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda x: np.asarray(session.run(None, {"x": x})[0])
    from dmlpy import onnx

    compiled = onnx.load(model).compile(library)
    [output] = onnx.load(model).outputs
    return lambda x: np.asarray(compiled(x=x)[output])


def given_to(model: Model) -> Array:
    sizes = [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim]
    from onnx import helper

    dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    return np.random.default_rng(2).standard_normal(sizes, np.float32).astype(dtype)


def milliseconds(run: Callable[[Array], Array], x: Array) -> float:
    """The time of a run in a turn."""
    time.sleep(REST_S)
    run(x)
    start = time.perf_counter()
    for _ in range(RUNS):
        run(x)
    return (time.perf_counter() - start) * 1e3 / RUNS


def measured(name: str, model: Model, threads: int, rounds: int) -> dict[str, Any]:
    """The figures of a model."""
    dtype = type_of(name)
    x, runners, results = given_to(model), {}, {}
    found: dict[str, Any] = {}
    for library in libraries():
        start = time.perf_counter()
        try:
            run = runners[library] = runner(library, model, threads, dtype)
        except RuntimeError:
            if library != "OpenVINO":  # it has no QLinearAdd and QGemm
                raise
            continue
        results[library] = run(x)
        taken_ms = (time.perf_counter() - start) * 1e3
        expected, own = (results[given].astype(np.float64) for given in (PEERS[0], library))
        error = float(np.linalg.norm(own - expected) / np.linalg.norm(expected))
        if not error <= TOLERANCES[dtype]:
            said = f"{name}: {library} differs by {error:.2g} of the result's norm"
            if library == DEVICE:
                raise SystemExit(said)
            print(f"{said}, and is not measured")
            del runners[library]
            continue
        found[library] = {"load_and_first_run_ms": taken_ms, "memory_bytes": memory(name, library, threads)}
    times = [{library: milliseconds(run, x) for library, run in runners.items()} for _ in range(rounds)]
    for library, figures in found.items():
        figures |= {"median_ms": median(row[library] for row in times), "least_ms": min(row[library] for row in times)}
    return found


def memory(name: str, library: str, threads: int) -> int:
    """The bytes by which a process of its own grows."""
    arguments = ["-m", "tests.benchmarks.onnx_models", name, "--threads", str(threads), "--memory-of", library]
    root = Path(__file__).parents[2]
    return int(subprocess.run([sys.executable, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout)


def grown(name: str, library: str, threads: int) -> int:
    """By how many bytes this process grows as it loads a model and runs it thrice, the library being imported before."""
    import psutil

    warm = Builder()
    small = warm.built(warm.node("Relu", "x"), (1,), (1,))
    runner(library, small, threads)(np.ones(1, np.float32))
    model, process = model_of(name), psutil.Process()
    x = given_to(model)
    _trim()
    before = process.memory_info().rss
    run = runner(library, model, threads, type_of(name))
    for _ in range(3):
        run(x)
    return int(process.memory_info().rss) - before


def _trim() -> None:
    """Returns to the system what building the model has freed: a library that found it on the heap would not seem to grow."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def page(record: dict[str, Any]) -> str:
    """The page of a record."""
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    measured_here = {library for row in record["models"].values() for library in row}
    peers = [name for name in PEERS if name in measured_here]
    head = ["model", "dmlpy, cpu"]
    for title in ("cpu / {}", "memory, {}", "load and first run, {}"):
        head += [title.format(name) for name in (*peers, *([] if "/" in title else [DEVICE]))]
    lines = [
        "# Whole ONNX models on the CPU",
        "",
        "Written by `python -m tests.benchmarks.onnx_models --save` from [its record](onnx_models.json), which holds every figure.",
        f"{record['processor']}, {record['threads']} threads, {record['date'][:10]}, load {record['load'][0]:.1f}; {versions}.",
        "Medians, in ms, and dmlpy's divided by those of others: below 1 dmlpy is faster. A dash: refused, or results differ.",
        "Loading is that of a process that has imported the library and finds dmlpy's kernels on disk, as a second run does.",
        "",
        f"| {' | '.join(head)} |",
        f"| --- |{' ---: |' * (len(head) - 1)}",
    ]
    for name, row in record["models"].items():
        own = row[DEVICE]
        cells = [name, f"{own['median_ms']:.2f}"]
        cells += [f"{own['median_ms'] / row[peer]['median_ms']:.2f}" if peer in row else "–" for peer in peers]
        cells += [f"{row[library]['memory_bytes'] / 1e6:.0f} MB" if library in row else "–" for library in (*peers, DEVICE)]
        cells += [f"{row[library]['load_and_first_run_ms']:.0f} ms" if library in row else "–" for library in (*peers, DEVICE)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    from threadpoolctl import threadpool_limits

    from dmlpy.bench import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {'; '.join(MODELS)}; all by default")
    parser.add_argument("--type", choices=TYPES, nargs="+", default=TYPES, dest="types", help="all by default")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--save", action="store_true", help="write the record and its page")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    with threadpool_limits(arguments.threads):
        if arguments.memory_of:
            print(grown(arguments.names[0], arguments.memory_of, arguments.threads))
            return
        record: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "processor": machine.host(1).processor}
        record |= {"threads": arguments.threads, "rounds": arguments.rounds, "load": os.getloadavg()}
        versions = ["dmlpy", "numpy", "llvmlite", "onnx", "onnxruntime", *(["openvino"] if "OpenVINO" in libraries() else [])]
        record["versions"] = {name: __import__(name).__version__ for name in versions}
        record["models"] = {}
        for name in (row_name(name, dtype) for dtype in arguments.types for name in arguments.names or MODELS):
            if (model := model_of(name)) is None:
                continue
            record["models"][name] = found = measured(name, model, arguments.threads, arguments.rounds)
            print(name, *(f"{library} {own['median_ms']:.2f} ms" for library, own in found.items()), sep="; ", flush=True)
    if arguments.save:
        RECORD.write_text(lay_out(record), encoding="utf-8")
        PAGE.write_text(page(record), encoding="utf-8")
    else:
        print(page(record))


if __name__ == "__main__":
    main()
