#!/usr/bin/env bash
# NumPy's mean, sum and var of ml_dtypes 0.6.0's bfloat16 are far from the elements' own: the mean of 1,000 ones is 0.256.
#
# An array that jax or another library hands over in bfloat16 is one of ml_dtypes. Its sums are rounded to bfloat16 after each element, so that a
# sum of ones stays at 256, of float8_e4m3fn at 16. NumPy's page of mean says that float16 has float32 intermediates; that is not true of these
# types, though they have fewer bits. A variance of ones is 0.256 in place of 0, and int4 wraps around, where NumPy adds its own small
# integers up in int64 (page of sum). dtype=np.float32 gives the right values; a matrix product is float32 without it. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" ml_dtypes==0.6.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import ml_dtypes
import numpy as np

COUNT = 1000
print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
expected = {
    np.float16: [1000, 1, 0],
    ml_dtypes.bfloat16: [256, 256 / COUNT, 256 / COUNT],
    ml_dtypes.float8_e4m3fn: [16, 16 / COUNT, 16 / COUNT],
    ml_dtypes.int4: [(COUNT + 8) % 16 - 8, 0, 0],
    np.int8: [1000, 1, 0],
}
for kind, values in expected.items():
    ones = np.ones(COUNT, kind)
    found = [float(value) for value in (ones.sum(), ones.mean(), ones.var())]
    print(f"{np.dtype(kind).name}: sum {found[0]}, mean {found[1]:.4f}, var {found[2]:.4f}")
    assert np.allclose(found, values, rtol=0.05)
    assert ones.sum(dtype=np.float32) == COUNT and ones.mean(dtype=np.float32) == 1 and ones.var(dtype=np.float32) == 0
ones = np.ones(COUNT, ml_dtypes.bfloat16)
assert ones @ ones == COUNT
x = np.random.default_rng(0).standard_normal(100_000).astype(ml_dtypes.bfloat16)
found, right = float(x.std()), float(x.std(dtype=np.float32))
print(f"100,000 normal numbers: std {found:.3f}, with dtype=np.float32 {right:.3f}")
assert found < 0.3 and 0.99 < right < 1.01
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
