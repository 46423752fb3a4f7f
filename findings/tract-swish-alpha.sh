#!/usr/bin/env bash
# tract 0.23.9 computes ONNX's Swish without its attribute alpha: x * sigmoid(alpha * x) for alpha = 1, whatever alpha is.
#
# Swish of 1 with alpha = 1.702, the constant of the fast GELU, is 0.8458, as ONNX Runtime 1.32.0 and ONNX's own definition by Mul and Sigmoid have
# it; tract gives 0.7311. The default alpha, 1, is right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 tract==0.23.9
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
import tract
from onnx import TensorProto, helper

x = np.array([-2, -1, 0, 1, 2], np.float32)
swish = lambda alpha: x / (1 + np.exp(-alpha * x))
for alpha in (1.0, 1.702, 0.5):
    node = helper.make_node("Swish", ["x"], ["y"], alpha=alpha)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = tract.onnx().load(path).into_model().into_runnable().run([x])[0].to_numpy()
    print("alpha", alpha, "tract 0.23.9", found.round(4), "onnxruntime", onnxruntime.__version__, runtime.round(4))
    assert np.allclose(runtime, swish(alpha), atol=1e-5) and np.allclose(found, swish(1), atol=1e-4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
