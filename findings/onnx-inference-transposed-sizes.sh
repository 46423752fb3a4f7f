#!/usr/bin/env bash
# onnx 1.23.2's shape inference loses dimensions of a ConvTranspose whose output_shape is smaller than its input.
#
# An image of 1 x 1 x 5 x 4 by a filter of 1 x 1 with output_shape [5, 3] is inferred as [1, 1, 5]: three dimensions, not an open size. Where
# the first one is smaller, [4, 4], it is [1, 1]. ONNX Runtime 1.32.0 gives [1, 1, 5, 3] and [1, 1, 4, 4]. With auto_pad SAME_UPPER, strides of 2
# and output_padding 1 the inferred sizes are 11 and 9, ONNX Runtime's 10 and 8. infer_shapes(strict_mode=True) has no objection to any of it.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

x = np.ones((1, 1, 5, 4), np.float32)


def run(wanted, inferred, filters, **attributes):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    weights = numpy_helper.from_array(np.ones((1, 1, *filters), np.float32), "w")
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "g", [image], [onnx.ValueInfoProto(name="y")], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    shape = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0].type.tensor_type.shape
    told = [item.dim_value for item in shape.dim]
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    print(f"{attributes}: inferred {told}, ONNX Runtime {list(runtime.shape)}")
    assert list(runtime.shape) == wanted and told == inferred


run([1, 1, 5, 4], [1, 1, 5, 4], (1, 1), output_shape=[5, 4])
run([1, 1, 5, 3], [1, 1, 5], (1, 1), output_shape=[5, 3])
run([1, 1, 4, 4], [1, 1], (1, 1), output_shape=[4, 4])
run([1, 1, 10, 8], [1, 1, 11, 9], (2, 2), strides=[2, 2], auto_pad="SAME_UPPER", output_padding=[1, 1])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
