"""Which tools of the machine a test needs: absent, the test is skipped; where they are promised, it fails."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

VERSIONS = "DMLPY_TEST_VERSIONS"
"""Names the folder of packages in other versions than the installed ones: nvrtc-13.0, cupy-14.0, each filled by `pip install --target`."""


def folder_of(package: str, version: str) -> Path | None:
    """Where another version of a package is; None where it is missing."""
    place = os.environ.get(VERSIONS)
    folder = Path(place) / f"{package}-{version}" if place else None
    return folder if folder is not None and folder.is_dir() else None


def missing(tool: str) -> str | None:
    """Why `tool` cannot be used here, or None.

    It is "g++", "dot", "nvrtc", "nvdisasm", "dask", "torch", "onnx", "onnxruntime", "pyright", "spacy", "sphinx", "thinc" or "g2p-en";
    "nvrtc 13.0" or "cupy 14.0" is that version in addition to the installed one.
    """
    if tool == "g++":
        if not sys.platform.startswith("linux"):
            return "kernels run on the CPU under Linux only"
        return None if shutil.which("g++") else "g++ is not installed"
    if tool == "dot":
        return None if shutil.which("dot") else "Graphviz's program dot is not installed"
    package, _, version = tool.partition(" ")
    if version and folder_of(package, version) is None:
        return f"{package} {version} is not in the folder that {VERSIONS} names (see .github/CONTRIBUTING.md)"
    if package == "nvrtc":
        return _missing_nvrtc(version)
    if package == "cupy":
        return None
    if tool == "nvdisasm":
        from tests.support.cuda.binaries import sass

        return None if sass.nvdisasm() else "nvdisasm is missing: the package nvidia-cuda-nvdisasm is not installed"
    if tool == "dask":
        return None if importlib.util.find_spec("dask") else "Dask is not installed"
    if tool == "torch":
        return None if importlib.util.find_spec("torch") else "PyTorch is not installed"
    if tool in ("spacy", "thinc"):
        return None if importlib.util.find_spec(tool) else f"{'spaCy' if tool == 'spacy' else 'Thinc'} is not installed"
    if tool == "onnx":
        return None if importlib.util.find_spec("onnx") else "the package onnx is not installed"
    if tool == "onnxruntime":
        return None if importlib.util.find_spec("onnxruntime") else "ONNX Runtime is not installed"
    if tool == "pyright":
        return None if importlib.util.find_spec("pyright") else "pyright is not installed"
    if tool == "sphinx":
        from dmlpy.docs.build import NEEDED

        absent = [module for module in NEEDED if importlib.util.find_spec(module) is None]
        return f"{', '.join(absent)}: not installed (extra docs)" if absent else None
    if tool == "g2p-en":
        return None if importlib.util.find_spec("g2p_en") else "trained weights are missing: pip install --no-deps g2p-en==2.1.0"
    raise ValueError(f"unknown tool {tool!r}")


def _missing_nvrtc(version: str) -> str | None:
    """Why a version of NVRTC is missing; the newest if none is named."""
    from tests.support.cuda.binaries import nvrtc

    version = version or nvrtc.NEWEST
    if nvrtc.library_of(version) is None:
        return f"NVRTC is missing: there is no package nvidia-cuda-nvrtc for Linux ({version})"
    try:
        nvrtc.nvrtc(version)
    except OSError as error:
        return f"NVRTC {version} cannot be loaded: {error}"
    return None


def require(tool: str) -> None:
    """Skips the running test or module where `tool` is missing; with DMLPY_REQUIRE_TOOLS=1 fails it, so that CI cannot pass by skipping."""
    reason = missing(tool)
    if reason is None:
        return
    if os.environ.get("DMLPY_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{reason}, but DMLPY_REQUIRE_TOOLS=1 promises it", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
