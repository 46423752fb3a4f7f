"""Files of models that nobody vouches for: what their headers claim costs neither time nor memory before the weights bear it out."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("safetensors")

from safetensors.numpy import save_file

from dmlpy.keras import initializers
from dmlpy.keras.bidirectional import Bidirectional
from dmlpy.keras.layer import Layer
from dmlpy.keras.model_files import load_model
from dmlpy.keras.models import Sequential
from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
from dmlpy.keras.simple import Dense, Embedding, Masking


def stored(folder: Path, layers: Any, tensors: dict[str, np.ndarray[Any, Any]] | None = None) -> Path:
    """A file with this header, or with this text as one."""
    header = layers if isinstance(layers, str) else json.dumps({"layers": layers})
    save_file(tensors or {"0.dense.W": np.zeros((4, 2), np.float32)}, folder / "m.safetensors", metadata={"dmlpy.keras": header})
    return folder / "m.safetensors"


def layer(kind: Any, arguments: Any) -> dict[str, Any]:
    return {"class": kind, "arguments": arguments}


RNN = layer("GRU", {"output_dim": 2})
HEADERS: list[tuple[str, Any]] = [
    ("null", "null"),
    ("a number", "1"),
    ("a long number", "9" * 5000),
    ("deep", '{"layers":' + "[" * 100_000),
    ("nested", '{"layers":' + "[" * 200 + "]" * 200 + "}"),
    ("layers null", '{"layers": null}'),
    ("layers object", '{"layers": {"class": "Dense"}}'),
    ("many layers", [layer("Masking", {})] * 20_000),
    ("a list", [[1]]),
    ("without class", [{"arguments": {}}]),
    ("class list", [layer([], {})]),
    ("class object", [layer({}, {})]),
    ("arguments list", [layer("Dense", [])]),
    ("arguments null", [layer("Dense", None)]),
    ("no layer", [layer("Regularizer", {"l1": 1, "l2": 1})]),
    ("abstract", [layer("Recurrent", {"output_dim": 2})]),
    ("abstract base", [layer("Layer", {})]),
    ("regularizer", [layer("Dense", {"output_dim": 2, "W_regularizer": layer("Regularizer", {"l9": 1})})]),
    ("activation", [layer("Dense", {"output_dim": 2, "activation": layer("OperatorDesc", {})})]),
    ("operator", [layer("Dense", {"output_dim": 2, "activation": layer("OperatorDesc", {"Type": "RNN", "Desc": []})})]),
    ("layer within", [layer("Bidirectional", {"layer": layer("Bidirectional", {"layer": RNN})})]),
    ("layer twice", [layer("Dense", {"output_dim": layer("Dense", {"output_dim": 2})})]),
    ("missing", [layer("Dense", {})]),
    ("self", [layer("Dense", {"self": 1, "output_dim": 2})]),
    ("cls", [layer("GRU", {"cls": 1, "output_dim": 2})]),
    ("sizes", [layer("Dense", {"output_dim": 2, "input_shape": "ab"})]),
    ("size lists", [layer("Dense", {"output_dim": 2, "input_shape": [[1]]})]),
    ("size objects", [layer("Dense", {"output_dim": 2, "input_shape": {"0": 4}})]),
    ("name", [layer("Dense", {"output_dim": 2, "input_dim": 4, "name": []})]),
    ("weights", [layer("Dense", {"output_dim": 2, "input_dim": 4, "weights": [{"class": "Dense"}]})]),
    ("dropout", [layer("GRU", {"output_dim": 2, "input_dim": 4, "dropout_W": 10**400})]),
    *(
        (f"{kind} {size}", [layer(kind, {"output_dim": size, "input_dim": 4})])
        for kind in ("Dense", "GRU")
        for size in (2**62, 10**300, 3 * 10**8)
    ),
    ("Embedding", [layer("Embedding", {"input_dim": 2**40, "output_dim": 2**40})]),
    ("Bidirectional", [layer("Bidirectional", {"layer": layer("LSTM", {"output_dim": 2**40, "input_dim": 2**40})})]),
    ("orthogonal", [layer("GRU", {"output_dim": 3000, "input_dim": 4, "inner_init": "orthogonal"})]),
]


@pytest.mark.parametrize("header", [row[1] for row in HEADERS], ids=[row[0] for row in HEADERS])
def test_hostile_headers_are_refused_before_anything_is_made(header: Any, tmp_path: Path) -> None:
    path = stored(tmp_path, header)
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(dml.DescError) as caught:
            load_model(path, device="numpy")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.subject == str(path)
    assert len(str(caught.value)) < 3000
    assert peak < 2**24
    assert time.process_time() - began < 2


MODELS: dict[str, list[Layer]] = {
    "Dense": [Dense(3, input_dim=4), Dense(2, bias=False)],
    "Embedding": [Embedding(5, 3), SimpleRNN(2)],
    "GRU": [Masking(input_dim=3), GRU(2, reset_after=True, return_sequences=True), LSTM(3)],
    "Bidirectional": [
        Bidirectional(LSTM(2, return_sequences=True), input_shape=(None, 3)),
        Bidirectional(GRU(2), merge_mode="sum"),
        Dense(1),
    ],
}


@pytest.mark.parametrize("name", MODELS)
def test_planned_shapes_are_those_of_the_weights(name: str) -> None:
    model = Sequential(MODELS[name], device="numpy", seed=0)
    for made in model.layers:
        assert made.input_shape is not None
        assert made.weight_shapes(made.input_shape) == {weight.name: weight.value.shape for weight in made.weights}


@pytest.mark.parametrize("name", MODELS)
def test_no_initializer_runs_on_loading(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Sequential([type(made)(**made.arguments()) for made in MODELS[name]], device="numpy", seed=1)
    model.save(tmp_path / "m.safetensors")

    def never(shape: tuple[int, ...], random: np.random.Generator) -> Any:
        raise AssertionError(f"an initializer of {shape}")

    monkeypatch.setattr(initializers, "INITIALIZERS", dict.fromkeys(initializers.INITIALIZERS, never))
    loaded = load_model(tmp_path / "m.safetensors", device="numpy")
    for found, wanted in zip(loaded.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(found, wanted)
