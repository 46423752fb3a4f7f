#!/usr/bin/env bash
# onnxmltools 1.16.0 leaves out the sigmoid of XGBoost's reg:logistic.
#
# XGBoost 3.2.0's page "Parameters" has reg:logistic as logistic regression, whose predictions lie between 0 and 1. The ONNX model of the regressor
# returns the logarithms of their odds, less those of base_score and plus base_score itself. Nothing is said; reg:squarederror is right. Reported
# in onnx/onnxmltools#646.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=(onnxmltools==1.16.0 skl2onnx==1.20.0 onnxconverter-common==1.16.0 onnx==1.16.1 onnxruntime==1.32.0 xgboost==3.2.0 scikit-learn==1.9.1)
python3 -m pip install -q --target "$root/packages" "${packages[@]}"
cat >"$root/run.py" <<'PYTHON'
import json

import numpy as np
import onnxruntime
import xgboost
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType

rng = np.random.default_rng(0)
x = rng.standard_normal((400, 3)).astype(np.float32)
y = 2 * x[:, 0] + x[:, 1] ** 2
onnxruntime.set_default_logger_severity(3)


def outputs(model: xgboost.XGBModel) -> list[np.ndarray]:
    proto = convert_xgboost(model, initial_types=[("x", FloatTensorType([None, 3]))])
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})


print("xgboost", xgboost.__version__)
for objective in ("reg:squarederror", "reg:logistic"):
    model = xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1, objective=objective).fit(x, 1 / (1 + np.exp(-y)))
    right, found = model.predict(x), outputs(model)[0].ravel()
    print(objective, "XGBoost", right[:4].round(3), "ONNX", found[:4].round(3))
    if objective == "reg:squarederror":
        assert np.allclose(found, right, atol=1e-4)
        continue
    base = float(json.loads(model.get_booster().save_config())["learner"]["learner_model_param"]["base_score"].strip("[]"))
    expected = np.log(right / (1 - right)) - np.log(base / (1 - base)) + base
    print(f"logarithms of the odds, less those of {base:.3f}, plus {base:.3f}: {expected[:4].round(3)}")
    assert np.allclose(found, expected, atol=1e-3) and np.abs(right - found).max() > 1
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
