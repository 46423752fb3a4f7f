"""Sequences whose contents or positions are known only when a model runs: lists, read and copied on the host.

ONNX's reference implementation inserts at the front what belongs at the end, and takes any position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DeviceError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.onnx.lowering.stages import HostNode


def _list(_: HostNode, given: Sequence[Any]) -> list[Any]:
    return list(given)


def _length(_: HostNode, given: Sequence[Any]) -> Any:
    return np.asarray(len(given[0]), np.int64)


def _at(node: HostNode, given: Sequence[Any]) -> Any:
    tensors = given[0]
    return tensors[_position(node, given, 1, len(tensors), len(tensors) - 1)]


def _erase(node: HostNode, given: Sequence[Any]) -> list[Any]:
    tensors = list(given[0])
    del tensors[_position(node, given, 1, len(tensors), len(tensors) - 1)]
    return tensors


def _insert(node: HostNode, given: Sequence[Any]) -> list[Any]:
    tensors = list(given[0])
    tensors.insert(_position(node, given, 2, len(tensors), len(tensors)), given[1])
    return tensors


def _position(node: HostNode, given: Sequence[Any], index: int, count: int, last: int) -> int:
    """A position counted from the front; the last one if none is given.

    Raises:
        DeviceError: it lies outside.
    """
    position = given[index] if index < len(given) else None
    if position is not None and position.size != 1:
        raise _failure(node, index, plural(position.size, "element"), "one integer")
    place = last if position is None else position.item()
    if not -count <= place <= last:
        allowed = f"{-count} to {last}" if last >= 0 else "a sequence with tensors"
        raise _failure(node, index, str(place), f"{allowed}: the sequence has {plural(count, 'tensor')}")
    return int(place + count if place < 0 else place)


def _failure(node: HostNode, index: int, found: str, expected: str) -> DeviceError:
    return DeviceError("the host", [Problem("onnx.invalid", f"{node.proto.name}.input {index} 'position'", found, expected)])


SEQUENCES: dict[str, Callable[[HostNode, Sequence[Any]], Any]] = {
    "SequenceAt": _at,
    "SequenceConstruct": _list,
    "SequenceEmpty": _list,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
}
"""What each operator computes from its inputs, of which one that is left out is None."""
