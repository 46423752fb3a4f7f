"""Compiled copies of elements of any width, and conversions of FLOAT16, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import failures_in_layouts, run
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.cpu.movement import copies, fold_plan, plan
from dmlpy.devices.cpu.movement.plan import CAST_TYPES
from dmlpy.devices.cpu.plans import compiled_plan

Array = np.ndarray[Any, np.dtype[Any]]
WIDTHS = {"UINT8": 1, "FLOAT16": 2, "FLOAT32": 4, "UINT64": 8}


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def _padding(mode: str, start: Any, end: Any, *sizes: int) -> Any:
    members = {"padding_mode": mode, "padding_value": 0, "start_padding": start, "end_padding": end}
    return lambda t: dml.Padding1Desc(input_tensor=tensor(t, *sizes), padding_value_data_type=t, **members).with_outputs("output_tensor")


_WINDOW: dict[str, Any] = {
    "input_window_offsets": (1, 0, 2),
    "input_window_sizes": (2, 7, 9),
    "input_window_strides": (1, -3, 2),
}
_PART: dict[str, Any] = {"offsets": (0, 1, 2), "slice_sizes": (3, 4, 5), "strides": (1, 0, 3)}
_COLUMNS: dict[str, Any] = {"window_sizes": (3, 2), "strides": (2, 1), "dilations": (1, 2), "start_padding": (1, 3), "end_padding": (0, 2)}
DESCS: dict[str, Any] = {
    "copy": lambda t: dml.ElementWiseIdentityDesc(input_tensor=tensor(t, 3, 5, 7), output_tensor=tensor(t, 3, 5, 7)),
    "transposed": lambda t: dml.ElementWiseIdentityDesc(input_tensor=tensor(t, 70, 150, strides=(1, 70)), output_tensor=tensor(t, 70, 150)),
    "transposed planes with gaps": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 3, 37, 19, strides=(1000, 1, 41)), output_tensor=tensor(t, 3, 37, 19, strides=(900, 22, 1))
    ),
    "transposed planes of few columns": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 5, 4, 29, 6, strides=(700, 174, 1, 29)), output_tensor=tensor(t, 5, 4, 29, 6)
    ),
    "transposed long rows": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 9, 9000, strides=(1, 9)), output_tensor=tensor(t, 9, 9000)
    ),
    "transposed result": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 3, 41, 50), output_tensor=tensor(t, 3, 41, 50, strides=(4000, 1, 60))
    ),
    "channels last": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 2, 3, 20, 30), output_tensor=tensor(t, 2, 3, 20, 30, strides=(1800, 1, 90, 3))
    ),
    "repeated": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 4, 5, 99, strides=(1, 0, 0)), output_tensor=tensor(t, 4, 5, 99)
    ),
    "every second element": lambda t: dml.ElementWiseIdentityDesc(
        input_tensor=tensor(t, 2, 3, 91, strides=(700, 190, 2)), output_tensor=tensor(t, 2, 3, 91, strides=(400, 100, 1))
    ),
    "long": lambda t: dml.ElementWiseIdentityDesc(input_tensor=tensor(t, 70001, strides=(3,)), output_tensor=tensor(t, 70001)),
    "activation": lambda t: dml.ActivationIdentityDesc(input_tensor=tensor(t, 5, 9), output_tensor=tensor(t, 5, 9)),
    "same type": lambda t: dml.CastDesc(input_tensor=tensor(t, 5, 9), output_tensor=tensor(t, 5, 9)),
    "join": lambda t: dml.JoinDesc(input_tensors=[tensor(t, 3, n, 5) for n in (4, 1, 6)], axis=1).with_outputs("output_tensor"),
    "split": lambda t: dml.SplitDesc(input_tensor=tensor(t, 3, 5, 11), output_tensors=[tensor(t, 3, 5, n) for n in (1, 8, 2)], axis=2),
    "tile": lambda t: dml.TileDesc(input_tensor=tensor(t, 3, 4, 5), repeats=(2, 1, 3)).with_outputs("output_tensor"),
    "slice": lambda t: dml.SliceDesc(input_tensor=tensor(t, 3, 7, 17), **_PART).with_outputs("output_tensor"),
    "window": lambda t: dml.Slice1Desc(input_tensor=tensor(t, 3, 8, 11), **_WINDOW).with_outputs("output_tensor"),
    "gradient of a window": lambda t: dml.SliceGradDesc(
        input_gradient_tensor=tensor(t, 2, 3, 5), output_gradient_tensor=tensor(t, 3, 8, 11), **_WINDOW
    ),
    "constant margins": _padding("CONSTANT", (0, 3, 1), (2, 0, 4), 2, 1, 5),
    "edges": _padding("EDGE", (0, 3, 1), (2, 0, 4), 2, 3, 5),
    "reflection": _padding("REFLECTION", (0, 2, 4), (1, 0, 3), 2, 3, 5),
    "symmetric": _padding("SYMMETRIC", (0, 3, 1), (2, 0, 5), 2, 3, 5),
    "wrapped": _padding("WRAP", (0, 3, 1), (2, 0, 5), 2, 3, 5),
    "depth to space": lambda t: dml.DepthToSpaceDesc(input_tensor=tensor(t, 2, 12, 3, 5), block_size=2).with_outputs("output_tensor"),
    "depth to space, depth last": lambda t: dml.DepthToSpace1Desc(
        input_tensor=tensor(t, 2, 27, 3, 5), block_size=3, order="COLUMN_ROW_DEPTH"
    ).with_outputs("output_tensor"),
    "space to depth": lambda t: dml.SpaceToDepthDesc(input_tensor=tensor(t, 2, 3, 4, 6), block_size=2).with_outputs("output_tensor"),
    "space to depth, depth last": lambda t: dml.SpaceToDepth1Desc(
        input_tensor=tensor(t, 2, 3, 9, 6), block_size=3, order="COLUMN_ROW_DEPTH"
    ).with_outputs("output_tensor"),
    "columns": lambda t: dml.UnfoldDesc(input_tensor=tensor(t, 2, 3, 5, 6), **_COLUMNS).with_outputs("output_tensor"),
    "columns of more dimensions": lambda t: dml.UnfoldDesc(
        input_tensor=tensor(t, 2, 3, 5, 6), output_tensor=tensor(t, 1, 1, 2, 18, 18), **_COLUMNS
    ),
    "enlarged": lambda t: dml.Upsample2DDesc(
        input_tensor=tensor(t, 2, 3, 4, 5), scale_size={"width": 3, "height": 2}, interpolation_mode="NEAREST_NEIGHBOR"
    ).with_outputs("output_tensor"),
    "doubled": lambda t: dml.Upsample2DDesc(
        input_tensor=tensor(t, 2, 3, 4, 37), scale_size={"width": 2, "height": 2}, interpolation_mode="NEAREST_NEIGHBOR"
    ).with_outputs("output_tensor"),
}
_WIDE = np.uint64


def numbered(desc: Any) -> dict[str, Array]:
    """Inputs whose elements are all different, as exact numbers of float64, and then the same elements as random bits."""
    first, found = 1, {}
    for slot in desc.input_slots():
        assert slot.tensor is not None
        count = slot.tensor.span
        found[slot.place] = np.arange(first, first + count)
        first += count
    return found


def strided(memory: Array, desc: dml.TensorDesc) -> Array:
    return np.lib.stride_tricks.as_strided(memory, desc.sizes, [step * memory.itemsize for step in desc.element_strides])


OF_FLOATS = {"activation", "columns", "columns of more dimensions", "enlarged"}
"""Those whose operators take no other types."""
ROWS = [(name, data_type) for name in DESCS for data_type in WIDTHS if name not in OF_FLOATS or data_type in ("FLOAT16", "FLOAT32")]


@pytest.mark.parametrize(("name", "data_type"), ROWS)
def test_elements_keep_their_bits(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference moves numbers of elements; the kernel moves any bits, those of signalling NaN too, and writes nothing else."""
    desc = DESCS[name](data_type)
    width, numbers = WIDTHS[data_type], numbered(desc)
    wide = DESCS[name]("FLOAT32")
    slots = {slot.place: slot.tensor for slot in desc.slots() if slot.tensor is not None}
    given = {place: strided(own, slots[place]).astype(np.float64) for place, own in numbers.items()}
    results = dml.reference(wide, given).as_dict()
    total = sum(len(own) for own in numbers.values())
    bits = np.random.default_rng(2).integers(0, 256, (total + 1, width), np.uint8)
    bits[0] = 0  # number 0 is the constant of margins
    bits[1], bits[2] = ([0x01, 0x7C], [0xFF, 0xFD]) if width == 2 else (1, 2)  # signalling NaN of FLOAT16
    elements = bits.view(f"u{width}")[:, 0]
    monkeypatch.setattr(plan, "available_threads", lambda: 2)
    monkeypatch.setattr(plan, "_BYTES_OF_A_THREAD", 1)
    found = compiled_plan(desc)
    assert not isinstance(found, str)
    memories = {place: elements[own] for place, own in numbers.items()}
    for slot in desc.output_slots():
        assert slot.tensor is not None
        memories[slot.place] = np.full(slot.tensor.span, 0xA5A5A5A5A5A5A5A5 & ((1 << 8 * width) - 1), elements.dtype)
    found.bind({place: memory.ctypes.data for place, memory in memories.items()}, 0, None)(0)
    for slot in desc.output_slots():
        expected = results[slot.field.name] if slot.index is None else results[slot.field.name][slot.index]
        written = memories[slot.place]
        np.testing.assert_array_equal(strided(written, slot.tensor), elements[expected.astype(np.int64)])
        strided(written, slot.tensor)[...] = 0xA5A5A5A5A5A5A5A5 & ((1 << 8 * width) - 1)
        assert len(np.unique(written)) == 1


def test_layouts() -> None:
    names = ("ELEMENT_WISE_IDENTITY", "JOIN", "SPLIT", "TILE", "SLICE1", "PADDING", "SPACE_TO_DEPTH1", "CAST")
    assert failures_in_layouts(*names, device="cpu") == []


def test_margins_of_many_runs_are_numpys() -> None:
    desc = _padding("REFLECTION", (40, 40, 0), (40, 40, 0), 2, 2, 5)("FLOAT32")
    assert "more than 512 copies" in str(compiled_plan(desc))
    assert copies.count_padding_copies(desc) >= len(copies.padding_copies(desc))


# sums of columns

# the sizes and strides of columns and image, and members
_SMALL: dict[str, Any] = {"window_sizes": (1, 1), "strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0)}
FOLDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "overlapping": (((2, 27, 81), None), ((2, 3, 9, 9), None), {"window_sizes": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1)}),
    "apart": (((1, 18, 6), None), ((1, 3, 11, 8), None), {"window_sizes": (3, 2), "strides": (4, 4)}),
    "dilated, mostly outside": (((2, 18, 18), None), ((2, 3, 5, 6), None), _COLUMNS),
    "gaps, and channels last": (((2, 18, 18), (600, 30, 1)), ((2, 3, 5, 6), (90, 1, 18, 3)), _COLUMNS),
    "repeated columns": (((2, 18, 18), (0, 18, 1)), ((2, 3, 5, 6), None), _COLUMNS),
    "columns of more dimensions": (((1, 1, 2, 18, 18), None), ((2, 3, 5, 6), None), _COLUMNS),
    "rows of several vectors": (((1, 9, 210), None), ((1, 3, 5, 44), None), {"window_sizes": (1, 3)}),
    "outside": (((1, 2, 1), None), ((1, 2, 1, 1), None), {"strides": (5, 5), "start_padding": (1, 1)}),
    "four dimensions": (
        ((2, 36, 36), None),
        ((2, 3, 3, 4, 2, 5), (400, 130, 40, 10, 5, 1)),
        dict.fromkeys(("strides", "dilations"), (1,) * 4)
        | dict.fromkeys(("start_padding", "end_padding"), (0,) * 4)
        | {"window_sizes": (2, 2, 1, 3)},
    ),
    "one dimension": (
        ((2, 6, 7), None),
        ((2, 2, 9), None),
        {"window_sizes": (3,), "strides": (1,), "dilations": (1,), "start_padding": (0,), "end_padding": (0,)},
    ),
}


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("name", FOLDS)
def test_sums_of_columns(name: str, data_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of FLOAT16 are rounded once; threads change no bit."""
    (of_columns, column_strides), (of_image, image_strides), members = FOLDS[name]
    columns, image = tensor(data_type, *of_columns, strides=column_strides), tensor(data_type, *of_image, strides=image_strides)
    desc = dml.FoldDesc(input_tensor=columns, output_tensor=image, **{**_SMALL, **members})
    x = np.random.default_rng(3).normal(loc=1.0, size=of_columns).astype(data_type.lower())
    given = {"input_tensor": np.broadcast_to(x[:1], of_columns) if column_strides and not column_strides[0] else x}
    expected, found = np.asarray(dml.reference(desc, given).output_tensor), []
    monkeypatch.setattr(fold_plan, "_WORK_OF_A_THREAD", 1)
    for threads in (1, 2):
        monkeypatch.setattr(fold_plan, "available_threads", lambda threads=threads: threads)
        assert not isinstance(compiled_plan(desc), str)
        found.append(run(desc, given, CpuDevice())["output_tensor"])
    assert_close(found[0], expected, np.dtype(data_type.lower()), terms=9)
    np.testing.assert_array_equal(*found)


def test_sums_of_large_windows_are_numpys() -> None:
    members = {**_SMALL, "window_sizes": (65, 64)}
    desc = dml.FoldDesc(input_tensor=tensor("FLOAT32", 1, 4160, 1), output_tensor=tensor("FLOAT32", 1, 1, 65, 64), **members)
    assert compiled_plan(desc) == "the window has more than 4096 elements"


# conversions


def floats() -> Array:
    """Floats of every exponent, their halves' neighbours and midpoints, and NaN of all kinds."""
    rng = np.random.default_rng(3)
    words = np.arange(512, dtype=np.uint32)[:, np.newaxis] << 23 | rng.integers(0, 1 << 23, (512, 101), np.uint32)
    with np.errstate(invalid="ignore"):
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    near = [halves + offset for offset in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x1800, 0x3000, -1 & 0xFFFFFFFF)]
    nan = np.array([0x7F800001, 0xFF801FFF, 0x7FC00000, 0x7F802000, 0xFFFFFFFF], np.uint32)
    return np.concatenate([words.ravel(), *near, nan]).view(np.float32)


@pytest.mark.parametrize("gap", [1, 3])
@pytest.mark.parametrize("to", ["FLOAT16", "FLOAT32"])
def test_conversions_have_numpys_bits(to: str, gap: int) -> None:
    own = np.arange(1 << 16, dtype=np.uint16).view(np.float16) if to == "FLOAT32" else floats()
    own = own[: len(own) // 2 * 2 - 1]
    memory = np.full(len(own) * gap, 7, own.dtype)
    memory[::gap] = own
    of = "FLOAT16" if to == "FLOAT32" else "FLOAT32"
    desc = dml.CastDesc(input_tensor=tensor(of, len(own), strides=(gap,)), output_tensor=tensor(to, len(own)))
    operator = dml.compile(desc, "cpu")
    assert operator.plan.startswith("strategy: compiled")
    found = operator(input_tensor=memory[::gap]).output_tensor
    with np.errstate(all="ignore"):
        expected = own.astype(found.dtype)
        kept = np.array([0x7C01], np.uint16).view(np.float16).astype(np.float32).view(np.uint32)[0] == 0x7F802000
    word = f"u{found.itemsize}"
    if not kept:  # on ARM NumPy converts by the processor's instructions, which make every NaN a quiet one
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        found, expected = (array[~np.isnan(expected)] for array in (found, expected))
    np.testing.assert_array_equal(found.view(word), expected.view(word))


@pytest.mark.parametrize("strides", [None, (1, 90), (0, 1)])
def test_numpys_operators_read_and_write_halves_by_the_kernel(strides: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bits of the NumPy device, which converts by `astype`."""
    from dmlpy.devices.cpu import array_functions

    calls: list[tuple[int, ...]] = []
    convert = array_functions.Conversion.__call__

    def count(self: Any, target: Array, source: Array) -> None:
        calls.append(target.shape)
        convert(self, target, source)

    monkeypatch.setattr(array_functions.Conversion, "__call__", count)
    given, result = tensor("FLOAT16", 90, 50, strides=strides), tensor("FLOAT16", 90, 50)
    desc = dml.ElementWiseSinDesc(input_tensor=given, output_tensor=result, scale_bias=dml.ScaleBias(scale=2.0, bias=0.5))
    memory = np.random.default_rng(4).normal(size=4500).astype(np.float16)
    x = np.lib.stride_tricks.as_strided(memory, (90, 50), desc.input_tensor.numpy_strides())
    found = dml.compile(desc, "cpu")(input_tensor=x).output_tensor
    np.testing.assert_array_equal(found, dml.compile(desc, "numpy")(input_tensor=x).output_tensor)
    assert calls == [(1, 50) if strides == (0, 1) else (90, 50), (90, 50)]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_gathered_halves_keep_their_bits(device: str) -> None:
    bits = np.random.default_rng(7).permutation(1 << 16).astype(np.uint16).reshape(512, 128)
    indices = np.random.default_rng(6).permutation(512).astype(np.int64)[np.newaxis]
    desc = dml.GatherDesc(
        input_tensor=tensor("FLOAT16", 512, 128), indices_tensor=tensor("INT64", 1, 512), axis=0, index_dimensions=1
    ).with_outputs("output_tensor")
    found = dml.compile(desc, device)(input_tensor=bits.view(np.float16), indices_tensor=indices).output_tensor
    np.testing.assert_array_equal(np.ascontiguousarray(found).view(np.uint16).reshape(512, 128), bits[indices[0]])


# classes


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32"])
def test_elements_that_are_not_finite(data_type: str) -> None:
    """NaN of both signs, quiet or not, and the infinities that are asked for; packed, with gaps and repeated."""
    bits = [0x7C00, 0xFC00, 0x7C01, 0xFE00, 0x7BFF, 0x8000, 0x3C00]
    wide = [0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000, 0x7F7FFFFF, 0x80000000, 0x3F800000]
    kind = "u2" if data_type == "FLOAT16" else "u4"
    x = np.random.default_rng(5).choice(np.array(bits if kind == "u2" else wide, kind), (3, 5, 37)).view(data_type.lower())
    for strides in (None, (200, 39, 1), (1, 3, 15)):
        out = tensor("UINT8", 3, 5, 37, strides=strides)
        source = tensor(data_type, 3, 5, 37, strides=strides)
        rows: list[tuple[Any, Any]] = [(dml.ElementWiseIsNaNDesc(input_tensor=tensor(data_type, 3, 5, 37), output_tensor=out), np.isnan)]
        for mode, function in (("EITHER", np.isinf), ("POSITIVE", np.isposinf), ("NEGATIVE", np.isneginf)):
            rows.append((dml.ElementWiseIsInfinityDesc(input_tensor=source, output_tensor=out, infinity_mode=mode), function))
        for desc, function in rows:
            assert not isinstance(compiled_plan(desc), str)
            np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], function(x))


# casts

CASTS = [
    ("FLOAT32", "INT32"),
    ("FLOAT32", "FLOAT64"),
    ("FLOAT16", "UINT8"),
    ("FLOAT64", "INT64"),
    ("INT64", "FLOAT16"),
    ("UINT64", "FLOAT32"),
    ("UINT32", "INT8"),
    ("FLOAT64", "FLOAT32"),
    ("FLOAT16", "FLOAT64"),
    ("FLOAT64", "FLOAT16"),
]


@pytest.mark.parametrize(("source", "target"), CASTS)
def test_casts(source: str, target: str) -> None:
    """Bit by bit those of the definition: truncated and held within the range, NaN as 0, integers wrapped around; packed and spread."""
    sizes = (3, 19, 37)
    x = to_cast(source, sizes)
    for of, to in ((None, None), ((1000, 1, 20), (900, 38, 1)), ((900, 38, 1), (1, 3, 60))):
        desc = dml.CastDesc(input_tensor=tensor(source, *sizes, strides=of), output_tensor=tensor(target, *sizes, strides=to))
        assert not isinstance(compiled_plan(desc), str)
        with np.errstate(over="ignore"):
            expected = run(desc, {"input_tensor": x}, "numpy")["output_tensor"]
        np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], expected)


def to_cast(source: str, sizes: tuple[int, ...]) -> Array:
    """Numbers of a type, many of them at or beyond the ends of others."""
    rng, kind = np.random.default_rng(7), np.dtype(source.lower())
    if kind.kind == "f":
        ends = [np.nan, np.inf, -np.inf, -0.5, 127.5, 255.9, -129.0, 2.0**31, -(2.0**31), 2.0**63, -(2.0**63), 65504.0]
        scales = rng.choice([1.0, 100.0, 4e4, 3e9, 1e19], sizes)
        with np.errstate(over="ignore"):
            x = np.where(rng.random(sizes) < 0.2, rng.choice(ends, sizes), rng.normal(size=sizes) * scales).astype(kind)
    else:
        limits = np.iinfo(kind)
        x = rng.integers(limits.min, limits.max, sizes, kind, endpoint=True)
    return x


@pytest.mark.parametrize("source", CAST_TYPES)
def test_casts_of_few_elements(source: str) -> None:
    """To every other type, by one kernel."""
    sizes = (3, 5, 17)
    x = to_cast(source, sizes)
    for target in CAST_TYPES:
        for of, to in ((None, None), ((110, 1, 6), (90, 18, 1))):
            desc = dml.CastDesc(input_tensor=tensor(source, *sizes, strides=of), output_tensor=tensor(target, *sizes, strides=to))
            assert not isinstance(compiled_plan(desc), str)
            with np.errstate(over="ignore"):
                expected = run(desc, {"input_tensor": x}, "numpy")["output_tensor"]
            np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], expected, err_msg=target)


def test_doubles_are_rounded_to_halves_once() -> None:
    """Next to ties, where a float between the two would be rounded away from the double; also those of subnormal halves."""
    halves = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    ties = (halves[1:] + halves[:-1]) / 2
    x = np.concatenate([ties, *(ties * (1 + sign * 2.0**-exponent) for sign in (-1, 1) for exponent in (11, 24, 26, 30, 52))])
    x = np.concatenate([x, -x, [5e-324, 2.0**-25, 2.0**-25 * (1 + 2.0**-40), 65519.999999, 65520.0, 1e300, np.inf, np.nan]])
    desc = dml.CastDesc(input_tensor=tensor("FLOAT64", len(x)), output_tensor=tensor("FLOAT16", len(x)))
    assert not isinstance(compiled_plan(desc), str)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"].view(np.uint16), expected.view(np.uint16))
