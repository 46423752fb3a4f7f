#!/usr/bin/env bash
# Aidge 0.10.1 puts the odd element of ONNX's SAME_UPPER at the beginning and that of SAME_LOWER at the end, and loses the last window of strides.
#
# ONNX: "For SAME_UPPER, the extra padding is added at the end and for SAME_LOWER at the beginning", and the result has ceil(input / stride) elements.
# Pairs of 1 to 5 have the largest elements 2, 3, 4, 5, 5 with SAME_UPPER and 1, 2, 3, 4, 5 with SAME_LOWER; Aidge has them the other way round. By
# strides of 2, SAME_UPPER gives 2, 4, 5 and SAME_LOWER 1, 3, 5; Aidge gives 2, 4 for both. ONNX Runtime 1.32.0 has all right. AveragePool is the
# same, and so is a Conv with strides.
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
data = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 1, 5)
CASES = (
    ("MaxPool", "SAME_UPPER", 1, [2, 3, 4, 5, 5], [1, 2, 3, 4, 5]),
    ("MaxPool", "SAME_LOWER", 1, [1, 2, 3, 4, 5], [2, 3, 4, 5, 5]),
    ("MaxPool", "SAME_UPPER", 2, [2, 4, 5], [2, 4]),
    ("MaxPool", "SAME_LOWER", 2, [1, 3, 5], [2, 4]),
    ("AveragePool", "SAME_UPPER", 1, [1.5, 2.5, 3.5, 4.5, 5], [1, 1.5, 2.5, 3.5, 4.5]),
    ("Conv", "SAME_UPPER", 2, [3, 7, 5], [3, 7]),
)


def run(model: onnx.ModelProto) -> np.ndarray:
    graph = aidge_onnx.convert_onnx_to_aidge(model)
    assert aidge_onnx.has_native_coverage(graph)
    graph.compile("cpu", aidge_core.dtype.float32, dims=[list(data.shape)])
    aidge_core.SequentialScheduler(graph).forward(True, [aidge_core.Tensor(data)])
    ((node, index),) = graph.get_ordered_outputs()
    return np.array(node.get_operator().get_output(index))


print("aidge", version("aidge-core"))
for operator, auto_pad, stride, right, given in CASES:
    weights = [numpy_helper.from_array(np.ones((1, 1, 1, 2), np.float32), "W")] if operator == "Conv" else []
    node = helper.make_node(operator, ["X", "W"][: 1 + len(weights)], ["Y"], kernel_shape=[1, 2], strides=[1, stride], auto_pad=auto_pad)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("X", data.shape), ("Y", (1, 1, 1, len(right)))))
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (true,), found = session.run(None, {"X": data}), run(model)
    print(operator, auto_pad, "stride", stride, "ONNX Runtime", true.ravel(), "aidge", found.ravel())
    assert true.ravel().tolist() == right and found.ravel().tolist() == given
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
