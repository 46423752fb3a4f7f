"""An epoch of the character model with dmlpy.keras on the device `cpu`, compared with Keras 3 with TensorFlow on the CPU.

    pip install matplotlib, and keras and tensorflow here or in another environment
    python tests/benchmarks/keras_epoch.py [--keras-python PYTHON] [--batches 1432] [--rounds 3] [--json FILE]

The model is that of examples/keras_characters.py: Embedding(96, 64), a stateful GRU(256, reset_after=True) with sigmoid gates, a Dense
softmax; 16 sequences of 64 characters a batch, sparse cross-entropy, Adam; float32. Both begin with the same weights, see the same batches
in the same order through `fit`, and must come to the same loss. The gradients' norm has a bound that is never reached: TensorFlow takes
the norm of an Embedding's gradient before the rows of equal symbols are added up, and without a bound it is Adam's squares that are taken
so; either is another training run than dmlpy's.

Each library runs alone in a process of its own with two threads, one after the other. A few batches warm up, in which Keras traces and
dmlpy compiles; then one epoch is timed. Keras is timed with its default, `jit_compile="auto"`, and without XLA, each in a new process.
All take turns for some rounds, for a whole process may be slow: Keras's time was seen to differ by 1.9 times from one process to the next.
The fastest epoch of each library counts, and the record has every one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

THREADS = 2
HIDDEN, RATE, NORM, WARM_UP = 256, 2e-3, 1e9, 20
"""Units of the GRU, the learning rate, the bound of the gradients' norm, and batches before the timed ones."""

PACKAGES = {"dmlpy": ("dmlpy", "numpy"), "keras": ("keras", "tensorflow", "numpy"), "keras without XLA": ("keras", "tensorflow", "numpy")}
"""The contenders and the packages whose versions are recorded."""

TOLERANCE = 0.01
"""How far the epoch's mean losses may differ, as a share: rounding differs, and a thousand updates spread it."""


def prepare(path: Path, batches: int) -> tuple[int, int]:
    """Writes the batches and the first weights to a file; returns the sizes of a batch."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
    from characters import BATCH, WINDOW, read_text, window
    from keras_characters import network

    text, _ = read_text()
    steps = [window(text, step) for step in range(batches)]
    x, y = (np.concatenate([step[which].T for step in steps]).astype(np.int32) for which in (0, 1))
    model = network(BATCH, WINDOW, HIDDEN, "cpu")
    embedding, gru, dense = model.layers
    weights = [*embedding.get_weights(), *gru.get_weights(order="keras3"), *dense.get_weights()]
    np.savez(path, x=x, y=y, **{f"weight_{index}": array for index, array in enumerate(weights)})
    return BATCH, WINDOW


def dmlpy_model(batch: int, window: int, weights: list[Any]) -> Any:
    from dmlpy.keras import GRU, Adam, Dense, Embedding, Sequential

    model = Sequential(device="cpu")
    model.add(Embedding(96, 64, batch_input_shape=(batch, window)))
    model.add(GRU(HIDDEN, inner_activation="sigmoid", reset_after=True, return_sequences=True, stateful=True))
    model.add(Dense(96, activation="softmax"))
    embedding, gru, dense = model.layers
    embedding.set_weights(weights[:1])
    gru.set_weights(weights[1:4], order="keras3")
    dense.set_weights(weights[4:])
    model.compile(Adam(RATE, beta_2=0.99, clipnorm=NORM), "sparse_categorical_crossentropy")
    return model


def keras_model(batch: int, window: int, weights: list[Any], jit_compile: Any) -> Any:
    import keras
    import tensorflow

    tensorflow.config.threading.set_intra_op_parallelism_threads(THREADS)
    tensorflow.config.threading.set_inter_op_parallelism_threads(THREADS)
    layers = [
        keras.Input(batch_shape=(batch, window), dtype="int32"),
        keras.layers.Embedding(96, 64),
        keras.layers.GRU(HIDDEN, return_sequences=True, stateful=True),
        keras.layers.Dense(96, activation="softmax"),
    ]
    model = keras.Sequential(layers)
    model.set_weights(weights)
    optimizer = keras.optimizers.Adam(RATE, beta_2=0.99, epsilon=1e-8, global_clipnorm=NORM)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=jit_compile)
    return model


def work(contender: str, path: str, batch: int, window: int) -> None:
    """A contender's process: prints its figures as a line of JSON."""
    data = np.load(path)
    x, y = data["x"], data["y"]
    weights = [data[f"weight_{index}"] for index in range(6)]
    if contender == "dmlpy":
        model = dmlpy_model(batch, window, weights)
    else:
        model = keras_model(batch, window, weights, "auto" if contender == "keras" else False)
    options: dict[str, Any] = {"batch_size": batch, "epochs": 1, "shuffle": False, "verbose": 0}
    model.fit(x[: WARM_UP * batch], y[: WARM_UP * batch], **options)
    start = time.perf_counter()
    history = model.fit(x, y, **options)
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, "ms_per_batch": 1e3 * seconds / (len(x) // batch), "loss": float(history.history["loss"][0])}
    print(json.dumps(found | {"versions": {name: __import__(name).__version__ for name in PACKAGES[contender]}}))


def measured(contender: str, python: str, path: Path, sizes: tuple[int, int]) -> dict[str, Any]:
    variables = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(THREADS))
    variables |= {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    command = [python, __file__, "--worker", contender, str(path), *map(str, sizes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables, check=False)
    if done.returncode:
        raise SystemExit(f"{contender} has failed; its message stands above")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keras-python", default=sys.executable, help="the Python of an environment with Keras and TensorFlow")
    parser.add_argument("--batches", type=int, default=1432, help="of an epoch; by default the whole text")
    parser.add_argument("--rounds", type=int, default=3, help="epochs of each library, each in a new process")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--worker", nargs=4, metavar=("CONTENDER", "FILE", "B", "T"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        contender, path, batch, window = arguments.worker
        return work(contender, path, int(batch), int(window))
    from dmlpy.bench import machine  # Keras's Python has no dmlpy

    report: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds")}
    report |= {"processor": machine.host(THREADS).processor, "threads": THREADS}
    report["load"] = os.getloadavg()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        sizes = prepare(path, max(arguments.batches, WARM_UP))
        report |= {"batches": max(arguments.batches, WARM_UP), "batch": sizes[0], "window": sizes[1], "hidden": HIDDEN}
        report["epochs"] = epochs = {contender: list[dict[str, Any]]() for contender in PACKAGES}
        for _ in range(max(arguments.rounds, 1)):
            for contender in PACKAGES:
                python = sys.executable if contender == "dmlpy" else arguments.keras_python
                found = measured(contender, python, path, sizes)
                epochs[contender].append(found)
                figures = f"{found['seconds']:.1f} s, {found['ms_per_batch']:.2f} ms a batch, loss {found['loss']:.3f}"
                print(f"{contender}: {figures}", flush=True)
    own, others = epochs["dmlpy"], [epoch for contender in PACKAGES if contender != "dmlpy" for epoch in epochs[contender]]
    for one, other in product(own, others):
        if not abs(one["loss"] - other["loss"]) <= TOLERANCE * one["loss"]:
            raise SystemExit(f"the libraries disagree: the epoch's loss is {one['loss']:g} with dmlpy, {other['loss']:g} with Keras")
    report["dmlpy_over_keras"] = min(epoch["seconds"] for epoch in own) / min(epoch["seconds"] for epoch in others)
    print(f"dmlpy over Keras: {report['dmlpy_over_keras']:.2f}")
    if arguments.json:
        from dmlpy.messages.json_text import lay_out  # Keras's environment need not have dmlpy

        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(lay_out(report))


if __name__ == "__main__":
    main()
