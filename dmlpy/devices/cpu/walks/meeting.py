"""How the threads of a walk meet, and how those that wake up late join it."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.cpu.team import CACHE_LINE, PROCESSOR
from dmlpy.devices.cpu.vectors import integer_at, jit, pause, processor, set_integer, yield_thread

_SPINS = 4000
"""How often a thread polls for another one before it yields its processor: less than a tenth of a millisecond. Threads that yield
sooner settle on one core where the others are busy."""
_LOOKS = 32
"""After this many looks a thread checks whether the other one waits for the processor that it occupies, and yields at once if so."""


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
    looks = 0
    while integer_at(address) < number:
        looks += 1
        if looks < _SPINS and looks % _LOOKS != 0:
            pause()
        elif are_together(other, tell_processor(line)) or looks >= _SPINS:
            yield_thread()


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
    set_integer(flags + 16, block)
    set_integer(flags + 8, met + 1 + step)
