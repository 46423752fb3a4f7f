#!/usr/bin/env bash
# equinox 0.13.8: average pooling with use_ceil=True counts elements beyond the input as zeros: ones of 3 by 3 by windows of 2 are 1, 0.5, 0.5 and 0.25.
#
# "If True, then ceil is used to compute the final output shape instead of floor. For ceil, if required, extra padding is added": no padding was asked for,
# yet the last windows, which hold one or two elements of the input, are divided by four. ceil_mode of PyTorch and ONNX
# divides by the elements within the input and gives 1 everywhere. MaxPool's option is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" equinox==0.13.8 jax==0.10.2 onnx==1.23.2 onnxruntime==1.32.0
cat >"$root/run.py" <<'PYTHON'
import equinox
import jax.numpy as jnp
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, size, size]) for name, size in (("x", 3), ("y", 2)))
model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
right = session.run(None, {"x": np.ones((1, 1, 3, 3), np.float32)})[0].ravel().tolist()
averages = equinox.nn.AvgPool2d(2, 2, use_ceil=True)(jnp.ones((1, 3, 3))).ravel().tolist()
largest = equinox.nn.MaxPool2d(2, 2, use_ceil=True)(-jnp.ones((1, 3, 3))).ravel().tolist()
row = equinox.nn.AvgPool1d(2, 2, use_ceil=True)(jnp.array([[1.0, 2, 3, 4, 5]])).ravel().tolist()
print("equinox", equinox.__version__, "averages of ones", averages, "ONNX Runtime", right, "averages of 1 to 5", row, "largest of -1", largest)
assert right == [1, 1, 1, 1] and averages == [1, 0.5, 0.5, 0.25] and row == [1.5, 3.5, 2.5] and largest == [-1, -1, -1, -1]
PYTHON
PYTHONPATH="$root/packages" JAX_PLATFORMS=cpu python3 "$root/run.py"
