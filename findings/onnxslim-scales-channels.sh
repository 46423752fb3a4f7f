#!/usr/bin/env bash
# onnxslim 0.1.98 folds a Mul behind a Conv into the filters where the factors lie along the image's width or height, not along its channels.
#
# Factors of [4] meet the last dimension, by ONNX's broadcasting. Behind a Conv of four channels, whose image is four elements wide, slim() takes
# them for one factor each channel: the first channel of ones times [1, 2, 3, 4] is all 1 in place of 1, 2, 3 and 4. So it is with [1, 1, 1, 4] and
# [1, 1, 4, 1]. Factors of [4, 1, 1] are folded rightly, and Add, Sub and Div are left as they are. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxslim==0.1.98
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import onnxslim
from onnx import TensorProto, helper, numpy_helper

x, factors = np.ones((1, 1, 4, 4), np.float32), np.arange(1, 5, dtype=np.float32)
channels = np.broadcast_to(factors.reshape(4, 1, 1), (1, 4, 4, 4))


def run(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


for sizes in ((4, 1, 1), (4,), (1, 1, 1, 4), (1, 1, 4, 1)):
    nodes = [helper.make_node("Conv", ["x", "filters"], ["copies"]), helper.make_node("Mul", ["copies", "factors"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, count, 4, 4]) for name, count in (("x", 1), ("y", 4))]
    tensors = {"filters": np.ones((4, 1, 1, 1), np.float32), "factors": factors.reshape(sizes)}
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(array, name) for name, array in tensors.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    right = run(model)
    slim = onnxslim.slim(model)
    found = run(slim)
    print(f"factors of {list(sizes)}: first channel's first row {right[0, 0, 0]}, after slim() {found[0, 0, 0]}")
    assert [node.op_type for node in slim.graph.node] == ["Conv"]
    assert np.array_equal(right, x * factors.reshape(sizes) * np.ones((4, 1, 1), np.float32)) and np.array_equal(found, channels)
    assert np.array_equal(right, channels) == (sizes == (4, 1, 1))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
