#!/usr/bin/env bash
# OpenVINO 2026.4.1 reads an ONNX Resize without keep_aspect_ratio_policy, antialias and exclude_outside.
#
# The first stretches an image where it should keep its shape: [1, 1, 4, 5] to sizes of [7, 8] with "not_larger" is [1, 1, 6, 8] by ONNX. The
# second stretches the filter of a smaller image: [1, 0, 0, 0, 0, 0, 0, 0] by a scale of 1/4 is [0.28125, 0], by OpenVINO [0, 0]. The third
# leaves out what lies beyond the border; OpenVINO counts the border's element once more. ONNX Runtime 1.32.0 has all three right. OpenVINO's table of
# operators has Resize up to version 11, which has exclude_outside; the other two came with version 18, whose nodes it reads, too. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper


def both(x, name, numbers, **attributes):
    node = helper.make_node("Resize", ["x", "", "scales"] if name == "scales" else ["x", "", "", "sizes"], ["y"], axes=[2, 3], **attributes)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape), helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(numbers, name)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    core = openvino.Core()
    return runtime, core.compile_model(core.read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"x": x})[0]


for policy, right in (("not_larger", (1, 1, 6, 8)), ("not_smaller", (1, 1, 7, 9))):
    sizes = [array.shape for array in both(np.zeros((1, 1, 4, 5), np.float32), "sizes", np.array([7, 8]), keep_aspect_ratio_policy=policy)]
    print(f"{policy}: ONNX Runtime {sizes[0]}, OpenVINO {sizes[1]}")
    assert sizes == [right, (1, 1, 7, 8)]

row = np.zeros((1, 1, 1, 8), np.float32)
row[..., 0] = 1
for attributes, scale in (({"mode": "linear", "antialias": 1}, 0.25), ({"mode": "cubic", "exclude_outside": 1}, 2)):
    runtime, found = [array.ravel()[:4] for array in both(row, "scales", np.array([1, scale], np.float32), **attributes)]
    without = both(row, "scales", np.array([1, scale], np.float32), mode=attributes["mode"])[0].ravel()[:4]
    print(f"{attributes}: ONNX Runtime {runtime.round(4)}, OpenVINO {found.round(4)}")
    assert np.allclose(found, without, atol=1e-5) and np.abs(found - runtime).max() > 0.03
    assert scale > 1 or np.allclose(runtime, [0.28125, 0])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
