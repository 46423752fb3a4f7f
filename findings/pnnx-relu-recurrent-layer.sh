#!/usr/bin/env bash
# pnnx 20261020 turns torch.nn.RNN(nonlinearity="relu") into an ncnn layer that computes tanh.
#
# ncnn's RNN has no parameter for its activation. pnnx writes the same file for both nonlinearities and says nothing; ncnn 1.0.20261020 then
# gives the values of the tanh layer with the same weights. (Its weights are stored as 16-bit floats, hence 1e-3.)
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" numpy==2.4.6 torch==2.13.0
python3 -m pip install -q --target "$root/packages" --no-deps pnnx==20261020 ncnn==1.0.20261020
cat >"$root/run.py" <<'PYTHON'
import os
import sys

import ncnn
import numpy as np
import pnnx
import torch

STEPS, INPUT, HIDDEN = 5, 3, 4


class Layer(torch.nn.Module):
    def __init__(self, nonlinearity: str) -> None:
        super().__init__()
        self.rnn = torch.nn.RNN(INPUT, HIDDEN, batch_first=True, nonlinearity=nonlinearity)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x)[0]


def converted(layer: Layer, x: torch.Tensor) -> tuple[str, np.ndarray]:
    os.chdir(sys.argv[1])
    pnnx.export(layer, "model.pt", x)
    with ncnn.Net() as net:
        net.load_param("model.ncnn.param")
        net.load_model("model.ncnn.bin")
        extractor = net.create_extractor()
        extractor.input("in0", ncnn.Mat(x[0].numpy()).clone())
        text = open("model.ncnn.param").read()
        y = np.array(extractor.extract("out0")[1]).copy()
        del extractor
        return next(line for line in text.splitlines() if line.startswith("RNN")), y


torch.manual_seed(0)
x = torch.randn(1, STEPS, INPUT)
layers = {name: Layer(name).eval() for name in ("tanh", "relu")}
layers["relu"].load_state_dict(layers["tanh"].state_dict())
right = {name: layer(x).detach().numpy()[0] for name, layer in layers.items()}
assert abs(right["tanh"] - right["relu"]).max() > 0.1
lines = set()
for name, layer in layers.items():
    line, y = converted(layer, x)
    lines.add(line)
    print(f"{name}: {line}; from PyTorch's tanh {abs(y - right['tanh']).max():.0e}, from its relu {abs(y - right['relu']).max():.0e}")
    assert abs(y - right["tanh"]).max() < 1e-3
assert len(lines) == 1
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py" "$root" | grep '^relu\|^tanh'
