#!/usr/bin/env bash
# tract 0.23.9 takes LogSoftmax, ReduceLogSumExp and Softplus of ONNX as they are written: its exponentials underflow and overflow.
#
# LogSoftmax of [0, 200] is [-200, 0], as ONNX Runtime 1.32.0 has it; tract takes the logarithm of a softmax of 0, minus infinity, and for
# [0, 88, 100] something above -90 in place of -100. ReduceLogSumExp of [100, 100] is 100.69, and Softplus of 100 is 100; tract gives infinity
# for both. ONNX's node test logsoftmax_large_number expects finite numbers.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 tract==0.23.9
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
import tract
from onnx import TensorProto, helper


def run(operator, row, right, wrong, **attributes):
    x = np.array([row], np.float32)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape), helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, len(right)])]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], **attributes)], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0][0]
    found = tract.onnx().load(path).into_model().into_runnable().run([x])[0].to_numpy()[0]
    print(f"{operator} of {row}: tract {found}, ONNX Runtime {runtime}")
    assert np.allclose(runtime, right, atol=1e-3) and np.flatnonzero(np.abs(found - right) > 10).tolist() == wrong


run("LogSoftmax", [0, 1, 2], [-2.4076, -1.4076, -0.4076], [], axis=1)
run("LogSoftmax", [0, 88, 100], [-100, -12, 0], [0], axis=1)
run("LogSoftmax", [0, 200], [-200, 0], [0], axis=1)
run("ReduceLogSumExp", [100, 100], [100.6931], [0], axes=[1])
run("Softplus", [10, 88, 100], [10, 88, 100], [2])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
