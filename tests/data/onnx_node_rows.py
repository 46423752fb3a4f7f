"""Nodes of ONNX that ONNX Runtime's CPU provider runs: quantized ones, and those of its own domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx_operators import F16, F32, I8, I32, I64, MICROSOFT, U8, compute, normal, scalar, whole  # type: ignore[import-not-found, unused-ignore]
from operator_cases import Array, Cases  # type: ignore[import-not-found, unused-ignore]

CASES = Cases(f"ONNX Runtime {onnxruntime.__version__}", "onnx_nodes")


def node(
    operator: str,
    given: Sequence[Array | None],
    outputs: int | Sequence[int] = 1,
    *,
    domain: str = MICROSOFT,
    opset: int = 21,
    known: Sequence[int] = (),
    computed: int = 0,
    named: Mapping[str, Any] | None = None,
    **attributes: Any,
) -> None:
    """Computes and adds a node.

    Args:
        operator: its operator.
        given: its inputs; None for one that is left out.
        outputs: how many of its outputs are compared, or which.
        domain: the operator's domain.
        opset: the version of ONNX's own.
        known: which inputs dmlpy has to know before the model runs.
        computed: how many outputs the node has; default: those up to the last that is compared.
        named: attributes that have a name of the above.
        **attributes: the operator's.
    """
    indices = range(outputs) if isinstance(outputs, int) else outputs
    found = compute(operator, given, computed or max(indices) + 1, domain=domain, opset=opset, named=named, **attributes)
    inputs = {str(index): array for index, array in enumerate(given) if array is not None}
    told: Mapping[str, Any] = {"domain": domain, "opset": opset, "known": list(known), "attributes": attributes | dict(named or {})}
    CASES.add(operator, operator, inputs, {str(index): found[index] for index in indices}, told)


def activations() -> None:
    x, bias = normal("nodes x", 2, 3, 8), normal("nodes bias", 8)
    node("Gelu", [x])
    node("BiasGelu", [x, bias])
    node("FastGelu", [x])
    node("FastGelu", [x, bias])
    node("QuickGelu", [x])
    node("QuickGelu", [x], alpha=0.5)


def normalizations() -> None:
    x, skip = normal("skip x", 2, 3, 8), normal("skip", 2, 3, 8)
    gamma, beta, bias = (normal(f"skip {name}", 8) for name in ("gamma", "beta", "bias"))
    node("SkipLayerNormalization", [x, skip, gamma, beta, bias], [0, 3], epsilon=1e-5)
    node("SkipLayerNormalization", [x, skip[:1], gamma], epsilon=1e-3)
    node("SkipLayerNormalization", [x, skip[0], gamma, beta])
    node("SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], [0, 3], epsilon=1e-5)
    node("SkipSimplifiedLayerNormalization", [x, skip, gamma])
    node("SimplifiedLayerNormalization", [x, gamma], domain="", epsilon=1e-5)
    node("SimplifiedLayerNormalization", [x, normal("last two", 3, 8)], domain="", axis=1, epsilon=1e-2)
    words, segments = whole("words", 0, 9, 2, 3), whole("segments", 0, 2, 2, 3)
    tables = [normal(f"table {rows}", rows, 8) for rows in (9, 5, 2)]
    mask = np.array([[1, 1, 0], [1, 1, 1]], I32)
    every = [words, segments, *tables, gamma, beta]
    node("EmbedLayerNormalization", [*every, mask], 2)
    node("EmbedLayerNormalization", [words, None, *tables[:2], None, gamma, beta], 2, epsilon=1e-3)
    node("EmbedLayerNormalization", [*every, mask, whole("positions", 0, 5, 2, 3)], 3)


def products() -> None:
    a, b = normal("fused a", 2, 3, 4), normal("fused b", 2, 4, 5)
    node("FusedMatMul", [a, b], alpha=0.5)
    node("FusedMatMul", [a.transpose(0, 2, 1).copy(), b.transpose(0, 2, 1).copy()], transA=1, transB=1)
    node("FusedMatMul", [a.transpose(1, 0, 2).copy(), b], transBatchA=1, alpha=2.0)
    for kind, other in ((U8, U8), (U8, I8), (I8, I8)):
        left, right = whole("itf a", 0, 127, 2, 3, 16, dtype=kind), whole("itf b", 0, 127, 16, 6, dtype=other)
        scales = [scalar(0.02, F32), np.abs(normal("itf scale", 6))]
        zeros = [scalar(7, kind), np.full(6, 3, other)]
        node("MatMulIntegerToFloat", [left, right, *scales, *zeros, normal("itf bias", 6)])
        node("MatMulIntegerToFloat", [left, right, scales[0], scales[0]])
    numbers = normal("dynamic", 2, 3, 16)
    for kind in (U8, I8):
        right = whole("dynamic b", 0, 100, 16, 6, dtype=kind)
        node("DynamicQuantizeMatMul", [numbers, right, scalar(0.02, F32), scalar(4, kind), normal("itf bias", 6)])
        node("DynamicQuantizeMatMul", [numbers, right, np.abs(normal("itf scale", 6))])


def blocks() -> None:
    for bits, block, columns, rows in ((4, 16, 32, 5), (4, 32, 40, 3), (4, 16, 48, 3), (8, 16, 32, 3), (8, 32, 40, 3)):
        count = -(-columns // block)
        name = f"nbits {bits} {block} {columns}"
        a = normal(f"{name} a", 2, 3, columns)
        packed = whole(f"{name} b", 0, 256, rows, count, block * bits // 8, dtype=U8)
        scales = np.abs(normal(f"{name} scales", rows, count, scale=0.1)).astype(F32)
        zeros = whole(f"{name} zeros", 0, 256, rows, -(-count * bits // 8), dtype=U8)
        own = {"K": columns, "N": rows, "bits": bits, "block_size": block}
        node("MatMulNBits", [a, packed, scales.reshape(-1)], **own)
        odd = bits == 4 and count % 2 == 1
        node("MatMulNBits", [a, packed, scales.reshape(-1), zeros.reshape(-1)], known=[3] if odd else [], **own)
        if bits == 4:
            node("MatMulNBits", [a, packed, scales.reshape(-1), normal(f"{name} offsets", rows * count, scale=8)], **own)
    node("MatMulNBits", [a, packed, scales.reshape(-1), zeros.reshape(-1), None, normal("nbits bias", rows)], **own)


def rotary() -> None:
    cosines, sines = (function(np.outer(np.arange(10), [1.0, 0.3])).astype(F32) for function in (np.cos, np.sin))
    x = normal("rotary", 2, 3, 12)
    places = whole("rotary places", 0, 10, 2, 3, dtype=I64)
    node("RotaryEmbedding", [x, places, cosines, sines])
    node("RotaryEmbedding", [x, np.array([4], I64), cosines, sines], interleaved=1)
    node("RotaryEmbedding", [x.reshape(2, 3, 3, 4).transpose(0, 2, 1, 3).copy(), places, cosines, sines])
    node("RotaryEmbedding", [normal("partial", 2, 3, 16), places, cosines, sines], num_heads=2, rotary_embedding_dim=4)


def quantized() -> None:
    for kind, low, high in ((U8, 0, 256), (I8, -128, 128)):
        a, b = whole("qnode a", low, high, 2, 3, 5, dtype=kind), whole("qnode b", low, high, 3, 5, dtype=kind)
        zeros = [scalar(point, kind) for point in (3, 9, 5)]
        scales = [scalar(value, F32) for value in (0.0213, 0.0317, 0.0431)]
        both = [a, scales[0], zeros[0], b, scales[1], zeros[1]]
        node("QLinearAdd", [*both, scales[2], zeros[2]])
        node("QLinearMul", [*both, scalar(0.1013, F32), zeros[2]])
        node("QLinearSigmoid", [a, scales[0], zeros[0], scalar(1 / 256, F32), scalar(low, kind)])
        node("QLinearConcat", [scales[2], zeros[2], a, scales[0], zeros[0], a[:, :1], scales[1], zeros[1]], axis=1)
        image = whole("qnode image", low, high, 2, 3, 5, 6, dtype=kind)
        pool = [image, scales[0], zeros[0], scalar(0.0291, F32), zeros[1]]
        node("QLinearAveragePool", pool, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        node("QLinearAveragePool", pool, kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
        node("QLinearAveragePool", pool, kernel_shape=[2, 2], channels_last=1)
        node("QLinearGlobalAveragePool", pool)
        node("QLinearGlobalAveragePool", pool, channels_last=1)
        # Halves are frequent, and rounded with the zero point or before it is added.
        node("QLinearAdd", [a, scalar(0.5, F32), zeros[0], b, scalar(0.125, F32), zeros[1], scalar(1, F32), zeros[2]])
        node("QLinearMul", [a, scalar(0.125, F32), zeros[0], b, scalar(1, F32), zeros[1], scalar(4, F32), zeros[2]])
        halves = [image, scalar(0.25, F32), zeros[0], scalar(0.25, F32), zeros[1]]
        node("QLinearAveragePool", halves, kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)
        node("QLinearAveragePool", [image[:, :, 0], *halves[1:]], kernel_shape=[2], strides=[3], ceil_mode=1)
        odd = [image, scalar(0.02, F32), zeros[0], scalar(0.02, F32), zeros[1]]  # the order of the sum decides over halves
        node("QLinearAveragePool", odd, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    filters = whole("qnode w", -128, 128, 4, 3, 3, 3, dtype=I8)
    per_channel = [np.array([0.01, 0.02, 0.03, 0.04], F32), np.zeros(4, I8)]
    image = whole("qnode image", 0, 256, 2, 3, 5, 6, dtype=U8)
    head, last = [image, scalar(0.05, F32), scalar(120, U8)], [scalar(0.7, F32), scalar(110, U8)]
    bias = whole("qnode conv bias", -500, 500, 4)
    node("QLinearConv", [*head, filters, *per_channel, *last, bias], domain="", strides=[2, 1], pads=[1, 0, 1, 2])
    node("QLinearConv", [*head, filters, *per_channel, *last], domain="", auto_pad="SAME_LOWER", strides=[2, 2])
    grouped = whole("qnode g", 0, 256, 6, 1, 3, 2, dtype=U8)
    node("QLinearConv", [*head, grouped, scalar(0.02, F32), scalar(99, U8), *last], domain="", group=3, dilations=[1, 2])
    line = [image[0], *head[1:], filters[:, :, 0], *per_channel, *last, bias]
    node("QLinearConv", [line[0].transpose(1, 0, 2).copy()[:, :3], *line[1:]], domain="", pads=[1, 1])
    node("ConvInteger", [image, grouped, scalar(120, U8), scalar(99, U8)], domain="", group=3, pads=[1, 1, 0, 0])
    left, right = whole("qnode left", 0, 256, 2, 3, 7, dtype=U8), whole("qnode right", -128, 128, 7, 4, dtype=I8)
    node("MatMulInteger", [left, right, scalar(12, U8), np.array([1, -2, 3, 4], I8)], domain="")
    node("MatMulInteger", [left[0, 0], right], domain="")
    sides = [left, scalar(0.02, F32), scalar(12, U8), right, np.array([0.01, 0.02, 0.03, 0.04], F32), np.array([1, -2, 3, 4], I8)]
    node("QLinearMatMul", [*sides, scalar(0.2, F32), scalar(128, U8)], domain="")
    x = normal("quantized", 2, 4, 6, scale=30)
    rows = np.abs(normal("scales", 4)).astype(F32)
    node("QuantizeLinear", [x, rows, np.array([1, 2, 3, 4], U8)], axis=1)
    node("QuantizeLinear", [x, scalar(0.01, F32), scalar(-300, np.int16)])
    node("QuantizeLinear", [x, rows], domain="", axis=-2)
    node("QuantizeLinear", [normal("halves", 200).astype(F16), scalar(0.1, F16), scalar(-300, np.int16)], domain="")
    node("QuantizeLinear", [x, np.abs(normal("blocks", 2, 2, 6)).astype(F32)], domain="", axis=1, block_size=2)
    node("QuantizeLinear", [x, np.abs(normal("ragged", 2, 2, 6)).astype(F32), np.full((2, 2, 6), 3, I8)], domain="", axis=1, block_size=3)
    node("DequantizeLinear", [whole("sums", -9000, 9000, 2, 4, 6), rows], domain="", axis=1)
    node("DequantizeLinear", [whole("shorts", -9000, 9000, 2, 4, 6, dtype=np.int16), rows, np.array([1, -2, 3, 4], np.int16)], axis=1)
    ragged = [np.abs(normal("ragged", 2, 2, 6)).astype(F32), np.full((2, 2, 6), 3, I8)]
    node("DequantizeLinear", [whole("bytes", -128, 128, 2, 4, 6, dtype=I8), *ragged], domain="", axis=1, block_size=3)


def transposed() -> None:
    x, w, b = normal("dynamic pads", 1, 3, 4, 5), normal("dynamic pads w", 3, 2, 3, 3), normal("dynamic pads b", 2)
    pads = np.array([1, 0, 0, 1], I64)
    node("ConvTransposeWithDynamicPads", [x, w, pads, b], known=[2], strides=[2, 2], output_padding=[1, 0], kernel_shape=[3, 3])


def clipped() -> None:
    steps, batch, size, hidden = 5, 3, 4, 2
    lengths = np.array([2, 5, 3], I32)
    for operator, gates, options in (
        ("RNN", 1, {"activations": ["LeakyRelu"], "activation_alpha": [0.3]}),
        ("GRU", 3, {}),
        ("GRU", 3, {"linear_before_reset": 1, "activations": ["HardSigmoid", "Softsign"]}),
    ):
        for direction, directions in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            own = options | {name: given * directions for name, given in options.items() if isinstance(given, list)}
            sizes = {"x": (steps, batch, size), "w": (directions, gates * hidden, size), "r": (directions, gates * hidden, hidden)}
            sizes |= {"b": (directions, 2 * gates * hidden), "h": (directions, batch, hidden)}
            x, w, r, b, h = (normal(f"clipped {operator} {direction} {name}", *shape) for name, shape in sizes.items())
            given = [x, w, r, b, lengths, h] if directions == 2 or direction == "reverse" else [x, w, r]
            node(operator, given, 2, domain="", opset=14, hidden_size=hidden, direction=direction, clip=0.4, **own)


ROWS = (activations, normalizations, products, blocks, rotary, quantized, transposed, clipped)
