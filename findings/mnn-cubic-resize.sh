#!/usr/bin/env bash
# MNN 3.6.1 resizes cubic images without cubic_coeff_a and, before the first element, with weights of another place.
#
# [0, 10, 20, 30] doubled by ONNX's default coordinates begins at -0.25, where the weights are those of 0.75 beyond element -1: -1.0547, as ONNX Runtime
# 1.32.0 has it. MNN gives 6.6797, the value of 0.75, which the third element has, too; the other seven are right. With cubic_coeff_a=-0.5 it
# computes with the default, -0.75, in every place. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 mnn==3.6.1
cat >"$root/run.py" <<'PYTHON'
import subprocess
import sys

import MNN
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

root = sys.argv[1]
x = np.array([0, 10, 20, 30], np.float32).reshape(1, 1, 1, 4)


def both(number, **attributes):
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic", **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 1, size]) for name, size in (("x", 4), ("y", 8))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(np.array([1, 1, 1, 2], np.float32), "scales")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path, own = f"{root}/{number}.onnx", f"{root}/{number}.mnn"
    onnx.save(model, path)
    converter = [f"{root}/packages/bin/mnnconvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", own, "--bizCode", "finding"]
    subprocess.run([sys.executable, *converter], check=True, capture_output=True)
    (output,) = MNN.nn.load_module_from_file(own, ["x"], ["y"]).forward([MNN.expr.const(x, x.shape, MNN.expr.NCHW)])
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].ravel()
    found = np.array(MNN.expr.convert(output, MNN.expr.NCHW).read()).ravel()
    print(f"{attributes}: MNN {found.round(4)}, ONNX Runtime {runtime.round(4)}")
    return runtime, found


runtime, found = both(0)
assert np.allclose(runtime[:3], [-1.0547, 1.9141, 6.6797], atol=1e-4)
assert np.allclose(found[0], runtime[2], atol=1e-4) and np.allclose(found[1:], runtime[1:], atol=1e-4)
default, found = both(1, coordinate_transformation_mode="asymmetric")
assert np.allclose(found, default, atol=1e-4)
runtime, found = both(2, coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.5)
assert np.allclose(found, default, atol=1e-4)
assert np.allclose(runtime[[1, 5]], [4.375, 25.625], atol=1e-4) and np.allclose(found[[1, 5]], [4.0625, 25.9375], atol=1e-4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
