#!/usr/bin/env bash
# optimum-quanto 0.2.7's relu of a quantized activation that was multiplied by a negative number gives negative numbers: relu(-1 * [-5, 3]) is [0, -3].
#
# A product with a scalar multiplies the scale and leaves the bytes; relu then cuts the bytes, whose sign the scale has turned. A division does the
# same. The operator - turns the bytes, but the least one, -128, stays as it is: -[-12.8] is [-12.8]. Dequantized tensors are right in all cases.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" optimum-quanto==0.2.7 torch==2.13.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import importlib.metadata

import torch
from optimum.quanto import qint8, quantize_activation

print("optimum-quanto", importlib.metadata.version("optimum-quanto"), "torch", torch.__version__)
x = quantize_activation(torch.tensor([-12.8, -5.0, 3.0]), qtype=qint8, scale=torch.tensor(0.1))
cases = [
    ("relu(x)", lambda x: torch.relu(x), [0, 0, 3]),
    ("relu(x * 2)", lambda x: torch.relu(x * 2.0), [0, 0, 6]),
    ("relu(x * -1)", lambda x: torch.relu(x * -1.0), [0, 0, -3]),
    ("relu(x / -2)", lambda x: torch.relu(x / -2.0), [0, 0, -1.5]),
    ("-x", lambda x: -x, [-12.8, 5, -3]),
    ("relu(-x)", lambda x: torch.relu(-x), [0, 5, 0]),
]
for name, function, expected in cases:
    found, right = function(x).dequantize(), function(x.dequantize())
    print(f"{name} of {x.dequantize().tolist()}: {found.tolist()}, dequantized before {right.tolist()}")
    assert torch.allclose(found, torch.tensor(expected, dtype=torch.float32))
    assert torch.allclose(found, right) == (name in ("relu(x)", "relu(x * 2)"))
PYTHON
PYTHONPATH="$root/packages" python3 -W ignore "$root/run.py"
