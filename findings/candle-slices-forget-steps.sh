#!/usr/bin/env bash
# candle-nn 0.4.2 takes slices with a step and forgets the step: tensor[::2] is the whole tensor, tensor[:, 1:6:3] has five columns.
#
# Starts and ends are kept. A step of -1 forgets as well and goes on to what the bounds say: tensor[:, 4:0:-2] has no columns. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" candle-nn==0.4.2 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import importlib.metadata

import candle
import numpy as np

print("candle-nn", importlib.metadata.version("candle-nn"))
array = np.arange(18.0).reshape(3, 6)
tensor = candle.Tensor(array.tolist())
every = slice(None)
cases = [
    ("1:, 1:3", (slice(1, None), slice(1, 3)), (slice(1, None), slice(1, 3))),
    ("::2", slice(None, None, 2), every),
    (":, 1:6:3", (every, slice(1, 6, 3)), (every, slice(1, 6))),
    (":, 4:0:-2", (every, slice(4, 0, -2)), (every, slice(4, 0))),
]
for name, index, without in cases:
    found = tensor[index]
    print(f"tensor[{name}]: {found.shape}, right {array[index].shape}")
    assert found.shape == array[without].shape and np.array_equal(np.array(found.values()).reshape(found.shape), array[without])
    assert (found.shape == array[index].shape) == (index == without)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
