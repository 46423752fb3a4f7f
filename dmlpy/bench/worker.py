"""The process of one library: executes the requests on standard input and answers each with a line of JSON.

A request is a pickled call of `Session`. Libraries may print: their output goes to standard error, answers use a separate channel.
The process ends when its standard input does, so it does not outlive its parent, which also handles Ctrl-C.
"""

from __future__ import annotations

import base64
import gc
import json
import pickle
import traceback
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from dmlpy.bench.libraries import Library, Mode, NotInstalledError, Runner, UnsupportedError
from dmlpy.bench.work import SampledWork
from dmlpy.system.line_protocol import serve_lines

if TYPE_CHECKING:
    from dmlpy.bench.work import Case, Work

PACKINGS = 5
MODELLED = ("floor_us", "estimate_us", "estimate_step_us")
"""A library's estimates of a pass, by their names in runners and runs."""


def encode(name: str, **arguments: Any) -> str:
    """Encodes a request as a line."""
    return base64.b64encode(pickle.dumps((name, arguments), protocol=4)).decode("ascii")


class Session:
    """The requests that a worker answers, with values of JSON."""

    def __init__(self) -> None:
        self._library: Library | None = None
        self._work: Work | None = None
        self._runners: dict[str, Runner] = {}

    @property
    def library(self) -> Library:
        assert self._library is not None, "start comes first"
        return self._library

    def start(self, target: str, device: str, threads: int) -> dict[str, Any]:
        """Imports a library, `module:class`. Returns its versions and instructions, and whether it may open a second case."""
        module, _, name = target.partition(":")
        self._library = getattr(import_module(module), name)(device, threads)
        facts = {"versions": self.library.versions(), "reusable": self.library.reusable}
        return facts | {"instruction_set": self.library.instruction_set(), "device": self.library.device_facts()}

    def open(self, case: Case) -> dict[str, Any]:
        """Builds a case in every mode and runs each once. Returns plan and peak memory by mode, or the reason why a mode is missing."""
        if self._work is not None:
            self.release()
        self._work = case.work()
        outcomes: dict[str, Any] = {}
        for mode in self.library.modes(self._work):
            try:
                self._runners[mode] = runner = self.library.build(self._work, mode)
                runner.run(0)
                peak = self.library.peak_bytes()
                model = {name: getattr(runner, name) for name in MODELLED}
                sets = runner.sets or self.library.sets
                outcomes[mode] = {"plan": list(runner.plan), "packs": runner.packs, "peak_bytes": peak, "sets": sets, **model}
            except UnsupportedError as error:
                outcomes[mode] = {"absent": str(error)}
            except Exception as error:  # one mode's failure is reported, and the others are still measured
                traceback.print_exc()
                outcomes[mode] = {"failed": describe_error(error)}
        return outcomes

    def release(self) -> None:
        """Frees all memory of the last case."""
        self._runners.clear()
        self._work = None
        gc.collect()
        self.library.release()

    def check(self, mode: Mode, file: str) -> None:
        """Writes the results that the reference has to a NumPy file."""
        assert self._work is not None, "open comes first"
        runner = self._runners[mode]
        trained = self._work if isinstance(self._work, SampledWork) and self._work.case.trains else None
        if trained is not None:
            runner.load_upstream(trained.upstream(checked=True))
        runner.run(0)
        results = self._work.select(runner.results())
        with Path(file).open("wb") as opened:
            np.savez(opened, allow_pickle=False, **results)
        if trained is not None:
            runner.load_upstream(trained.upstream())

    def time(self, mode: Mode, repeats: int) -> float:
        """The microseconds of one of this many passes, inputs used in turn, after one untimed pass."""
        runner, count = self._runners[mode], 0
        sets = runner.sets or self.library.sets

        def issue() -> None:
            nonlocal count
            runner.run(count % sets)
            count += 1

        self.library.microseconds(issue, 1)
        return self.library.microseconds(issue, repeats)

    def pack(self, mode: Mode) -> list[float]:
        """The microseconds of each of several preparations of the parameters."""
        runner = self._runners[mode]
        runner.pack()
        return [self.library.microseconds(runner.pack, 1) for _ in range(PACKINGS)]

    def rates(self, device: str, products: list[tuple[int, int, int, str]], copies: list[int]) -> dict[str, Any]:
        """The device's rates, without starting a library."""
        from dmlpy.bench.machine import rates

        return rates(device, products, copies)

    def launches(self, device: str) -> dict[str, float]:
        """The launch overhead of a GPU in microseconds."""
        from dmlpy.bench.launches import launches

        return launches(device)


def describe_error(error: BaseException) -> str:
    """Formats an error's kind and the first line of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def serve(requests: IO[str], responses: IO[str]) -> None:
    """Answers every request with its value, or the reason why there is none."""
    session = Session()
    for line in requests:
        name, arguments = pickle.loads(base64.b64decode(line))
        try:
            response = {"value": getattr(session, name)(**arguments)}
        except (NotInstalledError, UnsupportedError) as error:
            response = {"not installed" if isinstance(error, NotInstalledError) else "absent": str(error)}
        except Exception as error:  # any library error is an answer; the traceback goes to standard error
            traceback.print_exc()
            response = {"failed": describe_error(error)}
        print(json.dumps(response), file=responses, flush=True)


def main() -> None:
    """Runs the process."""
    serve_lines(serve)


if __name__ == "__main__":
    main()
