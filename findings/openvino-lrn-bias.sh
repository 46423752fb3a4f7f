#!/usr/bin/env bash
# OpenVINO 2026.4.1's CPU plugin cuts the bias of an ONNX LRN down to a whole number: 1.5 computes like 1, 0.5 like 0.
#
# ONNX: y = x / (bias + alpha / size * sum of squares) ** beta, with bias a float. One element of 2 with size, alpha and beta of 1 is
# 2 / (bias + 4): 0.4, 0.3636 and 0.3333 for a bias of 1, 1.5 and 2, as ONNX Runtime 1.32.0 has it. OpenVINO gives 0.4, 0.4 and 0.3333. Its own
# text of LRN-1 has bias as a floating-point number, too. Nothing is said, and the default, 1, is right.
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

x = np.full((1, 1, 1, 1), 2, np.float32)
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
for bias, given in ((0.5, 0), (1.0, 1), (1.5, 1), (1.9, 1), (2.0, 2)):
    node = helper.make_node("LRN", ["x"], ["y"], size=1, alpha=1.0, beta=1.0, bias=bias)
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    right = session.run(None, {"x": x})[0].item()
    found = openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    result = found({"x": x})[0].item()
    print(f"LRN of 2 with bias {bias}: OpenVINO {result:.4f}, ONNX Runtime {right:.4f}")
    assert np.isclose(right, 2 / (bias + 4)) and np.isclose(result, 2 / (given + 4))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
