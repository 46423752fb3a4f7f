#!/usr/bin/env bash
# onnxscript 0.7.2's optimizer turns Clip(0, 1) and then Clip(2, 3) into one Clip that gives 1 where the two give 2.
#
# Ranges that do not meet are joined as [max of the minima, min of the maxima] = [2, 1]; ONNX's Clip with min above max gives max, so 1.
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

nodes = [helper.make_node("Clip", ["x", "0", "1"], ["c"]), helper.make_node("Clip", ["c", "2", "3"], ["y"])]
limits = [numpy_helper.from_array(np.array(value, np.float32), str(value)) for value in range(4)]
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy")
model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], limits), opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
onnx.checker.check_model(model)


def result(model: onnx.ModelProto) -> list[float]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.array([-1, 0.5, 9], np.float32)})[0].tolist()


optimized = optimizer.optimize(model)
before, after = result(model), result(optimized)
print("before", before, "after onnxscript", onnxscript.__version__, after, [node.op_type for node in optimized.graph.node])
assert before == [2, 2, 2] and after == [1, 1, 1]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
