"""A launch whose counted tiles are functions, each of which one thread calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, CountedParameters, Parameters, field

if TYPE_CHECKING:
    from dmlpy.devices.cpu.thread_pool import TaskBody

CONCURRENT_LAUNCH = Kernel("tests.support.cpu.concurrent_launch:build_concurrent_launch", 5)
"""The body of the launch."""
COUNT = Kernel("tests.support.cpu.concurrent_launch:build_count", 5)
"""A function that adds 1 to the integer at the address of its parameters."""


class CallParameters(CountedParameters):
    """The parameters of the launch."""

    calls: Address = field("two integers for each tile: the addresses of its function and of the function's parameters")


def call_parameters(calls: Sequence[tuple[int, int]] | np.ndarray[Any, Any]) -> Parameters:
    """The parameters of a launch of these calls."""
    return CallParameters.bound({"tiles": len(calls), "calls": np.array(calls, np.int64)})


def build_concurrent_launch() -> TaskBody:
    """The body, to be compiled."""
    from dmlpy.devices.cpu.compiler.functions import jit
    from dmlpy.devices.cpu.runtime_kernels import indirect_call
    from dmlpy.devices.cpu.simd import integer_at
    from dmlpy.devices.cpu.thread_pool_kernels import share_tiles

    call = indirect_call(5)

    @jit
    def run(p: CallParameters, tile: Any, own: Any) -> None:
        call(integer_at(p.calls + 16 * tile), (integer_at(p.calls + 16 * tile + 8), 0, 1, 0, 0))

    return share_tiles(CallParameters, run)


def build_count() -> TaskBody:
    """The function, to be compiled."""
    from dmlpy.devices.cpu.runtime_kernels import add_integer

    def count(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        add_integer(parameters, 1)

    return count
