"""The compiled plan of CONVOLUTION, forward and transposed."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.description.enums import DataType
from dmlpy.description.tensors import same_layout
from dmlpy.devices.cpu.plans import plan
from dmlpy.devices.numpy.convolution.geometry import Geometry
from dmlpy.operators.activation import ActivationReluDesc
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from dmlpy.devices.cpu.convolution.plan import ConvolutionPlan
    from dmlpy.devices.cpu.float32_copies import Float32CopyPlan

_MIN_POSITIONS = 8
"""Positions of the window in an image, at least, where input tiles of single channels are copied: vectors run along them."""
_FEW_PRODUCTS = 1 << 9
"""Multiplications of a convolution, at most, that take less time than a call of NumPy."""
_MAX_PHASES = 64
"""Launches of a transposed convolution, at most, one for each remainder of the output's coordinates by the strides."""
_MAX_SPARSITY = 16
"""The most elements of an input tile for each element that its windows read."""


@plan(ConvolutionDesc)
def convolution_plan(desc: ConvolutionDesc) -> ConvolutionPlan | Float32CopyPlan | str:
    """With FLOAT16 and BFLOAT16, only RELU and CLIP are fused in place: other functions get copies of FLOAT32."""
    from dmlpy.devices.cpu.convolution.plan import ConvolutionPlan

    geometry, function = Geometry.of(desc), desc.fused_activation
    types = {tensor.data_type for tensor in desc.tensors().values()}
    if len(types) > 1:
        return "compiled convolutions have tensors of one type"
    if types != {DataType.FLOAT32} and not (function is None or isinstance(function, ActivationReluDesc | ElementWiseClipDesc)):
        from dmlpy.devices.cpu.float32_copies import float32_copy_plan

        return float32_copy_plan(desc)
    if (refusal := _why_no_epilogue(desc, geometry)) is not None:
        return refusal
    if geometry.backward and prod(geometry.strides) > _MAX_PHASES:
        return f"the strides divide the output into more than {_MAX_PHASES} convolutions"
    candidate = ConvolutionPlan(desc, geometry)
    is_small = geometry.multiplications <= _FEW_PRODUCTS
    if geometry.filters == 1 and candidate.positions < _MIN_POSITIONS and not candidate.is_row_blocked and not is_small:
        return f"an image of single channels has fewer than {_MIN_POSITIONS} positions of the window: matrix products are faster"
    if candidate.is_matrix:
        return "a pointwise convolution with channels last is one matrix product"
    return candidate if candidate.is_dense(_MAX_SPARSITY) else "the windows span far more of the input than they read"


def _why_no_epilogue(desc: ConvolutionDesc, geometry: Geometry) -> str | None:
    """Why the epilogue of a convolution is not computed with it; None if it is, or if there is none."""
    from dmlpy.devices.graphs.fused_convolution_descs import EpilogueConvolutionDesc

    if not isinstance(desc, EpilogueConvolutionDesc):
        return None
    if desc.gate in ("silu", "swish") and desc.input_tensor.data_type == DataType.FLOAT32:
        return "a pass of its own computes sigmoids of FLOAT32 as fast: it interleaves several vectors"
    function, output, added = desc.fused_activation, desc.output_tensor, desc.added_tensor
    clips = isinstance(function, ElementWiseClipDesc) and function.scale_bias is None
    if geometry.backward or not (clips or function is None or isinstance(function, ActivationReluDesc)):
        return "an epilogue is that of a forward convolution, with RELU or CLIP behind it"
    assert output is not None, "guaranteed by the check"
    if added is not None and not (
        same_layout(output, added.element_strides) and (output.element_strides[-1] == 1 or output.sizes[-1] == 1)
    ):
        return "what an epilogue adds has the layout of the output, whose rows are contiguous"
    return None
