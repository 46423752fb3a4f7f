# Written by `python -m dmlpy.stubs`: do not edit.
from .compiled import CompiledModel as CompiledModel
from .interpretation import NodeRecord as NodeRecord
from .model import Model as Model
from .model import load as load
from .partitions import Partition as Partition
from .report import Report as Report
from .values import Value as Value
__all__ = [
    "CompiledModel",
    "Model",
    "NodeRecord",
    "Partition",
    "Report",
    "Value",
    "load",
]
