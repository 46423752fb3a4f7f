#!/usr/bin/env bash
# skl2onnx 1.20.0's SGDClassifier with loss="modified_huber" or "log_loss" answers with the first class where several scores are far from 0.
#
# scikit-learn answers with the class of the largest score. The ONNX model answers with the class of the largest probability, and probabilities
# saturate: modified_huber's are 0 below a score of -1 and 1 above 1, log_loss's in FLOAT some 17 from 0. Classes are then equal, and the first one is
# taken. On standardized data with the default settings, scores reach into the hundreds. The probabilities themselves are right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
import sklearn
from sklearn.linear_model import SGDClassifier

rng = np.random.default_rng(0)
x, test = (rng.standard_normal((rows, 4)).astype(np.float32) for rows in (60, 500))
y = (x[:, 0] + 0.7 * x[:, 1] > 0).astype(int) + (x[:, 2] > 0.5)
print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)
for loss in ("modified_huber", "log_loss"):
    model = SGDClassifier(loss=loss, random_state=0).fit(x, y)
    converted = skl2onnx.to_onnx(model, x[:1], options={"zipmap": False}, target_opset={"": 18, "ai.onnx.ml": 3})
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, probabilities = session.run(None, {session.get_inputs()[0].name: test})
    scores, right = model.decision_function(test), model.predict(test)
    wrong = np.flatnonzero(labels != right)
    row = wrong[0]
    print(loss, f"{len(wrong)} of 500 labels differ; row {row}: scores {scores[row].round(1)}, probabilities {probabilities[row]},", end=" ")
    print("scikit-learn", right[row], "ONNX", labels[row])
    assert np.array_equal(right, scores.argmax(1)) and np.array_equal(labels, probabilities.argmax(1))
    assert np.allclose(probabilities, model.predict_proba(test), atol=1e-5) and len(wrong) >= 5
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
