#!/usr/bin/env bash
# jaxonnxruntime 0.3.0's Div of integers rounds down; ONNX's rounds towards zero.
#
# -7 / 2 is -3 by ONNX's node test of onnx 1.23.2 (test_div_int32_trunc) and by ONNX Runtime 1.32.0; jaxonnxruntime gives -4. Positive operands
# show no difference. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 absl-py jaxonnxruntime==0.3.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from jaxonnxruntime import call_onnx
from onnx import TensorProto, helper

arrays = {"A": np.array([-7, 7, -7, 7], np.int32), "B": np.array([2, -2, -2, 2], np.int32)}
infos = [helper.make_tensor_value_info(name, TensorProto.INT32, [4]) for name in ("A", "B", "C")]
graph = helper.make_graph([helper.make_node("Div", ["A", "B"], ["C"])], "g", infos[:2], infos[2:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
onnx.checker.check_model(model)
runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, arrays)[0]
function, parameters = call_onnx.call_onnx_model(model, list(arrays.values()))
found = np.asarray(function(parameters, list(arrays.values()))[0])
print(f"jaxonnxruntime {found}, ONNX Runtime {runtime}")
assert runtime.tolist() == [-3, -3, 3, 3] and found.tolist() == [-4, -4, 3, 3]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
