"""Convolution by tiles on NumPy: borders of tiles, filters that are packed or not, and what is fused, against the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.numpy.convolution import common
from dmlpy.devices.numpy.convolution.plans import convolution_plan
from tests.support.operators.layout_runs import Array, run_in_layouts, tensor
from tests.support.tolerance import assert_close

RELU, SOFTPLUS = dml.ActivationReluDesc(), dml.ActivationSoftplusDesc(steepness=1.5)
CLIP = dml.ElementWiseClipDesc(min=-0.5, max=1.5)
SCALED = dml.ElementWiseClipDesc(min=-0.5, max=1.5, scale_bias=dml.ScaleBias(scale=2.0, bias=0.25))

# input, filter, strides, dilations, start padding, groups, direction, fused function, the start of the plan's description of tiles
TILES: dict[str, tuple[Any, ...]] = {
    "rows left over": ((1, 8, 70, 75), (6, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1, "FORWARD", RELU, "2 tiles"),
    "few positions, many terms": ((2, 300, 13, 17), (7, 300, 3, 3), (1, 1), (1, 1), (1, 0), 1, "FORWARD", SOFTPLUS, "2 tiles"),
    "along one row": ((1, 16, 9001), (4, 16, 3), (1,), (2,), (0,), 1, "FORWARD", None, "2 tiles"),
    "one row": ((1, 3, 1, 500), (2, 3, 1, 5), (1, 2), (1, 3), (0, 7), 1, "FORWARD", CLIP, "1 tile"),
    "depth": ((1, 40, 5, 19, 20), (3, 40, 2, 3, 3), (1, 1, 1), (1, 1, 1), (1, 0, 1), 1, "FORWARD", SCALED, "6 tiles"),
    "one element": ((1, 150, 60, 61), (30, 150, 1, 1), (1, 1), (1, 1), (0, 0), 1, "FORWARD", SOFTPLUS, "3 tiles"),
    "one element, groups, results in place": ((2, 6, 9, 10), (4, 3, 1, 1), (1, 1), (1, 1), (0, 0), 2, "FORWARD", None, "4 tiles"),
    "one element, strides": ((1, 6, 9, 10), (4, 6, 1, 1), (2, 3), (1, 1), (0, 0), 1, "FORWARD", RELU, "1 tile"),
    "far into the padding": ((1, 2, 3, 3), (2, 2, 2, 2), (1, 1), (1, 1), (9, 8), 1, "FORWARD", RELU, "1 tile"),
    "channels, rows left over": ((1, 3, 300, 215), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), 3, "FORWARD", SOFTPLUS, "9 tiles"),
    "channels, along one row": ((1, 2, 70000), (2, 1, 3), (1,), (2,), (1,), 2, "FORWARD", RELU, "4 tiles"),
    "channels, strides": ((2, 60, 51, 80), (60, 1, 3, 3), (2, 3), (1, 2), (1, 2), 60, "FORWARD", CLIP, "4 tiles"),
    "channels, strides beyond the window": ((1, 5, 20, 21), (5, 1, 2, 1), (3, 4), (1, 1), (1, 0), 5, "FORWARD", None, "1 tile"),
    "channels, all taps on one element": ((1, 5, 20, 21), (10, 1, 2, 2), (1, 1), (0, 1), (0, 1), 5, "FORWARD", None, "1 tile"),
    "channels, depth": ((1, 4, 5, 6, 7), (4, 1, 2, 3, 3), (1, 2, 1), (1, 1, 2), (1, 1, 2), 4, "FORWARD", RELU, "1 tile"),
    "transposed": ((1, 4, 151, 62), (4, 23, 4, 4), (2, 2), (1, 1), (1, 1), 1, "BACKWARD", RELU, "8 tiles"),
    "transposed, strides beyond the window": ((2, 4, 5, 6), (4, 3, 2, 1), (3, 2), (1, 1), (0, 0), 2, "BACKWARD", SOFTPLUS, "4 tiles"),
    "transposed, dilated": ((1, 4, 9, 8), (4, 3, 3, 3), (2, 3), (2, 2), (3, 1), 1, "BACKWARD", CLIP, "1 tile"),
    "transposed, padding beyond the input": ((1, 2, 2, 40), (2, 3, 5, 3), (1, 1), (1, 1), (2, 2), 1, "BACKWARD", None, "1 tile"),
    "taps far apart": ((1, 2, 60, 61), (3, 2, 2, 2), (1, 1), (55, 57), (3, 0), 1, "FORWARD", RELU, "whole arrays"),
}


def case_of(name: str, dtype: Any = np.float32, **members: Any) -> tuple[dml.ConvolutionDesc, dict[str, Array]]:
    """The desc of a row, with end padding as at the start, and its inputs."""
    sizes, filters, strides, dilations, starts, groups, direction, function, _ = TILES[name]
    rng = np.random.default_rng(5)
    channels = filters[0] if direction == "FORWARD" else filters[1] * groups
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": (1, channels, *[1] * len(strides))}
    given = {place: rng.normal(size=shape).astype(dtype) for place, shape in shapes.items()}
    if "in place" in name:
        del given["bias_tensor"]
    own = {"strides": strides, "dilations": dilations, "start_padding": starts, "end_padding": starts, "group_count": groups}
    own |= {"output_padding": [0] * len(strides), "direction": direction, "fused_activation": function, **members}
    return dml.ConvolutionDesc(**{place: tensor(array) for place, array in given.items()}, **own).with_outputs(), given


@pytest.mark.parametrize("name", TILES)
def test_tiles_and_what_is_left_over(name: str) -> None:
    desc, given = case_of(name)
    assert TILES[name][-1] in dml.compile(desc, "numpy").plan
    expected = dml.reference(desc, given).output_tensor
    terms = int(np.prod(given["filter_tensor"].shape[1:]))
    assert_close(run_in_layouts(desc, given)["output_tensor"], expected, np.float32, terms=terms)


@pytest.mark.parametrize("name", ["rows left over", "one element", "channels, strides", "transposed"])
def test_filters_that_are_prepared(name: str) -> None:
    """Halves and flipped filters are packed: by `prepare`, or by each launch in its scratch, with the same bits."""
    desc, given = case_of(name, np.float16, mode="CONVOLUTION")
    op = dml.compile(desc, "numpy")
    assert op.prepared_inputs == ("filter_tensor", "bias_tensor")
    assert op.binding_properties.persistent_resource_size >= 2 * given["filter_tensor"].nbytes
    prepared = op.prepare(**{place: given[place] for place in op.prepared_inputs})
    result = prepared(input_tensor=given["input_tensor"]).output_tensor
    np.testing.assert_array_equal(result, op(**given).output_tensor)
    assert_close(result, dml.reference(desc, given).output_tensor, np.float16)


@pytest.mark.parametrize("name", ["rows left over", "one element", "one element, groups, results in place", "channels, strides"])
def test_channels_that_lie_last(name: str) -> None:
    """Input and output [batch, *spatial, channels] in memory."""
    desc, given = case_of(name)

    def last(own: dml.TensorDesc) -> dml.TensorDesc:
        _, channels, height, width = own.sizes
        return own.replace(strides=(channels * height * width, 1, width * channels, channels))

    assert desc.output_tensor is not None
    moved = desc.replace(input_tensor=last(desc.input_tensor), output_tensor=last(desc.output_tensor))
    x = np.ascontiguousarray(given["input_tensor"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    result = dml.compile(moved, "numpy")(**{**given, "input_tensor": x}).output_tensor
    assert_close(result, dml.reference(desc, given).output_tensor, np.float32, terms=1350)


def test_dispatches_repeat_their_bits_and_allocate_nothing() -> None:
    import tracemalloc

    desc, given = case_of("few positions, many terms")
    assert desc.output_tensor is not None
    results = [np.empty(desc.output_tensor.sizes, np.float32) for _ in range(2)]
    dispatches = [dml.compile(desc, "numpy").bind(given, {"output_tensor": result}) for result in results]
    for dispatch in dispatches:
        dispatch()
    np.testing.assert_array_equal(results[0], results[1])
    tracemalloc.start()
    dispatches[0]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < given["input_tensor"].nbytes // 4


def test_what_is_not_finite_reaches_what_sees_it() -> None:
    x = np.zeros((1, 2, 6, 6), np.float32)
    x[0, 0, 2, 3], x[0, 1, 5, 0] = np.nan, np.inf
    w = np.ones((2, 1, 3, 3), np.float32)
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
    for groups, filters in ((2, w), (1, np.ones((2, 2, 3, 3), np.float32))):
        desc = dml.ConvolutionDesc(
            input_tensor=tensor(x), filter_tensor=tensor(filters), output_padding=(0, 0), group_count=groups, **members
        ).with_outputs()
        given = {"input_tensor": x, "filter_tensor": filters}
        np.testing.assert_array_equal(dml.compile(desc, "numpy")(**given).output_tensor, dml.reference(desc, given).output_tensor)


@pytest.mark.parametrize("name", ["rows left over", "channels, strides", "transposed"])
def test_threads_share_the_tiles_and_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desc, given = case_of(name)
    assert desc.output_tensor is not None
    monkeypatch.setattr(common, "_WORK_OF_A_THREAD", 1)
    results = []
    for threads in (1, 2):
        monkeypatch.setattr(common, "available_threads", lambda threads=threads: threads)
        plan = convolution_plan(desc)
        assert plan is not None
        assert f"{threads} thread" in plan.describe()
        result = np.empty(desc.output_tensor.sizes, np.float32)
        memory = np.empty(plan.temporary_size + 64, np.uint8)
        pointers = {place: array.ctypes.data for place, array in given.items()} | {"output_tensor": result.ctypes.data}
        plan.bind(pointers, memory.ctypes.data + -memory.ctypes.data % 64, None)(0)
        results.append(result)
    np.testing.assert_array_equal(*results)
