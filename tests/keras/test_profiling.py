"""Profiles of models: a time for each layer, and states as they were."""

from __future__ import annotations

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.keras import GRU, Dense, Sequential
from tests.support.keras.numbers import draw

X = draw(4, 5, 3)


def model(device: dml.Device | str = "numpy") -> Sequential:
    return Sequential([GRU(4, batch_input_shape=(4, 5, 3), stateful=True), Dense(2)], device=device, seed=0)


def test_each_layer_has_its_times() -> None:
    profile = (made := model()).profile(X, runs=3)
    assert [(node.name, node.operator, len(node.runs_us)) for node in profile.nodes] == [
        (made.layers[0].name, "GRU", 3),
        (made.layers[1].name, "Dense", 3),
    ]
    assert min(us for node in profile.nodes for us in node.runs_us) > 0
    assert len(profile.whole_us) == 3


def test_states_stay_as_they_are() -> None:
    profiled, other = model(), model()
    first = profiled.predict(X)
    np.testing.assert_array_equal(first, other.predict(X))
    profiled.profile(X, runs=2)
    np.testing.assert_array_equal(profiled.predict(X), other.predict(X))


def test_arguments_are_checked() -> None:
    with pytest.raises(dml.DescError, match="runs is 0"):
        model().profile(X, runs=0)
    with pytest.raises(dml.DescError, match="x is of 3 samples, expected 4"):
        model().profile(X[:3])
