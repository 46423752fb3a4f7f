#!/usr/bin/env bash
# MNN 3.6.1's GridSample interpolates linearly where the mode is bicubic, and takes the border where padding_mode is reflection.
#
# ONNX's GridSample of opset 16 has the modes bilinear, nearest and bicubic and the paddings zeros, border and reflection. MNN's bicubic gives the
# values of its bilinear, and its reflection those of its border, with bilinear and bicubic. Both are off by tenths. Nothing is said;
# bilinear with zeros or border, and nearest with all three, are right.
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
rng = np.random.default_rng(0)


def both(operator: str, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray], opset: int, **attributes: object) -> tuple[np.ndarray, np.ndarray]:
    """The result of one node in ONNX Runtime and in MNN."""
    node = helper.make_node(operator, [*inputs, *constants], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    right = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    onnx.save(model, f"{root}/model.onnx")
    converter = [f"{root}/packages/bin/mnnconvert", "-f", "ONNX", "--modelFile", f"{root}/model.onnx", "--MNNModel", f"{root}/model.mnn", "--bizCode", "finding"]
    subprocess.run([sys.executable, *converter], check=True, capture_output=True)
    module = MNN.nn.load_module_from_file(f"{root}/model.mnn", list(inputs), ["y"])
    output = module.forward([MNN.expr.const(array, array.shape, MNN.expr.NCHW) for array in inputs.values()])[0]
    return right, np.array(MNN.expr.convert(output, MNN.expr.NCHW).read())


x = rng.standard_normal((1, 1, 4, 5)).astype(np.float32)
grid = rng.uniform(-1.4, 1.4, (1, 3, 4, 2)).astype(np.float32)
results = {}
print("MNN", MNN.version())
for mode in ("nearest", "bilinear", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        right, found = both("GridSample", {"x": x, "grid": grid}, {}, 16, mode=mode, padding_mode=padding)
        results[mode, padding] = found
        error = np.abs(right - found).max()
        print(f"{mode}, {padding}: ONNX Runtime {right.ravel()[:3].round(3)}, MNN {found.ravel()[:3].round(3)}, largest difference {error:.3f}")
        assert error > 0.05 if mode == "bicubic" or (mode, padding) == ("bilinear", "reflection") else error < 1e-4
for padding in ("zeros", "border", "reflection"):
    assert np.allclose(results["bicubic", padding], results["bilinear", padding], atol=1e-5)
for mode in ("bilinear", "bicubic"):
    assert np.allclose(results[mode, "reflection"], results[mode, "border"], atol=1e-5)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" | grep -v "device supports\|CPU Group"
