"""Phases of items that the threads of a team share, each of which begins when all items of the one before are done.

A thread computes an item in memory of its own, which nobody else sees; then it claims the item, and only who has claimed it writes its
results. So an item that a thread has begun, and then was put aside by the system, another thread does again: nobody waits for it but the
end of the launch. Threads take their own part of the items first, those last that they took first in the phase before, for what these need
is left in their caches.

A launch consists of parts (see `phased`), whose phases follow each other without a wait for its end.

The board of a team has a line with who is inside the launch and the number of its latest phase, then two integers for each item: the
number of the latest phase in which a thread has begun it, and twice the number of the latest one in which it was claimed, or 1 more where
its results are there. Numbers grow from launch to launch, so what is left from earlier ones says that nothing has been done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.atomics import add_integer, exchange_integer
from dmlpy.devices.cpu.calls import caller
from dmlpy.devices.cpu.simd import integer_at, jit, set_integer
from dmlpy.devices.cpu.thread_pool import BOARD_CELL, BOARD_CELLS, INSIDE, LATEST, OPENED
from dmlpy.devices.cpu.waiting import nanoseconds, wait_between

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.thread_pool import Share

_CLOSED = 1 << 15
"""The bit of who is inside that says that nobody enters any more; the bits below count the helpers, those above are the launch's number."""
_NUMBER = 16
_STATE = 8
"""The offset of an item's state from its first integer."""
_LOOKS = 16
"""How often a thread looks for the end of a phase before it reads the clock again."""

NOTHING = np.int64(-1)
"""No item. Its type is the one of items, so that no function is compiled for it apart."""

_call, _run = caller(6), caller(5)


@jit
def enter(board: Any, thread: Any, threads: Any, met: Any) -> Any:
    """Opens a launch, as the first thread, or enters it; returns whether it is there still. Whoever has entered must leave.

    Args:
        board: the address of the team's board.
        thread: as for a team's share, like the others.
        threads: the number of threads.
        met: the number that the launch's numbers are above.
    """
    if threads == 1:
        return True
    if thread == 0:
        set_integer(board + INSIDE, met + 1 << _NUMBER)
        set_integer(board + LATEST, met + 1)
        set_integer(board + OPENED, met + 1)
        return True
    looks = 0
    while integer_at(board + OPENED) <= met:  # the team raises it, too, when the launch is over
        looks += 1
        wait_between(looks)
    while True:
        found = integer_at(board + INSIDE)
        if found >> _NUMBER != met + 1 or found & _CLOSED:
            return False
        if exchange_integer(board + INSIDE, found, found + 1) == found:
            return True


@jit
def leave(board: Any, thread: Any, threads: Any) -> None:
    """Leaves a launch; the first thread waits until the others have left, too."""
    if threads == 1:
        return
    if thread > 0:
        add_integer(board + INSIDE, -1)
        return
    add_integer(board + INSIDE, _CLOSED)
    looks = 0
    while integer_at(board + INSIDE) & (_CLOSED - 1) > 0:
        looks += 1
        wait_between(looks)


def launch_of() -> Share:
    """A thread's share of a launch, to be compiled.

    Its parameters are the number of parts and the address of two integers for each: the addresses of its function and of that one's
    parameters. The function is part(parameters, thread, threads, board, number): a thread's share of some phases, the first of which has
    the number after this one; it returns the number of the last one.
    """

    def launch(parameters: Any, thread: Any, threads: Any, board: Any, met: Any) -> None:
        if not enter(board, thread, threads, met):
            return
        number, entry = met, integer_at(parameters + 8)
        for _ in range(integer_at(parameters)):
            number = _run(integer_at(entry), (integer_at(entry + 8), thread, threads, board, number))
            entry += 16
        leave(board, thread, threads)

    return launch


@jit
def take(p: Any, board: Any, thread: Any, threads: Any, number: Any, items: Any, last: Any) -> Any:
    """Takes an item of a phase that no thread has begun, or one to do again; returns -1 when all items are done.

    Args:
        p: the parameters: `take` is the address of what `taking_of` gives, `patience` the nanoseconds that a thread waits for others before
            it does an item again.
        board: the address of the team's board.
        thread: the number of this thread.
        threads: the number of threads.
        number: that of the phase.
        items: how many items it has.
        last: the item that this thread took last, NOTHING at first.
    """
    if threads > 1:
        return _call(p.take, (board, thread, threads, number, items, p.patience))
    if number & 1 != 0:
        return last + 1 if last + 1 < items else NOTHING
    return last - 1 if last >= 0 else items - 1


def taking_of() -> Callable[..., int]:
    """What takes an item, to be compiled: as `take`, where there are several threads."""
    return _taken


def _taken(board: Any, thread: Any, threads: Any, number: Any, items: Any, patience: Any) -> Any:
    ascending = number & 1 != 0
    if integer_at(board + LATEST) > number:
        return -1
    for turn in range(threads):
        owner = (thread + turn) % threads
        first, end = items * owner // threads, items * (owner + 1) // threads
        for place in range(end - first):
            # What another thread would take last is left to it for the longest time.
            item = first + place if ascending == (turn == 0) else end - 1 - place
            cell = board + BOARD_CELLS + BOARD_CELL * item
            if integer_at(cell) < number:
                set_integer(cell, number)  # two threads may do so at once: both then compute the item, and one of them claims it
                return item
    looks, until = 0, 0
    while True:
        again, waits = -1, False
        for place in range(items):
            item = (items * thread // threads + place) % items
            state = integer_at(board + BOARD_CELLS + BOARD_CELL * item + _STATE)
            if state <= 2 * number:
                waits = True
                if state < 2 * number and again < 0:
                    again = item
        if not waits:
            if integer_at(board + LATEST) <= number:
                set_integer(board + LATEST, number + 1)
            return -1
        looks += 1
        if looks % _LOOKS == 0:
            now = nanoseconds()
            if until == 0:
                until = now + patience
            if now > until and again >= 0:
                return again
        wait_between(looks)


@jit
def claim(board: Any, threads: Any, number: Any, item: Any) -> Any:
    """Returns whether this thread is the one that writes an item's results; it then tells when they are there."""
    if threads == 1:
        return True
    state = board + BOARD_CELLS + BOARD_CELL * item + _STATE
    found = integer_at(state)
    return found < 2 * number and exchange_integer(state, found, 2 * number) == found


@jit
def tell(board: Any, threads: Any, number: Any, item: Any) -> None:
    """Tells that the results of an item that this thread has claimed are there."""
    if threads > 1:
        set_integer(board + BOARD_CELLS + BOARD_CELL * item + _STATE, 2 * number + 1)
