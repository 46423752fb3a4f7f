#!/usr/bin/env bash
# OpenCV 5.0.0 (dnn) pads auto_pad="SAME_LOWER" of ONNX's pooling and convolution like SAME_UPPER.
#
# The odd element of padding belongs at the beginning for SAME_LOWER. MaxPool, AveragePool and Conv of a window of 2 put it at the end, so the
# result is shifted by one element. Windows of odd sizes show no difference. ONNX Runtime 1.32.0 has all three right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 opencv-python-headless==5.0.0.93
cat >"$root/run.py" <<'PYTHON'
import sys

import cv2
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 1, 4)
weights = numpy_helper.from_array(np.array([[[[1, 10]]]], np.float32), "W")
right = {"MaxPool": {"LOWER": [1, 2, 3, 4], "UPPER": [2, 3, 4, 4]}, "AveragePool": {"LOWER": [1, 1.5, 2.5, 3.5], "UPPER": [1.5, 2.5, 3.5, 4]}}
right["Conv"] = {"LOWER": [10, 21, 32, 43], "UPPER": [21, 32, 43, 4]}
print("OpenCV", cv2.__version__)
for operator, by_padding in right.items():
    for padding, expected in by_padding.items():
        node = helper.make_node(operator, ["X", "W"] if operator == "Conv" else ["X"], ["Y"], kernel_shape=[1, 2], auto_pad=f"SAME_{padding}")
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "XY"]
        graph = helper.make_graph([node], "g", values[:1], values[1:], [weights] if operator == "Conv" else [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
        onnx.checker.check_model(model)
        path = f"{sys.argv[1]}/model.onnx"
        onnx.save(model, path)
        runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"X": x})[0].ravel()
        net = cv2.dnn.readNetFromONNX(path)
        net.setInput(x, "X")
        found = net.forward(["Y"])[0].ravel()
        print(operator, padding, "OpenCV", found, "ONNX Runtime", runtime)
        assert np.array_equal(runtime, expected)
        assert np.array_equal(found, by_padding["UPPER"])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
