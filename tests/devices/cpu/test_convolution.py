"""Compiled convolution: tiles and what is left over, what is fused, and what stays with NumPy, against the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.layout_runs import Array, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("numba")

from dmlpy.devices.cpu.windows import convolution_plan
from tests.support.compiled_plans import run_on

RELU, SOFTPLUS = dml.ActivationReluDesc(), dml.ActivationSoftplusDesc(steepness=1.5)
CLIP = dml.ElementWiseClipDesc(min=-0.5, max=1.5)
SCALED = dml.ElementWiseClipDesc(min=-0.5, max=1.5, scale_bias=dml.ScaleBias(scale=2.0, bias=0.25))

# input, filter, strides, dilations, start padding, groups, fused function
CASES: dict[str, tuple[Any, ...]] = {
    "several tiles": ((1, 64, 70, 75), (6, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1, RELU),
    "many terms, images": ((2, 300, 13, 17), (9, 300, 3, 3), (1, 1), (1, 1), (1, 0), 1, SOFTPLUS),
    "along one row": ((1, 16, 901), (4, 16, 3), (1,), (2,), (0,), 1, None),
    "one row, strides": ((1, 3, 1, 500), (2, 3, 1, 5), (1, 2), (1, 3), (0, 7), 1, CLIP),
    "in place": ((1, 15, 60, 61), (30, 15, 1, 1), (1, 1), (1, 1), (0, 0), 1, SCALED),
    "in place, groups, vectors that overlap": ((2, 6, 7, 7), (4, 3, 1, 1), (1, 1), (1, 1), (0, 0), 2, None),
    "one element, strides": ((1, 6, 9, 10), (4, 6, 1, 1), (2, 3), (1, 1), (0, 0), 1, RELU),
    "few positions": ((1, 40, 3, 3), (17, 40, 3, 3), (1, 1), (1, 1), (1, 1), 1, RELU),
    "far into the padding": ((1, 2, 3, 3), (2, 2, 2, 2), (1, 1), (1, 1), (9, 8), 1, RELU),
    "depthwise": ((2, 5, 41, 45), (5, 1, 3, 3), (1, 1), (1, 1), (1, 1), 5, SOFTPLUS),
    "depthwise, along one row": ((1, 2, 700), (2, 1, 3), (1,), (2,), (1,), 2, RELU),
    "depthwise, strides": ((2, 60, 21, 30), (60, 1, 3, 3), (2, 3), (1, 2), (1, 2), 60, CLIP),
    "depthwise, strides beyond the window": ((1, 5, 20, 21), (5, 1, 2, 1), (3, 4), (1, 1), (1, 0), 5, None),
    "depthwise, all taps on one element": ((1, 5, 20, 21), (10, 1, 2, 2), (1, 1), (0, 1), (0, 1), 5, None),
}


def case_of(name: str, **members: Any) -> tuple[dml.ConvolutionDesc, dict[str, Array]]:
    """The desc of a row, with end padding as at the start, and its inputs."""
    sizes, filters, strides, dilations, starts, groups, function = CASES[name]
    rng = np.random.default_rng(5)
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": (1, filters[0], *[1] * len(strides))}
    given = {place: rng.normal(size=shape).astype(np.float32) for place, shape in shapes.items()}
    if function is None:
        del given["bias_tensor"]
    own = {"strides": strides, "dilations": dilations, "start_padding": starts, "end_padding": starts, "group_count": groups}
    own |= {"output_padding": [0] * len(strides), "fused_activation": function, **members}
    return dml.ConvolutionDesc(**{place: tensor(array) for place, array in given.items()}, **own).with_outputs(), given


@pytest.mark.parametrize("name", CASES)
def test_tiles_and_what_is_left_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, which change no bit."""
    desc, given = case_of(name)
    result = run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True)
    terms = int(np.prod(given["filter_tensor"].shape[1:]))
    assert_close(result, dml.reference(desc, given).output_tensor, np.float32, terms=terms)
    np.testing.assert_array_equal(run_on(1, convolution_plan, desc, given, monkeypatch, prepared=True), result)


@pytest.mark.slow
def test_registers_of_other_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlpy.devices.cpu import registers

    monkeypatch.setattr(convolution_plan, "host_registers", lambda: registers.Registers(8, 16))
    desc, given = case_of("many terms, images")
    assert_close(
        run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True),
        dml.reference(desc, given).output_tensor,
        np.float32,
        terms=2700,
    )


@pytest.mark.parametrize("name", ["several tiles", "in place", "depthwise, strides"])
def test_launches_that_pack_flipped_filters_themselves(name: str) -> None:
    desc, given = case_of(name, mode="CONVOLUTION")
    result = dml.compile(desc, "cpu")(**given).output_tensor
    assert_close(result, dml.reference(desc, given).output_tensor, np.float32, terms=600)


@pytest.mark.parametrize("name", ["several tiles", "in place", "depthwise"])
def test_parts_of_larger_tensors(name: str) -> None:
    """Rows and channels that lie apart; nothing is written between them."""
    desc, given = case_of(name)

    def parts(own: dml.TensorDesc) -> tuple[dml.TensorDesc, Array, Array]:
        batch, channels, height, width = own.sizes
        whole = np.full((batch, channels + 1, height + 2, width + 3), 7.0, np.float32)
        strides = tuple(stride // whole.itemsize for stride in whole.strides)
        return own.replace(strides=strides), whole, whole[:, :channels, :height, :width]

    assert desc.output_tensor is not None
    (x_desc, _, x), (y_desc, y_whole, y) = parts(desc.input_tensor), parts(desc.output_tensor)
    x[...] = given["input_tensor"]
    op = dml.compile(desc.replace(input_tensor=x_desc, output_tensor=y_desc), "cpu")
    assert op.plan.startswith("strategy: compiled")
    op.bind({**given, "input_tensor": x}, {"output_tensor": y})()
    assert_close(y, dml.reference(desc, given).output_tensor, np.float32, terms=600)
    y[...] = 7.0
    assert (y_whole == 7.0).all()


def test_a_thread_that_comes_when_all_is_over_touches_nothing() -> None:
    """The memory of the parameters may be another launch's by then, which has not begun."""
    from dmlpy.devices.cpu.registers import host_registers
    from dmlpy.devices.cpu.windows.convolution_parameters import PARAMETERS
    from dmlpy.devices.cpu.windows.convolution_plan import CONVOLUTION

    parameters, flags = np.zeros(1, PARAMETERS), np.zeros((2, 8), np.int64)
    parameters["items"], flags[0, 1] = 5, 1
    before = parameters.copy()
    CONVOLUTION(False, host_registers())(parameters.ctypes.data, 1, 2, flags.ctypes.data, 0)
    assert parameters == before


def test_what_is_not_finite_reaches_what_sees_it() -> None:
    x = np.zeros((1, 2, 6, 6), np.float32)
    x[0, 0, 2, 3], x[0, 1, 5, 0] = np.nan, np.inf
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
    for groups, filters in ((2, np.ones((2, 1, 3, 3), np.float32)), (1, np.ones((2, 2, 3, 3), np.float32))):
        desc = dml.ConvolutionDesc(
            input_tensor=tensor(x),
            filter_tensor=tensor(filters),
            output_padding=(0, 0),
            group_count=groups,
            fused_activation=RELU,
            **members,
        ).with_outputs()
        given = {"input_tensor": x, "filter_tensor": filters}
        np.testing.assert_array_equal(dml.compile(desc, "cpu")(**given).output_tensor, dml.reference(desc, given).output_tensor)


# what the row of "several tiles" becomes, and a part of the reason why NumPy runs it
ELSEWHERE: dict[str, tuple[dict[str, Any], str]] = {
    "halves": ({"data_type": "FLOAT16"}, "of FLOAT32"),
    "transposed": ({"direction": "BACKWARD"}, "transposed"),
    "depth": ({"depth": True}, "three dimensions"),
    "channels last": ({"last": True}, "side by side"),
    "one position": ({"window": 3}, "fewer than 8 positions"),
    "taps far apart": ({"dilation": 90}, "far more of the input"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_numpy_runs_says_why(name: str) -> None:
    given, reason = ELSEWHERE[name]
    spatial: tuple[int, ...] = (3, 3) if "window" in given else (3, 9, 9) if "depth" in given else (100, 100)
    window = (given.get("window", 2),) * len(spatial)
    data_type = given.get("data_type", "FLOAT32")
    x = dml.TensorDesc(data_type=data_type, sizes=(1, 4, *spatial))
    if "last" in given:
        x = x.replace(strides=(40000, 1, 400, 4))
    desc = dml.ConvolutionDesc(
        input_tensor=x,
        filter_tensor=dml.TensorDesc(data_type=data_type, sizes=(4, 4, *window)),
        strides=[1] * len(spatial),
        dilations=[given.get("dilation", 1)] * len(spatial),
        start_padding=[0] * len(spatial),
        end_padding=[0] * len(spatial),
        output_padding=[0] * len(spatial),
        group_count=1,
        direction=given.get("direction", "FORWARD"),
    ).with_outputs()
    plan = dml.compile(desc, "cpu").plan
    assert plan.startswith("strategy: numpy")
    assert reason in plan
