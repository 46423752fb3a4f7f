#!/usr/bin/env bash
# MNN 3.6.1 replaces elements where an ONNX ScatterND has a reduction.
#
# With reduction="add" the updates 10 and 20 of the first element of [1, 2, 3] make it 31, as ONNX Runtime 1.32.0 has it; MNN gives 20, the last update.
# So it is with "mul" and "min": 200 and 1 become 20. Nothing is said, and without a reduction it is right.
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
x = np.array([1, 2, 3], np.float32)


def both(places, **attributes):
    node = helper.make_node("ScatterND", ["x", "places", "updates"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    tensors = {"places": np.array(places), "updates": np.array([10, 20][: len(places)], np.float32)}
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(array, name) for name, array in tensors.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    name = f"{root}/{attributes.get('reduction')}"
    onnx.save(model, f"{name}.onnx")
    converter = [f"{root}/packages/bin/mnnconvert", "-f", "ONNX", "--modelFile", f"{name}.onnx", "--MNNModel", f"{name}.mnn", "--bizCode", "finding"]
    subprocess.run([sys.executable, *converter], check=True, capture_output=True)
    (output,) = MNN.nn.load_module_from_file(f"{name}.mnn", ["x"], ["y"]).forward([MNN.expr.const(x, x.shape, MNN.expr.NCHW)])
    runtime = onnxruntime.InferenceSession(f"{name}.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = np.array(MNN.expr.convert(output, MNN.expr.NCHW).read())
    print(f"ScatterND {attributes}: MNN {found}, ONNX Runtime {runtime}")
    return runtime.tolist(), found.tolist()


assert both([[0]]) == ([10, 2, 3], [10, 2, 3])
for reduction, right in (("add", 31), ("mul", 200), ("min", 1)):
    assert both([[0], [0]], reduction=reduction) == ([right, 2, 3], [20, 2, 3])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
