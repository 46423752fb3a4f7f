"""The example of many utterances: ended, continued, and robbed of a worker, it writes what one process computes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import dmlpy as dml
from tests.support.scripts import example, run

pytest.importorskip("distributed")
zarr = pytest.importorskip("zarr")
from dmlpy.dask.resizing import resize

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are killed as Linux does it")

COMMAND = ("python", "examples/utterances.py", "--device", "numpy", "--dashboard", "none", "--count", "48", "--chunk", "8")


@pytest.mark.slow  # test_cluster.py has a small array, of which a worker is killed
def test_an_ended_run_continues_and_a_killed_worker_changes_nothing(tmp_path: Path) -> None:
    folder = str(tmp_path / "store")
    first = run(*COMMAND, "--folder", folder, "--at-most", "2")
    assert "0 of 8 chunks were written before" in first
    assert "2 chunks written in" in first
    second = run(*COMMAND, "--folder", folder, "--kill-after", "3")
    assert "2 of 8 chunks were written before" in second
    assert "a worker was killed" in second
    assert "6 chunks written in" in second
    assert re.search(r"most memory: \d+ MB here, \d+ MB", second)

    utterances, store = example("utterances"), zarr.open_group(folder, mode="r")
    weights = utterances.constants()
    for steps in utterances.LONGEST:
        frames, lengths, states = (store[f"{name}/{steps}"][:] for name in ("frames", "lengths", "states"))
        for start in range(0, len(frames), 8):
            rows = slice(start, start + 8)
            given = {
                "input_tensor": frames[rows].transpose(1, 0, 2)[None],
                "sequence_lengths_tensor": lengths[rows][None, None, None],
            }
            desc = resize(utterances.layer(steps), {"input_tensor": {2: len(frames[rows])}}).described
            (found,) = dml.compile(desc, "numpy")(**given, **weights)
            np.testing.assert_array_equal(states[rows], np.moveaxis(found[0], 0, 1).reshape(-1, 2 * utterances.UNITS))
