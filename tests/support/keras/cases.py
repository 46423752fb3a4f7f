"""The stored results of Keras's layers, layers compared with them, and what the tests of dmlpy.keras share."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from dmlpy.keras import GRU, LSTM, Layer, Recurrent, SimpleRNN
from dmlpy.keras.backend import Backend
from tests.support.folders import STORED_CASES
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]

DEVICES = ["numpy", pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.cupy])]


class Case(NamedTuple):
    """Attributes, inputs and outputs of a stored case."""

    attributes: dict[str, Any]
    inputs: Arrays
    outputs: Arrays

    @property
    def batches(self) -> list[tuple[Array, Array]]:
        """Inputs and outputs of one call after the other."""
        return [(array, self.outputs[f"y{name[1:]}"]) for name, array in self.inputs.items() if name.startswith("x")]

    @property
    def mask(self) -> Array | None:
        return self.inputs["mask"] != 0 if "mask" in self.inputs else None


def names(prefixes: tuple[str, ...]) -> list[str]:
    """The cases whose names begin so."""
    return [entry["case"] for entry in json.loads((STORED_CASES / "index.json").read_text()) if entry["case"].startswith(prefixes)]


def case(name: str) -> Case:
    """One of them."""
    attributes = next(entry["attributes"] for entry in json.loads((STORED_CASES / "index.json").read_text()) if entry["case"] == name)
    with np.load(STORED_CASES / f"{name}.npz") as file:
        inputs, outputs = ({key.removeprefix(part): file[key] for key in file.files if key.startswith(part)} for part in ("in.", "out."))
    return Case(attributes, inputs, outputs)


def built(layer: Layer, *shape: int | None, device: Any = "numpy", seed: int = 0) -> Any:
    """The layer, built for an input of this shape."""
    layer.build(shape, Backend(device, seed))
    return layer


class Pass(NamedTuple):
    """Results of a training pass in host memory."""

    output: Array
    mask: Array | None
    input_gradient: Array
    weight_gradients: dict[str, Array]


def trained(layer: Any, x: Array, mask: Array | None, upstream: Array | None = None, *, seed: int = 5) -> Pass:
    """A forward and a backward pass; equal seeds draw equal dropout."""
    backend = layer.backend
    backend.random = np.random.default_rng(seed)
    given = None if mask is None else backend.array(mask, np.bool_)
    y, out_mask = layer.forward(backend.array(x), given, training=True)
    dx = layer.backward(backend.array(np.ones(y.shape) if upstream is None else upstream))
    gradients = {weight.name: np.array(backend.host(weight.gradient)) for weight in layer.weights}
    shown = None if out_mask is None else backend.host(out_mask)
    return Pass(np.array(backend.host(y)), shown, np.array(backend.host(dx)), gradients)


def run(layer: Any, x: Array, mask: Array | None = None) -> Array:
    """The output of a pass without training, in host memory."""
    return np.array(layer.backend.host(layer(x, mask)))


def keras_layer(case: Case) -> Any:
    """What a live layer of Keras 3 shows of itself, for a stored case."""
    weights = [array for name, array in case.inputs.items() if name.startswith("weight")]
    shape = case.inputs["x0"].shape
    attributes = case.attributes
    if attributes["layer"] != "Bidirectional":
        return like_keras(attributes["layer"], attributes["config"], weights, shape)
    config = attributes["config"]
    directions = {
        name: like_keras(config[part]["class_name"], config[part]["config"], given, shape)
        for name, part, given in (("forward_layer", "layer", weights[:3]), ("backward_layer", "backward_layer", weights[3:]))
    }
    made = like_keras("Bidirectional", config, weights, shape)
    made.__dict__.update(directions, merge_mode=config["merge_mode"])
    return made


def like_keras(kind: str, config: dict[str, Any], weights: list[Array], shape: tuple[int | None, ...]) -> Any:
    """What a live layer of Keras 3 shows: its class, config, weights, and the shape that it was built for."""
    made = type(kind, (SimpleNamespace,), {})()
    made.built, made.compute_dtype = True, "float32"
    made.get_config = lambda: dict(config)
    made.get_weights = lambda: weights
    made.get_build_config = lambda: {"input_shape": shape}
    return made


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
