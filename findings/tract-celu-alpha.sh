#!/usr/bin/env bash
# tract 0.23.9's Celu leaves out a factor: ONNX's is max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), tract computes exp(x / alpha) - 1 where
# x is negative. For alpha = 2 negative results are half of what they are, and the function has a kink at 0. The default alpha, 1, is right.
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

x = np.array([-4, -1, 0, 2], np.float32)
for alpha in (1.0, 2.0):
    node = helper.make_node("Celu", ["x"], ["y"], alpha=alpha)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "y")]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = tract.onnx().load(path).into_model().into_runnable().run([x])[0].to_numpy()
    print("alpha", alpha, "tract 0.23.9", found.round(4), "onnxruntime", onnxruntime.__version__, runtime.round(4))
    negative = np.exp(np.minimum(x, 0) / alpha) - 1
    assert np.allclose(runtime, np.maximum(x, 0) + alpha * negative, atol=1e-5)
    assert np.allclose(found, np.maximum(x, 0) + negative, atol=1e-4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
