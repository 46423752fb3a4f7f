"""The files that a model names. A model is untrusted: it reads below its input folders and writes below the output folder, nowhere else."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.enums import DataType
from dmlpy.problems import DescError, Problem

if TYPE_CHECKING:
    from PIL.Image import Image

Array = np.ndarray[Any, Any]
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg")
SOURCE = "initialValues.sourcePath"
"""Where a resource names its file."""
IMAGE_TYPES = (DataType.FLOAT32, DataType.FLOAT16)


def refuse(code: str, path: str, found: str, expected: str, *why: str, remedy: str | None = None) -> DescError:
    """The error of one member of a model file."""
    return DescError("model", [Problem(code, path, found, expected, why, remedy)])


@dataclass(frozen=True)
class Folders:
    """Where a model's files lie.

    Attributes:
        inputs: looked through in this order: the model's own folder (or the one given for it), then the current directory.
        output: the folder below which files are written.
    """

    inputs: tuple[Path, ...]
    output: Path

    @classmethod
    def of(cls, model: Path, input_path: Path | None = None, output_path: Path | None = None) -> Folders:
        """The folders of a model file, as the options of the command line change them."""
        here = Path.cwd()
        return cls((input_path or model.parent, here), output_path or here)

    def source(self, name: str, member: str) -> Path:
        """The file that a `sourcePath` names; `member` is the path of that member in its part.

        Raises:
            DescError: there is none, or it lies outside the input folders (links are followed first).
        """
        roots = [folder.resolve() for folder in self.inputs]
        looked: list[Path] = []
        for root in roots:
            path = _below(root, name, member)
            if any(path.is_relative_to(allowed) for allowed in roots):
                looked.append(path)
                if path.is_file():
                    return path
        if not looked:
            expected = f"a file below {' or '.join(map(str, dict.fromkeys(roots)))}"
            raise refuse("file.outside", member, f"{name!r}, outside the input folders", expected, remedy="give --input_path")
        expected = " or ".join(map(str, dict.fromkeys(looked)))
        raise refuse("file.missing", member, f"{name!r}, no file", expected)

    def target(self, name: str) -> Path:
        """The file that `targetPath` names; its folders are not made yet.

        Raises:
            DescError: it lies outside the output folder.
        """
        root = self.output.resolve()
        path = _below(root, name, "targetPath")
        if not path.is_relative_to(root) or path == root:
            raise refuse(
                "file.outside", "targetPath", f"{name!r}, outside the output folder", f"a file below {root}", remedy="give --output_path"
            )
        return path


def _below(root: Path, name: str, member: str) -> Path:
    try:
        # Model files come from Windows too.
        return (root / name.replace("\\", "/")).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise refuse("file.name", member, repr(name), "the name of a file", str(error)) from None


def read_npy(path: Path) -> Array:
    """The array of a .npy file, in C order and the machine's own byte order.

    Raises:
        DescError: the file is damaged, holds pickled objects, or elements that no tensor has.
    """
    try:
        # Mapping compares the header with the file's length before any memory is taken.
        stored = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError, OverflowError) as error:
        pickled = "pickle" in str(error) or "Object arrays" in str(error) or "Python objects" in str(error)
        expected = "an array of numbers: files with pickled objects can run programs and are not read" if pickled else "a .npy file"
        raise refuse("npy.pickle" if pickled else "npy.damaged", SOURCE, f"{path.name}", expected, str(error)) from None
    if not isinstance(stored, np.ndarray):
        stored.close()
        raise refuse("npy.damaged", SOURCE, f"{path.name}, an archive", "a .npy file with one array")
    array = np.ascontiguousarray(stored, dtype=stored.dtype.newbyteorder("="))
    try:
        DataType.of(array.dtype)
    except TypeError as error:
        raise refuse("npy.type", SOURCE, f"{path.name} with elements of type {array.dtype}", "a tensor's type", str(error)) from None
    return array


def read_image(path: Path, data_type: DataType, resample: tuple[int, int, int, int] | None) -> Array:
    """A picture as a tensor [1, C, H, W] of values 0 to 1: RGB for three channels, else RGBA; scaled to `resample` if given.

    Raises:
        DescError: the file is no picture, too large, or the tensor's type or channels do not fit.
    """
    if data_type not in IMAGE_TYPES:
        raise refuse("image.type", "initialValuesDataType", str(data_type), "FLOAT32 or FLOAT16 for a picture")
    pillow = _pillow(SOURCE, path.name)
    try:
        with warnings.catch_warnings():
            # Pillow only warns of a picture that unpacks to very much: here it is an error.
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            opened = pillow.open(path, formats=("PNG", "JPEG"))
        with opened:
            width, height = opened.size
            if resample is not None:
                _, channels, height, width = resample
            else:
                channels = 3 if opened.mode == "RGB" else 4
            picture = opened.convert({1: "L", 3: "RGB"}.get(channels, "RGBA"))
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise refuse("image.size", SOURCE, path.name, "a picture of fewer pixels", str(error)) from None
    except (OSError, SyntaxError, ValueError) as error:
        raise refuse("image.damaged", SOURCE, path.name, "a PNG or JPEG picture", str(error)) from None
    if picture.size != (width, height):
        picture = picture.resize((width, height), pillow.Resampling.BICUBIC)
    pixels = np.asarray(picture, np.float32).reshape(height, width, -1)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None] / np.float32(255)).astype(data_type.numpy)


def write_npy(path: Path, array: Array) -> None:
    """Writes an array as a .npy file: little-endian, C order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        np.lib.format.write_array(file, array.astype(array.dtype.newbyteorder("<")), version=(1, 0), allow_pickle=False)


def write_image(path: Path, tensor: Array) -> None:
    """Writes a tensor [1, C, H, W] of values 0 to 1 as a picture: grey, RGB or RGBA by its channels.

    Raises:
        DescError: pillow is missing.
    """
    pillow = _pillow("targetPath", path.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = (np.clip(np.nan_to_num(tensor[0].astype(np.float32)), 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    picture: Image = pillow.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    if path.suffix.lower() != ".png" and picture.mode == "RGBA":
        picture = picture.convert("RGB")  # JPEG has no transparency
    picture.save(path, format="PNG" if path.suffix.lower() == ".png" else "JPEG")


def write_bytes(path: Path, data: bytes) -> None:
    """Writes raw bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _pillow(member: str, name: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        expected = "a file without a picture, or pillow to be installed"
        raise refuse("image.pillow", member, f"{name}, a picture", expected, remedy="pip install dmlpy[examples]") from None
    return Image
