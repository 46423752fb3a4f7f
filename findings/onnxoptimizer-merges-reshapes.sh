#!/usr/bin/env bash
# onnxoptimizer 0.4.2 changes results where it merges two Reshapes, or two Squeezes with negative axes, into one.
#
# [2, 3, 4] reshaped to [3, 2, 4] and then to [0, -1] is [3, 8]: the 0 copies the size that the second Reshape finds. The default passes drop the
# first Reshape and leave the second as it is, so the 0 copies the 2 of the input: [2, 12]. [1, 3, 1, 1] squeezed along -1 twice is [1, 3];
# the merged Squeeze gives [3, 1]. Nothing is said. ONNX Runtime 1.32.0, which runs both here, has the models right as they are.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxoptimizer==0.4.2
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxoptimizer
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def run(operator, size, first, second, right, given):
    nodes = [helper.make_node(operator, ["X", "first"], ["middle"]), helper.make_node(operator, ["middle", "second"], ["Y"])]
    x_info = helper.make_tensor_value_info("X", TensorProto.FLOAT, size)
    y_info = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [None, None])
    constants = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in (("first", first), ("second", second))]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x_info], [y_info], constants), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    optimized = onnxoptimizer.optimize(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = [
        onnxruntime.InferenceSession(m.SerializeToString(), options).run(None, {"X": np.zeros(size, np.float32)})[0].shape
        for m in (model, optimized)
    ]
    print(f"{operator} of {size} by {first} and {second}: {found[0]}, optimized {found[1]}")
    assert found == [right, given]


run("Reshape", [2, 3, 4], [3, 2, 4], [0, -1], (3, 8), (2, 12))
run("Squeeze", [1, 3, 1, 1], [-1], [-1], (1, 3), (3, 1))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
