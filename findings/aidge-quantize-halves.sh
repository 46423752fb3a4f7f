#!/usr/bin/env bash
# Aidge 0.10.1's QuantizeLinear rounds halves up, and its Round rounds them to even, as ONNX wants of both.
#
# ONNX: "For (x / y_scale), it rounds to the nearest even", for QuantizeLinear and Round. -2.5, -1.5, -0.5, 0.5, 1.5, 2.5 by a scale of 1 are -2, -2, 0,
# 0, 2, 2 in ONNX Runtime 1.32.0 and -2, -1, 0, 1, 2, 3 in Aidge's QuantizeLinear to INT8. So every sum of bytes that is quantized again moves up.
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
data = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)


def results(node: onnx.NodeProto, element: int, initializers: list[onnx.TensorProto]) -> tuple[list[float], list[float]]:
    x, y = (helper.make_tensor_value_info(name, kind, data.shape) for name, kind in (("x", TensorProto.FLOAT), ("y", element)))
    model = helper.make_model(helper.make_graph([node], "g", [x], [y], initializers), opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    (right,) = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": data})
    graph = aidge_onnx.convert_onnx_to_aidge(model)
    assert aidge_onnx.has_native_coverage(graph)
    graph.set_backend("cpu")
    graph.forward_dtype([aidge_core.dtype.float32])
    graph.forward_dims([list(data.shape)])
    aidge_core.SequentialScheduler(graph).forward(False, [aidge_core.Tensor(data)])
    ((last, index),) = graph.get_ordered_outputs()
    return right.tolist(), np.array(last.get_operator().get_output(index)).tolist()


even = [-2, -2, 0, 0, 2, 2]
parameters = [numpy_helper.from_array(np.array(1, np.float32), "s"), numpy_helper.from_array(np.array(0, np.int8), "z")]
quantized = results(helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"]), TensorProto.INT8, parameters)
rounded = results(helper.make_node("Round", ["x"], ["y"]), TensorProto.FLOAT, [])
print("aidge", version("aidge-core"), "QuantizeLinear: ONNX Runtime", quantized[0], "aidge", quantized[1], "Round:", *rounded)
assert quantized == (even, [-2, -1, 0, 1, 2, 3]) and rounded == (even, even)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
