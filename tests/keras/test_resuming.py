"""`BackupAndRestore`: a run that was killed ends with the bits of one that was not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import BackupAndRestore, Dense, Sequential, TerminateOnNaN
from dmlpy.keras.saving import read_arrays, write_arrays
from tests.support.folders import ROOT
from tests.support.keras.model_losses import compiled
from tests.support.keras.numbers import draw
from tests.support.keras.runs import BATCHES, EPOCHS, Shuffled, backed_up, model, samples


def bits(made: Sequential) -> list[bytes]:
    moments = [array.tobytes() for each in made.optimizer.moment_arrays() for array in each]
    return [array.tobytes() for array in made.get_weights()] + moments


ROWS = [
    ("generator", BATCHES + 3, 2),
    pytest.param("arrays", 2 * BATCHES + 4, 3, marks=pytest.mark.slow),
    pytest.param("arrays", 2 * BATCHES + 4, "epoch", marks=pytest.mark.slow),
    pytest.param("arrays", BATCHES, 1, marks=pytest.mark.slow),
    pytest.param("epochs", 2 * BATCHES + 5, 4, marks=pytest.mark.slow),
    pytest.param("epochs", 1, 4, marks=pytest.mark.slow),
]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize(("name", "killed", "save_freq"), ROWS)
def test_a_killed_run_continues_bit_for_bit(name: str, killed: int, save_freq: str | int, tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    whole.mkdir()
    resumed.mkdir()
    command = [sys.executable, "-m", "tests.support.keras.runs", name, str(resumed), str(killed), str(save_freq)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    left = list((resumed / "backup").glob("latest.safetensors"))
    assert len(left) == (0 if killed < (BATCHES if save_freq == "epoch" else int(save_freq)) else 1)
    expected, trained = backed_up(name, whole, None, save_freq)
    assert trained == EPOCHS * BATCHES
    found, trained = backed_up(name, resumed, None, save_freq)
    epochs, batches = divmod(killed, BATCHES)
    kept = epochs * BATCHES + (0 if save_freq == "epoch" else batches - batches % int(save_freq))
    assert trained == EPOCHS * BATCHES - kept, "the batches before the last backup are not trained on again"
    assert bits(found) == bits(expected)
    assert found.optimizer.iterations == expected.optimizer.iterations == EPOCHS * BATCHES
    assert found.optimizer.lr == expected.optimizer.lr
    assert found.backend.random.bit_generator.state == expected.backend.random.bit_generator.state
    assert not list((resumed / "backup").glob("*")), "the backup goes when the run has ended"
    if name == "arrays":
        log = (whole / "log.csv").read_text()
        assert log == (resumed / "log.csv").read_text()
        assert len(log.splitlines()) == 1 + EPOCHS


def test_the_history_continues(tmp_path: Path) -> None:
    x, y = samples()
    twin = model()
    expected = twin.fit(x, y, epochs=3, verbose=0)
    model().fit(x, y, epochs=1, verbose=0, callbacks=[BackupAndRestore(tmp_path, delete_checkpoint=False)])
    found = model().fit(x, y, epochs=3, verbose=0, callbacks=[BackupAndRestore(tmp_path, delete_checkpoint=False)])
    assert (found.epoch, found.history) == (expected.epoch, expected.history)
    again = model()
    assert again.fit(x, y, epochs=3, verbose=0, callbacks=[BackupAndRestore(tmp_path)]).history == expected.history
    assert bits(again) == bits(twin), "nothing is left to train"


def test_only_the_current_epoch_is_read_again_where_its_number_decides(tmp_path: Path) -> None:
    model().fit(Shuffled(), epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path, delete_checkpoint=False)])
    batches = Shuffled()
    model().fit(batches, epochs=4, verbose=0, callbacks=[BackupAndRestore(tmp_path)])
    assert batches.begun == [2, 3]


def test_all_epochs_are_read_again_elsewhere(tmp_path: Path) -> None:
    read = []

    class Counted:
        def __iter__(self) -> Iterator[tuple[Any, Any]]:
            for start in range(3):
                read.append(start)
                x, y = samples()
                yield x[start : start + 2], y[start : start + 2]

    model().fit(Counted(), epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path, delete_checkpoint=False)])
    model().fit(Counted(), epochs=3, verbose=0, callbacks=[BackupAndRestore(tmp_path)])
    assert read == [0, 1, 2] * 5


def test_what_is_no_backup_of_the_run_is_refused(tmp_path: Path) -> None:
    x, y = draw(8, 4), draw(8, 1)
    made = compiled(Dense(1, input_dim=4))
    made.fit(x, y, epochs=1, verbose=0, callbacks=[BackupAndRestore(tmp_path, delete_checkpoint=False)])
    other = compiled(Dense(2, input_dim=4))
    before = other.get_weights()
    with pytest.raises(dml.DescError, match=r"weights is 0\.W \[4, 1\], 1\.b \[1\], expected 0\.W \[4, 2\](.|\n)*delete the backup"):
        other.fit(x, draw(8, 2), epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path)])
    np.testing.assert_array_equal(other.get_weights()[0], before[0])
    with pytest.raises(dml.DescError, match=r"callbacks is History, BackupAndRestore, expected TerminateOnNaN, History, BackupAndRestore"):
        made.fit(x, y, epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path), TerminateOnNaN()])
    made.save_weights(tmp_path / "latest.safetensors")
    with pytest.raises(dml.DescError, match=r"model\.header"):
        made.fit(x, y, epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path)])
    (tmp_path / "latest.safetensors").write_bytes(b"damaged" * 9)
    with pytest.raises(dml.DescError, match=r"weights\.file"):
        made.fit(x, y, epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path)])
    write_arrays({}, tmp_path / "latest.safetensors", {"dmlpy.keras.run": "[" * 100_000})
    with pytest.raises(dml.DescError, match=r"nested deeper than 64(.|\n)*backup\.damaged"):
        made.fit(x, y, epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path)])


DAMAGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "missing": lambda header: header.pop("lr"),
    "a number": lambda header: header.update(random=3),
    "a text": lambda header: header.update(epoch="x"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_header_that_was_changed_is_refused(damage: str, tmp_path: Path) -> None:
    x, y = draw(8, 4), draw(8, 1)
    made = compiled(Dense(1, input_dim=4))
    made.fit(x, y, epochs=1, verbose=0, callbacks=[BackupAndRestore(tmp_path, delete_checkpoint=False)])
    path = tmp_path / "latest.safetensors"
    arrays, text = read_arrays(path, "dmlpy.keras.run")
    header = json.loads(text)
    DAMAGE[damage](header)
    write_arrays(arrays, path, {"dmlpy.keras.run": json.dumps(header)})
    with pytest.raises(dml.DescError, match=r"backup\.damaged"):
        made.fit(x, y, epochs=2, verbose=0, callbacks=[BackupAndRestore(tmp_path)])
