"""The compiled functions of integers, comparisons and truth values on large contiguous tensors, against NumPy's."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.device import CpuDevice
from dmlpy.devices.cpu.elementwise import integer_plan
from dmlpy.devices.cpu.elementwise.integer_plan import (
    _AS_FAST,
    _ONLY_SMALL,
    _TO_32_BITS,
    COMPARISONS,
    ChoicePlan,
    ContiguousPlan,
    Function,
    RowsPlan,
)
from dmlpy.devices.cpu.elementwise.integer_plan import FUNCTIONS as EVERY_FUNCTION
from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.graphs import GraphBuilder
from tests.support.operators.layout_runs import run

LARGE = {resolve_name(name): row for name, row in EVERY_FUNCTION.items() if row[0] not in _ONLY_SMALL}
FUNCTIONS = {kind: row for kind, row in LARGE.items() if row[0] not in _AS_FAST}
"""Those that are compiled for contiguous tensors."""
SIZES = (3, 1367)
"""An odd number of elements, more than 2,048."""
MEMBERS: dict[Any, dict[str, Any]] = {
    dml.ElementWiseClipDesc: {"min": 5.7, "max": -2.5},
    dml.ElementWiseClip1Desc: {"min": 5, "max": 2},
    dml.ElementWiseThresholdDesc: {"min": float("nan")},
}
"""Limits that are not whole and in the other order: the upper one wins, in CLIP1 the lower one. NaN is none."""
EVERY = ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32")


def desc_of(kind: Any, own: str, sizes: tuple[int, ...] = SIZES, strides: Any = None) -> Any:
    """The desc with inputs of a type, and strides of its output."""
    function, inputs = LARGE[kind]
    tensors = {name: dml.TensorDesc(data_type=own, sizes=sizes) for name in inputs}
    name = "output_gradient_tensor" if function is Function.RELU_GRADIENT else "output_tensor"
    to = "UINT8" if function in COMPARISONS else own
    members = MEMBERS.get(kind, {}) | ({"min_max_data_type": own} if kind is dml.ElementWiseClip1Desc else {})
    return kind(**tensors, **{name: dml.TensorDesc(data_type=to, sizes=sizes, strides=strides)}, **members)


def types_of(kind: Any) -> list[str]:
    """The types that a class takes and that have kernels."""
    valid = [own for own in EVERY if not dml.check(desc_of(kind, own))]
    function, _ = LARGE[kind]
    if function in _TO_32_BITS:
        valid = [own for own in valid if not own.endswith("64")]
    return [own for own in valid if function in COMPARISONS or not own.startswith("FLOAT")]


def elements(rng: np.random.Generator, own: str, sizes: tuple[int, ...] = SIZES) -> Any:
    """Numbers with both ends of the type, 0 and what is equal among them; floats also with NaN and infinities. Few shifts are too far."""
    dtype = np.dtype(own.lower())
    if dtype.kind == "f":
        return rng.choice(np.array([np.nan, np.inf, -np.inf, -1.5, -0.0, 0.0, 2.0, 1e-7], dtype), sizes)
    limits = np.iinfo(dtype)
    minus_one = -1 if dtype.kind == "i" else limits.max
    return rng.choice(np.array([limits.min, limits.max, minus_one, 0, 0, 1, 3, 7, 8, limits.max // 2 + 1, limits.max - 1], dtype), sizes)


@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.short_name())
def test_functions(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a type that is another from one class to the next, on one thread and on two."""
    rng, found = np.random.default_rng(1), types_of(kind)
    own = found[list(FUNCTIONS).index(kind) % len(found)]
    desc = desc_of(kind, own)
    given = {slot.place: elements(rng, own) for slot in desc.input_slots() if slot.tensor is not None}
    (output,) = desc.output_slots()
    with np.errstate(all="ignore"):
        wanted = run(desc, given)[output.place]
    monkeypatch.setattr(integer_plan, "_BYTES_OF_A_THREAD", 1)
    for threads in (1, 2):
        monkeypatch.setattr(integer_plan, "available_threads", lambda threads=threads: threads)
        assert isinstance(compiled_plan(desc), ContiguousPlan)
        np.testing.assert_array_equal(run(desc, given, CpuDevice())[output.place], wanted, err_msg=f"{own}, {threads} thread(s)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.short_name())
def test_functions_of_every_type(kind: Any) -> None:
    rng = np.random.default_rng(2)
    for own in types_of(kind):
        desc = desc_of(kind, own)
        given = {slot.place: elements(rng, own) for slot in desc.input_slots() if slot.tensor is not None}
        (output,) = desc.output_slots()
        with np.errstate(all="ignore"):
            wanted = run(desc, given)[output.place]
        np.testing.assert_array_equal(run(desc, given, "cpu")[output.place], wanted, err_msg=own)


@pytest.mark.parametrize("own", ["INT8", "UINT64"])
def test_limits(own: str) -> None:
    """Beyond the type, at its ends, and within."""
    x = elements(np.random.default_rng(3), own)
    for low, high in ((-1e30, 1e30), (float("-inf"), float("inf")), (3.0, 2.0**63), (-5.0, 7.9)):
        desc = desc_of(dml.ElementWiseClipDesc, own).replace(min=low, max=high)
        assert isinstance(compiled_plan(desc), ContiguousPlan)
        wanted = run(desc, {"input_tensor": x})["output_tensor"]
        np.testing.assert_array_equal(run(desc, {"input_tensor": x}, "cpu")["output_tensor"], wanted)


def test_what_is_compiled() -> None:
    """Contiguous elements in any order of the dimensions, if there are enough of them."""
    kind = dml.ElementWiseBitXorDesc
    transposed = dml.TensorDesc(data_type="UINT16", sizes=SIZES, strides=(1, SIZES[0]))
    whole = kind(a_tensor=transposed, b_tensor=transposed, output_tensor=transposed)
    assert isinstance(compiled_plan(whole), ContiguousPlan)
    gaps = desc_of(kind, "UINT16", strides=(1400, 1))
    others = (gaps, whole.replace(b_tensor=whole.b_tensor.replace(strides=None)), desc_of(kind, "UINT16", (2, 100)))
    assert not any(isinstance(compiled_plan(desc), ContiguousPlan) for desc in others)
    scaled = desc_of(dml.ElementWiseAbsDesc, "INT32").replace(scale_bias=dml.ScaleBias(scale=2.0, bias=1.0))
    assert not isinstance(compiled_plan(scaled), ContiguousPlan)
    assert not isinstance(compiled_plan(desc_of(dml.ElementWiseMinDesc, "FLOAT32")), ContiguousPlan)
    assert not isinstance(compiled_plan(desc_of(dml.ElementWisePowDesc, "INT64")), ContiguousPlan)
    bfloat16 = desc_of(dml.ElementWiseLogicalLessThanDesc, "BFLOAT16")
    assert not isinstance(compiled_plan(bfloat16), ContiguousPlan)


ROWS: dict[str, tuple[Any, ...]] = {
    "a row": (dml.ElementWiseAddDesc, "INT64", (4, 9, 67), None, None, (0, 0, 1)),
    "a column": (dml.ElementWiseSubtractDesc, "UINT32", (4, 9, 67), None, (9, 1, 0), None),
    "a number": (dml.ElementWiseMultiplyDesc, "INT32", (9001,), None, None, (0,)),
    "two numbers": (dml.ElementWiseLogicalOrDesc, "UINT8", (40, 66), None, (0, 0), (0, 0)),
    "gaps": (dml.ElementWiseLogicalLessThanDesc, "FLOAT16", (4, 9, 67), (700, 70, 1), (640, 71, 1), (0, 67, 1)),
    "another order": (dml.ElementWiseDivideDesc, "INT16", (67, 4, 9), (1, 67, 268), (1, 0, 67), (0, 1, 4)),
    "gaps of one operand": (dml.ElementWiseAbsDesc, "INT8", (4, 9, 67), (700, 70, 1), (640, 71, 1)),
    "one operand, a number for each row": (dml.ElementWiseLogicalNotDesc, "UINT8", (40, 66), None, (1, 0)),
    "short of a vector": (dml.ElementWiseMinDesc, "UINT64", (150, 17), None, None, (1, 0)),
    "shorter and shorter vectors": (dml.ElementWiseAddDesc, "UINT8", (3, 5, 87), None, (0, 87, 1), (87, 0, 1)),
    "few elements": (dml.ElementWiseMaxDesc, "INT64", (5, 70, 3), None, None, (3, 0, 1)),
}
"""The class, type and sizes, and the strides of the output and the inputs."""
THREADS_AND_ROWS = [(1, 64), (2, 64), (1, 1 << 16), (2, 1 << 16)]
"""Threads, and the bytes of a row above which it is divided."""


def of_rows(name: str) -> Any:
    kind, own, sizes, *strides = ROWS[name]
    desc = desc_of(kind, own, sizes, strides[0])
    named = zip(LARGE[kind][1], strides[1:], strict=True)
    return desc.replace(**{place: dml.TensorDesc(data_type=own, sizes=sizes, strides=steps) for place, steps in named})


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands that repeat elements, on one thread and on two, by rows and by parts of rows; nothing is written between rows."""
    rng, desc = np.random.default_rng(6), of_rows(name)
    given = {}
    for place in LARGE[type(desc)][1]:
        own = desc.tensors()[place]
        kept = tuple(1 if step == 0 else size for size, step in zip(own.sizes, own.element_strides, strict=True))
        given[place] = np.broadcast_to(elements(rng, ROWS[name][1], kept), own.sizes)
    with np.errstate(all="ignore"):
        wanted = run(desc, given)["output_tensor"]
    monkeypatch.setattr(integer_plan, "_BYTES_OF_A_THREAD", 1)
    for threads, bytes_of_a_row in THREADS_AND_ROWS:
        monkeypatch.setattr(integer_plan, "_BYTES_OF_A_ROW", bytes_of_a_row)
        monkeypatch.setattr(integer_plan, "available_threads", lambda threads=threads: threads)
        assert isinstance(compiled_plan(desc), RowsPlan)
        np.testing.assert_array_equal(run(desc, given, CpuDevice())["output_tensor"], wanted, err_msg=f"{threads} thread(s)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind, (_, inputs) in LARGE.items() if len(inputs) == 2], ids=lambda kind: kind.short_name())
def test_rows_of_every_type(kind: Any) -> None:
    rng = np.random.default_rng(7)
    for own in types_of(kind):
        desc, second = desc_of(kind, own), LARGE[kind][1][1]
        desc = desc.replace(**{second: dml.TensorDesc(data_type=own, sizes=SIZES, strides=(1, 0))})
        given = {slot.place: elements(rng, own) for slot in desc.input_slots() if slot.tensor is not None}
        given[second] = np.broadcast_to(given[second][:, :1], SIZES)
        assert isinstance(compiled_plan(desc), RowsPlan)
        (output,) = desc.output_slots()
        with np.errstate(all="ignore"):
            wanted = run(desc, given)[output.place]
        np.testing.assert_array_equal(run(desc, given, "cpu")[output.place], wanted, err_msg=own)


@pytest.mark.parametrize("strides", [None, (0, 1), (0, 0)], ids=["packed", "a row", "a number"])
@pytest.mark.parametrize("own", ["FLOAT32", "FLOAT16", "UINT8", "INT16", "INT64"])
def test_inverted_equalities_are_one_kernel(own: str, strides: Any) -> None:
    """With all numbers unequal to NaN; few elements are two kernels."""
    given = {"a": elements(np.random.default_rng(8), own), "b": elements(np.random.default_rng(9), own)}
    for sizes, nodes in ((SIZES, 1), ((3, 67), 2)):
        g, output = GraphBuilder("inequality"), dml.TensorDesc(data_type="UINT8", sizes=sizes)
        a, b = (g.input(n, dml.TensorDesc(data_type=own, sizes=sizes, strides=s)) for n, s in (("a", None), ("b", strides)))
        equal = g.add(dml.ElementWiseLogicalEqualsDesc, "equal", a_tensor=a, b_tensor=b, output_tensor=output)
        g.output("y", g.add(dml.ElementWiseLogicalNotDesc, "not", input_tensor=equal, output_tensor=output))
        compiled = dml.compile(g.build(), "cpu")
        x = np.ascontiguousarray(given["a"][:, : sizes[1]])
        y = np.ascontiguousarray(given["b"][: sizes[0] if strides is None else 1, : 1 if strides == (0, 0) else sizes[1]])
        arrays = {"a": x, "b": np.broadcast_to(y, sizes)}
        assert len(compiled.profile(arrays, runs=1).nodes) == nodes
        np.testing.assert_array_equal(compiled(**arrays)["y"], x != y)


def test_rows_that_numpy_computes() -> None:
    """Contiguous sums, where it is as fast, few elements, and rows with gaps between elements."""
    whole = desc_of(dml.ElementWiseAddDesc, "INT32")
    few = desc_of(dml.ElementWiseBitXorDesc, "INT32", (2, 100), (101, 1))
    gaps = desc_of(dml.ElementWiseAddDesc, "INT32", (600, 9), (20, 2))
    for desc in (whole, few, gaps):
        assert isinstance(compiled_plan(desc), str)


_WIDE = (3, 5, 7, 67)
CHOICES: dict[str, tuple[str, tuple[int, ...], Any, Any, Any, Any]] = {
    "packed": ("FLOAT32", _WIDE, None, None, None, None),
    "a mask of rows": ("FLOAT16", _WIDE, None, (0, 0, 0, 0), None, (0, 0, 67, 1)),
    "columns": ("UINT8", _WIDE, None, (0, 0, 1, 0), (335, 67, 0, 1), (5, 1, 0, 0)),
    "gaps": ("INT64", _WIDE, (3000, 560, 80, 1), (560, 2000, 80, 1), None, (469, 1407, 67, 1)),
    "other orders": ("INT16", (66, 4, 9), (1, 66, 264), (1, 66, 264), (1, 594, 66), (0, 1, 0)),
    "a long row": ("UINT32", (9001,), None, None, (0,), None),
    "two numbers": ("FLOAT64", (4, 21), None, (0, 0), (0, 0), None),
    "shorter and shorter vectors": ("UINT8", (5, 87), None, None, (1, 0), (0, 1)),
    "an element": ("FLOAT16", (1, 1), None, None, None, None),
    "short rows": ("INT32", (50, 7), None, (7, 1), (0, 1), (1, 0)),
}
"""The type and sizes, and the strides of the output, both inputs and the condition."""


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every bit of what is chosen, and nothing between rows of the output, on one thread and on two."""
    own, sizes, *strides = CHOICES[name]
    rng, types = np.random.default_rng(5), (own, own, own, "UINT8")
    descs = [dml.TensorDesc(data_type=each, sizes=sizes, strides=steps) for each, steps in zip(types, strides, strict=True)]
    output, a, b, condition = descs
    desc = dml.ElementWiseIfDesc(condition_tensor=condition, a_tensor=a, b_tensor=b, output_tensor=output)
    monkeypatch.setattr(integer_plan, "_BYTES_OF_A_THREAD", 1)
    memory = [rng.integers(0, 256, (each.span, each.data_type.numpy.itemsize), np.uint8) for each in descs]
    memory[3][rng.random(len(memory[3])) < 0.5] = 0
    views = [
        np.lib.stride_tricks.as_strided(raw.reshape(-1).view(each.data_type.numpy), sizes, each.numpy_strides())
        for raw, each in zip(memory, descs, strict=True)
    ]
    wanted, before = np.where(views[3] != 0, views[1], views[2]), memory[0].copy()
    outside = np.ones(output.span, np.bool_)
    np.lib.stride_tricks.as_strided(outside, sizes, output.element_strides)[...] = False
    for threads, bytes_of_a_row in THREADS_AND_ROWS:
        monkeypatch.setattr(integer_plan, "_BYTES_OF_A_ROW", bytes_of_a_row)
        monkeypatch.setattr(integer_plan, "available_threads", lambda threads=threads: threads)
        plan = compiled_plan(desc)
        assert isinstance(plan, ChoicePlan)
        memory[0][...] = before
        places = ("output_tensor", "a_tensor", "b_tensor", "condition_tensor")
        operator = dml.compile(desc, CpuDevice())
        operator.bind(dict(zip(places[1:], views[1:], strict=True)), {places[0]: views[0]})()
        np.testing.assert_array_equal(views[0].copy().view(np.uint8), wanted.view(np.uint8))
        np.testing.assert_array_equal(memory[0][outside], before[outside])


def test_choices_with_gaps_between_elements_are_numpys() -> None:
    x, c = (dml.TensorDesc(data_type=own, sizes=(600, 9), strides=(20, 2)) for own in ("INT32", "UINT8"))
    desc = dml.ElementWiseIfDesc(condition_tensor=c, a_tensor=x, b_tensor=x, output_tensor=x)
    assert not isinstance(compiled_plan(desc), ChoicePlan)


@pytest.mark.parametrize("own", ["INT64", "UINT64"])
def test_quotients_of_64_bits(own: str) -> None:
    """Just below, on and above multiples of the divisor, of as many bits as are divided in float64 and of more."""
    rng, dtype = np.random.default_rng(6), np.dtype(own.lower())
    for bits in (20, 50, 51, 52, 63):
        low, high = (-(1 << bits) if dtype.kind == "i" else 0), 1 << bits
        b = rng.integers(low, high, SIZES, dtype) >> rng.integers(0, bits, SIZES).astype(dtype)
        multiples = rng.integers(low, high, SIZES, dtype) // np.where(b == 0, 1, b) * b
        a = (multiples + rng.integers(-1 if dtype.kind == "i" else 0, 2, SIZES).astype(dtype)).astype(dtype)
        desc = desc_of(dml.ElementWiseDivideDesc, own)
        with np.errstate(all="ignore"):
            wanted, found = (run(desc, {"a_tensor": a, "b_tensor": b}, device)["output_tensor"] for device in ("numpy", "cpu"))
        np.testing.assert_array_equal(found, wanted, err_msg=f"{bits} bits")
