#!/usr/bin/env bash
# onnx 1.23.2 and ONNX Runtime 1.32.0 disagree about Resize by scales with align_corners where scale * size is no whole number.
#
# [0, 10, 20, 30, 40] by 1.3 has 6 elements. ONNX's reference implementation places them by 6.5 - 1 intervals, so the last one is 36.36;
# ONNX Runtime by 6 - 1, so the last one is 40, as PyTorch's interpolate(scale_factor=1.3, align_corners=True) has it, which exporters
# write in this form. ONNX's node test resize_downsample_scales_linear_align_corners expects the former.
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

x = np.array([[[0, 10, 20, 30, 40]]], np.float32)
node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="align_corners")
scales = numpy_helper.from_array(np.array([1, 1, 1.3], np.float32), "s")
graph = helper.make_graph(
    [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [scales]
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
reference = ReferenceEvaluator(model).run(None, {"x": x})[0].ravel()
runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].ravel()
print("onnx", onnx.__version__, np.round(reference, 2), "onnxruntime", onnxruntime.__version__, np.round(runtime, 2))
assert reference.shape == runtime.shape == (6,)
assert abs(reference[-1] - 36.3636) < 1e-3 and abs(runtime[-1] - 40) < 1e-4
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
