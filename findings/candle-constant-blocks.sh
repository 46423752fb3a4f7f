#!/usr/bin/env bash
# candle-nn 0.4.2 quantizes a run of equal weights to zeros in Q2K, Q4K and Q5K: a row of ones comes back as a row of zeros.
#
# These types keep a scale and a least value for each 16 or 32 weights. Where the least and the largest weight are equal, candle stores 0 for both.
# It is by the run: the rest of a row is right. The types can hold such weights, as weights that differ by a thousandth show, and Q4_1, Q5_1, Q3K
# and Q6K keep them. Constant rows stand in real models (fresh scales of normalizations, biases, embeddings of unused tokens).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" candle-nn==0.4.2 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import importlib.metadata

import candle
import numpy as np


def returned(row, kind):
    return np.array(candle.Tensor([row.tolist()]).quantize(kind).dequantize().values()).ravel()


print("candle-nn", importlib.metadata.version("candle-nn"))
constants = [np.full(256, value) for value in (1.0, -0.75)]
uneven = np.where(np.arange(256) % 2, 1.0, 1.001)
mixed = np.random.default_rng(0).uniform(-1, 1, 256)
mixed[:32] = 0.5
for kind in ("q4_1", "q5_1", "q3k", "q6k", "q2k", "q4k", "q5k"):
    found = [returned(row, kind) for row in constants]
    near, run = returned(uneven, kind), returned(mixed, kind)
    print(f"{kind}: 1 gives {found[0][0]:.3f}, -0.75 {found[1][0]:.3f}, 1 beside 1.001 {near[1]:.3f}, 0.5 beside others {run[0]:.3f}")
    assert np.allclose(near, uneven, atol=0.02) and np.allclose(run[32:], mixed[32:], atol=0.4)
    if kind in ("q2k", "q4k", "q5k"):
        assert not found[0].any() and not found[1].any() and not run[:32].any()
    else:
        assert all(np.allclose(back, row, atol=0.02) for back, row in zip(found, constants, strict=True)) and np.allclose(run[:32], 0.5, atol=0.02)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
