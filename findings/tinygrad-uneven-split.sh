#!/usr/bin/env bash
# tinygrad 0.14.0 splits 7 elements in three as 3, 2, 2, and crops 5 elements to the first 3.
#
# ONNX: with num_outputs "the last chunk will be smaller", so Split of [0, ..., 6] gives [0, 1, 2], [3, 4, 5], [6], as ONNX Runtime 1.32.0
# does; tinygrad gives [0, 1, 2], [3, 4], [5, 6]. ONNX's CenterCropPad takes the middle of 5 elements for 3, tinygrad the first 3: it is one
# element early where both sizes are odd.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 tinygrad==0.14.0
cat >"$root/run.py" <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner


def run(operator, x, constants, results, right, found, **attributes):
    node = helper.make_node(operator, ["x", *constants], results, **attributes)
    tensors = [numpy_helper.from_array(array, key) for key, array in constants.items()]
    vector = lambda key, sizes: helper.make_tensor_value_info(key, TensorProto.FLOAT, sizes)
    outputs = [vector(key, np.shape(array)) for key, array in zip(results, right)]
    graph = helper.make_graph([node], "g", [vector("x", x.shape)], outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    path = f"{sys.argv[1]}/model.onnx"
    onnx.save(model, path)
    runtime = [array.tolist() for array in onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})]
    own = OnnxRunner(path)({"x": Tensor(x)})
    own = [own[name].numpy().tolist() for name in results]
    print(f"{operator}: ONNX Runtime {runtime}, tinygrad {own}")
    assert runtime == right and own == found


numbers = np.arange(7, dtype=np.float32)
run("Split", numbers, {}, ["a", "b", "c"], [[0, 1, 2], [3, 4, 5], [6]], [[0, 1, 2], [3, 4], [5, 6]], num_outputs=3)
five = np.arange(5, dtype=np.float32)
run("CenterCropPad", five, {"shape": np.array([2])}, ["y"], [[1, 2]], [[1, 2]])
run("CenterCropPad", five, {"shape": np.array([3])}, ["y"], [[1, 2, 3]], [[0, 1, 2]])
PYTHON
DEV=PYTHON PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
