#!/usr/bin/env bash
# Keras 3.15.1 on OpenVINO 2026.4.1: nearest resizing to a smaller image takes other pixels, and attention of a query without keys is NaN.
#
# ops.image.resize of 1 to 5 to three elements by "nearest" is 1, 3, 5 on NumPy and JAX, and 2, 4, 5 on OpenVINO ("bilinear" agrees, to a larger image
# "nearest" does as well). MultiHeadAttention over ones, with a query whose attention_mask is all False, gives that query the mean of all values on NumPy
# and JAX and NaN on OpenVINO. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" keras==3.15.1 jax==0.10.2 openvino==2026.4.1
cat >"$root/run.py" <<'PYTHON'
import keras
import numpy as np

other = keras.backend.backend() == "openvino"


def resized(size: int, interpolation: str) -> list[float]:
    image = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5, 1)
    return keras.ops.convert_to_numpy(keras.ops.image.resize(image, (1, size), interpolation=interpolation)).ravel().tolist()


ones = np.ones((1, 2, 2), np.float32)
nearest, larger, linear = resized(3, "nearest"), resized(10, "nearest"), resized(3, "bilinear")
layer = keras.layers.MultiHeadAttention(1, 2, kernel_initializer="ones")
attention = keras.ops.convert_to_numpy(layer(ones, ones, attention_mask=np.array([[[True, False], [False, False]]]))).ravel()
print("keras", keras.__version__, "on", keras.backend.backend(), "nearest", nearest, larger, "bilinear", linear, "attention", attention)
assert nearest == ([2, 4, 5] if other else [1, 3, 5])
assert larger == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5] and np.allclose(linear, [4 / 3, 3, 14 / 3])
assert np.allclose(attention, [4, 4, np.nan, np.nan] if other else [4] * 4, equal_nan=True)
PYTHON
for backend in numpy jax openvino; do KERAS_BACKEND=$backend PYTHONPATH="$root/packages" python3 "$root/run.py"; done
