#!/usr/bin/env bash
# nnef-tools 1.0.11 (the Khronos Group's converter) leaves arguments of NNEF operations out of the ONNX model.
#
# sum_reduce with normalize is a mean; the ONNX node is ReduceSum. elu loses alpha, l1_normalization and l2_normalization lose bias and epsilon,
# avg_pool with border replicate or reflect becomes one that leaves the border out. reshape of one axis (axis_start, axis_count) reshapes the
# whole tensor. softmax is written at opset 11, where its axis and all behind it are taken together. An end of 0 in slice is the end of the axis,
# as the shapes of the nnef package 1.0.10 have it; in ONNX it is 0, so nothing is left. Nothing is reported. The right values are NumPy's, by the
# formulas of the NNEF specification, the results ONNX Runtime 1.32.0's.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" nnef==1.0.10 nnef-tools==1.0.11 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import pathlib
import subprocess
import sys

import nnef
import numpy as np
import onnxruntime

onnxruntime.set_default_logger_severity(3)
x = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)


def onnx_of(operation: str) -> np.ndarray:
    """The result of one NNEF operation on x, converted to ONNX."""
    folder, target = pathlib.Path(sys.argv[1]) / "graph", pathlib.Path(sys.argv[1]) / "graph.onnx"
    folder.mkdir(exist_ok=True)
    body = f"x = external<scalar>(shape = {list(x.shape)}); y = {operation};"
    (folder / "graph.nnef").write_text(f"version 1.0; graph g(x) -> (y) {{ {body} }}")
    formats = ["--input-format", "nnef", "--output-format", "onnx", "--keep-io-names"]
    convert = [sys.executable, "-m", "nnef_tools.convert", *formats, "--input-model", folder, "--output-model", target]
    subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
    return onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def nnef_sizes() -> tuple[int, ...]:
    graph = nnef.load_graph(f"{sys.argv[1]}/graph")
    nnef.infer_shapes(graph)
    return tuple(graph.tensors["y"].shape)


def check(operation: str, right: np.ndarray, same: bool) -> None:
    found = onnx_of(operation)
    assert nnef_sizes() == right.shape
    print(f"{operation}: NNEF {right.shape} {right.ravel()[:3].round(3)}, ONNX {found.shape} {found.ravel()[:3].round(3)}")
    assert (found.shape == right.shape and np.allclose(found, right, atol=1e-5)) == same


def normalized(power: int, bias: float, epsilon: float) -> np.ndarray:
    return x / np.maximum((abs(x) ** power).sum(1, keepdims=True) ** (1 / power) + bias, epsilon)


def averages(mode: str) -> np.ndarray:
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3)).mean((-1, -2))


exponentials = np.exp(x)
pool = "avg_pool(x, size = [1, 1, 3, 3], padding = [(0, 0), (0, 0), (1, 1), (1, 1)], border = '{}')".format
check("sum_reduce(x, axes = [1])", x.sum(1, keepdims=True), True)
check("sum_reduce(x, axes = [1], normalize = true)", x.mean(1, keepdims=True), False)
check("elu(x)", np.where(x > 0, x, np.expm1(x)), True)
check("elu(x, alpha = 2.0)", np.where(x > 0, x, 2 * np.expm1(x)), False)
for power in (1, 2):
    check(f"l{power}_normalization(x, axes = [1])", normalized(power, 0, 0), True)
    check(f"l{power}_normalization(x, axes = [1], bias = 2.0)", normalized(power, 2, 0), False)
    check(f"l{power}_normalization(x, axes = [1], epsilon = 2.0)", normalized(power, 0, 2), False)
check(pool("constant"), averages("constant"), True)
check(pool("replicate"), averages("edge"), False)
check(pool("reflect"), averages("reflect"), False)
check("reshape(x, shape = [1, 12, 6])", x.reshape(1, 12, 6), True)
check("reshape(x, shape = [3, -1], axis_start = 2, axis_count = 1)", x.reshape(1, 2, 3, 2, 6), False)
check("softmax(x, axes = [3])", exponentials / exponentials.sum(3, keepdims=True), True)
check("softmax(x, axes = [1])", exponentials / exponentials.sum(1, keepdims=True), False)
check("slice(x, axes = [2], begin = [1], end = [6])", x[:, :, 1:], True)
check("slice(x, axes = [2], begin = [1], end = [0])", x[:, :, 1:], False)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
