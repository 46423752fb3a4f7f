"""What the calls need of a machine's Python: all that is missing at once, and the commands that bring it."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

PYDANTIC = ("pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection")
DMLPY = ("numpy", *PYDANTIC, "lazy_loader", "platformdirs", "threadpoolctl")
TESTS = ("pytest", "pytest_benchmark", "pytest_reportlog", "xdist", "hypothesis")
NEEDED = (*DMLPY, *TESTS, "psutil", "matplotlib", "rich", "typer")
"""The modules that a call imports, except CuPy: dmlpy's, pytest's plugins, the benchmark's, and those of tests marked `gpu`."""
LEAST = {"pytest": 9}
"""The oldest major versions that have what is used: that a test which takes too long ends its process."""
DISTRIBUTIONS = {
    "cupy": "cupy-cuda13x",
    **dict.fromkeys(PYDANTIC, "pydantic"),
    "lazy_loader": "lazy-loader",
    "pytest_benchmark": "pytest-benchmark",
    "pytest_reportlog": "pytest-reportlog",
    "xdist": "pytest-xdist",
}
"""What brings a module, where that has another name."""
GLIBC = (17, 24, 27, 28, 31, 34)
"""Of version 2, as wheels' names have it: pip takes only the platforms that it is given, verbatim."""


def missing(modules: Iterable[str]) -> list[str]:
    """Those that cannot be found, or are too old; nothing is imported."""
    importlib.invalidate_caches()
    return [name for name in modules if importlib.util.find_spec(name) is None or major(name) < LEAST.get(name, 0)]


def major(name: str) -> int:
    """The major version of an installed package that has a least one."""
    return int(version(name).partition(".")[0]) if name in LEAST else 0


def help_with(modules: Iterable[str], folder: str = ".gpu/wheels") -> list[str]:
    """Lines that explain how to get modules here, with a network and without one."""
    least = {name: f"'{name}>={number}'" for name, number in LEAST.items()}
    names = " ".join(dict.fromkeys(least.get(name, DISTRIBUTIONS.get(name, name)) for name in modules))
    platforms = " ".join(f"--platform manylinux_2_{minor}_{platform.machine()}" for minor in GLIBC)
    return [
        f"with a network: {Path(sys.executable).name} -m pip install {names}",
        "without one, where there is one: python3 -m pip download --only-binary=:all: --implementation cp --python-version "
        f"3.{sys.version_info.minor} {platforms} --platform manylinux2014_{platform.machine()} -d {folder} {names}",
        "then bring the folder here",
    ]


def install(wheels: Path, target: Path) -> str | None:
    """Unpacks the wheels of a folder into another one, which becomes importable here; why that failed, or None."""
    found = sorted(map(str, wheels.glob("*.whl")))
    if not found:
        return f"there are no wheels in {shlex.quote(str(wheels))}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--target", str(target), *found], capture_output=True, text=True)
    if done.returncode:
        return (done.stderr or done.stdout).strip()
    sys.path.insert(0, str(target))
    return None
