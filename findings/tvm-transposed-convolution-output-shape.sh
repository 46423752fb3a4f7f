#!/usr/bin/env bash
# TVM 0.27.0's ONNX importer drops ConvTranspose's output_shape: the result has the size that pads of 0 give. ONNX defines the result's size by
# output_shape and derives the pads from it: of 9 elements, 8 stay.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 apache-tvm==0.27.0.post1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
w = np.ones((1, 1, 3), np.float32)
for size in (9, 8):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2], output_shape=[size])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 1, 4]), ("y", [1, 1, size]))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    module = relax.transform.LegalizeOps()(from_onnx(model))
    found = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    print("output_shape", size, "TVM", tvm.__version__, found.ravel(), "onnxruntime", onnxruntime.__version__, runtime.ravel())
    assert runtime.shape == (1, 1, size)
    assert found.shape == (1, 1, 9)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
