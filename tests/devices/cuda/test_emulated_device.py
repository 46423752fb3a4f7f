"""The device `cuda-emulated`, which anyone can name: the CUDA kernels on the processor, with guards and sanitizers."""

from __future__ import annotations

import ctypes
import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda import sources as cuda_sources
from dmlpy.devices.cuda.emulation import compiler
from dmlpy.devices.cuda.emulation.compiler import compile_shared
from dmlpy.devices.cuda.emulation.device import EmulatedDevice, emulated_device
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.tools import require

X = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3])
DESC = dml.ElementWiseExpDesc(input_tensor=X, output_tensor=X)
GIVEN = np.linspace(-2, 2, 6, dtype=np.float32).reshape(X.sizes)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No emulated device made yet in this process."""
    require("g++")
    monkeypatch.setitem(vars(dml.devices)["DEVICE_KINDS"], "cuda-emulated", emulated_device.__wrapped__)  # type: ignore[attr-defined]
    return monkeypatch


def test_it_computes_with_the_kernels_of_cuda(fresh: pytest.MonkeyPatch) -> None:
    device = dml.device("cuda-emulated")
    op = dml.compile(DESC, device)
    found = device.to_host(op(input_tensor=device.from_host(GIVEN)).output_tensor)
    np.testing.assert_allclose(found, np.exp(GIVEN.astype(np.float64)), rtol=1e-6)
    assert "element_wise::Exp" in op.plan


def test_it_is_named_and_not_listed(fresh: pytest.MonkeyPatch) -> None:
    """Nobody runs it by accident: it is neither the default nor one of the machine's devices."""
    assert dml.device("cuda-emulated").name == "cuda-emulated"
    assert "cuda-emulated" not in [item.name for item in dml.list_devices()]
    assert not isinstance(dml.device(), EmulatedDevice)


def test_arrays_of_the_host_are_refused_as_on_a_gpu(fresh: pytest.MonkeyPatch) -> None:
    op = dml.compile(DESC, "cuda-emulated")
    with pytest.raises(dml.BindError, match="expected memory of cuda-emulated"):
        op(input_tensor=GIVEN)
    found = op.device.to_host(op(input_tensor=GIVEN, copy=True).output_tensor)
    np.testing.assert_allclose(found, np.exp(GIVEN), rtol=1e-6)


def test_pickles_name_it() -> None:
    require("g++")
    assert pickle.loads(pickle.dumps(dml.compile(DESC, "cuda-emulated"))).device.name == "cuda-emulated"


def test_a_write_beside_memory_is_raised_at_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    require("g++")
    device = EmulatedDevice(EmulatedRuntime())
    op = dml.compile(DESC, device)
    given = device.from_host(GIVEN)
    op(input_tensor=given)

    def damaged() -> None:
        raise AssertionError("4 bytes behind an allocation of 24 bytes were written")

    monkeypatch.setattr(device.runtime, "check_guards", damaged)
    with pytest.raises(dml.DeviceError, match="DML_ELEMENT_WISE_EXP_OPERATOR_DESC writes beside its memory: 4 bytes behind"):
        op(input_tensor=given)


@pytest.mark.parametrize("sanitizer", ["address,undefined"])
def test_sanitizers_are_asked_for_by_a_variable(fresh: pytest.MonkeyPatch, sanitizer: str) -> None:
    fresh.setenv("DMLPY_SANITIZE", sanitizer)
    device = dml.device("cuda-emulated")
    found = device.to_host(dml.compile(DESC, device)(input_tensor=GIVEN, copy=True).output_tensor)
    np.testing.assert_allclose(found, np.exp(GIVEN), rtol=1e-6)
    assert device.runtime._sanitize == sanitizer  # type: ignore[attr-defined]


def test_symbols_name_the_sources(fresh: pytest.MonkeyPatch) -> None:
    """By their paths from the folder of the sources, which is that of the compilation; without the variable there are none."""
    source, entry = cuda_sources.read("elementwise/math.cu"), "elements<element_wise::Exp, 4, int, 8, float, float>"
    places = [b".debug_line", b"math.cu", bytes(cuda_sources.directory())]
    assert all(place in compile_shared(source, entry, symbols=True).read_bytes() for place in places)
    assert places[0] not in compile_shared(source, entry).read_bytes()
    fresh.setenv("DMLPY_SYMBOLS", "1")
    assert dml.device("cuda-emulated").runtime._symbols  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_stops_in_a_kernel(fresh: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At a line of its source, which gdb finds, and shows its variables."""
    number = cuda_sources.read("elementwise/math.cu").splitlines().index("struct Exp {")
    before = cuda_sources.read("elementwise/math.cu").splitlines()[:number]
    begin = max(place for place, line in enumerate(before) if line.startswith("#line"))
    line = number - begin + int(before[begin].split()[1])
    script = tmp_path / "script.py"
    script.write_text(
        "import dmlpy as dml\nimport numpy as np\n"
        'x = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 4])\n'
        'op = dml.compile(dml.ElementWiseExpDesc(input_tensor=x, output_tensor=x), "cuda-emulated")\n'
        "op(input_tensor=np.full(x.sizes, 1.5, np.float32), copy=True)\n"
    )
    fresh.setenv("DMLPY_SYMBOLS", "1")
    fresh.setenv("DEBUGINFOD_URLS", "")
    commands = ["set breakpoint pending on", f"break math.cu:{line}", "run", "print x", "info source", "list", "kill"]
    arguments = [text for command in commands for text in ("-ex", command)]
    outcome = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", *arguments, "--args", sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert re.search(r"hit Breakpoint 1.*element_wise::Exp::operator\(\) \(this=\S+, x=1.5\)", outcome.stdout), outcome.stdout
    assert "return expf(x);" in outcome.stdout


def test_a_kernel_may_print(capfd: pytest.CaptureFixture[str]) -> None:
    """As on a GPU, where `printf` is declared for every kernel."""
    require("g++")
    text = "return expf(x);"
    device = EmulatedDevice(EmulatedRuntime(fault=(text, 0, f'printf("exp of %.1f\\n", double(x)); {text}')))
    x = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 1, 2])
    dml.compile(dml.ElementWiseExpDesc(input_tensor=x, output_tensor=x), device)(input_tensor=np.float32([[[[1.5, -2]]]]), copy=True)
    ctypes.CDLL(None).fflush(None)
    assert sorted(capfd.readouterr().out.splitlines()) == ["exp of -2.0", "exp of 1.5"]


def test_another_sanitizer_is_refused(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("DMLPY_SANITIZE", "memory")
    with pytest.raises(dml.DeviceError, match="DMLPY_SANITIZE is 'memory', expected 'address,undefined' or 'thread'"):
        dml.device("cuda-emulated")


@pytest.mark.parametrize(
    ("name", "expected"), [("cuda-emulated:1", "there is one emulated GPU"), ("cuda-emulatd", "did you mean 'cuda-emulated'")]
)
def test_names_beside_it_are_refused(name: str, expected: str) -> None:
    with pytest.raises(dml.DeviceError, match=expected):
        dml.device(name)


def test_without_a_compiler_the_reason_is_named(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(shutil, "which", lambda name: None)
    with pytest.raises(dml.DeviceError, match=r"g\+\+, which is not installed"):
        dml.device("cuda-emulated")


def _without_a_home(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def fails() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(fails))


def _below_a_file(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "file"))


def _open_to_others(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    (folder / "dmlpy" / "cuda_on_cpu").mkdir(parents=True)
    (folder / "dmlpy" / "cuda_on_cpu").chmod(0o777)


def _of_two_users(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


NO_FOLDER = {
    "no home": (_without_a_home, "no folder for compiled kernels: Could not determine home directory"),
    "a file": (_below_a_file, "no folder for compiled kernels: .*Not a directory"),
    "open to others": (_open_to_others, "belongs to others"),
    "two users": (_of_two_users, "belongs to others"),
}


@pytest.mark.parametrize("case", NO_FOLDER)
def test_kernels_without_a_folder_are_reported(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, told = NO_FOLDER[case]
    monkeypatch.delenv("DMLPY_TEST_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    change(monkeypatch, tmp_path)
    with pytest.raises(dml.DeviceError, match=f"{told}.*: set XDG_CACHE_HOME to a folder of your own"):
        compiler.cache_directory()


def test_kernels_that_cannot_be_stored_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("g++")
    monkeypatch.setattr(compiler, "cache_directory", lambda: tmp_path / "gone")
    with pytest.raises(dml.DeviceError, match=r"cannot be stored in .*gone: No such file or directory"):
        compiler.compile_program("int zero;", ("-c",))
