# Written by `python -m dmlpy.stubs`: do not edit.
from .compiled import CompiledModel as CompiledModel
from .interpretation import NodeRecord as NodeRecord
from .model import Model as Model
from .model import load as load
from .values import Value as Value
__all__ = [
    "CompiledModel",
    "Model",
    "NodeRecord",
    "Value",
    "load",
]
