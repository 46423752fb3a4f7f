"""What the machine is, in a dozen lines: `python -m tests.gpu_check.info`. The exit status tells whether a GPU answers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import dmlpy as dml
from tests.support.cuda import stand_in

QUERIED = "name,driver_version,temperature.gpu,power.limit,clocks.sm,clocks.max.sm,clocks.mem,compute_mode"
LIBRARIES = ("numpy", "torch", "triton", "nvidia-cudnn-cu13", "nvidia-cuda-nvrtc", "nvidia-cublas", "pytest", "pytest-xdist")
TOOLS = ("nvidia-smi", "ncu", "compute-sanitizer")


def versions() -> list[str]:
    """Of what is installed; which package has CuPy depends on CUDA's version."""
    found = []
    for name in (*LIBRARIES, "cupy-cuda12x", "cupy-cuda13x"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def main() -> int:
    """Prints it."""
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} processors")
    print("installed:", ", ".join(versions()))
    print("missing tools:", ", ".join(tool for tool in TOOLS if shutil.which(tool) is None) or "none")
    if smi := shutil.which("nvidia-smi"):
        done = subprocess.run([smi, f"--query-gpu={QUERIED}", "--format=csv"], capture_output=True, text=True, timeout=20)
        print((done.stdout or done.stderr).strip())
    try:
        device = stand_in.install() or dml.device("cuda")
    except dml.DeviceError as error:
        print(f"nothing can be run here: {error}")
        return 1
    if stand_in.chosen():
        print(f"DRY RUN over a stand-in for the GPU: {stand_in.chosen()}")
    else:
        from cupy.cuda import nvrtc

        print("NVRTC", ".".join(map(str, nvrtc.getVersion())), "for", *nvrtc.getSupportedArchs())
    for name, value in device.describe().items():
        print(f"{name}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
