#!/usr/bin/env bash
# ONNX Runtime 1.32.0's LinearRegressor leaves out post_transform where it has one target: LOGISTIC gives the bare score. With two targets both get
# the transform, as ai.onnx.ml says of all.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

x = np.array([[0.5], [-2]], np.float32)
for targets in (1, 2):
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * targets, targets=targets, post_transform="LOGISTIC")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", [2, 1]), ("y", [2, targets]))]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)], ir_version=8)
    onnx.checker.check_model(model)
    y = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    print("onnxruntime", onnxruntime.__version__, "targets", targets, y.round(4).tolist(), "logistic", (1 / (1 + np.exp(-x))).round(4).tolist())
    assert np.allclose(y, x if targets == 1 else 1 / (1 + np.exp(-x)), atol=1e-6)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
