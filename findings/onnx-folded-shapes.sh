#!/usr/bin/env bash
# onnx-graphsurgeon 0.6.1 and onnxoptimizer 0.4.2 fold a part of a shape as if it were the whole shape.
#
# Shape with start=1 (opset 15) of a [2, 3, 4] tensor is [3, 4]. graphsurgeon's fold_constants() computes what is made of it, here the first of
# them, from [2, 3, 4]: 2 instead of 3. onnxoptimizer does so for a Slice behind the Shape. A model that takes sizes from it has other
# sizes afterwards. Nothing is said. ONNX Runtime 1.32.0, which runs all models here, has 3 for the model as it is.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnx-graphsurgeon==0.6.1 onnxoptimizer==0.4.2
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnx_graphsurgeon
import onnxoptimizer
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

x = np.zeros((2, 3, 4), np.float32)


def surgeon(model):
    return onnx_graphsurgeon.export_onnx(onnx_graphsurgeon.import_onnx(model).fold_constants().cleanup())


def optimizer(model):
    return onnxoptimizer.optimize(model, onnxoptimizer.get_fuse_and_elimination_passes())


def run(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].tolist()


def check(reader, names, right, folded):
    nodes = [helper.make_node("Shape", ["x"], ["sizes"], start=1), helper.make_node(reader, ["sizes", *names], ["y"])]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape), helper.make_tensor_value_info("y", TensorProto.INT64, [1])]
    tensors = [numpy_helper.from_array(np.array([place]), name) for name, place in zip(names, (0, 1))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    found = {fold.__name__: run(fold(model)) for fold in (surgeon, optimizer)}
    print(f"Shape from dimension 1, {reader}: {run(model)}, folded by {found}")
    assert run(model) == right and found == folded


check("Gather", ["first"], [3], {"surgeon": [2], "optimizer": [3]})
check("Slice", ["first", "end"], [3], {"surgeon": [2], "optimizer": [2]})
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
