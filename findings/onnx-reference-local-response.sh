#!/usr/bin/env bash
# onnx 1.23.2's reference implementation of LRN normalizes only as many channels as there are images in the batch.
#
# The others are divided by bias ** beta alone. One image of four channels, each [3], with size, alpha, beta and bias of 1: y = 3 / (1 + 9) = 0.3
# by ONNX's formula and by ONNX Runtime 1.32.0, in every channel; the reference implementation gives [0.3, 3, 3, 3], and for a batch of two
# [0.3, 0.3, 3, 3] twice. ONNX's own node tests of LRN have five images of five channels, where no channel is left out.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

for images in (1, 2, 4):
    x = np.full((images, 4, 1, 1), 3, np.float32)
    node = helper.make_node("LRN", ["x"], ["y"], size=1, alpha=1.0, beta=1.0, bias=1.0)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = ReferenceEvaluator(model).run(None, {"x": x})[0]
    print(f"LRN of {images} images: reference {found[0].ravel().round(4)}, ONNX Runtime {runtime[0].ravel().round(4)}")
    expected = [0.3] * min(images, 4) + [3.0] * (4 - images)
    assert np.allclose(runtime, 0.3) and np.allclose(found.reshape(images, 4), expected)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
