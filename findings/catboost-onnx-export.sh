#!/usr/bin/env bash
# catboost 1.2.10's own ONNX export gives other results for OneVsAll, MultiLogloss, Poisson and Tweedie models, for labels 5 and 7, and for thresholds.
#
# Probabilities of MultiClassOneVsAll and MultiLogloss are sigmoids of each class: the file says SOFTMAX, so that they sum to 1. Predictions of Poisson and
# Tweedie are exponentials: the file has the sums of leaves, negative ones too. The labels 5 and 7 of two classes are 0 and 1 (those of three classes, and
# strings, are right). A threshold that set_probability_threshold has set is 0.5 again. save_model says nothing; MultiClass, Logloss and RMSE are right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" catboost==1.2.10 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import sys

import catboost
import numpy as np
import onnx
import onnxruntime

onnxruntime.set_default_logger_severity(3)
rng = np.random.default_rng(0)
x = rng.standard_normal((300, 4)).astype(np.float32)
score = 2 * x[:, 0] + x[:, 1]
two, three = (score > 0).astype(int), np.digitize(score, [-1, 1])


def exported(model):
    """The results of the exported model: labels and probabilities of a classifier, predictions of a regressor."""
    path = f"{sys.argv[1]}/model.onnx"
    model.save_model(path, format="onnx")
    onnx.checker.check_model(onnx.load(path))
    outputs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"features": x})
    if len(outputs) == 1:
        return None, outputs[0].ravel()
    return outputs[0], np.array([[row[label] for label in row] for row in outputs[1]])


def fitted(kind, y, **options):
    return kind(iterations=10, depth=3, thread_count=1, verbose=False, allow_writing_files=False, **options).fit(x, y)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softmax(z):
    return np.exp(z) / np.exp(z).sum(1, keepdims=True)


print("catboost", catboost.__version__)
for loss, y, right, given in (
    ("Logloss", two, None, None),
    ("MultiClass", three, softmax, softmax),
    ("MultiClassOneVsAll", three, sigmoid, softmax),
    ("MultiLogloss", np.stack([two, x[:, 2] > 0], 1).astype(int), sigmoid, softmax),
):
    model = fitted(catboost.CatBoostClassifier, y, loss_function=loss)
    own, found, raw = model.predict_proba(x), exported(model)[1], model.predict(x, prediction_type="RawFormulaVal")
    print(f"{loss}: first row {own[0].round(3).tolist()}, exported {found[0].round(3).tolist()}")
    assert right is None or np.allclose(own, right(raw), atol=1e-6)
    assert np.allclose(found, own if given is None else given(raw), atol=1e-5) and (np.abs(found - own).max() > 0.05) == (right is not given)
for loss in ("RMSE", "Poisson", "Tweedie:variance_power=1.5"):
    model = fitted(catboost.CatBoostRegressor, np.exp(score / 3), loss_function=loss)
    own, found, raw = model.predict(x), exported(model)[1], model.predict(x, prediction_type="RawFormulaVal")
    print(f"{loss}: {own[:3].round(3).tolist()}, exported {found[:3].round(3).tolist()}, least {found.min():.2f}")
    assert np.allclose(found, raw, atol=1e-5) and np.allclose(own, raw if loss == "RMSE" else np.exp(raw)) and (loss == "RMSE" or found.min() < 0 < own.min())
for names in ([5, 7], [5, 7, 9], ["a", "b"]):
    model = fitted(catboost.CatBoostClassifier, np.array(names)[two if len(names) == 2 else three])
    own, found = np.unique(model.predict(x)).tolist(), np.unique(exported(model)[0]).tolist()
    print(f"labels {own}, exported {found}")
    assert own == names and found == ([0, 1] if names == [5, 7] else names)
model = fitted(catboost.CatBoostClassifier, two)
model.set_probability_threshold(0.2)
labels, probabilities = exported(model)
chance = model.predict_proba(x)[:, 1]
print("labels of 1 at a threshold of 0.2:", int(model.predict(x).sum()), "exported:", int(labels.sum()))
assert np.array_equal(model.predict(x), chance > 0.2) and np.array_equal(labels, chance > 0.5) and labels.sum() < model.predict(x).sum()
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
