#!/usr/bin/env bash
# brevitas 0.13.4's QuantLSTM and QuantRNN read the initial states of layer l at 2 * l, though one direction has a row per layer.
#
# With every quantizer off and the parameters of torch.nn.LSTM they agree with it: one or two layers, one or two directions, without initial states.
# With them, two layers of one direction end in "index 2 is out of bounds for dimension 0 with size 2"; one layer, or both directions, is
# right. The pair (h, c) that torch.nn.LSTM takes is read as h, whose rows are then the pair's members: one layer returns a tensor of four
# dimensions in place of three, without a word. Here h and c are separate arguments.
set -euo pipefail
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
python3 -m pip install -q --target "$root/packages" brevitas==0.13.4 torch==2.13.0 numpy==2.4.6
cat >"$root/run.py" <<'PYTHON'
import warnings

import brevitas
import torch
from brevitas.nn import QuantLSTM, QuantRNN

warnings.simplefilter("ignore")
torch.manual_seed(0)
STEPS, BATCH, INPUTS, HIDDEN = 5, 2, 3, 4
RNN = {f"{name}_quant": None for name in ("weight", "bias", "io", "gate_acc")}
LSTM = RNN | {f"{name}_quant": None for name in ("sigmoid", "tanh", "cell_state")}
x = torch.randn(STEPS, BATCH, INPUTS)


def both(kind: type, layers: int, bidirectional: bool) -> tuple[torch.nn.Module, torch.nn.Module, list[torch.Tensor]]:
    torch_kind, options = (torch.nn.LSTM, LSTM) if kind is QuantLSTM else (torch.nn.RNN, RNN)
    right = torch_kind(INPUTS, HIDDEN, layers, bidirectional=bidirectional)
    found = kind(INPUTS, HIDDEN, layers, bidirectional=bidirectional, **options).eval()
    found.load_state_dict(right.state_dict())
    states = [torch.randn(layers * (1 + bidirectional), BATCH, HIDDEN) for _ in range(2 if kind is QuantLSTM else 1)]
    return right, found, states


print("brevitas", brevitas.__version__)
with torch.no_grad():
    for kind in (QuantLSTM, QuantRNN):
        for layers, bidirectional in ((1, False), (1, True), (2, False), (2, True)):
            right, found, states = both(kind, layers, bidirectional)
            assert torch.allclose(right(x)[0], found(x)[0], atol=1e-6)
            expected = right(x, tuple(states) if kind is QuantLSTM else states[0])[0]
            try:
                error = float((found(x, *states)[0] - expected).abs().max())
                text = f"error {error:.1e}"
                assert error < 1e-5
            except IndexError as error:
                text = str(error)
            print(f"{kind.__name__}, {layers} layers, {1 + bidirectional} directions, initial states: {text}")
            assert (text == "index 2 is out of bounds for dimension 0 with size 2") == ((layers, bidirectional) == (2, False))
    right, found, states = both(QuantLSTM, 1, False)
    sizes = tuple(right(x, tuple(states))[0].shape), tuple(found(x, tuple(states))[0].shape)
    print("the pair as one argument: torch", sizes[0], "brevitas", sizes[1])
    assert sizes == ((STEPS, BATCH, HIDDEN), (STEPS, 1, BATCH, HIDDEN))
PYTHON
PYTHONPATH="$root/packages" python3 "$root/run.py"
