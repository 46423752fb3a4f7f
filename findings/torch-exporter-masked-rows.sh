#!/usr/bin/env bash
# PyTorch 2.13.0's exporter to ONNX (onnxscript 0.7.2): a query whose keys are all masked gets the mean of all values, or NaN, in place of 0.
#
# scaled_dot_product_attention gives 0 for such a query. The exporter (default opset) writes a BOOLEAN mask as 0 and the lowest number of FLOAT, so that the
# softmax of the row is uniform, and the nodes behind it that turn NaN into 0 never meet one. Of a mask of floats with -inf it writes no such nodes, and
# the row is NaN. With opset_version=23 it writes an Attention, and ONNX Runtime 1.32.0 gives 0 for the BOOLEAN mask.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import onnxruntime
import torch


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def run(arguments: tuple[torch.Tensor, ...], **options: int) -> np.ndarray:
    model = torch.onnx.export(Attention().eval(), arguments, dynamo=True, verbose=False, **options).model_proto
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {info.name: argument.numpy() for info, argument in zip(session.get_inputs(), arguments, strict=True)})[0]


q, k, v = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), torch.tensor([[[[1.0], [3.0]]]])
boolean = torch.tensor([[True, False], [False, False]])
minus = torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])
print("torch", torch.__version__)
for name, mask, given in (("BOOLEAN", boolean, [1, 2]), ("FLOAT", minus, [1, np.nan])):
    right, found = Attention()(q, k, v, mask).numpy().ravel(), run((q, k, v, mask)).ravel()
    print(name, "torch", right, "exported", found)
    assert right.tolist() == [1, 0] and np.allclose(found, given, equal_nan=True)
later = run((q, k, v, boolean), opset_version=23).ravel()
print("BOOLEAN in opset 23", later)
assert later.tolist() == [1, 0]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
