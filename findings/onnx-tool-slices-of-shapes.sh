#!/usr/bin/env bash
# onnx-tool 1.0.1 infers the shape of a Shape node without its start and end (opset 15): Shape(x, start=1, end=2) of a [2, 3, 4] tensor is taken for
# [2, 3, 4] instead of [3], so what is computed from it (here: a tensor of that size) gets sizes that the model never has.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnx-tool==1.0.1
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnx_tool
import onnxruntime
from onnx import TensorProto, helper

x = np.zeros((2, 3, 4), np.float32)
for start, end, right in ((0, 3, (2, 3, 4)), (1, 2, (3,)), (-1, 3, (4,))):
    nodes = [helper.make_node("Shape", ["x"], ["size"], start=start, end=end), helper.make_node("ConstantOfShape", ["size"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", x.shape), ("y", right))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].shape
    tool = onnx_tool.loadmodel(path, {"verbose": False}).graph
    tool.shape_infer({"x": x})
    found = tuple(int(size) for size in tool.tensormap["y"].get_shape())
    print("start", start, "end", end, "onnx-tool 1.0.1", found, "onnxruntime", onnxruntime.__version__, runtime)
    assert runtime == right
    assert found == (2, 3, 4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
