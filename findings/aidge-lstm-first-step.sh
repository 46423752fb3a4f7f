#!/usr/bin/env bash
# Aidge 0.10.1 computes the first step of an ONNX LSTM and gives zeros for all later ones, unless expand_metaops is called before the scheduler.
#
# An imported LSTM is one "meta operator" of the graph. The scheduler runs it once: Y holds the first step and then zeros, Y_h and Y_c are those of
# the first step. Nothing is said. After aidge_core.expand_metaops(graph, True) the same graph gives what ONNX Runtime 1.32.0 gives.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" aidge-core==0.10.1 aidge-backend-cpu==0.10.1 aidge-onnx==0.10.1 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
from importlib.metadata import version

import aidge_backend_cpu  # noqa: F401 (registers the kernels)
import aidge_core
import aidge_onnx
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

STEPS, BATCH, INPUT, HIDDEN = 3, 1, 2, 2
aidge_core.Log.set_console_level(aidge_core.Level.Error)
rng = np.random.default_rng(0)
sizes = {"X": (STEPS, BATCH, INPUT), "W": (1, 4 * HIDDEN, INPUT), "R": (1, 4 * HIDDEN, HIDDEN), "B": (1, 8 * HIDDEN)}
sizes |= {name: (1, BATCH, HIDDEN) for name in ("h", "c")}
arrays = {name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
node = helper.make_node("LSTM", ["X", "W", "R", "B", "", "h", "c"], ["Y", "Y_h", "Y_c"], hidden_size=HIDDEN)
results = {"Y": (STEPS, 1, BATCH, HIDDEN), "Y_h": (1, BATCH, HIDDEN), "Y_c": (1, BATCH, HIDDEN)}
x, *outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, size) for name, size in ({"X": sizes["X"]} | results).items())
initializers = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name != "X"]
model = helper.make_model(helper.make_graph([node], "g", [x], outputs, initializers), opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
onnx.checker.check_model(model)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
right = session.run(None, {"X": arrays["X"]})


def run(expand: bool) -> list[np.ndarray]:
    graph = aidge_onnx.convert_onnx_to_aidge(model)
    assert aidge_onnx.has_native_coverage(graph)
    graph.compile("cpu", aidge_core.dtype.float32, dims=[list(sizes["X"])])
    if expand:
        aidge_core.expand_metaops(graph, True)
    aidge_core.SequentialScheduler(graph).forward(True, [aidge_core.Tensor(arrays["X"])])
    return [np.array(node.get_operator().get_output(index)) for node, index in graph.get_ordered_outputs()]


found, expanded = run(expand=False), run(expand=True)
print("aidge", version("aidge-core"), "Y", found[0].ravel(), "Y_h", found[1].ravel())
print("ONNX Runtime, aidge after expand_metaops", *(array[0].ravel() for array in (right, expanded)), "Y_h", right[1].ravel(), expanded[1].ravel())
assert np.allclose(found[0][0], right[0][0], atol=1e-5) and not found[0][1:].any() and np.abs(right[0][1:]).min() > 1e-4
assert np.allclose(found[1], right[0][0], atol=1e-5) and not np.allclose(found[1], right[1], atol=1e-3)
assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(expanded, right, strict=True))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
