"""DxDispatch's JSON models: resources, operators and commands in one file, parsed, checked and run on any device.

`check_file` checks a model, and also a single desc or a graph in a separate file.
"""

from dmlpy.dxdispatch.checker import Report, check_file
from dmlpy.dxdispatch.files import Folders
from dmlpy.dxdispatch.model import Model, load
from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.dxdispatch.runner import RunError, RunOptions, run

__all__ = ["Finding", "Folders", "Model", "ModelError", "Report", "RunError", "RunOptions", "check_file", "load", "run"]
