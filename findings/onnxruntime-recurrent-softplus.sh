#!/usr/bin/env bash
# ONNX Runtime 1.32.0's RNN with the activation Softplus gives infinity from 89 on: log(1 + exp(x)) as it is written, where exp overflows. Softplus
# is x there, as ONNX Runtime's own node Softplus computes it. The step is exact up to 88.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def results(node, shape, constants, x):
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape), helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", values[:1], values[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0].ravel()


x = np.array([10, 88, 89, 100], np.float32)
softplus = results(helper.make_node("Softplus", ["x"], ["y"]), [4], {}, x)
layer = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=1, activations=["Softplus"])
weights = {"w": np.ones((1, 1, 1), np.float32), "r": np.zeros((1, 1, 1), np.float32)}  # each step is Softplus(x)
rnn = results(layer, [1, 1, 4, 1], weights, x.reshape(1, 4, 1))
print("onnxruntime", onnxruntime.__version__, "x", x, "Softplus", softplus, "RNN", rnn)
right = np.logaddexp(0, x.astype(np.float64))
assert np.allclose(softplus, right)
assert np.allclose(rnn[:2], right[:2]) and np.isposinf(rnn[2:]).all()
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
