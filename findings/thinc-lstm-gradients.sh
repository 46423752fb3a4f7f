#!/usr/bin/env bash
# thinc 9.1.1 (and 8.3.14, which spaCy 3.8 has): the gradients of LSTM.v1 on NumpyOps are not the derivatives of what it computes. Nothing
# says so, and training still lowers a loss, so nobody looks.
#
# The gradient of the weights is gathered in a copy of the weights, not in zeros, so the weights themselves are part of it. The first step
# that a direction takes is left out of every sum: its input's gradient is zero. The gradient of the recurrent matrices multiplies a step's
# gates by that step's own output in place of the previous one's. Here a small model, beside whose gradients are those by
# differences, with which PyTorchLSTM with the same weights agrees.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" thinc==9.1.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import thinc
from thinc.api import LSTM, with_padded

rng = np.random.default_rng(0)
model = LSTM(2, 3).initialize()
weights = rng.uniform(-1, 1, model.get_param("LSTM").shape).astype("f")
x = [rng.standard_normal((4, 3)).astype("f")]
layer = with_padded(model)


def loss(parameter, given):
    model.set_param("LSTM", parameter.astype("f"))
    return float(layer.predict([given.astype("f")])[0].astype(float).sum())


def differences(function, at):
    found = np.zeros_like(at, float)
    for index in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[index] = 1e-2
        found[index] = (function(at + step) - function(at - step)) / 2e-2
    return found


by_weights = differences(lambda moved: loss(moved, x[0]), weights)
by_input = differences(lambda moved: loss(weights, moved), x[0])
model.set_param("LSTM", weights)
y, backprop = layer(x, True)
dx = backprop([np.ones_like(y[0])])[0]
gradient = model.get_grad("LSTM")
print("thinc", thinc.about.__version__)
print("gradient of the input, largest of each step:", np.abs(dx).max(1).round(3), "by differences", np.abs(by_input).max(1).round(3))
print("weights' gradient less the weights, beside the differences: largest error", np.abs(gradient - weights - by_weights).max().round(3))
print("weights' gradient beside the differences: largest error", np.abs(gradient - by_weights).max().round(3))
assert not dx[0].any() and np.abs(by_input[0]).max() > 1e-2
assert np.allclose(dx[1:], by_input[1:], atol=1e-3)
used = slice(0, 24)  # the matrices that multiply the input
assert np.abs(gradient - by_weights).max() > 0.5
assert np.abs(gradient - weights - by_weights)[used].max() < np.abs(gradient - by_weights)[used].max()
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
