#!/usr/bin/env bash
# tinygrad 0.14.0's ONNX Attention pairs other heads than ONNX where keys have fewer heads, and is_causal forgets the past keys.
#
# With 4 heads of queries and 2 of keys and values, ONNX's heads 0 and 1 share the first one and 2 and 3 the second; tinygrad gives 0 and 2 the
# first one and 1 and 3 the second. With is_causal and past keys, query i sees the past and the keys up to i; tinygrad's sees the keys 0 to i of
# past and present together, so that a first query sees only the oldest key. Nothing is said. ONNX Runtime 1.32.0 has both right, as do the
# node tests of onnx 1.23.2 (test_attention_4d_gqa, test_attention_4d_causal_with_past_and_present).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 tinygrad==0.14.0
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner


def model(names, arrays, sizes, **attributes):
    node = helper.make_node("Attention", names, ["Y"] if len(arrays) == 3 else ["Y", "present_key", "present_value"], **attributes)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("Y", TensorProto.FLOAT, sizes)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def run(name, names, arrays, right, given, **attributes):
    path = f"{sys.argv[1]}/model.onnx"
    proto = model(names, arrays, right.shape, **attributes)
    onnx.checker.check_model(proto)
    onnx.save(proto, path)
    runtime = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["Y"], arrays)[0]
    found = OnnxRunner(path)({key: Tensor(value) for key, value in arrays.items()})["Y"].numpy()
    print(f"{name}: tinygrad {found.ravel()}, ONNX Runtime {runtime.ravel()}")
    assert np.allclose(runtime, right) and np.allclose(found, given) and not np.allclose(right, given)


# Keys of zeros: all weights are equal, so an output is the mean of the values that its head sees.
zeros = lambda heads, tokens: np.zeros((1, heads, tokens, 1), np.float32)
values = lambda *rows: np.array(rows, np.float32).reshape(1, len(rows), -1, 1)
arrays = {"Q": zeros(4, 1), "K": zeros(2, 1), "V": values([10], [20])}
run("heads of keys", ["Q", "K", "V"], arrays, values([10], [10], [20], [20]), values([10], [20], [10], [20]))

arrays = {"Q": zeros(1, 2), "K": zeros(1, 2), "V": values([30, 40]), "past_key": zeros(1, 2), "past_value": values([10, 20])}
names = ["Q", "K", "V", "", "past_key", "past_value"]
run("causal with a past", names, arrays, values([20, 25]), values([10, 15]), is_causal=1)
PYTHON
DEV=PYTHON PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
