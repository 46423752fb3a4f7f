#!/usr/bin/env bash
# thinc 9.1.1 (and 8.3.14): LSTM.v1 on ops other than NumpyOps, CupyOps for one, computes one sequence of a batch. All others are zeros,
# and so are all gradients. Nothing says so.
#
# CupyOps has no LSTM of its own and takes that of the base class Ops, which begins with states [1, nO] and cuts each step to their one
# row: that of the longest sequence. Its backward pass sums an array of gates' gradients into which nothing was written. Ops itself runs on
# NumPy arrays, so no GPU is needed to see it.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" thinc==9.1.1
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import thinc
from thinc.api import LSTM, NumpyOps, Ops
from thinc.backends.cupy_ops import CupyOps

assert "lstm_forward_training" not in vars(CupyOps) and "backprop_lstm" not in vars(CupyOps)
rng = np.random.default_rng(0)
model = LSTM(2, 3).initialize()
weights = rng.uniform(-1, 1, model.get_param("LSTM").shape).astype("f")
states = model.get_param("HC0")
lengths = np.array([3, 3, 3], "i")  # three sequences in each of three steps, as the layer hands them over
x = rng.standard_normal((9, 3)).astype("f")
ops = NumpyOps()
right, _ = NumpyOps.lstm_forward_training(ops, weights, states[0], states[1], x, lengths)
y, kept = Ops.lstm_forward_training(ops, weights, states[0], states[1], x, lengths)
dx, gradient = Ops.backprop_lstm(ops, np.ones_like(y), lengths, weights, kept)
print("thinc", thinc.about.__version__)
print("rows of zeros:", [index for index, row in enumerate(y) if not row.any()], "of", len(y), "- with NumpyOps none")
print("the other rows agree:", np.allclose(y[::3], right[::3], atol=1e-6), "- gradients that are not zero:", np.count_nonzero(gradient), np.count_nonzero(dx))
assert np.allclose(y[::3], right[::3], atol=1e-6)
assert not y[[1, 2, 4, 5, 7, 8]].any() and right.all()
assert not dx.any() and not gradient.any()
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
