# Written by `python -m dmlpy.x.stubs`: do not edit.
from .exporting.graph_export import export as export
from .loading.limits import Limits as Limits
from .loading.values import Value as Value
from .lowering.node_records import NodeRecord as NodeRecord
from .model import Model as Model
from .model import load as load
from .reporting.causes import Cause as Cause
from .reporting.partitions import Partition as Partition
from .reporting.report import Report as Report
from .reporting.work import Border as Border
from .reporting.work import Work as Work
from .runtime.compiled import CompiledModel as CompiledModel
from .runtime.plans import ModelComparison as ModelComparison
from .runtime.plans import ModelPlan as ModelPlan
__all__ = [
    "Border",
    "Cause",
    "CompiledModel",
    "Limits",
    "Model",
    "ModelComparison",
    "ModelPlan",
    "NodeRecord",
    "Partition",
    "Report",
    "Value",
    "Work",
    "export",
    "load",
]
