#!/usr/bin/env bash
# onnxscript 0.7.2's optimizer makes a Clip of Min and Max and loses the dimensions that their bounds add.
#
# Min and Max broadcast: x of [4] and bounds of [1, 1] give [1, 4]. The rule takes every bound of one element for a scalar, whatever its rank, so
# the result is [4], and a sum over axis 0, which leaves x as it is before, adds the four elements afterwards. The model's own shapes say [1, 4].
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import onnxscript
from onnx import TensorProto, helper, numpy_helper
from onnxscript import optimizer

nodes = [helper.make_node("Min", ["x", "high"], ["a"]), helper.make_node("Max", ["a", "low"], ["b"])]
nodes.append(helper.make_node("ReduceSum", ["b", "axes"], ["y"], keepdims=0))
initializers = [numpy_helper.from_array(np.full((1, 1), value, np.float32), name) for name, value in (("high", 5), ("low", -5))]
initializers.append(numpy_helper.from_array(np.array([0]), "axes"))
x, b, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", [4]), ("b", [1, 4]), ("y", [4])))
graph = helper.make_graph(nodes, "g", [x], [y], initializers, value_info=[b])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.checker.check_model(model, full_check=True)


def result(model: onnx.ModelProto) -> list[float]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array([1, 2, 3, 9], np.float32)})[0].tolist()


optimized = optimizer.optimize(model)
before, after = result(model), result(optimized)
print("before", before, "after onnxscript", onnxscript.__version__, after, [node.op_type for node in optimized.graph.node])
assert before == [1, 2, 3, 5] and after == 11
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
