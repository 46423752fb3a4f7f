"""Items of work that the threads of a team take as they become free: counted by what lies in the parameters of a compiled share.

The parameters begin with two integers: the ticket, of the launch's number and the next item, and how many items are done. A thread that
wakes after its launch is over finds another number there, takes nothing and touches nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.atomics import add_integer, exchange_integer
from dmlpy.devices.cpu.calls import caller
from dmlpy.devices.cpu.simd import integer_at, jit, set_integer
from dmlpy.devices.cpu.thread_pool import OPENED
from dmlpy.devices.cpu.waiting import wait_between

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import Share

_BITS = 32
"""The bits of a ticket that are the next item."""
_MOST = (1 << _BITS - 1) - 1
"""The largest number of a launch in a ticket, and the most items."""

_NONE, _ALONE = np.int64(0), np.int64(1)
_call = caller(5)


@jit
def first_item(state: Any, items: Any, thread: Any, threads: Any, board: Any, met: Any) -> Any:
    """Begins or joins a launch, and takes an item; returns `items` or more if none is left.

    Args:
        state: the address of the parameters.
        items: the number of items.
        thread: as for a team's share, like the others.
        threads: the number of threads.
        board: the address of the team's board.
        met: the number that the launch's numbers are above.
    """
    if threads == 1:
        return 0
    if thread == 0:
        set_integer(state + 8, 0)
        set_integer(state, (met + 1 & _MOST) << _BITS)  # never 0, which unused parameters have
        set_integer(board + OPENED, met + 1)
    else:
        looks = 0
        while integer_at(board + OPENED) <= met:  # the team raises it, too, when the launch is over
            looks += 1
            wait_between(looks)
    return _taken(state, items, met)


@jit
def next_item(state: Any, item: Any, items: Any, threads: Any, met: Any) -> Any:
    """Takes another item after `item`."""
    if threads == 1:
        return item + 1
    return _taken(state, items, met)


@jit
def _taken(state: Any, items: Any, met: Any) -> Any:
    while True:
        ticket = integer_at(state)
        item = ticket & _MOST
        if ticket >> _BITS != met + 1 & _MOST or item >= items:
            return items
        if exchange_integer(state, ticket, ticket + 1) == ticket:
            return item


@jit
def wait_for_all(state: Any, finished: Any, items: Any, thread: Any, threads: Any) -> None:
    """Tells how many items this thread has done; the first thread waits until all are done."""
    if threads == 1:
        return
    if finished > 0:
        add_integer(state + 8, finished)
    if thread == 0:
        looks = 0
        while integer_at(state + 8) < items:
            looks += 1
            wait_between(looks)


def each_of() -> Share:
    """The share that runs other shares, each on one thread, to be compiled.

    Its parameters go on with the number of these shares, then for each the addresses of the function and of its parameters.
    """

    def each(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        count, finished = integer_at(parameters + 16), 0
        item = first_item(parameters, count, thread, threads, board, met)
        while item < count:
            _call(integer_at(parameters + 24 + 16 * item), (integer_at(parameters + 32 + 16 * item), _NONE, _ALONE, _NONE, _NONE))
            finished += 1
            item = next_item(parameters, item, count, threads, met)
        wait_for_all(parameters, finished, count, thread, threads)

    return each
