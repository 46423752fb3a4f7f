#!/usr/bin/env bash
# jaxonnxruntime 0.3.0 reads Softmax and LogSoftmax of opsets 1 to 12 as those of opset 13.
#
# Up to opset 12 all dimensions from `axis` on are one vector that sums to 1, and the default of axis is 1; from opset 13 on a vector lies
# along `axis` alone. jaxonnxruntime sums over the one axis in both, so the zeros [2, 2, 2] with axis=1 give 0.5 in place of 0.25, as ONNX
# Runtime 1.32.0 has it. Nothing is said. Models with two dimensions show no difference.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 absl-py jaxonnxruntime==0.3.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from jaxonnxruntime import call_onnx
from onnx import TensorProto, helper

x = np.zeros((2, 2, 2), np.float32)
for opset, right, given in ((11, 0.25, 0.5), (13, 0.5, 0.5)):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in ("X", "Y")]
    graph = helper.make_graph([helper.make_node("Softmax", ["X"], ["Y"], axis=1)], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=6)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0]
    function, parameters = call_onnx.call_onnx_model(model, [x])
    found = np.asarray(function(parameters, [x])[0])
    print(f"Softmax of opset {opset}: jaxonnxruntime {found.ravel()[:4]}, ONNX Runtime {runtime.ravel()[:4]}")
    assert np.allclose(runtime, right) and np.allclose(found, given)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
