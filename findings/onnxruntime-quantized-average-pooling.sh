#!/usr/bin/env bash
# ONNX Runtime 1.32.0's QLinearAveragePool divides by elements that lie beyond the padding; its AveragePool does not.
#
# An image of 3 x 3 elements of 100, windows of 2 x 2 with strides of 2, ceil_mode and count_include_pad, no padding: the last windows hang
# over the edge. AveragePool gives 100 everywhere; QLinearAveragePool, with scales of 1 and zero points of 0, gives 100, 50, 50, 25.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

POOL = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
IMAGE = np.full((1, 1, 3, 3), 100)


def pooled(op_type: str, inputs: list[str], element: int, dtype: type, domain: str) -> list[float]:
    x, y = helper.make_tensor_value_info("x", element, IMAGE.shape), helper.make_tensor_value_info("y", element, [1, 1, 2, 2])
    constants = [numpy_helper.from_array(np.float32(1), "scale"), numpy_helper.from_array(np.uint8(0), "zero")] if len(inputs) > 1 else []
    graph = helper.make_graph([helper.make_node(op_type, inputs, ["y"], domain=domain, **POOL)], "g", [x], [y], constants)
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": IMAGE.astype(dtype)})[0].ravel().tolist()


real = pooled("AveragePool", ["x"], TensorProto.FLOAT, np.float32, "")
whole = pooled("QLinearAveragePool", ["x", "scale", "zero", "scale", "zero"], TensorProto.UINT8, np.uint8, "com.microsoft")
print("onnxruntime", onnxruntime.__version__, "AveragePool", real, "QLinearAveragePool", whole)
assert real == [100, 100, 100, 100] and whole == [100, 50, 50, 25]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
