"""`profile_layers`: the times of a model's layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.devices.reporting.profile import Profile, ProfiledPart, profile_parts, profile_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.plan import Launch
    from dmlpy.keras.backend import Array, Backend
    from dmlpy.keras.layer import Layer


def profile_layers(layers: Sequence[Layer], backend: Backend, x: Array, runs: int) -> Profile:
    """The times of the layers in predictions, one by one, and of all together with the copy of the input to the device."""
    device = backend.device
    stream = device.current_stream()

    def predict() -> None:
        values, mask = backend.array(x, layers[0].input_type), None
        for layer in layers:
            values, mask = layer.forward(values, mask, training=False)

    whole_us = profile_whole(device, predict, runs, stream)
    parts = []
    values, mask = backend.array(x, layers[0].input_type), None
    for layer in layers:
        parts.append(ProfiledPart(layer.name, type(layer).__name__, _launch(layer, values, mask)))
        values, mask = layer.forward(values, mask, training=False)
    return Profile("Sequential", device.name, profile_parts(device, parts, runs, stream), whole_us)


def _launch(layer: Layer, values: Array, mask: Array | None) -> Launch:
    def launch(_: int) -> None:
        layer.forward(values, mask, training=False)

    return launch
