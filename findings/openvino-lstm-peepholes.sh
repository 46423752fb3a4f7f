#!/usr/bin/env bash
# OpenVINO 2026.4.1 reads an ONNX LSTM as if it had no peepholes and no coupled gates.
#
# Three steps of 1, input weights of 0.5 and recurrent ones of 0. The peephole of the output gate, P = [0, 2, 0], moves the results to 0.2087, 0.3517, 0.4378, as ONNX
# Runtime 1.32.0 has them; with input_forget=1 they are 0.1743, 0.2345, 0.2561. OpenVINO gives 0.1743, 0.2711, 0.3245 for both, which is the
# LSTM without either. The model loads without a word.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

x = np.ones((3, 1, 1), np.float32)
weights = {"W": np.full((1, 4, 1), 0.5), "R": np.zeros((1, 4, 1)), "P": np.array([[0, 2, 0]])}


def run(name, inputs, right, **attributes):
    node = helper.make_node("LSTM", inputs, ["Y"], hidden_size=1, **attributes)
    tensors = [numpy_helper.from_array(weights[key].astype(np.float32), key) for key in inputs if key in weights]
    vector = lambda key, sizes: helper.make_tensor_value_info(key, TensorProto.FLOAT, sizes)
    graph = helper.make_graph([node], "g", [vector("X", [3, 1, 1])], [vector("Y", [3, 1, 1, 1])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0].ravel()
    core = openvino.Core()
    found = core.compile_model(core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"X": x})["Y"].ravel()
    print(f"{name}: ONNX Runtime {runtime.round(4)}, OpenVINO {found.round(4)}")
    assert np.allclose(runtime, right, atol=1e-4) and np.allclose(found, [0.1743, 0.2711, 0.3245], atol=1e-4)


run("plain", ["X", "W", "R"], [0.1743, 0.2711, 0.3245])
run("peepholes", ["X", "W", "R", "", "", "", "", "P"], [0.2087, 0.3517, 0.4378])
run("input_forget", ["X", "W", "R"], [0.1743, 0.2345, 0.2561], input_forget=1)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
