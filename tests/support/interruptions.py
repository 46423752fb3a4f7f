"""A call that is interrupted at each of its steps."""

from __future__ import annotations

import opcode
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_NOT_TAKEN = opcode.opmap.get("NOT_TAKEN")
"""An instruction of Python 3.14 that does nothing. Python looks for no signal there, and its compiler leaves some out of `try`."""


class Interrupts:
    """Raises KeyboardInterrupt in this thread at chosen instructions of a module: more places than those where Python looks for signals.

    Args:
        module: the file whose functions are interrupted.
        *instructions: at how many instructions of these, counted from the first one that runs.
    """

    def __init__(self, module: Any, *instructions: int) -> None:
        self._file, self._at = module.__file__, set(instructions)
        self.seen = 0

    def __enter__(self) -> Interrupts:
        if sys.version_info[:2] == (3, 12):  # there it has no effect where a trace function is set already
            sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != self._file:
            return None
        frame.f_trace = self._trace  # Python 3.13 asks for it before there are opcodes
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] != _NOT_TAKEN:
            self.seen += 1
            if self.seen in self._at:
                raise KeyboardInterrupt
        return self._trace


def interrupted_everywhere(module: Any, call: Callable[[], None], check: Callable[[], None]) -> int:
    """Interrupts `call` at each instruction of a module in turn, and checks what it leaves; at how many."""
    count = 0
    while True:
        count += 1
        finished = False
        with Interrupts(module, count):
            try:
                call()
                finished = True
            except KeyboardInterrupt:
                pass
        check()
        if finished:
            return count - 1
