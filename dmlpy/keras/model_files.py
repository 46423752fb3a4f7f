"""`load_model`: a model from its file, whose size bounds the memory of the weights before any is created."""

from __future__ import annotations

from os import fspath
from typing import TYPE_CHECKING

from dmlpy.keras import saving
from dmlpy.keras.models import Sequential, input_shape_after
from dmlpy.messages.problems import DescError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from dmlpy.devices import Device
    from dmlpy.keras.layer import Layer, Shape


def load_model(path: str | PathLike[str], *, device: Device | str | None = None, seed: int | None = None) -> Sequential:
    """Loads a model that `Sequential.save` wrote, not compiled.

    Args:
        path: a safetensors file.
        device: as for `Sequential`.
        seed: as for `Sequential`.

    Raises:
        DescError: the file is not safetensors, or has no model, or a layer cannot be created.
        OSError: the file cannot be read.
        DeviceError: there is no such device.
    """
    layers = saving.load_layers(path)
    shapes, complete = _planned_shapes(path, layers)
    saving.check_shapes(path, shapes, complete=complete)  # so the file's size bounds the weights' memory
    for layer in layers:
        layer.initializes = False
    model = Sequential(layers, device=device, seed=seed)
    model.load_weights(path)
    return model


def _planned_shapes(path: str | PathLike[str], layers: Sequence[Layer]) -> tuple[Mapping[str, tuple[int, ...]], bool]:
    """The shapes of the weights of a model of these layers, by their names in its file, before any is created, and whether all are known.

    Layers that do not report their shapes have none here.

    Raises:
        DescError: as `Sequential.add`, with the layer's index.
    """
    planned: dict[str, tuple[int, ...]] = {}
    complete = True
    before: Shape | None = None
    for index, layer in enumerate(layers):
        try:
            shape = input_shape_after(layer, before, layers[index - 1].name if index else "")
            before = layer.compute_output_shape(shape)
            shapes = layer.weight_shapes(shape)
        except DescError as error:
            raise DescError(fspath(path), [problem.under(f"layers[{index}]") for problem in error.problems]) from None
        complete = complete and shapes is not None
        planned |= {saving.weight_name(index, layer, name): sizes for name, sizes in (shapes or {}).items()}
    return planned, complete
