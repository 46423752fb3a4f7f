"""The NumPy device beside PyTorch's CPU: an LSTM forward and backward, and the memory that takes.

    pip install torch
    python tests/benchmarks/against_torch.py [--rounds 15] [--json FILE]

Each library runs in a process of its own, with two threads. The times are taken twice: in turns, pass by pass with a rest between, and
alone, all passes of a library one after the other, as in a training loop, while the other's process waits. For the memory each process
does one forward and backward pass; what is counted is the peak of its resident memory, less what it was after imports and with all inputs
and parameters in place. Both compute the gradients of input and parameters under the same upstream gradient, from the same numbers; that
they agree is checked. The record that README.md shows is in records/against_torch.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

THREADS = 2
REST_S = 0.05
"""A library's threads spin for a while after their work; so long until the other one is measured."""

Sizes = tuple[int, int, int, int]
"""T, B, I, H."""
TIMED: tuple[Sizes, ...] = ((100, 16, 256, 256), (50, 64, 512, 512))
MEASURED: Sizes = (512, 64, 512, 512)

Array = np.ndarray[Any, np.dtype[Any]]
Step = Callable[[], None]
Results = Callable[[], dict[str, Array]]


def arrays_of(sizes: Sizes) -> dict[str, Array]:
    """Input, parameters in the layout of `params`, and the upstream gradient of the output."""
    steps, batch, inputs, hidden = sizes
    rng = np.random.default_rng(0)
    lengths = {"input": (steps, batch, inputs), "params": (4 * hidden * (inputs + hidden + 2),), "upstream": (steps, batch, hidden)}
    arrays = {name: rng.standard_normal(length, np.float32) for name, length in lengths.items()}
    arrays["params"] *= hidden**-0.5
    return arrays


def dmlpy_step(sizes: Sizes, arrays: dict[str, Array]) -> tuple[Step, Results]:
    """Forward and backward as bound dispatches."""
    import dmlpy as dml

    _, batch, _, hidden = sizes
    states = np.zeros((2, 1, batch, hidden), np.float32)
    inputs = {"input": arrays["input"], "input_h": states[0], "input_c": states[1], "params": arrays["params"]}
    descs: dict[str, Any] = {name: dml.TensorDesc.of(array) for name, array in inputs.items()}
    forward = dml.CudnnRNNV3Desc(**descs).with_outputs("output", "reserve_space")
    backward = forward.gradient("input_backprop", "params_backprop")
    tensors = {**forward.tensors(), **backward.tensors()}
    results = {name: np.empty(tensors[name].sizes, np.float32) for name in ("output", "reserve_space", "input_backprop", "params_backprop")}
    outputs = {name: results[name] for name in ("output", "reserve_space")}
    gradients = {name: results[name] for name in ("input_backprop", "params_backprop")}
    upstream = {"output_backprop": arrays["upstream"], "reserve_space": results["reserve_space"]}
    forth = dml.compile(forward, "numpy").bind(inputs, outputs)
    back = dml.compile(backward, "numpy").bind({**inputs, **upstream}, gradients)

    def step() -> None:
        forth()
        back()

    return step, lambda: {name: results[name] for name in ("output", "input_backprop", "params_backprop")}


def torch_step(sizes: Sizes, arrays: dict[str, Array]) -> tuple[Step, Results]:
    """The same with torch.nn.LSTM and autograd."""
    import torch

    torch.set_num_threads(THREADS)
    _, _, inputs, hidden = sizes
    module, at = torch.nn.LSTM(inputs, hidden), 0
    for parameter in module.parameters():  # in one layer and direction their order is that of `params`
        parameter.data = torch.from_numpy(arrays["params"][at : at + parameter.numel()]).view_as(parameter)
        at += parameter.numel()
    x, upstream = torch.from_numpy(arrays["input"]).requires_grad_(), torch.from_numpy(arrays["upstream"])
    kept: dict[str, torch.Tensor] = {}

    def step() -> None:
        x.grad = None
        module.zero_grad()
        kept["output"], _ = module(x)
        kept["output"].backward(upstream)

    def results() -> dict[str, Array]:
        gradients = [parameter.grad.reshape(-1) for parameter in module.parameters()]
        return {
            "output": kept["output"].detach().numpy(),
            "input_backprop": x.grad.numpy(),
            "params_backprop": torch.cat(gradients).numpy(),
        }

    return step, results


STEPS = {"dmlpy": dmlpy_step, "torch": torch_step}


def work(library: str, sizes: Sizes) -> None:
    """One library's process: does what each line of standard input says, and answers with a line of JSON."""
    import psutil

    arrays = arrays_of(sizes)
    __import__(library)
    if library == "torch":
        step, results = torch_step(sizes, arrays)
    before = psutil.Process().memory_info().rss
    if library == "dmlpy":
        # Binding allocates the scratch, the reserve and the outputs, which PyTorch does in each pass: they count.
        step, results = dmlpy_step(sizes, arrays)
    for line in sys.stdin:
        match line.split():
            case ["run", count]:
                answer: Any = []
                for _ in range(int(count)):
                    start = time.perf_counter()
                    step()
                    answer.append(time.perf_counter() - start)
            case ["peak"]:
                answer = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
            case ["norms"]:
                answer = {name: float(np.linalg.norm(array)) for name, array in results().items()}
            case ["versions"]:
                answer = versions(library)
            case other:
                raise SystemExit(f"unknown request {other!r}")
        print(json.dumps(answer), flush=True)


def versions(library: str) -> dict[str, str]:
    module = __import__(library)
    return {library: module.__version__} | ({"numpy": np.__version__} if library == "dmlpy" else {})


class Worker:
    """A library's process: a script that is told `--worker` with these arguments. Used in a with statement, at whose end it exits."""

    def __init__(self, script: str, *arguments: object) -> None:
        variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS))
        command = [sys.executable, script, "--worker", *map(str, arguments)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | variables)

    def ask(self, request: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(request, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("a worker has ended; its message stands above")
        return json.loads(answer)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def times(sizes: Sizes, rounds: int) -> dict[str, Any]:
    """Medians and least of both, in turns and alone, and that they compute the same."""
    turns: dict[str, list[float]] = {library: [] for library in STEPS}
    with Worker(__file__, "dmlpy", *sizes) as own, Worker(__file__, "torch", *sizes) as theirs:
        workers = {"dmlpy": own, "torch": theirs}
        for worker in workers.values():
            worker.ask("run 1")  # warms up
        for _ in range(rounds):
            for library, worker in workers.items():
                time.sleep(REST_S)
                turns[library] += worker.ask("run 1")
        alone = {library: worker.ask(f"run {rounds + 2}")[2:] for library, worker in workers.items()}
        compare({library: worker.ask("norms") for library, worker in workers.items()})
    return {"in_turns": summary(turns), "alone": summary(alone)}


def summary(seconds: dict[str, list[float]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        library: {"median_s": statistics.median(values), "least_s": min(values)} for library, values in seconds.items()
    }
    return found | {"dmlpy_over_torch": found["dmlpy"]["median_s"] / found["torch"]["median_s"]}


def memory(sizes: Sizes) -> dict[str, Any]:
    """Bytes of one forward and backward pass, one process after the other."""
    found: dict[str, Any] = {}
    norms = {}
    for library in STEPS:
        with Worker(__file__, library, *sizes) as worker:
            worker.ask("run 1")
            found[library] = worker.ask("peak")
            norms[library] = worker.ask("norms")
    compare(norms)
    return found | {"dmlpy_over_torch": found["dmlpy"] / found["torch"]}


def compare(norms: dict[str, dict[str, float]]) -> None:
    for name, own in norms["dmlpy"].items():
        if not abs(own - norms["torch"][name]) <= 1e-4 * own:
            raise SystemExit(f"the libraries disagree: the norm of {name} is {own:g} with dmlpy, {norms['torch'][name]:g} with PyTorch")


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        if cpuinfo.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="timed passes of each library")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--worker", nargs=5, metavar=("LIBRARY", "T", "B", "I", "H"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        library, steps, batch, inputs, hidden = arguments.worker
        return work(library, (int(steps), int(batch), int(inputs), int(hidden)))
    report: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "processor": processor(), "threads": THREADS}
    report["load"] = os.getloadavg()
    for library in STEPS:
        with Worker(__file__, library, 1, 1, 1, 1) as worker:
            report |= worker.ask("versions")
    for sizes in TIMED:
        name = "T {}, B {}, I {}, H {}".format(*sizes)
        report[f"time, {name}"] = taken = times(sizes, arguments.rounds)
        for how, found in taken.items():
            own, theirs = (1e3 * found[library]["median_s"] for library in STEPS)
            ratio = found["dmlpy_over_torch"]
            print(f"{name}, {how}: dmlpy {own:.1f} ms, PyTorch {theirs:.1f} ms, ratio {ratio:.2f} (medians)", flush=True)
    name = "T {}, B {}, I {}, H {}".format(*MEASURED)
    report[f"memory, {name}"] = found = memory(MEASURED)
    own, theirs = (found[library] / 1e6 for library in STEPS)
    print(f"{name}: dmlpy {own:.0f} MB, PyTorch {theirs:.0f} MB, ratio {found['dmlpy_over_torch']:.2f} (peak memory)", flush=True)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
