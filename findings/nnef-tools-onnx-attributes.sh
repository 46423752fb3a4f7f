#!/usr/bin/env bash
# nnef-tools 1.0.11 (the Khronos Group's converter) drops attributes of ONNX nodes and takes others for what they are not.
#
# Elu and Selu lose alpha and gamma, LpPool loses p. Softmax without an axis is taken along axis 1 at opset 13 and later, too, where the default is
# the last axis. Flatten with an axis other than 1 keeps the axes before it apart: another rank. Resize to a third with mode "nearest" takes the
# first of three elements; with half_pixel, the default, it is the middle one. Pooling and convolution with auto_pad SAME_LOWER have
# more elements than ONNX's: the padding is computed from the sizes of output and input exchanged. Nothing is reported.
# The right values are ONNX Runtime 1.32.0's; the NNEF models run in the interpreter of nnef-tools.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" nnef==1.0.10 nnef-tools==1.0.11 onnx==1.23.2 onnxruntime==1.32.0 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from nnef_tools.interpreter.pytorch import Interpreter
from onnx import TensorProto, helper, numpy_helper

draw = np.random.default_rng(0).standard_normal
image, matrix = draw((1, 2, 6, 6)).astype(np.float32), draw((2, 3, 4)).astype(np.float32)


def both(operator: str, x: np.ndarray, constants: dict[str, np.ndarray] | None = None, **attributes) -> tuple[np.ndarray, np.ndarray]:
    """The results of one node in ONNX Runtime and, converted, in the interpreter of nnef-tools."""
    constants = constants or {}
    node = helper.make_node(operator, ["x", *constants], ["y"], **attributes)
    initializers = [numpy_helper.from_array(value, name) for name, value in constants.items() if name]
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    graph = helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    right = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, right.shape))
    model.graph.CopyFrom(graph)
    onnx.checker.check_model(model, full_check=True)
    source, target = f"{sys.argv[1]}/{operator}.onnx", f"{sys.argv[1]}/{operator}.nnef"
    onnx.save(model, source)
    formats = ["--input-format", "onnx", "--output-format", "nnef", "--keep-io-names"]
    convert = [sys.executable, "-m", "nnef_tools.convert", *formats, "--input-model", source, "--output-model", target]
    subprocess.run(convert, check=True, stdout=subprocess.DEVNULL)
    found = np.asarray(Interpreter(target, decomposed=["lp_pool"])([x])["y"])
    print(operator, attributes, f"ONNX Runtime {right.shape} {right.ravel()[:3].round(3)}, NNEF {found.shape} {found.ravel()[:3].round(3)}")
    return right, found


def equal(pair: tuple[np.ndarray, np.ndarray], of: np.ndarray | None = None) -> bool:
    right, found = pair if of is None else (of, pair[1])
    return right.shape == found.shape and np.allclose(right, found, atol=1e-5)


exponentials = np.exp(matrix)
assert equal(both("Elu", image)) and not equal(both("Elu", image, alpha=2.0))
assert equal(both("Selu", image)) and not equal(both("Selu", image, alpha=2.0, gamma=3.0))
assert equal(both("LpPool", image, kernel_shape=[2, 2])) and not equal(both("LpPool", image, kernel_shape=[2, 2], p=1))
assert equal(both("Softmax", matrix, axis=-1))
default = both("Softmax", matrix)
assert not equal(default) and equal(default, exponentials / exponentials.sum(1, keepdims=True))
assert equal(both("Flatten", image)) and both("Flatten", image, axis=2)[1].shape == (1, 2, 36)
resized = [both("Resize", image, {"": None, "scales": np.array([1, 1, 1 / k, 1 / k], np.float32)}) for k in (2, 3)]
assert equal(resized[0]) and not equal(resized[1]) and equal((image[..., 1::3, 1::3], resized[1][0])) and equal((image[..., ::3, ::3], resized[1][1]))
window = {"kernel_shape": [2, 2], "strides": [2, 2]}
assert equal(both("MaxPool", image, **window, auto_pad="SAME_UPPER"))
assert [result.shape[2:] for result in both("MaxPool", image, **window, auto_pad="SAME_LOWER")] == [(3, 3), (4, 4)]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
