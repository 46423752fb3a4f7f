#!/usr/bin/env bash
# ONNX Runtime 1.32.0's transformer optimizer puts the weights of a layer normalization over channels in the place of its biases.
#
# The channels of N x C x H x W are normalized by ReduceMean over axis 1, as SAM 2's LayerNorm2d does. For the type sam2,
# onnxruntime.transformers.optimizer.optimize_model makes Transpose, LayerNormalization and Transpose of it, and gives LayerNormalization its
# weights twice: the biases, which the model adds, are gone. Nothing is said. Where biases and weights are equal the result is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 sympy==1.14.0
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.transformers.optimizer import optimize_model

path = f"{sys.argv[1]}/model.onnx"
rng = np.random.default_rng(0)
x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
weight, other = (rng.standard_normal((3, 1, 1)).astype(np.float32) for _ in range(2))


def normalized(bias: np.ndarray) -> np.ndarray:
    moved = x - x.mean(1, keepdims=True)
    return moved / np.sqrt((moved**2).mean(1, keepdims=True) + 1e-6) * weight + bias


def save(bias: np.ndarray) -> None:
    means = {"axes": [1], "keepdims": 1}
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], "mean", **means),
        helper.make_node("Sub", ["x", "mean"], ["moved"], "sub"),
        helper.make_node("Pow", ["moved", "two"], ["squares"], "pow"),
        helper.make_node("ReduceMean", ["squares"], ["variance"], "variance", **means),
        helper.make_node("Add", ["variance", "epsilon"], ["more"], "more"),
        helper.make_node("Sqrt", ["more"], ["deviation"], "sqrt"),
        helper.make_node("Div", ["moved", "deviation"], ["quotient"], "div"),
        helper.make_node("Mul", ["quotient", "weight"], ["product"], "mul"),
        helper.make_node("Add", ["product", "bias"], ["y"], "add"),
    ]
    constants = {"two": np.float32(2), "epsilon": np.float32(1e-6), "weight": weight, "bias": bias}
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def run(model: str | bytes) -> np.ndarray:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


print("onnxruntime", onnxruntime.__version__, "weights", weight.ravel().round(3), "biases", other.ravel().round(3))
for bias in (weight, other):
    save(bias)
    optimized = optimize_model(path, model_type="sam2", opt_level=0).model
    before, after = run(path), run(optimized.SerializeToString())
    print([node.op_type for node in optimized.graph.node], "before", before[0, :, 0, 0].round(3), "after", after[0, :, 0, 0].round(3))
    assert np.allclose(before, normalized(bias), atol=1e-4) and np.allclose(after, normalized(weight), atol=1e-4)
    assert (np.abs(before - after).max() > 0.3) == (bias is other)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
