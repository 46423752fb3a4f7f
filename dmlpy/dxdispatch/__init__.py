"""DxDispatch's JSON models: resources, operators and commands in one file, read, checked and run on any device."""

from dmlpy.dxdispatch.files import Folders
from dmlpy.dxdispatch.model import Model, load
from dmlpy.dxdispatch.report import Finding, ModelError
from dmlpy.dxdispatch.runner import RunError, RunOptions, run

__all__ = ["Finding", "Folders", "Model", "ModelError", "RunError", "RunOptions", "load", "run"]
