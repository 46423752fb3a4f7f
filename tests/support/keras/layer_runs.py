"""Recurrent Keras layers compared with Keras's results."""

from __future__ import annotations

import numpy as np

from dmlpy.keras import GRU, LSTM, Recurrent, SimpleRNN
from tests.support.keras.cases import built, case, run, trained
from tests.support.tolerance import assert_close

LAYERS: dict[str, type[Recurrent]] = {"SimpleRNN": SimpleRNN, "GRU": GRU, "LSTM": LSTM}


def check_keras_case(name: str, device: str) -> None:
    stored = case(name)
    options = dict(stored.attributes)
    kind, units = LAYERS[options.pop("layer")], options.pop("output_dim")
    if options["inner_activation"] is None:
        del options["inner_activation"]
    for training in (False, True):
        layer = built(kind(units, **options), *stored.inputs["x0"].shape, device=device)
        layer.set_weights([stored.inputs[weight] for weight in "WUb"], order="keras3")
        for x, y in stored.batches:
            found = trained(layer, x, stored.mask).output if training else run(layer, x, stored.mask)
            assert_close(found, y, np.float32, terms=x[0].size, what=name)
