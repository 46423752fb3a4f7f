"""The compiled walks over time: parts of a launch (see `devices.cpu.phases`), which call the phases of an RNN, LSTM or GRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.calls import caller
from dmlpy.devices.cpu.recurrent.parameters import GRADIENT_PARAMETERS, PARAMETERS
from dmlpy.devices.cpu.simd import record_at

if TYPE_CHECKING:
    from collections.abc import Callable

_call, _call_back = caller(7), caller(6)


def walk_of() -> Callable[..., int]:
    """The walk, to be compiled: a thread's share of the steps that its parameters describe."""
    parameters_at = record_at(PARAMETERS)

    def walk(parameters: Any, thread: Any, threads: Any, board: Any, number: Any) -> Any:
        p = parameters_at(parameters)
        for begin in range(0, p.steps, p.chunk):
            count = min(p.chunk, p.steps - begin)
            low = p.time + (p.steps - begin - count if p.backward != 0 else begin)
            number += 1
            _call(p.input_phase, (parameters, thread, threads, board, number, low, count))
            for step in range(begin, begin + count):
                number += 1
                _call(p.step_phase, (parameters, thread, threads, board, number, low, step))
                if p.second_phase != 0:
                    number += 1
                    _call(p.second_phase, (parameters, thread, threads, board, number, low, step))
        return number

    return walk


def gradient_walk_of() -> Callable[..., int]:
    """The walk back, to be compiled."""
    parameters_at = record_at(GRADIENT_PARAMETERS)

    def walk(parameters: Any, thread: Any, threads: Any, board: Any, number: Any) -> Any:
        p = parameters_at(parameters)
        for step in range(p.steps + 1):
            number += 1
            _call_back(p.step_phase, (parameters, thread, threads, board, number, step))
            if p.second_phase != 0 and step < p.steps:
                number += 1
                _call_back(p.second_phase, (parameters, thread, threads, board, number, step))
        return number

    return walk
