#!/usr/bin/env bash
# onnxoptimizer 0.4.2 moves a Pad with zeros into the MaxPool or AveragePool behind it, and changes results.
#
# The zeros that a Pad writes take part in a maximum; the pads of a MaxPool do not, by ONNX's text ("exclude pad"). [-3, -2, -1] between two zeros by
# windows of 3 has the maxima [0, -1, 0]; after fuse_pad_into_pool they are [-2, -1, -1]. An AveragePool that has pads of its own counts those of
# the Pad and not its own; the pass writes count_include_pad=1 for both. With auto_pad="SAME_UPPER" the Pad is lost. Nothing is said. The pass is
# one of get_fuse_and_elimination_passes(); the project's pull request 318 would mend its MaxPool. ONNX Runtime 1.32.0, which runs both here, has
# the models right as they are.
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

assert "fuse_pad_into_pool" in onnxoptimizer.get_fuse_and_elimination_passes()
x = np.array([[[-3, -2, -1]]], np.float32)


def run(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].ravel()


def both(operator, right, given, **attributes):
    nodes = [helper.make_node("Pad", ["x", "pads"], ["padded"]), helper.make_node(operator, ["padded"], ["y"], kernel_shape=[3], **attributes)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, size]) for name, size in (("x", 3), ("y", "size"))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 1]), "pads")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    optimized = onnxoptimizer.optimize(model, ["fuse_pad_into_pool"])
    before, after = run(model), run(optimized)
    print(f"Pad and {operator} {attributes}: {before.round(4)}, after onnxoptimizer {after.round(4)}")
    assert [node.op_type for node in optimized.graph.node] == [operator]
    assert np.allclose(before, right) and np.allclose(after, given)


both("MaxPool", [0, -1, 0], [-2, -1, -1])
both("MaxPool", [0, 0, -1, 0, 0], [-2, -1, -1], auto_pad="SAME_UPPER")
both("AveragePool", [-5 / 3, -2, -1], [-5 / 3, -2, -1])
both("AveragePool", [-3 / 2, -5 / 3, -2, -1, -1 / 2], [-1, -5 / 3, -2, -1, -1 / 3], pads=[1, 1])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
