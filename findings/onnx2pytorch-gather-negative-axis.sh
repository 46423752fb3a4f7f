#!/usr/bin/env bash
# onnx2pytorch 0.6.0 gathers along the first axis where an ONNX Gather counts its axis from the end.
#
# axis=-1 is the last axis by ONNX. [[0, 1, 2], [3, 4, 5], [6, 7, 8]] gathered at [2, 0] along it is [[2, 0], [5, 3], [8, 6]], as with axis=1 and by
# ONNX Runtime 1.32.0; onnx2pytorch gives the rows 2 and 0, [[6, 7, 8], [0, 1, 2]]. No error is raised as long as the first axis has such
# rows. Its description says that what it cannot express raises "rather than returning a wrong tensor". PyTorch warns of the way it indexes,
# with every axis.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 torch==2.13.0
python3 -m pip install -q --no-deps --target "$root/packages" onnx2pytorch==0.6.0
cat >"$root/run.py" <<'PYTHON'
import sys
import types

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

# onnx2pytorch imports torchvision for four other operators only; a stand-in spares its installation.
for name, members in (("", []), (".io", ["decode_image", "ImageReadMode"]), (".ops", ["deform_conv2d", "roi_align", "roi_pool"])):
    sys.modules[f"torchvision{name}"] = types.ModuleType(f"torchvision{name}")
    vars(sys.modules[f"torchvision{name}"]).update(dict.fromkeys(members))
from onnx2pytorch import ConvertModel

x, places = np.arange(9, dtype=np.float32).reshape(3, 3), np.array([2, 0])
for axis, given in ((0, x[places]), (1, x[:, places]), (-1, x[places]), (-2, x[places])):
    elements = {"x": TensorProto.FLOAT, "places": TensorProto.INT64, "y": TensorProto.FLOAT}
    sizes = {"x": x.shape, "places": places.shape, "y": np.take(x, places, axis).shape}
    values = [helper.make_tensor_value_info(name, element, sizes[name]) for name, element in elements.items()]
    graph = helper.make_graph([helper.make_node("Gather", ["x", "places"], ["y"], axis=axis)], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runtime = session.run(None, {"x": x, "places": places})[0]
    module = ConvertModel(model).eval()(torch.from_numpy(x), torch.from_numpy(places)).numpy()
    print(f"Gather along {axis}: onnx2pytorch {module.tolist()}, ONNX Runtime {runtime.tolist()}")
    assert np.array_equal(runtime, np.take(x, places, axis)) and np.array_equal(module, given)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
