"""What the machine is, in a dozen lines: `python -m tests.gpu_check.info FOLDER`. The exit status shows whether a GPU answers.

FOLDER has the compiled kernels that were brought along.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from tests.support.cuda import emulated_gpu

QUERIED = "name,driver_version,temperature.gpu,power.limit,clocks.sm,clocks.max.sm,clocks.mem,compute_mode"
LIBRARIES = ("cupy", "numpy", "nvidia-cublas", "nvidia-cuda-nvrtc", "nvidia-cudnn", "pytest", "torch", "triton")
"""The prefixes of the names of reported packages."""
TOOLS = ("nvidia-smi", "ncu", "compute-sanitizer")


def probe() -> dml.OperatorDesc:
    """An operator whose kernel shows whether those that were brought along fit: `.ci/gpu kernels` always compiles it."""
    return dml.ActivationReluDesc(input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(1,))).with_outputs()


def fit(device: CudaDevice, count: int) -> str:
    """Whether kernels that were brought along are those of this GPU and this compiler."""
    dml.compile(probe(), device)
    by = f"sm_{device.limits.compute_capability} and {' '.join(device.runtime.compiler_version().split()[:2])}"
    if not device.library.compiled:
        return f"{count} kernels were brought along, for {by}"
    none = f"NONE of {count} kernels that were brought along fits {by}: all are compiled here"
    return none if count else f"kernels are compiled here, for {by}"


def main(folder: str) -> int:
    """Prints it."""
    brought = len(os.listdir(folder))
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} processors")
    print("installed:", *sorted({f"{one.name} {one.version}" for one in distributions() if one.name.startswith(LIBRARIES)}), sep=" | ")
    print("missing tools:", ", ".join(tool for tool in TOOLS if shutil.which(tool) is None) or "none")
    if smi := shutil.which("nvidia-smi"):
        done = subprocess.run([smi, f"--query-gpu={QUERIED}", "--format=csv"], capture_output=True, text=True, timeout=20)
        print((done.stdout or done.stderr).strip())
    try:
        device = emulated_gpu.install() or dml.device("cuda")
    except dml.DeviceError as error:
        print(f"nothing can be run here: {error}")
        return 1
    if emulated_gpu.chosen():
        print(f"DRY RUN on an emulated GPU: {emulated_gpu.chosen()}")
    assert isinstance(device, CudaDevice)
    print(*(f"{name}: {value}" for name, value in device.describe().items()), fit(device, brought), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
