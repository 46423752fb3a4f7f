"""The compiled loop over turns of launches and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.movement.kernels import memory_copy
from dmlpy.devices.cpu.quantized.byte_product_kernels import byte_at
from dmlpy.devices.cpu.repetition import ACTION_SIZE, CALL, NUMBER, RepetitionParameters
from dmlpy.devices.cpu.runtime_kernels import indirect_call
from dmlpy.devices.cpu.simd import integer_at, set_integer, struct_view

if TYPE_CHECKING:
    from collections.abc import Callable

_call_body = indirect_call(5)


def build_repetition() -> Callable[..., None]:
    """The loop, to be compiled. Its parameter is the address of `RepetitionParameters`."""
    parameters_at = struct_view(RepetitionParameters)

    @jit
    def act(entry: Any, number: Any, turn: Any) -> None:
        kind, first, second = integer_at(entry), integer_at(entry + 8), integer_at(entry + 16)
        if kind == CALL:
            _call_body(first, (second, 0, 1, 0, 0))
        elif kind == NUMBER:
            set_integer(first, number)
        else:
            memory_copy(first + turn * integer_at(entry + 32), second + turn * integer_at(entry + 40), integer_at(entry + 24))

    def repeat(parameters: Any) -> None:
        p = parameters_at(parameters)
        turn, goes_on = 0, 1
        while turn < p.turns and goes_on != 0:
            for action in range(p.actions):
                if p.is_first == 0 or turn > 0 or action < p.first_action or action >= p.last_action:
                    act(p.table + ACTION_SIZE * action, p.number + turn, turn)
            turn += 1
            if p.goes_on != 0:
                goes_on = byte_at(p.goes_on)
        p.done = turn

    return repeat
