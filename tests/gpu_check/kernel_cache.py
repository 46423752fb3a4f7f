"""Compiled kernels as one file, so that the next call need not compile them again, on whatever machine it runs."""

from __future__ import annotations

import tarfile
from pathlib import Path


def pack(folder: Path, file: Path) -> int:
    """Puts all kernels of a folder into a file; an older one is replaced as a whole. How many there are."""
    kernels = sorted(path for path in folder.iterdir() if not path.name.startswith("tmp"))  # that is how half-written ones are called
    unfinished = file.with_name(f"{file.name}.part")
    with tarfile.open(unfinished, "w:gz", compresslevel=6) as archive:
        for path in kernels:
            archive.add(path, path.name)
    unfinished.replace(file)
    return len(kernels)


def unpack(file: Path, folder: Path) -> int:
    """The reverse. How many there are.

    Raises:
        OSError: the file cannot be read.
        tarfile.TarError: it is none of `pack`'s.
    """
    with tarfile.open(file, "r:gz") as archive:
        members = archive.getmembers()
        for member in members:
            if not member.isfile() or Path(member.name).name != member.name:
                raise tarfile.ReadError(f"{member.name!r} is no kernel")
        archive.extractall(folder, members, filter="data")
    return len(members)
