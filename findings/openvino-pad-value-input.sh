#!/usr/bin/env bash
# OpenVINO 2026.4.1 pads with 0 where the value of an ONNX Pad is an input of the model.
#
# [1, 2] padded by one element on each side with the value 3 are [3, 1, 2, 3] if the value is an initializer. As an input of the model, which
# ONNX and ONNX Runtime 1.32.0 take as well, OpenVINO's frontend puts 0 in its place: [0, 1, 2, 0].
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

x, value = np.array([1, 2], np.float32), np.array(3, np.float32)


def run(name, given, found):
    vector = lambda key, sizes: helper.make_tensor_value_info(key, TensorProto.FLOAT, sizes)
    known = {"pads": np.array([1, 1])} | ({} if "value" in given else {"value": value})
    tensors = [numpy_helper.from_array(array, key) for key, array in known.items()]
    node = helper.make_node("Pad", ["x", "pads", "value"], ["y"])
    graph = helper.make_graph([node], "g", [vector(key, array.shape) for key, array in given.items()], [vector("y", [4])], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)[0]
    core = openvino.Core()
    own = core.compile_model(core.read_model(model.SerializeToString()), "CPU")(given)["y"]
    print(f"{name}: ONNX Runtime {runtime}, OpenVINO {own}")
    assert runtime.tolist() == [3, 1, 2, 3] and own.tolist() == found


run("initializer", {"x": x}, [3, 1, 2, 3])
run("input", {"x": x, "value": value}, [0, 1, 2, 0])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
