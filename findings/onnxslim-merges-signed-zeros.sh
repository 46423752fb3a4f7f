#!/usr/bin/env bash
# onnxslim 0.1.98 merges the initializers 0.0 and -0.0 into one, so a model that divides by both changes its results.
#
# [1, 2] / 0.0 is +inf and [1, 2] / -0.0 is -inf, as IEEE 754 says; after slim() both are +inf.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxslim==0.1.98
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import onnxslim
from onnx import TensorProto, helper, numpy_helper

nodes = [helper.make_node("Div", ["x", "positive"], ["a"]), helper.make_node("Div", ["x", "negative"], ["b"])]
zeros = [numpy_helper.from_array(np.array([zero], np.float32), name) for name, zero in (("positive", 0.0), ("negative", -0.0))]
x, a, b = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xab")
model = helper.make_model(helper.make_graph(nodes, "g", [x], [a, b], zeros), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.checker.check_model(model)


def results(model: onnx.ModelProto) -> list[list[float]]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [array.tolist() for array in session.run(None, {"x": np.array([1, 2], np.float32)})]


before, after = results(model), results(onnxslim.slim(model))
print("before", before, "after onnxslim", onnxslim.__version__, after)
inf = float("inf")
assert before == [[inf, inf], [-inf, -inf]] and after == [[inf, inf], [inf, inf]]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
