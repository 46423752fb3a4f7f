#!/usr/bin/env bash
# mindspore 2.10.0's bicubic interpolate has another cubic kernel with align_corners than without.
#
# The page of mindspore.ops.interpolate says that align_corners aligns the corners. It changes the kernel, too: with it, the cubic convolution has
# a = -0.75 and repeats the border; without it, a = -0.5 and elements outside are left out, the other weights scaled to a sum of 1. PyTorch has
# a = -0.75 and repeats the border in both. The results of one row here are 0.08 away from those of the other coefficient, and up to 0.001 from
# their own, since the weights come from a table. (CPU.)
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" mindspore==2.10.0 numpy==1.26.4
cat >"$root/run.py" <<'PYTHON'
import os

os.environ["GLOG_v"] = "3"
import mindspore
import numpy as np

ROW, SIZE = np.array([0, 0, 0, 1, 0, 0, 0, 3], np.float32), 13


def resized(corners: bool, a: float, outside: bool) -> np.ndarray:
    """The row by cubic convolution in FLOAT64; ``outside``: elements beyond the border count as the last one, else not at all."""
    steps = np.arange(SIZE)
    places = steps * (len(ROW) - 1) / (SIZE - 1) if corners else (steps + 0.5) * len(ROW) / SIZE - 0.5
    columns = np.floor(places).astype(int)[:, None] + np.arange(-1, 3)
    t = np.abs(places[:, None] - columns)
    weights = np.where(t <= 1, ((a + 2) * t - (a + 3)) * t**2 + 1, a * (((t - 5) * t + 8) * t - 4))
    if not outside:
        weights = np.where((columns >= 0) & (columns < len(ROW)), weights, 0)
        weights /= weights.sum(1, keepdims=True)
    return (weights * ROW[columns.clip(0, len(ROW) - 1)]).sum(1)


print("mindspore", mindspore.__version__)
image = mindspore.Tensor(np.tile(ROW, (1, 1, 4, 1)))
for corners, kept in ((True, (-0.75, True)), (False, (-0.5, False))):
    found = mindspore.ops.interpolate(image, size=(4, SIZE), mode="bicubic", align_corners=corners).asnumpy()[0, 0, 0]
    errors = {(a, outside): float(np.abs(found - resized(corners, a, outside)).max()) for a in (-0.5, -0.75) for outside in (True, False)}
    print(f"align_corners={corners}: {found[:6].round(3)}")
    print("errors against a and whether the border is repeated:", {key: round(error, 4) for key, error in errors.items()})
    assert errors[kept] < 2e-3
    assert all(error > 0.05 for (a, _), error in errors.items() if a != kept[0])
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
