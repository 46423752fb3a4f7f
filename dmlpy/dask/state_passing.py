"""Recurrent layers that are cut along time: the descs of the first and of later chunks, between which the state goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.dask.jobs import Steps
from dmlpy.description.enums import RecurrentDirection
from dmlpy.messages.problems import Problem
from dmlpy.operators.recurrent.layer import LayerDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.dask.chunking import Group
    from dmlpy.dask.resizing import Described

STATES = {"output_single_tensor": "hidden_init_tensor", "output_cell_single_tensor": "cell_mem_init_tensor"}
"""The input that takes each state of a layer, by the output that gives it."""


def pass_state(described: Described, groups: Sequence[Group], problems: list[Problem]) -> tuple[Described, Steps | None]:
    """The desc of the first chunk of time, and the later steps; None if time is one chunk.

    Args:
        described: the desc as the caller gave it.
        groups: the axes that are cut.
        problems: what is wrong is added here.
    """
    if not isinstance(described, LayerDesc):
        problems.append(Problem("dask.carry", "carry", f"True for {type(described).__name__}", "an RNN, LSTM or GRU: others have no state"))
        return described, None
    axis = next((index for index, group in enumerate(groups) if group.axes.get("input_tensor") == 1), None)
    if axis is None:
        return described, None
    if described.direction is RecurrentDirection.BIDIRECTIONAL:
        why = ("one of the directions begins at the end, with the state that only the last chunk computes",)
        remedy = "keep time in one piece (array.rechunk({1: -1})), or run two layers of one direction each"
        problems.append(Problem("dask.carry", "direction", "BIDIRECTIONAL", "FORWARD or BACKWARD", why, remedy))
        return described, None
    names = {output: given for output, given in STATES.items() if described.member_named(output) is not None}
    first = (
        described.with_outputs(*(output for output in names if getattr(described, output) is None))
        if any(getattr(described, output) is None for output in names)
        else described
    )
    packed = {given: getattr(first, output).replace(strides=None, total_tensor_size_in_bytes=None) for output, given in names.items()}
    steps = Steps(
        later=first.replace(**packed),
        states=names,
        axis=axis,
        lengths="sequence_lengths_tensor" if first.sequence_lengths_tensor is not None else None,
        total=sum(groups[axis].chunks),
        forward=described.direction is RecurrentDirection.FORWARD,
    )
    return first, steps
