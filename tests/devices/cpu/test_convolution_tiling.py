"""Compiled convolutions that are vectorized over positions or over output channels: the same bits, and which is chosen when."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import compiler
from tests.support.cpu.convolution_cases import CLIP, LAYOUTS, RELU, SCALED, SOFTPLUS, channels_last, laid_out
from tests.support.operators.layout_runs import Array, by_definition, run, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.convolution import layout as convolution_layout
from dmlpy.devices.cpu.convolution import plan as convolution_plan
from dmlpy.devices.cpu.convolution import tiling as convolution_tiling
from dmlpy.devices.cpu.convolution.layout import InputTileLayout
from dmlpy.devices.cpu.isa import Isa, host_isa
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.graphs.fused_convolution_descs import NormalizedConvolutionDesc
from tests.support.cpu.compiled_plans import run_on

POSITIONS, CHANNELS = "vectorized over positions", "vectorized over output channels"

# input, filter, strides, dilations, start padding, end padding, groups, fused function
CASES: dict[str, tuple[Any, ...]] = {
    "narrow rows, several chunks": ((2, 40, 7, 7), (100, 40, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, RELU),
    "several tiles": ((1, 64, 41, 43), (72, 64, 3, 3), (1, 1), (1, 1), (1, 2), (1, 0), 1, SCALED),
    "rows of several groups of positions": ((1, 20, 9, 53), (48, 20, 3, 3), (2, 1), (1, 2), (1, 1), (1, 2), 1, CLIP),
    "strides beyond the window, inside": ((2, 130, 13, 11), (40, 130, 1, 1), (2, 3), (1, 1), (0, 0), (0, 0), 1, RELU),
    "strides beyond the window, padding": ((1, 30, 13, 11), (40, 30, 1, 1), (3, 2), (1, 1), (1, 1), (0, 1), 1, None),
    "windows inside": ((1, 9, 17, 19), (33, 9, 3, 2), (1, 2), (2, 3), (0, 0), (0, 0), 1, SOFTPLUS),
    "in place": ((2, 150, 15, 17), (60, 150, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1, RELU),
    "in place, a short last row": ((1, 16, 23, 25), (64, 16, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1, None),
    "in place, along one row": ((1, 7, 901), (20, 7, 3), (2,), (3,), (0,), (0,), 1, None),
    "along one long row": ((1, 7, 1501), (20, 7, 3), (1,), (1,), (1,), (1,), 1, CLIP),
    "groups": ((2, 12, 8, 9), (105, 4, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 3, RELU),
    "one column": ((1, 12, 30, 1), (48, 12, 3, 1), (1, 1), (1, 1), (1, 0), (1, 0), 1, None),
    "images of one position": ((37, 20, 5, 4), (50, 20, 5, 4), (1, 1), (1, 1), (0, 0), (0, 0), 1, RELU),
    "many images of one element, groups": ((150, 12, 1, 1), (44, 6, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 2, SCALED),
    "images of one position with padding": ((3, 10, 1, 2), (20, 10, 3, 3), (1, 2), (1, 1), (1, 1), (1, 0), 1, None),
    "more taps than a chunk": ((1, 2, 24, 22), (96, 2, 13, 12), (1, 1), (1, 1), (6, 6), (6, 5), 1, None),
    "vectors that cross rows": ((1, 5, 29, 19), (12, 5, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, CLIP),
    "rows shorter than vectors, and longer with padding": ((2, 3, 19, 39), (11, 3, 3, 17), (1, 1), (1, 2), (1, 3), (1, 3), 1, CLIP),
    "rows between those of taps, padding": ((2, 30, 17, 9), (40, 30, 3, 2), (1, 1), (5, 2), (5, 1), (5, 1), 1, RELU),
    "rows between those of taps, inside": ((1, 70, 21, 20), (20, 70, 3, 3), (1, 1), (9, 3), (0, 0), (0, 0), 1, None),
    "rows between those of taps, strides": ((1, 40, 25, 12), (33, 40, 3, 3), (2, 1), (7, 1), (3, 1), (2, 1), 1, CLIP),
    "strides past what a tap between others reads": ((1, 8, 2, 13), (20, 8, 3, 3), (3, 1), (2, 1), (9, 1), (5, 1), 1, None),
    "pairs of columns": ((1, 3, 9, 63), (8, 3, 3, 3), (2, 2), (1, 1), (0, 0), (0, 0), 1, None),
}

_IN_HALVES = ["in place", "in place, a short last row", "vectors that cross rows", "groups", "many images of one element, groups"]
_DIVIDED = ["narrow rows, several chunks", "several tiles", "in place", "groups"]
TYPED_CASES = [*((name, "float32") for name in CASES), *((name, "float16") for name in _IN_HALVES)]


def case_of(name: str, data_type: str = "float32") -> tuple[dml.ConvolutionDesc, dict[str, Array]]:
    """The desc of a row and its inputs."""
    sizes, filters, strides, dilations, starts, ends, groups, function = CASES[name]
    rng = np.random.default_rng(8)
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": (1, filters[0], *[1] * len(strides))}
    given = {place: rng.normal(size=shape).astype(data_type) for place, shape in shapes.items()}
    own = {"strides": strides, "dilations": dilations, "start_padding": starts, "end_padding": ends, "group_count": groups}
    own |= {"output_padding": [0] * len(strides), "fused_activation": function}
    return dml.ConvolutionDesc(**{place: tensor(array) for place, array in given.items()}, **own).with_outputs(), given


def tiling_of(desc: dml.OperatorDesc) -> str:
    """The tiling of a desc's first phase."""
    plan = compiled_plan(desc)
    assert not isinstance(plan, str), plan
    found = [tiling for tiling in (POSITIONS, CHANNELS) if tiling in plan.describe()]
    assert len(found) == 1
    return found[0]


def only(tiling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes all plans choose a tiling, where there is a choice."""
    monkeypatch.setattr(convolution_tiling.ChannelTiling, "cost", property(lambda own: -1.0 if tiling == CHANNELS else float("inf")))


@pytest.mark.parametrize(("name", "data_type"), TYPED_CASES)
def test_both_tilings_give_the_same_bits_on_any_number_of_threads(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desc, given = case_of(name, data_type)
    only(POSITIONS, monkeypatch)
    result = run_on(1, convolution_plan, desc, given, monkeypatch, prepared=True)
    assert_close(result, dml.reference(desc, given).output_tensor, result.dtype, terms=int(np.prod(given["filter_tensor"].shape[1:])))
    for tiling, threads in ((POSITIONS, 5), (CHANNELS, 1), (CHANNELS, 2), (CHANNELS, 5)):
        only(tiling, monkeypatch)
        assert tiling_of(desc) == tiling
        np.testing.assert_array_equal(run_on(threads, convolution_plan, desc, given, monkeypatch, prepared=True), result)


@pytest.mark.parametrize(
    "name",
    ["narrow rows, several chunks", "several tiles", "in place", "groups", *(name for name in CASES if name.startswith("rows between"))],
)
def test_tiles_and_chunks_change_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    desc, given = case_of(name)
    only(CHANNELS, monkeypatch)
    result = run_on(1, convolution_plan, desc, given, monkeypatch, prepared=True)
    for size, value in {"_CHUNK_BYTES": 1000, "_SUMS_BYTES": 5000, "INPUT_TILE_BYTES": 3000, "_MAX_ROW": 10}.items():
        monkeypatch.setattr(convolution_tiling, size, value)
        np.testing.assert_array_equal(run_on(1, convolution_plan, desc, given, monkeypatch, prepared=True), result, size)
    only(POSITIONS, monkeypatch)
    np.testing.assert_array_equal(run_on(1, convolution_plan, desc, given, monkeypatch, prepared=True), result)


# input, filter, dilations, padding, strides; where each tap reads the image, and how many convolutions
DIVIDED: dict[str, tuple[Any, ...]] = {
    "taps on either side": ((1, 40, 20, 21), (48, 40, 3, 3), (12, 13), (12, 13), (1, 1), 9),
    "rows alone, strides": ((2, 70, 21, 24), (64, 70, 3, 2), (11, 1), (11, 0), (2, 1), 3),
    "taps in the middle, too": ((1, 48, 24, 24), (48, 48, 3, 3), (8, 8), (8, 8), (1, 1), 9),
    "taps that read padding alone, too": ((1, 60, 15, 16), (40, 60, 5, 3), (9, 8), (18, 8), (1, 1), 6),
}


@pytest.mark.parametrize("data_type", ["float32", "float16"])
@pytest.mark.parametrize("name", DIVIDED)
def test_positions_whose_taps_read_padding_are_convolutions_of_their_own(
    name: str, data_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With infinite filters, too: a product with padding is NaN, at the positions that have it."""
    sizes, filters, dilations, pads, strides, parts = DIVIDED[name]
    monkeypatch.setattr(convolution_layout, "WORTH_DIVIDING", 0)
    rng = np.random.default_rng(6)
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": (1, filters[0], 1, 1)}
    given = {place: rng.normal(size=shape).astype(data_type) for place, shape in shapes.items()}
    given["filter_tensor"][1, 3, 0, 0] = given["filter_tensor"][2, 0, -1, 0] = np.inf
    own: dict[str, Any] = {"strides": strides, "dilations": dilations, "start_padding": pads, "end_padding": pads, "group_count": 1}
    own |= {"output_padding": (0, 0), "fused_activation": RELU}
    desc = dml.ConvolutionDesc(**{place: tensor(array) for place, array in given.items()}, **own).with_outputs()
    plan = compiled_plan(desc)
    assert f"divided by the taps that read the image: {parts} convolution(s)" in str(plan if isinstance(plan, str) else plan.describe())
    result = run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True)
    with np.errstate(all="ignore"):
        expected = by_definition(desc, given)["output_tensor"]
    assert_close(result, expected, result.dtype, terms=int(np.prod(filters[1:])))
    monkeypatch.setattr(convolution_layout, "_MOST_PACKED", 1)
    whole = run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True)
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(result))
    assert_close(whole, expected, result.dtype, terms=int(np.prod(filters[1:])))


def test_input_tiles_lack_the_rows_that_no_tap_reads() -> None:
    """A row of positions of 960 channels reads 3 rows of the image, not 49."""
    tile = InputTileLayout(1, 33, (3, 3), (1, 1), (24, 24))
    assert (tile.subplane_rows, tile.left_out_rows, tile.most_rows(12)) == (3, 23, 4)
    assert replace(tile, rows=30).subplane_rows == 78


@pytest.mark.parametrize(("name", "data_type"), TYPED_CASES)
@pytest.mark.parametrize("tiling", [POSITIONS, CHANNELS])
def test_gaps_in_the_output_stay_as_they_were(tiling: str, name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those between rows and between channels."""
    desc, given = case_of(name, data_type)
    assert desc.output_tensor is not None
    strides, step = [0] * len(desc.output_tensor.sizes), 1
    for axis in reversed(range(len(strides))):
        strides[axis], step = step, step * desc.output_tensor.sizes[axis] + 3
    own = desc.replace(output_tensor=desc.output_tensor.replace(strides=strides))
    only(tiling, monkeypatch)
    for cached in (compiler._compile, compiler._compile_operator):  # another tiling may be cached
        cached.cache_clear()
    found, expected = run(own, given, "cpu")["output_tensor"], by_definition(own, given)["output_tensor"]
    assert_close(found, expected, found.dtype, terms=int(np.prod(given["filter_tensor"].shape[1:])))


@pytest.mark.parametrize(
    ("tiling", "reading"), [(POSITIONS, "48 positions, input read in place"), (CHANNELS, "85 positions, input copied")]
)
def test_halves_of_pointwise_convolutions_are_read_in_place_or_copied_in_long_rows(
    tiling: str, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution_plan, "host_isa", lambda: Isa(16, 32))
    only(tiling, monkeypatch)
    plan = compiled_plan(case_of("in place", "float16")[0])
    assert not isinstance(plan, str)
    assert reading in plan.describe()


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", [name for name in LAYOUTS if "many filters" in name])
def test_rows_of_many_filters_are_vectorized_over_channels(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So `test_layouts` tests that tiling too."""
    monkeypatch.setattr(convolution_plan, "host_isa", lambda: Isa(16, 32))
    sizes, filters, *_ = LAYOUTS[name]
    given = {"input_tensor": np.zeros(sizes, data_type.lower()), "filter_tensor": np.zeros(filters, data_type.lower())}
    assert tiling_of(laid_out(name, given)) == CHANNELS


@pytest.mark.slow
@pytest.mark.parametrize("tiling", [POSITIONS, CHANNELS])
@pytest.mark.parametrize("isa", [Isa(8, 16), Isa(4, 32)])
@pytest.mark.parametrize("name", ["narrow rows, several chunks", "vectors that cross rows", "in place", "groups"])
def test_registers_of_other_processors(name: str, isa: Isa, tiling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_plan, "host_isa", lambda: isa)
    only(tiling, monkeypatch)
    desc, given = case_of(name)
    result = run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True)
    assert_close(result, dml.reference(desc, given).output_tensor, np.float32, terms=int(np.prod(given["filter_tensor"].shape[1:])))


# input, filter, strides, padding on every side, whether the output's channels are last, tiling
CHOICES: dict[str, tuple[Any, ...]] = {
    "the last stage of ResNet-18": ((1, 512, 7, 7), (512, 512, 3, 3), 1, 1, False, CHANNELS),
    "its shortcuts": ((1, 64, 56, 56), (128, 64, 1, 1), 2, 0, False, CHANNELS),
    "its first layer": ((1, 3, 224, 224), (64, 3, 7, 7), 2, 3, False, POSITIONS),
    "the first layer of SqueezeNet": ((1, 3, 224, 224), (64, 3, 3, 3), 2, 0, False, POSITIONS),
    "a stage of SqueezeNet": ((1, 48, 13, 13), (192, 48, 3, 3), 1, 1, False, CHANNELS),
    "a short sum": ((1, 16, 55, 55), (64, 16, 1, 1), 1, 0, False, POSITIONS),
    "few filters": ((1, 64, 55, 55), (16, 64, 1, 1), 1, 0, False, POSITIONS),
    "the bottlenecks of MobileNetV2": ((1, 960, 7, 7), (160, 960, 1, 1), 1, 0, False, CHANNELS),
    "channels last": ((1, 16, 55, 55), (64, 16, 3, 3), 1, 1, True, CHANNELS),
    "fully connected": ((1, 256, 7, 7), (512, 256, 7, 7), 1, 0, False, CHANNELS),
    "sums that take too much memory": ((1, 16, 3, 9000), (64, 16, 3, 3), 1, 1, True, POSITIONS),
}


def described(name: str) -> tuple[dml.ConvolutionDesc, str]:
    """The desc of a row and its tiling."""
    sizes, filters, stride, padding, last, tiling = CHOICES[name]
    x, w = (dml.TensorDesc(data_type="FLOAT32", sizes=own) for own in (sizes, filters))
    members: dict[str, Any] = {"strides": (stride, stride), "dilations": (1, 1), "output_padding": (0, 0), "group_count": 1}
    members |= {"start_padding": (padding, padding), "end_padding": (padding, padding)}
    desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=w, **members).with_outputs()
    assert desc.output_tensor is not None
    return desc.replace(output_tensor=channels_last(desc.output_tensor)) if last else desc, tiling


@pytest.mark.parametrize("name", CHOICES)
def test_the_tiling_that_takes_less_time_is_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the sizes and layouts alone, and not by the threads."""
    desc, tiling = described(name)
    monkeypatch.setattr(convolution_plan, "host_isa", lambda: Isa(16, 32))
    for threads in (1, 8):
        monkeypatch.setattr(convolution_plan, "available_threads", lambda threads=threads: threads)
        assert tiling_of(desc) == tiling


@pytest.mark.parametrize("name", ["the last stage of ResNet-18", "its shortcuts", "a stage of SqueezeNet"])
@pytest.mark.parametrize("threads", [2, 3, 5, 8])
def test_there_are_tiles_for_all_threads(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_plan, "host_isa", lambda: Isa(16, 32))
    monkeypatch.setattr(convolution_plan, "_WORK_OF_A_THREAD", 1)
    monkeypatch.setattr(convolution_plan, "available_threads", lambda: threads)
    plan = compiled_plan(described(name)[0])
    assert isinstance(plan, convolution_plan.ConvolutionPlan)
    (tiles,) = (int(found) for found in re.findall(r"(\d+) tile\(s\)", plan.describe()))
    assert tiles >= 2 * threads


@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("tiling", [POSITIONS, CHANNELS])
def test_a_fused_batch_normalization(tiling: str, biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    only(tiling, monkeypatch)
    rng, filters = np.random.default_rng(9), 21
    places = ("mean_tensor", "variance_tensor", "scale_tensor", "offset_tensor", *["bias_tensor"] * biased)
    given: dict[str, Array] = {place: rng.uniform(0.5, 2.0, (1, filters, 1, 1)).astype(np.float32) for place in places}
    summed = {"input_tensor": rng.normal(size=(2, 6, 17, 18)).astype(np.float32)}
    summed |= {"filter_tensor": rng.normal(size=(filters, 6, 3, 3)).astype(np.float32)}
    given |= summed
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
    members |= {"output_padding": (0, 0), "group_count": 1}
    tensors = {place: tensor(array) for place, array in given.items()}
    desc = NormalizedConvolutionDesc(**tensors, **members, epsilon=0.25, fused_activation=CLIP).with_outputs()
    assert tiling_of(desc) == tiling
    plain = dml.ConvolutionDesc(**{place: tensors[place] for place in summed}, **members).with_outputs()
    sums: Array = dml.reference(plain, summed).output_tensor
    wide = {place: array.astype(np.float64) for place, array in given.items()}
    centre = wide["mean_tensor"] - wide.get("bias_tensor", 0.0)
    normalized = wide["scale_tensor"] * (sums - centre) / np.sqrt(wide["variance_tensor"] + 0.25) + wide["offset_tensor"]
    result = run_on(2, convolution_plan, desc, given, monkeypatch, prepared=True)
    assert_close(result, normalized.clip(CLIP.min, CLIP.max), np.float32, terms=100)


@pytest.mark.skipif(sys.platform != "linux", reason="pages as Linux has them")
@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize(
    ("name", "data_type"),
    [
        *((name, "float32") for name in ("in place", "strides beyond the window, inside", "several tiles", "pairs of columns")),
        ("in place", "float16"),
    ],
)
@pytest.mark.parametrize("tiling", [POSITIONS, CHANNELS])
def test_nothing_is_read_beyond_the_input_and_scratch(
    tiling: str, name: str, data_type: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system would end the process; of several threads the tiles are small."""
    from tests.fuzzing.pages import Guarded

    desc, given = case_of(name, data_type)
    only(tiling, monkeypatch)
    expected = run_on(threads, convolution_plan, desc, given, monkeypatch)
    plan, x, result = compiled_plan(desc), given["input_tensor"], np.full_like(expected, np.nan)
    assert not isinstance(plan, str)
    packed = np.zeros(plan.persistent_size + 64, np.uint8)
    pointers = {place: array.ctypes.data for place, array in given.items()} | {"output_tensor": result.ctypes.data}
    plan.pack({place: pointers.pop(place) for place in plan.constants}, packed.ctypes.data)(0)
    for at_end in (True, False):
        sizes = (x.nbytes, x.itemsize), (plan.prepared_temporary_size, 64)
        source, scratch = (Guarded(size, alignment, at_end=at_end, fill=0) for size, alignment in sizes)
        source.values(x.shape, x.dtype, x.strides)[...] = x
        plan.bind({**pointers, "input_tensor": source.pointer}, scratch.pointer, packed.ctypes.data)(0)
        np.testing.assert_array_equal(result, expected)
        source.free()
        scratch.free()


@pytest.mark.parametrize("tiling", [POSITIONS, CHANNELS])
def test_a_thread_that_comes_after_the_launch_touches_nothing(tiling: str) -> None:
    """The memory of the parameters may be another launch's by then, which has not begun."""
    from dmlpy.devices.cpu.convolution.layout import PLAIN, ChannelParameters, PositionParameters

    kinds = {
        POSITIONS: (PositionParameters.dtype, convolution_tiling.POSITION_KERNEL(False, "float32", "float32", True, PLAIN, host_isa())),
        CHANNELS: (ChannelParameters.dtype, convolution_tiling.CHANNEL_KERNEL("float32", PLAIN, host_isa())),
    }
    kind, kernel = kinds[tiling]
    parameters, flags = np.zeros(1, kind), np.zeros((2, 8), np.int64)
    parameters["tiles"], flags[0, 1] = 5, 1
    before = parameters.copy()
    kernel(parameters.ctypes.data, 1, 2, flags.ctypes.data, 0)
    assert parameters == before
