#!/usr/bin/env bash
# ONNX Runtime 1.32.0, OpenVINO 2026.4.1, MNN 3.6.1 and tinygrad 0.14.0 take the bytes of a big-endian NumPy array for little-endian ones.
#
# FITS and netCDF-3 files, IDX files and network protocols hold big-endian numbers, and NumPy keeps them so: its type ">f4" computes like "<f4"
# ("Data type objects", "byteorder"). Given to InferenceSession.run, openvino.Tensor, a constant of OpenVINO's, MNN.expr.const or tinygrad's Tensor
# its elements become other numbers: 1.0 becomes 4.6e-41. Nothing is said. torch.from_numpy refuses it, as does onnx.numpy_helper.from_array;
# a compiled model of OpenVINO converts it if the array is passed to it directly.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1 mnn==3.6.1 tinygrad==0.14.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import MNN
import numpy as np
import onnxruntime
import openvino
import openvino.opset15
import tinygrad
from onnx import TensorProto, helper

SIZES = [2, 3]
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SIZES) for name in "xy")
graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
core = openvino.Core()
compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
readers = {
    "onnxruntime run": lambda array: session.run(None, {"x": array})[0],
    "onnxruntime OrtValue": lambda array: onnxruntime.OrtValue.ortvalue_from_numpy(array).numpy(),
    "openvino Tensor": lambda array: np.array(openvino.Tensor(array).data),
    "openvino constant": lambda array: np.array(openvino.opset15.constant(array).data),
    "MNN const": lambda array: np.array(MNN.expr.const(array, SIZES, MNN.expr.NCHW).read()),
    "tinygrad Tensor": lambda array: tinygrad.Tensor(array).numpy(),
    "openvino compiled model": lambda array: compiled({"x": array})["y"].copy(),
}
little = np.arange(6, dtype="<f4").reshape(SIZES)
big = little.astype(">f4")
assert np.array_equal(little, big) and np.array_equal(little + 1, big + 1)
other = big.view("<f4")
for name, read in readers.items():
    found = read(big)
    print(name, found.ravel()[:3])
    assert np.array_equal(read(little), little)
    assert np.array_equal(found, little if name == "openvino compiled model" else other)
PYTHON
PYTHONPATH="$root/packages" DEV=PYTHON python3 "$root/run.py" 2>&1 | grep -v "device supports\|CPU Group"
