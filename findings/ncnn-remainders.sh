#!/usr/bin/env bash
# ncnn 1.0.20261020's remainder of 3 by 2 is -1 in a tensor of three elements and 1 in one of four, and that of -0.5 by 2 is -0.5.
#
# BinaryOp's operation 17 is what ncnn's converter pnnx writes for torch.remainder, whose result has the divisor's sign: 1 and 1.5. ncnn rounds the quotient to
# the nearest whole number in place of down, and its x86 kernels for four elements round halves another way than the plain code for the rest, so five
# threes leave 1, 1, 1, 1, -1 behind.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" numpy==2.4.6
python3 -m pip install -q --target "$root/packages" --no-deps ncnn==1.0.20261020
cat >"$root/run.py" <<'PYTHON'
import pathlib
import sys

import ncnn
import numpy as np

root = pathlib.Path(sys.argv[1])


def run(values: list[float]) -> list[float]:
    (root / "model.param").write_text(f"7767517\n2 2\nInput in0 0 1 in0\nBinaryOp b 1 1 in0 out0 0=17 1=1 2=2.0\n")
    (root / "model.bin").write_bytes(b"")
    with ncnn.Net() as net:
        net.load_param(str(root / "model.param"))
        net.load_model(str(root / "model.bin"))
        extractor = net.create_extractor()
        extractor.input("in0", ncnn.Mat(np.array(values, np.float32)).clone())
        found = np.array(extractor.extract("out0")[1]).tolist()
        del extractor
    return found


print("ncnn", ncnn.__version__, "right", np.remainder([3, -0.5], 2))
for count, threes in ((3, [-1] * 3), (4, [1] * 4), (5, [1] * 4 + [-1])):
    found, half = run([3.0] * count), run([-0.5] * count)
    print(count, "elements: 3 by 2", found, "-0.5 by 2", half)
    assert found == threes and half == [-0.5] * count
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
