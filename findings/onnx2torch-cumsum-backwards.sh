#!/usr/bin/env bash
# onnx2torch 1.5.15 sums backwards where an ONNX CumSum has no attribute `reverse`.
#
# ONNX's default of reverse is 0 and exporters leave defaults out, so [1, 2, 3] must become [1, 3, 6], as ONNX Runtime 1.32.0 has it.
# onnx2torch takes 1 for the default: [6, 5, 3]. With reverse=0 written out it is right. Nothing is said.
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


def run(right, found, **attributes):
    vector = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])
    axis = helper.make_tensor("axis", TensorProto.INT64, [], [0])
    graph = helper.make_graph([helper.make_node("CumSum", ["X", "axis"], ["Y"], **attributes)], "g", [vector("X")], [vector("Y")], [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    x = np.array([1, 2, 3], np.float32)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0]
    module = onnx2torch.convert(model)(torch.from_numpy(x)).numpy()
    print(f"CumSum {attributes}: onnx2torch {module}, ONNX Runtime {runtime}")
    assert (runtime == right).all() and (module == found).all()


run([1, 3, 6], [6, 5, 3])
run([1, 3, 6], [1, 3, 6], reverse=0)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
