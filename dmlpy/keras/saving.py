"""Models in safetensors files: the weights as tensors, the layers' arguments as JSON in the header. No code is stored or run."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief, given_path
from dmlpy.description.descs import OperatorDesc
from dmlpy.keras.layer import Layer, Weight
from dmlpy.keras.regularizers import Regularizer
from dmlpy.messages.json_nesting import MAX_NESTING, NestingError, decoded
from dmlpy.messages.naming import did_you_mean, listed
from dmlpy.messages.problems import DescError, Problem, truncate
from dmlpy.system.files import beside, opened
from dmlpy.system.other_formats import BEGINNING, KERAS_REMEDY, PYTORCH_REMEDY, other_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dmlpy.keras.backend import Backend

FilePath = str | PathLike[str]

MAX_LAYERS = 10_000
"""The most layers of a model in a file."""
_HEADER = "dmlpy.keras"


def check_path(owner: str, member: str, path: FilePath) -> None:
    """Raises DescError for what is no name, and for one that says that the file is Keras's, which a reader of it would believe."""
    if str(given_path(owner, member, path)).endswith((".keras", ".h5")):
        why = ("files of that extension are Keras's, and this is a safetensors file",)
        remedy = f"call it {brief(os.path.splitext(path)[0] + '.safetensors')}"
        problem = Problem(
            "model.path", member, brief(fspath(path)), "a name that ends in .safetensors, or without an extension", why, remedy
        )
        raise DescError(owner, [problem])


def save_weights(layers: Sequence[Layer], backend: Backend, path: FilePath) -> None:
    """Writes the weights of a model's layers.

    Raises:
        DescError: a name that says that the file is Keras's.
    """
    check_path("Sequential.save_weights", "path", path)
    _write(layers, backend, path, None)


def save_model(layers: Sequence[Layer], backend: Backend, path: FilePath) -> None:
    """Writes the weights and the arguments of a model's layers.

    Raises:
        DescError: an argument that cannot be stored, or a name that says that the file is Keras's.
    """
    check_path("Sequential.save", "path", path)
    arguments = [_encoded(layer, f"layers[{index}]") for index, layer in enumerate(layers)]
    _write(layers, backend, path, {_HEADER: json.dumps({"layers": arguments})})


def load_weights(layers: Sequence[Layer], backend: Backend, path: FilePath) -> None:
    """Reads the weights of a model's layers; changes nothing if one does not fit.

    Raises:
        DescError: not a safetensors file, or weights that do not fit.
        OSError: the file cannot be read.
    """
    named = _named_weights(layers)
    with _opened(path) as file:
        _raise(
            path,
            chain(_stored_problems(file, {name: weight.value.shape for name, weight in named.items()}), _unknown_problems(file, named)),
        )
        arrays = {name: file.get_tensor(name) for name in named}
    values = [weight.value for weight in named.values()]
    backend.fill(values, [backend.array(arrays[name]) for name in named])


def load_layers(path: FilePath) -> list[Layer]:
    """Creates layers from the arguments that a file holds.

    Raises:
        DescError: not a safetensors file, one without a model, or a layer that cannot be made.
        OSError: the file cannot be read.
    """
    with _opened(path) as file:
        text = (file.metadata() or {}).get(_HEADER)
    if text is None:
        remedy = "Sequential.save writes it; load_weights reads a file of weights alone"
        raise DescError(fspath(path), [Problem("model.header", _HEADER, "missing", "the model's layers", remedy=remedy)])
    try:
        layers = _layers_in(text)
        return [_built_layer(layer, f"layers[{index}]") for index, layer in enumerate(layers)]
    except DescError as error:
        raise DescError(fspath(path), error.problems) from None


def check_shapes(path: FilePath, shapes: Mapping[str, tuple[int, ...]], *, complete: bool) -> None:
    """Checks that a file holds the weights of a model, before any of them is created.

    Args:
        path: the file.
        shapes: the shapes of the weights, by their names in the file.
        complete: whether the model has no other weights.

    Raises:
        DescError: weights are missing, of another shape, or of no layer.
        OSError: the file cannot be read.
    """
    with _opened(path) as file:
        _raise(path, chain(_stored_problems(file, shapes), _unknown_problems(file, shapes) if complete else ()))


def weight_name(index: int, layer: Layer, name: str) -> str:
    """The name in a file of a weight, by its layer's index in the model."""
    return f"{index}.{type(layer).__name__.lower()}.{name}"


def _stored_problems(file: Any, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Problem]:
    """Problems of weights of these shapes that are missing in a file."""
    stored = set(file.keys())
    for name, shape in shapes.items():
        if name not in stored:
            yield Problem("weights.missing", name, "not in the file", f"a tensor of {list(shape)}")
            continue
        tensor = file.get_slice(name)
        found, expected = (tensor.get_dtype(), tensor.get_shape()), ("F32", list(shape))
        if found != expected:
            yield Problem("weights.shape", name, f"{found[0]} {listed(found[1])}", f"{expected[0]} {expected[1]}")


def _unknown_problems(file: Any, names: Iterable[str]) -> Iterator[Problem]:
    """Problems of a file's tensors that are not weights of these names."""
    known = set(names)
    for name in file.keys():  # noqa: SIM118  (no dict)
        if name not in known:
            yield Problem("weights.unknown", name, "in the file", "a weight of the model", remedy=did_you_mean(name, sorted(known)))


def _raise(path: FilePath, problems: Iterable[Problem]) -> None:
    reported = list(truncate(problems))
    if reported:
        raise DescError(fspath(path), sorted(reported, key=lambda problem: problem.path))


def read_arrays(path: FilePath, header: str) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Reads all arrays of a file, and the text under a name in its header.

    Raises:
        DescError: not a safetensors file, or one without that text.
        OSError: the file cannot be read.
    """
    with _opened(path) as file:
        text = (file.metadata() or {}).get(header)
        if text is None:
            raise DescError(fspath(path), [Problem("model.header", header, "missing", "a file that dmlpy.keras has written for this")])
        return {name: file.get_tensor(name) for name in file.keys()}, text  # noqa: SIM118  (no dict)


def write_arrays(arrays: Mapping[str, np.ndarray[Any, Any]], path: FilePath, metadata: Mapping[str, str] | None) -> None:
    """Writes arrays in host memory, by name, and texts of the header; an existing file is replaced once all is written.

    Raises:
        OSError: it cannot be written.
    """
    packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    safetensors = _safetensors()
    with beside(Path(fspath(path))) as unfinished:
        try:
            safetensors.numpy.save_file(packed, unfinished, metadata=None if metadata is None else dict(metadata))
        except safetensors.SafetensorError as error:
            raise OSError(f"{fspath(path)} cannot be written: {error}") from None


def _write(layers: Sequence[Layer], backend: Backend, path: FilePath, metadata: Mapping[str, str] | None) -> None:
    write_arrays({name: backend.host(weight.value) for name, weight in _named_weights(layers).items()}, path, metadata)


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ModuleNotFoundError:
        raise ModuleNotFoundError("files of models need safetensors: pip install 'dmlpy[keras]'", name="safetensors") from None
    return safetensors


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    name = given_path("file of weights", "path", path)
    try:
        with opened(name) as file:  # safetensors would wait for a pipe without end
            begin = file.read(BEGINNING)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DescError(fspath(path), [Problem("weights.file", "", error.strerror or str(error), _EXPECTED)]) from None
    if begin[8:9] != b"{":
        raise DescError(fspath(path), [_other_file(begin)])
    safetensors = _safetensors()
    try:
        with safetensors.safe_open(fspath(path), framework="numpy") as file:
            yield file
    except safetensors.SafetensorError as error:
        problem = Problem("weights.file", "", "a damaged safetensors file", "one", (brief(str(error)),))
        raise DescError(fspath(path), [problem]) from None


_EXPECTED = "a file of safetensors, which model.save writes"
_REMEDIES: Mapping[str | None, str] = {
    KERAS_REMEDY: "load it with Keras and make a model of it by from_keras(model), or take single layers by from_keras(layer)",
    PYTORCH_REMEDY: "load it with PyTorch, and make layers of its modules by from_torch(module)",
}
"""How files of others become layers, by how they become ONNX models."""


def _other_file(begin: bytes) -> Problem:
    """The problem of a file that is not safetensors, by its beginning."""
    found, remedy = other_format(begin) or ("not a safetensors file", None)
    return Problem("weights.file", "", found, _EXPECTED, remedy=_REMEDIES.get(remedy, remedy))


def _named_weights(layers: Sequence[Layer]) -> dict[str, Weight]:
    return {weight_name(index, layer, weight.name): weight for index, layer in enumerate(layers) for weight in layer.weights}


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
    remedy = "save_weights saves the weights; create the layers again to load them"
    raise DescError("Sequential.save", [Problem("model.argument", path, brief(value), "what JSON can hold", remedy=remedy)])


def _layers_in(text: str) -> list[Any]:
    """The layers in a file's header, as JSON data."""
    expected = "the model's layers, as Sequential.save writes them"
    try:
        data = decoded(text)
    except NestingError:
        raise DescError("", [Problem("model.header", _HEADER, "nested too deeply", f"at most {MAX_NESTING} objects and arrays")]) from None
    except ValueError as error:
        raise DescError("", [Problem("model.header", _HEADER, brief(text), expected, (brief(str(error)),))]) from None
    layers = data.get("layers") if isinstance(data, dict) else None
    if not isinstance(layers, list):
        raise DescError("", [Problem("model.header", _HEADER, brief(text), expected)])
    if len(layers) > MAX_LAYERS:
        raise DescError("", [Problem("model.header", _HEADER, f"{len(layers)} layers", f"at most {MAX_LAYERS}")])
    return layers


def _built_layer(data: Any, path: str) -> Layer:
    layer = _built(data, path)
    if not isinstance(layer, Layer):
        raise DescError(path, [Problem("model.header", path, brief(data), "a layer")])
    return layer


def _built(value: Any, path: str) -> Any:
    if isinstance(value, list):
        return [_built(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kind, arguments = value.get("class"), value.get("arguments")
    if not isinstance(kind, str) or not isinstance(arguments, dict):
        raise DescError(path, [Problem("model.header", path, brief(value), "an object with class, a name, and arguments, an object")])
    if kind == "OperatorDesc":
        return _called(OperatorDesc.from_dict, {"data": arguments}, path)
    parts = {name: _built(item, f"{path}.{brief(name)[1:-1]}") for name, item in arguments.items()}
    if kind == "Regularizer":
        return _called(Regularizer, parts, path)
    kinds = {known.__name__: known for known in _subclasses(Layer)}  # type: ignore[type-abstract]
    if kind not in kinds:
        why = ("a custom layer is known once its class is defined",)
        raise DescError(path, [Problem("layer.unknown", path, brief(kind), "a layer's class", why, did_you_mean(kind, kinds))])
    return _called(kinds[kind], parts, path)


def _called(make: Callable[..., Any], arguments: Mapping[str, Any], path: str) -> Any:
    """Calls a class or function with a file's arguments. Any error that it raises is reported as an error of the file.

    Raises:
        DescError: unknown or rejected arguments; places begin with `path`.
    """
    try:
        return make(**arguments)
    except DescError as error:
        raise DescError(error.subject, [problem.under(path) for problem in error.problems]) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Constructors, including those of user-defined layers, rely on their signatures; a file may hold anything.
        name = getattr(make, "__name__", "it")
        raise DescError(
            path, [Problem("layer.argument", path, brief(arguments), f"arguments that {name} takes", (brief(str(error)),))]
        ) from None


def _subclasses(kind: type[Layer]) -> Iterator[type[Layer]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)
