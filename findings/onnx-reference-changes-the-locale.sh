#!/usr/bin/env bash
# onnx 1.23.2's reference StringNormalizer sets the locale of the whole process, and leaves it so.
#
# A model that lowers the case of two texts with locale="C" is run in a process whose locale is C.UTF-8; afterwards the process's locale is C
# for every thread: numbers, dates and sorting of the program around it follow.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2
cat >"$root/run.py" <<'PYTHON'
import locale

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node("StringNormalizer", ["x"], ["y"], case_change_action="LOWER", locale="C")
x, y = (helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy")
model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 10)], ir_version=9)
onnx.checker.check_model(model)
before = locale.setlocale(locale.LC_ALL, "C.UTF-8")
result = ReferenceEvaluator(model).run(None, {"x": np.array(["A", "b"], object)})[0].tolist()
after = locale.setlocale(locale.LC_ALL)
print("onnx", onnx.__version__, result, "locale before", before, "after", after)
assert result == ["a", "b"] and before == "C.UTF-8" and after == "C"
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
