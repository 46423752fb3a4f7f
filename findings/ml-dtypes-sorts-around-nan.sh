#!/usr/bin/env bash
# A NaN among ml_dtypes 0.6.0's bfloat16 numbers makes np.sort, argsort and unique give wrong results.
#
# NumPy's page of sort puts NaN after all numbers, for every kind of algorithm, and so it is for float16, float32 and float64. For ml_dtypes' floats
# NaN is equal to everything while it is sorted, so that numbers stay unsorted on its two sides: [3, NaN, 1] is [3, NaN, 1] sorted. unique then
# has a number twice. Nothing is said.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" ml_dtypes==0.6.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import warnings

import ml_dtypes
import numpy as np

warnings.simplefilter("ignore")
nan = float("nan")
print("numpy", np.__version__, "ml_dtypes", ml_dtypes.__version__)
for kind in (np.float16, np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
    own = kind in (np.float16, np.float32)
    values = np.array([3, nan, 1], kind)
    found = [part.astype(float).tolist() for part in (np.sort(values), np.argsort(values), np.unique(np.array([1, 3, nan, 1], kind)))]
    print(np.dtype(kind).name, "sort, argsort, unique:", *found)
    right = [[1, 3, nan], [2, 0, 1], [1, 3, nan]] if own else [[3, nan, 1], [0, 1, 2], [1, 3, nan, 1]]
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, right))
    for algorithm in ("quicksort", "heapsort", "stable"):
        assert np.array_equal(np.sort(values, kind=algorithm).astype(float), right[0], equal_nan=True)
x = np.random.default_rng(0).standard_normal(1000)
x[::100] = nan
for kind in (np.float16, ml_dtypes.bfloat16):
    numbers = np.sort(x.astype(kind)).astype(float)
    unsorted = int((np.diff(numbers[~np.isnan(numbers)]) < 0).sum())
    print(np.dtype(kind).name, "descents among 990 sorted numbers and 10 NaN:", unsorted)
    assert (unsorted > 0) == (kind is ml_dtypes.bfloat16)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
