#!/usr/bin/env bash
# OpenCV 5.0.0 (dnn) reads one slice twice and another never in some reductions over an axis of length 3.
#
# ReduceSum of [3, 3, 3, 2] over the axes 0, 1 and 2 adds x[0], x[1] and x[1]; x[2] has no effect on the result. The same happens to ReduceMean,
# ReduceMax and the others, for [3, 3, 3, 1] over (0, 2, 3), and in the axis 1 of [2, 3, 4, 1, 1] over (1, 3, 4). [2, 3, 4, 5] over the same axes
# is right. MeanVarianceNormalization, written by operators as ONNX defines it, is off by 0.8 in ONNX's own test for this reason.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 opencv-python-headless==5.0.0.93
cat >"$root/run.py" <<'PYTHON'
import sys

import cv2
import numpy as np
import onnx
from onnx import TensorProto, helper


def reduced(operator: str, x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in (("X", x.shape), ("Y", kept))]
    graph = helper.make_graph([helper.make_node(operator, ["X"], ["Y"], axes=axes)], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, f"{sys.argv[1]}/model.onnx")
    net = cv2.dnn.readNetFromONNX(f"{sys.argv[1]}/model.onnx")
    net.setInput(x, "X")
    return net.forward(["Y"])[0].reshape(kept)


print("OpenCV", cv2.__version__)
rows = [((3, 3, 3, 2), (0, 1, 2), 0), ((3, 3, 3, 2), (0, 2, 3), 0), ((3, 3, 3, 1), (0, 2, 3), 0), ((2, 3, 4, 1, 1), (1, 3, 4), 1), ((2, 3, 4, 5), (0, 2, 3), None)]
for sizes, axes, axis in rows:
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    read = x if axis is None else x.take([0, 1, 1], axis)
    for operator, function in (("ReduceSum", np.sum), ("ReduceMax", np.max)):
        found, right = reduced(operator, x, axes), function(x, axes, keepdims=True)
        print(operator, sizes, axes, "found", found.ravel()[:3], "right", right.ravel()[:3])
        assert np.array_equal(found, function(read, axes, keepdims=True)) and np.array_equal(found, right) == (axis is None)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
