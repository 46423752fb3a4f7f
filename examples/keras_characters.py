"""Trains a GRU to predict the next character of Python code, with the layers of dmlpy.keras.

    python examples/keras_characters.py [--device numpy|cuda] [--steps 1000] [--hidden 256] [--seed 0] [--output FOLDER]

It is the task of train.py, which does the same with bare operators: the standard library's sources run past in windows. The GRU is
stateful, so each window starts from the state that the window before it ended in. Shapes are fixed where a layer is stateful, so a network
of the same weights but of other shapes reads the held-out module, and one of a single character writes.

It prints the loss on a module that it was not trained on, beside those of n-gram statistics, and a piece of text that the network writes;
the loss curve goes to FOLDER/loss.png. The exit status is 1 if the loss does not fall to --target. It needs matplotlib:

    pip install matplotlib
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from characters import (
    BATCH,
    LARGEST_NORM,
    PROMPT,
    SYMBOLS,
    TEMPERATURE,
    WINDOW,
    Curve,
    choose,
    decode,
    encode,
    evaluated,
    learning_rate,
    parts,
    progress_bar,
    read_options,
    read_text,
    report,
    window,
)

import dmlpy as dml
from dmlpy.keras import GRU, Adam, Dense, Embedding, Sequential

EMBEDDING = 64
"""Numbers that stand for a character."""

READERS = 64
"""Parts of the held-out module that are read side by side."""


def network(batch: int, steps: int, hidden: int, device: dml.Device | str | None, seed: int = 0) -> Sequential:
    """The network for sequences of [batch, steps] symbols, compiled; the same weights fit all shapes."""
    model = Sequential(device=device, seed=seed)
    model.add(Embedding(SYMBOLS, EMBEDDING, batch_input_shape=(batch, steps)))
    # With reset_after a step has one recurrent product instead of two.
    model.add(GRU(hidden, inner_activation="sigmoid", reset_after=True, return_sequences=True, stateful=True))
    model.add(Dense(SYMBOLS, activation="softmax"))
    model.compile(Adam(beta_2=0.99, clipnorm=LARGEST_NORM), "sparse_categorical_crossentropy")
    return model


def train(model: Sequential, hidden: int, steps: int, progress: Callable[[Curve], None]) -> Curve:
    """Trains for a number of steps.

    Args:
        model: for BATCH sequences of WINDOW symbols.
        hidden: units of its GRU.
        steps: updates, one for each window.
        progress: is given the curve so far after each step.

    Raises:
        OSError: this Python was installed without its sources.
    """
    text, held_out = read_text()
    curve = Curve.of(text, held_out)
    symbols, targets = parts(held_out, READERS)
    reader = network(*symbols.shape, hidden, model.backend.device)
    for step in range(steps):
        start = time.perf_counter()
        x, y = window(text, step)
        model.optimizer.lr = learning_rate(step, steps)
        loss = model.train_on_batch(x.T, y.T)
        curve.seconds += time.perf_counter() - start
        curve.training.append(loss)
        if step == 0 or evaluated(step, steps):
            reader.set_weights(model.get_weights())
            reader.reset_states()
            curve.held_out[step + 1] = reader.evaluate(symbols, targets)
        progress(curve)
    return curve


def write_text(model: Sequential, hidden: int, prompt: str, count: int, seed: int) -> str:
    """The prompt and `count` characters that the network adds, each drawn from its predictions."""
    rng = np.random.default_rng(seed)
    writer = network(1, 1, hidden, model.backend.device)
    writer.set_weights(model.get_weights())
    text = list(encode(prompt))
    for position in range(len(text) + count - 1):
        probabilities = writer.predict([[text[position]]])[0, 0]
        if position + 1 == len(text):
            text.append(choose(probabilities, TEMPERATURE, rng))
    return decode(np.array(text))


def main(arguments: Sequence[str] | None = None) -> int:
    options = read_options(arguments, "Trains a GRU of dmlpy.keras to predict the next character of Python code.", target=1.75)
    try:
        model = network(BATCH, WINDOW, options.hidden, options.device, options.seed)
        model.summary()
        options.output.mkdir(parents=True, exist_ok=True)
        with progress_bar(options.steps) as progress:
            curve = train(model, options.hidden, options.steps, progress)
        written = write_text(model, options.hidden, PROMPT, 400, options.seed)
        reached = report(curve, f"GRU of {options.hidden} units", model.backend.device.name, options, written)
    except (OSError, dml.DmlError) as error:
        print(f"keras_characters: {error}", file=sys.stderr)
        return 1
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
