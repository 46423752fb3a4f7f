"""`ImageStore`: compiled kernels on disk, for later processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import sys
import weakref
from pathlib import Path

import platformdirs

from dmlpy.system import forks

_POSIX = sys.platform != "win32"
_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MAX_BYTES = 1 << 28
"""The largest image file; images have some 10 KB to 10 MB."""
_DIGEST_BYTES = hashlib.sha256().digest_size

_IMAGE_NAME = re.compile(r"[0-9a-f]{64}(\.[0-9a-f]{16})?")
"""Names of files that the store wrote: an image, or an unfinished one. Other files in its folder are left alone."""

KEPT_BYTES = 1 << 30
"""Images beyond this are removed, the least recently used ones first."""

_PART = 16
"""The search for such images reads the whole folder: a process does it at its first write and after each such part of `KEPT_BYTES`."""

_written: dict[Path, int] = {}
"""The bytes that this process has written to a folder since its last search."""
_written_lock = forks.lock()


class ImageStore:
    """Compiled kernels, one file each, named by a hash of everything that the kernel depends on. Threads and processes may share it.

    A file holds the SHA-256 of its name and the rest, then the symbol, a zero byte and the image. Anyone who can write here controls code
    in the process and on the GPU, so folders and files that others own or can write to are not used. Images that cannot be read or written
    are recompiled.

    On POSIX the folder is held open, so the store keeps using it even if another user with access to its parent replaces it.
    """

    def __init__(self, folder: Path, descriptor: int | None = None) -> None:
        self._folder = folder
        self._descriptor = descriptor
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)

    @classmethod
    def open(cls) -> ImageStore | None:
        """Opens the user's store and creates it if it is missing; None if there is no private folder.

        There is none for a process that runs for one user with the rights of another: the configured folder is one's, its files
        the other's.
        """
        folder = cache_directory()
        if folder is None or (_POSIX and os.getuid() != os.geteuid()):
            return None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _POSIX:
                return cls(folder)
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        store = cls(folder, descriptor)
        return store if _is_private(os.fstat(descriptor)) else None

    def read(self, key: str) -> tuple[bytes, str] | None:
        """The image and symbol of a kernel; None if the file is missing or damaged."""
        data = self.file(key)
        if data is None:
            return None
        symbol, _, image = data[_DIGEST_BYTES:].partition(b"\0")
        return (image, symbol.decode()) if symbol.isascii() else None

    def file(self, key: str) -> bytes | None:
        """The whole file of a kernel, for an archive; None if it is missing or damaged."""
        try:
            # Does not block if the path is a pipe.
            with os.fdopen(self._open(key, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
                state = os.fstat(file.fileno())
                if not stat.S_ISREG(state.st_mode) or not _is_private(state) or state.st_size > _MAX_BYTES:
                    return None
                data = file.read()
                if os.utime in os.supports_fd:
                    os.utime(file.fileno())  # marks it as recently used, so that it is evicted later
        except OSError:
            return None
        return data if _digest(key, data[_DIGEST_BYTES:]) == data[:_DIGEST_BYTES] else None

    def write(self, key: str, image: bytes, symbol: str) -> None:
        """Stores an image so that readers find all of it or nothing. If the folder cannot be written, nothing is stored.

        The least recently used images are removed when all of them exceed `KEPT_BYTES`, by up to a sixteenth.
        """
        content = symbol.encode() + b"\0" + image
        temporary = f"{key}.{secrets.token_hex(8)}"
        with contextlib.suppress(OSError):
            descriptor = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_digest(key, content) + content)
                os.replace(self._place(temporary), self._place(key), src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            except BaseException:
                os.unlink(self._place(temporary), dir_fd=self._descriptor)
                raise
        with _written_lock:
            written = _written[self._folder] = _written.get(self._folder, KEPT_BYTES) + len(content)
        if written > KEPT_BYTES // _PART:
            self._make_room()

    def sizes(self) -> dict[str, int]:
        """The bytes of each stored file by its name.

        Raises:
            OSError: the folder cannot be read.
        """
        return {name: state.st_size for state, name in self._states()}

    def clear(self) -> None:
        """Removes all stored images. What processes have loaded stays in their memory.

        Raises:
            OSError: one cannot be removed.
        """
        for name in self.sizes():
            with contextlib.suppress(FileNotFoundError):  # another process was faster
                os.unlink(self._place(name), dir_fd=self._descriptor)

    def _states(self) -> list[tuple[os.stat_result, str]]:
        with os.scandir(self._folder if self._descriptor is None else self._descriptor) as entries:
            return [(entry.stat(follow_symlinks=False), entry.name) for entry in entries if _IMAGE_NAME.fullmatch(entry.name)]

    def _make_room(self) -> None:
        with _written_lock:
            _written[self._folder] = 0
        with contextlib.suppress(OSError):
            states = self._states()
            excess = sum(state.st_size for state, _ in states) - KEPT_BYTES
            for state, name in sorted(states, key=lambda item: item[0].st_mtime_ns):
                if excess <= 0:
                    break
                os.unlink(self._place(name), dir_fd=self._descriptor)
                excess -= state.st_size

    def _place(self, name: str) -> str | Path:
        return self._folder / name if self._descriptor is None else name

    def _open(self, name: str, flags: int) -> int:
        return os.open(self._place(name), flags | _FLAGS, 0o600, dir_fd=self._descriptor)


def _digest(key: str, content: bytes) -> bytes:
    """The header of a file. It includes the name, so a file that replaces another one is detected."""
    return hashlib.sha256(key.encode() + b"\0" + content).digest()


def _is_private(state: os.stat_result) -> bool:
    """Returns whether a folder or file belongs to this user and no other user can write to it."""
    return not _POSIX or (state.st_uid == os.geteuid() and not state.st_mode & 0o022)


def cache_directory() -> Path | None:
    """The folder of compiled kernels: `DMLPY_CACHE_DIR`, else a folder in the user's cache; None if the user has no home directory."""
    chosen = os.environ.get("DMLPY_CACHE_DIR")
    if chosen:
        return Path(chosen)
    # In a container there may be neither HOME nor an entry in the user database: platformdirs raises, or leaves the tilde.
    with contextlib.suppress(RuntimeError):
        folder = platformdirs.user_cache_path("dmlpy", appauthor=False) / "kernels"
        if folder.is_absolute():
            return folder
    return None
