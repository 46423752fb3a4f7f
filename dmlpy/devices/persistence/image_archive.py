"""Compiled kernels in one file, for a machine without a compiler: it unpacks them into its own folder of kernels."""

from __future__ import annotations

import io
import tarfile
import time
from typing import TYPE_CHECKING

from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dmlpy.devices.persistence.image_store import ImageStore


def pack(store: ImageStore, keys: Iterable[str], file: Path) -> int:
    """Writes the images of these keys as a compressed tar archive, replacing an older one. Returns how many there are.

    Raises:
        DeviceError: an image is missing, or the file cannot be written.
    """
    unfinished = file.with_name(f"{file.name}.part")
    names = sorted(set(keys))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(unfinished, "w:gz", compresslevel=6) as archive:
            for name in names:
                data = store.file(name)
                if data is None:
                    raise DeviceError(f"the kernel {name} is not kept, so it cannot be packed")
                member = tarfile.TarInfo(name)
                member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
                archive.addfile(member, io.BytesIO(data))
        unfinished.replace(file)
    except OSError as error:
        raise DeviceError(f"{file} cannot be written: {error}") from error
    return len(names)
