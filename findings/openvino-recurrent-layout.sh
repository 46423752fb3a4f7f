#!/usr/bin/env bash
# OpenVINO 2026.4.1 reads layout=1 of ONNX's recurrent operators as layout=0.
#
# A GRU of opset 14 with layout=1 takes X as [batch, sequence, input] and gives Y as [batch, sequence, directions, hidden]. OpenVINO takes the
# batch of 4 for the steps and the 5 steps for the batch: Y is [4, 1, 5, 3], the numbers are those of layout=0 over the same array.
# ONNX Runtime 1.32.0 gives the right numbers for the transposed input with layout=0.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

BATCH, STEPS, INPUT, HIDDEN = 4, 5, 2, 3
rng = np.random.default_rng(0)
weights = [numpy_helper.from_array((rng.standard_normal((1, 3 * HIDDEN, n)) / 2).astype(np.float32), name) for name, n in (("W", INPUT), ("R", HIDDEN))]
x = rng.standard_normal((BATCH, STEPS, INPUT)).astype(np.float32)


def saved(layout: int, sizes: tuple[int, ...]) -> str:
    node = helper.make_node("GRU", ["X", "W", "R"], ["Y"], hidden_size=HIDDEN, layout=layout)
    floats = TensorProto.FLOAT
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("X", floats, sizes)], [helper.make_tensor_value_info("Y", floats, [None] * 4)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/{layout}{sizes[0]}.onnx"
    onnx.save(model, path)
    return path


def by_runtime(array: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(saved(0, array.shape), providers=["CPUExecutionProvider"]).run(None, {"X": array})[0]


found = next(iter(openvino.Core().compile_model(saved(1, x.shape), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"X": x}).values()))
right = by_runtime(np.ascontiguousarray(x.transpose(1, 0, 2))).transpose(2, 0, 1, 3)
print("openvino", openvino.__version__, found.shape, "right", right.shape)
assert found.shape == (BATCH, 1, STEPS, HIDDEN) and right.shape == (BATCH, STEPS, 1, HIDDEN)
assert np.allclose(found, by_runtime(x), atol=1e-5)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
