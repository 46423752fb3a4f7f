#!/usr/bin/env bash
# onnx 1.23.2: shape inference of single nodes tells no sizes of GreaterOrEqual and LessOrEqual of opsets 12 to 15.
#
# These versions are defined by Greater or Less, Equal and Or, and `infer_node_outputs` does not look into definitions. From opset 16 on the
# same node has its sizes. The first versions of most operators (opset 1 to 5) have none either. A program that fills in sizes of its own,
# of padded tensors for instance, hands these on to all nodes behind.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2
cat >"$root/run.py" <<'PYTHON'
import onnx
from onnx import TensorProto, defs, helper, shape_inference

found = {}
for opset in (12, 15, 16):
    node = helper.make_node("GreaterOrEqual", ["a", "b"], ["c"])
    types = {name: helper.make_tensor_type_proto(TensorProto.FLOAT, [3, 4]) for name in "ab"}
    schema = defs.get_schema("GreaterOrEqual", opset, "")
    told = shape_inference.infer_node_outputs(schema, node, types, opset_imports=[helper.make_opsetid("", opset)])
    shape = [dim.dim_value for dim in told["c"].tensor_type.shape.dim] if told["c"].tensor_type.HasField("shape") else None
    found[opset] = shape
    print("onnx", onnx.__version__, "GreaterOrEqual of [3, 4], opset", opset, "->", shape)
assert found == {12: None, 15: None, 16: [3, 4]}, found
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
