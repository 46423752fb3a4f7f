"""Which files of dmlpy an RNN passes through, step by step from its desc to its result: `python -m tests.support.structure.entered_files
numpy cpu`.

It prints a JSON object for each device: of the steps, each with the files whose functions run in it. It is a program, and each device has
a process of its own, so that nothing is in a cache yet.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from multiprocessing import Pool
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dmlpy as dml
from tests.conftest import cuda_on_cpu
from tests.support.folders import ROOT

STEPS = ("describe", "check", "compile", "bind", "dispatch")


class Entered:
    """The files whose functions run, by step."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}
        self._current: set[str] = set()

    def run(self, step: str, work: Callable[[], Any]) -> Any:
        """What `work` returns; the files that it enters are stored under the step."""
        self._current.clear()
        sys.setprofile(self._note)
        try:
            result = work()
        finally:
            sys.setprofile(None)
        inside = [Path(name) for name in self._current if Path(name).is_relative_to(ROOT / "dmlpy")]
        self.files[step] = sorted(path.relative_to(ROOT).as_posix() for path in inside)
        return result

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._current.add(frame.f_code.co_filename)


def entered_files(name: str) -> dict[str, list[str]]:
    """The files by step, on a device; "cuda" is the emulated one."""
    device = cuda_on_cpu() if name == "cuda" else dml.device(name)
    sizes = {"input_tensor": (1, 5, 2, 3), "weight_tensor": (1, 1, 4, 3), "recurrence_tensor": (1, 1, 4, 4)}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in sizes.items()}

    def describe() -> dml.RNNDesc:
        tensors = {name: dml.TensorDesc.of(array) for name, array in arrays.items()}
        return dml.RNNDesc(**tensors, activation_descs=[dml.ActivationTanhDesc()], direction="FORWARD").with_outputs()

    entered = Entered()
    desc = entered.run("describe", describe)
    entered.run("check", lambda: dml.check(desc))
    op = entered.run("compile", lambda: dml.compile(desc, device))
    inputs = {name: device.from_host(array) for name, array in arrays.items()}
    outputs = {name: device.empty(getattr(desc, name), 0) for name in ("output_sequence_tensor", "output_single_tensor")}
    dispatch = entered.run("bind", lambda: op.bind(inputs, outputs))
    entered.run("dispatch", dispatch)
    return entered.files


if __name__ == "__main__":
    with Pool(1, maxtasksperchild=1) as pool:
        print(json.dumps(pool.map(entered_files, sys.argv[1:], chunksize=1)))
