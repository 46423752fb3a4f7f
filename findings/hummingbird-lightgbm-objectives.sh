#!/usr/bin/env bash
# hummingbird-ml 0.4.12 leaves out what LightGBM does after its trees: the exponential of Poisson and gamma regression, and more.
#
# LightGBM 4.7.0's predict() has a logarithmic link for "poisson" and "gamma", and the mean of the trees for boosting="rf". Its page "Parameters"
# says that a leaf of linear_tree is a linear model, that reg_sqrt squares the prediction, that multiclassova is a binary objective for each class,
# and that sigmoid is the parameter of the sigmoid. hummingbird gives the logarithm, the sum, constant leaves, the root, a softmax and a parameter
# of 1. Tweedie, which has the same link as Poisson, is right. Nothing is said. linear_tree is known (microsoft/hummingbird#807).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=(hummingbird-ml==0.4.12 onnx==1.16.1 onnxconverter-common==1.16.0 lightgbm==4.7.0 scikit-learn==1.9.1 torch==2.13.0 numpy==2.4.6)
python3 -m pip install -q --target "$root/packages" "${packages[@]}"
cat >"$root/run.py" <<'PYTHON'
import hummingbird.ml
import lightgbm
import numpy as np

TREES = 10
rng = np.random.default_rng(0)
x = rng.standard_normal((400, 3)).astype(np.float32)
scores = x[:, 0] + x[:, 1] ** 2
y, classes = np.exp(scores / 3), np.digitize(scores + rng.standard_normal(400) / 2, [0, 1.5])


def both(kind: type, target: np.ndarray, **parameters: object) -> tuple[np.ndarray, ...]:
    """The predictions of LightGBM and of hummingbird, and LightGBM's scores."""
    model = kind(n_estimators=TREES, num_leaves=6, n_jobs=1, verbose=-1, **parameters).fit(x, target)
    method = "predict_proba" if kind is lightgbm.LGBMClassifier else "predict"
    right, found = (np.asarray(getattr(which, method)(x)) for which in (model, hummingbird.ml.convert(model, "torch", x)))
    print(parameters or "defaults", "LightGBM", right[:2].round(3).tolist(), "hummingbird", found[:2].round(3).tolist())
    return right, found.reshape(right.shape), model.predict(x, raw_score=True)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-4))


def check(given: bool, right: np.ndarray, found: np.ndarray) -> None:
    assert given and np.abs(right - found).max() > 0.1


for parameters in ({}, {"objective": "tweedie"}):
    right, found, _ = both(lightgbm.LGBMRegressor, y, **parameters)
    assert same(right, found)
for objective in ("poisson", "gamma"):
    right, found, _ = both(lightgbm.LGBMRegressor, y, objective=objective)
    check(same(np.log(right), found), right, found)
right, found, _ = both(lightgbm.LGBMRegressor, y, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6)
check(same(right * TREES, found), right, found)
right, found, _ = both(lightgbm.LGBMRegressor, y, reg_sqrt=True)
check(same(np.sqrt(right), found), right, found)
right, found, _ = both(lightgbm.LGBMRegressor, y, linear_tree=True)
check(not same(right, found), right, found)
right, found, scores = both(lightgbm.LGBMClassifier, classes, objective="multiclassova")
check(same(found, np.exp(scores) / np.exp(scores).sum(1, keepdims=True)), right, found)
right, found, scores = both(lightgbm.LGBMClassifier, (classes > 0).astype(int), sigmoid=2.0)
check(same(found[:, 1], 1 / (1 + np.exp(-scores))), right, found)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
