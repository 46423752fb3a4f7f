"""DxDispatch's JSON models: resources, operators and commands in one file, parsed, checked and run on any device.

`check_file` checks a model, and also a single desc or a graph in a separate file.
"""

from typing import TYPE_CHECKING
from typing import Any as _Any

from dmlpy.dxdispatch.checker import Report, check_file
from dmlpy.dxdispatch.files import Folders
from dmlpy.dxdispatch.model import Model, load
from dmlpy.dxdispatch.report import Finding, ModelError

if TYPE_CHECKING:
    from dmlpy.dxdispatch.runner import RunError, RunOptions, run

__all__ = ["Finding", "Folders", "Model", "ModelError", "Report", "RunError", "RunOptions", "check_file", "load", "run"]


def __getattr__(name: str) -> _Any:
    if name not in ("RunError", "RunOptions", "run"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from dmlpy.dxdispatch import runner  # which imports devices and their graphs; a check needs neither

    return getattr(runner, name)


def __dir__() -> list[str]:
    return __all__
