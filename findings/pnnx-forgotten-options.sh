#!/usr/bin/env bash
# pnnx 20261020 forgets padding_mode="circular", add_zero_attn, a norm's third axis and the edge of averages: ncnn 1.0.20261020 gives other values.
#
# A Conv2d with circular padding becomes one with zeros ("reflect" becomes a Padding layer and is right). MultiheadAttention(add_zero_attn=True) becomes one
# without. LayerNorm and RMSNorm over the three axes of an image become layers that ncnn computes for each channel alone (over two axes they are right). The
# last window of AvgPool2d(2, ceil_mode=True) over an odd image, where PyTorch divides by the elements within, is divided by all. pnnx says nothing of them.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" numpy==2.4.6 torch==2.13.0
python3 -m pip install -q --target "$root/packages" --no-deps pnnx==20261020 ncnn==1.0.20261020
cat >"$root/run.py" <<'PYTHON'
import os
import subprocess
import sys

import ncnn
import numpy as np
import pnnx
import torch


class Attention(torch.nn.Module):
    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.layer = torch.nn.MultiheadAttention(8, 2, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x, x, need_weights=False)[0]


def found(module: torch.nn.Module, x: torch.Tensor) -> tuple[np.ndarray, str]:
    torch.jit.trace(module, (x,), check_trace=False).save("model.pt")
    command = [pnnx.EXEC_PATH, "model.pt", f"inputshape={list(x.shape)}".replace(" ", ""), "fp16=0"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    with ncnn.Net() as net:
        net.load_param("model.ncnn.param")
        net.load_model("model.ncnn.bin")
        extractor = net.create_extractor()
        extractor.input("in0", ncnn.Mat(x[0].numpy()).clone())
        y = np.array(extractor.extract("out0")[1]).copy()
        del extractor
    return y, said.stdout + said.stderr


torch.manual_seed(0)
conv, norms = torch.nn.Conv2d(2, 2, 1), {"LayerNorm": torch.nn.LayerNorm, "RMSNorm": torch.nn.RMSNorm}
image, odd, tokens = torch.randn(1, 2, 4, 6), torch.randn(1, 2, 5, 7), torch.randn(1, 3, 8)
CASES = [(f"Conv2d {mode}", torch.nn.Conv2d(2, 2, 3, padding=1, padding_mode=mode), image, mode == "reflect") for mode in ("reflect", "circular")]
CASES += [(f"attention, zeros {zeros}", Attention(add_zero_attn=zeros), tokens, not zeros) for zeros in (False, True)]
for sizes in ((4, 6), (2, 4, 6)):
    CASES += [(f"{name} {sizes}", torch.nn.Sequential(conv, norm(sizes, eps=1e-5)), image, len(sizes) == 2) for name, norm in norms.items()]
CASES += [(f"AvgPool2d ceil_mode {ceil}", torch.nn.AvgPool2d(2, ceil_mode=ceil), odd, not ceil) for ceil in (False, True)]
os.chdir(sys.argv[1])
with torch.no_grad():
    for name, module, x, right in CASES:
        true = module.eval()(x)[0].numpy()
        y, said = found(module, x)
        error = abs(y - true).max()
        print(f"{name}: largest error {error:.1e}")
        assert y.shape == true.shape and (error < 1e-2 if right else error > 3e-2)
        assert not any(word in said.lower() for word in ("warn", "not support", "unsupport", "ignore"))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root"
