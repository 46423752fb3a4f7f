#!/usr/bin/env bash
# TVM 0.27.0's ONNX importer makes placeholders of LayerNormalization's Mean and InvStdDev: whatever x is, both are scalars of one fixed value, where
# ONNX's hold one element for each normalized row. Y is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 apache-tvm==0.27.0.post1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

scale = np.ones(4, np.float32)
names = {"x": [3, 4], "scale": [4], "y": [3, 4], "mean": [3, 1], "deviation": [3, 1]}
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in names.items()]
graph = helper.make_graph([helper.make_node("LayerNormalization", ["x", "scale"], ["y", "mean", "deviation"])], "g", values[:2], values[2:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
module = relax.transform.LegalizeOps()(from_onnx(model))
machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
seen = set()
for x in (np.arange(12, dtype=np.float32).reshape(3, 4), 5 - 2 * np.arange(12, dtype=np.float32).reshape(3, 4)):
    y, mean, deviation = session.run(None, {"x": x, "scale": scale})
    found = [output.numpy() for output in machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(scale))]
    print("TVM", tvm.__version__, "mean", found[1], "deviation", found[2], "onnxruntime", onnxruntime.__version__, mean.ravel(), deviation.ravel())
    assert np.allclose(mean, x.mean(1, keepdims=True)) and np.allclose(found[0], y, atol=1e-5)
    assert found[1].shape == found[2].shape == ()
    seen.add((float(found[1]), float(found[2])))
assert len(seen) == 1
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
