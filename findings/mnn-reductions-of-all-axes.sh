#!/usr/bin/env bash
# MNN 3.6.1's ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum and ReduceLogSumExp of opset 18 reduce all axes, whatever axes the node gives.
#
# From opset 18 on the axes of ONNX's reductions are an input, here a constant of the model. MNN reads it for ReduceSum, ReduceMean, ReduceMax,
# ReduceMin and ReduceProd, and not for these five: a tensor of [2, 3, 4] becomes a single number. With the attribute of opset 13 the five are
# right. Nothing is said.
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


x = rng.uniform(0.5, 2, (2, 3, 4)).astype(np.float32)
left_out = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
print("MNN", MNN.version())
for operator in (*left_out, "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"):
    right, found = both(operator, {"x": x}, {"axes": np.array([1])}, 18, keepdims=1)
    print(f"{operator}: ONNX Runtime {right.shape}, MNN {found.shape} {found.ravel()[:2].round(3)}")
    assert right.shape == (2, 1, 4) and (found.shape == right.shape and np.allclose(found, right, atol=1e-4)) != (operator in left_out)
    if operator in left_out:
        every, _ = both(operator, {"x": x}, {"axes": np.array([0, 1, 2])}, 18, keepdims=1)
        older, older_found = both(operator, {"x": x}, {}, 13, axes=[1], keepdims=1)
        assert np.allclose(found, every, rtol=1e-4) and found.size == 1
        assert np.allclose(older, right, rtol=1e-5) and np.allclose(older_found, right, rtol=1e-4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" | grep -v "device supports\|CPU Group"
