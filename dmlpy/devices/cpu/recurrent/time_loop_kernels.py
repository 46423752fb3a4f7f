"""The compiled time loops: parts of a launch (see `devices.cpu.thread_pool_kernels`), which call the stages of an RNN, LSTM or GRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.recurrent.parameters import GRADIENT_PARAMETERS, PARAMETERS
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import struct_view

if TYPE_CHECKING:
    from collections.abc import Callable

_call, _call_gradient = indirect_call(7), indirect_call(6)


def build_time_loop() -> Callable[..., int]:
    """The time loop, to be compiled: a thread's part of the steps that its parameters describe."""
    parameters_at = struct_view(PARAMETERS)

    def time_loop(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p = parameters_at(parameters)
        for begin in range(0, p.steps, p.chunk):
            count = min(p.chunk, p.steps - begin)
            low = p.time + (p.steps - begin - count if p.backward != 0 else begin)
            stage += 1
            _call(p.input_stage, (parameters, thread, threads, sync, stage, low, count))
            for step in range(begin, begin + count):
                stage += 1
                _call(p.step_stage, (parameters, thread, threads, sync, stage, low, step))
                if p.second_stage != 0:
                    stage += 1
                    _call(p.second_stage, (parameters, thread, threads, sync, stage, low, step))
        return stage

    return time_loop


def build_gradient_time_loop() -> Callable[..., int]:
    """The backward recurrence, to be compiled."""
    parameters_at = struct_view(GRADIENT_PARAMETERS)

    def time_loop(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p = parameters_at(parameters)
        for step in range(p.steps + 1):
            stage += 1
            _call_gradient(p.step_stage, (parameters, thread, threads, sync, stage, step))
            if p.second_stage != 0 and step < p.steps:
                stage += 1
                _call_gradient(p.second_stage, (parameters, thread, threads, sync, stage, step))
        return stage

    return time_loop
