"""Doubles the size of a picture: the network of Microsoft's sample DirectMLSuperResolution, as it builds it with DirectMLX.

    python examples/superresolution.py picture.png larger.png [--weights weights.bin] [--layout nhwc] [--device cpu]

Three convolutions, an upsampling and four more convolutions compute what is added to the picture whose pixels are doubled. The trained
weights are in Microsoft's repository DirectML: Samples/DirectMLSuperResolution/Assets/weights.bin. Without them the network gets weights
made here, with which it interpolates linearly.

It needs `pip install pillow`.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy import x

Array = np.ndarray[Any, np.dtype[Any]]

LAYERS = {  # filters, channels, width of the window
    "conv1": (32, 3, 5),
    "conv2": (64, 32, 3),
    "conv3": (64, 64, 3),
    "conv_up1/conv": (32, 64, 5),
    "conv4": (32, 32, 3),
    "conv5": (32, 32, 3),
    "conv6": (3, 32, 3),
}
POLICIES = {"nchw": x.TensorPolicy.default, "nhwc": x.TensorPolicy.interleaved_channel}


def convolve(value: x.Expression, name: str) -> x.Expression:
    """A layer that keeps the picture's size; all but the last have a bias and a ReLU, which DirectML fuses."""
    filters, channels, window = LAYERS[name]
    weights = x.input(f"{name}/weights", [filters, channels, window, window], "FLOAT16", owned_by_dml=True)
    padding = [window // 2] * 2
    if name == "conv6":
        return x.convolution(value, weights, start_padding=padding, end_padding=padding)
    bias = x.input(f"{name}/bias", [1, filters, 1, 1], "FLOAT16", owned_by_dml=True)
    return x.convolution(value, weights, bias, start_padding=padding, end_padding=padding, fused_activation=dml.ActivationReluDesc())


def double(value: x.Expression) -> x.Expression:
    return x.upsample_2d(value, scale_size=dml.Size2D(width=2, height=2), interpolation_mode="NEAREST_NEIGHBOR")


def network(height: int, width: int, layout: str) -> x.Expression:
    with x.tensor_policy(POLICIES[layout]):
        image = x.input("image", [1, 3, height, width], "FLOAT16")
        value = image
        for name in LAYERS:
            value = convolve(double(value) if name == "conv_up1/conv" else value, name)
        return double(image) + value


def read_weights(path: Path) -> dict[str, Array]:
    """The arrays of the sample's file: for each a name and float32 numbers, both after their count.

    Raises:
        ValueError: the file is none of the sample's.
    """
    data, place, found = path.read_bytes(), 4, {}
    try:
        for _ in range(*struct.unpack_from("<I", data)):
            (length,) = struct.unpack_from("<I", data, place)
            (count,) = struct.unpack_from("<I", data, place + 4 + length)
            name = data[place + 4 : place + 4 + length].decode()
            found[name] = np.frombuffer(data, "<f4", count, place + 8 + length)
            place += 8 + length + 4 * count
        return folded(found)
    except (struct.error, UnicodeDecodeError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is not the sample's weights.bin: {error}") from None


def folded(weights: Mapping[str, Array]) -> dict[str, Array]:
    """The network's inputs: the scale of each batch normalization is part of the filters, its shift is the bias."""
    found = {}
    for name, (filters, channels, window) in LAYERS.items():
        found[f"{name}/weights"] = weights[f"{name}/weights"].reshape(filters, channels, window, window)
        if name != "conv6":
            found[f"{name}/weights"] = found[f"{name}/weights"] * weights[f"{name}/BatchNorm/scale"].reshape(-1, 1, 1, 1)
            found[f"{name}/bias"] = weights[f"{name}/BatchNorm/shift"].reshape(1, -1, 1, 1)
    return found


def linear_weights() -> dict[str, Array]:
    """Weights with which the network interpolates linearly.

    Doubled pixels smoothed by [1, 2, 1] / 4 along both axes are the linear interpolation. The layers before carry the three colours; the
    ones behind carry the difference from the doubled pixels as its positive and its negative parts, since a ReLU passes no other.
    """
    found = {f"{name}/weights": np.zeros((filters, channels, window, window)) for name, (filters, channels, window) in LAYERS.items()}
    found |= {f"{name}/bias": np.zeros((1, filters, 1, 1)) for name, (filters, _, _) in LAYERS.items() if name != "conv6"}
    smooth = np.zeros((5, 5))
    smooth[1:4, 1:4] = np.outer([1, 2, 1], [1, 2, 1]) / 16
    smooth[2, 2] -= 1
    for colour in range(3):
        for name in ("conv1", "conv2", "conv3"):
            middle = LAYERS[name][2] // 2
            found[f"{name}/weights"][colour, colour, middle, middle] = 1
        found["conv_up1/conv/weights"][colour, colour], found["conv_up1/conv/weights"][colour + 3, colour] = smooth, -smooth
        for part in (colour, colour + 3):
            for name in ("conv4", "conv5"):
                found[f"{name}/weights"][part, part, 1, 1] = 1
            found["conv6/weights"][colour, part, 1, 1] = 1 if part == colour else -1
    return found


def enlarge(picture: Array, weights: Mapping[str, Array], device: Any = None, layout: str = "nchw") -> Array:
    """A picture of twice the height and width, both [height, width, 3] of 8 bits."""
    op = x.compile(network(*picture.shape[:2], layout), device)
    axes = (0, 2, 3, 1) if layout == "nhwc" else (0, 1, 2, 3)

    def laid_out(array: Array) -> Array:
        """The array in half precision; its last axis in memory is that of the channels if the layout is NHWC."""
        packed = np.ascontiguousarray(array.astype(np.float16).transpose(axes))
        return packed.transpose(np.argsort(axes))

    prepared = op.prepare(**{name: laid_out(array) for name, array in weights.items()}, copy=True)
    (larger,) = prepared(image=laid_out(picture.transpose(2, 0, 1)[None] / 255), copy=True)
    pixels = np.clip(np.asarray(larger, np.float32)[0].transpose(1, 2, 0), 0, 1)
    return np.rint(255 * pixels).astype(np.uint8)


def main() -> None:
    from PIL import Image

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path)
    parser.add_argument("larger", type=Path, help="the file to write")
    parser.add_argument("--weights", type=Path, help="the sample's weights.bin; left out, the picture is interpolated linearly")
    parser.add_argument("--layout", choices=POLICIES, default="nchw")
    parser.add_argument("--device", help="cpu, numpy or cuda; default: a GPU if one answers, else cpu")
    given = parser.parse_args()
    weights = read_weights(given.weights) if given.weights else linear_weights()
    with Image.open(given.picture) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    larger = enlarge(pixels, weights, given.device, given.layout)
    Image.fromarray(larger).save(given.larger)
    print(f"{given.larger}: {larger.shape[1]} x {larger.shape[0]}")


if __name__ == "__main__":
    main()
