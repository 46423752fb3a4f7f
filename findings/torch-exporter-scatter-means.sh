#!/usr/bin/env bash
# PyTorch 2.13.0's exporter to ONNX (onnxscript 0.7.2) makes scatter_reduce with reduce="mean" overwrite: the last element wins, none is averaged.
#
# ONNX's ScatterElements has no mean (onnx/onnx#5100), and the exporter writes one with no reduction. The exporter based on TorchScript refuses the mean
# with a message; this one, the default, says nothing. Means of messages to a node of a graph, for example, become one of the messages. reduce="sum",
# "prod", "amax" and "amin" are right, with include_self or without.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import torch


class Scatter(torch.nn.Module):
    def __init__(self, reduce: str, include_self: bool) -> None:
        super().__init__()
        self.reduce, self.include_self = reduce, include_self

    def forward(self, x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return x.scatter_reduce(0, index, source, self.reduce, include_self=self.include_self)


tensors = (torch.tensor([10.0, 20.0, 30.0]), torch.tensor([0, 0, 2, 0]), torch.tensor([1.0, 2.0, 4.0, 6.0]))
print("torch", torch.__version__)
for reduce in ("sum", "prod", "amax", "amin", "mean"):
    for include_self in (True, False):
        module = Scatter(reduce, include_self).eval()
        model = torch.onnx.export(module, tensors, dynamo=True, verbose=False).model_proto
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        found = session.run(None, dict(zip(names, [tensor.numpy() for tensor in tensors], strict=True)))[0]
        right = module(*tensors).numpy()
        print(reduce, "include_self", include_self, "torch", right, "ONNX", found)
        if reduce == "mean":
            assert np.allclose(right, [4.75, 20, 17] if include_self else [3, 20, 4]) and np.array_equal(found, [6, 20, 4])
        else:
            assert np.allclose(found, right)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
