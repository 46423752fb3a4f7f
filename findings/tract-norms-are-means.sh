#!/usr/bin/env bash
# tract 0.23.9's GlobalLpPool takes the root of the mean of x^p; ONNX's is the root of the sum of |x|^p. So the norm of [-2, 1] is 1.58 instead
# of 2.24, and depends on the size of the image; with p = 3 it is NaN, the root of -3.5, instead of 2.08.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 tract==0.23.9
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
import tract
from onnx import TensorProto, helper

for p, elements, own in ((2, [-2, 1], 2.5 ** (1 / 2)), (3, [2, 1], 4.5 ** (1 / 3)), (3, [-2, 1], float("nan"))):
    node = helper.make_node("GlobalLpPool", ["x"], ["y"], p=p)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, size]) for name, size in (("x", 2), ("y", 1))]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    x = np.array(elements, np.float32).reshape(1, 1, 2)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].item()
    found = tract.onnx().load(path).into_model().into_runnable().run([x])[0].to_numpy().item()
    print(f"p = {p} of {elements}: tract 0.23.9 {found:.4f}, onnxruntime {onnxruntime.__version__} {runtime:.4f}")
    assert abs(runtime - np.linalg.norm(elements, p)) < 1e-5 and np.isclose(found, own, atol=1e-4, equal_nan=True)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
