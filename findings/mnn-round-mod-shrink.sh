#!/usr/bin/env bash
# MNN 3.6.1 rounds halves away from zero, takes Mod with fmod=1 for Python's remainder, and leaves negative numbers out of Shrink.
#
# ONNX says of Round that halves go to the nearest even integer, of Mod with fmod=1 that the sign is the dividend's, and of Shrink that x < -lambd
# becomes x + bias: Round(2.5) is 2, Mod(-2.5, 2) is -0.5, Shrink(-2.5) with lambd=0.5 is -2.5. MNN gives 3, 1.5 and 0. Nothing is said.
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


x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
two = np.full_like(x, 2)
cases = {
    "Round": ({"x": x}, {}, [-2, -2, 0, 0, 2, 2], [-3, -2, -1, 1, 2, 3]),
    "Mod": ({"x": x, "two": two}, {"fmod": 1}, [-0.5, -1.5, -0.5, 0.5, 1.5, 0.5], [1.5, 0.5, 1.5, 0.5, 1.5, 0.5]),
    "Shrink": ({"x": x}, {"lambd": 0.5}, [-2.5, -1.5, 0, 0, 1.5, 2.5], [0, 0, 0, 0, 1.5, 2.5]),
}
print("MNN", MNN.version())
for operator, (inputs, attributes, expected, given) in cases.items():
    right, found = both(operator, inputs, {}, 13, **attributes)
    print(f"{operator}: ONNX Runtime {right}, MNN {found}")
    assert np.allclose(right, expected) and np.allclose(found, given)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" | grep -v "device supports\|CPU Group"
