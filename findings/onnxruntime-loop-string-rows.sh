#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Loop keeps a row of strings of its first iteration only, where the row is a state that the body hands on: the rows
# of [a, b] after four iterations are [a, b] and three of empty strings. The same rows of numbers are kept.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper


def described(name, element, sizes):
    return helper.make_tensor_value_info(name, element, sizes)


for element, x in ((TensorProto.STRING, np.array(["a", "b"], object)), (TensorProto.FLOAT, np.array([1, 2], np.float32))):
    nodes = [helper.make_node("Identity", [read], [made]) for read, made in (("c", "go"), ("s", "next"), ("s", "row"))]
    inputs = [described("i", TensorProto.INT64, []), described("c", TensorProto.BOOL, []), described("s", element, [2])]
    outputs = [described("go", TensorProto.BOOL, []), described("next", element, [2]), described("row", element, [2])]
    loop = helper.make_node("Loop", ["n", "", "x"], ["y", "rows"], body=helper.make_graph(nodes, "body", inputs, outputs))
    given = [described("n", TensorProto.INT64, []), described("x", element, [2])]
    graph = helper.make_graph([loop], "g", given, [described("y", element, [2]), described("rows", element, [None, 2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = session.run(["rows"], {"n": np.array(4), "x": x})[0].tolist()
    print("onnxruntime", onnxruntime.__version__, rows)
    assert rows == ([["a", "b"]] + [["", ""]] * 3 if element == TensorProto.STRING else [[1, 2]] * 4)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
