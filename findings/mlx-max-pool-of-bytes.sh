#!/usr/bin/env bash
# mlx 0.32.4's MaxPool layers take the padding of INT8 and INT16 images for 0, so that it is the maximum of negative elements.
#
# MaxPool1d pads with minus infinity, which becomes 0 in arrays of INT8 or INT16: windows of 3 over [-5, -7, -9, -3] with a padding of 1 give [0, -5, -3, 0].
# In FLOAT and in INT32, where minus infinity becomes the smallest number, they give [-5, -5, -3, -3]. MaxPool2d and MaxPool3d do the same (CPU device).
# Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" "mlx[cpu]==0.32.4" numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
from importlib.metadata import version

import mlx.core as mx
import mlx.nn as nn
import numpy as np

mx.set_default_device(mx.cpu)
print("mlx", version("mlx"))
x, right, wrong = [-5, -7, -9, -3], [-5, -5, -3, -3], [0, -5, -3, 0]
for type_ in (mx.float32, mx.float16, mx.int32, mx.int16, mx.int8):
    for layer, axes in ((nn.MaxPool1d(3, 1, 1), 1), (nn.MaxPool2d((1, 3), (1, 1), (0, 1)), 2), (nn.MaxPool3d((1, 1, 3), (1, 1, 1), (0, 0, 1)), 3)):
        found = np.array(layer(mx.array(x, dtype=type_).reshape([1] * axes + [4, 1]))).ravel().tolist()
        print(type(layer).__name__, type_, found)
        assert found == (wrong if type_ in (mx.int16, mx.int8) else right)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
