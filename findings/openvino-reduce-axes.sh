#!/usr/bin/env bash
# OpenVINO 2026.4.1 reduces over all axes in an ONNX ReduceL1, ReduceLogSum or ReduceLogSumExp before opset 18, whatever its axes are.
#
# Up to opset 17 these operators take their axes as an attribute, from opset 18 on as an input. [[1, 2], [3, 4]] with axes=[1] is [3, 7] by
# ReduceL1, as ONNX Runtime 1.32.0 has it; OpenVINO gives 10, a scalar or with keepdims=1 [[10]]. ReduceL2, ReduceSumSquare and the like are
# right with an attribute, and all are right with an input. Nothing is said, not even where the model states the output's shape.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

x = np.array([[1, 2], [3, 4]], np.float32)
REDUCED = {"ReduceL1": np.abs, "ReduceLogSum": lambda a: a, "ReduceLogSumExp": np.exp, "ReduceL2": np.square, "ReduceSumSquare": np.square}
AFTER = {"ReduceLogSum": np.log, "ReduceLogSumExp": np.log, "ReduceL2": np.sqrt}


def run(operator, opset, keepdims):
    sizes = [2, 1] if keepdims else [2]
    given = {"axes": [1]} if opset < 18 else {}
    node = helper.make_node(operator, ["x"] if given else ["x", "axes"], ["y"], keepdims=keepdims, **given)
    tensors = [] if given else [numpy_helper.from_array(np.array([1]), "axes")]
    values = [helper.make_tensor_value_info(*value) for value in (("x", TensorProto.FLOAT, x.shape), ("y", TensorProto.FLOAT, sizes))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"x": x})[0]
    print(f"{operator} of opset {opset}, keepdims={keepdims}: OpenVINO {found.tolist()}, ONNX Runtime {runtime.tolist()}")
    own = lambda axis: AFTER.get(operator, lambda a: a)(REDUCED[operator](x).sum(axis, keepdims=bool(keepdims)))
    wrong = opset < 18 and operator in {"ReduceL1", "ReduceLogSum", "ReduceLogSumExp"}
    right, expected = own(1), own(None if wrong else 1)
    assert runtime.shape == right.shape and np.allclose(runtime, right)
    assert found.shape == expected.shape and np.allclose(found, expected)


for operator in REDUCED:
    for opset in (13, 18):
        run(operator, opset, 0)
        run(operator, opset, 1)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
