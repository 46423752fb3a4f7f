#!/usr/bin/env bash
# onnxmltools 1.16.0 adds the trees of all targets of an XGBoost model into the first target.
#
# XGBoost 3.2.0 grows a tree for each target of a row of labels ("Multiple Outputs") and for each quantile of reg:quantileerror. The ONNX model of
# the regressor sums them all up as target 0, and has the base score alone for the others. A classifier of two labels, each 0 or 1, gives
# the probabilities of a single class and 1 less them. Nothing is said. One target, or one quantile, is right. The regressor is known
# (onnx/onnxmltools#676, and #761, which would mend it).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=(onnxmltools==1.16.0 skl2onnx==1.20.0 onnxconverter-common==1.16.0 onnx==1.16.1 onnxruntime==1.32.0 xgboost==3.2.0 scikit-learn==1.9.1)
python3 -m pip install -q --target "$root/packages" "${packages[@]}"
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

rng = np.random.default_rng(0)
x = rng.standard_normal((400, 3)).astype(np.float32)
y = np.stack([2 * x[:, 0] + x[:, 1] ** 2, 5 - x[:, 2]], 1)
onnxruntime.set_default_logger_severity(3)


def both(model: xgboost.XGBModel, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    classes = isinstance(model, xgboost.XGBClassifier)
    model.set_params(n_estimators=8, max_depth=3, n_jobs=1).fit(x, target)
    proto = convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 3]))])
    found = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[classes]
    right = model.predict_proba(x) if classes else model.predict(x)
    return right, found.reshape(right.shape)


def show(name: str, right: np.ndarray, found: np.ndarray) -> None:
    print(f"{name}: XGBoost {right[:2].round(3).tolist()}, ONNX {found[:2].round(3).tolist()}")


print("xgboost", xgboost.__version__)
quantiles = lambda *alphas: xgboost.XGBRegressor(objective="reg:quantileerror", quantile_alpha=np.array(alphas))
for name, model, target in (("one target", xgboost.XGBRegressor(), y[:, 0]), ("one quantile", quantiles(0.3), y[:, 0])):
    right, found = both(model, target)
    show(name, right, found)
    assert np.allclose(right, found, atol=1e-4)
for name, model, target in (("two targets", xgboost.XGBRegressor(), y), ("two quantiles", quantiles(0.2, 0.8), y[:, 0])):
    right, found = both(model, target)
    show(name, right, found)
    assert np.ptp(found[:, 1]) == 0 and np.ptp(right[:, 1]) > 1
    moved = found[:, 0] - right.sum(1)
    assert np.allclose(moved, moved[0], atol=1e-4)
right, found = both(xgboost.XGBClassifier(), (y > [0, 5]).astype(int))
show("two labels", right, found)
assert np.allclose(found.sum(1), 1, atol=1e-5) and np.abs(right.sum(1) - 1).max() > 0.5 and np.abs(right - found).max() > 0.5
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
