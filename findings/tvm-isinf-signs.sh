#!/usr/bin/env bash
# TVM 0.27.0's ONNX importer drops detect_positive and detect_negative of IsInf: a node that looks for one sign finds both.
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

x = np.array([-np.inf, -1, np.nan, np.inf], np.float32)
for positive, negative in ((1, 1), (1, 0), (0, 1)):
    node = helper.make_node("IsInf", ["x"], ["y"], detect_positive=positive, detect_negative=negative)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.BOOL, [4])]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    module = relax.transform.LegalizeOps()(from_onnx(model))
    found = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    print("positive", positive, "negative", negative, "TVM", tvm.__version__, found, "onnxruntime", onnxruntime.__version__, runtime)
    assert runtime.tolist() == [bool(negative), False, False, bool(positive)]
    assert found.tolist() == [True, False, False, True]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
