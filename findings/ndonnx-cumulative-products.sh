#!/usr/bin/env bash
# ndonnx 0.23.0's cumulative_prod adds logarithms: products with a negative element are NaN, and those of integers come out one too small.
#
# The cumulative products of [2, -1, 3] are [2, -2, -6]; ndonnx, whose arrays follow the array API standard, gives [2, NaN, NaN]. Those of the integers
# [3, 250] are [3, 750]; ndonnx computes exp(log(3)) = 2.9999999999999996 in DOUBLE and cuts it down to 2. A negative integer makes the smallest INT64.
# ndonnx.prod is right in all of these cases. The eager arrays do as the ONNX model does. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" ndonnx==0.23.0 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import ndonnx
import numpy as np
import onnxruntime

print("ndonnx", ndonnx.__version__)
smallest = np.iinfo(np.int64).min
cases = [
    (np.array([2.0, 0.5, 3.0]), [2, 1, 3]),
    (np.array([2.0, -1.0, 3.0]), [2, np.nan, np.nan]),
    (np.array([2.0, -1.0, -3.0], np.float32), [2, np.nan, np.nan]),
    (np.array([3, 250]), [2, 749]),
    (np.array([3, 250], np.uint8), [2, 749]),
    (np.array([3, -2, 5], np.int32), [2, smallest, smallest]),
]
for x, expected in cases:
    eager = ndonnx.cumulative_prod(ndonnx.asarray(x)).unwrap_numpy()
    argument = ndonnx.argument(shape=x.shape, dtype=ndonnx.asarray(x).dtype)
    model = ndonnx.build({"x": argument}, {"y": ndonnx.cumulative_prod(argument), "z": ndonnx.prod(argument)})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    lazy, product = session.run(["y", "z"], {session.get_inputs()[0].name: x})
    print(x.dtype, x, "right", np.cumprod(x), "ndonnx", eager, "model", lazy, "prod", product)
    assert np.allclose(eager, expected, equal_nan=True) and np.allclose(lazy, expected, equal_nan=True) and np.isclose(product, np.prod(x))
    assert (x[0] == 2) == np.isclose(eager[0], np.cumprod(x)[0])
PYTHON
PYTHONPATH="$root/packages" python3 -W ignore "$root/run.py"
