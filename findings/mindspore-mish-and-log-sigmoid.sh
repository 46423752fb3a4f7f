#!/usr/bin/env bash
# mindspore 2.10.0's Mish is NaN from 44.4 on, and LogSigmoid of FLOAT16 is minus infinity from -12 on (CPU).
#
# Mish of a large x is x; its square of an exponential overflows first, in FLOAT32 and in FLOAT16 alike. Its gradient is 1 there, as it should be.
# LogSigmoid is log(1 / (1 + exp(-x))) as written: minus infinity from -88.5 on in FLOAT32, and from -12 on in FLOAT16, where the right values,
# x itself, are ordinary numbers. ops.softplus(-x), which is minus the same, is right in both. Mish of infinity and LogSigmoid of -1e38 are known
# (mindspore-ai/mindspore#379, #390).
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" mindspore==2.10.0 numpy==1.26.4
cat >"$root/run.py" <<'PYTHON'
import os

os.environ["GLOG_v"] = "3"
import mindspore
import numpy as np
from mindspore import ops

print("mindspore", mindspore.__version__)
x = np.array([-20, -2, 1, 20, 44, 45, 60, 100], np.float64)
right = x * np.tanh(np.logaddexp(x, 0))
for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 1e-2)):
    found = ops.mish(mindspore.Tensor(x.astype(dtype))).asnumpy()
    print(dtype.__name__, "Mish", found)
    assert np.allclose(found[:5], right[:5], tolerance, tolerance) and np.isnan(found[5:]).all()
gradients = ops.grad(lambda value: ops.mish(value).sum())(mindspore.Tensor(x.astype(np.float32))).asnumpy()
print("gradients of Mish", gradients)
assert np.allclose(gradients[4:], 1)

for dtype, tolerance, finite in ((np.float32, 1e-5, [-1, -12, -20, -80]), (np.float16, 1e-2, [-1, -8, -10])):
    for values, infinite in ((finite, False), ([-89, -100, -200] if dtype is np.float32 else [-12, -20, -80], True)):
        x = np.array(values, np.float64)
        tensor = mindspore.Tensor(x.astype(dtype))
        found, softplus = ops.logsigmoid(tensor).asnumpy(), -ops.softplus(-tensor).asnumpy()
        print(dtype.__name__, "LogSigmoid of", values, found, "by softplus", softplus)
        assert np.allclose(softplus, -np.logaddexp(-x, 0), tolerance, tolerance)
        assert np.isneginf(found).all() if infinite else np.allclose(found, softplus, tolerance, tolerance)
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
