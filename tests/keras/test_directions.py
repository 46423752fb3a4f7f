"""What differs with the direction: the last output, masks that make it zero, dropout, and axes in reverse order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmlpy.keras import GRU, Bidirectional
from tests.support.keras.cases import Array, built, run, trained

BATCH, STEPS, INPUT, UNITS = 3, 5, 4, 6


def sequences(*sizes: int) -> Array:
    return np.random.default_rng(0).standard_normal(sizes or (BATCH, STEPS, INPUT)).astype(np.float32)


def layer_of(**options: Any) -> Any:
    return built(GRU(UNITS, **options), BATCH, STEPS, INPUT)


@pytest.mark.parametrize(("options", "last"), [({}, -1), ({"go_backwards": True}, 0)], ids=str)
def test_the_last_output_is_zero_if_its_step_is_masked(options: dict[str, Any], last: int) -> None:
    mask = np.ones((BATCH, STEPS), bool)
    mask[0, 0] = mask[1, -1] = False
    repeated, zero = (run(layer_of(zero_output_for_mask=wanted, **options), sequences(), mask) for wanted in (False, True))
    assert repeated.all()
    np.testing.assert_array_equal(zero, repeated * mask[:, last, None])


@pytest.mark.parametrize("sizes", [(2, 1, 3), (1, 4, 3), (1, 1, 1)], ids=str)
def test_reversed_axes_of_one_entry(sizes: tuple[int, ...]) -> None:
    # Such an array counts as packed, with negative strides.
    x, mask = sequences(*sizes), np.ones(sizes[:2], bool)
    mirrored = tuple(slice(None, None, -1) if size == 1 else slice(None) for size in sizes)
    layer = built(Bidirectional(GRU(UNITS, return_sequences=True)), *sizes)
    upstream = sequences(*sizes[:2], 2 * UNITS)
    first = trained(layer, x[mirrored], mask[mirrored[:2]], upstream[mirrored[:2]])
    second = trained(layer, x, mask, upstream)
    np.testing.assert_array_equal(first.output, second.output)
    np.testing.assert_array_equal(first.input_gradient, second.input_gradient)


def test_the_last_outputs_of_both_directions_are_those_that_were_carried() -> None:
    mask = np.ones((BATCH, STEPS), bool)
    mask[0, 0] = mask[1, -1] = False
    repeated, zero = (
        run(built(Bidirectional(GRU(UNITS, zero_output_for_mask=wanted)), BATCH, STEPS, INPUT), sequences(), mask)
        for wanted in (False, True)
    )
    assert repeated.all()
    np.testing.assert_array_equal(zero, repeated)


@pytest.mark.parametrize(("option", "size"), [("dropout_W", INPUT), ("dropout_U", UNITS)])
@pytest.mark.parametrize(("consume_less", "drawn"), [("cpu", 3), ("mem", 3), ("gpu", 1)])
def test_each_direction_drops_others(option: str, size: int, consume_less: Any, drawn: int) -> None:
    layer = built(Bidirectional(GRU(UNITS, consume_less=consume_less, **{option: 0.5})), BATCH, STEPS, INPUT)
    seen: dict[str, Any] = {}
    runs = layer.backend.run
    layer.backend.run = lambda desc, **tensors: seen.update(tensors) or runs(desc, **tensors)
    trained(layer, sequences(), None, seed=7)
    (dropped,) = (array for field, array in seen.items() if field.endswith("dropout_tensor"))
    kept = np.random.default_rng(7).random((2, drawn, BATCH, size), np.float32) >= 0.5
    np.testing.assert_array_equal(dropped, np.broadcast_to(2 * kept, (2, 3, BATCH, size)))
    assert not np.array_equal(dropped[0], dropped[1])


@pytest.mark.parametrize("layer", [GRU(UNITS), Bidirectional(GRU(UNITS))], ids=lambda layer: type(layer).__name__)
def test_a_first_layer_computes_no_gradient_of_its_input(layer: Any) -> None:
    found = built(layer, BATCH, STEPS, INPUT)
    upstream = found.forward(sequences(), None, training=True)[0]
    assert found.backward(upstream).shape == (BATCH, STEPS, INPUT)
    found.input_gradient = False
    assert found.backward(upstream) is None
    assert found.descs[1].input_gradient_tensor is None
