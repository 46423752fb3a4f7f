"""LSTM layers of dmlpy.thinc beside Thinc's own, PyTorch's and Keras's on the CPU: `python -m tests.benchmarks.thinc_layers [--json FILE]`.

    pip install thinc torch, and keras with tensorflow if it is to be measured too

All run in one process with two threads and take turns; the best time of all rounds counts, since other work on the machine can only add
to it. A turn begins with a rest and a call that is not timed: PyTorch's worker thread (libgomp's) occupies its processor for about 8 ms
after each call, while it waits for the next one, and would take it from the library whose turn follows.

A forward pass is `predict`; a training pass is `begin_update` and the gradients of input and weights. `LSTM.v1` gets a Padded, and lists
within `with_padded`; torch.nn.LSTM and Keras's LSTM get the padded array alone, so lists cost them no copies, and no lengths. Outputs are
compared before anything is timed, where the lengths are equal. Thinc computes less: it leaves out the first step's gradients.

With OMP_NUM_THREADS=1 in the environment all have one thread, and what is timed is the processor, which other work affects least. Thinc has
one thread in any case.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

THREADS = int(os.environ.setdefault("OMP_NUM_THREADS", "2"))
for _name in ("OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
    os.environ[_name] = str(THREADS)

import numpy as np
import thinc.api as thinc
import torch

import dmlpy.thinc as dt
from dmlpy.bench import machine
from dmlpy.messages.json_text import lay_out

clock = time.perf_counter if THREADS > 1 else time.process_time
Work = Callable[[], Any]
PASSES = ("forward", "training")
REST_S = 0.02
"""The rest before each turn. With one thread nothing waits, and there is none."""


class Shape(NamedTuple):
    """A layer and its batch: [steps, batch, inputs] to `outputs` entries of both directions together."""

    steps: int
    batch: int
    inputs: int
    outputs: int
    bi: bool
    depth: int = 1
    ragged: bool = False

    @property
    def key(self) -> str:
        kind = f"{'bi' * self.bi}lstm-{self.inputs}-{self.outputs}" + (f"-x{self.depth}" if self.depth > 1 else "")
        return f"{kind}-b{self.batch}-t{self.steps}" + "-ragged" * self.ragged

    def lengths(self) -> list[int]:
        """Evenly from `steps` down to half of it where they differ."""
        if not self.ragged:
            return [self.steps] * self.batch
        return [round(length) for length in np.linspace(self.steps, self.steps / 2, self.batch)]


SHAPES = (
    Shape(40, 32, 100, 200, bi=True),
    Shape(100, 16, 256, 256, bi=False),
    Shape(64, 32, 96, 256, bi=True),
    Shape(25, 64, 96, 96, bi=True, ragged=True),
    Shape(40, 1, 96, 96, bi=True),
    Shape(30, 128, 300, 300, bi=True),
    Shape(200, 8, 128, 128, bi=False),
    Shape(40, 32, 96, 96, bi=True, depth=2, ragged=True),
)


class Batch:
    """The arrays of a shape, and the models with the same weights."""

    def __init__(self, shape: Shape) -> None:
        rng = np.random.default_rng(0)
        self.shape = shape
        self.parts = [rng.standard_normal((length, shape.inputs), np.float32) for length in shape.lengths()]
        self.upstream = [rng.standard_normal((length, shape.outputs), np.float32) for length in shape.lengths()]
        ops = thinc.NumpyOps()
        self.padded, self.padded_upstream = ops.list2padded(self.parts), ops.list2padded(self.upstream)
        self.own = dt.LSTM(shape.outputs, shape.inputs, bi=shape.bi, depth=shape.depth).initialize()
        self.thinc = thinc.LSTM(shape.outputs, shape.inputs, bi=shape.bi, depth=shape.depth).initialize()
        self.thinc.set_param("LSTM", self.own.get_param("LSTM"))
        self.torch: Any = dt.to_pytorch(self.own).layers[0].shims[0]._model

    def works(self) -> dict[str, dict[str, Work]]:
        """What is timed, by subject and pass."""
        given, upstream = (self.parts, self.upstream) if self.shape.ragged else (self.padded, self.padded_upstream)
        theirs = thinc.with_padded(self.thinc) if self.shape.ragged else self.thinc
        found = {
            "dmlpy.thinc": {"forward": lambda: self.own.predict(given), "training": _trains(self.own, given, upstream)},
            "Thinc LSTM.v1": {"forward": lambda: theirs.predict(given), "training": _trains(theirs, given, upstream)},
            "torch.nn.LSTM": self._torch_works(),
        }
        return found | ({"keras.layers.LSTM": self._keras_works()} if importlib.util.find_spec("keras") else {})

    def _torch_works(self) -> dict[str, Work]:
        x = torch.from_numpy(self.padded.data)
        dy = torch.from_numpy(self.padded_upstream.data)
        tracked = x.clone().requires_grad_()

        def forward() -> Any:
            with torch.inference_mode():
                return self.torch(x)[0].numpy()

        def training() -> None:
            self.torch.zero_grad()
            tracked.grad = None
            self.torch(tracked)[0].backward(dy)

        return {"forward": forward, "training": training}

    def _keras_works(self) -> dict[str, Work]:
        import keras
        import tensorflow as tf

        units = self.shape.outputs // (1 + self.shape.bi)
        layers = [keras.layers.LSTM(units, return_sequences=True) for _ in range(self.shape.depth)]
        if self.shape.bi:
            layers = [keras.layers.Bidirectional(layer) for layer in layers]
        model = keras.Sequential([keras.Input((self.shape.steps, self.shape.inputs)), *layers])
        x = tf.constant(self.padded.data.transpose(1, 0, 2))
        dy = tf.constant(self.padded_upstream.data.transpose(1, 0, 2))
        forward = tf.function(lambda: model(x, training=False))

        def differentiate() -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(model(x, training=True) * dy)
            return tape.gradient(loss, [x, *model.trainable_variables])

        training = tf.function(differentiate)
        return {"forward": lambda: forward().numpy(), "training": lambda: [part.numpy() for part in training()]}


def _trains(model: Any, given: Any, upstream: Any) -> Work:
    def training() -> Any:
        _, backprop = model.begin_update(given)
        return backprop(upstream)

    return training


def measure(shape: Shape, rounds: int) -> list[dict[str, Any]]:
    """The best times of a shape, in microseconds."""
    batch = Batch(shape)
    works = batch.works()
    if not shape.ragged:
        expected = batch.own.predict(batch.padded).data
        for found in (batch.thinc.predict(batch.padded).data, works["torch.nn.LSTM"]["forward"]()):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    rows = []
    for which in PASSES:
        best = dict.fromkeys(works, float("inf"))
        for subject in works:
            works[subject][which]()
        for _ in range(rounds):
            for subject, passes in works.items():
                time.sleep(REST_S if THREADS > 1 else 0)
                passes[which]()
                start = clock()
                passes[which]()
                best[subject] = min(best[subject], clock() - start)
        own = best["dmlpy.thinc"]
        rows += [
            {"shape": shape.key, "pass": which, "subject": subject, "best_us": seconds * 1e6, "times_dmlpy": seconds / own}
            for subject, seconds in best.items()
        ]
        others = ", ".join(f"{subject} {seconds * 1e3:.2f} ms = {seconds / own:.2f}x" for subject, seconds in list(best.items())[1:])
        print(f"{shape.key:28} {which:9} dmlpy {own * 1e3:7.2f} ms; {others}", flush=True)
    return rows


def main() -> None:
    """Prints a line for each shape and pass."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50, help="turns of each library")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    rows = [row for shape in SHAPES for row in measure(shape, arguments.rounds)]
    if arguments.json:
        packages = [name for name in ("dmlpy", "numpy", "thinc", "torch", "keras") if importlib.util.find_spec(name)]
        facts = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "processor": machine.host(1).processor,
            "load": os.getloadavg(),
            "threads": THREADS,
            "time": "of the clock" if THREADS > 1 else "of the processor",
            "versions": {name: version(name) for name in packages},
        }
        arguments.json.write_text(lay_out(facts | {"rounds": arguments.rounds, "rows": rows}))


if __name__ == "__main__":
    main()
