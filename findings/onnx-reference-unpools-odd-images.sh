#!/usr/bin/env bash
# onnx 1.23.2's reference implementation of MaxUnpool takes indices for those of an image without `output_shape`'s last row and column,
# although MaxPool counted in the whole one: what it gave for an image of 5 by 5 cannot be put back.
#
# MaxPool by 2 of 0 to 24 keeps 6, 8, 16 and 18, which are their own places. MaxUnpool with output_shape 5 by 5 puts 6 to the place of 7,
# and fails for 16 and 18, which are beyond 4 by 4. ONNX Runtime 1.32.0 and PyTorch's max_unpool2d put all four where they were. ONNX's node
# test maxunpool_export_with_output_shape expects the former.
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


def run(evaluate, kept, indices):
    """MaxUnpool of two rows of two elements to an image of 5 by 5."""
    node = helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    types = {"x": TensorProto.FLOAT, "i": TensorProto.INT64, "s": TensorProto.INT64}
    values = [helper.make_tensor_value_info(name, element, [1, 1, 2, 2] if name != "s" else [4]) for name, element in types.items()]
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 5, 5])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=9)
    shaped = [np.array(row).reshape(1, 1, 2, 2) for row in (kept, indices)]
    return evaluate(model, {"x": shaped[0].astype(np.float32), "i": shaped[1], "s": np.array([1, 1, 5, 5])})


def reference(model, given):
    return ReferenceEvaluator(model).run(None, given)[0].ravel()


def runtime(model, given):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)[0].ravel()


image = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
pool = helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2], strides=[2, 2])
outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None), helper.make_tensor_value_info("i", TensorProto.INT64, None)]
graph = helper.make_graph([pool], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, image.shape)], outputs)
pooled = ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=9)).run(None, {"x": image})
kept, indices = (array.ravel().tolist() for array in pooled)
print("onnx", onnx.__version__, "MaxPool gives", kept, "at", indices)
assert indices == kept == [6, 8, 16, 18]
found = run(runtime, kept, indices)
print("onnxruntime", onnxruntime.__version__, {place: found[place] for place in np.flatnonzero(found).tolist()})
assert np.array_equal(np.flatnonzero(found), indices) and np.array_equal(found[indices], kept)
try:
    run(reference, kept, indices)
except IndexError as error:
    print("onnx", onnx.__version__, error)
else:
    raise AssertionError("the reference implementation puts the elements back")
moved = np.flatnonzero(run(reference, [6, 8, 0, 0], [6, 8, 0, 0])).tolist()
print("onnx", onnx.__version__, "puts 6 and 8 to", moved)
assert moved == [7, 10]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
