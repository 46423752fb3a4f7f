#!/usr/bin/env bash
# ONNX Runtime 1.32.0's quantize_static takes the bias of a Gemm alpha / beta times, or once, where the model takes it beta times.
#
# ONNX's Gemm is alpha * A @ B + beta * C. With QuantFormat.QOperator the bias of onnxruntime.quantization's QGemm counts alpha / beta times: it is
# divided by beta, not multiplied, and not divided by alpha, as the formula of microsoft/onnxruntime#8447 has it. With QuantFormat.QDQ the
# quantized Gemm has a beta of 1, so that the bias counts once (without the session's optimizations). Nothing is said. alpha = beta = 1 is
# right. microsoft/onnxruntime#28130 is about alpha in a session.
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
a, b, c = (rng.standard_normal(size).astype(np.float32) for size in ((3, 5), (5, 4), 4))


class Reader(CalibrationDataReader):
    """Inputs four times as large as those of the test, so that no result is outside of the range."""

    def __init__(self) -> None:
        self.data = iter([{"a": 4 * a}, {"a": -4 * a}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.data, None)


def run(model: str) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, {"a": a})[0]


print("onnxruntime", onnxruntime.__version__)
for alpha, beta in ((1.0, 1.0), (1.0, 0.25), (1.0, 2.0), (3.0, 1.0), (0.5, 2.0)):
    node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], "gemm", alpha=alpha, beta=beta)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in (("a", [3, 5]), ("y", [3, 4]))]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [numpy_helper.from_array(b, "b"), numpy_helper.from_array(c, "c")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    assert np.allclose(run(path), alpha * a @ b + beta * c, atol=1e-4)
    for format, times in ((QuantFormat.QOperator, alpha / beta), (QuantFormat.QDQ, 1.0)):
        quantize_static(path, quantized, Reader(), quant_format=format, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        found = run(quantized)
        step = 8 * alpha * np.abs(a @ b).max() / 255
        print(f"{format}, alpha {alpha}, beta {beta}: right {(alpha * a @ b + beta * c)[0].round(2)}, quantized {found[0].round(2)}")
        assert np.abs(found - (alpha * a @ b + times * c)).max() < 2 * step
        assert times == beta or np.abs(found - (alpha * a @ b + beta * c)).max() > 3 * step
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
