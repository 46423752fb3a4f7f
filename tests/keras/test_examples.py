"""The examples of dmlpy.keras, and the text and statistics that the character models share."""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.folders import EXAMPLES
from tests.support.scripts import example, losses_of, run, shows_lines

keras_characters = example("keras_characters")
keras_classifier = example("keras_classifier")
characters = sys.modules["characters"]

Array = np.ndarray[Any, np.dtype[Any]]

TEXT = "def sum_of(values):\n    return sum(value for value in values)\n\n"


# characters.py


def plain_ngram_loss(training: list[int], held_out: list[int], order: int) -> float:
    """Witten and Bell's interpolation as its formula stands, a character at a time."""
    grams = {
        length: Counter(tuple(training[at : at + length]) for at in range(len(training) - length + 1)) for length in range(1, order + 1)
    }

    def likely(context: tuple[int, ...], symbol: int) -> float:
        shorter = likely(context[1:], symbol) if context else 1 / characters.SYMBOLS
        after = {gram[-1]: count for gram, count in grams[len(context) + 1].items() if gram[:-1] == context}
        if not after:
            return shorter
        return (after.get(symbol, 0) + len(after) * shorter) / (sum(after.values()) + len(after))

    places = range(order - 1, len(held_out))
    return -sum(math.log(likely(tuple(held_out[at - order + 1 : at]), held_out[at])) for at in places) / len(places)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_ngram_statistics_are_witten_and_bells(order: int) -> None:
    training, held_out = characters.encode(TEXT * 2), characters.encode("def summed(view):\n    return 1 + sum(view)\n")
    expected = plain_ngram_loss(training.tolist(), held_out.tolist(), order)
    assert characters.ngram_loss(training, held_out, order) == pytest.approx(expected, rel=1e-12)


def test_windows_read_on_where_the_last_ones_ended() -> None:
    text = np.arange(3 * characters.BATCH * characters.WINDOW + 5)
    readers = [np.concatenate([characters.window(text, step)[which] for step in range(4)]) for which in (0, 1)]
    length = len(text) // characters.BATCH
    for reader, (symbols, targets) in enumerate(zip(readers[0].T, readers[1].T, strict=True)):
        np.testing.assert_array_equal(symbols, (reader * length + np.arange(4 * characters.WINDOW)) % len(text))
        np.testing.assert_array_equal(targets, (symbols + 1) % len(text))


def test_symbols_are_drawn_at_a_temperature() -> None:
    probabilities = np.array([0.1, 0.3, 0.6], np.float32)
    rng = np.random.default_rng(0)
    drawn = np.bincount([characters.choose(probabilities, 0.5, rng) for _ in range(20_000)], minlength=3) / 20_000
    np.testing.assert_allclose(drawn, np.array([1, 9, 36]) / 46, atol=0.02)  # squares


# keras_characters.py


def test_state_is_carried_from_window_to_window() -> None:
    """Three windows of a text have the loss of the text as a whole."""
    text = characters.encode(TEXT)[:25]
    symbols, targets = characters.parts(text, 2)
    model, whole = keras_characters.network(2, 4, 6, "numpy", seed=3), keras_characters.network(2, 12, 6, "numpy")
    # The weights are many times larger than those that training begins with: the state matters.
    model.set_weights([8 * array for array in model.get_weights()])
    whole.set_weights(model.get_weights())
    losses = [model.test_on_batch(symbols[:, start : start + 4], targets[:, start : start + 4]) for start in (0, 4, 8)]
    assert np.mean(losses) == pytest.approx(whole.evaluate(symbols, targets), rel=1e-5)
    model.reset_states()
    assert model.test_on_batch(symbols[:, 4:8], targets[:, 4:8]) != pytest.approx(losses[1], rel=1e-2)


@pytest.mark.slow
def test_the_seed_decides_the_run() -> None:
    """Bit for bit: losses, weights and the written text."""
    found = []
    for seed in (0, 0, 1):
        model = keras_characters.network(characters.BATCH, characters.WINDOW, 8, "numpy", seed)
        curve = keras_characters.train(model, 8, 6, lambda curve: None)
        written = keras_characters.write_text(model, 8, "def ", 20, seed)
        assert len(written) == 24
        assert written.startswith("def ")
        found.append((curve.training, curve.held_out, written, [array.tobytes() for array in model.get_weights()]))
    assert found[0] == found[1]
    assert all(one != other for one, other in zip(found[0], found[2], strict=True))


@pytest.mark.slow
def test_characters_are_learnt(tmp_path: Path) -> None:
    """A small network comes below the bigram statistics; a curve is drawn and text is written."""
    options = ("--device", "numpy", "--steps", "300", "--hidden", "64", "--target", "2.4")
    printed = run("python", str(EXAMPLES / "keras_characters.py"), *options, folder=tmp_path)
    losses = losses_of(printed)
    assert losses["GRU"] <= 2.4 < losses["bigram"]
    assert "class " in printed.partition("written at")[2]
    assert printed.endswith("target of 2.400 nats = 3.462 bits per character: reached\n")
    assert shows_lines(tmp_path / "loss.png")


@pytest.mark.slow
def test_characters_say_that_they_failed(tmp_path: Path) -> None:
    options = ("--device", "numpy", "--steps", "1", "--hidden", "4")
    printed = run("python", str(EXAMPLES / "keras_characters.py"), *options, folder=tmp_path, status=1)
    assert printed.endswith("target of 1.750 nats = 2.525 bits per character: NOT reached\n")


@pytest.mark.slow
def test_characters(tmp_path: Path) -> None:
    losses = losses_of(run("python", str(EXAMPLES / "keras_characters.py"), folder=tmp_path))
    assert losses["GRU"] <= 1.75 < losses["trigram"]


# keras_classifier.py


def shares_of(printed: str) -> dict[str, float]:
    """The share classified correctly, by model."""
    return {name: float(share) for name, share in re.findall(r"^(most|naive|LSTM) .*? (\d+\.\d)% of \d+ names$", printed, re.MULTILINE)}


def test_names_are_letters_and_zeros() -> None:
    assert [keras_classifier.simplified(name) for name in ("Öhman", "Đurić", "Groß", "Müller-Lund")] == [
        "ohman",
        "duric",
        "gross",
        "muller-lund",
    ]
    assert keras_classifier.encode("az-b") == [1, 26, 27, 2] + [0] * 12
    assert keras_classifier.encode("a" * 20) == [1] * 16


def test_names_have_one_language_and_one_side() -> None:
    names = keras_classifier.read_names()
    training, held_out = keras_classifier.split(names, 0)
    assert sorted([*training.texts, *held_out.texts]) == list(names.texts) == sorted(set(names.texts))
    assert 0.19 < len(held_out) / len(names) < 0.21
    assert np.bincount(names.languages).min() > 300
    again, other = keras_classifier.split(names, 0)[1], keras_classifier.split(names, 1)[1]
    assert list(again.texts) == list(held_out.texts) != list(other.texts)


def test_naive_bayes_is_as_its_formula_stands() -> None:
    names = keras_classifier.read_names()
    training, held_out = (part.part(slice(200)) for part in keras_classifier.split(names, 0))

    def pairs(symbols: Array) -> list[tuple[int, int]]:
        edged = [0, *symbols[symbols > 0].tolist(), 0]
        return list(pairwise(edged))

    start, languages = keras_classifier.FIRST_COUNT, range(len(keras_classifier.LANGUAGES))
    counts = [Counter[tuple[int, int]]() for _ in languages]
    for symbols, language in zip(training.symbols, training.languages, strict=True):
        counts[language].update(pairs(symbols))
    kinds = 28 * 28 - 1  # a pair of two edges is none
    expected = []
    for symbols in held_out.symbols:
        scores = []
        for language in languages:
            total = counts[language].total() + start * kinds
            prior = math.log((training.languages == language).mean())
            scores.append(prior + sum(math.log((counts[language][pair] + start) / total) for pair in pairs(symbols)))
        expected.append(int(np.argmax(scores)))
    assert keras_classifier.naive_bayes(training, held_out).tolist() == expected


@pytest.mark.slow
def test_languages_are_learnt() -> None:
    """A small network classifies far more than the most frequent language does; the same seed gives the same output."""
    command = ("python", "examples/keras_classifier.py", "--device", "numpy", "--epochs", "3", "--hidden", "24", "--target", "0.55")
    first, second = (run(*command) for _ in range(2))
    shares = shares_of(first)
    assert shares["LSTM"] >= 55 > 2 * shares["most"]
    assert shares["naive"] > shares["most"]
    assert first.endswith("target of 55.0%: reached\n")
    assert re.search(r"^Croatian( +\d+){8} +\d+\.\d%$", first, re.MULTILINE)
    without_times = [re.sub(r"[\d.]+ s\b", "_ s", printed) for printed in (first, second)]
    assert without_times[0] == without_times[1]


def test_the_classifier_says_that_it_failed() -> None:
    printed = run("python", "examples/keras_classifier.py", "--device", "numpy", "--epochs", "0", "--hidden", "4", status=1)
    assert printed.endswith("target of 77.5%: NOT reached\n")


def test_the_classifier_says_that_it_needs_faker(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "faker", None)
    for name in [name for name in sys.modules if name.startswith("faker.")]:
        monkeypatch.delitem(sys.modules, name)
    assert keras_classifier.main(["--device", "numpy"]) == 1
    assert "pip install faker" in capsys.readouterr().err


@pytest.mark.slow
def test_languages() -> None:
    shares = shares_of(run("python", "examples/keras_classifier.py"))
    assert shares["LSTM"] >= 77.5 > shares["most"]
    assert shares["LSTM"] > shares["naive"]
