#!/usr/bin/env bash
# skl2onnx 1.20.0's BaggingClassifier of estimators without probabilities gives a row for each estimator, not for each sample.
#
# Seven samples and five LinearSVCs make five labels and five rows of scores: each row counts the votes of one estimator over all samples. scikit-learn
# counts the votes of all estimators on one sample. Three samples and five estimators make five rows too. Nothing is said. Estimators with
# probabilities are right. RidgeClassifier as an estimator does the same, and so does scikit-learn 1.7.2.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
import sklearn
from sklearn.ensemble import BaggingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

rng = np.random.default_rng(0)
x = rng.standard_normal((60, 4)).astype(np.float32)
y = (x[:, 0] > 0).astype(int) + (x[:, 2] > 0.5)
print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)
for estimator in (LogisticRegression(), LinearSVC(), RidgeClassifier()):
    for estimators in (5, 7):
        model = BaggingClassifier(estimator, n_estimators=estimators, random_state=0).fit(x, y)
        converted = skl2onnx.to_onnx(model, x[:1], options={"zipmap": False}, target_opset={"": 18, "ai.onnx.ml": 3})
        session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
        for samples in (7, 3):
            test = x[:samples]
            labels, scores = session.run(None, {session.get_inputs()[0].name: test})
            print(estimator, estimators, "estimators", samples, "samples: scikit-learn", model.predict(test), "ONNX", labels, scores.shape)
            if isinstance(estimator, LogisticRegression):
                assert np.array_equal(labels, model.predict(test)) and np.allclose(scores, model.predict_proba(test), atol=1e-5)
            else:
                assert len(labels) == estimators and scores.shape == (estimators, 3)
                votes = [np.bincount(one.predict(test), minlength=3) for one in model.estimators_]
                assert np.allclose(scores, np.array(votes) / estimators, atol=1e-5)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
