#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Loop gives the last count in every row of a scan output that is the iteration number itself (CPU provider).
#
# A body that hands its iteration number on as a scan output writes [0, 1, 2, 3] for four turns, by ONNX's text of Loop, and so does onnx
# 1.23.2's reference implementation. ONNX Runtime returns [4, 4, 4, 4]. With an Identity between the two, and optimizations off, the rows
# are right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def model(copies):
    condition = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("going", "goes_on")]
    number, row = (helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("number", "row" if copies else "number"))
    nodes = [helper.make_node("Identity", ["going"], ["goes_on"])]
    nodes += [helper.make_node("Identity", ["number"], ["row"])] if copies else []
    body = helper.make_graph(nodes, "body", [number, condition[0]], [condition[1], row])
    loop = helper.make_node("Loop", ["turns", "begins"], ["rows"], body=body)
    outputs = [helper.make_tensor_value_info("rows", TensorProto.INT64, [None])]
    constants = {"turns": np.array(4, np.int64), "begins": np.array(True)}
    graph = helper.make_graph([loop], "g", [], outputs, [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


options = onnxruntime.SessionOptions()
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
for copies, given in ((False, [4, 4, 4, 4]), (True, [0, 1, 2, 3])):
    proto = model(copies)
    onnx.checker.check_model(proto)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found = session.run(None, {})[0].tolist()
    reference = np.ravel(ReferenceEvaluator(proto).run(None, {})[0]).tolist()
    print(f"{'a copy of the number' if copies else 'the number'}: ONNX Runtime {found}, reference {reference}")
    assert found == given and reference == [0, 1, 2, 3]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
