#!/usr/bin/env bash
# candle-nn 0.4.2's LayerNorm sums over the third axis and divides by the last size, whatever the shapes: images of four axes come out wrong.
#
# LayerNorm(3) of [1, 2, 3, 3] is normalized along axis 2 in place of axis 3; of [1, 2, 5, 3] five numbers are added and divided by three, so that neither
# axis has mean 0. LayerNorm((2, 3)) of [1, 2, 3] is normalized along the last axis alone. Nothing is said. Only sequences of three axes with one
# normalized axis are right; two axes end in an error. The class follows PyTorch's, where normalized_shape counts from the last axis.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" candle-nn==0.4.2 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import importlib.metadata

import candle
import candle.nn
import numpy as np


def normalized(x, axes):
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def run(shape, normalized_shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = candle.nn.LayerNorm(normalized_shape)(candle.Tensor(x.ravel().tolist()).reshape(shape))
    return x, np.array(y.flatten_all().values()).reshape(shape)


def same(found, right):
    return np.allclose(found, right, atol=1e-4)


print("candle-nn", importlib.metadata.version("candle-nn"))
x, y = run((1, 4, 3), 3)
print("[1, 4, 3] by 3: right", same(y, normalized(x, 2)))
assert same(y, normalized(x, 2))
x, y = run((1, 2, 3, 3), 3)
print("[1, 2, 3, 3] by 3: right", same(y, normalized(x, 3)), "- along axis 2", same(y, normalized(x, 2)))
assert same(y, normalized(x, 2)) and not same(y, normalized(x, 3))
x, y = run((1, 2, 5, 3), 3)
print("[1, 2, 5, 3] by 3: means along axis 3", y.mean(3).round(2).ravel(), "and 2", y.mean(2).round(2).ravel())
assert np.abs(y.mean(3)).max() > 0.1 and np.abs(y.mean(2)).max() > 0.1
x, y = run((1, 2, 3), (2, 3))
print("[1, 2, 3] by (2, 3): right", same(y, normalized(x, (1, 2))), "- along axis 2 alone", same(y, normalized(x, 2)))
assert same(y, normalized(x, 2)) and not same(y, normalized(x, (1, 2)))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
