#!/usr/bin/env bash
# ONNX Runtime 1.32.0's MatMulNBits takes 8 for every zero point as soon as g_idx is given.
#
# g_idx names the block of scales and zero points of each column. With the blocks in their own order it says nothing new; yet the zero points
# that the node has are left out then, and the product is that of zero points of 8. Nothing is reported. (CPU provider.)
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS, BLOCK = 2, 32, 16
rng = np.random.default_rng(0)
whole = rng.integers(0, 16, (ROWS, COLUMNS // BLOCK, BLOCK)).astype(np.uint8)
zeros = np.array([[3, 5], [9, 1]], np.uint8)
arrays = {
    "B": whole[..., 0::2] | (whole[..., 1::2] << 4),
    "scales": rng.uniform(0.5, 1, ROWS * COLUMNS // BLOCK).astype(np.float32),
    "zero_points": zeros[:, 0] | (zeros[:, 1] << 4),
    "g_idx": np.repeat(np.arange(COLUMNS // BLOCK), BLOCK).astype(np.int32),
}
a = rng.standard_normal((1, COLUMNS)).astype(np.float32)


def product(*names: str) -> np.ndarray:
    node = helper.make_node("MatMulNBits", ["A", *names], ["Y"], domain="com.microsoft", K=COLUMNS, N=ROWS, bits=4, block_size=BLOCK)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name, sizes in (("A", [1, COLUMNS]), ("Y", [1, ROWS]))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(arrays[name], name) for name in names])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"A": a})[0]


def expected(zero_points: np.ndarray | int) -> np.ndarray:
    weights = (whole.astype(np.float32) - zero_points) * arrays["scales"].reshape(ROWS, -1, 1)
    return a @ weights.reshape(ROWS, COLUMNS).T


plain, grouped = product("B", "scales", "zero_points"), product("B", "scales", "zero_points", "g_idx")
print("onnxruntime", onnxruntime.__version__, "plain", plain.round(3), "with g_idx", grouped.round(3))
assert np.allclose(plain, expected(zeros[..., None]), atol=1e-3)
assert np.allclose(grouped, expected(8), atol=1e-3) and not np.allclose(grouped, plain, atol=1)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
