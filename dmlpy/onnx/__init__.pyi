# Written by `python -m dmlpy.stubs`: do not edit.
from .compiled import CompiledModel as CompiledModel
from .exporting import export as export
from .interpretation import NodeRecord as NodeRecord
from .limits import Limits as Limits
from .model import Model as Model
from .model import load as load
from .partitions import Partition as Partition
from .plans import ModelComparison as ModelComparison
from .plans import ModelPlan as ModelPlan
from .report import Report as Report
from .values import Value as Value
__all__ = [
    "CompiledModel",
    "Limits",
    "Model",
    "ModelComparison",
    "ModelPlan",
    "NodeRecord",
    "Partition",
    "Report",
    "Value",
    "export",
    "load",
]
