#!/usr/bin/env bash
# onnx2torch 1.5.15 reduces over other axes than asked in ReduceMax, ReduceMin and ReduceProd with a negative axis and keepdims=0.
#
# ReduceMax of [2, 3, 4] over the axes [0, -1] has 3 elements, as ONNX Runtime 1.32.0 gives them. The module sorts the axes, reduces over the
# last one first, drops it, and takes 0 - 1 for the place of the next: it reduces over the axis 1 and gives 2 elements. ReduceSum of the same
# axes is right. Nothing is said.
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

x = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 8
for name, reduce in (("ReduceMax", np.max), ("ReduceMin", np.min), ("ReduceProd", np.prod)):
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("X", x.shape), ("Y", [3]))]
    node = helper.make_node(name, ["X"], ["Y"], axes=[0, -1], keepdims=0)
    model = helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0]
    found = onnx2torch.convert(model)(torch.from_numpy(x)).numpy()
    print(f"{name} over [0, -1]: onnx2torch {found}, ONNX Runtime {runtime}")
    assert np.allclose(runtime, reduce(x, axis=(0, 2))) and np.allclose(found, reduce(x, axis=(1, 2)))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
