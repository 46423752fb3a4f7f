"""Keras's activation names and the descs that compute them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.registry import OPERATORS
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import class_remedy, did_you_mean
from dmlpy.messages.problems import DescError, Problem
from dmlpy.operators.activation import (
    ActivationCeluDesc,
    ActivationDesc,
    ActivationEluDesc,
    ActivationGeluDesc,
    ActivationHardSigmoidDesc,
    ActivationHardSwishDesc,
    ActivationIdentityDesc,
    ActivationLeakyReluDesc,
    ActivationLogSoftmaxDesc,
    ActivationParametricSoftplusDesc,
    ActivationReluDesc,
    ActivationScaledEluDesc,
    ActivationShrinkDesc,
    ActivationSigmoidDesc,
    ActivationSoftmaxDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationSwishDesc,
    ActivationTanhDesc,
)
from dmlpy.operators.elementwise.math import ElementWiseExpDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZES = TensorDesc(data_type=DataType.FLOAT32, sizes=(1,))
"""In a desc that cannot be without tensors; `of_rows` replaces it."""

ACTIVATIONS: dict[str, OperatorDesc] = {
    "linear": ActivationIdentityDesc(),
    "tanh": ActivationTanhDesc(),
    "sigmoid": ActivationSigmoidDesc(),
    # Keras 1's and 2's; Keras 3 has clip(x / 6 + 0.5, 0, 1), an ActivationHardSigmoidDesc(alpha=1 / 6, beta=0.5).
    "hard_sigmoid": ActivationHardSigmoidDesc(alpha=0.2, beta=0.5),
    "relu": ActivationReluDesc(),
    "elu": ActivationEluDesc(),
    "selu": ActivationScaledEluDesc(),
    "softplus": ActivationSoftplusDesc(),
    "softsign": ActivationSoftsignDesc(),
    "softmax": ActivationSoftmaxDesc(),
    "log_softmax": ActivationLogSoftmaxDesc(),
    "leaky_relu": ActivationLeakyReluDesc(alpha=0.2),
    "relu6": ElementWiseClipDesc(min=0.0, max=6.0),
    "celu": ActivationCeluDesc(),
    "gelu": ActivationGeluDesc(),
    "silu": ActivationSwishDesc(sigmoid_input_scale=1.0),
    "swish": ActivationSwishDesc(sigmoid_input_scale=1.0),
    "hard_silu": ActivationHardSwishDesc(alpha=1 / 6, beta=0.5),
    "hard_swish": ActivationHardSwishDesc(alpha=1 / 6, beta=0.5),
    "hard_tanh": ElementWiseClipDesc(min=-1.0, max=1.0),
    "hard_shrink": ActivationShrinkDesc(bias=0.0, threshold=0.5),
    "soft_shrink": ActivationShrinkDesc(bias=0.5, threshold=0.5),
    "exponential": ElementWiseExpDesc(input_tensor=_SIZES, output_tensor=_SIZES),
    "log_sigmoid": ActivationParametricSoftplusDesc(alpha=-1.0, beta=-1.0),
}
"""Activation descs by Keras's names: those of Keras 1, then those that only later versions have."""

COMPOSED = frozenset({"glu", "mish", "sparse_plus", "sparse_sigmoid", "sparsemax", "squareplus", "tanh_shrink", "threshold"})
"""Names of Keras 3 that no single operator computes with Keras's defaults."""


def activation(value: OperatorDesc | str | None) -> OperatorDesc:
    """Returns the activation desc for a Keras name, or the given desc; None means `linear`.

    Any activation desc of one tensor, a clip or an exponential can be given instead of a name: `ActivationLeakyReluDesc(alpha=0.1)`.

    Raises:
        DescError: the name is unknown, or the desc has several inputs.
    """
    if isinstance(value, ActivationDesc | ElementWiseExpDesc | ElementWiseClipDesc) and len(type(value).inputs()) == 1:
        return value
    name = "linear" if value is None else value
    if not isinstance(name, str) or name not in ACTIVATIONS:
        expected = f"an activation desc of one tensor, or one of {', '.join(ACTIVATIONS)}"
        called = getattr(value, "__name__", None) if callable(value) else name  # a function of another library
        named = f"pass its name: {called!r}" if isinstance(called, str) and called in ACTIVATIONS else None
        remedy = class_remedy(value, ActivationDesc) or named or _desc_remedy(called) or did_you_mean(called, ACTIVATIONS)
        why = ("no single operator computes it",) if isinstance(name, str) and name in COMPOSED else ()
        found = value.type_name if isinstance(value, OperatorDesc) else brief(value)
        raise DescError("activation", [Problem("field.form", "", found, expected, why, remedy)])
    return ACTIVATIONS[name]


def _desc_remedy(name: object) -> str | None:
    """The remedy for an activation that recurrent layers run and Keras 1 has no name for: its desc."""
    descs = [kind for kind in OPERATORS.values() if issubclass(kind, ActivationDesc) and kind.fusable]
    kinds = {kind.__name__.removeprefix("Activation").lower(): kind for kind in descs}
    kind = kinds.get(f"{name.replace('_', '').lower()}desc") if isinstance(name, str) else None
    return f"pass its desc: dmlpy.{kind.__name__}(...)" if kind else None


def rows_tensor(sizes: tuple[int, ...]) -> TensorDesc:
    """A packed float32 tensor."""
    return TensorDesc(data_type=DataType.FLOAT32, sizes=sizes)


def fusable(named: Mapping[str, OperatorDesc]) -> dict[str, ActivationDesc]:
    """The activations among these that a recurrent cell can apply: those that DirectML fuses."""
    return {name: desc for name, desc in named.items() if isinstance(desc, ActivationDesc) and desc.fusable}


@lru_cache(maxsize=256)
def of_rows(desc: OperatorDesc, sizes: tuple[int, ...]) -> OperatorDesc:
    """An activation with packed float32 tensors of these sizes. Cached, since every training step needs the same ones."""
    tensor = rows_tensor(sizes)
    return desc.replace(input_tensor=tensor, output_tensor=tensor)
