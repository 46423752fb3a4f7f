#!/usr/bin/env bash
# Aidge 0.10.1's GridSample interpolates with weights that do not add up to one: between 0 and 11 it finds -9.5.
#
# An image of 0 to 11 in three rows of four has 5.5 in its middle, the mean of its two middle elements, and its corners are 0 and 11 with align_corners.
# Modes "linear" and "cubic" give -9.5 and 10.5 for the middle, and -5 for the first corner; "nearest" is right. ONNX Runtime 1.32.0 has all right.
# An image of ones shows it best: its linear interpolations are all -1.
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
from onnx import TensorProto, helper, numpy_helper

aidge_core.Log.set_console_level(aidge_core.Level.Error)
grid = np.array([[-1, -1], [0, 0], [0.5, -0.25]], np.float32).reshape(1, 1, 3, 2)


def run(model: onnx.ModelProto, image: np.ndarray) -> np.ndarray:
    graph = aidge_onnx.convert_onnx_to_aidge(model)
    assert aidge_onnx.has_native_coverage(graph)
    graph.compile("cpu", aidge_core.dtype.float32, dims=[list(image.shape)])
    aidge_core.SequentialScheduler(graph).forward(True, [aidge_core.Tensor(image)])
    ((node, index),) = graph.get_ordered_outputs()
    return np.array(node.get_operator().get_output(index)).ravel()


print("aidge", version("aidge-core"))
ramp = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
for mode in ("nearest", "linear", "cubic"):
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, align_corners=1)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", ramp.shape), ("y", (1, 1, 1, 3))))
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(grid, "g")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    for name, image in (("0 to 11", ramp), ("ones", np.ones_like(ramp))):
        (right,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": image})
        found = run(model, image)
        print(mode, "of", name, "ONNX Runtime", right.ravel(), "aidge", found)
        assert mode == "cubic" or name != "ones" or np.allclose(right, 1)
        assert np.allclose(right.ravel(), found, atol=1e-4) == (mode == "nearest")
        assert (mode, name) != ("linear", "ones") or np.allclose(found, -1)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
