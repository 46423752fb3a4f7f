#!/usr/bin/env bash
# Aidge 0.10.1 drops elements in an ONNX Dropout that is not in training mode.
#
# From opset 12 on training_mode is an input, false if it is absent, and "if false ... the output is the same as the input". Up to opset 11 a
# Dropout of an exported model is for inference as well. Aidge drops half of the elements (or the ratio's share) and doubles the rest, in opset
# 7, 10, 13 and 22 alike. ONNX Runtime 1.32.0 gives the input. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" aidge-core==0.10.1 aidge-backend-cpu==0.10.1 aidge-onnx==0.10.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
from importlib.metadata import version

import aidge_backend_cpu  # noqa: F401 (registers the kernels)
import aidge_core
import aidge_onnx
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

aidge_core.Log.set_console_level(aidge_core.Level.Error)
data = np.ones(1000, np.float32)
print("aidge", version("aidge-core"))
for opset in (7, 10, 13, 22):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, data.shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Dropout", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    (right,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": data})
    imported = aidge_onnx.convert_onnx_to_aidge(model)
    assert aidge_onnx.has_native_coverage(imported)
    imported.compile("cpu", aidge_core.dtype.float32, dims=[list(data.shape)])
    aidge_core.SequentialScheduler(imported).forward(True, [aidge_core.Tensor(data)])
    node, index = imported.get_ordered_outputs()[0]
    found = np.array(node.get_operator().get_output(index))
    values, counts = np.unique(found, return_counts=True)
    print("opset", opset, "ones: ONNX Runtime", np.unique(right), "aidge", dict(zip(values.tolist(), counts.tolist(), strict=True)))
    assert (right == 1).all() and values.tolist() == [0, 2] and counts.min() > 400
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
