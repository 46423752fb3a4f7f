#!/usr/bin/env bash
# skl2onnx 1.20.0's OneVsRestClassifier of two classes and an estimator without probabilities wants a score above 1/2 where scikit-learn wants one above 0.
#
# LinearSVC's decision function is negative for the first class and positive for the second. The ONNX model takes it for the probability of the second
# class: it puts 1 - score beside it and answers with the larger one, so that scores between 0 and 1/2 get the first class. Nothing is said. The bare
# LinearSVC is right. For three classes the labels are right and the scores are not scikit-learn's: they are divided by the sum of their magnitudes.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
import sklearn
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

rng = np.random.default_rng(0)
x = rng.standard_normal((60, 4)).astype(np.float32)
places = (x[:, 0] > 0).astype(int) + (x[:, 2] > 0.5)
test = rng.standard_normal((200, 4)).astype(np.float32)


def run(model: LinearSVC | OneVsRestClassifier) -> list[np.ndarray]:
    options = {"zipmap": False} if isinstance(model, OneVsRestClassifier) else None
    converted = skl2onnx.to_onnx(model, x[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: test})


print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)
y = places > 0
bare = LinearSVC(random_state=0).fit(x, y.astype(int))
assert np.array_equal(run(bare)[0], bare.predict(test))
model = OneVsRestClassifier(LinearSVC(random_state=0)).fit(x, y.astype(int))
scores, (found, _) = model.decision_function(test), run(model)
wrong = found != model.predict(test)
print("scores of rows with other labels", scores[wrong].round(3), "scikit-learn", model.predict(test)[wrong], "ONNX", found[wrong])
assert np.array_equal(model.predict(test), scores > 0) and np.array_equal(found, scores > 0.5) and wrong.sum() > 3
model = OneVsRestClassifier(LinearSVC(random_state=0)).fit(x, places)
scores, (found, other) = model.decision_function(test), run(model)
print("three classes: scikit-learn", scores[0].round(3), "ONNX", other[0].round(3))
assert np.array_equal(found, model.predict(test))
assert np.allclose(other, scores / np.abs(scores).sum(1, keepdims=True), atol=1e-4) and np.abs(other - scores).max() > 1
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
