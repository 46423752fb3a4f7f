"""Fuzzes the kernels that are stored on disk: damaged files, other users' folders, links, swapped folders, racing processes.

    python -m tests.fuzzing.cache --seconds 60 --seed 1

Promises: what is read is what was written for this key, by this user, or nothing; nothing outside the store's own folder is read or
written; and no state of the disk keeps a kernel from being compiled.
"""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dmlpy.devices.persistence.image_store import ImageStore, cache_directory
from tests.fuzzing.tally import FuzzRun, run

ELSEWHERE = b"belongs to somebody else"
KEY = hashlib.sha256(b"a kernel").hexdigest()


def content(key: str) -> tuple[bytes, str]:
    """Image and symbol of a key, so that whoever reads them knows them."""
    source = random.Random(key)
    return source.randbytes(source.choice([0, 1, 1000, 100_000])), f"symbol_{key[:8]}"


def _on_disk(key: str, image: bytes, symbol: bytes) -> bytes:
    data = symbol + b"\0" + image
    return hashlib.sha256(key.encode() + b"\0" + data).digest() + data


def _in_a_folder(attempt: Callable[[FuzzRun, Path], str]) -> Callable[[FuzzRun], str]:
    def within(fuzz: FuzzRun) -> str:
        with tempfile.TemporaryDirectory() as name:
            base, chosen = Path(name), os.environ.get("DMLPY_CACHE_DIR")
            os.environ["DMLPY_CACHE_DIR"] = str(base / "kernels")
            try:
                return attempt(fuzz, base)
            finally:
                if chosen is None:
                    del os.environ["DMLPY_CACHE_DIR"]
                else:
                    os.environ["DMLPY_CACHE_DIR"] = chosen
                for path in [base, *base.rglob("*")]:
                    if path.is_dir() and not path.is_symlink():
                        path.chmod(0o700)

    return within


def files(fuzz: FuzzRun, base: Path) -> str:
    """Something else in the place of a kernel's file, from a flipped bit to a pipe."""
    chance = fuzz.chance
    store = ImageStore.open()
    fuzz.promise(store, "no store in a folder of one's own")
    assert store is not None
    image, symbol = content(KEY)
    store.write(KEY, image, symbol)
    fuzz.promise(store.read(KEY) == (image, symbol), "what was written is not read")
    file, victim = base / "kernels" / KEY, base / "victim"
    victim.write_bytes(ELSEWHERE)
    data = bytearray(file.read_bytes())
    kind = chance.choice(
        ["flip", "cut", "more", "empty", "link", "hard link", "folder", "pipe", "mode", "gone", "sparse", "text", "socket"]
    )
    file.unlink()
    if kind == "flip":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
    elif kind == "cut":
        file.write_bytes(data[: chance.randrange(len(data))])
    elif kind == "more":
        file.write_bytes(data + chance.randbytes(chance.randrange(1, 40)))
    elif kind == "empty":
        file.touch()
    elif kind == "link":
        target = chance.choice([victim, base / "nowhere", Path("/dev/zero"), Path("/dev/full"), file])
        if chance.random() < 0.3:
            victim.write_bytes(bytes(data))
        file.symlink_to(target)
    elif kind == "hard link":
        victim.chmod(0o666)
        victim.write_bytes(bytes(data))
        os.link(victim, file)
    elif kind == "folder":
        file.mkdir()
        (file / "x").touch()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "mode":
        file.write_bytes(data)
        file.chmod(chance.choice([0o620, 0o602, 0o666, 0o777]))
    elif kind == "sparse":
        with file.open("wb") as large:
            large.truncate(1 << 40)
    elif kind == "text":
        file.write_bytes(_on_disk(file.name, b"image", b"\xff\xfe"))
    elif kind == "socket":
        import socket

        with socket.socket(socket.AF_UNIX) as listener:
            here = os.open(file.parent, os.O_RDONLY)
            try:
                listener.bind(f"/proc/self/fd/{here}/{KEY}")
            finally:
                os.close(here)
    before = victim.read_bytes()
    fuzz.promise(ImageStore.read(store, KEY) is None, f"{kind}: read what was not written")
    store.write(KEY, image, symbol)
    fuzz.promise(victim.read_bytes() == before, f"{kind}: wrote elsewhere")
    again = store.read(KEY)
    fuzz.promise(again == (image, symbol) or (kind == "folder" and again is None), f"{kind}: cannot be mended")
    names = {path.name for path in (base / "kernels").iterdir()}
    fuzz.promise(names == {KEY}, f"{kind}: left {len(names) - 1} files")
    return kind


def folders(fuzz: FuzzRun, base: Path) -> str:
    """A folder that is not a store: another user's, for all to write, a file, a link to nowhere, no room, names of all kinds."""
    chance = fuzz.chance
    folder = base / "kernels"
    kind = chance.choice(["mode", "file", "dangling", "loop", "own link", "long", "parent", "unwritable", "name", "owner"])
    private = kind in ("own link", "name")
    if kind == "mode":
        folder.mkdir()
        folder.chmod(chance.choice([0o777, 0o770, 0o702, 0o1777]))
    elif kind == "file":
        folder.write_bytes(b"x")
    elif kind == "dangling":
        folder.symlink_to(base / "nowhere")
    elif kind == "loop":
        folder.symlink_to(folder)
    elif kind == "own link":
        (base / "real").mkdir(mode=0o700)
        folder.symlink_to(base / "real")
    elif kind == "long":
        os.environ["DMLPY_CACHE_DIR"] = str(base / ("x" * 300))
    elif kind == "parent":
        folder.write_bytes(b"x")
        os.environ["DMLPY_CACHE_DIR"] = str(folder / "below")
    elif kind == "unwritable":
        folder.mkdir(mode=0o500)
    elif kind == "name":
        os.environ["DMLPY_CACHE_DIR"] = str(base / chance.choice(["a b", "ü", "-x", "..x", "\n", "%s{}"]))
    elif kind == "owner":
        if os.getuid() != 0:
            return "owner: not root"
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, 12345)
    store = ImageStore.open()
    fuzz.promise(kind == "unwritable" or (store is not None) == private, f"{kind}: {'' if store else 'no '}store")
    if store is not None:
        image, symbol = content(KEY)
        store.write(KEY, image, symbol)
        fuzz.promise(store.read(KEY) in (None, (image, symbol)), f"{kind}: read what was not written")
    return kind


def swaps(fuzz: FuzzRun, base: Path) -> str:
    """While a store is open, its folder is moved away, and another one with planted files takes its place."""
    chance = fuzz.chance
    store = ImageStore.open()
    assert store is not None
    keys = [hashlib.sha256(bytes([index])).hexdigest() for index in range(4)]
    folder, planted = base / "kernels", {name: _on_disk(name, b"planted", b"planted") for name in keys}
    own = folder.stat().st_ino
    swapped = 0
    for step in range(chance.randrange(1, 6)):
        if chance.random() < 0.5:
            swapped += 1
            folder.rename(base / f"moved {step}")
            other = base / f"other {step}" if chance.random() < 0.5 else folder
            other.mkdir(mode=chance.choice([0o700, 0o777]))
            if other != folder:
                folder.symlink_to(other)
            for name in keys:
                (folder / name).write_bytes(planted[name])
        key = chance.choice(keys)
        store.write(key, *content(key))
        fuzz.promise(store.read(key) == content(key), "what was written is not read")
        for name in keys:
            fuzz.promise(store.read(name) in (None, content(name)), "a planted image is read")
    for found in base.iterdir():
        if not found.is_symlink() and found.stat().st_ino != own:
            fuzz.promise({path.read_bytes() for path in found.iterdir()} <= {*planted.values()}, "a swapped folder is written")
    return f"{swapped} swaps"


RACER = """
import sys
from dmlpy.devices.persistence.image_store import ImageStore
from tests.fuzzing.cache import content
store, seed = ImageStore.open(), int(sys.argv[1])
for round in range(40):
    for name in "abc":
        key = name * 64
        found = store.read(key)
        assert found in (None, content(key)), "torn"
        store.write(key, *content(key))
        assert store.read(key) == content(key), "lost"
"""


def races(fuzz: FuzzRun, base: Path) -> str:
    """Processes that write and read the same keys."""
    racers = [subprocess.Popen([sys.executable, "-c", RACER, str(seed)], stderr=subprocess.PIPE, text=True) for seed in range(3)]
    told = [racer.communicate()[1] for racer in racers]
    fuzz.promise(all(racer.returncode == 0 for racer in racers), f"a racer found: {''.join(told)[-200:]}")
    names = {path.name for path in (base / "kernels").iterdir()}
    fuzz.promise(names == {name * 64 for name in "abc"}, f"{len(names)} files are left")
    return "agree"


def homes(fuzz: FuzzRun, base: Path) -> str:
    """Environments of all kinds."""
    saved = dict(os.environ)
    try:
        del os.environ["DMLPY_CACHE_DIR"]
        for name in ("HOME", "XDG_CACHE_HOME"):
            given = fuzz.chance.choice(
                [None, "", "relative", str(base), str(base / "missing"), "/proc/nowhere", "/dev/null", "~", "x" * 5000]
            )
            os.environ.pop(name, None)
            if given is not None:
                os.environ[name] = given
        here = os.getcwd()
        os.chdir(base)
        try:
            folder, store = cache_directory(), ImageStore.open()
        finally:
            os.chdir(here)
        fuzz.promise(folder is not None or store is None, "a store without a folder")
        return "store" if store else "none"
    finally:
        os.environ.clear()
        os.environ.update(saved)


KINDS = {attempt.__name__: _in_a_folder(attempt) for attempt in (files, folders, swaps, races, homes)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer; the status of the process."""
    return run(arguments, __doc__, KINDS)


if __name__ == "__main__":
    sys.exit(main())
