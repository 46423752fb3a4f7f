"""Ctrl+C while the `dmlpy` command imports its modules, or ends: one line and the usual exit status in place of Python's traceback.

Nobody could catch KeyboardInterrupt there, modules may take it for something else, and there is nothing to clean up: the process ends at
once. `dmlpy.cli.interrupts` does the rest. `dmlpy/__init__.py` imports this module first, so it imports hardly anything itself.
"""

from __future__ import annotations

import os
import sys

STATUS = 130
"""The exit status that shells give a program that Ctrl+C ended: 128 and the number of SIGINT."""


def is_command() -> bool:
    """Whether this process is the `dmlpy` command: its script, or `python -m dmlpy`."""
    given: list[str] = getattr(sys, "argv", [])
    if given[:1] == ["-m"]:  # Python is still looking for the module
        return sys.orig_argv[-len(given)] in ("dmlpy", "-mdmlpy")
    return os.path.basename("".join(given[:1])).removesuffix(".exe") == "dmlpy"


def tell() -> None:
    """Writes the line to stderr, past `sys.stderr`, whose lock the interrupted code may hold."""
    try:  # noqa: SIM105  (contextlib imports several modules)
        os.write(2, b"dmlpy: interrupted\n")
    except OSError:
        pass  # stderr is closed


def end(number: int, frame: object) -> None:
    """A handler of SIGINT that ends the process."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would show the line twice
    tell()
    os._exit(STATUS)


def _uncaught(kind: type[BaseException], error: BaseException, trace: object) -> None:
    if issubclass(kind, KeyboardInterrupt):
        tell()
        os._exit(STATUS)
    sys.__excepthook__(kind, error, trace)  # type: ignore[arg-type]


def _watch() -> None:
    sys.excepthook = _uncaught  # until the handler is set: `signal` itself imports several modules
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else whoever started the process ignores it, as `nohup` does
        signal.signal(signal.SIGINT, end)


if is_command():
    _watch()
