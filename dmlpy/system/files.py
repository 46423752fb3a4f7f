"""Files that are read and written with care: reading never blocks and opens regular files only, writing destroys nothing.

A file that cannot be read or written raises OSError, whose `strerror` gives the reason.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAY_BE_SPARSE = 1 << 28
"""Files of this many bytes are read whatever the disk holds of them."""
_MOST_HOLES = 8
"""How many times larger a longer file may be than what the disk holds of it: file systems that compress do not do better with weights."""
_BLOCK = 512
"""Bytes of a block, as `stat` counts them."""


def current_folder() -> Path | None:
    """The current folder; None if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def opened(path: Path) -> BinaryIO:
    """Opens a regular file for reading.

    Raises:
        OSError: it cannot be opened, is a folder, a pipe or a device, or has hardly anything but holes: a few bytes of a disk would take as
            much memory as their author likes.
    """
    # A pipe without a writer would be waited for without end.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        if (reason := refusal(status)) is not None:
            raise OSError(errno.EINVAL, reason, str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def status(path: Path) -> os.stat_result | None:
    """The result of `stat` for a file; None if no file has this name, or can have it. Links are followed.

    Unlike `Path.is_file`, which from Python 3.14 on takes any error for an absent file.

    Raises:
        OSError: that cannot be found out: the name is too long, or a folder may not be entered.
    """
    try:
        return path.stat()
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    except ValueError:  # a character that no name has
        return None


def is_file(path: Path) -> bool:
    """Whether there is a regular file of this name; raises OSError as `status` does."""
    file_status = status(path)
    return file_status is not None and stat.S_ISREG(file_status.st_mode)


def size(path: Path) -> int | str:
    """The bytes of a regular file, or what there is instead: "missing", "a directory"; raises OSError as `status` does."""
    file_status = status(path)
    if file_status is None:
        return "missing"
    if stat.S_ISREG(file_status.st_mode):
        return file_status.st_size
    return "a directory" if stat.S_ISDIR(file_status.st_mode) else "not a regular file"


def refusal(status: os.stat_result) -> str | None:
    """Why a file is not read; None if it is."""
    if not stat.S_ISREG(status.st_mode):
        return f"{kind_of(status.st_mode)}, not a regular file"
    blocks = getattr(status, "st_blocks", None)
    if blocks is not None and status.st_size > _MAY_BE_SPARSE and blocks * _BLOCK * _MOST_HOLES < status.st_size:
        return f"{status.st_size} bytes, of which the disk holds {blocks * _BLOCK}: the rest are holes"
    return None


def kind_of(mode: int) -> str:
    """Names the kind of what is not a regular file, by the mode that `stat` gives."""
    device, kinds = "a device", {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kinds |= {stat.S_IFCHR: device, stat.S_IFBLK: device}
    return kinds.get(stat.S_IFMT(mode), "something else")


def read(path: Path, most: int) -> bytes:
    """The bytes of a regular file.

    Args:
        path: the file.
        most: the most bytes that it may have.

    Raises:
        OSError: it cannot be read, or is longer.
    """
    with opened(path) as file:
        return file.read(limited_size(file, path, most))


def limited_size(file: BinaryIO, path: Path, most: int) -> int:
    """The bytes of a file that `opened` opened.

    Raises:
        OSError: they are more than `most`.
    """
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise OSError(errno.EFBIG, f"{size} bytes, of at most {most} that are read", str(path))
    return size


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file that replaces another one when it is complete; if anything fails, it is removed and the other one is unchanged.

    The folders above are created. A link stays, and what it leads to is replaced. The new file has the old one's permissions. Other hard
    links to the old one keep what it held.

    Raises:
        OSError: the file may not be written, is not a regular one, or no file can be created in its folder.
    """
    try:
        target = path.resolve()
    except FileNotFoundError:  # a relative path in a removed folder
        raise FileNotFoundError(errno.ENOENT, "the current folder has been removed", str(path)) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    old = status(target)
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, f"{kind_of(old.st_mode)}, not a regular file", str(path))
    if old is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    unfinished = target.with_name(f".dmlpy-{secrets.token_hex(8)}.unfinished")
    # Made here, so that what is there already is not followed, and so that the process's mask of permissions counts.
    os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield unfinished
        if old is not None:
            unfinished.chmod(stat.S_IMODE(old.st_mode))
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Opens a file for writing that takes the place of another one, as `beside` does."""
    with beside(path) as unfinished, unfinished.open("wb") as file:
        yield file


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Writes a text in UTF-8, whole or not at all; its line ends stay."""
    write_bytes(path, text.encode("utf-8"))
