#!/usr/bin/env bash
# PyTorch 2.13.0's exporter to ONNX (onnxscript 0.7.2) makes logaddexp infinite from 89 on, and logcumsumexp minus infinity far below a later element.
#
# logaddexp(100, 0) is 100 in PyTorch; the exporter writes log(exp(x) + exp(y)). logcumsumexp of [0, 200] is [0, 200] in PyTorch; the exporter takes 200,
# the largest element of the whole axis, off all of them, so that the exponential of the first is 0 and its logarithm minus infinity. Of [0, 100]
# the first element is 0.0169 instead of 0. torch.logsumexp is right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
from collections.abc import Callable

import numpy as np
import onnxruntime
import torch


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.function(*tensors)


def both(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    module = Call(function).eval()
    model = torch.onnx.export(module, tensors, dynamo=True, verbose=False).model_proto
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return module(*tensors).numpy(), session.run(None, dict(zip(names, [tensor.numpy() for tensor in tensors], strict=True)))[0]


print("torch", torch.__version__)
x = torch.tensor([-1.0, 80.0, 89.0, 200.0])
for function in (torch.logaddexp, torch.logaddexp2):
    right, found = both(function, x if function is torch.logaddexp else 1.5 * x, torch.zeros(4))
    print(function.__name__, "torch", right, "ONNX", found)
    assert np.isfinite(right).all() and np.allclose(found[:2], right[:2], atol=1e-3) and np.isposinf(found[2:]).all()
for last in (1.0, 100.0, 200.0):
    right, found = both(lambda x: torch.logcumsumexp(x, 0), torch.tensor([0.0, last]))
    print("logcumsumexp of", [0.0, last], "torch", right, "ONNX", found)
    assert right[0] == 0 and np.isclose(found[1], right[1])
    assert abs(found[0]) < 1e-6 if last == 1 else abs(found[0]) > 0.01 if last == 100 else np.isneginf(found[0])
right, found = both(lambda x: torch.logsumexp(x, 0), torch.tensor([0.0, 200.0]))
assert np.isclose(found, right)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
