#!/usr/bin/env bash
# LogSigmoid of PyTorch 2.13.0, exported to ONNX (onnxscript 0.7.2), is minus infinity from -18 down in ONNX Runtime 1.32.0.
#
# log(sigmoid(x)) is x to seven digits there, and so PyTorch computes it. The exporter (dynamo=True, the default) writes the formula of its page as
# it stands: Sigmoid and then Log. A sigmoid of FLOAT below -104 is 0 in any case, and ONNX Runtime's is 0 from -18 on, and inexact before.
# -Softplus(-x) of the same ONNX is right, in ONNX Runtime as well. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, reference

x = torch.tensor([-150.0, -50.0, -18.0, -17.0, -1.0])
right = torch.nn.LogSigmoid()(x).numpy()
assert np.allclose(right, -np.log1p(np.exp(-x.double().numpy())))


def run(model: onnx.ModelProto) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


model = torch.onnx.export(torch.nn.LogSigmoid().eval(), (x,), dynamo=True, verbose=False).model_proto
found = run(model)
other = reference.ReferenceEvaluator(model).run(None, {model.graph.input[0].name: x.numpy()})[0]
print("torch", torch.__version__, [node.op_type for node in model.graph.node])
print("torch", right, "ONNX Runtime", found, "ONNX's reference", other)
assert np.isneginf(found[:3]).all() and abs(found[3] - right[3]) > 0.5 and np.isclose(found[4], right[4])
assert np.isneginf(other[0])
nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Softplus", ["n"], ["s"]), helper.make_node("Neg", ["s"], ["y"])]
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5]) for name in "xy"]
stable = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
print("-Softplus(-x) in ONNX Runtime", run(stable))
assert np.allclose(run(stable), right)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
