"""What the two character models share: the text, n-gram statistics, windows, the run's options and progress, and its report.

The text is the standard library's sources. Losses are in nats per character.
"""

from __future__ import annotations

import argparse
import math
import sysconfig
import tokenize
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.lib.stride_tricks import sliding_window_view
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Array = np.ndarray[Any, np.dtype[Any]]

TRAINING = """
argparse ast configparser dataclasses difflib doctest enum functools inspect ipaddress mailbox optparse pickle pydoc subprocess tarfile
threading typing"""
HELD_OUT = "shutil"
"""Modules of the standard library that have been single files of pure Python for long."""

SYMBOLS = 96
"""A newline and the printable characters of ASCII."""

BATCH, WINDOW = 16, 64
"""Places in the text that are read side by side, and characters of each between two updates."""

LEARNING_RATE, WARM_UP, LARGEST_NORM = 8e-3, 30, 1.0
"""Adam's highest rate, the steps in which it is reached, and the bound of the gradient's norm."""

EVALUATIONS = 10
"""How often the held-out module is read while training."""

PROMPT, TEMPERATURE = "\nclass ", 0.5
"""What the written text begins with, and how freely it goes on: towards 0 ever more only the likeliest characters."""


# The text


def encode(text: str) -> Array:
    """Symbols 0 to 95: every control character is a newline (0), what is not ASCII a question mark."""
    return np.clip(np.frombuffer(text.encode("ascii", "replace"), np.uint8), 31, 126).astype(np.intp) - 31


def decode(symbols: Array) -> str:
    return "".join(chr(symbol + 31) if symbol else "\n" for symbol in symbols)


def read_modules(*names: str) -> Array:
    """The symbols of modules of the standard library, one after the other.

    Raises:
        OSError: this Python was installed without its sources.
    """
    texts = []
    for name in names:
        with tokenize.open(Path(sysconfig.get_paths()["stdlib"]) / f"{name}.py") as source:
            texts.append(encode(source.read()))
    return np.concatenate(texts)


def read_text() -> tuple[Array, Array]:
    """The symbols to train on, and those held out. Raises OSError as `read_modules`."""
    return read_modules(*TRAINING.split()), read_modules(HELD_OUT)


def window(text: Array, step: int) -> tuple[Array, Array]:
    """The symbols of a step and the symbol after each of them, [T, B].

    BATCH readers begin at as many places; the text is a ring, so each reads on where the next one began.
    """
    places = np.arange(BATCH) * (len(text) // BATCH) + np.arange(WINDOW)[:, None] + step * WINDOW
    return text[places % len(text)], text[(places + 1) % len(text)]


def parts(text: Array, count: int) -> tuple[Array, Array]:
    """The text as `count` parts of equal length, and the symbol after each one, [B, T]. What is left over at its end is left out."""
    length = (len(text) - 1) // count
    symbols, targets = (text[start : start + length * count].reshape(count, length) for start in (0, 1))
    return symbols, targets


def choose(probabilities: Array, temperature: float, rng: np.random.Generator) -> int:
    """A symbol, drawn from its predictions."""
    cumulative = (probabilities.astype(np.float64) ** (1 / temperature)).cumsum()
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


# Simpler models


def ngram_loss(training: Array, held_out: Array, order: int) -> float:
    """The held-out text's loss for the statistics of the training text: each character after the `order` - 1 before it.

    Witten and Bell's interpolation: where a context was followed by T different characters, C in all, its frequencies have the share
    C / (C + T), and the next shorter context decides the rest. Without any context all characters are equally likely.
    """
    grams = sliding_window_view(held_out, order)
    likely = np.full(len(grams), 1 / SYMBOLS)
    for length in range(1, order + 1):
        powers = SYMBOLS ** np.arange(length)[::-1]
        wanted = grams[:, -length:] @ powers
        kinds, counts = np.unique(sliding_window_view(training, length) @ powers, return_counts=True)
        contexts, place, followers = np.unique(kinds // SYMBOLS, return_inverse=True, return_counts=True)
        kinds_after = _values(contexts, followers, wanted // SYMBOLS)
        all_after = _values(contexts, np.bincount(place, counts), wanted // SYMBOLS)
        own = _values(kinds, counts, wanted) + kinds_after * likely
        likely = np.where(all_after > 0, own / np.maximum(all_after + kinds_after, 1), likely)
    return float(-np.log(likely).mean())


def _values(keys: Array, values: Array, wanted: Array) -> Array:
    """The values of the wanted keys, 0 for one that there is not. Keys are in order."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)


# The run


@dataclass
class Curve:
    """Losses of a run.

    Attributes:
        baselines: of simpler models, by name, on the held-out module.
        training: of every step; the text is new until it has been read once.
        held_out: on the held-out module, by the number of steps before.
        seconds: what the steps took, evaluations left out.
    """

    baselines: dict[str, float]
    training: list[float] = field(default_factory=list)
    held_out: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def of(cls, training: Array, held_out: Array) -> Curve:
        """A curve before the first step."""
        names = ("unigram", "bigram", "trigram")
        return cls({name: ngram_loss(training, held_out, order) for order, name in enumerate(names, 1)})

    @property
    def last(self) -> float:
        """The latest loss on the held-out module."""
        return self.held_out[max(self.held_out)]

    @property
    def characters(self) -> int:
        """How many were trained on."""
        return len(self.training) * BATCH * WINDOW

    @property
    def speed(self) -> float:
        """Characters per second: forward, backward and update."""
        return self.characters / self.seconds


def learning_rate(step: int, steps: int) -> float:
    """A straight rise, then half a cosine down to zero at the last step."""
    return LEARNING_RATE * min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))


def evaluated(step: int, steps: int) -> bool:
    """Whether the held-out module is read after a step."""
    return (step + 1) * EVALUATIONS // steps > step * EVALUATIONS // steps


def read_options(arguments: Sequence[str] | None, description: str, target: float) -> argparse.Namespace:
    """The command line of a run; `target` is the default one."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", help="cpu, numpy, cuda, cuda:1; left out: a GPU if one answers, else cpu")
    parser.add_argument("--steps", type=int, default=1000, help=f"updates, each on {BATCH} x {WINDOW} characters (default %(default)s)")
    parser.add_argument("--hidden", type=int, default=256, help="units of the GRU (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and the written text (default %(default)s)")
    parser.add_argument(
        "--target", type=float, default=target, help="nats per character to reach on the held-out module (default %(default)s)"
    )
    parser.add_argument("--output", type=Path, default=Path(), help="folder for loss.png (default: the current one)")
    options = parser.parse_args(arguments)
    if options.steps < 1 or options.hidden < 1 or options.seed < 0:
        parser.error("--steps and --hidden are at least 1, --seed at least 0")
    return options


@contextmanager
def progress_bar(steps: int) -> Iterator[Callable[[Curve], None]]:
    """A bar over the steps. Yields a function that is given the curve so far after each step."""
    columns = (
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.2f}, held out {task.fields[held_out]:.2f}, {task.fields[speed]:,.0f} characters/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as bar:
        task = bar.add_task("", total=steps, loss=math.nan, held_out=math.nan, speed=0.0)
        yield lambda curve: bar.update(task, advance=1, loss=curve.training[-1], held_out=curve.last, speed=curve.speed)


def draw(curve: Curve, target: float, path: Path) -> None:
    """The losses over the characters read, as a PNG of 1200 × 750 pixels."""
    # A figure by itself, without pyplot, is drawn by Agg and asks for no display.
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.subplots()
    thousands = BATCH * WINDOW / 1000
    axes.plot(np.arange(len(curve.training)) * thousands, curve.training, color="tab:blue", alpha=0.5, linewidth=1, label="training")
    steps, losses = zip(*curve.held_out.items(), strict=True)
    axes.plot(np.array(steps) * thousands, losses, "o-", color="tab:orange", label=f"held out ({HELD_OUT}.py): {curve.last:.2f} at the end")
    for (name, loss), color in zip(curve.baselines.items(), ("tab:gray", "tab:brown", "tab:purple"), strict=True):
        axes.axhline(loss, linestyle="--", color=color, label=f"{name} statistics: {loss:.2f}")
    axes.axhline(target, linestyle=":", color="tab:green", label=f"target: {target:.2f}")
    axes.set_xlabel("characters read / thousands")
    axes.set_ylabel("loss / nats per character")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    nats = math.log(2)  # one bit
    bits = axes.secondary_yaxis("right", functions=(lambda loss: np.divide(loss, nats), lambda loss: np.multiply(loss, nats)))
    bits.set_ylabel("bits per character")
    axes.set_title("Predicting the next character of Python code")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def report(curve: Curve, network: str, device: str, options: argparse.Namespace, written: str) -> bool:
    """Draws the curve and prints what came out. Whether the target was reached."""
    path = options.output / "loss.png"
    draw(curve, options.target, path)
    print(f"{device}: {curve.characters:,} characters in {curve.seconds:.1f} s, {curve.speed:,.0f} characters/s")
    losses = {f"{name} statistics": loss for name, loss in curve.baselines.items()} | {network: curve.last}
    for name, loss in losses.items():
        print(f"{name:<20} {_in_units(loss)} per character of {HELD_OUT}.py")
    print(f"loss curve: {path}")
    print(f"written at temperature {TEMPERATURE}:\n{written}\n")
    reached = curve.last <= options.target
    print(f"target of {_in_units(options.target)} per character: {'reached' if reached else 'NOT reached'}")
    return reached


def _in_units(loss: float) -> str:
    return f"{loss:.3f} nats = {loss / math.log(2):.3f} bits"
