"""examples/superresolution.py: the network computes what its weights say, in both layouts, and reads the sample's file of weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.scripts import example, run

superresolution = example("superresolution")

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(5)
PICTURE = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)


def convolved(value: Array, weights: Array, bias: Array | None) -> Array:
    """A convolution in float64 that keeps the size, [channels, height, width]; with a bias, and then a ReLU."""
    edge = weights.shape[-1] // 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(value, [(0, 0), (edge, edge), (edge, edge)]), weights.shape[2:], (1, 2))
    summed = np.einsum("chwij,fcij->fhw", windows, weights)
    return summed if bias is None else np.maximum(summed + bias.reshape(-1, 1, 1), 0)


def expected(picture: Array, weights: Mapping[str, Array]) -> Array:
    image = picture.transpose(2, 0, 1) / 255
    value = image
    for name in superresolution.LAYERS:
        value = value.repeat(2, 1).repeat(2, 2) if name == "conv_up1/conv" else value
        value = convolved(value, weights[f"{name}/weights"], weights.get(f"{name}/bias"))
    return np.clip(image.repeat(2, 1).repeat(2, 2) + value, 0, 1).transpose(1, 2, 0) * 255


def file_of(path: Path) -> dict[str, Array]:
    """Writes random weights as the sample has them, and returns the arrays."""
    arrays = {}
    for name, (filters, channels, window) in superresolution.LAYERS.items():
        scale = 1 / np.sqrt(channels * window**2)
        arrays[f"{name}/weights"] = RNG.normal(0, scale, filters * channels * window**2).astype(np.float32)
        if name != "conv6":
            arrays[f"{name}/BatchNorm/scale"] = RNG.uniform(0.5, 1.5, filters).astype(np.float32)
            arrays[f"{name}/BatchNorm/shift"] = RNG.normal(0, 0.1, filters).astype(np.float32)
    parts = [struct.pack("<I", len(arrays))]
    for name, array in arrays.items():
        parts.append(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", array.size) + array.tobytes())
    path.write_bytes(b"".join(parts))
    return arrays


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_network_computes_what_float64_gives(layout: str, tmp_path: Path) -> None:
    """Of weights in a file: layers of half precision are apart by a few of its steps at most."""
    arrays = file_of(tmp_path / "weights.bin")
    weights = superresolution.read_weights(tmp_path / "weights.bin")
    found = superresolution.enlarge(PICTURE, weights, "numpy", layout)
    assert found.shape == (10, 14, 3)
    wanted = expected(PICTURE, superresolution.folded({name: array.astype(np.float64) for name, array in arrays.items()}))
    assert np.abs(found - wanted).max() <= 0.5 + 255 * 2**-9
    assert np.ptp(wanted - PICTURE.repeat(2, 0).repeat(2, 1)) > 20, "the layers change the picture"


def test_its_own_weights_interpolate_linearly(tmp_path: Path) -> None:
    from PIL import Image

    Image.fromarray(PICTURE).save(tmp_path / "small.png")
    printed = run("python", "examples/superresolution.py", str(tmp_path / "small.png"), str(tmp_path / "large.png"), "--device", "numpy")
    assert "14 x 10" in printed
    with Image.open(tmp_path / "large.png") as image:
        found = np.asarray(image, np.float64)
    places = (np.arange(2, 8) + 0.5) / 2 - 0.5, (np.arange(2, 12) + 0.5) / 2 - 0.5  # inside: what is beyond the edge counts as black
    rows, columns = (place.astype(int) for place in places)
    down, right = (place - place.astype(int) for place in places)
    down, right = down[:, None, None], right[None, :, None]
    corners = [PICTURE[rows + i][:, columns + j].astype(np.float64) for i in (0, 1) for j in (0, 1)]
    wanted = (corners[0] * (1 - right) + corners[1] * right) * (1 - down) + (corners[2] * (1 - right) + corners[3] * right) * down
    assert np.abs(found[2:8, 2:12] - wanted).max() <= 0.5 + 255 * 2**-9


@pytest.mark.parametrize("content", [b"", b"\1\0\0\0", b"\1\0\0\0\xff\xff\xff\xff", b"\0\0\0\0", b"\2\0\0\0\2\0\0\0\xff\xfe\0\0\0\0"])
def test_a_file_that_is_none_of_the_samples_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not the sample's weights\.bin"):
        superresolution.read_weights(tmp_path / "weights.bin")
