#!/usr/bin/env bash
# OpenVINO 2026.4.1's CPU plugin cuts an ONNX Slice short where its end, which the model computes or takes as an input, is larger than INT32.
#
# ONNX clamps an end beyond the dimension to the dimension, and many exporters write 2**63 - 1 for an open end. [0, 1, 2, 3, 4, 5] from 1 to 2**63 - 1
# is [1, 2, 3, 4, 5], as ONNX Runtime 1.32.0 has it; OpenVINO gives [1, 2, 3, 4]. To 2**40 it gives no element. To 2**31 - 1, the INT_MAX
# that ONNX recommends, and where starts and ends are initializers, it is right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

x = np.arange(6, dtype=np.float32)
for end, given in ((2**31 - 1, [1, 2, 3, 4, 5]), (2**40, []), (2**63 - 1, [1, 2, 3, 4])):
    for constant in (True, False):
        inputs = {"x": x, "starts": np.array([1]), "ends": np.array([end])}
        tensors = [numpy_helper.from_array(inputs.pop(key), key) for key in ("starts", "ends") if constant]
        elements = {key: helper.np_dtype_to_tensor_dtype(array.dtype) for key, array in inputs.items()}
        values = [helper.make_tensor_value_info(key, element, inputs[key].shape) for key, element in elements.items()]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["size"])
        graph = helper.make_graph([helper.make_node("Slice", ["x", "starts", "ends"], ["y"])], "g", values, [output], tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(model)
        runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, inputs)[0]
        core = openvino.Core()
        found = core.compile_model(core.read_model(model.SerializeToString()), "CPU")(inputs)[0]
        print(f"[1:{end}], {'initializers' if constant else 'inputs'}: ONNX Runtime {runtime}, OpenVINO {found}")
        assert runtime.tolist() == [1, 2, 3, 4, 5] and found.tolist() == ([1, 2, 3, 4, 5] if constant else given)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
