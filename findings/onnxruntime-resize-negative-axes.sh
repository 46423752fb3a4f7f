#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Resize leaves an image as it is where negative axes meet keep_aspect_ratio_policy.
#
# [1, 1, 2, 4] to sizes of [4, 8] along the last two axes with "not_larger" is [1, 1, 4, 8]. With axes=[2, 3] it is; with axes=[-2, -1], which
# ONNX allows from opset 18 on, the output has the input's sizes. With the policy "stretch" negative axes are right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

x = np.zeros((1, 1, 2, 4), np.float32)
for policy, axes, sizes in (
    ("not_larger", [2, 3], (1, 1, 4, 8)),
    ("not_larger", [-2, -1], (1, 1, 2, 4)),
    ("stretch", [-2, -1], (1, 1, 4, 8)),
):
    x_info = helper.make_tensor_value_info("X", TensorProto.FLOAT, x.shape)
    y_info = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [None] * 4)
    node = helper.make_node("Resize", ["X", "", "", "sizes"], ["Y"], mode="nearest", axes=axes, keep_aspect_ratio_policy=policy)
    graph = helper.make_graph([node], "g", [x_info], [y_info], [numpy_helper.from_array(np.array([4, 8], np.int64), "sizes")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model)
    found = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0]
    print(f"{policy}, axes {axes}: {found.shape}")
    assert found.shape == sizes
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
