"""Batch normalization over raw_kernels/normalization/forward.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cuda.common.functors import attribute_values, functor
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct, scalar_type
from dmlpy.devices.cuda.normalization.common import NormalizationPlan, parameters_type
from dmlpy.operators.activation import ActivationIdentityDesc

if TYPE_CHECKING:
    from dmlpy.devices.cuda.common.division import Division
    from dmlpy.devices.cuda.plans import Target
    from dmlpy.operators.normalization.batch import NormalizationDesc
    from dmlpy.operators.normalization.fused_batch import FusedBatchNormDesc
    from dmlpy.operators.normalization.geometry import NormalizationGeometry

DATA = ("x", "add", "y")
STATISTICS = ("mean", "variance", "scale", "bias", "batch_mean", "batch_variance", "running_mean", "running_variance")
PARAMETERS = parameters_type(
    DATA,
    STATISTICS,
    ("epsilon", "factor", "entries", "unbiased"),
    ("firsts", np.uint64),
    ("group_statistics", np.uint64),
    ("side_by_side", np.uint32),
    ("cached", np.uint32),
    ("attributes", np.float32, (2,)),
)


def forward_kernel(
    name: str,
    data_type: np.dtype[Any],
    statistic_type: np.dtype[Any],
    width: int = 1,
    across: bool = False,
    training: bool = True,
    function: str = "Identity",
) -> Kernel:
    """An instance of `normalize`, `gather`, `combine` or `apply`; arguments without a template parameter in the kernel are ignored."""
    types = f"{scalar_type(data_type)}, {scalar_type(statistic_type)}"
    vectors = f"{width}, {str(across).lower()}"
    arguments = {
        "normalize": f"{types}, {vectors}, {function}",
        "gather": f"{types}, {vectors}",
        "combine": types,
        "apply": f"{types}, {vectors}, {str(training).lower()}, {function}",
    }[name]
    shared = name != "apply"
    return Kernel("normalization/forward.cu", f"{name}<{arguments}>", PARAMETERS, f"ForwardParameters<{types}>", shared)


class ForwardPlan(NormalizationPlan):
    """The forward pass: with given statistics one launch; in training one, or three if groups are few and large."""

    data = DATA
    statistics = STATISTICS
    scratch = {"firsts": 4, "group_statistics": 12}

    def __init__(self, geometry: NormalizationGeometry, library: KernelLibrary) -> None:
        self._function = geometry.activation or ActivationIdentityDesc()
        super().__init__(geometry, library, DATA, geometry.training)

    def names(self, division: Division) -> list[str]:
        if not self._geometry.training:
            return ["apply"]
        if division.splits == 1:
            return ["normalize"]
        return ["gather", "combine", *(["apply"] if "y" in self._operands else [])]

    def read_again(self) -> tuple[str, ...]:
        return ("x",) if self._geometry.training and "y" in self._operands else ()

    def kernel(self, name: str, division: Division) -> Kernel:
        function = functor(type(self._function))
        training = self._geometry.training
        return forward_kernel(name, self.type, self.statistic_type, division.width, division.across, training, function)

    def fill(self, argument: Struct, division: Division) -> None:
        super().fill(argument, division)
        entries = division.entries
        statistics = argument["statistics"]
        statistics["epsilon"], statistics["factor"] = self._geometry.epsilon, self._geometry.average_factor
        statistics["entries"], statistics["unbiased"] = entries, entries / max(entries - 1, 1)
        argument["attributes"] = attribute_values(self._function)


def forward_plan(desc: NormalizationDesc | FusedBatchNormDesc, target: Target) -> ForwardPlan:
    return ForwardPlan(desc.geometry, target.library)
