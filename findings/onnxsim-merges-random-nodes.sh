#!/usr/bin/env bash
# onnxsim 0.8.1 merges two RandomUniform nodes without a seed into one: two independent draws become the same numbers.
#
# The difference of two draws is not 0 before simplify() and exactly 0 after it. ONNX says that without a seed one is made for each node.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxsim==0.8.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import onnxsim
from onnx import TensorProto, helper

nodes = [helper.make_node("RandomUniform", [], [name], shape=[64]) for name in "ab"] + [helper.make_node("Sub", ["a", "b"], ["y"])]
graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64])])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.checker.check_model(model)


def largest(model: onnx.ModelProto) -> float:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return float(np.abs(session.run(None, {})[0]).max())


simplified, _ = onnxsim.simplify(model)
before, after = largest(model), largest(simplified)
print("before", round(before, 3), "after onnxsim", onnxsim.__version__, after, [node.op_type for node in simplified.graph.node])
assert before > 0.1 and after == 0
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
