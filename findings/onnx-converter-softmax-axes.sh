#!/usr/bin/env bash
# onnx 1.23.2's version converter leaves Softmax and LogSoftmax from 13 to 12, and Hardmax from 12 to 13, as they are, with other results.
#
# Up to opset 12 the three take all dimensions from `axis` on as one vector; from opset 13 on a vector lies along `axis` alone. Upwards the
# converter writes Flatten, Softmax and Reshape, which is right. Downwards, and for Hardmax upwards, it only changes the version: zeros of
# [2, 2, 2] with axis=1 give 0.5 before and 0.25 after, in ONNX Runtime 1.32.0, and Hardmax has 2 ones before and 4 after. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, version_converter

x = np.zeros((2, 2, 2), np.float32)
for operator, old, new, before, after in (
    ("Softmax", 12, 13, 0.25, 0.25),
    ("Softmax", 13, 12, 0.5, 0.25),
    ("LogSoftmax", 13, 12, np.log(0.5), np.log(0.25)),
    ("Hardmax", 12, 13, 2 / 8, 4 / 8),
):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in ("X", "Y")]
    graph = helper.make_graph([helper.make_node(operator, ["X"], ["Y"], axis=1)], "g", infos[:1], infos[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", old)], ir_version=7)
    onnx.checker.check_model(model)
    converted = version_converter.convert_version(model, new)
    onnx.checker.check_model(converted)
    means = [
        onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0].mean()
        for m in (model, converted)
    ]
    print(f"{operator} from opset {old} to {new}: mean {means[0]:.4f} before, {means[1]:.4f} after")
    assert np.allclose(means, [before, after])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
