#!/usr/bin/env bash
# onnx2torch 1.5.15's NonZero has a row for each element where ONNX has a row for each axis.
#
# The places of the three ones of [[1, 0], [1, 1]] are [[0, 1, 1], [0, 0, 1]] by ONNX, [axes, elements], as ONNX Runtime 1.32.0 has them. The
# module gives the transposed [elements, axes] of torch.nonzero. With as many elements as axes no size shows it. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 torch==2.13.0
python3 -m pip install -q --no-deps --target "$root/packages" onnx2torch==1.5.15
cat >"$root/run.py" <<'PYTHON'
import sys
import types

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

# onnx2torch imports torchvision for NonMaxSuppression and RoiAlign only; a stand-in spares its installation.
sys.modules["torchvision"] = types.ModuleType("torchvision")
sys.modules["torchvision.ops"] = types.SimpleNamespace(roi_align=None)
import onnx2torch

x_info = helper.make_tensor_value_info("X", TensorProto.FLOAT, [2, 2])
y_info = helper.make_tensor_value_info("Y", TensorProto.INT64, [2, None])
graph = helper.make_graph([helper.make_node("NonZero", ["X"], ["Y"])], "g", [x_info], [y_info])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
onnx.checker.check_model(model)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
module = onnx2torch.convert(model)
for x, right in (([[1, 0], [1, 1]], [[0, 1, 1], [0, 0, 1]]), ([[1, 0], [1, 0]], [[0, 1], [0, 0]])):
    array = np.array(x, np.float32)
    runtime = session.run(None, {"X": array})[0]
    found = module(torch.from_numpy(array)).numpy()
    print(f"NonZero of {x}: onnx2torch {found.tolist()}, ONNX Runtime {runtime.tolist()}")
    assert runtime.tolist() == right and found.tolist() == np.transpose(right).tolist() != right
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
