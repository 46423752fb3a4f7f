"""MoE and QMoE (com.microsoft): mixtures of experts, of which a router chooses the best for each token. Products are in FLOAT32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from dmlpy.messages.naming import listed
from dmlpy.onnx.domains.host_operators import register_host_operator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.onnx.domains.host_operators import OutputType
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.nodes.node import Node

_BITS = (2, 4, 8)
_QUANTIZED_FC3, _ZEROS, _ROUTER_WEIGHTS, _QUANTIZED_END = 8, 11, 14, 15
"""The first inputs of QMoE for a third product, and for zero points; that of the tokens' weights; and the first of other quantizations."""
_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(np.float32(2 / np.pi)) * (x + np.float32(0.044715) * x**3))),
    "silu": lambda x: x * _sigmoid(x),
    "identity": lambda x: x,
}
_INTERLEAVED, _HALVES = 1, 2
"""The layouts of swiglu's gates: at even places, or in the first half."""

_SWIGLU = {"activation_alpha": 1.0, "activation_beta": 0.0, "swiglu_limit": np.inf}
"""The numbers of swiglu, and what they are where they are left out."""


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


@dataclass(frozen=True)
class _Layer:
    """A product of each expert.

    Attributes:
        weights: [experts, outputs, inputs], or quantized numbers packed along the last dimension, the first in the lowest bits.
        bias: [experts, outputs], or None.
        bits: of a quantized number; 0 if the weights are not quantized.
        scales: of quantized weights, [experts, outputs], or of blocks along the inputs, [experts, outputs, blocks].
        zeros: zero points as the weights are packed, along the outputs, or along the blocks; None for half of the range.
    """

    weights: Array
    bias: Array | None
    bits: int = 0
    scales: Array | None = None
    zeros: Array | None = None

    def __call__(self, x: Array, expert: int) -> Array:
        """The outputs of rows of inputs."""
        product: Array = x @ self._matrix(expert).T
        return product if self.bias is None else product + self.bias[expert].astype(np.float32)

    def _matrix(self, expert: int) -> Array:
        if not self.bits or self.scales is None:
            return np.asarray(self.weights[expert], np.float32)
        numbers, scales = _unpacked(self.weights[expert], self.bits), self.scales[expert].astype(np.float32)
        zeros: Any = np.float32(1 << (self.bits - 1)) if self.zeros is None else _unpacked(self.zeros[expert], self.bits)
        if scales.ndim == 1:
            zeros = zeros if self.zeros is None else zeros[: len(scales), None]
            return np.asarray((numbers - zeros) * scales[:, None])
        blocks = numbers.reshape(*scales.shape, -1)
        zeros = zeros if self.zeros is None else zeros[:, : scales.shape[-1], None]
        return np.asarray((blocks - zeros) * scales[..., None]).reshape(numbers.shape)


def _unpacked(packed: Array, bits: int) -> Array:
    """Numbers of bytes along the last dimension, in FLOAT32."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*packed.shape[:-1], -1).astype(np.float32)


def _describe(node: Node) -> Sequence[OutputType]:
    return [(node.value(0).element, node.value(0).sizes)]


def _activation(node: Node) -> Callable[[Array], Array]:
    name = str(node.attribute("activation_type", "relu"))
    if name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    if name != "swiglu":
        raise node.unsupported("activation_type", *_ACTIVATIONS, "swiglu")
    fusion = int(node.attribute("swiglu_fusion", 0))
    if fusion not in (_INTERLEAVED, _HALVES):
        raise node.refusal("onnx.attribute", "swiglu_fusion", str(fusion), "1 or 2: the gates are outputs of the first product")
    alpha, beta, limit = (np.float32(node.attribute(name, at)) for name, at in _SWIGLU.items())

    def swiglu(x: Array) -> Array:
        gates, others = (x[:, ::2], x[:, 1::2]) if fusion == _INTERLEAVED else np.split(x, 2, -1)
        gates, others = np.minimum(gates, limit), np.clip(others, -limit, limit)
        return np.asarray(gates * _sigmoid(alpha * gates) * (others + beta))

    return swiglu


def _refuse_parts(node: Node, indices: Sequence[int], expected: str) -> None:
    for index in indices:
        if node.has(index):
            raise node.refusal("onnx.input", node.input_label(index), "given", expected)
    for name in ("use_sparse_mixer", "swiglu_limit_after_activation"):
        if node.attribute(name, 0):
            raise node.unsupported(name, 0)


def _tokens(node: Node) -> tuple[Array, Array]:
    """The tokens as rows, and the router's logits, [tokens, experts], in FLOAT32."""
    x, logits = node.array(0), node.array(1)
    tokens = x.reshape(-1, x.shape[-1]) if x.ndim in (2, 3) else None
    if tokens is None:
        raise node.refusal("onnx.invalid", node.input_label(0), listed(x.shape), "2 or 3 dimensions, the last of a token's features")
    if logits.ndim != 2 or len(logits) != len(tokens):
        raise node.refusal("onnx.invalid", node.input_label(1), listed(logits.shape), f"[{len(tokens)}, experts]: one row for each token")
    count = node.count("k", 1)
    if count > logits.shape[1]:
        raise node.refusal("onnx.invalid", "k", str(count), f"at most {logits.shape[1]}, the number of experts")
    return tokens.astype(np.float32), logits.astype(np.float32)


def _best(node: Node, logits: Array) -> Array:
    """The experts of each token, [tokens, k]; of equal logits the last ones, as in ONNX Runtime."""
    order: Array = np.argsort(-logits[:, ::-1], -1, kind="stable")
    return np.asarray(logits.shape[1] - 1 - order[:, : node.count("k", 1)])


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _normalized(node: Node, shares: Array) -> Array:
    return shares / shares.sum(-1, keepdims=True) if node.attribute("normalize_routing_weights", 0) else shares


def _mix(node: Node, tokens: Array, chosen: Array, shares: Array, first: _Layer, second: _Layer) -> Array:
    """The sum of the chosen experts' outputs by the tokens' shares of them, in the form of the first input."""
    x, activation = node.array(0), _activation(node)
    total = np.zeros_like(tokens)
    for expert in np.unique(chosen):
        rows, places = np.nonzero(chosen == expert)
        results = second(activation(first(tokens[rows], expert)), expert)
        total[rows] += results * shares[rows, places, None]
    return total.reshape(x.shape).astype(x.dtype)


def _check_layer(node: Node, index: int, sizes: tuple[int, ...]) -> None:
    if node.array(index).shape != sizes:
        raise node.refusal("onnx.invalid", node.input_label(index), listed(node.array(index).shape), listed(sizes))


def _part(node: Node, index: int) -> Array | None:
    return node.array(index) if node.has(index) else None


def _check_sizes(node: Node, tokens: Array, experts: int, layers: Sequence[tuple[int, _Layer]]) -> None:
    """The sizes of weights, [experts, outputs, inputs] as numbers, and of biases."""
    (first_at, first), (second_at, second) = layers
    per_byte = [8 // layer.bits if layer.bits else 1 for layer in (first, second)]
    features, gated = tokens.shape[1], 2 if node.attribute("activation_type", "relu") == "swiglu" else 1
    inner = second.weights.shape[-1] * per_byte[1] if second.weights.ndim == 3 else 0
    _check_layer(node, first_at, (experts, gated * inner, features // per_byte[0]))
    _check_layer(node, second_at, (experts, features, inner // per_byte[1]))
    for index, layer, outputs in ((first_at, first, gated * inner), (second_at, second, features)):
        if layer.bias is not None:
            _check_layer(node, index + (2 if layer.bits else 1), (experts, outputs))


@register_host_operator("MoE", _describe)
def mix_experts(node: Node) -> Sequence[Array]:
    """The two layers of the best k experts of each token, by the softmax of the router's logits."""
    _refuse_parts(node, (6, 7), "left out: ONNX Runtime's CPU provider has no third product, either")
    tokens, logits = _tokens(node)
    first, second = (_Layer(node.array(index), _part(node, index + 1)) for index in (2, 4))
    _check_sizes(node, tokens, logits.shape[1], ((2, first), (4, second)))
    chosen = _best(node, logits)
    shares = _normalized(node, np.take_along_axis(_softmax(logits), chosen, -1))
    return [_mix(node, tokens, chosen, shares, first, second)]


@register_host_operator("QMoE", _describe)
def mix_quantized_experts(node: Node) -> Sequence[Array]:
    """Computes MoE with quantized weights, by the softmax of the best k logits, or by the weights that are given for the experts."""
    parts = [*range(_QUANTIZED_FC3, _ZEROS), _ZEROS + 2, *range(_QUANTIZED_END, len(node.inputs))]
    _refuse_parts(node, parts, "left out: ONNX Runtime's CPU provider does not take it, either")
    if node.attribute("quant_type", "int") != "int":
        raise node.unsupported("quant_type", "int")
    if node.attribute("weights_prepacked", 0) == 1:
        raise node.unsupported("weights_prepacked", 0, -1)
    tokens, logits = _tokens(node)
    layers = [_quantized_layer(node, which) for which in (0, 1)]
    _check_sizes(node, tokens, logits.shape[1], ((2, layers[0]), (5, layers[1])))
    chosen = _best(node, logits)
    if (given := _part(node, _ROUTER_WEIGHTS)) is None:
        shares = _softmax(np.take_along_axis(logits, chosen, -1))
    else:
        _check_layer(node, _ROUTER_WEIGHTS, logits.shape)
        shares = _normalized(node, np.take_along_axis(given.astype(np.float32), chosen, -1))
    return [_mix(node, tokens, chosen, shares, *layers)]


def _quantized_layer(node: Node, which: int) -> _Layer:
    """The first layer, or the second one."""
    bits = int(node.attribute(f"fc{which + 1}_expert_weight_bits", 0) or node.attribute("expert_weight_bits", 4))
    if bits not in _BITS:
        raise node.unsupported("expert_weight_bits", *_BITS)
    at = 2 + 3 * which
    weights, scales, zeros = node.array(at), node.array(at + 1), _part(node, _ZEROS + which)
    if node.value(at).element != TensorProto.UINT8 or weights.ndim != 3:
        raise node.refusal("onnx.invalid", node.input_label(at), node.value(at).summary(), "3 dimensions of UINT8")
    per_byte, block = 8 // bits, int(node.attribute("block_size", 0))
    rows, columns = weights.shape[:2], weights.shape[2] * per_byte
    if block > 0 and columns % block:
        raise node.refusal("onnx.invalid", "block_size", str(block), f"a divisor of {columns}")
    blocks = (*rows, columns // block) if block > 0 else rows
    _check_layer(node, at + 1, blocks)
    if zeros is not None:
        _check_layer(node, _ZEROS + which, (*blocks[:-1], -(-blocks[-1] // per_byte)))
    return _Layer(weights, _part(node, at + 2), bits, scales, zeros)
