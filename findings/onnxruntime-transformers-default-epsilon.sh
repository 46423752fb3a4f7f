#!/usr/bin/env bash
# ONNX Runtime 1.32.0's transformer optimizer takes an epsilon of 1e-12 for a LayerNormalization after Add that leaves epsilon out.
#
# ONNX's default of LayerNormalization's epsilon is 1e-5. onnxruntime.transformers.optimizer.optimize_model fuses Add and LayerNormalization into
# SkipLayerNormalization, and writes 1e-12 where the node has no epsilon: rows of small variance get other values. An epsilon that is
# written out is kept. The types bert and gpt2 do so, for example. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 sympy==1.14.0
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, defs, helper, numpy_helper
from onnxruntime.transformers.optimizer import optimize_model

path = f"{sys.argv[1]}/model.onnx"
rng = np.random.default_rng(0)
inputs = {name: rng.standard_normal((2, 3, 4)).astype(np.float32) / 1000 for name in "ab"}
weight, bias = (rng.standard_normal(4).astype(np.float32) for _ in range(2))
default = defs.get_schema("LayerNormalization", 17).attributes["epsilon"].default_value.f
assert np.isclose(default, 1e-5)


def normalized(epsilon: float) -> np.ndarray:
    x = inputs["a"] + inputs["b"]
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * weight + bias


def save(attributes: dict[str, float]) -> None:
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"], "add"),
        helper.make_node("LayerNormalization", ["sum", "weight", "bias"], ["y"], "normalization", **attributes),
    ]
    tensors = [numpy_helper.from_array(weight, "weight"), numpy_helper.from_array(bias, "bias")]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in "aby"]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:2], values[2:], tensors), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def run(model: str | bytes) -> np.ndarray:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)[0]


print("onnxruntime", onnxruntime.__version__)
for kind in ("bert", "gpt2"):
    for attributes in ({}, {"epsilon": default}):
        save(attributes)
        optimized = optimize_model(path, model_type=kind, opt_level=0).model
        before, after = run(path), run(optimized.SerializeToString())
        written = {node.op_type: [round(attribute.f, 13) for attribute in node.attribute if attribute.name == "epsilon"] for node in optimized.graph.node}
        print(kind, attributes, written, "before", before[0, 0].round(3), "after", after[0, 0].round(3))
        assert list(written) == ["SkipLayerNormalization"] and np.allclose(before, normalized(default), atol=1e-4)
        assert np.allclose(after, normalized(default if attributes else 1e-12), atol=1e-3)
        assert (np.abs(before - after).max() > 0.1) == (not attributes)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
