"""Small Keras models, and the losses and gradients of whole ones compared with PyTorch's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from dmlpy.keras.layer import Layer
from dmlpy.keras.models import Sequential
from dmlpy.keras.optimizers import SGD, Optimizer
from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
from dmlpy.keras.regularizers import Regularizer
from dmlpy.keras.simple import Dense, Embedding, Masking
from tests.support.folders import STORED_CASES
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


LAYERS: dict[str, type[Layer]] = {kind.__name__: kind for kind in (Dense, Embedding, Masking, SimpleRNN, GRU, LSTM)}


def model(*layers: Layer, seed: int = 0) -> Sequential:
    return Sequential(layers, device="numpy", seed=seed)


def compiled(*layers: Layer, loss: str = "mse", rule: Optimizer | str = "sgd", metrics: Any = (), seed: int = 0) -> Sequential:
    m = model(*layers, seed=seed)
    m.compile(rule, loss, metrics)
    return m


class Draws:
    """Uniform numbers that were stored, in place of a generator."""

    def __init__(self, arrays: Iterator[Array]) -> None:
        self._arrays = arrays

    def random(self, shape: Any, dtype: Any = np.float64) -> Array:
        array = next(self._arrays)
        assert array.shape == (shape if isinstance(shape, tuple) else (shape,))
        return array.astype(dtype)


CASES = {entry["case"]: entry for entry in json.loads((STORED_CASES / "index.json").read_text()) if entry["case"].startswith("model_")}


def check_loss_and_gradients(case: str) -> None:
    attributes = CASES[case]["attributes"]
    with np.load(STORED_CASES / f"{case}.npz") as file:
        stored = {name: file[name] for name in file.files}
    layers = []
    for entry in attributes["layers"]:
        arguments = {name: Regularizer(**value) if isinstance(value, dict) else value for name, value in entry["arguments"].items()}
        layers.append(LAYERS[entry["class"]](**arguments))
    m = compiled(*layers, loss=attributes["loss"], rule=SGD(lr=0))
    names = [f"{index}.{type(layer).__name__.lower()}.{weight.name}" for index, layer in enumerate(m.layers) for weight in layer.weights]
    for name, weight in zip(names, m.weights, strict=True):
        weight.value[...] = stored[f"in.weight.{name}"]
    m.backend.random = Draws(array for name, array in stored.items() if name.startswith("in.draws."))  # type: ignore[assignment]
    found = m.train_on_batch(stored["in.x"], stored["in.y"], stored.get("in.sample_weight"))
    assert_close(found, stored["out.loss"], np.float32, terms=10**6, what="loss")
    assert {f"out.gradient.{name}" for name in names} == {name for name in stored if name.startswith("out.gradient.")}
    for name, weight in zip(names, m.weights, strict=True):
        assert_close(weight.gradient, stored[f"out.gradient.{name}"], np.float32, terms=10**6, what=name)
