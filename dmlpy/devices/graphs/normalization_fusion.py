"""Moves batch normalizations into the convolutions before them, if a device computes both in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.tensors import same_layout
from dmlpy.devices.graphs.activation_fusion import OUTPUT, Fusion, replace_fused
from dmlpy.devices.graphs.fused_convolution_descs import NormalizedConvolutionDesc
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.normalization.batch import BatchNormalizationDesc
from dmlpy.validation.checking import keep_validity

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.ir import GraphIR

_STATISTICS = {
    "mean_tensor": "mean_tensor",
    "variance_tensor": "variance_tensor",
    "scale_tensor": "scale_tensor",
    "bias_tensor": "offset_tensor",
}
"""The place of each statistic of BATCH_NORMALIZATION in the whole."""


def fuse_normalizations(ir: GraphIR, compile_node: Callable[[OperatorDesc], object]) -> GraphIR:
    """The IR with each batch normalization in the convolution that it reads, if nothing else reads the convolution's result.

    Its statistics are constants or owned inputs with one entry for each channel.

    Args:
        ir: a graph's.
        compile_node: compiles a desc. A whole that it rejects is not fused.
    """
    fusions = [
        fusion
        for index, desc in ir.operators.items()
        if isinstance(desc, BatchNormalizationDesc) and (fusion := _into_convolution(ir, index, desc, compile_node)) is not None
    ]
    return replace_fused(ir, fusions) if fusions else ir


def _into_convolution(
    ir: GraphIR, index: int, normalization: BatchNormalizationDesc, compile_node: Callable[[OperatorDesc], object]
) -> Fusion | None:
    """One normalization in the convolution that it reads, or None if it cannot be there."""
    source = ir.reads[index, "input_tensor"]
    writer = source[0]
    if writer is None or writer not in ir.operators or len(ir.readers[source]) > 1 or source in ir.given:
        return None
    convolution, given, output = ir.operators[writer], normalization.input_tensor, normalization.output_tensor
    if type(convolution) is not ConvolutionDesc or convolution.fused_activation is not None or output is None:
        return None
    written = ir.tensors[source]
    alike = given.data_type == written.data_type and given.sizes == written.sizes and same_layout(written, given.element_strides)
    of_channels = (1, written.sizes[1], *[1] * (written.dimension_count - 2))
    statistics = {whole: getattr(normalization, place) for place, whole in _STATISTICS.items()}
    sources = {ir.reads[index, place] for place in _STATISTICS}
    if not alike or any(tensor.sizes != of_channels for tensor in statistics.values()) or not sources <= ir.static:
        return None
    of_convolution = {name: getattr(convolution, name) for name in type(convolution).model_fields}
    of_convolution |= {OUTPUT: output, "fused_activation": normalization.fused_activation}
    try:
        whole = NormalizedConvolutionDesc(**of_convolution, **statistics, epsilon=normalization.epsilon)
        if normalization.fused_activation is None:
            keep_validity(convolution, whole)  # its other members were checked as those of the normalization
        compile_node(whole)
    except (CompileError, DescError, DeviceError):
        return None
    return Fusion(index, source, whole, output, _STATISTICS)
