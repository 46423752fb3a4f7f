"""The example that trains with DistributedDataParallel."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.folders import EXAMPLES
from tests.support.scripts import example, run
from tests.support.tools import require

require("torch")

import torch

parallel_tagger = example("parallel_tagger")
SCRIPT = str(EXAMPLES / "parallel_tagger.py")


def test_letters_and_tags() -> None:
    letters, tags = parallel_tagger.sequence(["ab", "z"])
    assert letters.tolist() == [0, 1, 25]
    assert tags.tolist() == [1, 0, 1]


def test_processes_share_a_step() -> None:
    words = [f"{letter}{'x' * count}" for count in range(9) for letter in "abcdefgh"]
    (whole, tags), *parts = (parallel_tagger.batch(words, 3, rank, count) for count, rank in ((1, 0), (2, 0), (2, 1)))
    unpacked = [torch.nn.utils.rnn.unpack_sequence(letters) for letters, _ in parts]
    shared = [each for pair in zip(*unpacked, strict=True) for each in pair]
    assert all(map(torch.equal, torch.nn.utils.rnn.unpack_sequence(whole), shared))
    assert len(shared) == parallel_tagger.BATCH
    assert len(tags.data) == len(whole.data) == sum(len(letters.data) for letters, _ in parts)


@pytest.mark.slow
def test_words_are_learnt(tmp_path: Path) -> None:
    options = ("--steps", "60", "--hidden", "32", "--target", "84", "--checkpoint", str(tmp_path / "tagger.pt"))
    printed = run("python", SCRIPT, *options, folder=tmp_path)
    right, never = (float(share) for share in re.findall(r"(\d+\.\d)%", printed)[:2])
    assert right >= 84 > never
    assert printed.endswith("target of 84.0%: reached\n")
    few = ("--steps", "2", "--hidden", "8", "--target", "99.9", *options[-2:])  # in other sizes: a checkpoint that was left would not fit
    assert run("python", SCRIPT, *few, folder=tmp_path, status=1).endswith("NOT reached\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_killed_run_continues(tmp_path: Path) -> None:
    options = ("--steps", "30", "--hidden", "16", "--every", "4", "--target", "0")
    whole = run("python", SCRIPT, *options, "--checkpoint", str(tmp_path / "whole.pt"), folder=tmp_path)
    checkpoint = tmp_path / "killed.pt"
    command = [sys.executable, SCRIPT, *options, "--checkpoint", str(checkpoint)]
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    resumed = run("python", SCRIPT, *options, "--checkpoint", str(checkpoint), folder=tmp_path)
    first, _, rest = resumed.partition("\n")
    assert re.fullmatch(r"goes on at step (4|8|12|16|20|24|28)", first)
    assert rest == whole, "the loss has the same digits"
    assert list(tmp_path.iterdir()) == [], "runs that end remove their checkpoints"
