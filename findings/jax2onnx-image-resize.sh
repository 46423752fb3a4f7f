#!/usr/bin/env bash
# jax2onnx 0.17.1 exports jax.image.resize with "nearest" and "cubic" as Resize nodes of other values.
#
# Halved by "nearest", [0, 1, 2, 3, 4, 5] is [1, 3, 5] in JAX 0.10.2, which takes the later of two elements that are equally near; the node leaves
# nearest_mode at its default, which takes the earlier one: [0, 2, 4]. By "cubic", JAX leaves out what lies beyond the border and scales the other
# weights up; the node does not have exclude_outside, so elements at the border differ: [0, 0, 1, 0] doubled ends with -0.0882 in JAX and with
# -0.0703 by the node. Nothing is said. The models run in ONNX Runtime 1.32.0; with these two attributes it gives what JAX gives.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 jax==0.10.2 jax2onnx==0.17.1
cat >"$root/run.py" <<'PYTHON'
import jax
import numpy as np
import onnxruntime
from jax2onnx import to_onnx
from onnx import helper


def run(model, x):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0].ravel()


def check(row, size, method, right, given, attribute):
    x = np.array([row], np.float32)
    resize = lambda array: jax.image.resize(array, (1, size), method, antialias=False)
    model = to_onnx(resize, [jax.ShapeDtypeStruct(x.shape, x.dtype)])
    own, found = np.asarray(resize(x)).ravel(), run(model, x)
    (node,) = [node for node in model.graph.node if node.op_type == "Resize"]
    (name,) = attribute
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, attribute[name])])
    print(f"{method} to {size}: JAX {own.round(4)}, jax2onnx {found.round(4)}, with {attribute} {run(model, x).round(4)}")
    assert np.allclose(own, right, atol=1e-4) and np.allclose(found, given, atol=1e-4) and np.allclose(run(model, x), own, atol=1e-4)


check(range(6), 3, "nearest", [1, 3, 5], [0, 2, 4], {"nearest_mode": "round_prefer_ceil"})
check(
    [0, 0, 1, 0],
    8,
    "cubic",
    [0, -0.0219, -0.0687, 0.2266, 0.8672, 0.8473, 0.2117, -0.0882],
    [0, -0.0234, -0.0703, 0.2266, 0.8672, 0.8672, 0.2266, -0.0703],
    {"exclude_outside": 1},
)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
