#!/usr/bin/env bash
# onnx2keras 0.0.25 leaves out alpha and beta of Gemm, alpha and gamma of Selu, axis of Flatten and auto_pad of Conv, and reads mode="edge" of Pad as a mirror.
#
# ONNX's Gemm is alpha * A * B + beta * C: ones of [2, 3] and [3, 4] with alpha=0.5 and C = 1 with beta=2 are 3.5; the Keras model gives 4. Selu of 1 with gamma=3
# is 3; here 1.0507, the default's. Flatten with axis=2 of [1, 2, 3, 4] is [2, 12]; here [1, 24]. A Conv with auto_pad="SAME_UPPER" keeps five of five elements; here
# three are left. Pad by 2 on each side of [1, 2, 3] with "edge" is 1, 1, 1, 2, 3, 3, 3; here 2, 1, 1, 2, 3, 3, 2. ONNX Runtime 1.32.0 has all right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx2keras==0.0.25 onnx==1.23.2 onnxruntime==1.32.0 tensorflow==2.20.0
cat >"$root/run.py" <<'PYTHON'
from importlib.metadata import version

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx2keras import onnx_to_keras

ones, row = np.ones((1, 1, 1, 5), np.float32), np.array([1, 2, 3], np.float32).reshape(1, 1, 1, 3)
filters, pads = np.ones((1, 1, 1, 3), np.float32), np.array([0, 0, 0, 2, 0, 0, 0, 2])
CASES = (
    ("Gemm", np.ones((2, 3), np.float32), [np.ones((3, 4), np.float32), np.ones(4, np.float32)], {"alpha": 0.5, "beta": 2.0}, [3.5] * 8, [4.0] * 8),
    ("Selu", np.ones((1, 2), np.float32), [], {"alpha": 2.0, "gamma": 3.0}, [3.0] * 2, [1.0507] * 2),
    ("Flatten", np.ones((1, 2, 3, 4), np.float32), [], {"axis": 2}, [1.0] * 24, [1.0] * 24),
    ("Conv", ones, [filters], {"auto_pad": "SAME_UPPER"}, [2.0, 3, 3, 3, 2], [3.0] * 3),
    ("Pad", row, [pads], {"mode": "edge"}, [1.0, 1, 1, 2, 3, 3, 3], [2.0, 1, 1, 2, 3, 3, 2]),
)
print("onnx2keras", version("onnx2keras"))
for operator, data, constants, attributes, right, given in CASES:
    names = ["x", *(f"c{index}" for index in range(len(constants)))]
    sizes = {"x": data.shape, "y": [None] * (2 if operator == "Flatten" else data.ndim)}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items())
    initializers = [numpy_helper.from_array(array, name) for name, array in zip(names[1:], constants, strict=True)]
    graph = helper.make_graph([helper.make_node(operator, names, ["y"], **attributes)], "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    (true,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": data})
    found = np.asarray(onnx_to_keras(model, ["x"], verbose=False)([data]))
    print(operator, attributes, "ONNX Runtime", true.shape, true.ravel()[:7], "Keras", found.shape, found.ravel()[:7])
    assert np.allclose(true.ravel(), right) and np.allclose(found.ravel(), given, atol=1e-3)
    assert true.shape != found.shape or not np.allclose(true, found)
PYTHON
TF_CPP_MIN_LOG_LEVEL=3 PYTHONPATH="$root/packages" python3 "$root/run.py"
