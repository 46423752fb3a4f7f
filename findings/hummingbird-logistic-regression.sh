#!/usr/bin/env bash
# hummingbird-ml 0.4.12 gives other probabilities than scikit-learn 1.9.1's LogisticRegression of three classes or more.
#
# scikit-learn's user guide has multinomial logistic regression there ("Logistic regression", "Multinomial Case"): the softmax of the scores.
# hummingbird reads the attribute multi_class, which this version of scikit-learn no longer has; without it, it divides the sigmoid of each score
# by their sum, as one-versus-rest would. The labels are right. hummingbird asks for no version of scikit-learn, and nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
packages=(hummingbird-ml==0.4.12 onnx==1.16.1 onnxconverter-common==1.16.0 scikit-learn==1.9.1 torch==2.13.0 numpy==2.4.6)
python3 -m pip install -q --target "$root/packages" "${packages[@]}"
cat >"$root/run.py" <<'PYTHON'
import hummingbird.ml
import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

rng = np.random.default_rng(0)
x = rng.standard_normal((400, 3)).astype(np.float32)
classes = np.digitize(x[:, 0] + rng.standard_normal(400) / 2, [-0.5, 0.5])
print("scikit-learn", sklearn.__version__)
for count in (2, 3):
    model = LogisticRegression().fit(x, np.minimum(classes, count - 1))
    converted = hummingbird.ml.convert(model, "torch", x)
    right, found, scores = model.predict_proba(x), converted.predict_proba(x), model.decision_function(x)
    print(f"{count} classes: scikit-learn {right[0].round(3)}, hummingbird {found[0].round(3)}, largest difference {np.abs(right - found).max():.3f}")
    assert np.array_equal(model.predict(x), converted.predict(x)) and not hasattr(model, "multi_class")
    if count == 2:
        assert np.allclose(right, found, atol=1e-5)
        continue
    sigmoids = 1 / (1 + np.exp(-scores))
    assert np.allclose(right, np.exp(scores) / np.exp(scores).sum(1, keepdims=True), atol=1e-5) and np.abs(right - found).max() > 0.2
    assert np.allclose(found, sigmoids / sigmoids.sum(1, keepdims=True), atol=1e-5)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
