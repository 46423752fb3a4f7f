#!/usr/bin/env bash
# ONNX Runtime 1.32.0's quantize_static drops a Clip behind a quantized node also where the Clip's range does not begin at 0: values below it come out as 0.
#
# The quantizer relies on the range of the quantized type to cut the values off. But it widens each range to hold 0, so Clip(1, 6) behind a Conv leaves
# values between 0 and 1, and Clip(-6, -1) values between -1 and 0, with QuantFormat.QDQ and QOperator. Clip(0, 6) is right, and Clip(1, 6) where the
# node before it is not quantized. Nothing is said. microsoft/onnxruntime#9425 is about Relu with symmetric or signed types.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 sympy==1.14.0
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

path, quantized = f"{sys.argv[1]}/model.onnx", f"{sys.argv[1]}/quantized.onnx"
rng = np.random.default_rng(0)
x, weight = rng.standard_normal((1, 3, 6, 7)).astype(np.float32), rng.standard_normal((2, 3, 3, 3)).astype(np.float32)


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.data = iter([{"x": x}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.data, None)


def run(model: str) -> np.ndarray:
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


print("onnxruntime", onnxruntime.__version__)
for low, high in ((0, 6), (1, 6), (-6, -1)):
    nodes = [helper.make_node("Conv", ["x", "w"], ["t"], "conv"), helper.make_node("Clip", ["t", "low", "high"], ["y"], "clip")]
    tensors = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in (("w", weight), ("low", low), ("high", high))]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("x", [1, 3, 6, 7]), ("y", [1, 2, 4, 5]))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    right = run(path)
    assert right.min() >= low and right.max() <= high
    for format in (QuantFormat.QOperator, QuantFormat.QDQ):
        for operators in (None, ["Clip"]):
            quantize_static(
                path, quantized, Reader(), format, operators, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8
            )
            found, kinds = run(quantized), [node.op_type for node in onnx.load(quantized).graph.node]
            print(format, f"Clip({low}, {high}), operators {operators}: right {right.min()} to {right.max()}, quantized {found.min()} to {found.max()}")
            wrong = low != 0 and operators is None
            assert "Clip" not in kinds or operators
            assert (found.min() < low - 0.5 or found.max() > high + 0.5) if wrong else np.abs(found - right).max() < 0.3
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
