#!/usr/bin/env bash
# PyTorch 2.13.0's exporter to ONNX (onnxscript 0.7.2) turns atan2(0, x) of a negative x from pi into -pi.
#
# The exporter writes atan(y / x), plus pi where x is negative and y above 0, minus pi where x is negative and y is anything else: 0 among it. PyTorch,
# NumPy and C give pi for 0 and -pi for -0. So the angle of each negative real number has the other sign, torch.angle of complex numbers too. Nothing is
# said. pytorch/pytorch#162570 was about NaN where both are 0.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import torch


class Angle(torch.nn.Module):
    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.atan2(y, x)


class AngleOfComplex(torch.nn.Module):
    def forward(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.angle(torch.complex(x, y))


y, x = torch.tensor([0.0, 0.0, -0.0, 1e-30, 1.0]), torch.tensor([-1.0, -2.5, -1.0, -1.0, -1.0])
print("torch", torch.__version__)
for module in (Angle(), AngleOfComplex()):
    model = torch.onnx.export(module.eval(), (y, x), dynamo=True, verbose=False).model_proto
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, dict(zip([value.name for value in session.get_inputs()], (y.numpy(), x.numpy()), strict=True)))[0]
    right = module(y, x).numpy()
    print(type(module).__name__, "torch", right, "ONNX", found)
    assert np.allclose(right, np.arctan2(y.numpy(), x.numpy()))
    assert np.allclose(found, [-np.pi, -np.pi, *right[2:]])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
