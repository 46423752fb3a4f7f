"""Runs of `fit` that are killed and resumed: `python -m tests.support.keras.runs NAME FOLDER BATCH` kills itself after so many batches."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dmlpy.keras import (
    GRU,
    LSTM,
    Adam,
    BackupAndRestore,
    Callback,
    CSVLogger,
    Dense,
    EarlyStopping,
    Embedding,
    LearningRateScheduler,
    ReduceLROnPlateau,
    Sequential,
)

Array = np.ndarray[Any, np.dtype[Any]]

SYMBOLS, SAMPLES, STEPS, BATCH, EPOCHS = 9, 50, 6, 8, 4
BATCHES = -(-SAMPLES // BATCH)


def samples() -> tuple[Array, Array]:
    x = np.random.default_rng(0).integers(0, SYMBOLS, (SAMPLES, STEPS))
    return x, x.sum(axis=1) % 3


def model(*, stateful: bool = False) -> Sequential:
    """Everything that is random in a run: dropout of symbols, inputs and states."""
    made = Sequential(device="cpu", seed=5)
    sizes = {"batch_input_shape": (BATCH, STEPS)} if stateful else {}
    made.add(Embedding(SYMBOLS, 4, dropout=0.1, **sizes))
    made.add(GRU(5, stateful=True) if stateful else LSTM(5, dropout_W=0.2, dropout_U=0.3))
    made.add(Dense(3, activation="softmax"))
    made.compile(Adam(0.02, decay=0.01, clipnorm=1.0), "sparse_categorical_crossentropy", "accuracy")
    return made


class Shuffled:
    """Batches of an order that the epoch's number decides."""

    def __init__(self) -> None:
        self.epoch = -1
        self.begun: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        x, y = samples()
        self.begun.append(self.epoch)
        order = np.random.default_rng(self.epoch).permutation(SAMPLES)
        for start in range(0, SAMPLES, BATCH):
            yield x[order[start : start + BATCH]], y[order[start : start + BATCH]]


def endless() -> Iterator[tuple[Array, Array]]:
    """Batches of a generator that does not restart."""
    random = np.random.default_rng(3)
    while True:
        x = random.integers(0, SYMBOLS, (BATCH, STEPS))
        yield x, x.sum(axis=1) % 3


def of_arrays(folder: Path, callbacks: list[Callback]) -> Sequential:
    made, (x, y) = model(), samples()
    watching: list[Callback] = [
        CSVLogger(folder / "log.csv"),
        LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        ReduceLROnPlateau("loss", 0.5, patience=1, min_delta=0.05),
        EarlyStopping("val_loss", patience=9, restore_best_weights=True),
    ]
    made.fit(x, y, BATCH, epochs=EPOCHS, verbose=0, validation_data=(x[:9], y[:9]), callbacks=[*callbacks, *watching])
    return made


def of_epochs(folder: Path, callbacks: list[Callback]) -> Sequential:
    made = model()
    made.fit(Shuffled(), epochs=EPOCHS, verbose=0, callbacks=callbacks)
    return made


def of_a_generator(folder: Path, callbacks: list[Callback]) -> Sequential:
    made = model(stateful=True)
    made.fit(endless(), steps_per_epoch=BATCHES, epochs=EPOCHS, verbose=0, callbacks=callbacks)
    return made


RUNS: dict[str, Callable[[Path, list[Callback]], Sequential]] = {
    "arrays": of_arrays,
    "epochs": of_epochs,
    "generator": of_a_generator,
}


class _Killed(Callback):
    """Ends the process without a word after some batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.left = batches

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def backed_up(name: str, folder: Path, batches: int | None, save_freq: str | int) -> tuple[Sequential, int]:
    """A run with backups, killed before a batch; None: not at all. Also the number of batches that were trained on."""
    killed = _Killed(-1 if batches is None else batches)
    before = killed.left
    return RUNS[name](folder, [BackupAndRestore(folder / "backup", save_freq), killed]), before - killed.left


if __name__ == "__main__":
    backed_up(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if sys.argv[4] == "epoch" else int(sys.argv[4]))
