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
    from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan
    from dmlpy.devices.plan import Plan

_MIN_POSITIONS = 8
"""Positions of the window in an image, at least, where input tiles of single channels are copied: vectors run along them."""
_FEW_PRODUCTS = 1 << 9
"""Multiplications of a convolution, at most, that take less time than a call of NumPy."""
_MAX_PHASES = 64
"""Launches of a transposed convolution, at most, one for each remainder of the output's coordinates by the strides."""
_FEWEST_COPIED = 1 << 11
"""The fewest elements of a depthwise convolution's input that are copied to planes: a launch less takes as long for fewer."""
_MAX_SPARSITY = 16
"""The most elements of an input tile for each element that its windows read."""
_FUSED = "dmlpy.devices.graphs.fused_convolution_descs"
"""The module of convolutions with other nodes."""


@plan(ConvolutionDesc, f"{_FUSED}:NormalizedConvolutionDesc", f"{_FUSED}:EpilogueConvolutionDesc")
def convolution_plan(desc: ConvolutionDesc) -> Plan | str:
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
    if (copied := _on_planes(desc, geometry, candidate)) is not None:
        return copied
    is_small = geometry.multiplications <= _FEW_PRODUCTS
    if geometry.filters == 1 and candidate.positions < _MIN_POSITIONS and not candidate.is_row_blocked and not is_small:
        return f"an image of single channels has fewer than {_MIN_POSITIONS} positions of the window: matrix products are faster"
    if candidate.is_matrix:
        return "a pointwise convolution with channels last is one matrix product"
    return candidate if candidate.is_dense(_MAX_SPARSITY) else "the windows span far more of the input than they read"


def _on_planes(desc: ConvolutionDesc, geometry: Geometry, candidate: ConvolutionPlan) -> LayoutCopiesPlan | None:
    """The plan of a depthwise convolution with contiguous channels on copies with contiguous rows, whose planes have row blocks."""
    from dmlpy.devices.cpu.convolution.plan import ConvolutionPlan
    from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan, dense

    places: list[str] = [place for place in ("input_tensor", "output_tensor", "added_tensor") if place in desc.tensors()]
    if (geometry.channels, geometry.filters) != (1, 1) or candidate.is_row_blocked or desc.input_tensor.element_count < _FEWEST_COPIED:
        return None
    given = {place: desc.tensors()[place] for place in places}
    copied = {place: dense(tensor) for place, tensor in given.items() if not same_layout(tensor, dense(tensor).element_strides)}
    if not copied:
        return None
    other = desc.replace(**copied)
    on_copies = ConvolutionPlan(other, Geometry.of(other))
    return LayoutCopiesPlan(on_copies, desc, copied) if on_copies.is_row_blocked else None


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
