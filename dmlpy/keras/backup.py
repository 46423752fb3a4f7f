"""`BackupAndRestore`: resumes a killed run from its last backup, with bit-identical results."""

from __future__ import annotations

import json
import operator
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief, given_path
from dmlpy.description.flags import check_flags
from dmlpy.keras.callbacks import Callback, FilePath, Logs
from dmlpy.keras.loop import Run
from dmlpy.keras.metric_callbacks import check_frequency
from dmlpy.keras.saving import read_arrays, write_arrays
from dmlpy.messages.json_nesting import decoded
from dmlpy.messages.problems import DescError, Problem
from dmlpy.system.files import status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_HEADER = "dmlpy.keras.run"

Arrays = dict[str, np.ndarray[Any, Any]]


class BackupAndRestore(Callback):
    """Saves a backup of a run, from which the same call of `fit` resumes in another process.

    A backup has the weights, the optimizer's moments, count and rate, the generator of dropout and shuffling, the states of stateful
    layers, the position in the epoch with its metrics so far, the history, and the state of the other callbacks. The results of a resumed
    run are bit-identical to those of an uninterrupted one on the same device with the same number of threads.

    The program must create the same model and pass the same data. Arrays need nothing else. From an iterable, the batches already trained
    on are read again and skipped, so it must yield the same batches in the same order when the program restarts; one that has
    `set_epoch` (or whose `sampler` has it) is iterated for the current epoch only.

    Args:
        backup_dir: the folder of the backup; created if it is missing.
        save_freq: `epoch`, or the number of batches after which the backup is replaced.
        delete_checkpoint: whether to delete the backup when the run has ended.

    Raises:
        DescError: `save_freq` is invalid. When a run begins: the backup is damaged, or of another model or other callbacks.
    """

    saves_run = True

    @check_flags
    def __init__(self, backup_dir: FilePath, save_freq: str | int = "epoch", delete_checkpoint: bool = True) -> None:
        super().__init__()
        self.backup_dir = given_path("BackupAndRestore", "backup_dir", backup_dir)
        self.save_freq = check_frequency("BackupAndRestore", save_freq)
        self.delete_checkpoint = delete_checkpoint
        self._resumed: tuple[dict[str, Any], Arrays] | None = None

    @property
    def path(self) -> Path:
        """The backup's file."""
        return self.backup_dir / "latest.safetensors"

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._resumed = None
        if status(self.path) is not None:
            arrays, text = read_arrays(self.path, _HEADER)
            # The file may hold anything; missing entries and wrong types are reported as damage.
            try:
                self._resumed = decoded(text), arrays
                self._restore()
            except DescError:
                raise
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                problem = Problem("backup.damaged", _HEADER, brief(str(error)), "what BackupAndRestore writes", remedy="delete the backup")
                raise DescError(os.fspath(self.path), [problem]) from None

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        if self._resumed is not None and self._resumed[0]["batch"]:
            self._restore()  # over what the other callbacks do before an epoch, and have done before this one
        self._resumed = None

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if self.save_freq != "epoch" and (batch + 1) % int(self.save_freq) == 0:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._save()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.delete_checkpoint:
            self.path.unlink(missing_ok=True)

    def _known_run(self) -> Run:
        assert isinstance(self.run, Run)
        return self.run

    def _save(self) -> None:
        run = self._known_run()
        model, optimizer = run.model, run.model.optimizer
        arrays: Arrays = {f"weight.{name}": array for name, array in _weights(run).items()}
        for index, moments in enumerate(optimizer.moment_arrays()):
            arrays |= {f"moment.{index}.{number}": model.backend.host(array) for number, array in enumerate(moments)}
        for index, layer in enumerate(model.layers):
            arrays |= {f"state.{index}.{name}": model.backend.host(array) for name, array in layer.states.items()}
        known = []
        for index, callback in enumerate(run.callbacks):
            plain = {}
            for name, value in callback.state().items():
                if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
                    arrays |= {f"callback.{index}.{name}.{number}": array for number, array in enumerate(value)}
                else:
                    plain[name] = value
            known.append({"class": type(callback).__name__, "state": plain})
        header = {
            "epoch": run.epoch,
            "batch": run.batch,
            "sums": run.averages.sums,
            "samples": run.averages.samples,
            "drawn": run.drawn,
            "random": model.backend.random.bit_generator.state,
            "stop": model.stop_training,
            "iterations": optimizer.iterations,
            "lr": optimizer.lr,
            "callbacks": known,
        }
        self.backup_dir.mkdir(parents=True, exist_ok=True)
        write_arrays(arrays, self.path, {_HEADER: json.dumps(header)})

    def _restore(self) -> None:
        run = self._known_run()
        assert self._resumed is not None
        header, arrays = self._resumed
        self._refuse(run, header, arrays)
        model, optimizer = run.model, run.model.optimizer
        run.epoch, run.batch, run.drawn = operator.index(header["epoch"]), operator.index(header["batch"]), dict(header["drawn"])
        run.averages.restore(model.objective.names, header["sums"], header["samples"])
        model.stop_training = header["stop"]
        model.backend.random.bit_generator.state = header["random"]
        backend = model.backend
        backend.fill([weight.value for weight in model.weights], [backend.array(arrays[f"weight.{name}"]) for name in _weights(run)])
        moments = [_numbered(arrays, f"moment.{index}.") for index in range(len(model.weights))]
        optimizer.restore(header["iterations"], header["lr"], [tuple(map(backend.array, each)) for each in moments], model.weights, backend)
        for index, layer in enumerate(model.layers):
            prefix = f"state.{index}."
            states = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            if states or layer.stateful:
                layer.states = {name: backend.array(array, array.dtype) for name, array in states.items()}
        for index, (callback, known) in enumerate(zip(run.callbacks, header["callbacks"], strict=True)):
            state = dict(known["state"])
            for name in {name.split(".")[2] for name in arrays if name.startswith(f"callback.{index}.")}:
                state[name] = _numbered(arrays, f"callback.{index}.{name}.")
            callback.load_state(state)

    def _refuse(self, run: Run, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Raises DescError for the backup of another run."""
        remedy = "delete the backup, or start the run with the model and the callbacks that it began with"
        problems = []
        expected = {name: array.shape for name, array in _weights(run).items()}
        found = {name.removeprefix("weight."): array.shape for name, array in arrays.items() if name.startswith("weight.")}
        if expected != found:
            problems.append(Problem("backup.foreign", "weights", _shown(found), f"{_shown(expected)}, the model's", remedy=remedy))
        names, given = [type(each).__name__ for each in run.callbacks], [each["class"] for each in header["callbacks"]]
        if names != given:
            problems.append(Problem("backup.foreign", "callbacks", ", ".join(given), f"{', '.join(names)}, the run's", remedy=remedy))
        if problems:
            raise DescError(os.fspath(self.path), problems)


def _weights(run: Run) -> Arrays:
    model = run.model
    return {f"{index}.{weight.name}": model.backend.host(weight.value) for index, weight in enumerate(model.weights)}


def _numbered(arrays: Arrays, prefix: str) -> list[np.ndarray[Any, Any]]:
    by_number = {int(name.removeprefix(prefix)): array for name, array in arrays.items() if name.startswith(prefix)}
    return [by_number[number] for number in sorted(by_number)]


def _shown(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
