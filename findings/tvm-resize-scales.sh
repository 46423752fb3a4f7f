#!/usr/bin/env bash
# TVM 0.27.0's ONNX importer resizes by the ratio of the sizes where a Resize gives scales.
#
# The first case is ONNX's node test resize_downsample_scales_linear: [[1, 2, 3, 4], [5, 6, 7, 8]] by 0.6 in both directions is [[2.6667, 4.3333]], also
# by ONNX's reference implementation and ONNX Runtime 1.32.0: element x is at (x + 0.5) / 0.6 - 0.5. TVM places two elements of four by 2 / 4 and one
# of two by 1 / 2: [[3.5, 5.5]], what ONNX gives for these sizes. (ONNX's text has scale = length_resized / length_original, without saying
# that a length may be a fraction before opset 19.) Where scale * size is a whole number both are the same. Nothing is said.
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

x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
SCALES = numpy_helper.from_array(np.array([1, 1, 0.6, 0.6], np.float32), "scales")
SIZES = numpy_helper.from_array(np.array([1, 1, 1, 2]), "sizes")
for tensor, how, right, given in (
    (SCALES, "half_pixel", [8 / 3, 13 / 3], [3.5, 5.5]),
    (SCALES, "asymmetric", [1, 8 / 3], [1, 3]),
    (SIZES, "half_pixel", [3.5, 5.5], [3.5, 5.5]),
):
    inputs = ["x", "", "scales"] if tensor is SCALES else ["x", "", "", "sizes"]
    node = helper.make_node("Resize", inputs, ["y"], mode="linear", coordinate_transformation_mode=how)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", [1, 1, 2, 4]), ("y", [1, 1, 1, 2]))]
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
