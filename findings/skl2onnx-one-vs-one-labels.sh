#!/usr/bin/env bash
# skl2onnx 1.20.0's OneVsOneClassifier gives the places of the classes where scikit-learn gives the classes.
#
# For the labels -3, 5 and 100 the ONNX model answers 0, 1 and 2, in a column of its own for each row ([N, 1] instead of [N]); for the labels -1 and 1 it
# answers 0 and 1. Nothing is said. OneVsRestClassifier of the same estimator answers with the labels. scikit-learn 1.7.2 makes no difference.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import skl2onnx
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

rng = np.random.default_rng(0)
x = rng.standard_normal((60, 4)).astype(np.float32)
places = (x[:, 0] > 0).astype(int) + (x[:, 2] > 0.5)


def labels(model: OneVsOneClassifier | OneVsRestClassifier) -> np.ndarray:
    converted = skl2onnx.to_onnx(model, x[:1], options={"zipmap": False}, target_opset={"": 18, "ai.onnx.ml": 3})
    session = onnxruntime.InferenceSession(converted.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


print("skl2onnx", skl2onnx.__version__, "scikit-learn", sklearn.__version__)
for classes in ((-3, 5, 100), (-1, 1)):
    y = np.array(classes)[places % len(classes)]
    for kind in (OneVsRestClassifier, OneVsOneClassifier):
        model = kind(LogisticRegression()).fit(x, y)
        right, found = model.predict(x), labels(model)
        print(kind.__name__, classes, "scikit-learn", right[:8], "ONNX", found.shape, found.ravel()[:8])
        if kind is OneVsRestClassifier:
            assert np.array_equal(found, right)
        else:
            assert found.shape == (60, 1) and np.array_equal(found.ravel(), np.searchsorted(classes, right))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
