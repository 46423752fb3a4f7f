"""The work for which `dmlpy warmup` compiles kernels: operators of common sizes, by kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc, GroupedOperator
from dmlpy.devices.graphs.fused_convolution_descs import EpilogueConvolutionDesc
from dmlpy.devices.graphs.lookup_table_desc import LookupConvolutionDesc, LookupTableDesc
from dmlpy.devices.graphs.quantized_binary_desc import BinaryOperator, QuantizedBinaryDesc
from dmlpy.operators.activation import (
    ActivationGeluDesc,
    ActivationReluDesc,
    ActivationSigmoidDesc,
    ActivationSoftmax1Desc,
    ActivationTanhDesc,
)
from dmlpy.operators.attention import MultiheadAttentionDesc
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.elementwise.arithmetic import ElementWiseAddDesc, ElementWiseMultiplyDesc
from dmlpy.operators.indexing import GatherDesc, GatherElementsDesc
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.operators.movement.copy import CastDesc
from dmlpy.operators.normalization.batch import BatchNormalizationDesc
from dmlpy.operators.normalization.mean_variance import MeanVarianceNormalization1Desc
from dmlpy.operators.pooling.average import AveragePoolingDesc
from dmlpy.operators.pooling.maximum import MaxPoolingDesc
from dmlpy.operators.quantized.linear import (
    ElementWiseDequantizeLinearDesc,
    ElementWiseQuantizedLinearAddDesc,
    ElementWiseQuantizeLinearDesc,
)
from dmlpy.operators.quantized.products import (
    MatrixMultiplyIntegerDesc,
    QuantizedLinearAveragePoolingDesc,
    QuantizedLinearConvolutionDesc,
    QuantizedLinearMatrixMultiplyDesc,
)
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RNNDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc
from dmlpy.operators.reduction import ReduceDesc
from dmlpy.operators.resampling import ResampleDesc, Upsample2DDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dmlpy.description.descs import OperatorDesc

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_SIZES = ((1, 64), (16, 256))
"""Batch and hidden size of the layers: kernels may differ between single sequences and batches."""


def _tensor(dtype: str, *sizes: int) -> TensorDesc:
    return TensorDesc(data_type=dtype, sizes=sizes)


def _layers(cell: str, dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """A cell's layers with the frameworks' defaults, forward or in training with all gradients.

    Layers with several sequence lengths use all kernels of the others, and a few more.
    """
    forward: dict[str, type[Any]] = {"RNN": RNNDesc, "GRU": GRUDesc, "LSTM": LSTMDesc}
    trained: dict[str, type[Any]] = {"RNN": RNNTrainingDesc, "GRU": GRUTrainingDesc, "LSTM": LSTMTrainingDesc}
    sigmoid, tanh = ActivationSigmoidDesc(), ActivationTanhDesc()
    functions = {"RNN": [tanh], "GRU": [sigmoid, tanh], "LSTM": [sigmoid, tanh, tanh]}[cell]
    for after in (True, False) if cell == "GRU" else (None,):
        options = {} if after is None else {"linear_before_reset": after}
        name = cell if after is None else f"{cell}, reset {'after' if after else 'before'} the product"
        for batch, hidden in _SIZES:
            rows = _GATES[cell] * hidden
            desc = (trained if training else forward)[cell](
                input_tensor=_tensor(dtype, 1, 2, batch, hidden),
                weight_tensor=_tensor(dtype, 1, 1, rows, hidden),
                recurrence_tensor=_tensor(dtype, 1, 1, rows, hidden),
                bias_tensor=_tensor(dtype, 1, 1, 1, 2 * rows),
                sequence_lengths_tensor=_tensor("UINT32", 1, 1, 1, batch),
                activation_descs=functions,
                direction="FORWARD",
                **options,
            )
            if not training:
                yield f"{name}, forward", desc.with_outputs("output_sequence_tensor", "output_single_tensor")
            else:
                desc = desc.with_outputs("output_sequence_tensor", "output_single_tensor", "reserve_tensor")
                yield f"{name}, training", desc
                yield f"{name}, gradients", desc.gradient()


_GATED: dict[str, dict[str, Any]] = {
    "a product with its SIGMOID": {"gate": "silu"},
    "HARD_SWISH": {"gate": "hard_swish", "alpha": 1 / 6, "beta": 0.5},
}
"""The functions that EfficientNet and MobileNetV3 have after convolutions."""


def _convolutions(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """Wide images, and narrow ones with filters in blocks of two sizes, and windows of both strides over planes: their kernels differ.

    Each also with what graphs of common networks compute of its results in the same pass.
    """
    dense = {"": (16, 32, 1, 1), ", narrow images": (32, 8, 1, 1), ", narrow images, 48 filters": (48, 8, 1, 1)}
    depthwise = {
        ", depthwise": (16, 32, 16, 1),
        ", depthwise with a stride of 2": (16, 32, 16, 2),
        ", depthwise, narrow images": (16, 8, 16, 1),
    }
    for name, (filters, size, groups, stride) in (dense | depthwise).items():
        desc = ConvolutionDesc(
            input_tensor=_tensor(dtype, 1, 16, size, size),
            filter_tensor=_tensor(dtype, filters, 16 // groups, 3, 3),
            group_count=groups,
            start_padding=(1, 1),
            end_padding=(1, 1),
            strides=(stride, stride),
            dilations=(1, 1),
            output_padding=(0, 0),
        )
        plain = desc.with_outputs()
        yield f"CONVOLUTION{name}", plain
        members = {member: getattr(plain, member) for member in type(plain).model_fields}
        added: dict[str, Any] = {"added_tensor": plain.output_tensor}
        sums = {"ADD": added, "ADD and RELU": added | {"fused_activation": ActivationReluDesc()}} if groups == 1 else {}
        for epilogue, more in (sums | _GATED).items():
            yield f"CONVOLUTION, then {epilogue}", EpilogueConvolutionDesc(**members | more)


def _poolings(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    sizes: dict[str, Any] = {"strides": (2, 2), "window_size": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1)}
    source = _tensor(dtype, 1, 16, 32, 32)
    yield "MAX_POOLING", MaxPoolingDesc(input_tensor=source, **sizes).with_outputs()
    yield "AVERAGE_POOLING", AveragePoolingDesc(input_tensor=source, include_padding=False, **sizes).with_outputs()
    whole: dict[str, Any] = {"strides": (1, 1), "window_size": (32, 32), "start_padding": (0, 0), "end_padding": (0, 0)}
    yield "MAX_POOLING, whole images", MaxPoolingDesc(input_tensor=source, **whole).with_outputs()
    yield "AVERAGE_POOLING, whole images", AveragePoolingDesc(input_tensor=source, include_padding=False, **whole).with_outputs()


def _elements(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """One kernel runs all element-wise operators and chains of them, and another those of a few integers, such as sizes and counters."""
    yield "element-wise operators", ActivationGeluDesc(input_tensor=_tensor(dtype, 1, 16, 32, 32)).with_outputs()
    numbers = _tensor("INT64", 1, 1, 1, 4)
    yield "element-wise operators, integers", ElementWiseAddDesc(a_tensor=numbers, b_tensor=numbers).with_outputs()


def _indexing(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """Whole rows, as of an embedding, and elements."""
    table, rows, elements = _tensor(dtype, 1, 1, 64, 256), _tensor("INT64", 1, 1, 1, 16), _tensor("INT64", 1, 1, 16, 256)
    yield "GATHER", GatherDesc(input_tensor=table, indices_tensor=rows, axis=2, index_dimensions=1).with_outputs()
    yield "GATHER_ELEMENTS", GatherElementsDesc(input_tensor=table, indices_tensor=elements, axis=2).with_outputs()


def _products(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """A matrix and a single row, and a batch; kernels do not depend on the rest."""
    for title, batch, rows in (("GEMM", 1, 64), ("GEMM, one row", 1, 1), ("GEMM, batches", 8, 64)):
        a, b = _tensor(dtype, 1, batch, rows, 256), _tensor(dtype, 1, batch, 256, 256)
        yield title, GEMMDesc(a_tensor=a, b_tensor=b).with_outputs()


def _attention(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """Many queries, and one query over the keys of the steps before, as a decoder has it, with a mask of all pairs and without."""
    for title, queries in (("MULTIHEAD_ATTENTION", 64), ("MULTIHEAD_ATTENTION, one query", 1)):
        for masked in (False, True):
            desc = MultiheadAttentionDesc(
                query_tensor=_tensor(dtype, 1, queries, 256),
                key_tensor=_tensor(dtype, 1, 64, 256),
                value_tensor=_tensor(dtype, 1, 64, 256),
                mask_tensor=_tensor("INT32", 1, 4, queries, 64) if masked else None,
                mask_type="BOOLEAN" if masked else "NONE",
                mask_filter_value=-1e4,
                scale=0.125,
                head_count=4,
            )
            yield title, desc.with_outputs("output_tensor")


def _normalizations(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """Over the last axis, as layers normalize, and over the planes of images; softmax divides by a sum in the same way."""
    rows, images, channels = _tensor(dtype, 1, 1, 64, 256), _tensor(dtype, 1, 16, 32, 32), _tensor(dtype, 1, 16, 1, 1)
    for source, axes, scale in ((rows, [3], None), (rows, [3], rows), (images, [2, 3], channels)):
        plain = MeanVarianceNormalization1Desc(input_tensor=source, axes=axes, normalize_variance=True, epsilon=1e-5)
        yield "MEAN_VARIANCE_NORMALIZATION", plain.replace(scale_tensor=scale, bias_tensor=scale).with_outputs()
    yield "SOFTMAX", ActivationSoftmax1Desc(input_tensor=rows, axes=[3]).with_outputs()
    short = _tensor(dtype, 1, 1, 64, 16)
    yield "SOFTMAX, short rows", ActivationSoftmax1Desc(input_tensor=short, axes=[3]).with_outputs()
    normalized_images = BatchNormalizationDesc(
        input_tensor=images,
        mean_tensor=channels,
        variance_tensor=channels,
        scale_tensor=channels,
        bias_tensor=channels,
        spatial=True,
        epsilon=1e-5,
    )
    yield "BATCH_NORMALIZATION", normalized_images.with_outputs()


def _reductions(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    source = _tensor(dtype, 1, 16, 32, 32)
    for function in ("SUM", "AVERAGE", "MAX"):
        for axes in ([1], [3], [2, 3]):
            yield f"REDUCE, {function}", ReduceDesc(function=function, input_tensor=source, axes=axes).with_outputs()


def _resampling(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    small, large = _tensor(dtype, 1, 16, 32, 32), _tensor(dtype, 1, 16, 64, 64)
    for mode in ("LINEAR", "NEAREST_NEIGHBOR"):
        scaled = ResampleDesc(input_tensor=small, output_tensor=large, interpolation_mode=mode, scales=[1.0, 1.0, 2.0, 2.0])
        yield f"RESAMPLE, {mode}", scaled
        doubled = Upsample2DDesc(input_tensor=small, scale_size={"Width": 2, "Height": 2}, interpolation_mode=mode)
        yield f"UPSAMPLE_2D, {mode}", doubled.with_outputs()


def _quantized(dtype: str, training: bool) -> Iterator[tuple[str, OperatorDesc]]:
    """The operators of quantized models; their scales are FLOAT32 whatever the type is."""
    scale, image, one = _tensor("FLOAT32", 1, 1, 1, 1), _tensor("FLOAT32", 1, 16, 32, 32), (1, 1, 1, 1)
    for kind in ("UINT8", "INT8"):
        zero, bytes_of_image = _tensor(kind, *one), _tensor(kind, 1, 16, 32, 32)
        repeated = {"scale_tensor": scale.replace(sizes=image.sizes, strides=(0, 0, 0, 0))}
        repeated["zero_point_tensor"] = zero.replace(sizes=image.sizes, strides=(0, 0, 0, 0))
        quantize = ElementWiseQuantizeLinearDesc(input_tensor=image, output_tensor=bytes_of_image, **repeated)
        yield f"quantization, {kind}", quantize
        yield f"quantization, {kind}", ElementWiseDequantizeLinearDesc(input_tensor=bytes_of_image, **repeated).with_outputs()
        parts = {f"{name}_tensor": scale for name in ("a_scale", "b_scale", "output_scale")}
        points = {"a_zero_point_tensor": zero, "b_zero_point_tensor": _tensor("INT8", *one), "output_zero_point_tensor": zero}
        product = {"a_tensor": _tensor(kind, 1, 1, 64, 256), "b_tensor": _tensor("INT8", 1, 1, 256, 256)}
        result = _tensor(kind, 1, 1, 64, 256)
        yield f"products, {kind}", QuantizedLinearMatrixMultiplyDesc(**product, **parts, **points, output_tensor=result)
        yield f"products, {kind}", MatrixMultiplyIntegerDesc(**product).with_outputs()
        yield from _quantized_layers(kind)


def _quantized_layers(kind: str) -> Iterator[tuple[str, OperatorDesc]]:
    """Convolutions and poolings of bytes, and what graphs fuse of element-wise operators between bytes."""
    scale, zero, image = _tensor("FLOAT32", 1, 1, 1, 1), _tensor(kind, 1, 1, 1, 1), _tensor(kind, 1, 16, 32, 32)
    given: dict[str, Any] = {"input_scale_tensor": scale, "input_zero_point_tensor": zero}
    given |= {"output_scale_tensor": scale, "output_zero_point_tensor": zero}
    # Windows of planes have kernels for their taps, for strides, and for how wide planes are.
    for window, groups, size, stride in ((3, 1, 32, 1), (3, 16, 32, 1), (3, 16, 32, 2), (5, 16, 32, 1), (5, 16, 64, 1)):
        convolution = QuantizedLinearConvolutionDesc(
            input_tensor=_tensor(kind, 1, 16, size, size),
            filter_tensor=_tensor("INT8", 16, 16 // groups, window, window),
            output_tensor=_tensor(kind, 1, 16, size // stride, size // stride),
            **given,
            filter_scale_tensor=scale,
            filter_zero_point_tensor=_tensor("INT8", 1, 1, 1, 1),
            strides=(stride, stride),
            dilations=(1, 1),
            start_padding=(window // 2, window // 2),
            end_padding=(window // 2, window // 2),
            group_count=groups,
        )
        title = f"convolutions{', depthwise' * (groups > 1)}, {kind}"
        yield title, convolution
        if window == 3:
            of_convolution = {name: getattr(convolution, name) for name in type(convolution).model_fields}
            squares = _product_nodes(_tensor(kind, 1, 16, size // stride, size // stride))
            yield title, LookupConvolutionDesc(**of_convolution, constant_tensors=(), nodes=squares)
    windows_of_images: dict[str, Any] = {"strides": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
    maximum = MaxPoolingDesc(input_tensor=image, window_size=(3, 3), **windows_of_images)
    yield f"poolings, {kind}", maximum.with_outputs()
    mean = QuantizedLinearAveragePoolingDesc(
        input_tensor=image, window_size=(32, 32), dilations=(1, 1), include_padding=False, **given, **windows_of_images
    )
    yield f"poolings, {kind}", mean.with_outputs()
    parts: dict[str, Any] = {f"{name}_scale_tensor": scale for name in "ab"} | {f"{name}_zero_point_tensor": zero for name in "ab"}
    parts |= {"output_scale_tensor": scale, "output_zero_point_tensor": zero}
    yield f"sums, {kind}", ElementWiseQuantizedLinearAddDesc(a_tensor=image, b_tensor=image, **parts).with_outputs()
    repeated = {name: part.replace(sizes=image.sizes, strides=(0, 0, 0, 0)) for name, part in parts.items()}
    of_both: dict[str, Any] = {"a_tensor": image, "b_tensor": image, **repeated, "output_tensor": image}
    for operator in BinaryOperator:
        yield f"element-wise operators, {kind}", QuantizedBinaryDesc(**of_both, operator=operator)
    nodes, of_channels = _product_nodes(image), image.replace(strides=(0, 1, 0, 0))
    yield f"element-wise operators, {kind}", ElementwiseGroupDesc(input_tensors=(image,), output_tensor=image, nodes=nodes)
    table: dict[str, Any] = {"input_tensor": image, "constant_tensors": (), "output_tensor": image}
    yield f"element-wise operators, {kind}", LookupTableDesc(**table, nodes=nodes)
    yield f"element-wise operators, {kind}", LookupTableDesc(**table, row_tensor=of_channels, nodes=_product_nodes(image, of_channels))


def _product_nodes(*images: TensorDesc) -> tuple[GroupedOperator, ...]:
    """The nodes of a table of squares, or of products by other bytes, which choose its rows. Values are counted from the inputs on."""
    number, first = _tensor("FLOAT32", *images[0].sizes), len(images)
    nodes = [
        GroupedOperator(CastDesc(input_tensor=image, output_tensor=number), (("input_tensor", at),)) for at, image in enumerate(images)
    ]
    last = first + len(nodes) - 1
    product = ElementWiseMultiplyDesc(a_tensor=number, b_tensor=number).with_outputs()
    nodes.append(GroupedOperator(product, (("a_tensor", first), ("b_tensor", last))))
    nodes.append(GroupedOperator(CastDesc(input_tensor=number, output_tensor=images[0]), (("input_tensor", last + 1),)))
    return tuple(nodes)


WORK: Mapping[str, Callable[[str, bool], Iterable[tuple[str, OperatorDesc]]]] = {
    "rnn": lambda dtype, training: _layers("RNN", dtype, training),
    "lstm": lambda dtype, training: _layers("LSTM", dtype, training),
    "gru": lambda dtype, training: _layers("GRU", dtype, training),
    "convolution": _convolutions,
    "pooling": _poolings,
    "elements": _elements,
    "indexing": _indexing,
    "gemm": _products,
    "attention": _attention,
    "normalization": _normalizations,
    "reduction": _reductions,
    "resampling": _resampling,
    "quantized": _quantized,
}
"""The kinds of work that kernels can be compiled for, by name: a title and an operator that needs the kernels."""
