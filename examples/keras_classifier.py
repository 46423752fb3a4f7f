"""Tells the language of a surname from its letters, with a bidirectional LSTM of dmlpy.keras.

    python examples/keras_classifier.py [--device numpy|cuda] [--epochs 20] [--hidden 64] [--seed 0]

The names are those inside the package faker, without accents; those that two languages share are left out. Each is a row of symbols, filled
up with zeros, which the Embedding masks. A fifth of the names is held out.

It prints the share of the held-out names that are told right, for each language and as a table of what is taken for what, beside two
simpler models: the most frequent language, and naive Bayes on pairs of letters. The exit status is 1 if the share is below --target. It
needs faker:

    pip install faker
"""

from __future__ import annotations

import argparse
import sys
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.keras import LSTM, Adam, Bidirectional, Dense, Embedding, Sequential

Array = np.ndarray[Any, np.dtype[Any]]

LANGUAGES = {
    "Croatian": "hr_HR",
    "Dutch": "nl_NL",
    "English": "en_GB",
    "Finnish": "fi_FI",
    "German": "de_AT",
    "Italian": "it_IT",
    "Spanish": "es_ES",
    "Swedish": "sv_SE",
}
"""Locales of faker with at least 400 surnames in Latin letters."""

ALPHABET = "abcdefghijklmnopqrstuvwxyz'"
"""Symbols 1 to 27; what is not a letter counts as an apostrophe. 0 fills up."""

LENGTH = 16
"""Symbols that are read of a name."""

FIRST_COUNT = 0.1
"""Where the counts of naive Bayes begin; held-out names are told better than with 1."""

RATES = {0.01: 0.6, 0.003: 0.85, 0.001: 1.0}
"""Adam's learning rates, each until this share of the epochs has passed."""

BATCH, DROPOUT = 64, 0.4
"""Names of an update, and the dropout of inputs and state."""


# The names


@dataclass(frozen=True)
class Names:
    """Names with their languages.

    Attributes:
        texts: [N], lower case.
        symbols: [N, LENGTH].
        languages: [N], places in LANGUAGES.
    """

    texts: Array
    symbols: Array
    languages: Array

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, index: Any) -> Names:
        return Names(self.texts[index], self.symbols[index], self.languages[index])


def simplified(name: str) -> str:
    """The name in lower case, without accents."""
    letters = unicodedata.normalize("NFKD", name.casefold().replace("đ", "d").replace("ø", "o"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def encode(name: str) -> list[int]:
    """LENGTH symbols."""
    symbols = [ALPHABET.find(letter) + 1 or len(ALPHABET) for letter in name[:LENGTH]]
    return symbols + [0] * (LENGTH - len(symbols))


def read_names() -> Names:
    """All names, in alphabetical order.

    Raises:
        ModuleNotFoundError: faker is not installed.
    """
    languages: dict[str, set[int]] = {}
    for place, locale in enumerate(LANGUAGES.values()):
        for name in import_module(f"faker.providers.person.{locale}").Provider.last_names:
            languages.setdefault(simplified(name), set()).add(place)
    own = {name: min(found) for name, found in sorted(languages.items()) if len(found) == 1}
    return Names(np.array(list(own)), np.array([encode(name) for name in own]), np.array(list(own.values())))


def split(names: Names, seed: int) -> tuple[Names, Names]:
    """Four fifths to train on and one held out."""
    order = np.random.default_rng(seed).permutation(len(names))
    kept = len(names) * 4 // 5
    return names.part(order[:kept]), names.part(order[kept:])


# The models


def naive_bayes(training: Names, held_out: Names) -> Array:
    """The held-out names' languages by the pairs of letters in them, the edges of a name being letters too."""
    count = len(ALPHABET) + 1

    def pairs(names: Names) -> Array:
        """[N, LENGTH + 1]; 0, the pair of two zeros, is none."""
        edged = np.pad(names.symbols, ((0, 0), (1, 1)))
        return edged[:, :-1] * count + edged[:, 1:]

    counts = np.full((len(LANGUAGES), count * count), FIRST_COUNT)
    np.add.at(counts, (training.languages[:, None], pairs(training)), 1.0)
    counts[:, 0] = 0
    scores = np.log(np.maximum(counts, FIRST_COUNT) / counts.sum(axis=1, keepdims=True))
    scores[:, 0] = 0
    priors = np.log(np.bincount(training.languages, minlength=len(LANGUAGES)) / len(training))
    found: Array = (priors + scores[:, pairs(held_out)].sum(axis=2).T).argmax(axis=1)
    return found


def network(hidden: int, device: str | None, seed: int) -> Sequential:
    """The network, compiled."""
    model = Sequential(device=device, seed=seed)
    model.add(Embedding(len(ALPHABET) + 1, 32, input_length=LENGTH, mask_zero=True))
    model.add(Bidirectional(LSTM(hidden, dropout_W=DROPOUT, dropout_U=DROPOUT)))
    model.add(Dense(len(LANGUAGES), activation="softmax"))
    model.compile(Adam(clipnorm=1.0), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


# The run


def train(model: Sequential, names: Names, epochs: int) -> None:
    """Sees each name `epochs` times, at lower and lower learning rates."""
    done = 0
    for rate, share in RATES.items():
        until = round(share * epochs)
        print(f"learning rate {rate}")
        model.optimizer.lr = rate
        model.fit(names.symbols, names.languages, batch_size=BATCH, epochs=until - done)
        done = until


def print_confusion(held_out: Names, found: Array) -> None:
    """How many names of each language (row) were taken for which (column), and the share of those told right."""
    table = np.zeros((len(LANGUAGES), len(LANGUAGES)), np.intp)
    np.add.at(table, (held_out.languages, found), 1)
    print(f"{'':<10}{''.join(f'{name:>10}' for name in LANGUAGES)}   right")
    for place, (name, row) in enumerate(zip(LANGUAGES, table, strict=True)):
        print(f"{name:<10}{''.join(f'{count:>10}' for count in row)}{row[place] / max(row.sum(), 1):>8.1%}")


def print_examples(held_out: Names, probabilities: Array) -> None:
    """The likeliest languages of a few names."""
    languages = list(LANGUAGES)
    for name, language, row in zip(held_out.texts[:6], held_out.languages, probabilities, strict=False):
        guesses = ", ".join(f"{languages[place]} {row[place]:.0%}" for place in np.argsort(-row)[:2])
        print(f"{name.title():<18}{languages[language]:<12}{guesses}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tells the language of a surname with a bidirectional LSTM of dmlpy.keras.")
    parser.add_argument("--device", help="cpu, numpy, cuda, cuda:1; left out: a GPU if one answers, else cpu")
    parser.add_argument("--epochs", type=int, default=20, help="how often each name is seen (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=64, help="units of the LSTM in each direction (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the split and the network (default %(default)s)")
    parser.add_argument("--target", type=float, default=0.775, help="share of held-out names to tell right (default %(default)s)")
    options = parser.parse_args(arguments)
    if options.epochs < 0 or options.hidden < 1 or options.seed < 0:
        parser.error("--epochs and --seed are at least 0, --hidden at least 1")
    try:
        training, held_out = split(read_names(), options.seed)
        model = network(options.hidden, options.device, options.seed)
        model.summary()
        start = time.perf_counter()
        train(model, training, options.epochs)
        seconds = time.perf_counter() - start
        probabilities = model.predict(held_out.symbols, batch_size=256)
    except ModuleNotFoundError as error:
        print(f"keras_classifier: {error}: pip install faker", file=sys.stderr)
        return 1
    except dml.DmlError as error:
        print(f"keras_classifier: {error}", file=sys.stderr)
        return 1
    found = probabilities.argmax(axis=1)
    print(f"{model.backend.device.name}: {len(training)} names, {options.epochs} epochs in {seconds:.1f} s\n")
    print_confusion(held_out, found)
    print()
    print_examples(held_out, probabilities)
    print()
    most_frequent = np.full(len(held_out), np.bincount(training.languages).argmax())
    models = {"most frequent language": most_frequent, "naive Bayes on letter pairs": naive_bayes(training, held_out)}
    for name, answers in (models | {f"LSTM of 2 x {options.hidden} units": found}).items():
        print(f"{name:<28} {(answers == held_out.languages).mean():.1%} of {len(held_out)} names")
    reached = bool((found == held_out.languages).mean() >= options.target)
    print(f"target of {options.target:.1%}: {'reached' if reached else 'NOT reached'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
