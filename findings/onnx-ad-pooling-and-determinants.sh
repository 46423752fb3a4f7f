#!/usr/bin/env bash
# onnx-ad 0.3.0 gives wrong derivatives of AveragePool and LpPool with padding at the end, of Det, and of Resize with an extrapolation value.
#
# The reverse model of a pooling whose end is padded more than its start has wrong gradients, up to three times the largest here; its
# forward model, of the same node, is right. A Det has derivatives of zero in both (the README lists it as such, though the derivative of a
# determinant is its cofactors). The derivative of Resize by tf_crop_and_resize adds extrapolation_value for each element outside the image, where
# the derivative is 0; with a value of 0 it is right. Nothing is reported. The right Jacobians are central differences in ONNX Runtime 1.32.0.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnx-ad==0.3.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx_ad import forward, reverse

draw = np.random.default_rng(1).standard_normal


def run(model: onnx.ModelProto, output: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run([output], feeds)[0]


def errors(operator: str, x: np.ndarray, constants: dict[str, np.ndarray] | None = None, **attributes) -> tuple[float, float]:
    """Largest errors of the Jacobians by the reverse and by the forward model."""
    constants = constants or {}
    node = helper.make_node(operator, ["x", *constants], ["y"], **attributes)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    y = run(model, "y", {"x": x})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, y.shape))
    onnx.checker.check_model(model, full_check=True)
    steps = 0.01 * np.eye(x.size, dtype=np.float32).reshape(x.size, *x.shape)
    columns = [(run(model, "y", {"x": x + step}) - run(model, "y", {"x": x - step})) / 0.02 for step in steps]
    right = np.stack([column.ravel() for column in columns], 1)
    seeds = {"adj_y": np.eye(y.size, dtype=np.float32).reshape(*y.shape, y.size), "fwd_x": np.eye(x.size, dtype=np.float32).reshape(*x.shape, x.size)}
    adjoints = run(reverse(model, layout="onnx"), "adj_x", {"x": x, "adj_y": seeds["adj_y"]}).reshape(x.size, y.size).T
    tangents = run(forward(model, layout="onnx"), "fwd_y", {"x": x, "fwd_x": seeds["fwd_x"]}).reshape(y.size, x.size)
    found = float(np.abs(adjoints - right).max()), float(np.abs(tangents - right).max())
    print(operator, attributes, f"largest derivative {np.abs(right).max():.3f}, error of reverse {found[0]:.1e}, of forward {found[1]:.1e}")
    return found


image = draw((1, 1, 4, 5)).astype(np.float32)
for operator in ("AveragePool", "LpPool"):
    for pads in ([0, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]):
        assert max(errors(operator, image, kernel_shape=[2, 2], pads=pads)) < 1e-3
    reversed_error, forward_error = errors(operator, image, kernel_shape=[2, 2], pads=[0, 0, 1, 1])
    assert reversed_error > 0.2 and forward_error < 1e-3
assert max(errors("MaxPool", image, kernel_shape=[2, 2], pads=[0, 0, 1, 1])) < 1e-3
assert min(errors("Det", draw((3, 3)).astype(np.float32))) > 1
crop = {"roi": np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.2], np.float32), "scales": np.array([1, 1, 2, 2], np.float32)}
resize = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
assert max(errors("Resize", image, crop, **resize, extrapolation_value=0.0)) < 1e-3
found = errors("Resize", image, crop, **resize, extrapolation_value=-3.0)
assert max(found) > 1
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
