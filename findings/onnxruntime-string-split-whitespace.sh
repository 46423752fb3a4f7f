#!/usr/bin/env bash
# ONNX Runtime 1.32.0's StringSplit without a delimiter splits at spaces alone: tabs and newlines stay in the parts (CPU provider).
#
# ONNX: "If delimiter is left unspecified or the empty string, the input strings are split on consecutive whitespace", which its reference takes as
# Python's str.split does. With a delimiter an empty string has no part in ONNX Runtime, and one empty part in the reference and in Python; the
# substrings that a limit leaves unsplit lose their spaces at the end.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

print("onnxruntime", onnxruntime.__version__)


def split(text, **attributes):
    x = helper.make_tensor_value_info("x", TensorProto.STRING, [1])
    y, n = (helper.make_tensor_value_info(name, element, None) for name, element in (("y", TensorProto.STRING), ("n", TensorProto.INT64)))
    graph = helper.make_graph([helper.make_node("StringSplit", ["x"], ["y", "n"], **attributes)], "g", [x], [y, n])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = {"x": np.array([text], object)}
    return [[y[0].tolist(), int(n[0])] for y, n in (session.run(None, given), ReferenceEvaluator(model).run(None, given))]


for text, attributes, wrong in (
    ("a b", {}, False),
    ("a\tb", {}, True),
    ("a\nb c", {}, True),
    ("a,b", {"delimiter": ","}, False),
    ("", {"delimiter": ","}, True),
    ("a b  ", {"maxsplit": 1}, True),
):
    found, reference = split(text, **attributes)
    parts = text.split(attributes.get("delimiter"), attributes.get("maxsplit", -1))
    print(repr(text), attributes, "found", found, "reference", reference, "Python", parts)
    assert reference[1] == len(parts) and (found != reference) == wrong
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
