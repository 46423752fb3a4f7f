#!/usr/bin/env bash
# ONNX Runtime 1.32.0's RotaryEmbedding ignores its attribute scale; MRotaryEmbedding scales what it rotates and nothing else.
#
# The schema says of both: "Custom scale will be used if specified." A head of [1, 2, 3, 4] at position 0, where no angle turns, of which two
# elements are rotated, with scale=0.5: RotaryEmbedding gives [1, 2, 3, 4], MRotaryEmbedding [0.5, 1, 3, 4]. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

x = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4)
CACHES = {"cos": np.ones((1, 1), np.float32), "sin": np.zeros((1, 1), np.float32)}


def run(operator, places, found, **attributes):
    own = {"num_heads": 1, "rotary_embedding_dim": 2, "scale": 0.5, **attributes}
    node = helper.make_node(operator, ["x", "places", "cos", "sin"], ["y"], domain="com.microsoft", **own)
    tensors = [numpy_helper.from_array(array, key) for key, array in (CACHES | {"places": np.zeros(places, np.int64)}).items()]
    heads = [helper.make_tensor_value_info(key, TensorProto.FLOAT, x.shape) for key in "xy"]
    graph = helper.make_graph([node], "g", heads[:1], heads[1:], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    result = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].ravel()
    print(f"{operator} with scale 0.5 of {x.ravel()}: {result}")
    assert result.tolist() == found


run("RotaryEmbedding", [1, 1], [1, 2, 3, 4])
run("MRotaryEmbedding", [3, 1, 1], [0.5, 1, 3, 4], mrope_section=[1, 0, 0])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
