#!/usr/bin/env bash
# onnxmltools 1.16.0 gives other probabilities than LightGBM for sigmoid=2 and for the objective "multiclassova".
#
# LightGBM 4.7.0's page "Parameters" has sigmoid as the parameter of the sigmoid of binary and multiclassova: 1 / (1 + exp(-sigmoid * score)). And
# multiclassova is a binary objective for each class: its probabilities do not add up to 1. The ONNX model leaves sigmoid out, and computes the
# softmax of the scores for multiclassova, which is what the objective "multiclass" means. The labels are right. Nothing is said.
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

rng = np.random.default_rng(0)
x = rng.standard_normal((400, 3)).astype(np.float32)
classes = np.digitize(x[:, 0] + x[:, 1] ** 2 + rng.standard_normal(400) / 2, [0, 1.5])
onnxruntime.set_default_logger_severity(3)


def sigmoid(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-scores))


def both(target: np.ndarray, **parameters: object) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The probabilities of LightGBM and of the ONNX model, and LightGBM's scores."""
    model = lightgbm.LGBMClassifier(n_estimators=10, num_leaves=6, n_jobs=1, verbose=-1, **parameters).fit(x, target)
    proto = convert_lightgbm(model, initial_types=[("x", FloatTensorType([None, 3]))], zipmap=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    labels, found = session.run(["label", "probabilities"], {"x": x})
    assert np.array_equal(labels, model.predict(x))
    right = model.predict_proba(x)
    print(parameters, "LightGBM", right[0].round(3), "ONNX", found[0].round(3))
    return right, found, model.predict(x, raw_score=True)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(a, b, atol=1e-4))


print("lightgbm", lightgbm.__version__)
for factor in (1.0, 2.0):
    right, found, scores = both((classes > 0).astype(int), sigmoid=factor)
    assert same(right[:, 1], sigmoid(factor * scores)) and same(found[:, 1], sigmoid(scores))
    right, found, scores = both(classes, objective="multiclassova", sigmoid=factor)
    softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert same(right, sigmoid(factor * scores)) and same(found, softmax) and not same(right, found)
right, found, _ = both(classes, objective="multiclass")
assert same(right, found)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
