"""The compiled average pooling of bytes, bit by bit as it is defined."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.tensors import packed_strides
from tests.support.operators.layout_runs import run

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.pooling import byte_plan

# input, output, window, strides, dilations, start and end padding, whether padding counts
ROWS: dict[str, Any] = {
    "3x3": ((2, 3, 9, 37), (9, 37), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), True),
    "padding does not count": ((2, 3, 9, 21), (5, 11), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), False),
    "dilated": ((1, 2, 11, 40), (4, 20), (3, 2), (2, 2), (2, 3), (1, 2), (0, 0), True),
    "whole images": ((2, 5, 7, 7), (1, 1), (7, 7), (1, 1), (1, 1), (0, 0), (0, 0), True),
    "whole images of many channels": ((2, 70, 5, 9), (1, 1), (5, 9), (1, 1), (1, 1), (0, 0), (0, 0), False),
    "dilated windows of the sizes of images": ((2, 5, 3, 4), (1, 1), (3, 4), (1, 1), (2, 1), (0, 0), (2, 0), False),
    "three dimensions": ((2, 3, 4, 9, 21), (4, 5, 11), (3, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1), False),
    "three dimensions, dilated": ((1, 2, 9, 7, 20), (3, 7, 10), (3, 1, 2), (2, 1, 2), (2, 1, 3), (0, 0, 2), (0, 0, 0), True),
    "whole images of three dimensions": ((2, 5, 3, 5, 7), (1, 1, 1), (3, 5, 7), (1, 1, 1), (1, 1, 1), (0, 0, 0), (0, 0, 0), True),
    "windows in padding alone": ((1, 2, 3, 4), (7, 8), (1, 1), (1, 1), (1, 1), (2, 2), (2, 2), False),
}


def _channels_last(spatial: Sequence[int], step: int) -> tuple[int, ...]:
    """The strides with channels last, `step` elements from one position to the next."""
    image, *inner = (step * size for size in (prod(spatial), *packed_strides(spatial)))
    return image, 1, *inner


def _row(name: str, types: tuple[str, str], rng: np.random.Generator, each: bool, spread: bool) -> tuple[Any, dict[str, Any]]:
    sizes, out, window, strides, dilations, starts, ends, counts = ROWS[name]
    (batch, channels, *spatial), own = sizes, sizes[1] if each else 1
    one = (1, own, *(1 for _ in spatial))
    limits = [np.iinfo(kind.lower()) for kind in types]
    given = {
        "input_tensor": rng.integers(limits[0].min, limits[0].max, sizes, limits[0].dtype, endpoint=True),
        "input_scale_tensor": rng.uniform(0.01, 0.1, one).astype(np.float32),
        "input_zero_point_tensor": rng.integers(limits[0].min, limits[0].max, one, limits[0].dtype, endpoint=True),
        "output_scale_tensor": rng.uniform(0.02, 0.1, one).astype(np.float32),
        "output_zero_point_tensor": rng.integers(limits[1].min, limits[1].max, one, limits[1].dtype, endpoint=True),
    }
    if each:
        del given["input_zero_point_tensor"]
        given["output_scale_tensor"][0, 0] = 0.0
    tensors = {place: dml.TensorDesc.of(array) for place, array in given.items()}
    step = channels + 4
    if spread:  # channels last, with gaps
        tensors["input_tensor"] = tensors["input_tensor"].replace(strides=_channels_last(spatial, step))
    result = dml.TensorDesc(data_type=types[1], sizes=(batch, channels, *out), strides=_channels_last(out, step) if spread else None)
    members: dict[str, Any] = {"window_size": window, "strides": strides, "dilations": dilations, "include_padding": counts}
    members |= {"start_padding": starts, "end_padding": ends}
    return dml.QuantizedLinearAveragePoolingDesc(**tensors, output_tensor=result, **members), given


@pytest.mark.parametrize("name", ROWS)
def test_as_defined(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads; each channel with its own scales, one of them 0, or all with the same."""
    monkeypatch.setattr(byte_plan, "available_threads", lambda: 2)
    monkeypatch.setattr(byte_plan, "_WORK_OF_A_THREAD", 1)
    rng = np.random.default_rng(1)
    for number, types in enumerate((("UINT8", "UINT8"), ("INT8", "UINT8"), ("UINT8", "INT8"), ("INT8", "INT8"))):
        desc, given = _row(name, types, rng, each=number % 2 == 1, spread=number > 1)
        plan = compiled_plan(desc)
        assert not isinstance(plan, str)
        assert ("whole images" in plan.describe()) == (name.startswith("whole images") and number < 2)
        np.testing.assert_array_equal(run(desc, given, "cpu")["output_tensor"], run(desc, given, "numpy")["output_tensor"])


def test_images_side_by_side_are_summed_at_once() -> None:
    """As many channels as divide all, up to 64, unless each has a scale of its own."""
    found = [_row("whole images of many channels", ("UINT8", "UINT8"), np.random.default_rng(2), each, False)[0] for each in (False, True)]
    assert ["35 at a time" in dml.compile(desc, "cpu").plan for desc in found] == [True, False]
