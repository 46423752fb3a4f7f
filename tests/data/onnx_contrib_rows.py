"""Nodes of com.microsoft that DirectML's provider leaves to the CPU: fused, quantized, forms of ONNX's own, attention of one token."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_node_rows import node  # type: ignore[import-not-found, unused-ignore]
from onnx_operators import F32, I8, I32, I64, U8, normal, scalar, whole  # type: ignore[import-not-found, unused-ignore]


def fused() -> None:
    image, filters, bias = normal("fused image", 2, 4, 6, 5), normal("fused filters", 6, 2, 3, 2), normal("fused bias", 6)
    own: dict[str, Any] = {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1]}
    between = normal("fused between", 2, 6, 3, 5)
    for name, parameters in {
        "Relu": [],
        "Sigmoid": [],
        "Tanh": [],
        "LeakyRelu": [0.2],
        "Clip": [-0.5, 0.7],
        "HardSigmoid": [0.3, 0.4],
    }.items():
        more = own | ({"activation_params": parameters} if parameters else {})
        node("FusedConv", [image, filters, bias], activation=name, **more)
        node("FusedConv", [image, filters, None, between], activation=name, **more)
    node("FusedConv", [normal("fused line", 2, 4, 9), normal("fused line w", 6, 4, 3)], activation="Relu", dilations=[2])
    a, b, c = normal("fgemm a", 3, 4), normal("fgemm b", 4, 5), normal("fgemm c", 5)
    for name, members in {
        "Elu": {"activation_alpha": 0.7},
        "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
        "LeakyRelu": {"activation_alpha": 0.2},
        "Relu": {},
        "Selu": {"activation_alpha": 1.5, "activation_gamma": 1.1},
        "Sigmoid": {},
        "Softplus": {},
        "Softsign": {},
        "Tanh": {},
        "ThresholdedRelu": {"activation_alpha": 0.3},
    }.items():
        node("FusedGemm", [a, b, c], activation=name, alpha=0.5, beta=2.0, **members)
    node("FusedGemm", [a.T.copy(), b.T.copy()], activation="Relu", transA=1, transB=1)
    node("TransposeMatMul", [a.T.copy(), b], transA=1, alpha=0.5)


def quantized_products() -> None:
    for kind, other in ((U8, I8), (U8, U8), (I8, I8)):
        a, b = whole("qgemm a", 0, 128, 3, 7, dtype=kind), whole("qgemm b", 0, 128, 7, 4, dtype=other)
        by_column = np.abs(normal("qgemm scale", 4, scale=0.01)) + F32(0.001)
        left = [a, scalar(0.02, F32), scalar(5, kind)]
        result = [whole("qgemm c", -2000, 2000, 4, dtype=I32), scalar(0.05, F32), scalar(7, kind)]
        node("QGemm", [*left, b, scalar(0.01, F32), scalar(3, other), *result], alpha=1.5)
        node("QGemm", [*left, b, by_column, np.full(4, 2, other), *result])
        turned = [a.T.copy(), *left[1:], b.T.copy()]
        node("QGemm", [*turned, by_column, np.zeros(4, other)], transA=1, transB=1)


def quantized_elements() -> None:
    for kind, low, high in ((U8, 0, 256), (I8, -128, 128)):
        left = [whole("qel x", low, high, 2, 3, 4, dtype=kind), scalar(0.0213, F32), scalar(9, kind)]
        result = [scalar(0.0431, F32), scalar(5, kind)]
        node("QLinearLeakyRelu", [*left, *result], alpha=0.1)
        node("QLinearLeakyRelu", [*left[:2], None, *result])
        for opset, axis in ((9, 1), (9, 2), (13, -1), (13, 1), (13, 0)):
            for scale in (1 / 256, 0.0039):  # the kernel takes the whole number below 1 / 0.0039
                softmax = [*left, scalar(scale, F32), scalar(low, kind)]
                node("QLinearSoftmax", softmax, known=[1, 2, 3, 4], named={"opset": opset}, axis=axis)
        image = whole("qel image", low, high, 2, 3, 5, 6, dtype=kind)
        pool = [image, *left[1:], scalar(0.0291, F32), scalar(4, kind)]
        for pads in ([0, 0, 0, 0], [1, 1, 1, 1]):
            for counted in (0, 1):
                own = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": pads}
                node("QLinearAveragePool", pool, ceil_mode=1, count_include_pad=counted, **own)
        node("NhwcMaxPool", [image], kernel_shape=[2, 3], strides=[2, 1], pads=[1, 1, 0, 0])
    filters = whole("qel filters", -128, 128, 4, 6, 2, 2, dtype=I8)
    given = [
        whole("qel image", 0, 256, 2, 3, 5, 6, dtype=U8),
        scalar(0.02, F32),
        scalar(120, U8),
        filters,
        scalar(0.01, F32),
        scalar(0, I8),
    ]
    node("QLinearConv", [*given, scalar(0.3, F32), scalar(110, U8)], channels_last=1, strides=[2, 1])
    tables = [whole(f"qembed {rows}", 0, 256, rows, 6, dtype=U8) for rows in (9, 5, 2)]
    rows = [whole(f"qembed {name}", 0, 256, 6, dtype=U8) for name in ("gamma", "beta")]
    words, segments = whole("qembed words", 0, 9, 2, 4), whole("qembed segments", 0, 2, 2, 4)
    ends = [scalar(0.02, F32)] * 5, [scalar(100, U8)] * 5
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], I32)
    node("QEmbedLayerNormalization", [words, segments, *tables, *rows, mask, *ends[0], *ends[1]], 2)


def quantized_lstm() -> None:
    steps, batch, width, units = 6, 3, 5, 4
    for direction, per_column, kind in (
        ("forward", False, I8),
        ("reverse", True, U8),
        ("bidirectional", False, U8),
        ("bidirectional", True, I8),
    ):
        directions = 2 if direction == "bidirectional" else 1
        name = f"qlstm {direction} {per_column}"
        low, high = (-128, 128) if kind is I8 else (0, 256)
        weights = [whole(f"{name} {rows}", low, high, directions, rows, 4 * units, dtype=kind) for rows in (width, units)]
        shape = (directions, 4 * units) if per_column else (directions,)
        scales = [np.abs(normal(f"{name} scale {index}", *shape, scale=0.003)) + F32(0.001) for index in (0, 1)]
        zeros = np.full(shape, 0 if per_column else 3, kind)
        ends = [scales[0], zeros, scales[1], zeros]
        x = normal(f"{name} x", steps, batch, width)
        states = [normal(f"{name} {state}", directions, batch, units) for state in "hc"]
        bias, peepholes = normal(f"{name} b", directions, 8 * units, scale=0.3), normal(f"{name} p", directions, 3 * units, scale=0.3)
        own = {"hidden_size": units, "direction": direction}
        node("DynamicQuantizeLSTM", [x, *weights, *[None] * 5, *ends], 3, **own)
        lengths = np.array([5, 2, 4], I32)
        node("DynamicQuantizeLSTM", [x, *weights, bias, lengths, *states, peepholes, *ends], 3, **own)
        node("DynamicQuantizeLSTM", [x, *weights, bias, lengths, *states, None, *ends], 3, clip=0.5, input_forget=1, **own)
    functions = ["HardSigmoid", "Relu", "Tanh", "Sigmoid", "Softsign", "Affine"]
    more = {"activations": functions, "activation_alpha": [0.3, 0.9], "activation_beta": [0.4, 0.1]}
    node("DynamicQuantizeLSTM", [x, *weights, *[None] * 5, *ends], 3, **own, **more)


def forms() -> None:
    x = normal("forms x", 2, 3, 4)
    node("Trilu", [x], upper=0)
    node("Trilu", [x, np.array(1, I64)], known=[1])
    node("ExpandDims", [x, np.array(-2, I32)], known=[1])
    a, b = normal("cdist a", 5, 3), normal("cdist b", 4, 3)
    node("CDist", [a, b], metric="euclidean")
    node("CDist", [a, b], metric="sqeuclidean")
    node("GatherND", [x, np.array([[0, 1], [1, 2]], I32)])
    node(
        "GridSample", [normal("forms image", 1, 2, 4, 5), np.tanh(normal("forms grid", 1, 3, 3, 2))], padding_mode="border", align_corners=1
    )
    node("Pad", [x, np.array([0, 1, 0, 1, 0, 2], I64), np.array([3], F32)], known=[1])
    node("Pad", [x, np.array([0, 1, 0, 1, 0, 2], I64)], mode="reflect", known=[1])
    node("Inverse", [normal("forms square", 2, 3, 3)])
    node("Unique", [np.array([3, 1, 3, 2, 1], F32)], 3)
    image, boxes = normal("crop image", 2, 3, 6, 7), np.array([[0, 0, 1, 1], [0.1, 0.2, 0.8, 1.2], [0.9, 0.7, 0.1, 0.1]], F32)
    for mode in ("bilinear", "nearest"):
        for size in ([4, 5], [1, 3]):
            node("CropAndResize", [image, boxes, np.array([0, 1, 1], I32), np.array(size, I32)], mode=mode, extrapolation_value=7.0)


def blocks() -> None:
    for columns, count in ((32, 2), (40, 3)):
        name = f"nbits 2 {columns}"
        own = {"K": columns, "N": 3, "bits": 2, "block_size": 16}
        a, scales = normal(f"{name} a", 2, columns), np.abs(normal(f"{name} scales", 3, count, scale=0.1)).astype(F32)
        packed, zeros = whole(f"{name} b", 0, 256, 3, count, 4, dtype=U8), whole(f"{name} zeros", 0, 256, 3, 1, dtype=U8)
        node("MatMulNBits", [a, packed, scales], **own)
        node("MatMulNBits", [a, packed, scales, zeros], **own)
        node("MatMulNBits", [a, packed, scales, normal(f"{name} offsets", 3, count), None, normal(f"{name} bias", 3)], **own)
        groups = whole(f"{name} groups", 0, count, columns, dtype=I32)
        four = whole(f"{name} four", 0, 256, 3, count, 8, dtype=U8)
        own["bits"] = 4
        node("MatMulNBits", [a, four, scales, None, groups], **own)
        node("MatMulNBits", [a, four, scales, normal(f"{name} offsets", 3, count, scale=8), groups], **own)
    for bits in (2, 4, 8):
        data, places = whole(f"gbq {bits}", 0, 256, 7, 4 * bits, dtype=U8), whole("gbq places", -7, 7, 2, 3, dtype=I64)
        scales, zeros = normal(f"gbq scales {bits}", 7, 2), whole(f"gbq zeros {bits}", 0, 256, 7, -(-2 * bits // 8), dtype=U8)
        node("GatherBlockQuantized", [data, places, scales, zeros], bits=bits, block_size=16)
        node("GatherBlockQuantized", [data, places, scales.astype(np.float16)], bits=bits, block_size=16)
    node("GatherBlockQuantized", [data, np.array([9, 1, -8], I32), scales], bits=8, block_size=16)


def masked_attention() -> None:
    batch, heads, size, most = 4, 2, 4, 7
    width = heads * size
    query, key, value = (normal(f"dmmha {name}", batch, 1, width) for name in "qkv")
    past = [normal(f"dmmha past {name}", batch, heads, most, size) for name in "kv"]
    before, mask = np.array([4], I32), whole("dmmha mask", 0, 2, batch, 5)
    own: dict[str, Any] = {"num_heads": heads, "past_present_share_buffer": 1}
    node("DecoderMaskedMultiHeadAttention", [query, key, value, None, None, *past, before], 3, **own)
    node("DecoderMaskedMultiHeadAttention", [query, key, value, mask, None, *past, before], 3, scale=0.3, **own)
    score_bias = normal("dmmha bias", 1, heads, 1, 5)
    node("DecoderMaskedMultiHeadAttention", [query, key, value, None, score_bias, *past, before], 3, **own)
    origins = whole("dmmha origins", 0, 2, 2, 2, most)
    beams = [np.array([2], I32), origins, normal("dmmha input bias", 3 * width)]
    node("DecoderMaskedMultiHeadAttention", [query, key, value, None, None, *past, before, *beams], 3, **own)
    crossed = [normal(f"dmmha cross {name}", batch, heads, 6, size) for name in "kv"]
    seen = whole("dmmha cross mask", 0, 2, batch, 6)
    node("DecoderMaskedMultiHeadAttention", [query, *crossed, seen], num_heads=heads)


def causal() -> None:
    for queries, keys in ((3, 5), (5, 3)):
        given = [normal(f"causal {queries} {index}", 2, count, 8) for index, count in enumerate((queries, keys, keys))]
        node("MultiHeadAttention", given, num_heads=2, unidirectional=1)
        mask = whole(f"causal mask {keys}", 0, 2, 2, keys)
        mask[:, 0] = 1  # each query sees one key: what a softmax of masked scores gives is not compared
        node("MultiHeadAttention", [*given, normal("causal bias", 24), mask], num_heads=2, unidirectional=1)
        apart = [part.reshape(2, keys, 2, 4).transpose(0, 2, 1, 3).copy() for part in given[1:]]
        node("MultiHeadAttention", [given[0], *apart], num_heads=2, unidirectional=1)


def gated() -> None:
    for kind in (F32, np.float16):
        x, gate, scale = (
            normal(f"gated {name}", *sizes).astype(kind) for name, sizes in (("x", (2, 3, 8)), ("gate", (2, 3, 8)), ("scale", (4,)))
        )
        node("ScaledSiLU", [x], alpha=1.5)
        node("ScaledSiLU", [x, scalar(0.7, F32)])
        node("GatedAdd", [x, gate, gate[..., :1].copy()])
        for activation in ("silu", "sigmoid"):
            node("GatedRMSNorm", [x, scale, gate], activation=activation, epsilon=1e-3)
        node("BranchwiseRMSNorm", [x], num_branches=2)
        for shape in ((6, 8), (48,), (8,)):
            node(
                "BranchwiseRMSNorm",
                [normal("branches", 2, 6, 8).astype(kind), normal(f"branch scale {shape}", *shape).astype(kind)],
                epsilon=1e-2,
            )
        bias, factor = normal("gate bias", 8), normal("gate factor", 8)
        node("LinearAttentionGate", [x, bias, factor, gate], 2)
        node("LinearAttentionGate", [x, bias, factor])


def sequences() -> None:
    for dim, size, step in ((0, 2, 1), (1, 3, 2), (-1, 1, 3)):
        node("UnfoldTensor", [normal("unfolded", 4, 5, 6)], dim=dim, size=size, step=step)
    x, w, b = normal("causal x", 2, 3, 5), normal("causal w", 3, 1, 4), normal("causal b", 3)
    node("CausalConvWithState", [x, w], 2)
    node("CausalConvWithState", [x, w, b, normal("causal past", 2, 3, 6)], 2, activation="silu", dilation=2)
    for readers, heads in ((2, 2), (4, 2), (1, 2)):
        query, key, value = (
            normal(f"linear {name}", 2, 3, width) for name, width in (("q", 4 * readers), ("k", 4 * heads), ("v", 5 * heads))
        )
        own = {"q_num_heads": readers, "kv_num_heads": heads}
        rate, past = np.abs(normal("linear rate", 2, 3, heads)), normal("linear past", 2, heads, 4, 5)
        for rule, decay in (
            ("linear", None),
            ("gated", -np.abs(normal("decay", 2, 3, 4 * heads))),
            ("delta", None),
            ("gated_delta", -rate),
        ):
            given = [
                query,
                key / 2,
                value,
                past if decay is None else None,
                decay,
                rate[..., :1] if rule == "delta" else rate if "delta" in rule else None,
            ]
            node("LinearAttention", given, 2, update_rule=rule, **own)


def angles_of_three() -> None:
    cosines, sines = (function(np.outer(np.arange(9), np.arange(1, 9) * 0.2)).astype(F32) for function in (np.cos, np.sin))
    x, places = normal("three angles", 2, 2, 3, 24), whole("three places", 0, 9, 3, 2, 3, dtype=I64)
    for layout, sections in ((0, [4, 3, 1]), (1, [4, 2, 2]), (1, [3, 3, 2])):
        node("MRotaryEmbedding", [x[..., :16].copy(), places, cosines, sines], mrope_section=sections, mrope_layout=layout)
    flat = x.transpose(0, 2, 1, 3).reshape(2, 3, 48)
    own = {"num_heads": 2, "rotary_embedding_dim": 16, "interleaved": 1, "scale": 0.5}
    node("MRotaryEmbedding", [flat, places, cosines, sines], mrope_section=[4, 2, 2], mrope_layout=1, **own)


def tables_of_4_bits() -> None:
    for kind, rows, columns in ((0, 4, 16), (1, 6, 40), (1, 3, 11)):
        count = rows * columns
        given = [normal(f"table {kind} {columns}", 2, 3, columns), whole("table bytes", 0, 256, -(-count // 2), dtype=U8)]
        scales = np.abs(normal("table scales", -(-count // 16)))
        node("MatMulBnb4", [*given, scales], N=rows, K=columns, block_size=16, quant_type=kind)


def on_the_host() -> None:
    texts = np.array([["", "a", "abc"], ["abcd", "h\u00e9llo w\u00f6rld", "\u65e5\u672c\u8a9e"]], object)
    for keys in (
        whole("keys", -(2**31), 2**31, 4, dtype=I32),
        whole("long keys", -(2**60), 2**60, 4, dtype=I64),
        normal("float keys", 4),
        texts,
    ):
        node("MurmurHash3", [keys])
        node("MurmurHash3", [keys], positive=0, seed=42)
    own = {"mark": 0, "mincharnum": 1, "pad_value": "#"}
    words = np.array([["a bb", ""], ["h\u00e9llo, big world", ",;"]], object)
    for more in (
        {"separators": [" "]},
        {"separators": [", ", ";", " "], "mark": 1},
        {"separators": [" "], "mincharnum": 2},
        {"separators": [""]},
    ):
        node("Tokenizer", [words], **(own | more))
    node("Tokenizer", [words[0]], tokenexp=".", **(own | {"mark": 1}))
    node("Tokenizer", [np.array(["a.b", "acb"], object)], separators=["\\."], **own)
    texts = np.array(["ab1 c_d\x0be \u00e9 fg", "a.b?c]-", ""], object)
    tokens = (
        "[a-z]+",
        r"\w\w+",
        "[^ ]+",
        r"\S+",
        "[a-z]{2}",
        "..",
        r"[\w.]+",
        "\u00e9",
        r"\.",
        "[a-z][0-9]?",
        r"\s",
        r"[^\s\d]{2,3}",
        "[]a-]+",
    )
    for expression in tokens:
        node("Tokenizer", [texts], tokenexp=expression, **own)
    node("Tokenizer", [texts], tokenexp="[a-z]+", **(own | {"mincharnum": 2}))
    for separators in (["[.]", " "], [r"\?"], ["[ .?]+"], [r"\s"], ["b", "[^a-z]"], [r"\W"]):
        node("Tokenizer", [texts], separators=separators, **own)
    node("Tokenizer", [np.array(["", " "], object)], separators=[" "], **(own | {"mark": 1}))
    for rows, columns in ((1, 1), (1, 4), (5, 3)):
        node("DynamicTimeWarping", [np.abs(normal(f"costs {rows}", rows, columns))])
    node("DynamicTimeWarping", [whole("equal costs", 0, 2, 1, 4, 6, dtype=I32).astype(F32)])
    for size in (1, 2, 3):
        node("NGramRepeatBlock", [whole("repeated", 0, 3, 3, 8, dtype=I64), normal("repeated scores", 3, 4)], ngram_size=size)
    node("NGramRepeatBlock", [whole("few", 0, 3, 2, 1, dtype=I64), normal("few scores", 2, 3)], ngram_size=2)


def mixed() -> None:
    """Mixtures of experts, plain and quantized."""
    experts, features, inner = 3, 32, 16
    x, logits = normal("experts x", 2, 3, features), normal("experts logits", 6, experts)
    narrow = normal("experts narrow", 2, 3, 8)

    def layer(name: str, *sizes: int) -> list[Any]:
        return [normal(f"experts {name}", experts, *sizes, scale=0.3), normal(f"experts {name} bias", experts, sizes[0])]

    second, small = layer("second", features, inner), layer("small", 8, 4)
    for index, activation in enumerate(("relu", "gelu", "silu", "identity")):
        given = [narrow, logits, *layer("first", 4, 8), *small]
        node("MoE", given, activation_type=activation, k=1 + index % 2, normalize_routing_weights=index // 2)
    gated: dict[str, Any] = {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "normalize_routing_weights": 1}
    numbers = {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 0.7}
    wide, gates = layer("gated", 2 * inner, features), layer("gates", 8, 8)
    for more in ({}, numbers):
        node("MoE", [narrow, logits, *gates, *small], **gated, **more)
    node("MoE", [narrow[0], logits[:3] * 0, gates[0], None, small[0]], **gated)  # equal logits

    def packed(name: str, bits: int, block: int, rows: int, columns: int) -> list[Any]:
        """Weights, their scales and zero points."""
        per_byte, blocks = 8 // bits, [columns // block] if block else []
        points = [rows, -(-blocks[0] // per_byte)] if blocks else [-(-rows // per_byte)]
        return [
            whole(f"{name} {bits}", 0, 256, experts, rows, columns // per_byte, dtype=U8),
            np.abs(normal(f"{name} {bits} scales", experts, rows, *blocks, scale=0.02 / (1 << bits) * 16)) + F32(0.001),
            whole(f"{name} {bits} zeros", 0, 256, experts, *points, dtype=U8),
        ]

    for bits in (2, 4, 8):
        for block in (0, 16):
            one, two = packed("gates", bits, block, 2 * inner, features), packed("outs", bits, block, features, inner)
            own = gated | numbers | {"expert_weight_bits": bits} | ({"block_size": block} if block else {})
            node("QMoE", [x, logits, *one[:2], wide[1], *two[:2], second[1]], **own)
            node("QMoE", [x, logits, *one[:2], None, *two[:2], None, None, None, None, one[2], two[2]], **own)
    one, two = packed("plain", 4, 0, inner, features), packed("outs", 4, 0, features, inner)
    for index, activation in enumerate(("relu", "gelu", "silu", "identity")):
        weights = np.abs(normal("experts weights", 6, experts))
        given = [x, logits, *one[:2], None, *two[:2], *[None] * 7, weights][: 7 if index < 2 else None]
        node("QMoE", given, activation_type=activation, k=1 + index % 2, normalize_routing_weights=index // 3)


ROWS = (
    fused,
    quantized_products,
    quantized_elements,
    quantized_lstm,
    forms,
    blocks,
    masked_attention,
    causal,
    gated,
    sequences,
    angles_of_three,
    tables_of_4_bits,
    on_the_host,
    mixed,
)
