"""The examples run and give what they promise."""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.conftest import cuda_on_cpu
from tests.support.folders import DATA, EXAMPLES
from tests.support.generators.pages import comparable
from tests.support.pairwise import first_few
from tests.support.scripts import example, losses_of, run, shows_lines
from tests.support.tools import require

PHONEMES: dict[str, list[str]] = json.loads((DATA / "pronounce.json").read_text())
"""200 words and what g2p-en itself makes of them."""

Array = np.ndarray[Any, np.dtype[Any]]


pronounce = example("pronounce")
engine = example("engine")
train = example("train")


# pronounce.py


@pytest.fixture(scope="module")
def weights() -> dict[str, Array]:
    require("g2p-en")
    loaded: dict[str, Array] = pronounce.load_weights()
    return loaded


def words_for(device: dml.Device) -> list[str]:
    """All words, or a fifth of them where the CPU runs the kernels: a step of the network is a dispatch."""
    return list(PHONEMES)[:: 5 if kernels_on_cpu(device) else 1]


def test_words_are_pronounced_as_by_g2p_en(any_device: dml.Device, weights: dict[str, Array]) -> None:
    words = words_for(any_device)
    found = dict(zip(words, pronounce.Pronouncer(weights, any_device)(words), strict=True))
    assert found == {word: PHONEMES[word] for word in words}


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
    words = words_for(any_device)
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
def test_wrong_weights_are_reported(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "checkpoint20.npz"
    if content is None:
        np.savez(path, enc_emb=np.zeros(3))
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is not g2p-en's checkpoint20\.npz"):
        pronounce.load_weights(path)


# engine.py


class EmulatedMachine:
    """The engine's machine over the emulated CUDA device."""

    def __init__(self, device: Any) -> None:
        self.runtime = device.runtime
        self.stream = self.runtime.new_stream()
        self._blocks: dict[int, Any] = {}

    def allocate(self, size: int) -> int:
        block = self.runtime.allocate(0, size, self.stream)
        self._blocks[int(block.pointer)] = block
        return int(block.pointer)

    def free(self, pointer: int) -> None:
        del self._blocks[pointer]  # kernels that read it from now on are reported

    def write(self, pointer: int, values: Array) -> None:
        ctypes.memmove(pointer, values.ctypes.data, values.nbytes)

    def read(self, pointer: int, values: Array) -> None:
        values[...] = np.frombuffer(self.runtime.read(pointer, values.nbytes, self.stream), values.dtype).reshape(values.shape)


def kernels_on_cpu(device: dml.Device) -> bool:
    """Whether a CUDA device is emulated."""
    return isinstance(getattr(device, "runtime", None), EmulatedRuntime)


def test_engine(any_device: dml.Device) -> None:
    if any_device.memory_kind == "cpu":
        machine = engine.Host()
    elif kernels_on_cpu(any_device):
        machine = EmulatedMachine(any_device)
    else:
        machine = engine.Gpu(0)
    assert engine.demonstrate(any_device, machine, runs=2) < 1e-5


def test_engine_where_each_step_is_launched() -> None:
    """In `per_step` an operator by itself replays a CUDA graph of its own; as a node of a graph it must issue its launches instead."""
    device = cuda_on_cpu(strategy="per_step")
    assert engine.demonstrate(device, EmulatedMachine(device), runs=2) < 1e-5


def test_engine_prints_its_error() -> None:
    printed = run("python", "examples/engine.py", "--device", "numpy")
    assert re.fullmatch(r"numpy: 5 runs of two LSTM layers, largest error against a plain float64 loop \d\.\de-0[6-9]\n", printed)


# train.py


TEXT = "def sum_of(values):\n    return sum(value for value in values)\n\n"


def random_windows(batch: int, window: int) -> tuple[Array, Array]:
    """Symbols and their targets, [T, B]."""
    symbols = np.random.default_rng(1).integers(0, train.SYMBOLS, (window + 1, batch))
    return symbols[:-1], symbols[1:]


def test_training_follows_the_gradient(any_device: dml.Device) -> None:
    """Along a direction in each parameter, the loss changes as the gradient predicts: central differences through both operators."""
    rng = np.random.default_rng(0)
    parameters = train.initial_parameters(6, rng)
    symbols, targets = random_windows(3, 5)
    loss, gradients = train.Trainer(any_device, parameters, 3, 5).gradients(symbols, targets)
    assert abs(loss - np.log(train.SYMBOLS)) < 0.5
    for name, gradient in gradients.items():
        direction = np.sign(gradient) * rng.uniform(0.5, 1.0, gradient.shape).astype(np.float32)
        step = np.float32(0.01)
        losses = []
        for sign in (1, -1):
            moved = {**parameters, name: parameters[name] + sign * step * direction}
            losses.append(train.Trainer(any_device, moved, 3, 5).gradients(symbols, targets)[0])
        assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(float(np.vdot(gradient, direction)), rel=0.01), name


def test_state_is_carried_from_window_to_window(any_device: dml.Device) -> None:
    """Three windows of a text have the loss of the text as a whole, which the plain struct gives."""
    parameters = train.initial_parameters(6, np.random.default_rng(0))
    parameters["recurrence_tensor"] *= 4  # the state matters
    text = train.encode(TEXT)[: 2 * 12 + 1]
    symbols, targets = (text[start : start + 24].reshape(2, 12).T for start in (0, 1))
    trainer = train.Trainer(any_device, parameters, 2, 4)
    losses = [trainer.gradients(symbols[start : start + 4], targets[start : start + 4])[0] for start in (0, 4, 8)]
    assert np.mean(losses) == pytest.approx(train.text_loss(any_device, parameters, text, batch=2), rel=1e-5)


def test_text_is_written_as_the_seed_says(any_device: dml.Device) -> None:
    parameters = train.initial_parameters(6, np.random.default_rng(0))
    written = [train.write_text(any_device, parameters, "def ", 12, 1.0, seed) for seed in (0, 0, 1)]
    assert written[0] == written[1] != written[2]
    assert all(len(text) == 16 and text.startswith("def ") for text in written)


def test_symbols_are_ascii() -> None:
    assert train.decode(train.encode(TEXT)) == TEXT
    assert train.decode(train.encode("\tn\f = 'é~ '")) == "\nn\n = '?~ '"


def test_norm_is_bounded() -> None:
    gradients = {"a": np.full(9, 1, np.float32), "b": np.full((2, 2), 2, np.float32)}
    train.clip_norm(gradients, 5.0)
    assert gradients["b"][0, 0] == 2  # the norm is 5: within the bound
    train.clip_norm(gradients, 1.0)
    np.testing.assert_allclose(np.concatenate([gradients["a"], gradients["b"].ravel()]), np.repeat([0.2, 0.4], [9, 4]), rtol=1e-6)


def test_adam_is_adam() -> None:
    """Against the paper's algorithm, a scalar at a time."""
    optimizer, parameters = train.Adam(), {"w": np.array([0.5, -2.0], np.float32)}
    rows = np.random.default_rng(0).standard_normal((7, 2)).astype(np.float32)
    for row in rows:
        optimizer.update(parameters, {"w": row}, 0.1)
    for index, start in enumerate((0.5, -2.0)):
        m = v = 0.0
        value = start
        for step, gradient in enumerate(rows[:, index].tolist(), 1):
            m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
            value -= 0.1 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.99**step)) + 1e-8)
        assert parameters["w"][index] == pytest.approx(value, rel=1e-5)


@pytest.mark.slow
def test_training_short(tmp_path: Path) -> None:
    """A few steps of a small network come below the unigram statistics, and a curve is drawn."""
    command = ("python", str(EXAMPLES / "train.py"), "--device", "numpy", "--steps", "200", "--hidden", "32", "--target", "2.8")
    printed = run(*command, "--output", str(tmp_path / "a"), folder=tmp_path)
    losses = losses_of(printed)
    assert losses["GRU"] <= 2.8 < losses["unigram"]
    assert losses["trigram"] < losses["bigram"] < losses["unigram"]
    assert printed.endswith("target of 2.800 nats = 4.040 bits per character: reached\n")
    assert shows_lines(tmp_path / "a" / "loss.png")


@pytest.mark.slow
def test_training_says_that_it_failed_and_the_same_seed_gives_the_same_run(tmp_path: Path) -> None:
    command = ("python", str(EXAMPLES / "train.py"), "--device", "numpy", "--steps", "3", "--hidden", "4")
    first, second = (run(*command, folder=tmp_path, status=1) for _ in range(2))
    assert first.endswith("target of 1.750 nats = 2.525 bits per character: NOT reached\n")
    assert losses_of(first) == losses_of(second) != {}
    assert first.partition("written at")[2] == second.partition("written at")[2] != ""


@pytest.mark.slow
def test_training(tmp_path: Path) -> None:
    """The run that the page on training shows reaches its target."""
    losses = losses_of(run("python", str(EXAMPLES / "train.py"), folder=tmp_path))
    assert losses["GRU"] <= 1.75 < losses["trigram"]
    assert (tmp_path / "loss.png").stat().st_size > 10_000


def test_levels_reports_what_each_level_objects_to(tmp_path: Path) -> None:
    out = run("python", str(EXAMPLES / "levels.py"), "--dot", "graph.dot", folder=tmp_path)
    told = {line.split()[0]: line for line in out.splitlines()}
    assert list(told) == [str(level) for level in dml.FeatureLevel]
    assert "a graph at feature level 2_0, expected feature level 2_1" in told["2_0"]
    assert told["3_1"].endswith("nodes[2].a_tensor.sizes has 2 dimensions [4, 3136], expected 4 dimensions  [dims.support]")
    assert told["5_0"].startswith("5_0  Windows 11 22H2  nodes[3] is DML_OPERATOR_ACTIVATION_SOFTMAX1 at feature level 5_0")
    assert {level for level, line in told.items() if line.endswith("takes it")} == {"5_1", "5_2", "6_0", "6_1", "6_2", "6_3", "6_4"}
    assert "FLOAT32 [4, 16, 14, 14]" in (tmp_path / "graph.dot").read_text(encoding="utf-8")


# models for `dmlpy run`


MODELS = {
    # The comment in rnn.json derives its first value; lstm.json has published results; a sequence of length 0 keeps its initial state.
    "rnn": ["Resource 'output': 18, 34, 50, 66, 82,"],
    "lstm": [
        "Resource 'sequence': 0.288288, 0.365819, 0.456794, 0.34526, 0.472209, 0.558509, 0.841967, 0.894025, 0.91073, 0.858828,",
        "Resource 'cell state': 1.27731, 1.44181, 1.53179, 1.32498, 1.51063, 1.61452",
    ],
    # From float64 by the formulas; y lies channels last.
    "batch_normalization": [
        "Resource 'y': -1.59325, -2.90633, -1.30357, -2.25127, -1.01389, -1.5962, -0.724207, -0.941139, -0.434524, -0.286076,",
        "Resource 'mean': 6.5, 62",
        "Resource 'variance': 11.9167, 932.167",
        "Resource 'dx': 0.200549, -0.0992619, -0.109391, -0.119519, -0.129648, 0.439588, 0.0394525, -0.0273421, -0.0286305,",
        "Resource 'd_scale': 1.44841, 0.72057",
        "Resource 'd_bias': 6, 6",
    ],
    "reduce": ["Resource 'output': 6, 15, 24"],
    "gru": ["Resource 'last': 0.560537, 0.636237, 0.484689, 0.531893, 0.125, -0.125"],
}
"""The models and beginnings of lines that they print."""


def test_models_are_these() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.json")} == set(MODELS)


@pytest.mark.parametrize("name", first_few(list(MODELS), 2))  # .ci/run examples runs all of them
def test_models_run(name: str) -> None:
    printed = run("dmlpy", "run", f"examples/{name}.json", "--device", "numpy")
    for beginning in MODELS[name]:
        assert any(line.startswith(comparable(beginning)[0]) for line in comparable(printed)), printed
