"""`fit` and `evaluate` on batches from iterables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, Dense, Sequential
from tests.support.keras.model_losses import compiled
from tests.support.keras.numbers import draw
from tests.support.tools import missing

X, Y = draw(10, 4), draw(10, 1, seed=1)
BATCHES = [(X[start : start + 4], Y[start : start + 4]) for start in (0, 4, 8)]
Batch = tuple[Any, ...]


def line() -> Sequential:
    return compiled(Dense(1, input_dim=4), seed=3, rule="adam", metrics=["accuracy"])


class Anew:
    """An iterable that begins anew in each epoch."""

    def __iter__(self) -> Iterator[Batch]:
        yield from BATCHES


class Items:
    """A sequence as Keras has it: a length and items, an end of the epoch, and no end of the items."""

    ends = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Batch:
        return BATCHES[index % 3]

    def on_epoch_end(self) -> None:
        self.ends += 1


def loader() -> Any:
    import torch

    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), batch_size=4)


GIVEN: dict[str, tuple[Callable[[], Any], dict[str, int]]] = {
    "list": (lambda: BATCHES, {}),
    "lists of lists": (lambda: [[x.tolist(), y.tolist()] for x, y in BATCHES], {}),
    "iterable": (Anew, {}),
    "items": (Items, {}),
    "DataLoader": (loader, {}),
    "generator": (lambda: (BATCHES[index % 3] for index in range(6)), {"steps_per_epoch": 3}),
    "iterable in steps": (Anew, {"steps_per_epoch": 3}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_batches_train_as_arrays_do(name: str) -> None:
    if name == "DataLoader" and (reason := missing("torch")):
        pytest.skip(reason)
    make, more = GIVEN[name]
    given = make()
    made, twin = line(), line()
    kept = make() if name != "lists of lists" else Anew()  # a list of lists is read as x and y there
    history = made.fit(given, epochs=2, verbose=0, validation_data=kept, **more, validation_steps=more.get("steps_per_epoch"))
    expected = twin.fit(X, Y, 4, epochs=2, verbose=0, shuffle=False, validation_data=(X, Y))
    assert history == expected
    assert [array.tobytes() for array in made.get_weights()] == [array.tobytes() for array in twin.get_weights()]
    if isinstance(given, Items):
        assert given.ends == 2


def test_an_epoch_continues_where_the_last_one_has_ended() -> None:
    seen: list[float] = []

    class Seen(Dense):
        def forward(self, x: Any, mask: Any, *, training: bool) -> Any:
            seen.append(float(x[0, 0]))
            return super().forward(x, mask, training=training)

    made = compiled(Seen(1, input_dim=4))
    made.fit(Anew(), steps_per_epoch=2, epochs=4, verbose=0)
    firsts = [float(x[0, 0]) for x, _ in BATCHES]
    assert seen == [*firsts, *firsts, *firsts[:2]]


def test_weights_of_samples_come_with_the_batch() -> None:
    weights = np.linspace(0, 2, 10, dtype=np.float32)
    made, twin = line(), line()
    made.fit([(X, Y, weights)], epochs=3, verbose=0)
    twin.fit(X, Y, 10, epochs=3, verbose=0, shuffle=False, sample_weight=weights)
    np.testing.assert_array_equal(made.get_weights()[0], twin.get_weights()[0])


def test_evaluation() -> None:
    made = line()
    assert made.evaluate(Anew()) == made.evaluate(X, Y, 4)
    assert made.evaluate(iter(BATCHES), steps=2) == made.evaluate(X[:8], Y[:8], 4)


@pytest.mark.parametrize("batches", [4, 3])
def test_an_iterator_that_ends_ends_the_run(batches: int) -> None:
    made = line()
    with pytest.warns(UserWarning, match="the batches have ended in epoch 2 of 5") as warned:
        history = made.fit((BATCHES[0] for _ in range(batches)), steps_per_epoch=3, epochs=5, verbose=0)
    assert warned[0].filename == __file__
    assert made.optimizer.iterations == batches
    assert history.epoch == list(range(batches - 2)), "an epoch of no batch is none"


def test_one_epoch_of_an_iterator_is_all_of_it() -> None:
    made = line()
    made.fit(iter(BATCHES), epochs=1, verbose=0)
    assert made.optimizer.iterations == 3


def stateful() -> Sequential:
    return compiled(GRU(1, stateful=True, batch_input_shape=(2, 5, 1)))


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "an iterator without steps": (
        lambda: line().fit(iter(BATCHES), epochs=2),
        r"steps_per_epoch is None, expected a number, for 2 epochs of a list_iterator(.|\n)*remedy: pass the batches of an epoch",
    ),
    "validation without steps": (
        lambda: line().fit(X, Y, epochs=2, validation_data=iter(BATCHES)),
        r"validation_steps is None, expected a number, for 2 epochs",
    ),
    "no batches": (lambda: line().fit([], verbose=0), r"x is without batches, expected one batch at least"),
    "no batches in steps": (lambda: line().fit([], steps_per_epoch=2, epochs=1, verbose=0), r"x is without batches"),
    "a batch of x": (lambda: line().fit([X], verbose=0), r"x\[0\] is an ndarray, expected \(x, y\) or \(x, y, sample_weight\)"),
    "a batch of four": (lambda: line().fit([(X, Y, Y, Y)], verbose=0), r"x\[0\] is a tuple of 4"),
    "sizes": (lambda: line().fit([*BATCHES, (X, Y[:3])], verbose=0), r"x\[3\]\.y is of 3 samples, expected 10, as many as x\[3\]\.x has"),
    "shape": (lambda: line().fit([(X[:, :3], Y)], verbose=0), r"x\[0\]\.x is of shape \[10, 3\], expected \[None, 4\]"),
    "a batch of another size": (
        lambda: stateful().fit([(draw(3, 5, 1), draw(3, 1))], verbose=0),
        r"x\[0\]\.x is of 3 samples, expected 2(.|\n)*batches of 2",
    ),
    "batch_size": (lambda: line().fit(BATCHES, batch_size=4), r"batch_size is given, expected None(.|\n)*x gives batches"),
    "sample_weight": (lambda: line().fit(BATCHES, sample_weight=Y), r"sample_weight is given, expected None"),
    "split": (lambda: line().fit(BATCHES, validation_split=0.5), r"validation_split is 0\.5, expected 0(.|\n)*none can be kept back"),
    "steps of arrays": (lambda: line().fit(X, Y, steps_per_epoch=2), r"steps_per_epoch is 2, expected None(.|\n)*arrays"),
    "steps": (lambda: line().fit(BATCHES, steps_per_epoch=0), r"steps_per_epoch is 0, expected 1 or more"),
    "no targets": (lambda: line().fit(X, verbose=0), r"y is of type object, expected an array of numbers"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    call, message = ERRORS[case]
    with pytest.raises(dml.DescError, match=message):
        call()
