"""The contents of `dmlpy info`: versions, described operators, and this machine's devices with what each runs, or why one is missing."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import FeatureLevel
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.cuda.runtime.availability import conflict, installed_cupys
from dmlpy.devices.device import list_devices, unavailable_devices
from dmlpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.description.descs import OperatorDesc


@dataclass(frozen=True)
class Operators:
    """Numbers of operators.

    Attributes:
        directml: of DirectML's.
        own: of dmlpy's own.
    """

    directml: int
    own: int

    @classmethod
    def of(cls, kinds: Iterable[type[OperatorDesc]]) -> Operators:
        are_extensions = [kind.is_extension for kind in kinds]
        return cls(len(are_extensions) - sum(are_extensions), sum(are_extensions))


@dataclass(frozen=True)
class DeviceInfo:
    """A device of this machine.

    Attributes:
        name: as `dml.device` takes it.
        properties: the properties that it reports.
        runs: how many operators it runs.
    """

    name: str
    properties: dict[str, str]
    runs: Operators


@dataclass(frozen=True)
class Info:
    """All that `dmlpy info` shows.

    Attributes:
        versions: of dmlpy, Python and the packages that it uses.
        warnings: what is wrong with the installation.
        feature_levels: DirectML's versions by feature level, the lowest and the highest.
        operators: how many are described.
        devices: the devices that can be used.
        unavailable: why the others cannot, by name.
    """

    versions: dict[str, str]
    warnings: list[str]
    feature_levels: dict[str, str]
    operators: Operators
    devices: list[DeviceInfo]
    unavailable: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def lines(self) -> list[str]:
        """The lines of its text for people."""
        (lowest, lowest_version), (highest, highest_version) = self.feature_levels.items()
        lines = [f"{name}: {text}" for name, text in self.versions.items()]
        lines += [f"warning: {text}" for text in self.warnings]
        lines.append(f"feature levels: {lowest} to {highest} (DirectML {lowest_version} to {highest_version})")
        lines.append(f"operators described: {self.operators.directml} of DirectML, {self.operators.own} of dmlpy's own")
        for device in self.devices:
            lines += ["", f"device {device.name}", *(f"  {name}: {text}" for name, text in device.properties.items())]
            runs = f"{device.runs.directml} of DirectML's operators and {device.runs.own} of dmlpy's own"
            lines.append(f"  runs {runs} (dmlpy ops lists them)")
        for name, reason in self.unavailable.items():
            lines += ["", f"device {name}: not available: {reason}"]
        return lines


def info() -> Info:
    """Looks at this machine."""
    unavailable, problem = unavailable_devices(), conflict()
    return Info(
        versions(),
        [] if problem is None or problem in unavailable.values() else [problem],
        {str(level): level.directml_version for level in (min(FeatureLevel), max(FeatureLevel))},
        Operators.of(OPERATORS.values()),
        [
            DeviceInfo(item.name, item.describe(), Operators.of(kind for kind in OPERATORS.values() if item.runs(kind)))
            for item in list_devices()
        ],
        unavailable,
    )


def versions() -> dict[str, str]:
    """The versions of dmlpy, Python and the packages that it uses, installed or not."""
    by_package = {"dmlpy": __version__, "Python": platform.python_version()}
    by_package |= {package: version(package) for package in ("numpy", "pydantic")}
    cupys = [f"{text} ({package})" for package, text in installed_cupys().items()]
    return by_package | {"CuPy": ", ".join(cupys) or "not installed (extras cuda12, cuda13)"}
