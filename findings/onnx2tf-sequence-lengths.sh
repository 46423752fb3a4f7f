#!/usr/bin/env bash
# onnx2tf 1.28.8 converts RNN, GRU and LSTM without their sequence_lens, and says nothing: the layer runs over the padding. Y holds values where
# ONNX's is 0, and Y_h is the state after the padding where ONNX's is the state after the sequence's last element. A batch without padding is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnx2tf==1.28.8 tensorflow-cpu==2.21.0 tf-keras==2.21.0 \
    onnx-graphsurgeon==0.6.1 sng4onnx==2.0.1 psutil==7.2.2 ai-edge-litert==2.3.0
cat >"$root/run.py" <<'PYTHON'
import logging
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import onnx
import onnx2tf
import onnxruntime
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

logging.disable(logging.WARNING)
steps, batch, inputs, hidden = 5, 2, 3, 4
generator = np.random.default_rng(0)
x = generator.standard_normal((steps, batch, inputs)).astype(np.float32)


def model(operator, gates, lengths):
    constants = {
        "W": generator.standard_normal((1, gates * hidden, inputs)).astype(np.float32),
        "R": generator.standard_normal((1, gates * hidden, hidden)).astype(np.float32),
        "B": generator.standard_normal((1, 2 * gates * hidden)).astype(np.float32),
        "lengths": np.array(lengths, np.int32),
        "initial_h": np.zeros((1, batch, hidden), np.float32),
        "initial_c": np.zeros((1, batch, hidden), np.float32),
    }
    if operator != "LSTM":
        del constants["initial_c"]
    node = helper.make_node(operator, ["X", *constants], ["Y", "Y_h"], hidden_size=hidden)
    sizes = {"X": [steps, batch, inputs], "Y": [steps, 1, batch, hidden], "Y_h": [1, batch, hidden]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in sizes.items()]
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph([node], "g", values[:1], values[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


def converted(path, folder):
    onnx2tf.convert(input_onnx_file_path=path, output_folder_path=folder, non_verbose=True, keep_shape_absolutely_input_names=["X"], not_use_onnxsim=True)
    interpreter = tf.lite.Interpreter(f"{folder}/model_float32.tflite")
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    results = [interpreter.get_tensor(output["index"]) for output in interpreter.get_output_details()]
    return sorted(results, key=lambda result: -result.ndim)


for operator, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    for lengths in ([5, 5], [5, 3]):
        folder = f"{sys.argv[1]}/{operator}{lengths[1]}"
        os.makedirs(folder)
        path = f"{folder}/model.onnx"
        built = model(operator, gates, lengths)
        onnx.checker.check_model(built)
        onnx.save(built, path)
        y, y_h = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"X": x})
        found, found_h = converted(path, folder)
        print(operator, "lengths", lengths, "onnx2tf", onnx2tf.__version__, "padding of Y", np.abs(found[3:, :, 1]).max().round(3),
              "error of Y_h", np.abs(found_h - y_h).max().round(3), "; onnxruntime", onnxruntime.__version__, "padding", np.abs(y[3:, :, 1]).max().round(3))
        if lengths == [5, 5]:
            assert np.allclose(found, y, atol=1e-5) and np.allclose(found_h, y_h, atol=1e-5)
        else:
            assert not y[3:, :, 1].any() and found[3:, :, 1].any()
            assert np.allclose(y_h[0, 1], y[2, 0, 1]) and np.allclose(found_h[0, 1], found[4, 0, 1], atol=1e-6)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" 2>/dev/null
