#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Resize with antialias cuts negative INT8 results off at 0: [-8, -4, 4, 8] by half are [-5, 5] as FLOAT and as
# INT32, and [0, 5] as INT8. Only linear interpolation of images does so; ONNX's reference implementation gives [-5, 5].
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sizes = numpy_helper.from_array(np.array([1, 1, 2, 1]), "sizes")
node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear", antialias=1)
for element, dtype in ((TensorProto.FLOAT, np.float32), (TensorProto.INT32, np.int32), (TensorProto.INT8, np.int8)):
    x = np.array([-8, -4, 4, 8], dtype).reshape(1, 1, 4, 1)
    values = [helper.make_tensor_value_info(name, element, size) for name, size in (("x", [1, 1, 4, 1]), ("y", [1, 1, 2, 1]))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runtime = session.run(None, {"x": x})[0].ravel().tolist()
    reference = ReferenceEvaluator(model).run(None, {"x": x})[0].ravel().tolist()
    print(np.dtype(dtype).name, "onnxruntime", onnxruntime.__version__, runtime, "onnx", onnx.__version__, reference)
    assert reference == [-5, 5] and runtime == ([0, 5] if dtype == np.int8 else [-5, 5])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
