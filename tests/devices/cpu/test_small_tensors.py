"""The compiled functions of integers, comparisons and truth values on small tensors, against their definitions."""

from __future__ import annotations

import pkgutil
from typing import Any

import numpy as np
import pytest

import dmlpy as dml

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.elementwise.integer_plan import CODES, COMPARISONS, FUNCTIONS, Function, SmallPlan
from dmlpy.devices.cpu.movement.plan import CastPlan
from dmlpy.devices.cpu.plans import compiled_plan

SMALL = [name for name, (function, _) in FUNCTIONS.items() if function in CODES]
INTEGERS = ("INT8", "UINT8", "INT32", "UINT32", "INT64")
LIMITS: dict[str, dict[str, Any]] = {
    "ElementWiseClipDesc": {"min": 1.7, "max": 100.0},
    "ElementWiseClip1Desc": {"min": 5, "max": 2},
    "ElementWiseThresholdDesc": {"min": 2.0},
}
FLAGS = {Function.AND, Function.OR, Function.XOR, Function.NOT}
# sizes, and strides of the inputs and of the output in elements
LAYOUTS: dict[str, tuple[tuple[int, ...], Any, Any]] = {
    "one element": ((1,), None, None),
    "packed": ((3, 4), None, None),
    "a column and gaps": ((4, 5), (1, 0), (7, 1)),
}


def elements(rng: np.random.Generator, desc: dml.TensorDesc) -> Any:
    """Numbers with both ends of the type, 0 and what is equal among them; of FLOAT32 also NaN."""
    dtype = desc.data_type.numpy
    if dtype.kind == "f":
        choices = np.array([np.nan, np.inf, -1.5, -0.0, 0.0, 2.0], dtype)
    else:
        limits = np.iinfo(dtype)
        choices = np.array([limits.min, limits.max, 0, 1, 3, limits.max // 2 + 1], dtype)
    memory = rng.choice(choices, desc.span)
    return np.lib.stride_tricks.as_strided(memory, desc.sizes, desc.numpy_strides())


def types_of(function: Function) -> list[tuple[str, str]]:
    """The types of the inputs and of the output that a function is compiled for."""
    if function is Function.CONVERT:
        return [(own, to) for own in INTEGERS for to in (*INTEGERS, "FLOAT32") if own != to]
    if function in FLAGS:
        return [("UINT8", "UINT8")]
    if function in COMPARISONS:
        return [(own, "UINT8") for own in (*INTEGERS, "FLOAT32")]
    return [(own, own) for own in ((*INTEGERS, "FLOAT32") if function is Function.SELECT else INTEGERS)]


@pytest.mark.parametrize("name", SMALL, ids=lambda name: name.partition(":")[2])
def test_small_tensors(name: str) -> None:
    kind: Any = pkgutil.resolve_name(name)
    rng, (function, places), checked = np.random.default_rng(1), FUNCTIONS[name], 0
    for layout, (sizes, of_inputs, of_output) in LAYOUTS.items():
        for own, to in types_of(function):
            inputs = {
                place: dml.TensorDesc(data_type="UINT8" if place == "condition_tensor" else own, sizes=sizes, strides=of_inputs)
                for place in places
            }
            members = LIMITS.get(kind.__name__, {}) | ({"min_max_data_type": own} if kind is dml.ElementWiseClip1Desc else {})
            desc = kind(**inputs, **members, output_tensor=dml.TensorDesc(data_type=to, sizes=sizes, strides=of_output))
            if dml.check(desc) != []:  # a type that the operator does not take
                continue
            checked += 1
            given = {place: elements(rng, each) for place, each in inputs.items()}
            memory = np.full(desc.output_tensor.span, 0x5A, desc.output_tensor.data_type.numpy)
            found = np.lib.stride_tricks.as_strided(memory, sizes, desc.output_tensor.numpy_strides())
            plan = compiled_plan(desc)
            assert isinstance(plan, SmallPlan), (layout, own, to)
            plan.bind({place: array.ctypes.data for place, array in (given | {"output_tensor": found}).items()}, 0, None)(0)
            expected = np.asarray(dml.reference(desc, given).output_tensor).astype(found.dtype)
            np.testing.assert_array_equal(found, expected, err_msg=f"{layout} {own} {to}")
            untouched = np.ones(memory.shape, np.bool_)
            np.lib.stride_tricks.as_strided(untouched, sizes, desc.output_tensor.element_strides)[...] = False
            assert (memory[untouched] == memory.dtype.type(0x5A)).all()
    assert checked >= len(LAYOUTS)


@pytest.mark.parametrize(
    ("sizes", "own", "to"), [((257,), "INT32", "INT64"), ((4,), "INT16", "INT64"), ((4,), "UINT64", "INT64"), ((4,), "FLOAT32", "INT32")]
)
def test_other_conversions_have_other_kernels(sizes: tuple[int, ...], own: str, to: str) -> None:
    """Many elements, and types that the kernel does not read."""
    x, y = (dml.TensorDesc(data_type=kind, sizes=sizes) for kind in (own, to))
    assert isinstance(compiled_plan(dml.CastDesc(input_tensor=x, output_tensor=y)), CastPlan)
