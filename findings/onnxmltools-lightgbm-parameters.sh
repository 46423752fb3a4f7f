#!/usr/bin/env bash
# onnxmltools 1.16.0 converts LightGBM models with linear_tree, reg_sqrt, zero_as_missing or boosting="rf" as if they had been trained without.
#
# LightGBM 4.7.0's page "Parameters" says what they do to a prediction: a leaf of linear_tree is a linear model, reg_sqrt squares the result,
# zero_as_missing treats 0 as a missing value. The ONNX model has constant leaves, no square, and compares 0 with the threshold. A random
# forest's predict() is the mean of its trees; the ONNX model of a regressor divides that by the number of trees once more, and that of a
# classifier is off too. Nothing is said. linear_tree has been reported to ONNX Runtime (microsoft/onnxruntime#25623).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=(onnxmltools==1.16.0 skl2onnx==1.20.0 onnxconverter-common==1.16.0 onnx==1.16.1 onnxruntime==1.32.0 lightgbm==4.7.0 scikit-learn==1.9.1)
python3 -m pip install -q --target "$root/packages" "${packages[@]}"
cat >"$root/run.py" <<'PYTHON'
import lightgbm
import numpy as np
import onnxruntime
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType

TREES = 10
rng = np.random.default_rng(0)
x = rng.standard_normal((400, 3)).astype(np.float32)
x[::5, 0] = 0
y = 4 + 2 * x[:, 0] + x[:, 1] ** 2 + 5 * (x[:, 0] == 0)


def both(model: lightgbm.LGBMModel, output: int = 0) -> tuple[np.ndarray, np.ndarray]:
    proto = convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, 3]))], **({"zipmap": False} if output else {}))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run([session.get_outputs()[output].name], {"x": x})[0]
    right = model.predict_proba(x) if output else model.predict(x)
    return right, found.reshape(right.shape)


def train(kind: type, target: np.ndarray, **parameters: object) -> lightgbm.LGBMModel:
    return kind(n_estimators=TREES, num_leaves=6, n_jobs=1, verbose=-1, **parameters).fit(x, target)


forest = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}
print("lightgbm", lightgbm.__version__)
for name, parameters in {"none": {}, "linear_tree": {"linear_tree": True}, "reg_sqrt": {"reg_sqrt": True}, "zero_as_missing": {"zero_as_missing": True}, "rf": forest}.items():
    right, found = both(train(lightgbm.LGBMRegressor, np.abs(y), **parameters))
    print(f"regressor, {name}: LightGBM {right[:3].round(3)}, ONNX {found[:3].round(3)}, largest difference {np.abs(right - found).max():.3f}")
    assert (np.abs(right - found).max() > 0.3) == (name != "none")
    assert name != "reg_sqrt" or np.allclose(found**2, right, rtol=1e-4)
    assert name != "rf" or np.allclose(found * TREES, right, rtol=1e-4)
for name, parameters in {"none": {}, "rf": forest}.items():
    right, found = both(train(lightgbm.LGBMClassifier, (y > 4).astype(int), **parameters), 1)
    print(f"classifier, {name}: LightGBM {right[:3, 1].round(3)}, ONNX {found[:3, 1].round(3)}")
    assert (np.abs(right - found).max() > 0.3) == (name != "none")
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
