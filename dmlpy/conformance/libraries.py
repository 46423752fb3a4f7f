"""The DLLs of DirectML, Direct3D 12 and DXGI: found and loaded on Windows, refused anywhere else."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from dmlpy.conformance.com import HRESULT, INT, POINTER, UINT
from dmlpy.messages.problems import DmlError

TEST_LIBRARIES = "DMLPY_TEST_DIRECTML"
"""An environment variable that only tests set: `module:function`, which returns libraries in the place of Windows' ones."""

_NO_DIALOGS = 1 | 2
"""SEM_FAILCRITICALERRORS and SEM_NOGPFAULTERRORBOX."""

_SIGNATURES = {
    "CreateDXGIFactory2": (UINT, POINTER, POINTER),
    "D3D12GetDebugInterface": (POINTER, POINTER),
    "D3D12CreateDevice": (POINTER, INT, POINTER, POINTER),
    "DMLCreateDevice1": (POINTER, UINT, INT, POINTER, POINTER),
}


@dataclass(frozen=True)
class Libraries:
    """The loaded libraries.

    Attributes:
        directml: DirectML.dll.
        d3d12: d3d12.dll.
        dxgi: dxgi.dll.
        file: where DirectML.dll is.
        version: its version; empty if the file has none.
        system: the version of Windows.
    """

    directml: Any
    d3d12: Any
    dxgi: Any
    file: str
    version: str
    system: str

    def function(self, name: str) -> Any:
        """An exported function of one of them.

        Raises:
            DmlError: it is missing; DirectML.dll is older than version 1.1.0.
        """
        for library in (self.directml, self.d3d12, self.dxgi):
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes, function.restype = _SIGNATURES[name], HRESULT
                return function
        if name == "DMLCreateDevice1":
            raise DmlError(f"{self.file} has no DMLCreateDevice1: DirectML 1.1.0 (feature level 2_0) or newer is needed")
        raise DmlError(f"{name} is missing in d3d12.dll and dxgi.dll: Windows 10 version 1903 or newer is needed")


def load(dll: Path | None = None) -> Libraries:
    """Loads the libraries.

    Args:
        dll: DirectML.dll; None for that of an installed onnxruntime-directml, else for that of Windows.

    Raises:
        DmlError: this is not 64-bit Windows, or a library is missing.
    """
    if named := os.environ.get(TEST_LIBRARIES):
        module, _, function = named.partition(":")
        libraries: Libraries = getattr(import_module(module), function)(dll)
        return libraries
    if sys.platform != "win32":
        raise DmlError(f"DirectML runs on Windows only, by its licence: run dmlpy conformance there, not on {platform.system()}")
    if sys.maxsize < 2**32 or platform.machine().upper() != "AMD64":
        raise DmlError(f"dmlpy conformance needs Python for 64-bit Windows on x64, not for {platform.machine()}")
    return _load_windows(dll)


def _load_windows(dll: Path | None) -> Libraries:
    path = dll or installed_with_onnx_runtime() or Path(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "DirectML.dll")
    if not path.is_file():
        remedy = "" if dll else ": it is part of Windows 10 version 1903 and newer, and of onnxruntime-directml (pip install)"
        raise DmlError(f"there is no {path}{remedy}")
    open_dll: Any = getattr(ctypes, "WinDLL")  # noqa: B009  (type checkers know it on Windows only)
    open_dll("kernel32.dll").SetErrorMode(_NO_DIALOGS)  # a crash ends the process at once
    try:
        directml, d3d12, dxgi = open_dll(str(path)), open_dll("d3d12.dll"), open_dll("dxgi.dll")
    except OSError as error:
        raise DmlError(f"{path} and d3d12.dll cannot be loaded: {error}") from error
    return Libraries(directml, d3d12, dxgi, str(path), _file_version(path), platform.platform())


def installed_with_onnx_runtime() -> Path | None:
    """The DirectML.dll of an installed onnxruntime-directml; None if there is none. ONNX Runtime is not imported."""
    spec = importlib.util.find_spec("onnxruntime")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [Path(folder, "capi", "DirectML.dll") for folder in folders]
    return next((file for file in files if file.is_file()), None)


def _file_version(file: Path) -> str:
    """The version in a DLL's resources; empty if it has none."""
    functions = getattr(ctypes, "WinDLL")("version.dll")  # noqa: B009  (likewise)
    name = str(file)
    size = functions.GetFileVersionInfoSizeW(ctypes.c_wchar_p(name), None)
    data = ctypes.create_string_buffer(size)
    if not size or not functions.GetFileVersionInfoW(ctypes.c_wchar_p(name), 0, size, data):
        return ""
    place, length = POINTER(), UINT()
    if not functions.VerQueryValueW(data, ctypes.c_wchar_p("\\"), ctypes.byref(place), ctypes.byref(length)):
        return ""
    # VS_FIXEDFILEINFO: two numbers, then the file's version in two words of two numbers each.
    high, low = (UINT.from_address((place.value or 0) + offset).value for offset in (8, 12))
    return f"{high >> 16}.{high & 0xFFFF}.{low >> 16}.{low & 0xFFFF}"
