"""Libraries to compare dmlpy with in the tests of its benchmark, each with a different fault. They run in processes that import this."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from dmlpy.bench.libraries import Library, Mode, NotInstalledError, Peer, Runner, UnsupportedError
from dmlpy.bench.libraries.cupy import LoopRunner
from dmlpy.bench.work import Array, OperatorWork, RecurrentWork, Work


class Exact(Library):
    """A loop in NumPy."""

    def versions(self) -> dict[str, str]:
        return {"exact": "1.0"}

    def build(self, work: Work, mode: Mode) -> Runner:
        assert isinstance(work, RecurrentWork)
        return LoopRunner(np, lambda function: function, work, self.sets, self.mark)


class Modelled(Exact):
    """Predicts the times of its passes."""

    def build(self, work: Work, mode: Mode) -> Runner:
        runner = super().build(work, mode)
        runner.estimate_us, runner.estimate_step_us = 50.0, 10.0
        return runner


class Reusable(Modelled):
    """Stays for the next case."""

    @property
    def reusable(self) -> bool:
        return True

    def versions(self) -> dict[str, str]:
        return {"reusable": str(os.getpid())}


class _Rounding(LoopRunner):
    def results(self) -> dict[str, Array]:
        return {name: array.astype(np.float16).astype(np.float32) for name, array in super().results().items()}


class Wrong(Exact):
    """What it gives has too few digits. It stays for the next case."""

    @property
    def reusable(self) -> bool:
        return True

    def build(self, work: Work, mode: Mode) -> Runner:
        assert isinstance(work, RecurrentWork)
        return _Rounding(np, lambda function: function, work, self.sets, self.mark)


class Dying(Exact):
    """Is gone when it is to be timed."""

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        print("a last word")
        os._exit(3)


class Slow(Exact):
    """Never comes to an end of it."""

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        time.sleep(3600)
        raise AssertionError


class Missing(Exact):
    """Is not there."""

    def __init__(self, device: str, threads: int) -> None:
        raise NotInstalledError("No module named 'missing': pip install missing")


class Unable(Exact):
    """Cannot do it."""

    def build(self, work: Work, mode: Mode) -> Runner:
        raise UnsupportedError("layers are not known here")


class Raising(Exact):
    """Fails."""

    def build(self, work: Work, mode: Mode) -> Runner:
        raise ValueError("nothing\nworks")


class _Negated(Runner):
    def __init__(self, work: OperatorWork) -> None:
        self._work = work

    def run(self, number: int) -> None:
        return None

    def results(self) -> dict[str, Array]:
        return {name: -array for name, array in self._work.reference().items()}


class WrongProducts(Reusable):
    """Its GEMM has the wrong sign, and it has no other operator."""

    def build(self, work: Work, mode: Mode) -> Runner:
        assert isinstance(work, OperatorWork)
        if work.desc.short_name() != "GEMM":
            raise UnsupportedError("no equivalent")
        return _Negated(work)


def peer(kind: type[Library], works: tuple[str, ...] = ("Recurrent", "BatchNorm")) -> Peer:
    """A library as a benchmark knows it."""
    return Peer(kind.__name__.lower(), f"{kind.__module__}:{kind.__name__}", kind.__doc__ or "", works=works)
