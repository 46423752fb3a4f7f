"""Models in safetensors files: the weights as tensors, the layers' arguments as JSON in the header. No code is stored or run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.descs import OperatorDesc
from dmlpy.keras.layer import Layer, Weight
from dmlpy.keras.regularizers import Regularizer
from dmlpy.naming import did_you_mean
from dmlpy.problems import DescError, Problem
from dmlpy.structs import brief

if TYPE_CHECKING:
    from dmlpy.keras.models import Sequential

Path = str | PathLike[str]

_HEADER = "dmlpy.keras"


def save_weights(model: Sequential, path: Path) -> None:
    """Writes a model's weights."""
    _write(model, path, None)


def save_model(model: Sequential, path: Path) -> None:
    """Writes a model's weights and its layers' arguments.

    Raises:
        DescError: an argument that no file can hold.
    """
    _write(model, path, {_HEADER: json.dumps({"layers": [_encoded(layer, f"layers[{i}]") for i, layer in enumerate(model.layers)]})})


def load_weights(model: Sequential, path: Path) -> None:
    """Reads a model's weights; nothing is changed where one does not fit.

    Raises:
        DescError: no file of safetensors, or weights that do not fit.
        OSError: the file cannot be read.
    """
    named = _named_weights(model)
    with _opened(path) as file:
        stored = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  (no dict)
        problems = [
            Problem("weights.missing", name, "not in the file", f"a tensor of {list(weight.value.shape)}")
            for name, weight in named.items()
            if name not in stored
        ]
        problems += [
            Problem("weights.unknown", name, "in the file", "a weight of the model", remedy=did_you_mean(name, named))
            for name in stored
            if name not in named
        ]
        for name in named.keys() & stored.keys():
            found, expected = (stored[name].get_dtype(), stored[name].get_shape()), ("F32", list(named[name].value.shape))
            if found != expected:
                problems.append(Problem("weights.shape", name, f"{found[0]} {found[1]}", f"{expected[0]} {expected[1]}"))
        if problems:
            raise DescError(fspath(path), sorted(problems, key=lambda problem: problem.path))
        arrays = {name: file.get_tensor(name) for name in named}
    values = [weight.value for weight in named.values()]
    model.backend.fill(values, [model.backend.array(arrays[name]) for name in named])


def load_layers(path: Path) -> list[Layer]:
    """New layers from the arguments that a file holds.

    Raises:
        DescError: no file of safetensors, one without a model, or a layer that cannot be made.
        OSError: the file cannot be read.
    """
    with _opened(path) as file:
        text = (file.metadata() or {}).get(_HEADER)
    if text is None:
        remedy = "Sequential.save writes it; load_weights reads a file of weights alone"
        raise DescError(fspath(path), [Problem("model.header", _HEADER, "missing", "the model's layers", remedy=remedy)])
    try:
        layers = json.loads(text)["layers"]
        return [_made(layer, f"layers[{index}]") for index, layer in enumerate(layers)]
    except DescError as error:
        raise DescError(fspath(path), error.problems) from None
    except (ValueError, TypeError, KeyError) as error:
        expected = "the model's layers, as Sequential.save writes them"
        raise DescError(fspath(path), [Problem("model.header", _HEADER, brief(text), expected, (str(error),))]) from None


def _write(model: Sequential, path: Path, metadata: Mapping[str, str] | None) -> None:
    arrays = {name: np.ascontiguousarray(model.backend.host(weight.value)) for name, weight in _named_weights(model).items()}
    _safetensors().numpy.save_file(arrays, fspath(path), metadata=None if metadata is None else dict(metadata))


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ModuleNotFoundError:
        raise ModuleNotFoundError("files of models need safetensors: pip install 'dmlpy[keras]'", name="safetensors") from None
    return safetensors


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(fspath(path), framework="numpy") as file:
            yield file
    except safetensors.SafetensorError as error:
        raise DescError(fspath(path), [Problem("weights.file", "", "no file of safetensors", "one", (str(error),))]) from None


def _named_weights(model: Sequential) -> dict[str, Weight]:
    return {
        f"{index}.{type(layer).__name__.lower()}.{weight.name}": weight
        for index, layer in enumerate(model.layers)
        for weight in layer.weights
    }


# Arguments in JSON: objects are dicts with the name of their class under "class".


def _encoded(value: Any, path: str) -> Any:
    if isinstance(value, Layer):
        arguments = {name: given for name, given in value.arguments().items() if name != "weights"}
        encoded = {name: _encoded(given, f"{path}.{name}") for name, given in arguments.items()}
        return {"class": type(value).__name__, "arguments": encoded}
    if isinstance(value, Regularizer):
        return {"class": "Regularizer", "arguments": {"l1": value.l1, "l2": value.l2}}
    if isinstance(value, OperatorDesc):
        return {"class": "OperatorDesc", "arguments": value.to_dict()}
    if isinstance(value, list | tuple):
        return [_encoded(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    remedy = "save_weights keeps the weights; make the layers anew to load them"
    raise DescError("Sequential.save", [Problem("model.argument", path, brief(value), "what JSON can hold", remedy=remedy)])


def _made(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_made(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kind, arguments = value["class"], value["arguments"]
    if kind == "OperatorDesc":
        return OperatorDesc.from_dict(arguments)
    made = {name: _made(item, f"{path}.{name}") for name, item in arguments.items()}
    if kind == "Regularizer":
        return Regularizer(**made)
    kinds = {known.__name__: known for known in _subclasses(Layer)}  # type: ignore[type-abstract]
    if kind not in kinds:
        why = ("a layer of your own is known once its class is defined",)
        raise DescError(path, [Problem("layer.unknown", path, brief(kind), "a layer's class", why, did_you_mean(kind, kinds))])
    try:
        return kinds[kind](**made)
    except DescError as error:
        raise DescError(error.subject, [problem.under(path) for problem in error.problems]) from None


def _subclasses(kind: type[Layer]) -> Iterator[type[Layer]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)
