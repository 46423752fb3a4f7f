"""The files that a model names. A model is untrusted: it reads below its input folders and writes below the output folder, nowhere else."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief, given_path
from dmlpy.messages.problems import DescError, Problem
from dmlpy.system.files import current_folder, kind_of, replacing, status

if TYPE_CHECKING:
    import os

Array = np.ndarray[Any, Any]
SOURCE = "initialValues.sourcePath"
"""The place where a resource names its file."""


def refuse(code: str, path: str, actual: str, expected: str, *why: str, remedy: str | None = None) -> DescError:
    """The error for one member of a model file."""
    return DescError("model", [Problem(code, path, actual, expected, why, remedy)])


@dataclass(frozen=True)
class Folders:
    """The folders of a model's files.

    Attributes:
        inputs: searched in this order: the model's folder (or the given one), then the current directory.
        output: the folder below which files are written.
    """

    inputs: tuple[Path, ...]
    output: Path

    @classmethod
    def of(cls, model: Path | str, input_path: Path | str | None = None, output_path: Path | str | None = None) -> Folders:
        """The folders of a model file, as changed by the command line's options.

        Raises:
            DescError: an argument is no path.
        """
        here = current_folder()
        first = given_path("Folders", "model", model).parent if input_path is None else given_path("Folders", "input_path", input_path)
        written = (here or Path()) if output_path is None else given_path("Folders", "output_path", output_path)
        return cls((first, *([] if here is None else [here])), written)

    def source(self, name: str, member: str) -> Path:
        """The file that a `sourcePath` names; `member` is that member's path in its part.

        Raises:
            DescError: it does not exist, cannot be accessed, or is outside the input folders (after following links).
        """
        roots = [folder.resolve() for folder in self.inputs]
        looked: list[Path] = []
        for root in roots:
            path = _below(root, name, member)
            if any(path.is_relative_to(allowed) for allowed in roots):
                looked.append(path)
                status = _status(path, name, member)
                if status is not None and stat.S_ISREG(status.st_mode):
                    return path
        if not looked:
            expected = f"a file below {' or '.join(map(str, dict.fromkeys(roots)))}"
            raise refuse("file.outside", member, f"{brief(name)}, outside the input folders", expected, remedy="pass --input_path")
        expected = " or ".join(map(str, dict.fromkeys(looked)))
        raise refuse("file.missing", member, f"{brief(name)}, no file", expected)

    def target(self, name: str) -> Path:
        """The file that `targetPath` names; its folders are not created yet.

        Raises:
            DescError: it is outside the output folder, or is not a regular file: a folder, a pipe, a device.
        """
        try:
            root = self.output.resolve()
        except FileNotFoundError:
            actual = f"{brief(name)}, below the current folder, which has been removed"
            raise refuse("file.missing", "targetPath", actual, "an output folder", remedy="pass --output_path") from None
        path = _below(root, name, "targetPath")
        if not path.is_relative_to(root) or path == root:
            actual = f"{brief(name)}, outside the output folder"
            raise refuse("file.outside", "targetPath", actual, f"a file below {root}", remedy="pass --output_path")
        there = _status(path, name, "targetPath")
        if there is not None and not stat.S_ISREG(there.st_mode):
            actual = f"{brief(name)}, {kind_of(there.st_mode)}"
            raise refuse("file.kind", "targetPath", actual, "a file, or a name that does not exist yet")
        return path


def _below(root: Path, name: str, member: str) -> Path:
    try:
        # Model files come from Windows too.
        return (root / name.replace("\\", "/")).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise refuse("file.name", member, brief(name), "the name of a file", str(error)) from None


def _status(path: Path, name: str, member: str) -> os.stat_result | None:
    try:
        return status(path)
    except OSError as error:  # a name that is too long, a folder that may not be read
        actual = f"{brief(name)}: {error.strerror or error}"
        raise refuse("file.unreadable", member, actual, "the name of a file that can be read") from None


def write_npy(path: Path, array: Array) -> None:
    """Writes an array as a .npy file atomically: little-endian, C order."""
    with replacing(path) as file:
        np.lib.format.write_array(file, array.astype(array.dtype.newbyteorder("<")), version=(1, 0), allow_pickle=False)
