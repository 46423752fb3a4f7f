#!/usr/bin/env bash
# optimum-quanto 0.2.7's torch.where with a quantized activation cuts the other operand to its range: a mask of minus infinity becomes -12.8.
#
# The result takes the activation's scale, whatever is put in. Softmax then gives weights to
# what is masked. masked_fill of the same tensor leaves the quantized type and is right. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" optimum-quanto==0.2.7 torch==2.13.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import importlib.metadata

import torch
from optimum.quanto import QTensor, qint8, quantize_activation

print("optimum-quanto", importlib.metadata.version("optimum-quanto"), "torch", torch.__version__)
x = quantize_activation(torch.tensor([-12.0, -12.5, 3.0]), qtype=qint8, scale=torch.tensor(0.1))
keep = torch.tensor([True, True, False])
for other, expected in ((-torch.inf, -12.8), (100.0, 12.7), (1.0, 1.0)):
    found, right = torch.where(keep, x, torch.tensor(other)), torch.where(keep, x.dequantize(), torch.tensor(other))
    assert isinstance(found, QTensor)
    print(f"where(keep, x, {other}): {found.dequantize().tolist()}, right {right.tolist()}")
    assert torch.allclose(found.dequantize(), torch.tensor([-12.0, -12.5, expected]))
masked = torch.where(keep, x, torch.tensor(-torch.inf)).dequantize()
filled = x.masked_fill(~keep, -torch.inf)
print("softmax after where", torch.softmax(masked, 0).tolist(), "- after masked_fill", torch.softmax(filled, 0).tolist())
assert torch.softmax(masked, 0)[2] > 0.2 and torch.softmax(filled, 0)[2] == 0
PYTHON
PYTHONPATH="$root/packages" python3 -W ignore "$root/run.py"
