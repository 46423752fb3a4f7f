"""dmlpy.nn gives the stored values of Thinc's LSTM, and the gradients of its PyTorchLSTM: Thinc is not needed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlpy import nn
from tests.support.recurrent.thinc_cases import ThincCase, load

Array = np.ndarray[Any, Any]
CASES = load()
LIMIT = 1e-5


def layers(flat: Array, case: ThincCase) -> list[dict[str, Array]]:
    """The arguments of each layer: views of the parameter, in which each direction's matrices and biases follow each other."""
    found, start, ways, rows = list[dict[str, Array]](), 0, case.directions, 4 * case.units
    for layer in range(case.depth):
        width = case.units * ways if layer else case.x.shape[1]
        blocks = []
        for _ in range(ways):
            parts = []
            for shape in ((rows, width), (rows,), (rows, case.units), (rows,)):
                parts.append(flat[start : start + int(np.prod(shape))].reshape(shape))
                start += parts[-1].size
            blocks.append((parts[0], parts[2], np.concatenate([parts[1], parts[3]])))
        names = zip(("w", "r", "b"), zip(*blocks, strict=True), strict=True)
        found.append({name: np.stack(arrays) if ways == 2 else arrays[0] for name, arrays in names})
    assert start == flat.size
    return found


def pad(rows: Array, case: ThincCase) -> Array:
    padded = np.zeros((case.lengths.max(), len(case.lengths), rows.shape[1]), np.float32)
    for at, part in enumerate(case.parts(rows)):
        padded[: len(part), at] = part
    return padded


def unpad(padded: Array, case: ThincCase) -> Array:
    return np.concatenate([padded[:length, at] for at, length in enumerate(case.lengths)])


def run(case: ThincCase, *, states: bool) -> tuple[Array, list[Callable[..., nn.RecurrentGradients]]]:
    """The output's rows, and the backward functions of the layers."""
    x, backwards = pad(case.x, case), list[Callable[..., nn.RecurrentGradients]]()
    ways = "bidirectional" if case.directions == 2 else "forward"
    for number, arguments in enumerate(layers(case.LSTM, case)):
        given: dict[str, Any] = dict(arguments)
        if states:  # Thinc begins with the first half as c
            for name, half in (("c0", case.HC0[0, number]), ("h0", case.HC0[1, number])):
                whole = np.repeat(half[:, None], len(case.lengths), axis=1)
                given[name] = whole if case.directions == 2 else whole[0]
        (x, *_), backward = nn.lstm_vjp(x, **given, lengths=case.lengths, direction=ways, gates="thinc", device="numpy")
        backwards.append(backward)
    return unpad(x, case), backwards


@pytest.mark.parametrize("number", range(len(CASES)))
def test_values_and_gradients_are_thincs(number: int) -> None:
    case = CASES[number]
    y, _ = run(case, states=True)
    np.testing.assert_allclose(y, case.y, rtol=0, atol=LIMIT)
    _, backwards = run(case, states=False)
    upstream, expected = pad(case.dy, case), layers(case.dLSTM, case)
    for backward, gradient in zip(reversed(backwards), reversed(expected), strict=True):
        found = backward(upstream)
        for name in ("w", "r", "b"):
            scale = np.abs(gradient[name]).max()
            np.testing.assert_allclose(getattr(found, name), gradient[name], rtol=0, atol=LIMIT * max(1, scale), err_msg=name)
        upstream = found.x
    dx = unpad(upstream, case)
    np.testing.assert_allclose(dx, case.dx, rtol=0, atol=LIMIT * max(1, np.abs(case.dx).max()))
    if case.own_dx is not None:
        # Thinc's LSTM gives none to the first steps, and the right one to all others.
        first = case.first_steps()
        np.testing.assert_allclose(np.delete(dx, first, 0), np.delete(case.own_dx, first, 0), rtol=0, atol=LIMIT * max(1, np.abs(dx).max()))
        assert not case.own_dx[first].any()
        assert dx[first].any()
