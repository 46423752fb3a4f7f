#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Sign of NaN is 0 in FLOAT16 and NaN in FLOAT and DOUBLE (CPU provider).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import helper

found = {}
for dtype in (np.float16, np.float32, np.float64):
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x, y = (helper.make_tensor_value_info(name, element, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Sign", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found[dtype.__name__] = float(session.run(None, {"x": np.array([np.nan], dtype)})[0][0])
print("onnxruntime", onnxruntime.__version__, found)
assert found["float16"] == 0 and np.isnan(found["float32"]) and np.isnan(found["float64"])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
