"""`CompiledRepetition`: the turns of a loop whose work is compiled, run by compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dmlpy.description.arrays import address_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.launches import BatchedLaunch, entry_of
from dmlpy.devices.cpu.structs import Address, Count, Flag, KernelStruct, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.repetition import ArrayCopy
from dmlpy.devices.threads import apart_from_forks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.repetition import Array, Turn

REPETITION = Kernel("dmlpy.devices.cpu.repetition_kernels:build_repetition", 1)
"""The loop over turns."""

CALL, COPY, NUMBER = range(3)
"""The kinds of actions."""

Action: TypeAlias = tuple[int, int, int, int, int, int]
"""An action as `RepetitionParameters.table` has it."""

ACTION_SIZE = 6 * np.dtype(np.int64).itemsize
"""The bytes of an action."""


class RepetitionParameters(KernelStruct):
    """The parameters of the loop."""

    number: Count = field("the number of the next turn")
    turns: Count = field("how many turns, at most")
    first_action: Count = field("the first of the actions that the first turn leaves out")
    last_action: Count = field("the one after the last of them")
    is_first: Flag = field("whether the next turn is the first")
    actions: Count = field("the actions of a turn")
    table: Address = field(
        "the actions, int64 [actions, 6]: the kind; of a call the addresses of the body and of its parameters; of a number where it is "
        "written; of a copy target, source, bytes, and the bytes from the target and the source to those of the next turn"
    )
    goes_on: Address = field("the byte that is 0 after the last turn, if there is one")
    done: Count = field("receives how many turns have run")


class CompiledRepetition:
    """Turns of launches on one thread.

    Args:
        turn: the turn.
        actions: its actions but for `before`, `scanned` and `kept`.
    """

    def __init__(self, turn: Turn, actions: Sequence[Action]) -> None:
        self._turn = turn  # the owner of all memory
        first: list[Action] = [] if turn.counter is None else [(NUMBER, address_of(turn.counter), 0, 0, 0, 0)]
        self._scanned = range(len(first), len(first) + len(turn.scanned))
        first += [(COPY, address_of(array), 0, array.nbytes, 0, array.nbytes) for array in turn.scanned]
        before = _copies(turn.before)
        last: list[Action] = [(COPY, 0, address_of(array), array.nbytes, array.nbytes, 0) for array in turn.kept]
        self._table = np.array([*first, *before, *actions, *last], np.int64).reshape(-1, 6)
        self._kept = range(len(self._table) - len(last), len(self._table))
        values = {"first_action": len(first), "last_action": len(first) + len(before), "actions": len(self._table)}
        goes_on = 0 if turn.goes_on is None else address_of(turn.goes_on)
        self._parameters = RepetitionParameters.make({**values, "table": address_of(self._table), "goes_on": goes_on})
        kernel, address = REPETITION(), address_of(self._parameters)
        self._run = apart_from_forks(lambda stream: kernel(address))

    def __call__(self, number: int, count: int, scanned: Sequence[Array], kept: Sequence[Array], *, is_first: bool) -> int:
        for at, array in zip(self._scanned, scanned, strict=True):
            self._table[at, 2] = address_of(array)
        for at, array in zip(self._kept, kept, strict=True):
            self._table[at, 1] = address_of(array)
        parameters = self._parameters[0]
        parameters["number"], parameters["turns"], parameters["is_first"] = number, count, is_first
        self._run(0)
        return int(parameters["done"])


def compiled_repetition(turn: Turn) -> CompiledRepetition | None:
    """The turns in compiled code; None if a launch is not compiled or uses several threads, or an array is not packed or holds strings."""
    copies = [each for each in turn.work if isinstance(each, ArrayCopy)]
    arrays = [array for copy in (*turn.before, *copies) for array in copy]
    arrays += [array for array in (turn.counter, turn.goes_on, *turn.scanned, *turn.kept) if array is not None]
    # Strings are Python's objects: a copy of bytes would not count the references to them.
    if any(array.dtype.hasobject or not array.flags.c_contiguous for array in arrays):
        return None
    actions: list[Action] = []
    for each in turn.work:
        if isinstance(each, ArrayCopy):
            actions += _copies([each])
        elif isinstance(each, TaskLaunch | BatchedLaunch) and each.threads == 1:
            body, parameters, _ = entry_of(each)
            actions.append((CALL, body, parameters, 0, 0, 0))
        else:
            return None
    return CompiledRepetition(turn, actions)


def _copies(copies: Sequence[ArrayCopy]) -> list[Action]:
    found = [(address_of(target), address_of(source), target.nbytes) for target, source in copies]
    return [(COPY, target, source, size, 0, 0) for target, source, size in found if target != source]
