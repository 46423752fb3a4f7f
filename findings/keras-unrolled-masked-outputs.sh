#!/usr/bin/env bash
# Keras 3.15.1: RNN(..., zero_output_for_mask=True, unroll=True) repeats the last output where a step is masked, on JAX and NumPy, in place of zeros.
#
# "zero_output_for_mask: Whether the output should use zeros for the masked timesteps", and unroll is said to trade memory for speed. Without
# unroll all backends give zeros, with it PyTorch's alone. A linear cell of weights of 1 over ones, with the second and last steps masked, is 1, 0, 2, 0.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" keras==3.15.1 jax==0.10.2 torch==2.13.0
cat >"$root/run.py" <<'PYTHON'
import keras
import numpy as np

backend = keras.backend.backend()
x, mask = np.ones((1, 4, 1), np.float32), np.array([[True, False, True, False]])
cell = keras.layers.SimpleRNNCell(1, kernel_initializer="ones", recurrent_initializer="ones", activation="linear")
for unroll in (False, True):
    layer = keras.layers.RNN(cell, return_sequences=True, zero_output_for_mask=True, unroll=unroll)
    found = keras.ops.convert_to_numpy(layer(x, mask=mask)).ravel().tolist()
    print("keras", keras.__version__, "on", backend, "unroll", unroll, found)
    assert found == ([1, 1, 2, 2] if unroll and backend != "torch" else [1, 0, 2, 0])
PYTHON
for backend in numpy jax torch; do KERAS_BACKEND=$backend PYTHONPATH="$root/packages" python3 "$root/run.py"; done
