#!/usr/bin/env bash
# ONNX Runtime 1.32.0's ReduceLogSumExp of INT32 rounds each exponential down to an integer before it adds them: [0, -1, -1, -1, -1, -1]
# gives 0 where the exact value is 1.04, so that terms that differ from the largest count as nothing.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

rows = [[0, -1, -1, -1, -1, -1], [2, 2, 2, 2, 2, 2], [7, 6, 6, 6, 6, 6]]
for dtype, element in ((np.int32, TensorProto.INT32), (np.float32, TensorProto.FLOAT)):
    x, y = helper.make_tensor_value_info("x", element, [None, 6]), helper.make_tensor_value_info("y", element, [None])
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [1])
    graph = helper.make_graph([helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0)], "g", [x], [y], [axes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.array(rows, dtype)})[0].tolist()
    print("onnxruntime", onnxruntime.__version__, dtype.__name__, found)
    expected = [0, 3, 7] if dtype is np.int32 else [1.043592, 3.791759, 8.043592]
    assert np.allclose(found, expected, atol=1e-5)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
