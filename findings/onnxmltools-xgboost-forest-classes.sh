#!/usr/bin/env bash
# onnxmltools 1.16.0 mixes up the classes of XGBoost's boosted forests.
#
# With num_parallel_tree=3 and three classes, XGBoost 3.2.0 grows nine trees a round ("Random Forests in XGBoost"): three for the first class, three
# for the second, three for the third, as tree_info in the model's JSON says. The ONNX model deals them out one by one, so that most go to
# other classes and the labels are wrong. Nothing is said. One tree a round is right. onnx/onnxmltools#674 was an attempt to mend it.
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
for trees in (1, 3):
    model = xgboost.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1, num_parallel_tree=trees, subsample=0.8).fit(x, np.digitize(y, [0, 1.5]))
    owners = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["tree_info"]
    assert owners == np.tile(np.repeat(range(3), trees), 8).tolist()
    labels, found = outputs(model)
    right, equal = model.predict_proba(x), np.mean(labels == model.predict(x))
    print(f"the first trees' classes {owners[:9]}: XGBoost {right[0].round(3)}, ONNX {found[0].round(3)}, equal labels {equal:.0%}")
    assert np.allclose(right, found, atol=1e-4) == (trees == 1) and (equal < 0.8) == (trees == 3)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
