#!/usr/bin/env bash
# ONNX Runtime 1.32.0's MaxPool, AveragePool and LpPool leave dilations out of the padding of SAME_UPPER and SAME_LOWER.
#
# ONNX pads for these so that the output has ceil(size / stride) elements, with windows as wide as their dilations make them. A window of 2 with
# dilations of 2 spans 3 elements, so [1, ..., 8] gets one on each side, and its maxima are [2, 3, 4, 5, 6, 7, 8, 7]. ONNX Runtime pads for a
# window of 2, one element on one side, which leaves 7 of the 8 outputs, at other places; nothing is said.
# ONNX's shape inference tells 8. A Conv with both attributes is refused: "Dilation not supported".
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

onnxruntime.set_default_logger_severity(3)
x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8)


def run(operator, **attributes):
    node = helper.make_node(operator, ["x"], ["y"], kernel_shape=[2], dilations=[2], **attributes)
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape), helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, "n"])]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model)
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output[0].type.tensor_type.shape.dim[2].dim_value
    found = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].ravel()
    print(f"{operator} {attributes}: {found}, ONNX infers {inferred} elements")
    assert inferred == 8
    return found.tolist()


PADDED = [2, 3, 4, 5, 6, 7, 8, 7]
assert run("MaxPool", pads=[1, 1]) == PADDED
assert run("MaxPool", auto_pad="SAME_UPPER") == PADDED[1:]
assert run("MaxPool", auto_pad="SAME_LOWER") == PADDED[:-1]
assert run("AveragePool", pads=[1, 1]) == [2, *range(2, 8), 7]
assert run("AveragePool", auto_pad="SAME_UPPER") == [*range(2, 8), 7]
assert run("LpPool", p=1, pads=[1, 1]) == [2, *range(4, 15, 2), 7]
assert run("LpPool", p=1, auto_pad="SAME_UPPER") == [*range(4, 15, 2), 7]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
