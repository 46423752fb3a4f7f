"""Compiled local response normalization and its gradient, against the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import Array, by_definition, layouts, run, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.normalization import local_response_plan as plans
from dmlpy.devices.cpu.normalization.local_response_plan import LocalResponsePlan
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan

# sizes, whether windows have channels, local_size, alpha, beta, bias
CASES: dict[str, tuple[Any, ...]] = {
    "channels": ((2, 7, 5, 9), True, 5, 0.1, 0.75, 1.0),
    "an even number of channels": ((1, 6, 4, 17), True, 4, 0.3, 0.5, 2.0),
    "more channels than there are": ((2, 3, 4, 5), True, 9, 0.3, 1.0, 0.5),
    "channels of one position": ((3, 21, 1, 1), True, 5, 0.1, 0.75, 1.0),
    "one channel": ((3, 1, 4, 6), True, 3, 0.1, 0.75, 1.0),
    "positions": ((2, 3, 7, 19), False, 3, 0.2, 0.75, 1.0),
    "an even number of positions": ((1, 2, 9, 33), False, 4, 0.2, 1.3, 1.0),
    "more positions than there are": ((2, 2, 3, 4), False, 11, 0.2, 0.75, 1.0),
    "positions of a column": ((2, 3, 9, 1), False, 5, 0.2, 0.75, 1.0),
    "elements alone": ((2, 3, 4, 5), False, 1, 0.2, -0.5, 1.0),
}


def _work(name: str, data_type: str, rng: np.random.Generator) -> list[tuple[Any, dict[str, Array]]]:
    sizes, cross_channel, local_size, alpha, beta, bias = CASES[name]
    x, incoming = (rng.normal(size=sizes).astype(data_type.lower()) for _ in range(2))
    own: dict[str, Any] = {"cross_channel": cross_channel, "local_size": local_size, "alpha": alpha, "beta": beta, "bias": bias}
    forward: Any = dml.LocalResponseNormalizationDesc(input_tensor=tensor(x), **own).with_outputs()
    gradient: Any = dml.LocalResponseNormalizationGradDesc(input_tensor=tensor(x), input_gradient_tensor=tensor(x), **own).with_outputs()
    return [(forward, {"input_tensor": x}), (gradient, {"input_tensor": x, "input_gradient_tensor": incoming})]


def _channels_last(desc: Any) -> Any:
    """The desc with channels last, and a gap behind each row."""

    def last(sizes: tuple[int, ...]) -> tuple[int, ...]:
        _, channels, height, width = sizes
        row = width * channels + 3
        return height * row, 1, row, channels

    return desc.replace(**{place: own.replace(strides=last(own.sizes)) for place, own in desc.tensors().items()})


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("blocks", [1 << 14, 1], ids=["one block", "blocks"])
@pytest.mark.parametrize("name", CASES)
def test_responses(name: str, blocks: int, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every layout, in one block and in many."""
    monkeypatch.setattr(plans, "_BLOCK_ELEMENTS", blocks)
    monkeypatch.setattr(plans, "_FEWEST_COLUMNS", 16 if blocks == 1 else 64)
    for desc, given in _work(name, data_type, np.random.default_rng(1)):
        expected = next(iter(by_definition(desc, given).values()))
        for own in (*layouts(desc), _channels_last(desc)):
            assert isinstance(compiled_plan(own), LocalResponsePlan | LayoutCopiesPlan)
            (found,) = run(own, given, "cpu").values()
            assert_close(found, expected, found.dtype, terms=40)


@pytest.mark.parametrize("name", CASES)
def test_special_values_are_numpys(name: str) -> None:
    """Infinities, NaN, squares that overflow, and divisors of 0 and below."""
    rng = np.random.default_rng(2)
    for bias in (1.0, 0.0, -3.0):
        for desc, given in _work(name, "FLOAT32", rng):
            for array in given.values():
                flat = array.reshape(-1)
                flat[: flat.size // 2] = 0
                flat[:: max(1, flat.size // 7)] = [
                    [np.inf, np.nan, -np.inf, 1e30, -0.0, 1e-30][at % 6] for at in range(len(flat[:: max(1, flat.size // 7)]))
                ]
            own = desc.replace(bias=bias)
            (found,), (expected,) = (run(own, given, device).values() for device in ("cpu", "numpy"))
            assert_close(found, expected.astype(np.float64), np.float32, terms=40)


@pytest.mark.parametrize("name", ["channels", "positions"])
def test_threads_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "_WORK_OF_A_THREAD", 1)
    for desc, given in _work(name, "FLOAT32", np.random.default_rng(3)):
        results = []
        for threads in (1, 2):
            monkeypatch.setattr(plans, "available_threads", lambda threads=threads: threads)
            plan = compiled_plan(desc)
            assert not isinstance(plan, str)
            assert f"{threads} thread" in plan.describe()
            results.append(next(iter(run(desc, given, "cpu").values())))
        np.testing.assert_array_equal(*results)
