#!/usr/bin/env bash
# ONNX Runtime 1.32.0's TreeEnsembleClassifier of two classes, both of which have weights: the label is 1 wherever the second score is
# above 0, neither the larger score's class nor one of the labels that classlabels_int64s lists. With three classes it returns the label
# of the largest score, as ONNX says.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def labels(classes):
    """One stump: x <= 0 is the first class, else the last one; each leaf has a weight for every class."""
    count = len(classes)
    weights = [1.0] + [0.25] * (count - 1) + [0.25] * (count - 1) + [1.0]
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[0, 0, 0], nodes_values=[0.0, 0.0, 0.0],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        class_treeids=[0] * (2 * count), class_nodeids=[1] * count + [2] * count, class_ids=list(range(count)) * 2,
        class_weights=weights, classlabels_int64s=classes, post_transform="NONE",
    )
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1])
    outputs = [helper.make_tensor_value_info("label", TensorProto.INT64, [2]), helper.make_tensor_value_info("scores", TensorProto.FLOAT, [2, count])]
    graph = helper.make_graph([node], "g", [x], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    label, scores = session.run(None, {"x": np.array([[-1.0], [1.0]], np.float32)})
    return label.tolist(), scores.tolist()


two, three = labels([10, 20]), labels([10, 20, 30])
print("onnxruntime", onnxruntime.__version__, "two classes", two, "three classes", three)
assert two == ([1, 1], [[1.0, 0.25], [0.25, 1.0]])
assert three == ([10, 30], [[1.0, 0.25, 0.25], [0.25, 0.25, 1.0]])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
