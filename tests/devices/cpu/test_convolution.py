"""Compiled convolution: tiles and what is left over, layouts, what is fused, and what stays with NumPy, by the definition in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.cpu.convolution_cases import CLIP, LAYOUTS, RELU, SCALED, SOFTPLUS, channels_last, laid_out
from tests.support.operators.layout_runs import Array, by_definition, run, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.convolution import plan as convolution_plan
from tests.support.cpu.compiled_plans import run_on

# input, filter, strides, dilations, start padding, groups, fused function
CASES: dict[str, tuple[Any, ...]] = {
    "several tiles": ((1, 64, 70, 75), (6, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1, RELU),
    "many terms, images": ((2, 300, 13, 17), (9, 300, 3, 3), (1, 1), (1, 1), (1, 0), 1, SOFTPLUS),
    "along one row": ((1, 16, 901), (4, 16, 3), (1,), (2,), (0,), 1, None),
    "one row, strides": ((1, 3, 1, 500), (2, 3, 1, 5), (1, 2), (1, 3), (0, 7), 1, CLIP),
    "in place": ((1, 15, 60, 61), (30, 15, 1, 1), (1, 1), (1, 1), (0, 0), 1, SCALED),
    "in place, groups, vectors that overlap": ((2, 6, 7, 7), (4, 3, 1, 1), (1, 1), (1, 1), (0, 0), 2, None),
    "one element, strides": ((1, 6, 9, 10), (4, 6, 1, 1), (2, 3), (1, 1), (0, 0), 1, RELU),
    "one position": ((2, 37, 1, 1), (20, 37, 1, 1), (1, 1), (1, 1), (0, 0), 1, RELU),
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
def test_tiles_and_remainders(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two threads, which change no bit."""
    desc, given = case_of(name)
    result = run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True)
    terms = int(np.prod(given["filter_tensor"].shape[1:]))
    assert_close(result, dml.reference(desc, given).output_tensor, np.float32, terms=terms)
    np.testing.assert_array_equal(run_on(1, convolution_plan, desc, given, monkeypatch, prepared=True), result)


@pytest.mark.parametrize("name", ["several tiles", "in place", "depthwise, strides"])
def test_launches_that_pack_flipped_filters_themselves(name: str) -> None:
    desc, given = case_of(name, mode="CONVOLUTION")
    result = dml.compile(desc, "cpu")(**given).output_tensor
    assert_close(result, dml.reference(desc, given).output_tensor, np.float32, terms=600)


@pytest.mark.parametrize("name", ["several tiles", "in place", "depthwise"])
def test_parts_of_larger_tensors(name: str) -> None:
    """Rows and channels with gaps; nothing is written between them."""
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


@pytest.mark.parametrize(("groups", "filters"), [(2, 2), (1, 2), (1, 40)])
def test_what_is_not_finite_reaches_what_reads_it(groups: int, filters: int) -> None:
    x = np.zeros((1, 2, 6, 6), np.float32)
    x[0, 0, 2, 3], x[0, 1, 5, 0] = np.nan, np.inf
    weights = np.ones((filters, 2 // groups, 3, 3), np.float32)
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
    desc = dml.ConvolutionDesc(
        input_tensor=tensor(x),
        filter_tensor=tensor(weights),
        output_padding=(0, 0),
        group_count=groups,
        fused_activation=RELU,
        **members,
    ).with_outputs()
    given = {"input_tensor": x, "filter_tensor": weights}
    np.testing.assert_array_equal(dml.compile(desc, "cpu")(**given).output_tensor, dml.reference(desc, given).output_tensor)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, data_type: str) -> None:
    """Packed, channels last, one of both, and an input that is broadcast along its rows; what is around the elements is unchanged."""
    sizes, filters, strides, *_, groups, direction = LAYOUTS[name]
    rng = np.random.default_rng(6)
    count = filters[1] * groups if direction == "BACKWARD" else filters[0]
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": (1, count, *[1] * len(strides))}
    given = {place: rng.normal(size=shape).astype(data_type.lower()) for place, shape in shapes.items()}
    desc = laid_out(name, given, mode="CONVOLUTION", fused_activation=SCALED)
    x, y = desc.input_tensor, desc.output_tensor
    assert y is not None
    repeated = x.replace(strides=(*x.element_strides[:-1], 0))
    terms = int(np.prod(filters))
    for x_own, y_own in ((x, y), (channels_last(x), channels_last(y)), (channels_last(x), y), (x, channels_last(y)), (repeated, y)):
        own = desc.replace(input_tensor=x_own, output_tensor=y_own)
        assert dml.compile(own, "cpu").plan.startswith("strategy: compiled")
        if x_own is repeated:
            given["input_tensor"] = np.broadcast_to(given["input_tensor"][..., :1], sizes)
        found, expected = run(own, given, "cpu")["output_tensor"], by_definition(own, given)["output_tensor"]
        assert_close(found, expected, found.dtype, terms=terms, what=f"{x_own.element_strides} to {y_own.element_strides}")


@pytest.mark.parametrize("name", ["transposed, output padding", "depth"])
def test_phases_and_slices_on_two_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change no bit."""
    sizes, filters, *_ = LAYOUTS[name]
    rng = np.random.default_rng(7)
    given = {place: rng.normal(size=shape).astype(np.float32) for place, shape in (("input_tensor", sizes), ("filter_tensor", filters))}
    desc = laid_out(name, given, fused_activation=SOFTPLUS)
    one, two = (run_on(threads, convolution_plan, desc, given, monkeypatch, prepared=True) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert_close(one, dml.reference(desc, given).output_tensor, np.float32, terms=int(np.prod(filters)))


SKIP_PADDING = [name for name, row in LAYOUTS.items() if row[-1] == "BACKWARD" or name.startswith("windows beyond")]


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("name", SKIP_PADDING)
def test_weights_that_are_packed_again_may_be_infinite_meanwhile(name: str, data_type: str) -> None:
    """One bound launch: weights are finite, then some are not, and then all are again. Bias and fused function follow the sums."""
    sizes, filters, strides, *_, groups, _ = LAYOUTS[name]
    rng = np.random.default_rng(8)
    count = filters[1] * groups if name.startswith("transposed") else filters[0]
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": (1, count, *[1] * len(strides))}
    given = {place: rng.normal(size=shape).astype(data_type) for place, shape in shapes.items()}
    desc = laid_out(name, given, fused_activation=SCALED)
    assert desc.output_tensor is not None
    compiled = dml.compile(desc, "cpu")
    constants = {place: given[place] for place in compiled.prepared_inputs}
    memory = np.empty(compiled.binding_properties.persistent_resource_size, np.uint8)
    compiled.prepare(**constants, persistent=memory)
    result = np.empty(desc.output_tensor.sizes, data_type)
    dispatch = compiled.bind({"input_tensor": given["input_tensor"]}, {"output_tensor": result}, persistent=memory)
    usual = given["filter_tensor"].copy()
    for infinite in (False, True, False):
        given["filter_tensor"][...] = usual
        if infinite:
            given["filter_tensor"].flat[[0, usual.size // 2, -1]] = np.nan, np.inf, -np.inf
        compiled.prepare(**constants, persistent=memory)
        result.fill(7.0)
        dispatch()
        with np.errstate(all="ignore"):
            assert_close(result, by_definition(desc, given)["output_tensor"], result.dtype, terms=usual.size, what=f"infinite: {infinite}")


def test_taps_that_read_padding_alone_are_not_packed() -> None:
    """The middle of the window is left, as in the atrous convolutions of a small image."""
    x, filters = (dml.TensorDesc(data_type="FLOAT32", sizes=sizes) for sizes in ((1, 40, 4, 6), (48, 40, 3, 3)))
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (24, 24), "start_padding": (24, 24), "end_padding": (24, 24)}
    desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=filters, output_padding=(0, 0), group_count=1, **members).with_outputs()
    members |= {"start_padding": (0, 0), "end_padding": (0, 0)}
    middle = desc.replace(filter_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(48, 40, 1, 1)), **members)
    whole, alone = (dml.compile(own, "cpu").binding_properties for own in (desc, middle))
    assert whole.persistent_resource_size == alone.persistent_resource_size


def _small(data_type: str, *, window: tuple[int, int] = (2, 2), last: bool = False, groups: int = 1, **members: Any) -> dml.ConvolutionDesc:
    x, filters = (dml.TensorDesc(data_type=data_type, sizes=sizes) for sizes in ((1, 4, 100, 100), (4, 4 // groups, *window)))
    x = x.replace(strides=(40000, 1, 400, 4)) if last else x
    own: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), **members}
    return dml.ConvolutionDesc(input_tensor=x, filter_tensor=filters, output_padding=(0, 0), group_count=groups, **own).with_outputs()


# a data type, members, and a part of the reason why NumPy runs the desc
ELSEWHERE: dict[str, tuple[str, dict[str, Any], str]] = {
    "one position, depthwise": ("FLOAT32", {"window": (40, 40), "strides": (99, 99), "groups": 4}, "fewer than 8 positions"),
    "taps far apart": ("FLOAT32", {"window": (1, 2), "dilations": (1, 98), "start_padding": (0, 1)}, "far more of the input"),
    "one matrix product": ("FLOAT32", {"window": (1, 1), "last": True}, "one matrix product"),
    "many phases": ("FLOAT32", {"strides": (9, 9), "direction": "BACKWARD"}, "more than 64 convolutions"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_numpy_runs_says_why(name: str) -> None:
    data_type, members, reason = ELSEWHERE[name]
    plan = dml.compile(_small(data_type, **members), "cpu").plan
    assert plan.startswith("strategy: numpy")
    assert reason in plan


def test_numpy_is_not_called_for_a_few_products() -> None:
    """A call takes longer than they do: the last convolution of a classifier of speech, say."""
    for channels, strategy in ((128, "compiled"), (1024, "numpy")):
        x = dml.TensorDesc(data_type="FLOAT32", sizes=(1, channels, 1, 1))
        own = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)}
        desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=x, **own).with_outputs()
        assert dml.compile(desc, "cpu").plan.startswith(f"strategy: {strategy}")


def test_the_plan_says_how_many_phases_there_are() -> None:
    plan = dml.compile(_small("FLOAT32", strides=(2, 2), direction="BACKWARD"), "cpu").plan
    assert "transposed: 4 convolution(s)" in plan
