"""`size_candidates`: sizes that a call might have, for a model whose inputs have open ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.onnx.loading.values import Value

_LARGER = (16, 64, 256, 1024)
"""The sizes to try if 1 contradicts the model, as images of one pixel do, or leaves tensors empty: first with one batch, then for all."""
TRIED = (1, *_LARGER)
"""All sizes that are tried."""


@dataclass(frozen=True)
class SizeCandidate:
    """Sizes that a call might have.

    Attributes:
        sizes: those that are open, by symbol, or by place where they have none: `x[0]`.
        shapes: the sizes of all inputs that are tensors, by name.
    """

    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]


def size_candidates(inputs: Mapping[str, Value]) -> list[SizeCandidate]:
    """Sizes in the order in which they are tried; none where no size is open, or the number of dimensions is.

    Args:
        inputs: the inputs of the model by name.
    """
    tensors = {name: value for name, value in inputs.items() if value.kind == "tensor"}
    if any(value.sizes is None for value in tensors.values()):
        return []
    places = [place for value in tensors.values() for place in _open(value)]
    leading = {label for axis, label in places if axis == 0}
    if not places:
        return []
    candidates = [{label: 1 if label in leading else size for _, label in places} for size in TRIED]
    candidates += [{label: size for _, label in places} for size in _LARGER]
    candidates = [sizes for place, sizes in enumerate(candidates) if sizes not in candidates[:place]]
    return [SizeCandidate(sizes, {name: _with(sizes, value) for name, value in tensors.items()}) for sizes in candidates]


def _open(value: Value) -> list[tuple[int, str]]:
    """The axes of a value whose sizes are open, with the labels of these."""
    return [(axis, str(size or f"{value.name}[{axis}]")) for axis, size in enumerate(value.sizes or ()) if not isinstance(size, int)]


def _with(sizes: Mapping[str, int], value: Value) -> tuple[int, ...]:
    labels = dict(_open(value))
    return tuple(size if isinstance(size, int) else sizes[labels[axis]] for axis, size in enumerate(value.sizes or ()))
