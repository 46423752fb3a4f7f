#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Cast to FLOAT8 with saturate=0 makes a number of some values that overflow, and NaN of others that are infinite (CPU
# provider).
#
# FLOAT8E4M3FN ends at 448. Behind the tie at 464 ONNX's table of Cast has NaN: integers from 465 to 479 and from 496 on become NaN, but 480 to 495
# become 448. FLOAT8E5M2 ends at 57,344, and the table has infinity behind it: 61,440 to 65,535 become NaN, numbers from 65,536 on infinity.
# onnx 1.23.2's reference and ml_dtypes give NaN, and infinity, for all of them.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" ml_dtypes==0.5.4 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

print("onnxruntime", onnxruntime.__version__)


def cast(element, values):
    nodes = [helper.make_node("Cast", ["x"], ["q"], to=element, saturate=0), helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": values})[0], ReferenceEvaluator(model).run(None, {"x": values})[0]


for element, dtype, values, wrong in (
    (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, [448, 464, 465, 479, 480, 495, 496, 1000], {480: 448, 495: 448}),
    (
        TensorProto.FLOAT8E5M2,
        ml_dtypes.float8_e5m2,
        [57344, 61439, 61440, 63488, 65535, 65536, 1e5],
        dict.fromkeys((61440, 63488, 65535), np.nan),
    ),
):
    values = np.array(values, np.float32)
    with np.errstate(over="ignore"):
        right = values.astype(dtype).astype(np.float32)
    found, reference = cast(element, values)
    print(dtype.__name__, values.tolist(), "found", found.tolist(), "right", right.tolist())
    assert np.array_equal(reference, right, equal_nan=True)
    expected = [wrong.get(value, own) for value, own in zip(values.tolist(), right.tolist(), strict=True)]
    assert np.array_equal(found, expected, equal_nan=True) and not np.array_equal(found, right, equal_nan=True)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
