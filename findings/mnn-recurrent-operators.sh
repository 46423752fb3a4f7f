#!/usr/bin/env bash
# MNN 3.6.1 computes ONNX's default GRU by a formula that ONNX does not have, and runs reverse layers forward.
#
# linear_before_reset=0 (the default) means tanh(W x + Wb + R (r * h) + Rb) for the hidden gate, and 1 means tanh(W x + Wb + r * (R h + Rb)).
# MNN gives tanh(W x + Wb + r * (R h) + Rb) for 0: the reset gate comes behind the product, but leaves the bias out. With 1 it is right.
# direction="reverse" is left out by LSTM, GRU and RNN: all three give the forward layer's values. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 mnn==3.6.1
cat >"$root/run.py" <<'PYTHON'
import subprocess
import sys

import MNN
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

STEPS, BATCH, INPUT, HIDDEN = 5, 2, 3, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
root = sys.argv[1]
rng = np.random.default_rng(0)
x = rng.standard_normal((STEPS, BATCH, INPUT)).astype(np.float32)


def draw(operator: str) -> dict[str, np.ndarray]:
    rows = GATES[operator] * HIDDEN
    sizes = {"W": (1, rows, INPUT), "R": (1, rows, HIDDEN), "B": (1, 2 * rows)}
    return {name: (rng.standard_normal(size) / 2).astype(np.float32) for name, size in sizes.items()}


def save(operator: str, weights: dict[str, np.ndarray], **attributes: object) -> str:
    outputs = {"Y": [STEPS, 1, BATCH, HIDDEN], "Y_h": [1, BATCH, HIDDEN]} | ({"Y_c": [1, BATCH, HIDDEN]} if operator == "LSTM" else {})
    node = helper.make_node(operator, ["X", "W", "R", "B"], list(outputs), hidden_size=HIDDEN, **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in ({"X": x.shape} | outputs).items()]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:], initializers), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, f"{root}/model.onnx")
    return f"{root}/model.onnx"


def right(path: str) -> np.ndarray:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"X": x})[0]


def found(path: str) -> np.ndarray:
    converter = [f"{root}/packages/bin/mnnconvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", f"{root}/model.mnn", "--bizCode", "finding"]
    subprocess.run([sys.executable, *converter], check=True, capture_output=True)
    module = MNN.nn.load_module_from_file(f"{root}/model.mnn", ["X"], ["Y", "Y_h"])
    outputs = module.forward([MNN.expr.const(x, x.shape, MNN.expr.NCHW)])
    return np.array(MNN.expr.convert(outputs[0], MNN.expr.NCHW).read())


def own_formula(weights: dict[str, np.ndarray]) -> np.ndarray:
    w, r, (wb, rb) = weights["W"][0], weights["R"][0], np.split(weights["B"][0], 2)
    state, outputs = np.zeros((BATCH, HIDDEN)), []
    for step in x:
        inputs, recurrent = np.split(step @ w.T + wb, 3, 1), np.split(state @ r.T, 3, 1)
        update, reset = (1 / (1 + np.exp(-inputs[i] - recurrent[i] - rb[i * HIDDEN : (i + 1) * HIDDEN])) for i in range(2))
        new = np.tanh(inputs[2] + reset * recurrent[2] + rb[2 * HIDDEN :])
        state = (1 - update) * new + update * state
        outputs.append(state)
    return np.stack(outputs)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.allclose(np.ravel(a), np.ravel(b), atol=1e-5))


print("MNN", MNN.version())
for before_reset in (0, 1):
    weights = draw("GRU")
    path = save("GRU", weights, linear_before_reset=before_reset)
    y, true = found(path), right(path)
    print("GRU linear_before_reset", before_reset, "right:", same(y, true))
    assert same(y, true) == bool(before_reset) and (before_reset or same(y, own_formula(weights)))
for operator in GATES:
    attributes = {"linear_before_reset": 1} if operator == "GRU" else {}
    weights = draw(operator)
    path = save(operator, weights, direction="reverse", **attributes)
    y, true = found(path), right(path)
    forward = right(save(operator, weights, **attributes))
    print(operator, "reverse right:", same(y, true), "forward's values:", same(y, forward))
    assert not same(y, true) and same(y, forward)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" | grep -v "device supports\|CPU Group"
