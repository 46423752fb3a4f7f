#!/usr/bin/env bash
# ONNX Runtime 1.32.0's transformer optimizer normalizes the last axis, whichever axes the model's own layer normalization has.
#
# onnxruntime.transformers.optimizer.optimize_model fuses ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul and Add into LayerNormalization. Its
# comment has axes of 2 or -1 there, but it does not look: means over axis 1, or over axes 1 and 2, with weights and biases for the last
# axis, become LayerNormalization of the last axis too. So for the types bert, gpt2, clip and unet. Nothing is said. The fusion in C++ that a
# session makes looks at the axes (microsoft/onnxruntime#15844), and gives the right values.
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
x = 3 * rng.standard_normal((2, 3, 4)).astype(np.float32) + 1
weight, bias = (rng.standard_normal(4).astype(np.float32) for _ in range(2))


def normalized(axes: tuple[int, ...]) -> np.ndarray:
    moved = x - x.mean(axes, keepdims=True)
    return moved / np.sqrt((moved**2).mean(axes, keepdims=True) + 1e-6) * weight + bias


def save(axes: tuple[int, ...]) -> None:
    means = {"axes": axes, "keepdims": 1}
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


print("onnxruntime", onnxruntime.__version__)
for kind in ("bert", "gpt2", "clip", "unet"):
    for axes in ((-1,), (1,), (1, 2)):
        save(axes)
        optimized = optimize_model(path, model_type=kind, opt_level=0).model
        before, after = run(path), run(optimized.SerializeToString())
        print(kind, axes, [node.op_type for node in optimized.graph.node], "before", before[0, 0].round(3), "after", after[0, 0].round(3))
        assert np.allclose(before, normalized(axes), atol=1e-4) and np.allclose(after, normalized((-1,)), atol=1e-4)
        assert (np.abs(before - after).max() > 0.5) == (axes != (-1,))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
