"""Every kernel compiles for every architecture that dmlpy supports; no GPU is needed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent import MOST_WALK_THREADS
from tests.kernel_instances import instances
from tests.tools import require

require("nvrtc")

from tests.nvrtc import NvrtcError, compile_instance  # noqa: E402

ARCHITECTURES = (75, 80, 90, 100, 120)
REGISTERS = 65536
"""Of a multiprocessor, on all of these architectures."""


@pytest.mark.parametrize("kernel", dict.fromkeys(instances()), ids=lambda kernel: kernel.entry)
def test_kernel_compiles(kernel: Kernel) -> None:
    source = sources.read(kernel.file)
    with ThreadPoolExecutor(2) as pool:
        compiled = dict(zip(ARCHITECTURES, pool.map(lambda each: compile_instance(source, kernel.entry, each), ARCHITECTURES), strict=True))
    for architecture, result in compiled.items():
        place = f"{kernel.entry} for sm_{architecture}"
        assert not result.warnings, f"{place}: {result.warnings}"
        assert result.image.startswith(b"\x7fELF")
        assert result.symbol.encode() in result.image
        if kernel.entry.startswith("walk<"):
            assert result.stack_bytes == 0, f"{place} keeps {result.stack_bytes} bytes of a thread in local memory"
            assert result.registers * MOST_WALK_THREADS <= REGISTERS, f"{place} uses {result.registers} registers"


def test_an_error_names_the_file_and_line() -> None:
    entry = "copy<float, Unknown>"
    with pytest.raises(NvrtcError, match="Unknown"):
        compile_instance(sources.read("pack.cu"), entry, 90)
    broken = sources.read("pack.cu").replace("machine::to_float(value)", "machine::to_flot(value)")
    line = 1 + (sources.directory() / "pack.cu").read_text().splitlines().index(
        next(line for line in (sources.directory() / "pack.cu").read_text().splitlines() if "machine::to_float(value)" in line)
    )
    with pytest.raises(NvrtcError, match=rf"pack\.cu\({line}\): error: .*to_flot"):
        compile_instance(broken, "copy<float, float>", 90)
