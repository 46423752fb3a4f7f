#!/usr/bin/env bash
# MNN 3.6.1 gives a Gemm with transA=1 and a stored second matrix column by column, in the shape of the rows.
#
# ONNX's Gemm with transA=1 is Y = A' B + C. Where B is a constant of the model, MNN's result has the shape of Y, 4 x 5 here, and the elements of Y
# in the order of its columns, so that all but a few are in the wrong places. Nothing is said. transB, alpha and beta are right, and so is transA=1
# with B as an input of the model.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 mnn==3.6.1
cat >"$root/run.py" <<'PYTHON'
import subprocess
import sys

import MNN
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

root = sys.argv[1]
rng = np.random.default_rng(0)


def both(operator: str, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray], opset: int, **attributes: object) -> tuple[np.ndarray, np.ndarray]:
    """The result of one node in ONNX Runtime and in MNN."""
    node = helper.make_node(operator, [*inputs, *constants], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    right = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    onnx.save(model, f"{root}/model.onnx")
    converter = [f"{root}/packages/bin/mnnconvert", "-f", "ONNX", "--modelFile", f"{root}/model.onnx", "--MNNModel", f"{root}/model.mnn", "--bizCode", "finding"]
    subprocess.run([sys.executable, *converter], check=True, capture_output=True)
    module = MNN.nn.load_module_from_file(f"{root}/model.mnn", list(inputs), ["y"])
    output = module.forward([MNN.expr.const(array, array.shape, MNN.expr.NCHW) for array in inputs.values()])[0]
    return right, np.array(MNN.expr.convert(output, MNN.expr.NCHW).read())


a = rng.standard_normal((3, 4)).astype(np.float32)
b = rng.standard_normal((3, 5)).astype(np.float32)
c = rng.standard_normal(5).astype(np.float32)
print("MNN", MNN.version())
cases = {
    "transA, B stored": ({"a": a}, {"b": b, "c": c}, {"transA": 1}),
    "transA, B an input": ({"a": a, "b": b}, {"c": c}, {"transA": 1}),
    "B stored": ({"a": a.T.copy()}, {"b": b, "c": c}, {}),
    "transB, B stored, alpha, beta": ({"a": a.T.copy()}, {"b": b.T.copy(), "c": c}, {"transB": 1, "alpha": 0.5, "beta": 2.0}),
}
for name, (inputs, constants, attributes) in cases.items():
    right, found = both("Gemm", inputs, constants, 13, **attributes)
    wrong = name == "transA, B stored"
    print(f"{name}: ONNX Runtime {right[0, :3].round(3)}, MNN {found[0, :3].round(3)}")
    alpha, beta = (attributes.get(key, 1) for key in ("alpha", "beta"))
    assert found.shape == right.shape and np.allclose(right, alpha * a.T @ b + beta * c, atol=1e-4)
    assert np.allclose(right, found, atol=1e-4) != wrong
    assert not wrong or np.allclose(found.ravel(), right.T.ravel(), atol=1e-4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" | grep -v "device supports\|CPU Group"
