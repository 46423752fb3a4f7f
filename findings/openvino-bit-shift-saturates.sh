#!/usr/bin/env bash
# OpenVINO 2026.4.1's CPU plugin saturates ONNX's BitShift to the left: 128 of UINT8 shifted by 1 is 255 instead of 0, and 200 by 1 is 255
# instead of 144. BitShift moves bits, and those that leave the type are lost, as in ONNX's reference implementation and in ONNX Runtime
# 1.32.0. Shifts whose results fit are right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node("BitShift", ["x", "by"], ["y"], direction="LEFT")
values = [helper.make_tensor_value_info(name, TensorProto.UINT8, [4]) for name in ("x", "by", "y")]
graph = helper.make_graph([node], "g", values[:2], values[2:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
onnx.checker.check_model(model)
given = {"x": np.array([1, 3, 128, 200], np.uint8), "by": np.array([1, 6, 1, 1], np.uint8)}
runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)[0].tolist()
reference = ReferenceEvaluator(model).run(None, given)[0].tolist()
core = openvino.Core()
found = core.compile_model(core.read_model(model.SerializeToString()), "CPU")(given)["y"].tolist()
print("openvino", openvino.__version__, found, "onnxruntime", onnxruntime.__version__, runtime, "onnx", onnx.__version__, reference)
assert runtime == reference == [2, 192, 0, 144] and found == [2, 192, 255, 255]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
