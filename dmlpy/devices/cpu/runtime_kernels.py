"""Compiled code besides arithmetic: atomic integers, indirect calls, and waits for another thread.

A thread that waits polls for a moment, then yields its processor, then sleeps.
"""

from __future__ import annotations

import platform
import time
from functools import cache
from typing import Any

from llvmlite import ir

from dmlpy.devices.cpu.compiler import types
from dmlpy.devices.cpu.compiler.functions import ExternalFunction, allocated, declared, intrinsic, jit, unpacked
from dmlpy.devices.cpu.simd import ADDRESS, INDEX

SPINS = 4000
"""Polls before a thread that waits yields its processor: less than a tenth of a millisecond. Threads that yield
sooner end up on one core when the others are busy."""
_WHOLE_SYSTEM = 15
"""The operand of ARM's barriers for all memory and devices."""
_YIELDS = 200
"""Yields before it sleeps: a tenth of a millisecond, if no other thread wants the processor."""
_NAP_US = 20
"""The first sleep, and the factor from each sleep to the next: the wait then ends soon after the event."""
_LONGEST_NAPS = 25
"""The number of sleeps after which they stop growing: half a millisecond."""


@intrinsic
def exchange_integer(address: Any, expected: Any, value: Any) -> Any:
    """Replaces the integer at an address if it is as expected; returns the old value."""

    def generate(builder: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ADDRESS.as_pointer())
        exchanged = builder.cmpxchg(place, arguments[1], arguments[2], "acq_rel", "acquire")
        return builder.extract_value(exchanged, 0)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def add_integer(address: Any, value: Any) -> Any:
    """Adds to the integer at an address; returns the old value."""

    def generate(builder: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", builder.inttoptr(arguments[0], ADDRESS.as_pointer()), arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@cache
def indirect_call(count: int) -> Any:
    """The kernel `call(function, arguments)`, which calls a `Kernel.address` with a tuple of integers and returns its result."""

    @intrinsic
    def call(function: Any, arguments: Any) -> Any:
        def generate(builder: Any, arguments: Any) -> Any:
            function, given = arguments
            kind = ir.FunctionType(ADDRESS, [ADDRESS] * count)
            return builder.call(builder.inttoptr(function, kind.as_pointer()), unpacked(builder, given))

        return types.int64(types.int64, types.UniTuple(types.int64, count)), generate

    return call


@intrinsic
def pause() -> Any:
    """Hints to the processor that this thread is in a spin loop."""

    def generate(builder: Any, arguments: Any) -> None:
        machine = platform.machine().lower()
        if machine in ("x86_64", "amd64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(declared(builder.module, kind, "llvm.x86.sse2.pause"), [])
        elif machine in ("aarch64", "arm64"):  # its hint to yield takes no time; this barrier takes about as long as a pause of x86
            kind = ir.FunctionType(ir.VoidType(), [INDEX])
            builder.call(declared(builder.module, kind, "llvm.aarch64.isb"), [INDEX(_WHOLE_SYSTEM)])

    return types.void(), generate


if platform.system() == "Windows":
    yield_thread = ExternalFunction("SwitchToThread", types.int32())
    _sleep = ExternalFunction("Sleep", types.void(types.int32))
    _milliseconds = ExternalFunction("GetTickCount64", types.int64())

    @jit
    def _nap(microseconds: Any) -> None:
        """Sleeps; the system rounds to milliseconds."""
        _sleep(1)

    @jit
    def nanoseconds() -> Any:
        """The time that has passed since some moment."""
        return 1000000 * _milliseconds()

else:
    yield_thread = ExternalFunction("sched_yield", types.int32())
    """Lets another thread have this processor."""
    _sleep = ExternalFunction("usleep", types.int32(types.int32))

    @jit
    def _nap(microseconds: Any) -> None:
        """Sleeps."""
        _sleep(microseconds)

    @intrinsic
    def nanoseconds() -> Any:
        """The time that has passed since some moment."""

        def generate(builder: Any, arguments: Any) -> Any:
            seconds_and_rest = allocated(builder, ADDRESS, 2)
            kind = ir.FunctionType(INDEX, [INDEX, ADDRESS.as_pointer()])
            clock = declared(builder.module, kind, "clock_gettime")
            builder.call(clock, [INDEX(time.CLOCK_MONOTONIC), seconds_and_rest])
            seconds, rest = (builder.load(builder.gep(seconds_and_rest, [INDEX(place)])) for place in range(2))
            return builder.add(builder.mul(seconds, ADDRESS(10**9)), rest)

        return types.int64(), generate


_PROCESSOR = {"Linux": "sched_getcpu", "Windows": "GetCurrentProcessorNumber"}.get(platform.system())

if _PROCESSOR is None:

    @jit
    def processor() -> Any:
        """The number of the processor that this thread runs on; -1 if unknown."""
        return -1

else:
    processor = ExternalFunction(_PROCESSOR, types.int32())


@jit
def wait_between(looks: Any) -> None:
    """Waits between two polls of another thread's writes.

    Args:
        looks: the number of polls so far.
    """
    if looks < SPINS:
        pause()
    elif looks < SPINS + _YIELDS:
        yield_thread()
    else:
        _nap(_NAP_US * min(looks - SPINS - _YIELDS + 1, _LONGEST_NAPS))
