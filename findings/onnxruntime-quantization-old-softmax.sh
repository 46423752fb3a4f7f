#!/usr/bin/env bash
# ONNX Runtime 1.32.0's quantize_static (QOperator) makes a softmax over the last axis of an opset 11 or 12 Softmax over all axes from the second on.
#
# Before opset 13 a Softmax without an axis has axis=1 and normalizes all elements from there on together. The quantizer writes a QLinearSoftmax of
# com.microsoft with opset=11 but without an axis, whose default is -1: each matrix of 3 x 4 sums to 3 in place of 1. The QDQ format keeps the
# Softmax and is right. Written with axis=1, QLinearSoftmax is right as well. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 sympy==1.14.0
cat >"$root/run.py" <<'PYTHON'
import logging
import sys
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

logging.disable(logging.WARNING)
data = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
root = sys.argv[1]


class Reader(CalibrationDataReader):
    def __init__(self) -> None:
        self.batches: Iterator[dict[str, np.ndarray]] = iter([{"x": data}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.batches, None)


def sums(model: onnx.ModelProto) -> list[float]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": data})[0].sum(axis=(1, 2)).tolist()


print("onnxruntime", onnxruntime.__version__)
for opset in (11, 12):
    for attributes in ({}, {"axis": 1}):
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, data.shape) for name in "xy")
        graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"], **attributes)], "g", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, f"{root}/model.onnx")
        found = {}
        for style in QuantFormat:
            quantize_static(f"{root}/model.onnx", f"{root}/quantized.onnx", Reader(), quant_format=style)
            found[style.name] = sums(onnx.load(f"{root}/quantized.onnx"))
        right = sums(model)
        print("opset", opset, attributes, "sums of the model", right, "quantized", found)
        assert np.allclose(right, 1) and np.allclose(found["QDQ"], 1, atol=0.1)
        assert np.allclose(found["QOperator"], 1 if attributes else 3, atol=0.1)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" 2>&1 | grep -v WARNING
