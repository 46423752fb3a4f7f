#!/usr/bin/env bash
# ONNX Runtime 1.32.0's Resize copies where the result is as large as the input, whatever the scales are.
#
# PyTorch 2.13.0's F.interpolate(scale_factor=1.2, mode="bicubic") of 4 x 4 elements gives 4 x 4 others, at steps of 1 / 1.2 of the input; its
# export is a Resize with scales of 1.2, and ONNX's reference implementation agrees. ONNX Runtime returns the input. With a second axis that
# does grow it interpolates along the first one, too.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import io
import warnings

import numpy as np
import onnxruntime
import torch
from onnx import load_from_string
from onnx.reference import ReferenceEvaluator

warnings.simplefilter("ignore")
x = (torch.arange(16, dtype=torch.float32) ** 2).reshape(1, 1, 4, 4)


class Resize(torch.nn.Module):
    def __init__(self, scales):
        super().__init__()
        self.scales = scales

    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=self.scales, mode="bicubic", align_corners=False)


def run(scales, is_right):
    file = io.BytesIO()
    torch.onnx.export(Resize(scales), (x,), file, dynamo=False, opset_version=18, input_names=["x"])
    model = load_from_string(file.getvalue())
    torch_values, given = Resize(scales)(x).numpy(), {"x": x.numpy()}
    runtime = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"]).run(None, given)[0]
    reference = ReferenceEvaluator(model).run(None, given)[0]
    shown = {"PyTorch": torch_values, "reference": reference, "ONNX Runtime": runtime}
    print(f"scales {scales}, first column:", ", ".join(f"{name} {array[0, 0, :, 0].round(1)}" for name, array in shown.items()))
    assert np.allclose(reference, torch_values, atol=0.01) and np.allclose(runtime, torch_values, atol=0.01) == is_right
    assert is_right or (runtime == x.numpy()).all()


run((1.2, 2.0), True)
run((1.2, 1.2), False)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
