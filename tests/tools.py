"""Which tools of the machine a test needs: absent, the test is skipped; where they are promised, it fails."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys

import pytest


def missing(tool: str) -> str | None:
    """Why `tool` ("g++", "nvrtc", "torch", "onnx" or "g2p-en") cannot be used here, or None."""
    if tool == "g++":
        if not sys.platform.startswith("linux"):
            return "kernels run on the CPU under Linux only"
        return None if shutil.which("g++") else "g++ is not installed"
    if tool == "nvrtc":
        try:
            found = importlib.util.find_spec("cuda.bindings.nvrtc") is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            return "the packages cuda-bindings and nvidia-cuda-nvrtc are not installed"
        from cuda.bindings import nvrtc

        try:
            nvrtc.nvrtcVersion()
        except RuntimeError as error:
            return f"NVRTC cannot be loaded: {error}"
        return None
    if tool == "torch":
        return None if importlib.util.find_spec("torch") else "PyTorch is not installed"
    if tool == "onnx":
        return None if importlib.util.find_spec("onnx") else "the package onnx is not installed"
    if tool == "g2p-en":
        return None if importlib.util.find_spec("g2p_en") else "trained weights are missing: pip install --no-deps g2p-en==2.1.0"
    raise ValueError(f"unknown tool {tool!r}")


def require(tool: str) -> None:
    """Skips the running test or module where `tool` is missing; with DMLPY_REQUIRE_TOOLS=1 fails it, so that CI cannot pass by skipping."""
    reason = missing(tool)
    if reason is None:
        return
    if os.environ.get("DMLPY_REQUIRE_TOOLS") == "1":
        pytest.fail(f"{reason}, but DMLPY_REQUIRE_TOOLS=1 promises it", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
