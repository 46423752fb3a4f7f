"""Limits, and rounding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.description.enums import RoundingMode
from dmlpy.onnx.exporting.rules import exports
from dmlpy.onnx.exporting.rules.elementwise import apply_scale, stored
from dmlpy.onnx.loading.elements import dtype_of
from dmlpy.reference.integers import holding

if TYPE_CHECKING:
    from dmlpy.onnx.exporting.nodes import Node
    from dmlpy.onnx.exporting.values import Value


@exports("ELEMENT_WISE_CLIP", "ELEMENT_WISE_CLIP1")
def clip(node: Node) -> Value:
    """Clip; if the minimum exceeds the maximum, Max and Min in the operator's order. A NaN limit has no effect."""
    return limited(_clamp(node), node.desc.min, node.desc.max, least_first=node.name == "ELEMENT_WISE_CLIP")


@exports("ELEMENT_WISE_THRESHOLD")
def threshold(node: Node) -> Value:
    """Max with a constant."""
    return _at_least(_clamp(node), node.desc.min)


def limited(x: Value, least: float, most: float, *, least_first: bool) -> Value:
    """Clamps a value; if the minimum exceeds the maximum, the limit that is applied last wins."""
    if least <= most:
        dtype = dtype_of(x.element)
        return x.apply("Clip", x.like(holding(least, dtype)), x.like(holding(most, dtype)))
    return _at_most(_at_least(x, least), most) if least_first else _at_least(_at_most(x, most), least)


def _clamp(node: Node) -> Value:
    return stored(apply_scale(node), node.tensor("output_tensor").data_type)


def _at_least(x: Value, least: float) -> Value:
    return x.apply("Identity") if math.isnan(least) else x.at_least(x.like(holding(least, dtype_of(x.element))))


def _at_most(x: Value, most: float) -> Value:
    return x.apply("Identity") if math.isnan(most) else x.at_most(x.like(holding(most, dtype_of(x.element))))


@exports("ELEMENT_WISE_CLIP_GRAD", "ELEMENT_WISE_CLIP_GRAD1")
def clip_gradient(node: Node) -> Value:
    """The gradient between the limits."""
    x, gradient = node.together("input_tensor", "input_gradient_tensor")
    below, above = _passes(x, node.desc.min, up=False), _passes(x, node.desc.max, up=True)
    return (below | above).where(gradient.like(0), gradient)


def _passes(x: Value, limit: float, *, up: bool) -> Value:
    """A BOOL value: whether a limit is reached or exceeded."""
    if not x.is_float:
        limits = np.iinfo(dtype_of(x.element))
        whole = (math.ceil(limit) if up else math.floor(limit)) if math.isfinite(limit) else limit
        if not limits.min <= whole <= limits.max:  # all values exceed it, or none, as for NaN
            return x.writer.constant(np.asarray(whole < limits.min if up else whole > limits.max))
        limit = whole
    return x >= limit if up else x <= limit


@exports("ELEMENT_WISE_ROUND")
def round_(node: Node) -> Value:
    """Round for halves to even; in the other modes Floor of the magnitude."""
    x = node.x("input_tensor")
    if node.desc.rounding_mode is RoundingMode.HALVES_TO_NEAREST_EVEN:
        return x.apply("Round")
    size = x.apply("Abs")
    whole = size.apply("Floor")
    if node.desc.rounding_mode is not RoundingMode.TOWARD_ZERO:
        # The fraction is exact; a sum with 0.5 would round the number just below 0.5 up.
        whole = (size - whole >= 0.5).where(whole + 1, whole)
    return x.apply("Sign") * whole
