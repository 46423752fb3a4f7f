#!/usr/bin/env bash
# tract 0.23.9 runs an ONNX RNN without its clip and its activations, and says nothing.
#
# With R = 0 a step of the RNN below is f(2 x). clip=0.2 and activations=["Relu"] are both left out: tract gives tanh(2 x) for all three
# nodes, ONNX Runtime 1.32.0 gives tanh(clip(2 x)) and relu(2 x).
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
from onnx import TensorProto, helper, numpy_helper

x = np.array([1.0, -3.0], np.float32).reshape(2, 1, 1)
weights = [numpy_helper.from_array(np.full((1, 1, 1), value, np.float32), name) for name, value in (("W", 2), ("R", 0))]
rows = {"{}": ({}, np.tanh(2 * x)), "clip": ({"clip": 0.2}, np.tanh(np.clip(2 * x, -0.2, 0.2))), "activations": ({"activations": ["Relu"]}, np.maximum(2 * x, 0))}
for name, (attributes, right) in rows.items():
    node = helper.make_node("RNN", ["X", "W", "R"], ["Y"], hidden_size=1, **attributes)
    values = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [2, 1, 1])], [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [2, 1, 1, 1])]
    model = helper.make_model(helper.make_graph([node], "g", *values, weights), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"X": x})[0].ravel()
    found = tract.onnx().load(path).into_model().into_runnable().run([x])[0].to_numpy().ravel()
    print(name, "tract", found.round(4), "onnxruntime", runtime.round(4))
    assert np.allclose(runtime, right.ravel(), atol=1e-5) and np.allclose(found, np.tanh(2 * x).ravel(), atol=1e-5)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
