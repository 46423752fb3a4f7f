#!/usr/bin/env bash
# nnef-tools 1.0.11 (the Khronos Group's converter) converts LSTM from ONNX with the gates in the wrong order.
#
# ONNX lays the rows of W, R and B out as input, output, forget, cell. The fragment lstm_step that the converter writes splits them as input,
# forget, cell, output, and the weights stay in ONNX's order: the forget gate's weights act as the cell's, the cell's as the output gate's, the
# output gate's as the forget gate's. Converter and interpreter report nothing. The result is exactly that of ONNX Runtime 1.32.0 with the gates
# so exchanged.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" nnef==1.0.10 nnef-tools==1.0.11 onnx==1.23.2 onnxruntime==1.32.0 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from nnef_tools.interpreter.pytorch import Interpreter
from onnx import TensorProto, helper, numpy_helper

STEPS, BATCH, INPUTS, HIDDEN = 4, 2, 3, 5
rng = np.random.default_rng(0)
draw = lambda *sizes: rng.standard_normal(sizes).astype(np.float32)
weights = {"W": draw(1, 4 * HIDDEN, INPUTS), "R": draw(1, 4 * HIDDEN, HIDDEN), "B": draw(1, 8 * HIDDEN)}
feeds = {"X": draw(STEPS, BATCH, INPUTS), "h": draw(1, BATCH, HIDDEN), "c": draw(1, BATCH, HIDDEN)}


def lstm(order: str) -> onnx.ModelProto:
    """The model whose gates ``iofc`` take the weights of the gates in ``order``."""
    places = ["iofc".index(gate) for gate in order]
    initializers = []
    for name, value in weights.items():
        gates = value.reshape(1, -1, 4, HIDDEN, *value.shape[2:])[:, :, places]
        initializers.append(numpy_helper.from_array(gates.reshape(value.shape), name))
    node = helper.make_node("LSTM", ["X", "W", "R", "B", "", "h", "c"], ["", "hn", "cn"], hidden_size=HIDDEN)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in feeds.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, BATCH, HIDDEN]) for name in ("hn", "cn")]
    graph = helper.make_graph([node], "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def runtime(model: onnx.ModelProto) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


source, target = f"{sys.argv[1]}/lstm.onnx", f"{sys.argv[1]}/lstm.nnef"
onnx.save(lstm("iofc"), source)
formats = ["--input-format", "onnx", "--output-format", "nnef", "--keep-io-names"]
subprocess.run([sys.executable, "-m", "nnef_tools.convert", *formats, "--input-model", source, "--output-model", target], check=True)
interpreter = Interpreter(target, decomposed=["lstm_loop", "lstm_step"])
found = [np.asarray(value) for value in interpreter(list(feeds.values())).values()]
right, exchanged = runtime(lstm("iofc")), runtime(lstm("icof"))
for name, *values in zip(("hn", "cn"), found, right, exchanged):
    print(name, *(f"{who} {value.ravel()[:3].round(4)}" for who, value in zip(("NNEF", "ONNX Runtime", "exchanged"), values)))
    assert np.allclose(values[0], values[2], atol=1e-5) and np.abs(values[0] - values[1]).max() > 0.3
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
