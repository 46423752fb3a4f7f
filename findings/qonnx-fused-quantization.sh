#!/usr/bin/env bash
# qonnx 1.0.0's QCDQToQuant, which makes a Quant node of QuantizeLinear, Clip and DequantizeLinear, changes the values of four kinds of models.
#
# Weights of UINT8 or INT8: the zero point is subtracted in their own type, so 0 less 128 becomes 127 where it is -128. Weights with a scale for
# each row (axis=0): the scales lie along the columns. Values with a scale for each channel by DequantizeLinear's default axis, 1: the scales
# lie along the last dimension. A Clip to [0, 7] or [-5, 9] of INT8: a Quant of 3 or 4 bits clips to [-4, 3] or [-8, 7]. No check catches these
# where the sizes fit. ONNX says y = (x - zero point) * scale; ONNX Runtime 1.32.0 has the models right as they are.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 qonnx==1.0.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import qonnx.core.onnx_exec
from onnx import TensorProto, helper, numpy_helper
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.qcdq_to_qonnx import QCDQToQuant
from qonnx.util.cleanup import cleanup_model


def both(x, nodes, tensors):
    """The result of a model in ONNX Runtime, and after QCDQToQuant in qonnx."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(array, name) for name, array in tensors.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    right = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    fused = cleanup_model(ModelWrapper(model)).transform(QCDQToQuant())
    assert "Quant" in [node.op_type for node in fused.graph.node]
    return right, next(iter(qonnx.core.onnx_exec.execute_onnx(fused, {fused.graph.input[0].name: x}).values()))


def weights(integers, scale, zero_point, **attributes):
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["weights"], **attributes), helper.make_node("Mul", ["x", "weights"], ["y"])]
    return both(np.ones(integers.shape, np.float32), nodes, {"w": integers, "scale": scale, "zero": zero_point})


def values(x, scale, clip=()):
    tensors = {"scale": scale, "zero": np.zeros(scale.shape, np.int8)} | dict(zip(("low", "high"), np.array(clip, np.int8)))
    names = ["clipped"] if clip else ["q"]
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])]
    nodes += [helper.make_node("Clip", ["q", "low", "high"], names)] if clip else []
    return both(x, [*nodes, helper.make_node("DequantizeLinear", [*names, "scale", "zero"], ["y"])], tensors)


def check(name, pair, right, given):
    print(f"{name}: ONNX Runtime {pair[0].tolist()}, after QCDQToQuant {pair[1].tolist()}")
    assert np.allclose(pair[0], right) and np.allclose(pair[1], given)


one, scales = np.float32(1), np.array([1, 2], np.float32)
check("UINT8 weights", weights(np.array([0, 128, 255], np.uint8), one, np.uint8(128)), [-128, 0, 127], [127, 0, 127])
check("INT8 weights", weights(np.array([-128, 0, 127], np.int8), one, np.int8(1)), [-129, -1, 126], [126, -1, 126])
check("a scale for each row", weights(np.ones((2, 2), np.int8), scales, np.zeros(2, np.int8), axis=0), [[1, 1], [2, 2]], [[1, 2], [0, 2]])
image = np.full((1, 2, 1, 2), 3, np.float32)
check("a scale for each channel", values(image, scales), [[[[3, 3]], [[4, 4]]]], [[[[3, 4]], [[3, 4]]]])
row = np.array([-9, -1, 1, 9], np.float32)
check("a Clip to [0, 7]", values(row, one, (0, 7)), [0, 0, 1, 7], [-4, -1, 1, 3])
check("a Clip to [-5, 9]", values(row, one, (-5, 9)), [-5, -1, 1, 9], [-8, -1, 1, 7])
check("a Clip to [-8, 7]", values(row, one, (-8, 7)), [-8, -1, 1, 7], [-8, -1, 1, 7])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
