#!/usr/bin/env bash
# OpenVINO 2026.4.1 runs both directions of a bidirectional ONNX RNN, GRU or LSTM with the activations of the forward one.
#
# A bidirectional layer has activations for each direction, the forward ones first. With R = 0 and W = 1 a step of the RNN below is tanh(x)
# forward and relu(x) backward; OpenVINO gives tanh(x) for both. So with the GRU and the LSTM. Nothing is said. A layer of one direction is
# right, and so are both directions where they have the same activations. ONNX Runtime 1.32.0 has all of them right.
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

x = np.array([1, 2, 3], np.float32).reshape(3, 1, 1)
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def models(operator, direction, activations):
    count = 2 if direction == "bidirectional" else 1
    weights = {"W": np.ones((count, GATES[operator], 1), np.float32), "R": np.zeros((count, GATES[operator], 1), np.float32)}
    node = helper.make_node(operator, ["X", *weights], ["Y"], hidden_size=1, direction=direction, activations=activations)
    vector = lambda key, sizes: helper.make_tensor_value_info(key, TensorProto.FLOAT, sizes)
    tensors = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph([node], "g", [vector("X", x.shape)], [vector("Y", [3, count, 1, 1])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0]
    core = openvino.Core()
    found = core.compile_model(core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"X": x})["Y"]
    return [array.reshape(3, count).T for array in (runtime, found)]


for operator, forward, backward in (
    ("RNN", ["Tanh"], ["Relu"]),
    ("GRU", ["Sigmoid", "Tanh"], ["Sigmoid", "Relu"]),
    ("LSTM", ["Sigmoid", "Tanh", "Tanh"], ["Sigmoid", "Relu", "Tanh"]),
):
    runtime, found = models(operator, "bidirectional", forward + backward)
    print(f"{operator}, {backward} backward: ONNX Runtime {runtime[1].round(4)}, OpenVINO {found[1].round(4)}")
    for own, activations, direction in ((runtime[0], forward, "forward"), (runtime[1], backward, "reverse"), (found[1], forward, "reverse")):
        for single in models(operator, direction, activations):
            assert np.allclose(own, single[0], atol=1e-5)
    assert np.allclose(found[0], runtime[0], atol=1e-5) and not np.allclose(found[1], runtime[1], atol=0.01)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
