"""Mean-variance and Lp normalization over raw_kernels/normalization/groups.cu."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.division import SPLITS, thread_groups_type
from dmlpy.devices.cuda.common.functors import attribute_values, functor
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, scalar_type, struct
from dmlpy.devices.cuda.normalization.common import ThreadGroupsPlan
from dmlpy.operators.activation import ActivationDesc, ActivationIdentityDesc
from dmlpy.operators.normalization.geometry import operand
from dmlpy.operators.normalization.lp import LPNormalizationDesc
from dmlpy.operators.normalization.mean_variance import (
    MeanVarianceNormalization1Desc,
    MeanVarianceNormalization2Desc,
    MeanVarianceNormalizationDesc,
)

if TYPE_CHECKING:
    from dmlpy.devices.cuda.common.division import Division
    from dmlpy.devices.cuda.plans import Target

GroupNormalizationDesc = (
    MeanVarianceNormalizationDesc | MeanVarianceNormalization1Desc | MeanVarianceNormalization2Desc | LPNormalizationDesc
)

DATA = ("x", "scale", "bias", "y")
PARAMETERS = struct(
    *((role, np.uint64) for role in DATA),
    ("thread_groups", thread_groups_type(len(DATA))),
    ("splits", SPLITS),
    ("firsts", np.uint64),
    ("scalings", np.uint64),
    ("settings", struct(("entries", np.float32), ("epsilon", np.float32), ("scales", np.int32))),
    ("cached", np.uint32),
    ("attributes", np.float32, (2,)),
)

STATISTICS = ("MeanVariance", "RootMeanSquare", "OneNorm", "TwoNorm", "Unscaled")
"""The kernels' types of statistics: what x is centred and divided by."""


def groups_kernel(
    name: str, data_type: np.dtype[Any], statistic: str, width: int = 1, across: bool = False, function: str = "Identity"
) -> Kernel:
    """An instance of `normalize`, `gather`, `combine` or `apply`; arguments without a template parameter in the kernel are ignored."""
    scalar = scalar_type(data_type)
    types = f"{scalar}, {statistic}" if statistic in ("MeanVariance", "Unscaled") else f"{scalar}, {statistic}<{scalar}>"
    vectors = f", {width}, {str(across).lower()}"
    arguments = {"combine": types, "gather": types + vectors}.get(name, f"{types}{vectors}, {function}")
    return Kernel("normalization/groups.cu", f"{name}<{arguments}>", PARAMETERS, f"GroupsParameters<{types}>", name != "apply")


@dataclass(frozen=True)
class Statistic:
    """The statistics by which a desc centres and divides x.

    Attributes:
        name: one of `STATISTICS`.
        axes: the dimensions that a group extends along.
        scales: of MeanVariance, whether it divides by the deviation.
    """

    name: str
    axes: tuple[int, ...]
    scales: bool = True

    @classmethod
    def of(cls, desc: GroupNormalizationDesc) -> Statistic:
        """The statistic of a checked desc."""
        if isinstance(desc, LPNormalizationDesc):
            return cls("OneNorm" if desc.p == 1 else "TwoNorm", (desc.axis,))
        if isinstance(desc, MeanVarianceNormalization2Desc):
            without_mean = "RootMeanSquare" if desc.use_variance else "Unscaled"
            return cls("MeanVariance" if desc.use_mean else without_mean, tuple(desc.axes), desc.use_variance)
        if isinstance(desc, MeanVarianceNormalization1Desc):
            return cls("MeanVariance", tuple(desc.axes), desc.normalize_variance)
        return cls("MeanVariance", (1, 2, 3) if desc.cross_channel else (2, 3), desc.normalize_variance)


class GroupNormalizationPlan(ThreadGroupsPlan):
    """One launch, or three if groups are few and large."""

    data = DATA
    scratch = {"firsts": 4, "scalings": 12}

    def __init__(self, desc: GroupNormalizationDesc, library: KernelLibrary) -> None:
        self._statistic, self._epsilon = Statistic.of(desc), desc.epsilon
        fused = None if isinstance(desc, LPNormalizationDesc) else desc.fused_activation
        self._function: ActivationDesc = fused or ActivationIdentityDesc()
        tensors = desc.tensors()
        sizes = tensors["input_tensor"].sizes
        names = {"x": "input_tensor", "scale": "scale_tensor", "bias": "bias_tensor", "y": "output_tensor"}
        operands = {role: operand(name, tensors[name], len(sizes)) for role, name in names.items() if name in tensors}
        super().__init__(sizes, self._statistic.axes, operands, library, self._statistic.name != "Unscaled")

    def names(self, division: Division) -> list[str]:
        if not self._reduces:
            return ["apply"]
        return ["normalize"] if division.splits == 1 else ["gather", "combine", "apply"]

    def read_again(self) -> tuple[str, ...]:
        return ("x",) if self._reduces else ()

    def kernel(self, name: str, division: Division) -> Kernel:
        return groups_kernel(name, self.type, self._statistic.name, division.width, division.across, functor(type(self._function)))

    def fill(self, argument: Struct, division: Division) -> None:
        argument["settings"] = (division.entries, self._epsilon, self._statistic.scales)
        argument["attributes"] = attribute_values(self._function)


def group_normalization_plan(desc: GroupNormalizationDesc, target: Target) -> GroupNormalizationPlan:
    return GroupNormalizationPlan(desc, target.library)
