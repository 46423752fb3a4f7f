"""The examples run and give what they promise, and the README's code prints what the README shows."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.conftest import cuda_on_cpu
from tests.tools import missing, require

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
PHONEMES: dict[str, list[str]] = json.loads((Path(__file__).parent / "data" / "pronounce.json").read_text())
"""200 words and what g2p-en itself makes of them."""

Array = np.ndarray[Any, np.dtype[Any]]


def example(name: str) -> ModuleType:
    """An example as a module; its main() does not run."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pronounce = example("pronounce")
engine = example("engine")


def run(*command: str, folder: Path = ROOT, status: int = 0) -> str:
    """What a command prints, run in a folder and ending with a status; `dmlpy` and `python` are those of this environment."""
    programs = {"python": [], "dmlpy": ["-c", "from dmlpy.cli import main; main()"]}
    environment = {**os.environ, "COLUMNS": "140", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    arguments = [sys.executable, *programs[command[0]], *command[1:]]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def lines(text: str) -> list[str]:
    """The text without what differs between runs and machines: timings, the last digits of results, blanks at the ends of lines."""
    text = re.sub(r"\d+\.\d+ ms", "_ ms", text)
    text = re.sub(r"-?\d+\.\d{4,}", lambda number: f"{float(number[0]):.4g}", text)
    return [line.rstrip() for line in text.strip("\n").splitlines()]


# pronounce.py


@pytest.fixture(scope="module")
def weights() -> dict[str, Array]:
    require("g2p-en")
    loaded: dict[str, Array] = pronounce.load_weights()
    return loaded


def test_words_are_pronounced_as_by_g2p_en(any_device: dml.Device, weights: dict[str, Array]) -> None:
    words = list(PHONEMES)
    assert dict(zip(words, pronounce.Pronouncer(weights, any_device)(words), strict=True)) == PHONEMES


def float64_logits(word: str, weights: dict[str, Array]) -> Array:
    """The network's logits for one word, [phonemes, 74]: PyTorch's GRU a step at a time in float64, greedily decoded."""
    arrays = {name: array.astype(np.float64) for name, array in weights.items()}

    def cell(part: str, x: Array, h: Array) -> Array:
        r_x, z_x, n_x = np.split(arrays[f"{part}_w_ih"] @ x + arrays[f"{part}_b_ih"], 3)
        r_h, z_h, n_h = np.split(arrays[f"{part}_w_hh"] @ h + arrays[f"{part}_b_hh"], 3)
        r, z = 1 / (1 + np.exp(-r_x - r_h)), 1 / (1 + np.exp(-z_x - z_h))
        mixed: Array = (1 - z) * np.tanh(n_x + r * n_h) + z * h
        return mixed

    h = np.zeros(arrays["enc_w_hh"].shape[1])
    for index in [*(3 + ord(letter) - ord("a") for letter in word), 2]:
        h = cell("enc", arrays["enc_emb"][index], h)
    rows: list[Array] = []
    chosen = 2
    while len(rows) < 20 and (not rows or chosen != 3):
        h = cell("dec", arrays["dec_emb"][chosen], h)
        rows.append(arrays["fc_w"] @ h + arrays["fc_b"])
        chosen = int(rows[-1].argmax())
    return np.stack(rows)


def test_logits_are_those_of_float64(any_device: dml.Device, weights: dict[str, Array]) -> None:
    words = list(PHONEMES)
    for word, found in zip(words, pronounce.Pronouncer(weights, any_device).logits(words), strict=True):
        expected = float64_logits(word, weights)
        assert found.shape == expected.shape
        assert np.linalg.norm(found - expected) <= 1e-4 * np.linalg.norm(expected), word


def test_other_letters_are_unknown_and_nothing_is_nothing(weights: dict[str, Array]) -> None:
    speak = pronounce.Pronouncer(weights, "numpy")
    assert speak([]) == []
    assert speak(["7", "é"]) == [speak(["?"])[0]] * 2
    assert pronounce.words_of("Don't re-read Café, 42 times!") == ["dont", "re", "read", "cafe", "times"]


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04", None])
def test_wrong_weights_are_told(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint20.npz"
    if content is None:
        np.savez(path, enc_emb=np.zeros(3))
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is not g2p-en's checkpoint20\.npz"):
        pronounce.load_weights(path)


# engine.py


class SeamMachine:
    """The engine's machine over the CPU's stand-in for CUDA."""

    def __init__(self, device: Any) -> None:
        self.seam = device.seam
        self.stream = self.seam.new_stream()
        self._blocks: list[Any] = []

    def allocate(self, size: int) -> int:
        self._blocks.append(self.seam.allocate(0, size, self.stream))
        return int(self._blocks[-1].pointer)

    def write(self, pointer: int, values: Array) -> None:
        ctypes.memmove(pointer, values.ctypes.data, values.nbytes)

    def read(self, pointer: int, values: Array) -> None:
        values[...] = np.frombuffer(self.seam.read(pointer, values.nbytes, self.stream), values.dtype).reshape(values.shape)

    def record(self, issue: Callable[[Any], None]) -> Callable[[], None]:
        stream = self.seam.begin_capture()
        issue(stream)
        graph = self.seam.end_capture(stream)
        return lambda: self.seam.launch_graph(graph, self.stream)


def kernels_on_cpu(device: dml.Device) -> bool:
    """Whether a CUDA device is the CPU's stand-in for one."""
    return device.memory_kind == "cuda" and device.seam.name == "cpu"  # type: ignore[attr-defined]


def test_engine(any_device: dml.Device) -> None:
    if any_device.memory_kind == "cpu":
        machine = engine.Host()
    elif kernels_on_cpu(any_device):
        machine = SeamMachine(any_device)
    else:
        machine = engine.Gpu(0)
    assert engine.demonstrate(any_device, machine, runs=2) < 1e-5


def test_engine_where_each_step_is_launched() -> None:
    """With little shared memory a dispatch replays a CUDA graph of its own; recorded by the engine, it must issue its launches instead."""
    from tests.cpu_seam import T4

    device = cuda_on_cpu(limits=T4)
    assert "family step" in dml.compile(engine.layer_desc(engine.FEATURES), device).plan
    assert engine.demonstrate(device, SeamMachine(device), runs=2) < 1e-5


def test_engine_prints_its_error() -> None:
    printed = run("python", "examples/engine.py", "--device", "numpy")
    assert re.fullmatch(r"numpy: 5 runs of two LSTM layers, largest error against a plain float64 loop \d\.\de-0[6-9]\n", printed)


# models for `dmlpy run`


MODELS = {
    # The comment in rnn.json derives its first value; lstm.json has published results; a sequence of length 0 keeps its initial state.
    "rnn": ["Resource 'output': 18, 34, 50, 66, 82,"],
    "lstm": [
        "Resource 'sequence': 0.288288, 0.365819, 0.456794, 0.34526, 0.472209, 0.558509, 0.841967, 0.894025, 0.91073, 0.858828,",
        "Resource 'cell state': 1.27731, 1.44181, 1.53179, 1.32498, 1.51063, 1.61452",
    ],
    "gru": ["Resource 'last': 0.560537, 0.636237, 0.484689, 0.531893, 0.125, -0.125"],
}
"""The models and beginnings of lines that they print."""


def test_models_are_these() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.json")} == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_models_run(name: str) -> None:
    printed = run("dmlpy", "run", f"examples/{name}.json", "--device", "numpy")
    for beginning in MODELS[name]:
        assert any(line.startswith(lines(beginning)[0]) for line in lines(printed)), printed


# README.md


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the line it starts in, and its text. `shown` is that of the text block right below it."""

    language: str
    line: int
    text: str
    shown: str | None


def readme_blocks() -> Iterator[Block]:
    text = (ROOT / "README.md").read_text("utf-8")
    for found in re.finditer(
        r"^```(?P<language>.*)\n(?P<text>(?:.*\n)*?)^```$(?:\n+```text\n(?P<shown>(?:.*\n)*?)^```$)?", text, re.MULTILINE
    ):
        yield Block(found["language"], text.count("\n", 0, found.start()) + 1, found["text"], found["shown"])


def test_readme_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks are one program; each prints the text block below it, or nothing. Console blocks hold commands and their output."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    names: dict[str, Any] = {}
    counts = Counter[str]()
    for block in readme_blocks():
        place = f"README.md, line {block.line}"
        counts[block.language] += 1
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile("\n" * block.line + block.text, str(ROOT / "README.md"), "exec"), names)
            assert lines(printed.getvalue()) == lines(block.shown or ""), place
        elif block.language == "console":
            for session in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, shown = session.partition("\n")
                if "pronounce.py" in command and missing("g2p-en"):
                    continue  # the tests of pronounce.py say so
                status = int("wrong" in command)
                assert lines(run(*shlex.split(command), folder=tmp_path, status=status)) == lines(shown), place
    assert counts["python"] >= 8
    assert counts["console"] >= 3


@pytest.mark.gpu
def test_readme_code_for_gpus_runs() -> None:
    """The blocks marked `py` continue the first Python block."""
    blocks = list(readme_blocks())
    first = next(block for block in blocks if block.language == "python")
    names: dict[str, Any] = {}
    for block in (first, *(block for block in blocks if block.language == "py")):
        exec(block.text, names)
