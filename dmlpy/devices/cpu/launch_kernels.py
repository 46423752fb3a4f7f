"""The compiled bodies of joined launches: fused, at the same time, in batches, again and again, and in other memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.compiler.functions import jit
from dmlpy.devices.cpu.launches import ACTION_SIZE, CALL, NUMBER, LoopParameters
from dmlpy.devices.cpu.memory_kernels import byte_at, memory_copy
from dmlpy.devices.cpu.runtime_kernels import exchange_integer, indirect_call
from dmlpy.devices.cpu.simd import integer_at, set_integer, struct_view
from dmlpy.devices.cpu.structs import ConcurrentParameters
from dmlpy.devices.cpu.thread_pool import CURRENT_STAGE, TILE_STATE_SIZE, TILE_STATES
from dmlpy.devices.cpu.thread_pool_kernels import NOTHING, acquire, enter, leave, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    from dmlpy.devices.cpu.thread_pool import TaskBody

_call_body = indirect_call(5)


def build_fused_launch() -> TaskBody:
    """The body of a fused launch, to be compiled.

    Its parameters are the number of tasks and the address of two integers for each: the addresses of its function and of the function's
    parameters. The function is task(parameters, thread, threads, sync, stage): a thread's part of some stages, the first of which has the
    number after this one; it returns the number of the last stage.
    """

    def launch(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        if not enter(sync, thread, threads, epoch):
            return
        stage, entry = epoch, integer_at(parameters + 8)
        for _ in range(integer_at(parameters)):
            stage = _call_body(integer_at(entry), (integer_at(entry + 8), thread, threads, sync, stage))
            entry += 16
        leave(sync, thread, threads)

    return launch


def build_concurrent_task() -> Callable[..., int]:
    """The task of a fused launch that runs others at the same time, each on one thread, as tiles of one stage, to be compiled.

    Each is begun by one thread only, since it may write where it reads, and cannot be computed again.
    """
    parameters_at = struct_view(ConcurrentParameters)

    def concurrent(parameters: Any, thread: Any, threads: Any, sync: Any, stage: Any) -> Any:
        p, stage = parameters_at(parameters), stage + 1
        for turn in range(p.tasks):
            task = (thread + turn) % p.tasks
            if threads == 1 or _begins(sync, stage, task):
                _call_body(integer_at(p.entries + 16 * task), (integer_at(p.entries + 16 * task + 8), 0, 1, 0, 0))
                publish(sync, threads, stage, task)
        if threads > 1:
            acquire(p, sync, thread, threads, stage, p.tasks, NOTHING)  # which waits for the others
        return stage

    return concurrent


@jit
def _begins(sync: Any, stage: Any, tile: Any) -> Any:
    """Whether this thread, and no other one, begins a tile."""
    if integer_at(sync + CURRENT_STAGE) > stage:
        return False
    state = sync + TILE_STATES + TILE_STATE_SIZE * tile
    observed = integer_at(state)
    return observed < stage and exchange_integer(state, observed, stage) == observed


def build_batched_launch() -> TaskBody:
    """The body of a batched launch, to be compiled.

    Its parameters are the number of launches and the address of three integers for each: the addresses of its body and of the body's
    parameters, and the most threads that it uses.
    """

    def batch(parameters: Any, thread: Any, threads: Any, sync: Any, epoch: Any) -> None:
        entry = integer_at(parameters + 8)
        for place in range(integer_at(parameters)):
            body, given, most = integer_at(entry), integer_at(entry + 8), min(threads, integer_at(entry + 16))
            if most == 1:
                if thread == 0:
                    _call_body(body, (given, 0, 1, 0, 0))
            elif thread < most:
                _call_body(body, (given, thread, most, sync, epoch + place))
            entry += 24

    return batch


def build_relocation() -> Callable[..., None]:
    """Writes the addresses of memory into the parameters of launches, to be compiled.

    Its parameters are the number of words, the address of three integers for each (its address, the number of the memory, and the bytes
    from the memory's first one), and that of the first address of each memory.
    """

    def relocate(count: Any, words: Any, memories: Any) -> None:
        for place in range(count):
            entry = words + 24 * place
            set_integer(integer_at(entry), integer_at(memories + 8 * integer_at(entry + 8)) + integer_at(entry + 16))

    return relocate


def build_loop() -> Callable[..., None]:
    """The loop, to be compiled. Its parameter is the address of `LoopParameters`."""
    parameters_at = struct_view(LoopParameters)

    @jit
    def act(entry: Any, number: Any, iteration: Any) -> None:
        kind, first, second = integer_at(entry), integer_at(entry + 8), integer_at(entry + 16)
        if kind == CALL:
            _call_body(first, (second, 0, 1, 0, 0))
        elif kind == NUMBER:
            set_integer(first, number)
        else:
            memory_copy(first + iteration * integer_at(entry + 32), second + iteration * integer_at(entry + 40), integer_at(entry + 24))

    def repeat(parameters: Any) -> None:
        p = parameters_at(parameters)
        iteration, goes_on = 0, 1
        while iteration < p.iterations and goes_on != 0:
            for action in range(p.actions):
                if p.is_first == 0 or iteration > 0 or action < p.first_action or action >= p.last_action:
                    act(p.table + ACTION_SIZE * action, p.number + iteration, iteration)
            iteration += 1
            if p.goes_on != 0:
                goes_on = byte_at(p.goes_on)
        p.done = iteration

    return repeat
