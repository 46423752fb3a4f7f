#!/usr/bin/env bash
# OpenCV 5.0.0 (dnn) runs a reverse GRU forward, and takes the last states of a reverse LSTM from the wrong end.
#
# direction="reverse" of an ONNX LSTM gives the right Y, but Y_h is the state of the last position, which a reverse layer computes first; it
# should be that of position 0. A GRU with direction="reverse" gives Y and Y_h of the same GRU forward, to the last digits. Nothing is said.
# Both are right with direction="bidirectional". ONNX Runtime 1.32.0 gives the right values.
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

STEPS, BATCH, INPUT, HIDDEN = 5, 2, 3, 4
rng = np.random.default_rng(0)
x = rng.standard_normal((STEPS, BATCH, INPUT)).astype(np.float32)


def save(operator: str, direction: str, weights: list[onnx.TensorProto]) -> str:
    directions = weights[0].dims[0]
    node = helper.make_node(operator, ["X", "W", "R"], ["Y", "Y_h"], hidden_size=HIDDEN, direction=direction)
    outputs = {"Y": [STEPS, directions, BATCH, HIDDEN], "Y_h": [directions, BATCH, HIDDEN]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in ({"X": x.shape} | outputs).items()]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:], weights), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, f"{sys.argv[1]}/model.onnx")
    return f"{sys.argv[1]}/model.onnx"


def right(path: str) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"X": x})


def found(path: str) -> list[np.ndarray]:
    net = cv2.dnn.readNetFromONNX(path)
    net.setInput(x, "X")
    return net.forward(["Y", "Y_h"])


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(np.ravel(a), np.ravel(b), atol=1e-5))


print("OpenCV", cv2.__version__)
for operator, gates in (("LSTM", 4), ("GRU", 3)):
    for directions, direction in ((1, "reverse"), (2, "bidirectional")):
        arrays = {"W": (directions, gates * HIDDEN, INPUT), "R": (directions, gates * HIDDEN, HIDDEN)}
        weights = [numpy_helper.from_array((rng.standard_normal(sizes) / 2).astype(np.float32), name) for name, sizes in arrays.items()]
        path = save(operator, direction, weights)
        (y, last), (true_y, true_last) = found(path), right(path)
        print(operator, direction, "Y right:", same(y, true_y), "Y_h right:", same(last, true_last))
        if direction == "bidirectional":
            assert same(y, true_y) and same(last, true_last)
        elif operator == "LSTM":
            assert same(y, true_y) and not same(last, true_last) and same(last, true_y[-1])
        else:
            forward_y, forward_last = right(save(operator, "forward", weights))
            assert same(y, forward_y) and same(last, forward_last) and not same(y, true_y)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
