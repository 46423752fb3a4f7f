"""Files are read without waiting, and written whole or not at all."""

from __future__ import annotations

import importlib
import json
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from onnx import TensorProto
from onnx.helper import make_node

if sys.platform == "win32":
    pytest.skip("pipes, limits and permissions are those of POSIX", allow_module_level=True)

import resource

import dmlpy as dml
from dmlpy import onnx, x
from dmlpy.bench.records import Record
from dmlpy.bench.references import References
from dmlpy.cli.main import app
from dmlpy.dxdispatch import text
from dmlpy.dxdispatch.files import write_npy
from dmlpy.dxdispatch.pictures import write_image
from dmlpy.graphs.serialized import load_serialized
from dmlpy.keras.model_files import load_model
from dmlpy.keras.models import Sequential
from dmlpy.keras.simple import Dense
from dmlpy.system import files
from tests.support.onnx.models import model

RNG = np.random.default_rng(3)
LIMIT = 5000
"""The bytes of a file at which writing fails, as on a full disk."""
OLD = b"what was there before"


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 34)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is at most 100 bytes long
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _nothing(path: Path) -> None:
    del path


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (_pipe, "a pipe, not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device, not a regular file"),
    "folder": (lambda path: path.mkdir(), "a folder, not a regular file"),
    "sparse": (_sparse, "17179869184 bytes, of which the disk holds 0: the rest are holes"),
    "missing": (_nothing, "No such file"),
    "circle of links": (lambda path: path.symlink_to(path), "Too many levels"),
}
KINDS = pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED.keys())


@KINDS
def test_what_is_no_file_is_not_read(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    make(path)
    with pytest.raises(OSError, match=message):
        files.read(path, 1 << 40)


def test_a_socket_is_not_read(tmp_path: Path) -> None:
    _socket(tmp_path / "file")
    with pytest.raises(OSError):  # noqa: PT011  (Linux raises ENXIO before it is looked at)
        files.read(tmp_path / "file", 1)


def test_no_more_is_read_than_wanted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    assert files.read(path, 100) == bytes(100)
    with pytest.raises(OSError, match="100 bytes, of at most 99 that are read"):
        files.read(path, 99)


@KINDS
def test_what_is_no_file_is_no_onnx_model(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    make(path)
    with pytest.raises(dml.DescError, match=message):
        onnx.load(path)
    for command in (["check"], ["onnx", "check"], ["onnx", "run"]):
        found = typer.testing.CliRunner().invoke(app, [*command, str(path)])
        assert isinstance(found.exception, SystemExit)
        assert found.exit_code == 2
        assert message in found.output


READERS: dict[str, Callable[[Path], object]] = {
    "record of a benchmark": Record.load,
    "references": References.load,
    "graph dump": load_serialized,
    "weights": lambda path: load_model(path, device="numpy"),
    "text": text.read,
}
"""What reads files of all other kinds."""


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "sparse"])
@pytest.mark.parametrize("reader", READERS)
def test_nothing_else_reads_what_is_no_file(reader: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    REFUSED[kind][0](path)
    with pytest.raises(dml.DmlError, match=r"not a regular file|directory|holes|at most"):
        READERS[reader](path)


@KINDS
def test_what_is_no_file_is_no_input(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    path, net = tmp_path / "x.npy", tmp_path / "net.onnx"
    make(path)
    net.write_bytes(model([make_node("Relu", ["x"], ["y"])], {"x": [2]}, ["y"]).SerializeToString())
    found = typer.testing.CliRunner().invoke(app, ["onnx", "run", str(net), "--device", "numpy", "--input", f"x={path}"])
    assert (found.exit_code, message in found.stderr, "file.unreadable" in found.stderr) == (2, True, True)


def test_external_data_is_stored(tmp_path: Path) -> None:
    _sparse(tmp_path / "weights.bin")
    built = model([make_node("Add", ["x", "w"], ["y"])], {"x": [1 << 32]}, ["y"], constants={"w": np.zeros(1, np.float32)})
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.dims[:], tensor.data_location = [1 << 32], TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    (tmp_path / "net.onnx").write_bytes(built.SerializeToString())
    with pytest.raises(dml.DescError, match="of which the disk holds 0"):
        onnx.load(tmp_path / "net.onnx")


@contextmanager
def full_disk() -> Iterator[None]:
    """Lets files have no more than some bytes; Python ignores the signal and raises OSError.

    But not where it stores the byte code of what is imported: that it would cut, and later processes could not import the module.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    stores, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = stores


def test_no_byte_code_is_stored_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_on_a_full_disk.py").write_text(f"text = {'x' * 2 * LIMIT!r}\n")
    with full_disk():
        importlib.import_module("imported_on_a_full_disk")
    assert not (tmp_path / "__pycache__").exists()


def _large(path: Path) -> None:
    files.write_bytes(path, bytes(2 * LIMIT))


def _piecewise(path: Path) -> None:
    with files.replacing(path) as file:
        for _ in range(20):
            file.write(bytes(LIMIT // 10))
            file.flush()


def _interrupted(path: Path) -> None:
    with files.replacing(path) as file:
        file.write(bytes(10))
        raise KeyboardInterrupt


def _keras(path: Path) -> None:
    built = Sequential(device="numpy")
    built.add(Dense(40, input_dim=50))
    built.save(path)


WRITERS: dict[str, Callable[[Path], Any]] = {
    "bytes": _large,
    "text": lambda path: files.write_text(path, "x" * 2 * LIMIT),
    "pieces": _piecewise,
    "interrupted": _interrupted,
    "npy": lambda path: write_npy(path, RNG.random(LIMIT)),
    "picture": lambda path: write_image(path, RNG.random((1, 3, 400, 400)).astype(np.float32)),
    "keras": _keras,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
def test_a_write_that_fails_destroys_nothing(write: Callable[[Path], Any], is_new: bool, tmp_path: Path) -> None:
    path = tmp_path / "result.npy"
    if not is_new:
        path.write_bytes(OLD)
    with full_disk(), pytest.raises((OSError, KeyboardInterrupt)):
        write(path)
    assert not path.exists() if is_new else path.read_bytes() == OLD
    assert {item.name for item in tmp_path.iterdir()} <= {"result.npy"}


def _net(folder: Path) -> Path:
    """A model that gives 20,000 bytes."""
    constants = {"w": np.arange(LIMIT, dtype=np.float32)}
    path = folder / "net.onnx"
    path.write_bytes(model([make_node("Relu", ["w"], ["result"])], {}, ["result"], constants=constants).SerializeToString())
    return path


def _resource_model(folder: Path, target: str) -> Path:
    """A model for DxDispatch that writes 20,000 bytes."""
    values = {"valueCount": LIMIT, "valueStart": 0, "valueDelta": 1}
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": values}
    command = {"type": "writeFile", "resource": "r", "targetPath": target}
    path = folder / "model.json"
    path.write_text(json.dumps({"resources": {"r": resource}, "dispatchables": {}, "commands": [command]}))
    return path


def _graph(folder: Path) -> Path:
    """A graph whose model of ONNX is long, by its names."""
    found = x.input("x" * 3 * LIMIT, [2, 3])
    path = folder / "graph.json"
    path.write_text(json.dumps(x.activation_relu(found).graph().to_dict()))
    return path


COMMANDS: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "run, .npy": ("result.npy", lambda folder: ["run", str(_resource_model(folder, "result.npy")), "--output_path", str(folder)]),
    "run, .bin": ("result.bin", lambda folder: ["run", str(_resource_model(folder, "result.bin")), "--output_path", str(folder)]),
    "onnx run": ("result.npy", lambda folder: ["onnx", "run", str(_net(folder)), "--output", str(folder)]),
    "onnx export": ("graph.onnx", lambda folder: ["onnx", "export", str(_graph(folder))]),
    "schemas": ("DML_GEMM_OPERATOR_DESC.json", lambda folder: ["schemas", "--folder", str(folder)]),
}


@pytest.mark.parametrize(("name", "arguments"), COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_that_cannot_write_destroys_nothing(name: str, arguments: Callable[[Path], list[str]], tmp_path: Path) -> None:
    given = [*arguments(tmp_path), *(["--device", "numpy"] if "run" in arguments(tmp_path) else [])]
    (tmp_path / name).write_bytes(OLD)
    before = {item.name for item in tmp_path.iterdir()}
    with full_disk():
        found = typer.testing.CliRunner().invoke(app, given)
    told = "command at index 0 failed" if given[0] == "run" else "cannot be written"
    assert (found.exit_code, told in found.stderr) == (1, True), found.stderr
    assert (tmp_path / name).read_bytes() == OLD
    assert {item.name for item in tmp_path.iterdir()} == before


def test_a_file_retains_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(0o640)
    files.write_bytes(path, b"new")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o640)


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    files.write_bytes(tmp_path / "below" / "file", b"new")
    (tmp_path / "usual").write_bytes(b"")
    assert (tmp_path / "below" / "file").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_stays(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    path, other = tmp_path / "link", tmp_path / "other" / "file"
    path.symlink_to(other)
    for data in (b"first", b"second"):  # the link leads nowhere first
        files.write_bytes(path, data)
        assert (path.is_symlink(), other.read_bytes()) == (True, data)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == OLD


@pytest.mark.parametrize(("make", "message"), [(_pipe, "a pipe"), (lambda path: path.mkdir(), "a folder")], ids=["pipe", "folder"])
def test_what_is_no_file_is_not_replaced(make: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    make(path)
    kind = path.stat().st_mode
    with pytest.raises(OSError, match=f"{message}, not a regular file"):
        files.write_bytes(path, b"new")
    assert path.stat().st_mode == kind


@pytest.mark.parametrize("name", ["a" * 300, "b/" * 3000])
def test_a_name_that_no_file_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    """It is not an absent file, for which Path.is_file takes it from Python 3.14 on."""
    for asked in (files.status, files.is_file, files.size):
        with pytest.raises(OSError, match="too long"):
            asked(tmp_path / name)


def test_what_is_in_a_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(7))
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "lost").symlink_to("nowhere")
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "pipe")
    places = ("file", "link", "lost", "round", "absent", "file/below", "nul\0", "pipe", ".")
    sizes = [files.size(tmp_path / name) for name in places]
    assert sizes == [7, 7, "missing", "missing", "missing", "missing", "missing", "not a regular file", "a directory"]
    assert [files.is_file(tmp_path / name) for name in places] == [True, True, *[False] * 7]
    assert [files.status(tmp_path / name) is None for name in places] == [size == "missing" for size in sizes]


@pytest.mark.usefixtures("removed_folder")
def test_a_file_in_a_removed_folder_is_not_written() -> None:
    with pytest.raises(FileNotFoundError, match="the current folder has been removed: 'model'"):
        files.write_bytes(Path("model"), b"")
