#!/usr/bin/env bash
# onnx 1.23.2's version converter moves the samples of Resize from opset 10 to 11, and of Upsample from 9 to 11, by half an element.
#
# Up to opset 10 an output element x lies at x / scale (what opset 11 calls "asymmetric"); opset 11 has (x + 0.5) / scale - 0.5 for its default.
# The converter leaves coordinate_transformation_mode out, so [0, 4] by 2 in mode linear is [0, 2, 4, 4] before and [0, 1, 3, 4] after, in
# ONNX Runtime 1.32.0. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, version_converter

x = np.array([[[[0, 4]]]], np.float32)
for operator, old in (("Upsample", 9), ("Resize", 10)):
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 1, columns]) for name, columns in (("X", 2), ("Y", 4))]
    scales = numpy_helper.from_array(np.array([1, 1, 1, 2], np.float32), "scales")
    graph = helper.make_graph([helper.make_node(operator, ["X", "scales"], ["Y"], mode="linear")], "g", infos[:1], infos[1:], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", old)], ir_version=5)
    onnx.checker.check_model(model)
    converted = version_converter.convert_version(model, 11)
    onnx.checker.check_model(converted)
    rows = [
        onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": x})[0].ravel().tolist()
        for m in (model, converted)
    ]
    print(f"{operator} from opset {old} to 11: {rows[0]} before, {rows[1]} after")
    assert rows == [[0, 2, 4, 4], [0, 1, 3, 4]]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
