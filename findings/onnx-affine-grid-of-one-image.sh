#!/usr/bin/env bash
# onnx 1.23.2 defines AffineGrid by other operators, and the definition fails for one image: it squeezes the rows of the matrices without
# saying which axis, and for a batch of one the batch goes, too. For two images it gives the right grid.
#
# For a dimension of one element with align_corners it gives NaN (0 by infinity). ONNX's reference implementation of the operator puts the
# element at -1, ONNX Runtime 1.32.0 at 1; PyTorch's affine_grid, after which the operator is made, has 0 there.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
version = f"onnx {onnx.__version__}"
definition = ReferenceEvaluator(onnx.defs.get_schema("AffineGrid", 20, "").function_body)


def given(images, *sizes):
    """Matrices that change nothing, and the sizes of as many images."""
    return {"theta": np.tile(np.eye(2, 3, dtype=np.float32), (images, 1, 1)), "size": np.array([images, 1, *sizes])}


def defined(images, *sizes, align):
    return definition.run(None, given(images, *sizes), attributes={"align_corners": align})[0]


grid = defined(2, 2, 2, align=0)[0].tolist()
print(version, "defines for two images", grid)
assert grid == [[[-0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]]
try:
    defined(1, 2, 2, align=0)
except IndexError as error:
    print(version, "defines for one image:", error)
else:
    raise AssertionError("the definition holds for one image")

values = [helper.make_tensor_value_info(name, element, None) for name, element in (("theta", TensorProto.FLOAT), ("size", TensorProto.INT64))]
node = helper.make_node("AffineGrid", ["theta", "size"], ["grid"], align_corners=1)
graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("grid", TensorProto.FLOAT, None)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
heights = [
    defined(2, 1, 3, align=1)[0, 0, :, 1].tolist(),
    ReferenceEvaluator(model).run(None, given(2, 1, 3))[0][0, 0, :, 1].tolist(),
    session.run(None, given(2, 1, 3))[0][0, 0, :, 1].tolist(),
]
print("heights in a grid of one row: defined", heights[0], "reference", heights[1], "onnxruntime", onnxruntime.__version__, heights[2])
assert np.isnan(heights[0]).all() and heights[1:] == [[-1, -1, -1], [1, 1, 1]]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
