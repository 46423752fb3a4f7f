"""The values of members that a call leaves out: those that DirectMLX fills in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import MAX_ENTRIES, brief, entries, has_entries
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc

_REPEATED = {
    "strides": 1,
    "dilations": 1,
    "start_padding": 0,
    "end_padding": 0,
    "output_padding": 0,
    "input_window_strides": 1,
    "input_pixel_offsets": 0.5,
    "output_pixel_offsets": -0.5,
}
"""Arrays with the value of each entry."""
_TOLD = {"PADDING", "PADDING1"}
"""Operators whose paddings are what the call is about."""


def has_default(kind: type[OperatorDesc], name: str) -> bool:
    """Whether a call may leave out a member that the desc's constructor requires."""
    short = kind.short_name()
    if name in _REPEATED:
        return short not in _TOLD
    if name == "axes":
        return short == "REDUCE"
    if name == "scales":
        return short.startswith("RESAMPLE")
    return name.endswith("_data_type") and bool(kind.inputs()) and short != "DIAGONAL_MATRIX1"


def default_text(kind: type[OperatorDesc], name: str) -> str:
    """The default of such a member in words, for documentation."""
    if name in _REPEATED:
        return f"{_REPEATED[name]} for each dimension"
    return {"axes": "all dimensions", "scales": "the ratio of the sizes, where `output_sizes` is given"}.get(name, "the type of the input")


def with_defaults(
    kind: type[OperatorDesc], tensors: Mapping[str, Any], members: dict[str, Any], sizes: Sequence[int] | None
) -> dict[str, Any]:
    """The members of a call with the defaults of those that it leaves out."""
    completed = dict(members)
    for name in kind.attribute_names():
        if name in completed or not has_default(kind, name):
            continue
        first = next((tensor for tensor in tensors.values() if isinstance(tensor, TensorDesc)), None)
        if first is None:
            continue
        if name in _REPEATED:
            completed[name] = [_REPEATED[name]] * _entries(kind, members, tensors, first)
        elif name == "axes":
            completed[name] = list(range(len(first.sizes)))
        elif name.endswith("_data_type"):
            completed[name] = first.data_type
        elif sizes is not None and len(sizes) == len(first.sizes) and all(map(_is_size, sizes)):
            backward = "GRAD" in kind.short_name()
            completed[name] = [size / wanted if backward else wanted / size for size, wanted in zip(first.sizes, sizes, strict=True)]
    return completed


def _is_size(given: Any) -> bool:
    """Whether a tensor may have a dimension of this size; what may not is reported when the output is made of it."""
    return isinstance(given, int | np.integer) and bool(0 < given < 2**32)


def told_sizes(kind: type[OperatorDesc], tensors: Mapping[str, Any], given: dict[str, Any]) -> Any:
    """The sizes of the first output that a call gives, taken out of its arguments; None if the inputs determine them."""
    sizes, axis, short = given.pop("output_sizes", None), given.get("axis"), kind.short_name()
    if short == "CAST" and "input_tensor" in tensors:
        return tensors["input_tensor"].sizes
    for argument, along, listed in (("output_axis_sizes", "input_tensor", True), ("output_length", "indices_tensor", False)):
        if argument in given and along in tensors:
            lengths = given.pop(argument)
            lengths = _integers(short, argument, lengths) if listed else [lengths]
            whole = [*tensors[along].sizes]
            at = [*range(len(whole))][axis : axis + 1] if isinstance(axis, int) and axis >= 0 else []
            all_sizes = [[length if index in at else size for index, size in enumerate(whole)] for length in lengths]
            return all_sizes if listed else all_sizes[0]
    return sizes if sizes is None else _integers(short, "output_sizes", sizes)


def _integers(short: str, argument: str, given: Any) -> tuple[Any, ...]:
    """The entries of an argument, read once; whether they are integers is reported when a tensor is made of them.

    Raises:
        DescError: it is not a sequence.
    """
    try:
        if has_entries(given):
            return entries(given)
    except Exception:  # no sequence, or whatever the methods of the caller's type raise
        pass
    raise DescError(short, [Problem("field.form", argument, brief(given), "a sequence of integers")])


def _entries(kind: type[OperatorDesc], members: Mapping[str, Any], tensors: Mapping[str, Any], first: TensorDesc) -> int:
    """How many entries an array has: one for each dimension of the window, or of the tensor.

    If image and filter disagree, the given arrays decide, else the one of two spatial dimensions: the other one lacks something.
    """
    for window in ("window_size", "window_sizes", "slice_sizes", "input_window_sizes"):
        if isinstance(given := members.get(window), Sequence) and _has_length(given):
            return len(given)
    if "CONVOLUTION" not in kind.short_name():
        return len(first.sizes)
    pair = (first, tensors.get("filter_tensor"))
    possible = {len(tensor.sizes) - 2 for tensor in pair if isinstance(tensor, TensorDesc)}
    arrays = [given for name in _REPEATED if isinstance(given := members.get(name), Sequence) and _has_length(given)]
    agreed = possible.intersection(map(len, arrays)) or possible
    return 2 if 2 in agreed else max(agreed)


def _has_length(given: Sequence[Any]) -> bool:
    """Whether a sequence is no longer than an array may be; one of the caller's own type may raise anything."""
    try:
        return len(given) <= MAX_ENTRIES
    except Exception:
        return False
