"""Moves batch normalizations into the convolutions before them, where a device computes both in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description.tensors import same_layout
from dmlpy.devices.graphs.activation_fusion import OUTPUT, Fusion, joined
from dmlpy.devices.graphs.normalized_desc import NormalizedConvolutionDesc
from dmlpy.messages.problems import CompileError, DescError, DeviceError
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.normalization.batch import BatchNormalizationDesc

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.graphs.ir import Wiring

_STATISTICS = {
    "mean_tensor": "mean_tensor",
    "variance_tensor": "variance_tensor",
    "scale_tensor": "scale_tensor",
    "bias_tensor": "offset_tensor",
}
"""The place of each statistic of BATCH_NORMALIZATION in the whole."""


def normalized(wiring: Wiring, compile_node: Callable[[OperatorDesc], object]) -> Wiring:
    """The wiring with each batch normalization in the convolution that it reads, where nothing else reads that one's result.

    Its statistics are constants or owned inputs with one entry for each channel.

    Args:
        wiring: a graph's.
        compile_node: compiles a desc. A whole that it refuses stays apart.
    """
    found = [
        fusion
        for index, desc in wiring.operators.items()
        if isinstance(desc, BatchNormalizationDesc) and (fusion := _into_convolution(wiring, index, desc, compile_node)) is not None
    ]
    return joined(wiring, found) if found else wiring


def _into_convolution(
    wiring: Wiring, index: int, normalization: BatchNormalizationDesc, compile_node: Callable[[OperatorDesc], object]
) -> Fusion | None:
    """One normalization in the convolution that it reads, or None if it cannot be there."""
    source = wiring.reads[index, "input_tensor"]
    writer = source[0]
    if writer is None or writer not in wiring.operators or len(wiring.readers[source]) > 1 or source in wiring.given:
        return None
    convolution, given, output = wiring.operators[writer], normalization.input_tensor, normalization.output_tensor
    if type(convolution) is not ConvolutionDesc or convolution.fused_activation is not None or output is None:
        return None
    written = wiring.tensors[source]
    alike = given.data_type == written.data_type and given.sizes == written.sizes and same_layout(written, given.element_strides)
    of_channels = (1, written.sizes[1], *[1] * (written.dimension_count - 2))
    statistics = {whole: getattr(normalization, place) for place, whole in _STATISTICS.items()}
    sources = {wiring.reads[index, place] for place in _STATISTICS}
    if not alike or any(tensor.sizes != of_channels for tensor in statistics.values()) or not sources <= wiring.static:
        return None
    own = {name: getattr(convolution, name) for name in type(convolution).model_fields}
    own |= {OUTPUT: output, "fused_activation": normalization.fused_activation}
    try:
        whole = NormalizedConvolutionDesc(**own, **statistics, epsilon=normalization.epsilon)
        compile_node(whole)
    except (CompileError, DescError, DeviceError):
        return None
    return Fusion(index, writer, whole, output, _STATISTICS)
