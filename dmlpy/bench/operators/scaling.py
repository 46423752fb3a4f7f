"""Operators' cases at multiples of their usual size: `GEMM@4` has four times the rows of `GEMM`."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.inspection.operator_records import CASES
from dmlpy.inspection.operator_records.record import once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.inspection.operator_records.record import Array, Draw, TimedCase

MARK = "@"
"""The character between the name of a case and the multiple of its size."""


class OneSizeError(ValueError):
    """A case cannot be timed at this multiple of its size."""


def scaled_name(name: str, scale: float) -> str:
    """The name of a case at a multiple of its size."""
    return name if scale == 1 else f"{name}{MARK}{scale:g}"


def is_case(name: str) -> bool:
    """Whether this names a case, at any size."""
    return name.partition(MARK)[0] in CASES


@lru_cache(512)
def case_of(name: str) -> TimedCase:
    """The case of a name.

    Raises:
        OneSizeError: it has no such size.
    """
    plain, _, scale = name.partition(MARK)
    case = CASES[plain]
    return _scale(case, Fraction(scale)) if scale else case


def _scale(case: TimedCase, scale: Fraction) -> TimedCase:
    sizes = _sizes(case)
    axes = _axes(case, sizes)
    if not axes:
        raise OneSizeError(f"{case.operator} has one size")
    for field in axes.keys() & sizes.keys():
        _scaled_sizes(sizes[field], axes[field], scale)
    inputs: dict[str, Any] = {}
    for field, draw in case.inputs.items():
        if field in axes:
            parts = draw if isinstance(draw, tuple) else (draw,)
            scaled = tuple(_scaled_draw(part, axes[field], scale) for part in parts)
            inputs[field] = scaled if isinstance(draw, tuple) else scaled[0]
        else:
            inputs[field] = draw
    outputs: dict[str, Any] = {}
    for field, tensors in case.outputs.items():
        axis = axes.get(field)
        many = tensors if isinstance(tensors, list) else [tensors]
        resized = [(sizes if axis is None else _scaled_sizes(sizes, axis, scale), of) for sizes, of in many]
        outputs[field] = resized if isinstance(tensors, list) else resized[0]
    return replace(case, inputs=inputs, outputs=outputs, members=_scaled_members(case, sizes, axes, scale))


def _axes(case: TimedCase, sizes: Mapping[str, tuple[int, ...]]) -> Mapping[str, int]:
    """The axes along which a case's tensors grow, by field."""
    if case.scaled_axes is not None:
        return case.scaled_axes
    if not case.inputs:
        return {}
    first = sizes[next(iter(case.inputs))]
    axis = next(axis for axis, size in enumerate(first) if size > 1)
    return {field: axis for field, tensor_sizes in sizes.items() if len(tensor_sizes) > axis and tensor_sizes[axis] == first[axis]}


def _sizes(case: TimedCase) -> dict[str, tuple[int, ...]]:
    """The sizes of the inputs and described outputs, by field; of an array of tensors those of the first."""
    rng = np.random.default_rng(0)
    input_sizes = {field: (draw[0] if isinstance(draw, tuple) else draw)(rng).shape for field, draw in case.inputs.items()}
    return input_sizes | {field: (tensors[0] if isinstance(tensors, list) else tensors)[0] for field, tensors in case.outputs.items()}


def _scaled_members(case: TimedCase, sizes: Mapping[str, tuple[int, ...]], axes: Mapping[str, int], scale: Fraction) -> dict[str, Any]:
    """The desc's other members: sizes with an entry for each axis of the first input are scaled with it."""
    first = next(iter(case.inputs))
    rank, axis = len(sizes[first]), axes.get(first)

    def scaled(name: str, value: Any) -> Any:
        of_axes = axis is not None and name.endswith("sizes") and isinstance(value, tuple) and len(value) == rank
        return _scaled_sizes(value, axis, scale) if of_axes and axis is not None else value

    return {name: scaled(name, value) for name, value in case.members.items()}


def _scaled_sizes(sizes: tuple[int, ...], axis: int, scale: Fraction) -> tuple[int, ...]:
    size = sizes[axis] * scale
    if size.denominator != 1 or size < 1:
        raise OneSizeError(f"{sizes[axis]} x {scale} is not a size")
    return (*sizes[:axis], int(size), *sizes[axis + 1 :])


def _scaled_draw(draw: Draw, axis: int, scale: Fraction) -> Draw:
    """Draws so often that there is enough, and takes a part; what is repeated along the axis stays so."""

    def scaled(rng: np.random.Generator) -> Array:
        drawn = [draw(rng) for _ in range(max(ceil(scale), 1))]
        sizes = _scaled_sizes(drawn[0].shape, axis, scale)
        resized = once(drawn[0])
        if drawn[0].strides[axis] != 0:
            resized = np.concatenate([once(part) for part in drawn], axis)[(slice(None),) * axis + (slice(0, sizes[axis]),)]
        return np.broadcast_to(np.ascontiguousarray(resized), sizes)

    return scaled
