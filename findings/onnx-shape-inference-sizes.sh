#!/usr/bin/env bash
# onnx-shape-inference 0.4.0 gives Unique along an axis one dimension, and cuts off sizes of Resize that ONNX rounds.
#
# Unique of [3, 4] along axis 0 has two dimensions, of which the second stays 4: the package tells one of unknown size. Resize of [1, 1, 2, 4]
# to sizes of [1, 3] along the axes 2 and 3 with keep_aspect_ratio_policy="not_smaller" is scaled by 3 / 4 along both, to 1.5 and 3. ONNX
# rounds to [1, 1, 2, 3]; the package tells [1, 1, 1, 3]. ONNX Runtime 1.32.0 and onnx 1.23.2's own inference have both right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnx-ir==1.1.0 onnx-shape-inference==0.4.0 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnx_ir
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_shape_inference import infer_symbolic_shapes

resized = {"mode": "nearest", "axes": [2, 3], "keep_aspect_ratio_policy": "not_smaller"}
rows = {
    "Unique": (["x"], [3, 4], {"axis": 0}, (3, 4), [None]),
    "Resize": (["x", "", "", "sizes"], [1, 1, 2, 4], resized, (1, 1, 2, 3), [1, 1, 1, 3]),
}
for operator, (inputs, sizes, attributes, right, told) in rows.items():
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(right))
    constants = [numpy_helper.from_array(np.array([1, 3], np.int64), "sizes")] if "sizes" in inputs else []
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    model.graph.output[0].type.tensor_type.ClearField("shape")  # which inference then finds
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runtime = session.run(None, {"x": x})[0].shape
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output[0].type.tensor_type.shape.dim
    symbolic = infer_symbolic_shapes(onnx_ir.from_proto(model)).graph.outputs[0].shape
    found = [size if isinstance(size, int) else None for size in symbolic]
    print(f"{operator}: onnx-shape-inference {list(symbolic)}, onnx {len(inferred)}-D, ONNX Runtime {runtime}")
    assert runtime == right and len(inferred) == len(right)
    assert all(size.dim_value in (0, exact) for size, exact in zip(inferred, right))
    assert found == told
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
