#!/usr/bin/env bash
# onnx 1.23.2: the reference implementation of LSTM, GRU and RNN leaves out sequence_lens, and GRU leaves out `activations`. Nothing says so.
#
# A GRU of 3 steps whose only sample has length 1 has Y_h of step 1 and zeros in Y from step 2 on (ONNX's text of GRU, opset 22). The
# reference implementation goes on to the end; ONNX Runtime 1.32.0 stops. With HardSigmoid and Relu for Sigmoid and Tanh its numbers are
# those of Sigmoid and Tanh. Whoever takes it for an oracle compares with these numbers.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(0)
given = {
    "x": rng.standard_normal((3, 1, 2)).astype(np.float32),
    "w": rng.standard_normal((1, 6, 2)).astype(np.float32),
    "r": rng.standard_normal((1, 6, 2)).astype(np.float32),
    "lens": np.array([1], np.int32),
}


def both(attributes, names):
    node = helper.make_node("GRU", names, ["y", "h"], hidden_size=2, **attributes)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(given[n].dtype), given[n].shape) for n in names if n]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "h")]
    model = helper.make_model(helper.make_graph([node], "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    feeds = {n: given[n] for n in names if n}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return ReferenceEvaluator(model).run(None, feeds), session.run(None, feeds)


print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)
(reference, _), (runtime, _) = both({}, ["x", "w", "r", "", "lens"])
print("lens [1], y of steps 2 and 3: reference", np.round(reference[1:].ravel(), 4), "ONNX Runtime", runtime[1:].ravel())
assert np.all(runtime[1:] == 0) and np.all(reference[1:] != 0)
plain, _ = both({}, ["x", "w", "r"])
other, runtime = both({"activations": ["HardSigmoid", "Relu"]}, ["x", "w", "r"])
print("activations HardSigmoid, Relu, y of step 1: reference", other[0][0].ravel(), "ONNX Runtime", runtime[0][0].ravel())
assert np.array_equal(plain[0], other[0]) and not np.allclose(other[0], runtime[0], atol=1e-3)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
