#!/usr/bin/env bash
# PyTorch 2.13.0's exporter to ONNX (onnxscript 0.7.2) leaves out label_smoothing of CrossEntropyLoss.
#
# label_smoothing mixes the uniform distribution into the target, and so adds a share of the mean of all classes' log probabilities to the loss. ONNX's
# SoftmaxCrossEntropyLoss, which the exporter writes, has nothing like it, and other nodes would be needed. The exported loss is the one for a smoothing
# of 0, with weights and without, and for each reduction. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import torch

rng = np.random.default_rng(0)
x, target = torch.from_numpy(rng.standard_normal((4, 5)).astype(np.float32)), torch.tensor([1, 4, 3, 0])
print("torch", torch.__version__)
for reduction in ("mean", "sum", "none"):
    for weight in (None, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])):
        plain = torch.nn.CrossEntropyLoss(weight, reduction=reduction)(x, target).numpy()
        for smoothing in (0.0, 0.2):
            module = torch.nn.CrossEntropyLoss(weight, reduction=reduction, label_smoothing=smoothing).eval()
            model = torch.onnx.export(module, (x, target), dynamo=True, verbose=False).model_proto
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            names = [value.name for value in session.get_inputs()]
            found = session.run(None, dict(zip(names, (x.numpy(), target.numpy()), strict=True)))[0]
            right = module(x, target).numpy()
            print(reduction, "weighted" if weight is not None else "", "smoothing", smoothing, "torch", right, "ONNX", found)
            assert np.allclose(found, plain, atol=1e-4) and (np.abs(found - right).max() > 0.01) == (smoothing > 0)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
