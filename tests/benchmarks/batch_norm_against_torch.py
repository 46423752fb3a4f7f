"""The NumPy device beside PyTorch's CPU: batch normalization in training, forward and backward, in both layouts.

    pip install torch
    python tests/benchmarks/batch_norm_against_torch.py [--rounds 31] [--json FILE]

Each library runs in a process of its own, with two threads. The times are taken twice: in turns, pass by pass with a rest between, and
alone, all passes of a library one after the other, while the other's process waits. Both compute from the same numbers: y and the batch's
statistics; then the gradients of x, scale and bias under the same upstream gradient. That they agree is checked. NHWC is PyTorch's
channels_last. dmlpy runs bound dispatches into the same memory; PyTorch allocates its results, in each pass anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.against_torch import REST_S, THREADS, Worker, compare, processor, summary, versions

SIZES = (32, 64, 56, 56)
LAYOUTS = ("NCHW", "NHWC")
PASSES = ("forward", "backward")
EPSILON = 1e-5

Array = np.ndarray[Any, np.dtype[Any]]
Step = Callable[[], None]
Results = Callable[[], dict[str, Array]]


def arrays_of(layout: str) -> dict[str, Array]:
    """x and dy of the sizes [N, C, H, W] in the layout's memory, and scale and bias."""
    rng = np.random.default_rng(0)
    arrays = {name: laid_out(rng.standard_normal(SIZES, np.float32), layout) for name in ("x", "dy")}
    return arrays | {name: rng.uniform(0.5, 1.5, SIZES[1]).astype(np.float32) for name in ("scale", "bias")}


def laid_out(array: Array, layout: str) -> Array:
    if layout == "NCHW":
        return array
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def dmlpy_steps(layout: str, arrays: dict[str, Array]) -> tuple[dict[str, Step], Results]:
    """Bound dispatches."""
    import dmlpy as dml

    statistics = (1, SIZES[1], 1, 1)
    inputs = {name: array.reshape(statistics) if array.ndim == 1 else array for name, array in arrays.items()}
    names = {"y": SIZES, "dx": SIZES} | dict.fromkeys(("mean", "variance", "d_scale", "d_bias"), statistics)
    results = {
        name: laid_out(np.empty(sizes, np.float32), layout) if sizes == SIZES else np.empty(sizes, np.float32)
        for name, sizes in names.items()
    }
    forth_in = {"input_tensor": inputs["x"], "scale_tensor": inputs["scale"], "bias_tensor": inputs["bias"]}
    forth_out = {f"output{name}_tensor": results[key] for name, key in (("", "y"), ("_mean", "mean"), ("_variance", "variance"))}
    back_in = {
        "input_tensor": inputs["x"],
        "input_gradient_tensor": inputs["dy"],
        "mean_tensor": results["mean"],
        "variance_tensor": results["variance"],
        "scale_tensor": inputs["scale"],
    }
    back_out = {f"output{name}_gradient_tensor": results[key] for name, key in (("", "dx"), ("_scale", "d_scale"), ("_bias", "d_bias"))}

    def bound(kind: Any, given: dict[str, Array], outputs: dict[str, Array]) -> Step:
        desc = kind(**{name: dml.TensorDesc.of(array) for name, array in {**given, **outputs}.items()}, epsilon=EPSILON)
        step: Step = dml.compile(desc, "numpy").bind(given, outputs)
        return step

    steps = {
        "forward": bound(dml.BatchNormalizationTrainingDesc, forth_in, forth_out),
        "backward": bound(dml.BatchNormalizationTrainingGradDesc, back_in, back_out),
    }
    return steps, lambda: {name: results[name] for name in ("y", "dx", "d_scale", "d_bias")}


def torch_steps(layout: str, arrays: dict[str, Array]) -> tuple[dict[str, Step], Results]:
    """The same with torch.nn.functional.batch_norm and autograd."""
    import torch

    torch.set_num_threads(THREADS)
    # PyTorch makes channels_last of a transposed array's strides.
    x, dy, scale, bias = (torch.from_numpy(arrays[name]) for name in ("x", "dy", "scale", "bias"))
    leaves = [tensor.requires_grad_() for tensor in (x, scale, bias)]
    kept: dict[str, Any] = {}

    def forward() -> None:
        kept["y"] = torch.nn.functional.batch_norm(x, None, None, scale, bias, training=True, eps=EPSILON)

    def backward() -> None:
        kept["gradients"] = torch.autograd.grad(kept["y"], leaves, dy, retain_graph=True)

    def results() -> dict[str, Array]:
        names = ("dx", "d_scale", "d_bias")
        return {"y": kept["y"].detach().numpy()} | {name: one.numpy() for name, one in zip(names, kept["gradients"], strict=True)}

    return {"forward": forward, "backward": backward}, results


STEPS = {"dmlpy": dmlpy_steps, "torch": torch_steps}


def work(library: str, layout: str) -> None:
    """One library's process: does what each line of standard input says, and answers with a line of JSON."""
    steps, results = STEPS[library](layout, arrays_of(layout))
    for line in sys.stdin:
        match line.split():
            case ["run", which, count]:
                answer: Any = []
                for _ in range(int(count)):
                    start = time.perf_counter()
                    steps[which]()
                    answer.append(time.perf_counter() - start)
            case ["norms"]:
                answer = {name: float(np.linalg.norm(array)) for name, array in results().items()}
            case ["versions"]:
                answer = versions(library)
            case other:
                raise SystemExit(f"unknown request {other!r}")
        print(json.dumps(answer), flush=True)


def times(layout: str, rounds: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Medians and least of both, in turns and alone, by pass; the versions; and that both compute the same."""
    found: dict[str, Any] = {}
    with Worker(__file__, "dmlpy", layout) as own, Worker(__file__, "torch", layout) as theirs:
        workers = {"dmlpy": own, "torch": theirs}
        for which in PASSES:
            turns: dict[str, list[float]] = {library: [] for library in workers}
            for worker in workers.values():
                worker.ask(f"run {which} 2")  # warms up
            for _ in range(rounds):
                for library, worker in workers.items():
                    time.sleep(REST_S)
                    turns[library] += worker.ask(f"run {which} 1")
            alone = {library: worker.ask(f"run {which} {rounds + 2}")[2:] for library, worker in workers.items()}
            found[which] = {"in_turns": summary(turns), "alone": summary(alone)}
        compare({library: worker.ask("norms") for library, worker in workers.items()})
        return found, own.ask("versions") | theirs.ask("versions")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31, help="timed passes of each library")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--worker", nargs=2, metavar=("LIBRARY", "LAYOUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(*arguments.worker)
    report: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "processor": processor(), "threads": THREADS}
    report["load"] = os.getloadavg()
    for layout in LAYOUTS:
        taken, found = times(layout, arguments.rounds)
        report |= found
        for which, figures in taken.items():
            name = f"{which}, {layout} {'x'.join(map(str, SIZES))}, FLOAT32"
            report[name] = figures
            for how, one in figures.items():
                own, theirs = (1e3 * one[library]["median_s"] for library in STEPS)
                print(
                    f"{name}, {how}: dmlpy {own:.2f} ms, PyTorch {theirs:.2f} ms, ratio {one['dmlpy_over_torch']:.2f} (medians)", flush=True
                )
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
