"""Row blocks: depthwise convolutions and poolings of planes that are read in place, against the definition in float64."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.cpu.convolution_cases import channels_last
from tests.support.operators.layout_runs import Array, by_definition, run, tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu import isa
from dmlpy.devices.cpu.convolution import depthwise
from dmlpy.devices.cpu.convolution import plan as convolution_plan
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.pooling import plan as pooling_plan
from dmlpy.devices.graphs.fused_convolution_descs import NormalizedConvolutionDesc
from tests.support.cpu.compiled_plans import run_on

# sizes of the input and the window, strides, start padding, end padding
WINDOWS: dict[str, tuple[Any, ...]] = {
    "neighbours": ((2, 3, 13, 37), (3, 3), (1, 1), (1, 1), (1, 1)),
    "strides": ((2, 5, 34, 67), (3, 3), (2, 2), (1, 1), (0, 1)),
    "whole vectors": ((1, 2, 16, 32), (3, 3), (1, 1), (1, 1), (1, 1)),
    "whole vectors, strides": ((1, 2, 17, 64), (3, 3), (2, 2), (1, 1), (1, 1)),
    "one lane less than whole vectors": ((1, 2, 10, 47), (2, 2), (1, 1), (0, 0), (1, 1)),
    "high": ((1, 2, 37, 20), (3, 3), (1, 1), (1, 1), (1, 1)),
    "one element, strides": ((1, 3, 9, 35), (1, 1), (2, 2), (0, 0), (0, 0)),
    "two elements, more below than a step": ((2, 2, 23, 33), (5, 2), (3, 2), (2, 1), (1, 0)),
    "steps beyond the window": ((1, 3, 20, 40), (2, 4), (5, 1), (1, 2), (1, 3)),
    "largest": ((1, 2, 12, 50), (7, 7), (2, 2), (3, 3), (3, 2)),
    "far into the padding": ((1, 2, 5, 6), (3, 2), (1, 1), (5, 9), (7, 4)),
    "one row": ((1, 4, 1, 45), (1, 3), (1, 2), (0, 2), (0, 0)),
    "one column": ((1, 2, 40, 1), (3, 1), (2, 1), (1, 0), (0, 0)),
    "pairs of planes": ((3, 5, 9, 7), (5, 5), (1, 1), (2, 2), (2, 2)),
    "pairs of planes with four columns": ((1, 4, 9, 4), (3, 3), (2, 1), (1, 1), (0, 1)),
    "cut off": ((2, 2, 10, 40), (3, 3), (2, 2), (0, 0), (0, 0)),
}
RELU = dml.ActivationReluDesc()
SCALED = dml.ElementWiseClipDesc(min=-0.5, max=1.5, scale_bias=dml.ScaleBias(scale=2.0, bias=0.25))
KINDS = ["convolution", "clipped convolution", "max", "average", "average with padding"]


def case_of(
    name: str, kind: str, data_type: str = "FLOAT32", *, layout: Any = lambda own: own, **members: Any
) -> tuple[dml.OperatorDesc, dict[str, Array]]:
    """The desc of a row of `WINDOWS` and its inputs, some of them NaN or infinite."""
    sizes, window, strides, starts, ends = WINDOWS[name]
    rng = np.random.default_rng(3)
    x = rng.normal(size=sizes).astype(data_type.lower())
    x[0, 0, 0, 0], x[-1, -1, -1, -1], x[0, 1, sizes[2] // 2, sizes[3] // 3] = np.nan, np.inf, -np.inf
    given: dict[str, Array] = {"input_tensor": x}
    own: dict[str, Any] = {"strides": strides, "start_padding": starts, "end_padding": ends, **members}
    if "convolution" in kind:
        given["filter_tensor"] = rng.normal(size=(sizes[1], 1, *window)).astype(x.dtype)
        own = {"dilations": (1, 1), "output_padding": (0, 0), "group_count": sizes[1], **own}
        if "clipped" in kind:
            given["bias_tensor"] = rng.normal(size=(1, sizes[1], 1, 1)).astype(x.dtype)
            own = {"fused_activation": SCALED, "mode": "CONVOLUTION", **own}
    else:
        own["window_size"] = window
        if "average" in kind:
            own["include_padding"] = "padding" in kind
    operator: Any = {"max": dml.MaxPoolingDesc, "average": dml.AveragePoolingDesc}.get(kind.split()[0], dml.ConvolutionDesc)
    desc = operator(**{place: tensor(array) for place, array in given.items()}, **own).with_outputs()
    return desc.replace(**{place: layout(desc.tensors()[place]) for place in ("input_tensor", "output_tensor")}), given


HAVE_ROW_BLOCKS = isa.host_isa().lanes > 4
needs_row_blocks = pytest.mark.skipif(not HAVE_ROW_BLOCKS, reason="registers of four floats have no row blocks")


def with_gaps(own: dml.TensorDesc) -> dml.TensorDesc:
    """Gaps behind rows, planes and images."""
    _, channels, height, width = own.sizes
    row = width + 3
    plane = height * row + 5
    return own.replace(strides=(channels * plane + 7, plane, row, 1))


def is_row_blocked(desc: dml.OperatorDesc) -> bool:
    plan = compiled_plan(desc)
    assert not isinstance(plan, str)
    return "row blocks of" in plan.describe()


def check(desc: dml.OperatorDesc, given: dict[str, Array]) -> None:
    assert is_row_blocked(desc) == HAVE_ROW_BLOCKS
    with np.errstate(invalid="ignore"):  # infinities that are subtracted
        found, expected = run(desc, given, "cpu")["output_tensor"], by_definition(desc, given)["output_tensor"]
    assert_close(found, expected, found.dtype, terms=int(np.prod(WINDOWS["largest"][1])))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.slow] * ((number + 2 * place) % 5 > 1))
        for number, name in enumerate(WINDOWS)
        for place, kind in enumerate(KINDS)
    ],
)  # each has code of its own to compile: two kinds of each window are usual, and five windows or more of each kind
def test_windows(name: str, kind: str) -> None:
    """Packed and with gaps; what is around the elements is unchanged."""
    for layout in (lambda own: own, with_gaps):
        check(*case_of(name, kind, layout=layout))


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["neighbours", "strides", "largest", "pairs of planes"])
def test_halves(name: str, kind: str) -> None:
    for layout in (lambda own: own, with_gaps):
        check(*case_of(name, kind, "FLOAT16", layout=layout))


@pytest.mark.parametrize("kind", ["max", "average", "average with padding"])
def test_windows_that_are_cut_off(kind: str) -> None:
    """The last ones of sizes that are rounded up, which have fewer elements."""
    check(*case_of("cut off", kind, output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(2, 2, 5, 20))))


def plans_of(kind: str) -> ModuleType:
    return convolution_plan if "convolution" in kind else pooling_plan


@needs_row_blocks
@pytest.mark.parametrize("kind", ["clipped convolution", "max", "average"])
@pytest.mark.parametrize("name", ["high", "strides", "pairs of planes"])
def test_threads_tiles_and_row_blocks_change_no_bit(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do row blocks: tiles are several planes, one, or some rows of one."""
    desc, given = case_of(name, kind)
    first = run_on(1, plans_of(kind), desc, given, monkeypatch)
    for threads, work, row_block in (
        (2, 1 << 20, 1 << 14),
        (3, 1 << 20, 1 << 14),
        (2, 3000, 1 << 14),
        (3, 100, 1 << 14),
        (2, 1 << 20, 1000),
    ):
        monkeypatch.setattr(depthwise, "_WORK_PER_TILE", work)
        monkeypatch.setattr(depthwise, "_ROW_BLOCK_BYTES", row_block)
        np.testing.assert_array_equal(run_on(threads, plans_of(kind), desc, given, monkeypatch), first)


# the window, threads, a tile's work, bytes of a row block, tiles, rows of a row block
DIVISIONS = {
    "one thread": ("high", 1, 1 << 20, 1 << 14, 1, 37),
    "several tiles for each thread": ("high", 2, 1 << 20, 1 << 14, 8, 10),
    "as many as planes have rows for": ("high", 3, 1 << 20, 1 << 14, 8, 10),
    "tiles of a plane": ("high", 1, 6000, 1 << 14, 2, 37),
    "tiles of half a plane": ("high", 1, 3000, 1 << 14, 4, 19),
    "tiles of few rows": ("high", 1, 100, 1 << 14, 8, 10),
    "small row blocks": ("high", 1, 1 << 20, 1000, 1, 13),
    "row blocks of few rows": ("high", 1, 1 << 20, 100, 1, 10),
    "row blocks of every second row": ("strides", 1, 1 << 20, 1 << 13, 1, 9),
}


@needs_row_blocks
@pytest.mark.parametrize("name", DIVISIONS)
def test_tiles_and_row_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    window, threads, work, row_block, tiles, rows = DIVISIONS[name]
    for plans, member, value in (
        (pooling_plan, "_WORK_OF_A_THREAD", 1),
        (pooling_plan, "available_threads", lambda: threads),
        (depthwise, "_WORK_PER_TILE", work),
        (depthwise, "_ROW_BLOCK_BYTES", row_block),
    ):
        monkeypatch.setattr(plans, member, value)
    plan = compiled_plan(case_of(window, "max")[0])
    assert not isinstance(plan, str)
    assert f"; {tiles} tile(s)" in plan.describe()
    assert f"row blocks of {rows} row(s)" in plan.describe()


@pytest.mark.parametrize(
    ("lanes", "kind"),
    [pytest.param(8, kind, marks=[pytest.mark.slow] * (kind != "max")) for kind in KINDS] + [(4, "clipped convolution"), (4, "max")],
)
def test_registers_of_other_processors(lanes: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change no bit; where a register has four lanes, input tiles are copied."""
    desc, given = case_of("strides", kind)
    expected = run_on(1, plans_of(kind), desc, given, monkeypatch)
    for plans in (convolution_plan, pooling_plan):
        monkeypatch.setattr(plans, "host_isa", lambda: isa.Isa(lanes, 16))
    assert is_row_blocked(desc) == (lanes > 4)
    others = plans_of(kind) if lanes > 4 or "convolution" in kind else pooling_plan
    np.testing.assert_array_equal(run_on(1, others, desc, given, monkeypatch), expected)


@needs_row_blocks
def test_a_normalization_of_the_sums() -> None:
    desc, given = case_of("strides", "convolution", bias_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(1, 5, 1, 1)))
    sizes = (1, given["input_tensor"].shape[1], 1, 1)
    rng = np.random.default_rng(4)
    given |= {f"{name}_tensor": rng.uniform(0.5, 2.0, sizes).astype(np.float32) for name in ("bias", "mean", "variance", "scale", "offset")}
    normalized = NormalizedConvolutionDesc(
        **{name: getattr(desc, name) for name in dml.ConvolutionDesc.model_fields},
        **{name: tensor(given[name]) for name in ("mean_tensor", "variance_tensor", "scale_tensor", "offset_tensor")},
        epsilon=0.25,
    )
    assert is_row_blocked(normalized)
    convolved = np.asarray(dml.reference(desc, {place: given[place] for place in desc.tensors() if place in given}).output_tensor)
    root = np.sqrt(given["variance_tensor"].astype(np.float64) + 0.25)
    expected = given["scale_tensor"] * (convolved - given["mean_tensor"]) / root + given["offset_tensor"]
    assert_close(dml.compile(normalized, "cpu")(**given).output_tensor, expected, np.float32, terms=9)


def test_padding_times_an_infinite_weight() -> None:
    """It is NaN, as on NumPy: the value outside of the image is 0, in rows as in columns."""
    desc, given = case_of("neighbours", "convolution")
    given["input_tensor"][...] = 1.0
    given["filter_tensor"][:, :, 0, 0] = np.inf
    found, expected = (dml.compile(desc, device)(**given).output_tensor for device in ("cpu", "numpy"))
    assert np.isnan(found[:, :, 0]).all()
    assert np.isnan(found[..., 0]).all()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(sys.platform != "linux", reason="pages as Linux has them")
@pytest.mark.parametrize("kind", ["convolution", "max"])
@pytest.mark.parametrize("name", ["neighbours", "strides", "far into the padding"])
def test_nothing_outside_the_planes_is_touched(name: str, kind: str) -> None:
    """That would end the process."""
    from tests.fuzzing.pages import Guarded

    desc, given = case_of(name, kind)
    expected = dml.compile(desc, "cpu")(**given).output_tensor
    for at_end in (False, True):
        tensors = [desc.tensors()[place] for place in ("input_tensor", "output_tensor")]
        blocks = [Guarded(own.memory.span * 4, 4, at_end=at_end, fill=0) for own in tensors]
        x, y = (block.values(own.sizes, np.dtype(np.float32), own.numpy_strides()) for own, block in zip(tensors, blocks, strict=True))
        x[...] = given["input_tensor"]
        dml.compile(desc, "cpu").bind({**given, "input_tensor": x}, {"output_tensor": y})()
        np.testing.assert_array_equal(y, expected)
        for block in blocks:
            block.free()


def _described(kind: Any, sizes: Any, window: Any, layout: Any = lambda own: own, **members: Any) -> dml.OperatorDesc:
    """A depthwise convolution or a pooling, its desc alone."""
    count = len(window)
    own: dict[str, Any] = {"strides": [1] * count, "start_padding": [0] * count, "end_padding": [0] * count, **members}
    x = layout(dml.TensorDesc(data_type="FLOAT32", sizes=sizes))
    if kind is dml.ConvolutionDesc:
        filters = dml.TensorDesc(data_type="FLOAT32", sizes=(own.pop("filters", sizes[1]), own.pop("terms", 1), *window))
        own = {"dilations": [1] * count, "output_padding": [0] * count, "group_count": sizes[1], **own, "filter_tensor": filters}
    else:
        own["window_size"] = window
    desc: dml.OperatorDesc = kind(input_tensor=x, **own).with_outputs()
    return desc


def _channels_last(own: dml.TensorDesc) -> dml.TensorDesc:
    _, channels, height, width = own.sizes
    return own.replace(strides=(channels * height * width, 1, channels * width, channels))


CONVOLUTION, MAX, DILATED = dml.ConvolutionDesc, dml.MaxPoolingDesc, dml.AveragePooling1Desc
# the operator, and whether it is computed in row blocks
FORMS: dict[str, tuple[dml.OperatorDesc, bool]] = {
    "one dimension": (_described(CONVOLUTION, (1, 4, 70), (3,)), True),
    "a depth of one": (_described(CONVOLUTION, (1, 4, 1, 9, 20), (1, 3, 3)), True),
    "one plane": (_described(CONVOLUTION, (1, 1, 20, 20), (3, 3)), True),
    "few positions": (_described(CONVOLUTION, (1, 4, 2, 2), (1, 1)), True),
    "dilations of one tap": (_described(CONVOLUTION, (1, 4, 20, 20), (3, 1), dilations=(1, 3)), True),
    "rows of one, channels last": (_described(CONVOLUTION, (1, 4, 20, 1), (3, 1), _channels_last), True),
    "depth": (_described(CONVOLUTION, (1, 4, 3, 9, 20), (1, 3, 3)), False),
    "depth of padding": (_described(CONVOLUTION, (1, 4, 1, 9, 20), (1, 3, 3), start_padding=(1, 0, 0), strides=(2, 1, 1)), False),
    "dilations": (_described(CONVOLUTION, (1, 4, 20, 20), (3, 3), dilations=(2, 1)), False),
    "transposed": (_described(CONVOLUTION, (1, 4, 20, 20), (3, 3), direction="BACKWARD"), False),
    "two filters": (_described(CONVOLUTION, (1, 4, 20, 20), (3, 3), filters=8), False),
    "two terms": (_described(CONVOLUTION, (1, 4, 20, 20), (3, 3), group_count=2, filters=2, terms=2), False),
    "strides of three": (_described(CONVOLUTION, (1, 4, 20, 40), (3, 3), strides=(1, 3)), False),
    "channels last": (_described(CONVOLUTION, (1, 4, 20, 20), (3, 3), _channels_last), False),
    "high window": (_described(CONVOLUTION, (1, 4, 20, 20), (8, 1)), False),
    "wide window": (_described(CONVOLUTION, (1, 4, 20, 20), (1, 8)), False),
    "longest rows": (_described(CONVOLUTION, (1, 1, (1 << 29)), (1,)), True),
    "too long rows": (_described(CONVOLUTION, (1, 1, (1 << 29) + 1), (1,)), False),
    "pooling, a vector's lanes": (_described(MAX, (1, 4, 40, 40), (8, 8)), True),
    "pooling, dilations": (_described(DILATED, (1, 4, 40, 40), (2, 2), dilations=(2, 1), include_padding=False), False),
    "pooling, dilations of one element": (_described(DILATED, (1, 4, 40, 40), (2, 1), dilations=(1, 2), include_padding=False), True),
    "pooling, wide window": (_described(MAX, (1, 4, 40, 40), (1, 9)), False),
    "pooling, one window": (_described(MAX, (1, 4, 7, 7), (7, 7)), False),
    "pooling, channels last": (_described(MAX, (1, 4, 20, 20), (3, 3), _channels_last), False),
}


@pytest.mark.parametrize("name", FORMS)
def test_what_is_computed_in_row_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for plans in (convolution_plan, pooling_plan):
        monkeypatch.setattr(plans, "host_isa", lambda: isa.Isa(8, 16))
    desc, expected = FORMS[name]
    assert is_row_blocked(desc) == expected


@needs_row_blocks
def test_depthwise_convolutions_of_contiguous_channels_copy_them_to_planes() -> None:
    """Only where they are many enough to repay two launches more."""
    for size, copies in ((10, False), (40, True)):
        x = channels_last(dml.TensorDesc(data_type="FLOAT32", sizes=(1, 4, size, size)))
        filters = dml.TensorDesc(data_type="FLOAT32", sizes=(4, 1, 3, 3))
        members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
        desc = dml.ConvolutionDesc(input_tensor=x, filter_tensor=filters, output_tensor=x, output_padding=(0, 0), group_count=4, **members)
        assert ("copied to another layout: input_tensor, output_tensor" in dml.compile(desc, "cpu").plan) is copies
