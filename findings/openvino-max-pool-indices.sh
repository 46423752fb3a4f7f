#!/usr/bin/env bash
# OpenVINO 2026.4.1 transposes the indices of an ONNX MaxPool with storage_order=1, where ONNX counts them by columns.
#
# ONNX: storage_order "is used only to convert an n-tuple index value into a single integer value", and "the dimensions of indices are the same as
# output tensor". A 4 x 6 image of rising numbers in windows of 2 x 2 has its maxima at rows 1 and 3, columns 1, 3 and 5, which are column * 4 +
# row by columns: [[5, 13, 21], [7, 15, 23]], as ONNX Runtime 1.32.0 and ONNX's reference implementation have it. OpenVINO gives the
# indices by rows, row * 6 + column, and has them transposed: [[7, 19], [9, 21], [11, 23]]. By rows, storage_order=0, it is right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x = np.arange(24, dtype=np.float32).reshape(1, 1, 4, 6)
rows, columns = np.meshgrid([1, 3], [1, 3, 5], indexing="ij")
for order, right, given in ((0, rows * 6 + columns, rows * 6 + columns), (1, columns * 4 + rows, (rows * 6 + columns).T)):
    node = helper.make_node("MaxPool", ["x"], ["y", "indices"], kernel_shape=[2, 2], strides=[2, 2], storage_order=order)
    kinds = {"x": (TensorProto.FLOAT, x.shape), "y": (TensorProto.FLOAT, [1, 1, 2, 3]), "indices": (TensorProto.INT64, [1, 1, 2, 3])}
    values = [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 12)], ir_version=8)
    onnx.checker.check_model(model)
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[1][0, 0]
    reference = ReferenceEvaluator(model).run(None, {"x": x})[1][0, 0]
    core = openvino.Core()
    found = core.compile_model(core.read_model(model.SerializeToString()), "CPU")({"x": x})[1][0, 0]
    print(f"storage_order={order}: OpenVINO {found.tolist()}, ONNX Runtime {runtime.tolist()}")
    assert np.array_equal(runtime, right) and np.array_equal(reference, right) and np.array_equal(found, given)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
