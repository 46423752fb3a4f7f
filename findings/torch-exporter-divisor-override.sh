#!/usr/bin/env bash
# PyTorch 2.13.0's exporter to ONNX (onnxscript 0.7.2) leaves out divisor_override of AvgPool2d and AvgPool3d.
#
# "if specified, it will be used as divisor, otherwise size of the pooling region will be used", say the pages of AvgPool2d and AvgPool3d. With 1, the
# windows' sums are meant. ONNX's AveragePool has no such attribute; the exporter (dynamo=True, the default) writes one all the same, which
# divides by the size of the window, and says nothing. The exporter before it refused (pytorch/pytorch#105349).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import torch

print("torch", torch.__version__)
for kind, rank in ((torch.nn.AvgPool2d, 2), (torch.nn.AvgPool3d, 3)):
    for divisor in (None, 1, 3):
        module = kind(2, divisor_override=divisor).eval()
        x = torch.arange(float(4**rank)).reshape(1, 1, *[4] * rank)
        model = torch.onnx.export(module, (x,), dynamo=True, verbose=False).model_proto
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        right, found = module(x).numpy(), session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
        print(kind.__name__, divisor, [node.op_type for node in model.graph.node], "torch", right.ravel()[:3], "exported", found.ravel()[:3])
        assert np.allclose(found * 2**rank, right * (divisor or 2**rank)) and np.allclose(found, right) == (divisor is None)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
