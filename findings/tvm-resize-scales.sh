#!/usr/bin/env bash
# TVM 0.27.0's ONNX importer resizes by the ratio of the sizes where a Resize gives scales.
#
# [0, 10, 20, 30] by 0.6 has 2 elements. ONNX places them by the scale, at (x + 0.5) / 0.6 - 0.5, so half_pixel with linear is [3.3333, 20], as
# ONNX Runtime 1.32.0 and ONNX's reference implementation have it. TVM places them by 2 / 4: [5, 25], what ONNX gives for sizes of 2. PyTorch
# exports F.interpolate(scale_factor=0.6) with such scales. Where scale * size is a whole number both are the same. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 apache-tvm==0.27.0.post1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

x = np.array([0, 10, 20, 30], np.float32).reshape(1, 1, 1, 4)
SCALES = numpy_helper.from_array(np.array([1, 1, 1, 0.6], np.float32), "scales")
SIZES = numpy_helper.from_array(np.array([1, 1, 1, 2]), "sizes")
for tensor, how, right, given in (
    (SCALES, "half_pixel", [10 / 3, 20], [5, 25]),
    (SCALES, "asymmetric", [0, 50 / 3], [0, 20]),
    (SIZES, "half_pixel", [5, 25], [5, 25]),
):
    inputs = ["x", "", "scales"] if tensor is SCALES else ["x", "", "", "sizes"]
    node = helper.make_node("Resize", inputs, ["y"], mode="linear", coordinate_transformation_mode=how)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 1, size]) for name, size in (("x", 4), ("y", 2))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = [session.run(None, {"x": x})[0].ravel(), ReferenceEvaluator(model).run(None, {"x": x})[0].ravel()]
    machine = relax.VirtualMachine(tvm.compile(relax.transform.LegalizeOps()(from_onnx(model)), target="llvm"), tvm.cpu())
    found = machine["main"](tvm.runtime.tensor(x)).numpy().ravel()
    print(f"{how} by {tensor.name}: TVM {tvm.__version__} {found.round(4)}, onnxruntime {onnxruntime.__version__} {expected[0].round(4)}")
    assert np.allclose(expected, right, atol=1e-4) and np.allclose(found, given, atol=1e-4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
