"""Runs pytest in a process where the project finds no POSIX: `python -m tests.support.without_posix [arguments of pytest]`.

It stands for Windows where there is none. Modules of `dmlpy`, `tests` and `examples` cannot import `fcntl`, `resource` and the like, and
see `os`, `signal` and `sys` without what only POSIX has; `os.name` is "nt" and `sys.platform` is "win32". The standard library, pytest and
other packages are left as they are, since they would not run otherwise.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

MODULES = frozenset(("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"))
"""Modules that Windows does not have."""
OS = """
    chown fork forkpty getegid geteuid getgid getgroups getloadavg getpgid getpriority getsid getuid killpg lchown mkfifo mknod nice
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK openpty posix_fadvise posix_fallocate posix_spawn pread pwrite register_at_fork
    sched_getaffinity sched_setaffinity setegid seteuid setgid setpgid setpriority setsid setuid statvfs sysconf uname wait wait3
    wait4 WEXITSTATUS WIFEXITED WIFSIGNALED WNOHANG WTERMSIG
"""
SIGNAL = """
    alarm getitimer ITIMER_REAL pause pthread_kill pthread_sigmask setitimer SIG_BLOCK SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO
    SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGVTALRM SIGXCPU sigpending sigtimedwait sigwait
"""
NAMES: Mapping[str, frozenset[str]] = {"os": frozenset(OS.split()), "signal": frozenset(SIGNAL.split()), "sys": frozenset()}
"""What modules that Windows has lack there."""
_INSTEAD: Mapping[str, Mapping[str, Any]] = {"os": {"name": "nt"}, "sys": {"platform": "win32"}}
_OURS = ("dmlpy", "tests", "examples")


class _Restricted(ModuleType):
    """A module without some names. What is set or deleted is the module's own: tests replace parts of `os` and `sys`."""

    def __init__(self, module: ModuleType) -> None:
        ModuleType.__getattribute__(self, "__dict__")["_module"] = module

    def __getattribute__(self, name: str) -> Any:
        module = ModuleType.__getattribute__(self, "__dict__")["_module"]
        if name in NAMES[module.__name__]:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r} without POSIX")
        instead = _INSTEAD.get(module.__name__, {})
        return instead[name] if name in instead else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(ModuleType.__getattribute__(self, "__dict__")["_module"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(ModuleType.__getattribute__(self, "__dict__")["_module"], name)


def install() -> None:
    """Restricts what the project's modules import from now on."""
    restricted = {name: _Restricted(module) for name, module in (("os", os), ("signal", signal), ("sys", sys))}
    original = builtins.__import__

    def importing(name: str, *arguments: Any, **named: Any) -> ModuleType:
        scope = arguments[0] if arguments else named.get("globals")
        if str((scope or {}).get("__name__", "")).partition(".")[0] in _OURS:
            if name in MODULES:
                raise ModuleNotFoundError(f"No module named {name!r} without POSIX", name=name)
            if name in restricted:
                return restricted[name]
        return original(name, *arguments, **named)

    builtins.__import__ = importing


if __name__ == "__main__":
    install()
    sys.exit(pytest.main(sys.argv[1:]))
