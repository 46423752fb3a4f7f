"""Untrusted files that a model names: each is refused with a DmlError, before it costs time or memory."""

from __future__ import annotations

import os
import sys
import tracemalloc
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.dxdispatch import Folders, ModelError, RunError, load, run
from dmlpy.dxdispatch.checker import check_file
from dmlpy.dxdispatch.files import SOURCE
from dmlpy.dxdispatch.npy import read_array, read_header
from dmlpy.system.files import write_bytes
from tests.support.dxdispatch.models import Data, put, resource_model, rnn_model, write


def npy(header: str | bytes, data: bytes = bytes(64), version: tuple[int, int] = (1, 0), length: int | None = None) -> bytes:
    """A .npy file with this header, whatever its content."""
    text = header if isinstance(header, bytes) else header.encode("latin-1")
    count = (len(text) if length is None else length).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + count + text + data


def described(descr: str = "'<f4'", shape: str = "(4,)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


HOSTILE_NPY: list[tuple[bytes, str]] = [
    # Types without size: NumPy divides by it.
    *((npy(described(descr, "(-1,)")), "npy.damaged") for descr in ("{}", "[]", "'|V0'", "'|S0'")),
    *((npy(described(descr)), "npy.type") for descr in ("{}", "[]", "'|V0'", "'|S0'", "'<U2'", "'<f3'", "'f1'", "'<c8'", "'|b1'", "'<M8'")),
    (npy(described("[('a', '<f4'), ('b', 'O')]")), "npy.type"),
    (npy(described("'|O'")), "npy.pickle"),
    # Sizes.
    *((npy(described(shape=shape)), "npy.damaged") for shape in ("(-1,)", "(-4, -1)", "(2.0,)", "4", "()) + (", "(True,)", "[4]", "(4,,)")),
    *(
        (npy(described(shape=shape)), "npy.damaged")
        for shape in ("(2**40,)", f"({2**62}, {2**62})", f"({10**19},)", f"({10**30},)", "(17,)")
    ),
    (npy(described(shape=f"({'1, ' * 33})")), "npy.damaged"),
    (npy(described(order="0")), "npy.damaged"),
    # Headers that are not headers.
    *((npy(header), "npy.damaged") for header in ("", "{}", "[1]", "{'descr': ", "{'descr': '<f4'", "((((((", "'\\", "\0\0", "lambda: 0")),
    (npy("(" * 9000), "npy.damaged"),
    (npy("{'shape': (" + "1," * 4900), "npy.damaged"),
    (npy(described()[:-3] + ", 'more': 1}"), "npy.damaged"),
    (npy(described() * 2), "npy.damaged"),
    (npy(described() + " " * 11_000), "npy.damaged"),
    (npy(described(), length=60_000), "npy.damaged"),
    (npy(described(), version=(2, 0), length=2**32 - 1), "npy.damaged"),
    (npy(described(), version=(9, 9)), "npy.damaged"),
    # Other files.
    *(
        (data, "npy.damaged")
        for data in (b"", b"\x93", b"\x93NUMPY", b"\x93NUMPY\x01", b"PK\x03\x04 no archive", b"PK\x05\x06" + bytes(18))
    ),
    (b"\x80\x04.", "npy.pickle"),
]


@pytest.mark.parametrize(("data", "code"), HOSTILE_NPY)
def test_hostile_npy_files_are_refused(tmp_path: Path, data: bytes, code: str) -> None:
    (tmp_path / "x.npy").write_bytes(data)
    report = check_file(write(tmp_path, resource_model(initialValues={"sourcePath": "x.npy"})))
    assert [problem.code for finding in report.findings for problem in finding.problems] == [code], report.text()
    assert len(report.text()) < 2000


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 3, 2), (1,) * 32])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "|i1", ">i2", "<i4", ">i8", "|u1", "<u2", ">u4", "<u8"])
def test_npy_files_read_as_numpy_reads_them(tmp_path: Path, version: tuple[int, int], shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape).astype(dtype)
    orders: tuple[Literal["C", "F"], ...] = ("C", "F")
    for order in orders:
        with (tmp_path / "x.npy").open("wb") as file:
            np.lib.format.write_array(file, np.asarray(array, order=order), version)
        found = read_array(tmp_path / "x.npy", read_header(tmp_path / "x.npy", SOURCE))
        wanted = np.load(tmp_path / "x.npy")
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype.newbyteorder("="))
        assert found.flags.c_contiguous
        assert (found == wanted).all()


def test_npy_headers_of_python_2_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(npy("{'shape': (2L, 2), \"descr\": '<f4', 'fortran_order': False}"))
    assert read_header(tmp_path / "x.npy", SOURCE).sizes == (2, 2)


def test_a_file_that_changes_after_the_model_was_read_fails_the_run(tmp_path: Path) -> None:
    for name, first, second in (
        ("x.npy", npy(described(shape="(4,)")), npy(described(shape="(5,)"))),
        ("y.npy", npy(described(shape="(4,)")), npy("{")),
        ("z.bin", bytes(8), bytes(4)),
    ):
        (tmp_path / name).write_bytes(first)
        form = {} if name.endswith("npy") else {"initialValuesDataType": "FLOAT32"}
        model = load(write(tmp_path, resource_model(initialValues={"sourcePath": name}, **form)))
        (tmp_path / name).write_bytes(second)
        with pytest.raises(RunError, match="resource 'x' cannot be filled"):
            run(model, dml.device("numpy"), inform=str)


def _peak_of_check(path: Path) -> tuple[Any, int]:
    """The report of a check, and the most memory that Python and NumPy took for it."""
    check_file(path)  # imports
    tracemalloc.start()
    try:
        return check_file(path), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LARGE: list[tuple[str, Data]] = [
    *((data_type, {"valueCount": 2**26, "value": 1}) for data_type in ("UINT8", "UINT4")),
    *((data_type, {"valueCount": 2**26, "valueStart": 0, "valueDelta": 1}) for data_type in ("UINT8", "UINT4")),
    *((data_type, {"sourcePath": "large.bin"}) for data_type in ("UINT8", "UINT4")),
    ("UINT8", {"sourcePath": "large.npy"}),
]


@pytest.mark.parametrize(("data_type", "values"), LARGE)
def test_checks_allocate_no_values_that_the_file_does_not_spell_out(tmp_path: Path, data_type: str, values: Data) -> None:
    for name, start in (("large.npy", npy(described("'|u1'", f"({2**26},)"), b"")), ("large.bin", b"")):
        with (tmp_path / name).open("wb") as file:
            file.write(start)
            file.truncate(len(start) + 2**26)
    report, peak = _peak_of_check(write(tmp_path, resource_model(initialValuesDataType=data_type, initialValues=values)))
    assert report.findings == ()
    assert peak < 2**22


def _png(width: int, height: int) -> bytes:
    """A picture of few bytes and many pixels, all of them there."""
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([1, 0, 0, 0, 0])  # one bit a pixel
    rows = zlib.compress(bytes((width + 7) // 8 + 1) * height, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_pictures_of_too_many_pixels_are_refused_before_they_are_decoded(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "x.png").write_bytes(_png(9400, 9400))
    path = write(tmp_path, resource_model(initialValuesDataType="FLOAT32", initialValues={"sourcePath": "x.png"}))
    report, peak = _peak_of_check(path)
    assert [problem.code for problem in report.findings[0].problems] == ["image.size"]
    assert "9400 x 9400 pixels" in report.text()
    assert peak < 2**22


def test_progressive_pictures_of_too_many_scans_are_refused(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (64, 64)).save(tmp_path / "x.jpg", progressive=True)
    path = write(tmp_path, resource_model(initialValuesDataType="FLOAT32", initialValues={"sourcePath": "x.jpg"}))
    assert check_file(path).findings == ()
    data = (tmp_path / "x.jpg").read_bytes()
    last = data.rindex(b"\xff\xda")
    (tmp_path / "x.jpg").write_bytes(data[:last] + data[last:-2] * 100 + data[-2:])
    assert [problem.code for problem in check_file(path).findings[0].problems] == ["image.size"]


@pytest.mark.parametrize("place", ["resource", "graph", "target", "file", "input_path"])
@pytest.mark.parametrize("length", [300, 5000])
def test_names_that_are_too_long_are_refused(tmp_path: Path, place: str, length: int) -> None:
    name = "a" * length
    model = rnn_model()
    if place == "resource":
        put(model, "resources/x/initialValues", {"sourcePath": name})
    elif place == "graph":
        model["dispatchables"]["g"] = {"type": "DmlSerializedGraph", "sourcePath": name}
    elif place == "target":
        model["commands"].append({"type": "writeFile", "resource": "y", "targetPath": name})
    path = write(tmp_path, model)
    folder = tmp_path / name if place == "input_path" else None
    report = check_file(tmp_path / name if place == "file" else path, input_path=folder)
    assert [problem.code for finding in report.findings for problem in finding.problems] in (
        [] if place == "input_path" else ["file.unreadable"],
    )
    assert len(report.text()) < 2000 + length


@pytest.mark.skipif(sys.platform == "win32", reason="pipes have no names in folders there")
def test_what_is_no_plain_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.bin")
    data = put(rnn_model(), "commands/1", {"type": "writeFile", "resource": "y", "targetPath": "pipe.bin"})
    with pytest.raises(ModelError, match="a pipe, expected a file"):
        load(write(tmp_path, data), Folders((tmp_path,), tmp_path))
    with pytest.raises(OSError, match=r"No such device|not a regular file"):  # it became one since the model was read
        write_bytes(tmp_path / "pipe.bin", b"data")
    reader = os.open(tmp_path / "pipe.bin", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="not a regular file"):
        write_bytes(tmp_path / "pipe.bin", b"data")
    os.close(reader)
    source = put(rnn_model(), "resources/x/initialValues", {"sourcePath": "pipe.bin"})
    with pytest.raises(ModelError, match=r"file\.missing"):
        load(write(tmp_path, source))
    assert check_file(tmp_path / "pipe.bin").findings[0].problems[0].found == "not a regular file"


def test_a_file_that_is_written_again_holds_the_new_bytes_alone(tmp_path: Path) -> None:
    write_bytes(tmp_path / "x.bin", bytes(100))
    write_bytes(tmp_path / "x.bin", b"new")
    assert (tmp_path / "x.bin").read_bytes() == b"new"


@pytest.mark.parametrize("dimensions", [[2**63] * 300, [2**63] * 100_000, [1] * 100_000])
def test_many_dimensions_of_a_written_file_are_refused(tmp_path: Path, dimensions: list[int]) -> None:
    command = {"type": "writeFile", "resource": "y", "targetPath": "y.npy", "dimensions": dimensions}
    report = check_file(write(tmp_path, put(rnn_model(), "commands/1", command)))
    assert [problem.code for finding in report.findings for problem in finding.problems] == ["command.dimensions"]
    assert len(report.text()) < 1000
