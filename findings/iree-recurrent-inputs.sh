#!/usr/bin/env bash
# IREE 3.13.0 compiles ONNX's recurrent operators without their lengths, clip and peepholes, and with Relu for most activations.
#
# Each layer below has R = 0 and one unit, so that a step depends on its input only. Left out: sequence_lens of all three operators, clip of
# RNN (LSTM's and GRU's are refused), P of LSTM. Activations other than Tanh and Sigmoid, HardSigmoid and Softsign for example, become Relu
# in all three operators. Nothing is said. ONNX Runtime 1.32.0 has all of them right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
cat >"$root/run.py" <<'PYTHON'
import subprocess
import sys

import iree.compiler
import iree.runtime
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

root = sys.argv[1]
x = np.array([1.0, -1.5, 0.5], np.float32).reshape(3, 1, 1)
flat = x.ravel().astype(float)


def constants(gates, **more):
    """W is 2 and R is 0 for every gate, in ONNX's order."""
    arrays = {"W": np.full((1, gates, 1), 2, np.float32), "R": np.zeros((1, gates, 1), np.float32), **more}
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def lstm(peephole):
    """Y of an LSTM whose gates see the cell by weights of `peephole`."""
    cell, states = 0.0, []
    for value in 2 * flat:
        before = cell
        cell = sigmoid(value + peephole * before) * before + sigmoid(value + peephole * before) * np.tanh(value)
        states.append(sigmoid(value + peephole * cell) * np.tanh(cell))
    return states


two = np.array([2], np.int32)
steps, relu = np.tanh(2 * flat), np.maximum(2 * flat, 0)
# operator, names of its inputs, constants, attributes: what ONNX defines, what IREE gives
rows = {
    "RNN, lengths of 2": ("RNN", "X W R  S", constants(1, S=two), {}, [*steps[:2], 0], steps),
    "RNN, clip=0.2": ("RNN", "X W R", constants(1), {"clip": 0.2}, np.tanh(np.clip(2 * flat, -0.2, 0.2)), steps),
    "RNN, HardSigmoid": ("RNN", "X W R", constants(1), {"activations": ["HardSigmoid"]}, np.clip(0.4 * flat + 0.5, 0, 1), relu),
    "RNN, Softsign": ("RNN", "X W R", constants(1), {"activations": ["Softsign"]}, 2 * flat / (1 + np.abs(2 * flat)), relu),
    "LSTM, peepholes of 1": ("LSTM", "X W R     P", constants(4, P=np.ones((1, 3), np.float32)), {}, lstm(1), lstm(0)),
}
for name, (operator, inputs, weights, attributes, defined, given) in rows.items():
    node = helper.make_node(operator, inputs.split(" "), ["Y"], hidden_size=1, **attributes)
    values = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [3, 1, 1])], [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [3, 1, 1, 1])]
    model = helper.make_model(helper.make_graph([node], "g", *values, weights), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, f"{root}/model.onnx")
    runtime = onnxruntime.InferenceSession(f"{root}/model.onnx", providers=["CPUExecutionProvider"]).run(None, {"X": x})[0].ravel()
    subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", f"{root}/model.onnx", "-o", f"{root}/model.mlir"], check=True)
    binary = iree.compiler.compile_file(f"{root}/model.mlir", target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"])
    module = iree.runtime.load_vm_flatbuffer(binary, driver="local-sync")
    found = np.asarray(module["g"](x)).ravel()
    print(f"{name}: IREE {found.round(4)}, ONNX Runtime {runtime.round(4)}")
    assert np.allclose(runtime, defined, atol=1e-5), defined
    assert np.allclose(found, given, atol=1e-5) and not np.allclose(given, defined, atol=1e-2), given
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
