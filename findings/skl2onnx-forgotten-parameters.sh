#!/usr/bin/env bash
# skl2onnx 1.20.0 leaves out add_indicator of imputers and the weights of Minkowski's distance, and PowerTransformer takes missing values for 0.
#
# SimpleImputer and KNNImputer with add_indicator=True append a column for each feature that had missing values: of 4 features with two such ones
# scikit-learn makes 6 columns, the ONNX model 4. KNeighborsRegressor with metric_params={"w": ...} looks for neighbours by weighted distances, the
# ONNX model by those without weights. PowerTransformer keeps a missing value, the ONNX model gives the transform of 0. Nothing is said in any case.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
import sklearn
from sklearn.base import BaseEstimator
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.neighbors import KNeighborsRegressor
from sklearn.preprocessing import PowerTransformer

rng = np.random.default_rng(0)
x = rng.standard_normal((60, 4)).astype(np.float32)
holes = x.copy()
holes[::7, 1] = holes[3, 2] = np.nan


def run(model: BaseEstimator, data: np.ndarray) -> np.ndarray:
    converted = skl2onnx.to_onnx(model, data[:1], target_opset={"": 18, "ai.onnx.ml": 3})
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: data})[0]


print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)
for kind in (SimpleImputer, KNNImputer):
    plain, model = kind().fit(holes), kind(add_indicator=True).fit(holes)
    right, found = model.transform(holes), run(model, holes)
    print(kind.__name__, "scikit-learn", right.shape, "ONNX", found.shape)
    assert right.shape == (60, 6) and found.shape == (60, 4)
    assert np.allclose(run(plain, holes), plain.transform(holes), atol=1e-4) and np.allclose(found, right[:, :4], atol=1e-4)
plain = KNeighborsRegressor(3, metric="minkowski").fit(x, x[:, 0])
model = KNeighborsRegressor(3, metric="minkowski", metric_params={"w": np.array([100.0, 1.0, 1.0, 1.0])}).fit(x, x[:, 0])
test = rng.standard_normal((20, 4)).astype(np.float32)
right, found = model.predict(test), run(model, test).ravel()
print("neighbours: scikit-learn", right[:4].round(3), "ONNX", found[:4].round(3))
assert np.allclose(found, plain.predict(test), atol=1e-4) and np.abs(found - right).max() > 0.2
model = PowerTransformer().fit(holes)
right, found = model.transform(holes)[0], run(model, holes)[0]
print("PowerTransformer: scikit-learn", right.round(3), "ONNX", found.round(3))
assert np.array_equal(np.isnan(right), [False, True, False, False]) and np.allclose(found[~np.isnan(right)], right[~np.isnan(right)], atol=1e-3)
zeros = np.nan_to_num(holes[:1])
assert np.allclose(found, model.transform(zeros)[0], atol=1e-3)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
