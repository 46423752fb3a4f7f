"""Operators on whole arrays in the tests: descs of arrays, runs in other layouts, ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.devices.numpy.whole import reference
from dmlpy.tensors import packed_strides
from tests import relation_descs
from tests.tolerance import assert_close
from tests.tools import require

Array = np.ndarray[Any, Any]
GUARD = 0xA5
"""Every byte of an output, and of the memory around it, before a run."""


def tensor(array: Array) -> dml.TensorDesc:
    """An array's type and sizes."""
    return dml.TensorDesc(data_type=array.dtype.name.upper(), sizes=array.shape)


def spread_strides(sizes: Sequence[int]) -> list[int]:
    """Strides that lie apart, the dimensions of memory in another order."""
    backwards = packed_strides([size + 1 for size in sizes[::-1]])
    return [2 * stride for stride in backwards[::-1]]


def spread_out(array: Array) -> tuple[Array, Array]:
    """An array in memory of such strides, and that memory, in which all else are guards."""
    strides = spread_strides(array.shape)
    count = 1 + sum((size - 1) * stride for size, stride in zip(array.shape, strides, strict=True))
    memory = np.full((count + 16) * array.itemsize, GUARD, np.uint8)
    flat = memory.view(array.dtype)[8 : 8 + count]
    laid_out = np.lib.stride_tricks.as_strided(flat, array.shape, [stride * array.itemsize for stride in strides])
    laid_out[...] = array
    return laid_out, memory


def run(desc: dml.OperatorDesc, **inputs: Array) -> dict[str, Array]:
    """The outputs by field: the same whether tensors are packed or lie apart, with poison in them and guards around them before the run."""
    assert dml.check(desc) == []
    packed = dml.compile(desc, "numpy")(**inputs).as_dict()
    apart, outputs = {name: spread_out(array)[0] for name, array in inputs.items()}, {}
    for name, result in packed.items():
        outputs[name] = spread_out(np.full(result.nbytes, GUARD, np.uint8).view(result.dtype).reshape(result.shape))
    strides = {name: spread_strides(array.shape) for name, array in {**apart, **packed}.items()}
    strided = desc.replace(**{name: getattr(desc, name).replace(strides=own) for name, own in strides.items()})
    dml.compile(strided, "numpy")(**apart, **{name: view for name, (view, _) in outputs.items()})
    for name, (view, memory) in outputs.items():
        what = f"{name} in another layout"
        if view.dtype.kind == "f":  # the order of sums is that of memory
            assert_close(view, packed[name], view.dtype, terms=1024, what=what)
        else:
            np.testing.assert_array_equal(view, packed[name], err_msg=what)
        view[...] = np.full(view.nbytes, GUARD, np.uint8).view(view.dtype).reshape(view.shape)
        assert (memory == GUARD).all(), f"memory around {name} was written"
    return packed


def onnx_outputs(operator: str, inputs: Sequence[Array | None], outputs: int = 1, *, opset: int = 22, **attributes: Any) -> list[Array]:
    """What ONNX's reference implementation computes; None stands for an input that is left out."""
    require("onnx")
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    named: Mapping[str, Array] = {f"x{number}": array for number, array in enumerate(inputs) if array is not None}
    names = ["" if array is None else f"x{number}" for number, array in enumerate(inputs)]
    results = [f"y{number}" for number in range(outputs)]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in named.items()
    ]
    node = helper.make_node(operator, names, results, **attributes)
    graph = helper.make_graph([node], "one", infos, [helper.make_empty_tensor_value_info(name) for name in results])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    found: list[Array] = ReferenceEvaluator(model).run(None, dict(named))
    return found


def check_repeated(desc: dml.OperatorDesc, rng: np.random.Generator) -> None:
    """Fails unless inputs that repeat along their longest dimension give the same with a stride of 0 there, and, but for rounding, as
    in float64."""
    packed, repeated, members = {}, {}, {}
    for field in desc.inputs():
        own: dml.TensorDesc | None = getattr(desc, field.name)
        if own is None:
            continue
        longest, dtype = int(np.argmax(own.sizes)), own.data_type.numpy
        sizes = [1 if axis == longest else size for axis, size in enumerate(own.sizes)]
        if dtype.kind == "f":
            values = rng.uniform(0.5, 2, sizes).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            values = rng.integers(limits.min, limits.max, sizes, dtype, endpoint=True)
        strides = [0 if axis == longest else stride for axis, stride in enumerate(packed_strides(sizes))]
        repeated[field.name] = np.broadcast_to(values, own.sizes)
        packed[field.name] = repeated[field.name].copy()
        members[field.name] = own.replace(strides=strides)
    plain = desc.replace(**{name: getattr(desc, name).replace(strides=None) for name in packed})
    results, others = (
        dml.compile(one, "numpy")(**given).as_dict() for one, given in ((plain, packed), (desc.replace(**members), repeated))
    )
    exact = reference(plain, packed)
    for name, result in results.items():
        if result.dtype.kind == "f":
            assert_close(others[name], result, result.dtype, terms=1024, what=f"{name}, repeated inputs")
            with np.errstate(over="ignore"):  # beyond what FLOAT16 holds
                wanted = np.broadcast_to(exact[name], result.shape).astype(result.dtype)
            assert_close(result, wanted, result.dtype, terms=1024, what=f"{name}, in float64")
        else:
            np.testing.assert_array_equal(others[name], result, err_msg=f"{name}, repeated inputs")


def failures_of_repeated_inputs(*operators: str) -> list[str]:
    """What fails of `check_repeated` for the valid descs that the relations give."""
    rng, found = np.random.default_rng(99), []
    for operator in operators:
        name = f"DML_OPERATOR_{operator}"
        for own in relation_descs.valid_descs(name):
            try:
                check_repeated(dml.OperatorDesc.from_dict(relation_descs.data(name, own.members)), rng)
            except Exception as error:  # whatever is raised is told, with all others
                found.append(f"{operator}, {own.about}: {type(error).__name__}: {error}")
        assert relation_descs.valid_descs(name)
    return found
