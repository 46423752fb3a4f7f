#!/usr/bin/env bash
# torch 2.13.0 exports a tensor with the negative bit by DLPack as the numbers in memory: every sign is wrong.
#
# The imaginary part of a lazily conjugated tensor is a view of the memory as it is, with the negative bit set. __dlpack__ refuses the conjugate
# bit ("Can't export tensors with the conjugate bit set") and says nothing of the negative one, so NumPy reads 2 where the tensor is -2,
# and torch.from_dlpack loses the sign within PyTorch alone. Tensor.numpy() refuses the same tensor; resolve_neg() before the export is right.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" torch==2.13.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import numpy as np
import torch

spectrum = torch.tensor([1 + 2j, 3 - 4j])
mirrored = spectrum.conj()
part = mirrored.imag
print("torch", torch.__version__, part.tolist(), "negative bit", part.is_neg())
assert part.tolist() == [-2, 4] and part.is_neg() and mirrored.is_conj()
refusals = []
for export in (lambda: np.from_dlpack(mirrored), part.numpy):
    try:
        export()
    except (BufferError, RuntimeError) as error:
        refusals.append(str(error))
print(refusals)
assert len(refusals) == 2 and "conjugate bit" in refusals[0] and "negative bit" in refusals[1]
for name, read in (("NumPy", np.from_dlpack), ("torch", torch.from_dlpack)):
    found, resolved = read(part), read(part.resolve_neg())
    print(f"{name} reads {found.tolist()}, with resolve_neg {resolved.tolist()}")
    assert found.tolist() == [2, -4] and resolved.tolist() == [-2, 4]
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
