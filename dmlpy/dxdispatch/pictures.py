"""PNG and JPEG pictures as tensors.

A picture is untrusted like any file: a few bytes may claim billions of pixels, or many passes over them. Both are counted before a pixel
is decoded, and only PNG and JPEG are ever decoded.
"""

from __future__ import annotations

import math
import struct
import warnings
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import DataType
from dmlpy.dxdispatch.files import SOURCE, Array, refuse
from dmlpy.messages.problems import DescError
from dmlpy.system.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from PIL.Image import Image

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
IMAGE_TYPES = (DataType.FLOAT32, DataType.FLOAT16)
MAX_PIXELS = 3 * 2**22
"""The most pixels of a picture: 4,096 x 3,072, which take some 400 MB on their way to a tensor of four channels."""
_MAX_SCANS = 64
"""Passes of a progressive JPEG over its pixels. Encoders write about ten; each costs as much as decoding a picture of one."""
_START_OF_SCAN = b"\xff\xda"
_DAMAGED = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, struct.error, zlib.error)
"""The errors that Pillow's readers raise for damaged files; only the first is documented."""


@dataclass(frozen=True)
class Picture:
    """A picture that can be decoded.

    Attributes:
        path: its file.
        sizes: [1, C, H, W] of the tensor.
    """

    path: Path
    sizes: tuple[int, int, int, int]

    @property
    def count(self) -> int:
        """The number of the tensor's elements."""
        return math.prod(self.sizes)

    def read(self, data_type: DataType) -> Array:
        """Reads the tensor, of values 0 to 1: RGB for three channels, grey for one, else RGBA; resized if the sizes differ.

        Raises:
            DescError: the picture is damaged.
        """
        _, channels, height, width = self.sizes
        with _decode(self.path) as opened:
            picture = opened.convert({1: "L", 3: "RGB"}.get(channels, "RGBA"))
        if picture.size != (width, height):
            picture = picture.resize((width, height), _pillow(SOURCE, self.path.name).Resampling.BICUBIC)
        pixels = np.asarray(picture).reshape(height, width, channels)
        tensor = np.empty(self.sizes, data_type.numpy)
        for channel in range(channels):  # one at a time: a picture's float32 values take four times the picture's memory
            tensor[0, channel] = pixels[..., channel].astype(np.float32) / np.float32(255)
        return tensor


def find(path: Path, data_type: DataType, resample: tuple[int, int, int, int] | None) -> Picture:
    """Finds the picture of a file by decoding it once: only that shows whether it is damaged.

    Args:
        path: the file.
        data_type: the tensor's type.
        resample: the tensor's sizes; None for those of the picture, RGB where it is RGB, else RGBA.

    Raises:
        DescError: the file is not a picture, too large, or the tensor's type does not fit.
    """
    if data_type not in IMAGE_TYPES:
        raise refuse("image.type", "initialValuesDataType", str(data_type), "FLOAT32 or FLOAT16 for a picture")
    with _decode(path) as opened:
        width, height = opened.size
        channels = 3 if opened.mode == "RGB" else 4
    return Picture(path, resample or (1, channels, height, width))


@contextmanager
def _decode(path: Path) -> Iterator[Image]:
    """The decoded picture of a file. Raises DescError if it is not a picture, or has too many pixels."""
    pillow = _pillow(SOURCE, path.name)
    try:
        with warnings.catch_warnings():
            # Pillow only warns of a picture that unpacks to very much: here it is an error.
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            opened = pillow.open(path, formats=("PNG", "JPEG"))
        with opened:
            width, height = opened.size
            if width * height > MAX_PIXELS:
                raise refuse("image.size", SOURCE, f"{path.name} of {width} x {height} pixels", f"at most {MAX_PIXELS} pixels")
            if opened.format == "JPEG" and (scans := path.read_bytes().count(_START_OF_SCAN)) > _MAX_SCANS:
                raise refuse("image.size", SOURCE, f"{path.name} of {scans} scans", f"at most {_MAX_SCANS} scans")
            opened.load()
            yield opened
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise refuse("image.size", SOURCE, path.name, "a picture of fewer pixels", str(error)) from None
    except DescError:
        raise
    except _DAMAGED as error:
        raise refuse("image.damaged", SOURCE, path.name, "a PNG or JPEG picture", str(error)) from None


def write_image(path: Path, tensor: Array) -> None:
    """Writes a tensor [1, C, H, W] of values 0 to 1 as a picture: grey, RGB or RGBA by its channels.

    Raises:
        DescError: pillow is missing.
    """
    pillow = _pillow("targetPath", path.name)
    pixels = (np.clip(np.nan_to_num(tensor[0].astype(np.float32)), 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    picture: Image = pillow.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if path.suffix.lower() != ".png" and picture.mode == "RGBA":
        picture = picture.convert("RGB")  # JPEG has no transparency
    with replacing(path) as file:
        picture.save(file, format="PNG" if path.suffix.lower() == ".png" else "JPEG")


def _pillow(member: str, name: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        expected = "a file without a picture, or pillow to be installed"
        raise refuse("image.pillow", member, f"{name}, a picture", expected, remedy="pip install dmlpy[examples]") from None
    return Image
