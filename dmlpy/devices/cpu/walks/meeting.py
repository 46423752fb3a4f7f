"""How the threads of a walk meet, and how those that wake up late join it."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.cpu.team import CACHE_LINE, PARTED, PROCESSOR, WAITED
from dmlpy.devices.cpu.vectors import integer_at, jit, set_integer
from dmlpy.devices.cpu.waiting import SPINS, nanoseconds, processor, wait_between, yield_thread

_LOOKS = 32
"""After this many looks a thread checks whether the other one waits for the processor that it occupies, and yields at once if so."""
_JOINED = 40
"""The offset in bytes, in the first thread's line, of the time at which the others joined."""
_PATIENCE_NS = 1_000_000
"""How long the first thread waits in a launch before it thinks of going on alone."""


@jit
def tell_processor(line: Any) -> Any:
    """Writes the processor that this thread runs on to its line of the flags."""
    here = processor()
    set_integer(line + PROCESSOR, here)
    return here


@jit
def are_together(line: Any, here: Any) -> Any:
    """Returns whether a thread was last seen on this processor, so that it cannot go on until this one yields."""
    return here >= 0 and integer_at(line + PROCESSOR) == here


@jit
def wait_for(line: Any, address: Any, other: Any, number: Any) -> None:
    """Waits until a flag reaches a number.

    Args:
        line: the line of this thread.
        address: the address of the flag.
        other: the line of the thread that raises it.
        number: the number to wait for.
    """
    looks, since = 0, 0
    while integer_at(address) < number:
        looks += 1
        if looks == SPINS:
            since = nanoseconds()
        if looks >= SPINS or looks % _LOOKS == 0:
            here = tell_processor(line)
            if looks < SPINS and are_together(other, here):
                yield_thread()
        wait_between(looks)
    if looks >= SPINS:
        set_integer(line + WAITED, integer_at(line + WAITED) + nanoseconds() - since)


@jit
def meet(thread: Any, threads: Any, flags: Any, number: Any) -> None:
    """Waits until all threads have reached a meeting."""
    if threads > 1:
        line = flags + CACHE_LINE * thread
        tell_processor(line)
        set_integer(line, number)
        for other in range(threads):
            wait_for(line, flags + CACHE_LINE * other, flags + CACHE_LINE * other, number)


@jit
def stay_together(thread: Any, threads: Any, flags: Any, number: Any) -> Any:
    """Waits as `meet` does; returns whether all threads go on together. If not, only the first one goes on.

    They part where meetings take the first thread more time than its work: others then keep the processors busy, and each thread waits
    for one that the system has put aside.
    """
    if threads > 1 and thread == 0:
        waited = integer_at(flags + WAITED)
        if waited > _PATIENCE_NS and 2 * waited > nanoseconds() - integer_at(flags + _JOINED):
            set_integer(flags + PARTED, number)
    meet(thread, threads, flags, number)
    return threads == 1 or integer_at(flags + PARTED) != number


@jit
def are_here(threads: Any, flags: Any, met: Any) -> Any:
    """Returns whether all other threads wait to join the first one, and none of them for its processor."""
    if threads > 1:
        here = tell_processor(flags)
        for other in range(1, threads):
            line = flags + CACHE_LINE * other
            if integer_at(line) <= met or are_together(line, here):
                return False
    return threads > 1


@jit
def let_join(flags: Any, met: Any, step: Any, block: Any) -> None:
    """Lets the others join at a step: its chunk's input products are there for the blocks before `block`."""
    set_integer(flags + WAITED, 0)
    set_integer(flags + _JOINED, nanoseconds())
    set_integer(flags + 16, block)
    set_integer(flags + 8, met + 1 + step)
