"""The processor of this machine, as kernels are compiled for it.

Linux lists the features of x86 processors. Elsewhere LLVM tells them, whose import takes longer than loading all kernels of a model.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from dmlpy.devices.cpu.llvm import imported

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTED = "/proc/cpuinfo"
_IDENTITY = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")
"""What Linux tells of a processor that LLVM chooses instructions by."""


@dataclass(frozen=True)
class Processor:
    """A processor.

    Attributes:
        features: LLVM's names of features that it has; those of the sets of vector instructions are among them.
        identity: what the machine code depends on besides LLVM. Equal ones have equal features.
    """

    features: Mapping[str, bool]
    identity: tuple[str, ...]


@cache
def host_processor() -> Processor:
    """The processor of this machine."""
    found = _listed() if sys.platform == "linux" and platform.machine() == "x86_64" else None
    if found is None:
        binding = imported("llvmlite.binding")
        features = binding.get_host_cpu_features()
        found = Processor(features, (binding.get_host_cpu_name(), features.flatten()))
    return found


def _listed() -> Processor | None:
    """The processor that Linux lists first; None if the list cannot be read."""
    lines: dict[str, str] = {}
    try:
        with open(_LISTED, encoding="utf-8", errors="replace", buffering=4096) as file:  # the list of many processors takes milliseconds
            for line in file:
                name, _, text = line.partition(":")
                if not text:
                    break
                lines[name.strip()] = text.strip()
        identity = tuple(lines[name] for name in _IDENTITY)
    except (OSError, KeyError):
        return None
    return Processor({flag.replace("_", ""): True for flag in lines["flags"].split()}, identity)
