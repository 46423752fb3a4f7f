"""Where the time goes until a fresh process has the first result of an ONNX model: `python -m tests.benchmarks.model_start_up [NAME ...]`.

    python -m tests.benchmarks.model_start_up [NAME ...] [--processes 5] [--cold] [--onnxruntime] [--json FILE]

Each process imports NumPy, then loads a model from a file, compiles it for `cpu` and runs it. The time after that of NumPy's import is
divided into the phases of `PHASES`: a phase has what its functions take without those of other phases, and `import` has all modules,
wherever they are imported. The first process compiles the kernels and is not counted, or with `--cold` each process begins with an empty
folder of kernels. Of all processes that with the least processor time is shown. Python's byte code is cached, as in an installed package.
The peak is that of the resident set, minus what it was once NumPy was imported.
"""

from __future__ import annotations

import argparse
import importlib
import importlib._bootstrap
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

OTHER = "other"
"""The phase of what is in no other one."""
IMPORT = "import"
PHASES = {
    "read and parse": ("dmlpy.onnx.loading.load:read_model", "dmlpy.onnx.loading.load:_parse"),
    "checks": (
        "dmlpy.onnx.loading.load:problems_of",
        "dmlpy.onnx.lowering.node_lowering:check",
        "dmlpy.x.calls:check",
        "dmlpy.compiler:check",
        "dmlpy.graphs.graph:Graph.check",
    ),
    "validators": ("dmlpy.description.structs:Struct._complete",),
    "lowering": ("dmlpy.onnx.lowering.lowered_model:LoweredModel.interpretation", "dmlpy.onnx.lowering.lowered_model:LoweredModel.program"),
    "plan": ("dmlpy.onnx.runtime.compiled_program:compile_at_any_level",),
    "kernels": ("dmlpy.devices.cpu.jit:Kernel._make", "dmlpy.devices.cpu.isa:host_isa"),
    "packing": ("dmlpy.onnx.runtime.graph_runs:_prepare",),
    "first run": ("dmlpy.onnx.runtime.compiled:CompiledModel.run",),
}
"""The functions of each phase, as `module:name` where they are called: what a function imports from elsewhere is replaced in its module."""


class Clock:
    """The wall and processor seconds of phases, of which the innermost counts."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._running = [OTHER]
        self._since = time.perf_counter(), time.process_time()

    def settle(self) -> None:
        """Counts what has passed for the phase that is running."""
        now, own = (time.perf_counter(), time.process_time()), self.seconds[self._running[-1]]
        own[0], own[1] = own[0] + now[0] - self._since[0], own[1] + now[1] - self._since[1]
        self._since = now

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.settle()
        self._running.append(name)
        try:
            yield
        finally:
            self.settle()
            self._running.pop()

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            with self.phase(name):
                return function(*arguments, **named)

        return run


def follow(clock: Clock) -> None:
    """Has a clock count imports, and the functions of `PHASES` as soon as their modules are there."""
    bootstrap: Any = importlib._bootstrap
    find_and_load = bootstrap._find_and_load
    waiting = {target: phase for phase, targets in PHASES.items() for target in targets}

    def load(name: str, *more: Any) -> Any:
        with clock.phase(IMPORT):
            module = find_and_load(name, *more)
        for target in [target for target in waiting if target.startswith(f"{name}:")]:
            replace(target, waiting.pop(target))
        return module

    def replace(target: str, phase: str) -> None:
        module, _, path = target.partition(":")
        *owners, name = path.split(".")
        owner: Any = sys.modules[module]
        for step in owners:
            owner = vars(owner)[step]
        own = vars(owner)[name]
        timed = clock.timed(own.__func__ if isinstance(own, classmethod) else own, phase)
        type.__setattr__(owner, name, classmethod(timed) if isinstance(own, classmethod) else timed) if owners else setattr(
            owner, name, timed
        )

    bootstrap._find_and_load = load


def peak_bytes() -> int:
    """The most resident bytes of this process up to now; 0 where Linux does not tell."""
    status = Path("/proc/self/status")  # the peak that `resource` knows is also that of the process that started this one
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)


def one_process(file: str, library: str) -> dict[str, Any]:
    """What a process takes, which is this one: the seconds of each phase, and the bytes of the peak."""
    import numpy as np

    rng, inputs = np.random.default_rng(2), {}
    for name, (is_whole, sizes) in json.loads(Path(f"{file}.json").read_text()).items():
        inputs[name] = rng.integers(0, 2, sizes) if is_whole else rng.standard_normal(sizes, np.float32)
    before, clock = peak_bytes(), Clock()
    if library == "onnxruntime":
        with clock.phase(IMPORT):
            import onnxruntime
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        with clock.phase("first run"):
            session.run(None, inputs)
    else:
        follow(clock)
        from dmlpy import onnx

        onnx.load(file).compile("cpu").run(inputs)
    clock.settle()
    return {"seconds": dict(clock.seconds), "peak_bytes": peak_bytes() - before}


def measured(file: str, library: str, processes: int, *, cold: bool) -> dict[str, Any]:
    """The process that took least of the processor's time."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for index in range(processes + 1):
            kernels = f"{folder}/{index if cold else 'kept'}"
            own = environment | {"DMLPY_CACHE_DIR": kernels}
            own.setdefault("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir()) / "dmlpy-byte-code"))
            command = [sys.executable, "-m", "tests.benchmarks.model_start_up", "--process", library, file]
            found.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=own).stdout))
    return min(found[1:], key=lambda item: sum(cpu for _, cpu in item["seconds"].values()))


def show(name: str, library: str, found: dict[str, Any]) -> str:
    """A line for each phase."""
    phases = found["seconds"]
    total = [sum(column) for column in zip(*phases.values(), strict=True)]
    rows = [*((phase, phases[phase]) for phase in (IMPORT, *PHASES, OTHER) if phase in phases), ("all", total)]
    lines = [f"{phase:>16} {wall * 1e3:8.1f} {cpu * 1e3:8.1f}" for phase, (wall, cpu) in rows]
    return "\n".join([f"{name}, {library}: peak {found['peak_bytes'] / 1e6:.0f} MB; ms by the wall and of the processor", *lines])


def main() -> None:
    """Prints the phases of each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="some of the models, by the beginnings of their names")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="no kernels are kept")
    parser.add_argument("--onnxruntime", action="store_true", help="measure ONNX Runtime too")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--process", metavar="LIBRARY", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        print(json.dumps(one_process(arguments.names[0], arguments.process)))
        return
    from tests.benchmarks.onnx_models import MODELS, START_UP_MODELS

    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, build in {**MODELS, **START_UP_MODELS}.items():
            if arguments.names and not name.startswith(tuple(arguments.names)):
                continue
            model, file = build(), f"{folder}/model.onnx"
            Path(file).write_bytes(model.SerializeToString())
            kinds = {item.name: item.type.tensor_type for item in model.graph.input}
            given = {key: (kind.elem_type == 7, [size.dim_value for size in kind.shape.dim]) for key, kind in kinds.items()}
            Path(f"{file}.json").write_text(json.dumps(given))
            del model
            for library in ("dmlpy", *(["onnxruntime"] if arguments.onnxruntime else [])):
                found = measured(file, library, arguments.processes, cold=arguments.cold)
                figures[f"{name}, {library}"] = found
                print(show(name, library, found), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
