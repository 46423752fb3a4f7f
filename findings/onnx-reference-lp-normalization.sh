#!/usr/bin/env bash
# onnx 1.23.2's reference implementation of LpNormalization divides by the sum where p is 1, not by the sum of absolute values.
#
# ONNX: "output = input / Lp_norm(input, axis)". The L1 norm of [1, -2, 3] is 6, so the row is [0.1667, -0.3333, 0.5], as ONNX Runtime 1.32.0 has it;
# the reference implementation divides by 2: [0.5, -1, 1.5]. The norm of [-4, 0, -1] comes out as -5 and turns the signs. ONNX's node tests of p=1
# have no negative elements. p=2 is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x = np.array([[1, -2, 3], [-4, 0, -1]], np.float32)
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
for p, wrong in ((1, x.sum(1, keepdims=True)), (2, np.sqrt((x**2).sum(1, keepdims=True)))):
    node = helper.make_node("LpNormalization", ["x"], ["y"], axis=1, p=p)
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = ReferenceEvaluator(model).run(None, {"x": x})[0]
    print(f"LpNormalization with p={p}: reference {found.round(4).tolist()}, ONNX Runtime {runtime.round(4).tolist()}")
    assert np.allclose(runtime, x / np.linalg.norm(x, p, axis=1, keepdims=True)) and np.allclose(found, x / wrong)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
