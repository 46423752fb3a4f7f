"""Every kernel compiles for every architecture that dmlpy supports; no GPU is needed."""

from __future__ import annotations

import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent.walk import MOST_WALK_THREADS
from tests.kernel_instances import instances
from tests.tools import require

require("nvrtc")

from tests.nvrtc import NvrtcError, compile_instance  # noqa: E402

ARCHITECTURES = (75, 80, 90, 100, 120)
REGISTERS = 65536
"""Of a multiprocessor, on all of these architectures."""


KERNELS = tuple(dict.fromkeys(instances()))


def architectures_of(kernel: Kernel) -> list[int]:
    """Those that have what the kernel uses."""
    return [architecture for architecture in ARCHITECTURES if architecture >= kernel.lowest_capability]


def check(kernel: Kernel, architecture: int) -> None:
    """Compiles without a warning and keeps all it has in registers; the largest block of `walk` can be launched."""
    result = compile_instance(sources.read(kernel.file), kernel.entry, architecture)
    place = f"{kernel.entry} for sm_{architecture}"
    assert not result.warnings, f"{place}: {result.warnings}"
    assert result.image.startswith(b"\x7fELF")
    assert result.symbol.encode() in result.image
    assert result.stack_bytes == 0, f"{place} keeps {result.stack_bytes} bytes of a thread in local memory"
    if kernel.entry.startswith("walk<"):
        assert result.registers * MOST_WALK_THREADS <= REGISTERS, f"{place} uses {result.registers} registers"


def pairs() -> list[tuple[Kernel, int]]:
    """Each instance for one architecture, in turn; and each kernel, in some instance, for all of them."""
    by_name: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in KERNELS:
        by_name.setdefault((kernel.file, kernel.entry.partition("<")[0]), []).append(kernel)
    found = []
    for same in by_name.values():
        missing = list(ARCHITECTURES)
        for number, kernel in enumerate(same):
            known = architectures_of(kernel)
            architecture = next((new for new in known if new in missing), known[number % len(known)])
            missing = [other for other in missing if other != architecture]
            found.append((kernel, architecture))
        found += [(next(kernel for kernel in same if architecture in architectures_of(kernel)), architecture) for architecture in missing]
    return found


@pytest.mark.parametrize(("kernel", "architecture"), pairs(), ids=lambda item: item.entry if isinstance(item, Kernel) else f"sm_{item}")
def test_kernel_compiles_for_an_architecture(kernel: Kernel, architecture: int) -> None:
    check(kernel, architecture)


def test_every_instance_and_every_pair_of_kernel_and_architecture_is_compiled() -> None:
    compiled = pairs()
    assert {kernel for kernel, _ in compiled} == set(KERNELS)
    names = {(kernel.file, kernel.entry.partition("<")[0], architecture) for kernel, architecture in compiled}
    files = {path.relative_to(sources.directory()).as_posix() for path in sources.directory().rglob("*.cu")}
    assert {(file, architecture) for file, _, architecture in names} == {
        (file, architecture) for file in files for architecture in ARCHITECTURES
    }
    assert len(names) == len(ARCHITECTURES) * len({(file, name) for file, name, _ in names})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "architecture"),
    [(kernel, architecture) for kernel in KERNELS for architecture in architectures_of(kernel)],
    ids=lambda item: item.entry if isinstance(item, Kernel) else f"sm_{item}",
)
def test_kernel_compiles(kernel: Kernel, architecture: int) -> None:
    check(kernel, architecture)


def test_an_error_names_the_file_and_line() -> None:
    text = (sources.directory() / "pack.cu").read_text(encoding="utf-8")
    call = "machine::to_float(value)"
    line = text[: text.index(call)].count("\n") + 1
    broken = sources.read("pack.cu").replace(call, "machine::to_flot(value)")
    with pytest.raises(NvrtcError, match=rf"pack\.cu\({line}\): error: .*to_flot"):
        compile_instance(broken, "copy<float, float>", 90)
