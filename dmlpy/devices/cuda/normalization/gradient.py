"""The gradients of batch normalization over raw_kernels/normalization/gradient.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, scalar_type
from dmlpy.devices.cuda.normalization.common import NormalizationPlan, parameters_type

if TYPE_CHECKING:
    from dmlpy.devices.cuda.common.division import Division
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.normalization.batch import NormalizationGradDesc
    from dmlpy.operators.normalization.fused_batch import FusedBatchNormGradV3Desc
    from dmlpy.operators.normalization.geometry import NormalizationGeometry

DATA = ("x", "dy", "dx")
STATISTICS = ("mean", "variance", "scale", "d_scale", "d_bias")
PARAMETERS = parameters_type(
    DATA,
    STATISTICS,
    ("epsilon", "entries"),
    ("slopes", np.uint64),
    ("side_by_side", np.uint32),
    ("cached", np.uint32),
    ("corrects_mean", np.int32),
)


def gradient_kernel(
    name: str, data_type: np.dtype[Any], statistic_type: np.dtype[Any], width: int = 1, across: bool = False, training: bool = True
) -> Kernel:
    """An instance of `differentiate`, `gather`, `combine` or `apply`; `combine` depends on the types only."""
    types = f"{scalar_type(data_type)}, {scalar_type(statistic_type)}"
    flags = "" if name == "combine" else f", {width}, {str(across).lower()}, {str(training).lower()}"
    return Kernel(
        "normalization/gradient.cu", f"{name}<{types}{flags}>", PARAMETERS, f"GradientParameters<{types}>", dynamic_shared=name != "apply"
    )


class GradientPlan(NormalizationPlan):
    """The gradients: one launch, or up to three if groups are few and large. It computes only what the described outputs need."""

    data = DATA
    statistics = STATISTICS
    scratch = {"slopes": 12}

    def __init__(self, geometry: NormalizationGeometry, library: KernelLibrary) -> None:
        wanted = geometry.operands.keys() & {"dx", "d_scale", "d_bias"}
        centered = "d_scale" in wanted or (geometry.training and "dx" in wanted)
        used = {"dy", *(["x"] if centered else []), *(["dx"] if "dx" in wanted else [])}
        super().__init__(geometry, library, used, reduces=centered or "d_bias" in wanted)

    def names(self, division: Division) -> list[str]:
        if not self._reduces:
            return ["apply"]
        if division.splits == 1:
            return ["differentiate"]
        return ["gather", "combine", *(["apply"] if self._geometry.training and "dx" in self._operands else [])]

    def read_again(self) -> tuple[str, ...]:
        return ("x", "dy") if self._geometry.training and "dx" in self._operands else ()

    def kernel(self, name: str, division: Division) -> Kernel:
        return gradient_kernel(name, self.type, self.statistic_type, division.width, division.across, self._geometry.training)

    def fill(self, argument: Struct, division: Division) -> None:
        super().fill(argument, division)
        argument["statistics"]["epsilon"], argument["statistics"]["entries"] = self._geometry.epsilon, division.entries
        argument["corrects_mean"] = self._geometry.centres_anew


def gradient_plan(desc: NormalizationGradDesc | FusedBatchNormGradV3Desc, target: Target) -> GradientPlan:
    return GradientPlan(desc.geometry, target.library)
