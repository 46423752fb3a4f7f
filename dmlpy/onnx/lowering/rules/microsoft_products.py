"""Products of com.microsoft with an activation: FusedConv and FusedGemm, as ONNX Runtime stores optimized models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy import x
from dmlpy.messages.naming import plural
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.lowering.rules.activations import PLAIN
from dmlpy.onnx.lowering.rules.convolutions import lower_convolution
from dmlpy.onnx.lowering.rules.matrices import product
from dmlpy.operators.activation import (
    ActivationDesc,
    ActivationEluDesc,
    ActivationHardSigmoidDesc,
    ActivationLeakyReluDesc,
    ActivationReluDesc,
    ActivationScaledEluDesc,
    ActivationSigmoidDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationTanhDesc,
    ActivationThresholdedReluDesc,
)

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression

_FUSED: dict[str, type[ActivationDesc]] = {
    "Elu": ActivationEluDesc,
    "HardSigmoid": ActivationHardSigmoidDesc,
    "LeakyRelu": ActivationLeakyReluDesc,
    "Relu": ActivationReluDesc,
    "Selu": ActivationScaledEluDesc,
    "Sigmoid": ActivationSigmoidDesc,
    "Softplus": ActivationSoftplusDesc,
    "Softsign": ActivationSoftsignDesc,
    "Tanh": ActivationTanhDesc,
    "ThresholdedRelu": ActivationThresholdedReluDesc,
}
_OF_CONVOLUTIONS = {"Clip": 2, "HardSigmoid": 2, "LeakyRelu": 1, "Relu": 0, "Sigmoid": 0, "Tanh": 0}
"""The activations that ONNX Runtime fuses into a convolution, with their numbers of parameters."""


@lowers("FusedConv", domain=MICROSOFT)
def fused_convolution(node: Node) -> Expression:
    """CONVOLUTION with the activation; Clip, and an activation after an added tensor, are separate operators."""
    name = node.attribute("activation", "Relu")
    parameters = node.attribute("activation_params") or []
    if name not in _OF_CONVOLUTIONS:
        raise node.unsupported("activation", *_OF_CONVOLUTIONS)
    if len(parameters) < _OF_CONVOLUTIONS[name]:
        raise node.refusal("onnx.invalid", "activation_params", plural(len(parameters), "number"), f"{_OF_CONVOLUTIONS[name]}, for {name}")
    members = dict(zip(("alpha", "beta"), parameters[: _OF_CONVOLUTIONS[name]], strict=False))
    if name != "Clip" and not node.has(3):
        return _require_sizes(node, lower_convolution(node, _FUSED[name](**members)))
    convolved = _require_sizes(node, lower_convolution(node))
    if node.has(3):
        convolved = convolved + node.x(3)
    return x.clip(convolved, min=parameters[0], max=parameters[1]) if name == "Clip" else PLAIN[name](convolved, **members)


def _require_sizes(node: Node, convolved: Expression) -> Expression:
    """The result with as many spatial dimensions as the node's data has."""
    return convolved.reshape(*convolved.sizes[:2], *convolved.sizes[len(convolved.sizes) - node.rank(0) + 2 :])


@lowers("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node) -> Expression:
    """GEMM with the activation."""
    name = node.attribute("activation")
    if name not in _FUSED:
        raise node.unsupported("activation", *_FUSED)
    members: dict[str, Any] = {parameter: node.attribute(f"activation_{parameter}") for parameter in ("alpha", "beta", "gamma")}
    result = product(node, _FUSED[name](**{parameter: value for parameter, value in members.items() if value is not None}))
    return result.reshape(*result.sizes[-2:])
