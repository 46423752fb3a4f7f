"""ONNX Runtime's own operators (com.microsoft): activations, normalizations and products that its optimizer fuses."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from dmlpy import x
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.graphs.views import broadcast_sizes
from dmlpy.messages.naming import listed
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.activations import PLAIN
from dmlpy.onnx.lowering.rules.heads import look_up, merge_heads, rotate, split_heads
from dmlpy.onnx.nodes.windows import compute_windows

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_ACTIVATIONS = {name: function for name, function in PLAIN.items() if name not in ("Celu", "ThresholdedRelu")}
"""The activations that ONNX Runtime fuses into a product."""
_STREAMS = ("time", "height", "width")
"""The positions of a token of a picture or a film."""


@lowers("Gelu", domain=MICROSOFT)
def gelu(node: Node) -> Expression:
    """ACTIVATION_GELU."""
    return x.activation_gelu(node.x(0))


@lowers("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: Node) -> Expression:
    """ELEMENT_WISE_ADD1 and ACTIVATION_GELU."""
    return x.activation_gelu(x.add(node.x(0), node.x(1)))


@lowers("FastGelu", domain=MICROSOFT)
def fast_gelu(node: Node) -> Expression:
    """Gelu by the hyperbolic tangent: products and sums, and ACTIVATION_TANH."""
    data = node.x(0) + node.x(1) if node.has(1) else node.x(0)
    inner = data * (data * data * (0.044715 * sqrt(2 / pi)) + sqrt(2 / pi))
    return data * (x.activation_tanh(inner) * 0.5 + 0.5)


@lowers("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node) -> Expression:
    """ACTIVATION_SIGMOID of the scaled input, and a product."""
    data = node.x(0)
    return data * x.activation_sigmoid(data * float(node.attribute("alpha", 1.702)))


@lowers("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: Node) -> Expression:
    """The first half of the channels by ACTIVATION_GELU of the second, after ELEMENT_WISE_ADD1."""
    total = node.x(0) + node.x(1)
    half = total.sizes[-1] // 2
    return total[..., :half] * x.activation_gelu(total[..., half:])


@lowers("BiasAdd", domain=MICROSOFT)
def bias_add(node: Node) -> Expression:
    """Two additions."""
    return node.x(0) + node.x(1) + node.x(2)


def root_mean_square(node: Node, data: Expression, axes: list[int], epsilon: float) -> Expression:
    """The data by the root of its mean square: MEAN_VARIANCE_NORMALIZATION2 without the mean, or below feature level 6_3 its parts."""
    if node.level >= FeatureLevel.FL_6_3:
        return x.mean_variance_normalization2(data, axes=axes, use_mean=False, epsilon=epsilon)
    return x.divide(data, x.sqrt(x.reduce(data * data, function="AVERAGE", axes=axes) + epsilon))


@lowers("SimplifiedLayerNormalization", domain=MICROSOFT)
@lowers("SimplifiedLayerNormalization")
def simplified(node: Node) -> tuple[Expression | None, ...]:
    """MEAN_VARIANCE_NORMALIZATION2 without the mean, in FLOAT32; the inverse deviation by REDUCE."""
    rank = node.rank(0)
    axes = [*range(node.axis(int(node.attribute("axis", -1)), rank), rank)]
    epsilon = float(node.attribute("epsilon", 1e-5))
    data = _single(node.x(0))
    normalized = _like(root_mean_square(node, data, axes, epsilon) * _single(node.x(1)), node.data_type(1))
    if not node.wants(1):
        return (normalized,)
    return normalized, x.recip(x.sqrt(x.reduce(data * data, function="AVERAGE", axes=axes) + epsilon))


@lowers("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_normalization(node: Node) -> tuple[Expression | None, ...]:
    """Sums and MEAN_VARIANCE_NORMALIZATION1 over the last axis, or MEAN_VARIANCE_NORMALIZATION2 without the mean."""
    is_simplified = node.op_type.startswith("SkipSimplified")
    bias = 3 if is_simplified else 4
    total = node.x(0) + node.x(1)
    if node.has(bias):  # FLOAT16 is rounded once, when all is added
        total = _like(_single(node.x(0)) + _single(node.x(1)) + _single(node.x(bias)), node.data_type(0))
    rank = len(total.sizes)
    axes, epsilon = [rank - 1], float(node.attribute("epsilon", 1e-12 if not is_simplified else 1e-6))
    if is_simplified:
        normalized = root_mean_square(node, total, axes, epsilon) * node.x(2)
    else:
        normalized = x.mean_variance_normalization1(total, axes=axes, epsilon=epsilon) * node.x(2)
        normalized = normalized + node.x(3) if node.has(3) else normalized
    return normalized, None, None, total


@lowers("EmbedLayerNormalization", domain=MICROSOFT)
def embed(node: Node) -> tuple[Expression | None, ...]:
    """GATHER of each table, sums, and MEAN_VARIANCE_NORMALIZATION1; the words of the mask are counted by REDUCE."""
    batch, length = node.sizes(0)
    total = look_up(node.x(2), node.x(0))
    positions = node.x(3)
    total = total + (look_up(positions, node.x(8)) if node.has(8) else positions[:length])
    if node.has(4):  # words without numbers of segments are of the first one
        total = total + (look_up(node.x(4), node.x(1)) if node.has(1) else node.x(4)[:1])
    normalized = x.mean_variance_normalization1(total, axes=[2], epsilon=float(node.attribute("epsilon", 1e-12))) * node.x(5) + node.x(6)
    if node.has(7):
        words = x.reduce(node.x(7), function="SUM", axes=[1]).reshape(batch)
    else:
        words = x.fill_value_constant(value_data_type=DataType.INT32, value=0, output_sizes=[batch])
    return normalized, words, total


@lowers("GroupNorm", domain=MICROSOFT)
def group_norm(node: Node) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION of each group of channels, then scale and bias of each channel, and ACTIVATION_SIGMOID for SiLU."""
    last = bool(node.attribute("channels_last", 1))
    data, rank = node.x(0), node.rank(0)
    data = data.transpose(0, rank - 1, *range(1, rank - 1)) if last else data
    sizes, groups = data.sizes, int(node.attribute("groups", 0))
    if not groups or sizes[1] % groups:
        raise node.refusal("onnx.invalid", "groups", str(groups), f"a divisor of the {sizes[1]} channels")
    grouped = _single(data).reshape(sizes[0], groups, 1, prod(sizes[1:]) // groups)
    normalized = x.mean_variance_normalization(grouped, cross_channel=False, epsilon=float(node.attribute("epsilon", 1e-5))).reshape(*sizes)
    scale, bias = (_single(node.x(index)).reshape(1, -1, *[1] * (rank - 2)) for index in (1, 2))
    normalized = normalized * scale + bias
    if node.attribute("activation", 0):
        normalized = normalized * x.activation_sigmoid(normalized)
    normalized = _like(normalized, node.data_type(0))
    return normalized.transpose(0, *range(2, rank), 1) if last else normalized


@lowers("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul", domain=MICROSOFT)
def matmul(node: Node) -> Expression:
    """GEMM of views, and the activation."""
    sides = []
    for index, name in ((0, "A"), (1, "B")):
        side = node.x(index)
        rank = len(side.sizes)
        order = [*range(rank)]
        if node.attribute(f"transBatch{name}", 0) and rank > 2:
            order = [*order[1:-1], order[0], order[-1]]
        if node.attribute(f"trans{name}", 0) and rank > 1:
            order[-2:] = order[:-3:-1]
        sides.append(side.transpose(*order) if order != [*range(rank)] else side)
    product = _product(sides[0], sides[1], float(node.attribute("alpha", 1.0)))
    if node.op_type != "FusedMatMulActivation":
        return product
    name = node.attribute("activation")
    if name not in _ACTIVATIONS:
        raise node.unsupported("activation", *_ACTIVATIONS)
    members = {parameter: node.attribute(f"activation_{parameter}") for parameter in ("alpha", "beta", "gamma")}
    return _ACTIVATIONS[name](product, **{parameter: value for parameter, value in members.items() if value is not None})


def _product(a: Expression, b: Expression, alpha: float) -> Expression:
    """The scaled matrix product: in GEMM where both are matrices, else `@` and a product."""
    if len(a.sizes) < 2 or len(b.sizes) < 2:
        product = a @ b
        return product if alpha == 1 else product * alpha
    batch = broadcast_sizes(a.sizes[:-2], b.sizes[:-2])
    if batch is None or len(batch) > 2:
        product = a @ b
        return product if alpha == 1 else product * alpha
    operands = [side.broadcast(*batch, *side.sizes[-2:]).with_leading_ones(4) for side in (a, b)]
    return x.gemm(*operands, alpha=alpha).reshape(*batch, a.sizes[-2], b.sizes[-1])


@lowers("NhwcConv", domain=MICROSOFT)
def nhwc_convolution(node: Node) -> Expression:
    """CONVOLUTION of views with the channels last, the filter's included."""
    data, filters = (node.x(index).transpose(0, 3, 1, 2) for index in (0, 1))
    windows = compute_windows(node, data.sizes[2:], filters.sizes[2:])
    convolved = x.convolution(
        data,
        filters,
        node.x(2).reshape(1, -1, 1, 1) if node.has(2) else None,
        **windows.members(node),
    )
    return convolved.transpose(0, 2, 3, 1)


@lowers("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def transposed_convolution(node: Node) -> Expression:
    """CONVOLUTION with direction BACKWARD; the paddings have to be known."""
    if node.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise node.unsupported("auto_pad", "NOTSET")
    sizes, lengths = node.sizes(0)[2:], node.sizes(1)[2:]
    rank = len(sizes)
    pads = [int(pad) for pad in node.array(2)] if node.has(2) else [0] * (2 * rank)
    strides, dilations = node.attribute("strides") or [1] * rank, node.attribute("dilations") or [1] * rank
    extra, group = node.attribute("output_padding") or [0] * rank, node.attribute("group", 1)
    wanted = [
        (size - 1) * stride + (length - 1) * dilation + 1 + more - before - behind
        for size, stride, length, dilation, more, before, behind in zip(
            sizes, strides, lengths, dilations, extra, pads[:rank], pads[rank:], strict=True
        )
    ]
    return x.convolution(
        node.x(0),
        node.x(1),
        node.x(3).reshape(1, -1, *[1] * rank) if node.has(3) else None,
        direction="BACKWARD",
        strides=strides,
        dilations=dilations,
        start_padding=pads[:rank],
        end_padding=pads[rank:],
        output_padding=extra,
        group_count=group,
        output_sizes=[node.sizes(0)[0], node.sizes(1)[1] * group, *wanted],
    )


@lowers("RotaryEmbedding", domain=MICROSOFT)
def rotary(node: Node) -> Expression:
    """Products and sums of the two parts of each pair, with the angles that GATHER looks up."""
    if node.attribute("is_packed_batching", 0):
        raise node.unsupported("is_packed_batching", 0)
    four, scale = node.rank(0) == 4, float(node.attribute("scale", 1.0))
    width = 2 * node.sizes(2)[1]
    count = int(node.attribute("num_heads", 0)) or (1 if four else node.sizes(0)[2] // width)
    tensor = node.x(0) if four else split_heads(node.x(0), count)
    length, places = tensor.sizes[2], node.x(1)
    if node.rank(1) == 1:
        node.reserve_elements(length)
        steps = x.cast(x.constant(np.arange(length, dtype=np.int32)), output_data_type=places.data_type)
        places = (places + steps).reshape(1, length)
    if places.sizes[1] != length:
        raise node.refusal("onnx.sizes", "input 1 'position_ids'", listed(node.sizes(1)), f"[1] or [{tensor.sizes[0]}, {length}]")
    cosines, sines = (look_up(node.x(index), places) for index in (2, 3))
    rotated = rotate(tensor, cosines, sines, interleaved=bool(node.attribute("interleaved", 0)))
    rotated = rotated if scale == 1 else rotated * scale
    return rotated if four else merge_heads(rotated)


@lowers("MRotaryEmbedding", domain=MICROSOFT)
def rotary_of_three(node: Node) -> Expression:
    """RotaryEmbedding of which each angle is that of a time, a row or a column: ELEMENT_WISE_IF chooses among three GATHERs."""
    if node.attribute("is_packed_batching", 0):
        raise node.unsupported("is_packed_batching", 0)
    sizes, sections = node.sizes(1), [int(size) for size in node.attribute("mrope_section") or ()]
    if len(sizes) != 3 or sizes[0] != len(_STREAMS):
        raise node.refusal("onnx.sizes", node.input_label(1), listed(sizes), "[3, batch, steps]")
    half, layout = node.sizes(2)[1], int(node.attribute("mrope_layout", 0))
    if len(sections) != len(_STREAMS) or min(sections) < 0 or sum(sections) != half:
        raise node.refusal("onnx.attribute", "mrope_section", listed(sections), f"three sizes with the sum {half}, one for each angle")
    if layout not in (0, 1):
        raise node.unsupported("mrope_layout", 0, 1)
    angles, ends = np.arange(half), np.cumsum(sections)
    masks = []
    for index, name in enumerate(_STREAMS[1:], 1):
        of_stream = (
            (angles % 3 == index) & (angles < 3 * sections[index]) if layout else (angles >= ends[index - 1]) & (angles < ends[index])
        )
        masks.append(node.constant(name, of_stream.astype(np.uint8).reshape(1, 1, half)).broadcast(*sizes[1:], half))

    scale = float(node.attribute("scale", 1.0))

    def combine(cache: int) -> Expression:
        rotated, *others = (look_up(node.x(cache), node.x(1)[index].reshape(*sizes[1:])) for index in range(len(_STREAMS)))
        for mask, other in zip(masks, others, strict=True):
            rotated = x.if_(mask, other, rotated)
        return rotated if scale == 1 else rotated * scale  # what is not rotated is not scaled

    four = node.rank(0) == 4
    tensor = node.x(0) if four else split_heads(node.x(0), int(node.attribute("num_heads", 0)) or node.sizes(0)[2] // (2 * half))
    rotated = rotate(tensor, combine(2), combine(3), interleaved=bool(node.attribute("interleaved", 0)))
    return rotated if four else merge_heads(rotated)


def _single(tensor: Expression) -> Expression:
    return _like(tensor, DataType.FLOAT32)


def _like(tensor: Expression, data_type: DataType) -> Expression:
    return tensor if tensor.data_type is data_type else x.cast(tensor, output_data_type=data_type)
