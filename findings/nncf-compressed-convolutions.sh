#!/usr/bin/env bash
# nncf 3.4.0's compress_weights of an ONNX model writes scales of shape [8, 1, 1] for Conv: onnx.checker passes them and ONNX Runtime refuses them.
#
# ONNX's DequantizeLinear takes a scale of one dimension for each index of an axis; a scale of more dimensions needs block_size. For INT8_SYM and INT8_ASYM,
# Conv, ConvTranspose and MatMul by a stack of matrices get scales of two to four dimensions and no block_size: [8, 4] for a Conv of [8, 4, 3]. The weights
# of Gemm and of a MatMul by one matrix get [8] and run. compress_weights and onnx.checker's full check say nothing.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" nncf==3.4.0 onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import logging
from importlib.metadata import version

import nncf
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

logging.disable(logging.CRITICAL)
onnxruntime.set_default_logger_severity(4)
rng = np.random.default_rng(0)


def outcome(model, x):
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    except Exception as error:
        assert "scale must be 1D" in str(error)
        return "refused"


print("nncf", version("nncf"))
CASES = [
    ("Gemm", [4, 6], [6, 8], [4, 8], True),
    ("MatMul", [4, 6], [6, 8], [4, 8], True),
    ("MatMul", [3, 4, 6], [3, 6, 8], [3, 4, 8], False),
    ("Conv", [1, 4, 9], [8, 4, 3], [1, 8, 7], False),
    ("Conv", [1, 4, 9, 9], [8, 4, 3, 3], [1, 8, 7, 7], False),
    ("Conv", [1, 4, 5, 5, 5], [8, 4, 3, 3, 3], [1, 8, 3, 3, 3], False),
    ("ConvTranspose", [1, 4, 9, 9], [4, 8, 3, 3], [1, 8, 11, 11], False),
]
for name, input_sizes, sizes, output_sizes, runs in CASES:
    for mode in (nncf.CompressWeightsMode.INT8_SYM, nncf.CompressWeightsMode.INT8_ASYM):
        x = rng.standard_normal(input_sizes).astype(np.float32)
        values = [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in (("x", input_sizes), ("y", output_sizes))]
        weights = numpy_helper.from_array(rng.standard_normal(sizes).astype(np.float32), "w")
        graph = helper.make_graph([helper.make_node(name, ["x", "w"], ["y"], name="n")], "g", values[:1], values[1:], [weights])
        model = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
        right = outcome(model, x)
        compressed = nncf.compress_weights(model, mode=mode)
        onnx.checker.check_model(compressed, full_check=True)
        (node,) = [node for node in compressed.graph.node if node.op_type == "DequantizeLinear"]
        (scale,) = [list(part.dims) for part in compressed.graph.initializer if part.name == node.input[1]]
        found = outcome(compressed, x)
        print(f"{name} by {sizes}, {mode.value}: scale {scale}, ONNX Runtime: {'refused' if isinstance(found, str) else 'runs'}")
        assert [attribute.name for attribute in node.attribute] == ["axis"]
        if runs:
            assert len(scale) == 1 and np.abs(found - right).max() < 0.05 * np.abs(right).max()
        else:
            assert len(scale) > 1 and isinstance(found, str) and not isinstance(right, str)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
