"""`reference`: what a desc should give, computed by its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dmlpy.arrays import view
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, HResult
from dmlpy.description.markers import TensorField
from dmlpy.description.member_forms import brief
from dmlpy.description.naming import c_member, did_you_mean
from dmlpy.description.outputs import Outputs
from dmlpy.description.tensors import TensorDesc
from dmlpy.reference.registry import Array, definition, why_undefined
from dmlpy.validation.checking import check
from dmlpy.validation.problems import BindError, CompileError, DescError, Problem

_WIDE = {np.dtype(np.float32), np.dtype(np.float64)}


def reference(desc: OperatorDesc, inputs: Mapping[str, Any] | None = None, /, *, dtype: DTypeLike = np.float64, **arrays: Any) -> Outputs:
    """What an operator should give, by its plain definition in `dmlpy.reference`: the results that every device is held to.

    FLOAT16 and FLOAT32 tensors are computed in `dtype`, and outputs of these types have it: they are not rounded to the described type
    (`outputs.output_tensor.astype(numpy.float16)` does that). FLOAT64 stays FLOAT64. Integers have their described types, and quantized
    operators round and clamp to them as on a device.

    Arrays are given by the tensors' sizes: strides do not matter, nor does OWNED_BY_DML. A reserve is an array of `dtype` in a layout
    of the reference's own: a gradient takes the one that `reference` gave for the training form.

    Args:
        desc: the operator.
        inputs: the inputs by field name in either spelling, where they are not given as keywords.
        dtype: type of the arithmetic, `numpy.float64` or `numpy.float32`.
        **arrays: the inputs: arrays in host memory of the described sizes; for an array of tensors a list of them. Floating-point
            tensors take floating-point arrays of any precision, other tensors arrays of their own type.

    Returns:
        Outputs: the described outputs by field name, new arrays of the described sizes.

    Raises:
        CompileError: the desc breaks rules, or nothing defines what it computes.
        BindError: arrays are missing, unknown, or do not fit.
        DescError: `desc` is no operator's desc, or `dtype` is another type.
    """
    if not isinstance(desc, OperatorDesc):
        raise DescError("reference", [Problem("field.form", "desc", brief(desc), "an operator's desc, like RNNDesc(...)")])
    wide = _parse_type(dtype)
    if problems := check(desc):
        raise CompileError(desc.c_name, problems, desc=desc)
    if (why := why_undefined(desc)) is not None:
        problem = Problem("operator.undefined", "", desc.type_name, "an operator that dmlpy.reference defines", (why,))
        raise CompileError(desc.c_name, [problem], HResult.E_NOTIMPL, desc)
    given = _inputs(desc, {**(inputs or {}), **arrays}, wide)
    function = definition(type(desc))
    assert function is not None  # or `why_undefined` would have said so
    with np.errstate(all="ignore"):
        results = function(desc, given)
        return Outputs(_outputs(desc, results, wide))


def _parse_type(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        found = DataType.parse(dtype).numpy if isinstance(dtype, str | DataType) else np.dtype(dtype)
    except (TypeError, ValueError):
        found = None
    if found not in _WIDE:
        raise DescError("reference", [Problem("field.form", "dtype", brief(dtype), "numpy.float64 or numpy.float32")])
    assert found is not None
    return found


def _computed_type(tensor: TensorDesc, wide: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which a tensor's elements are computed and given."""
    return wide if tensor.data_type in (DataType.FLOAT16, DataType.FLOAT32) else tensor.data_type.numpy


# inputs


def _inputs(desc: OperatorDesc, given: Mapping[str, Any], wide: np.dtype[Any]) -> dict[str, Any]:
    """Every input as its definition takes it; raises BindError for all that does not fit."""
    values, problems = _by_field(desc, given)
    found: dict[str, Any] = {}
    known = desc.sizes()
    for field in desc.inputs():
        described = getattr(desc, field.name)
        if described is None:
            found[field.name] = None
            continue
        if field.name not in values:
            remedy = f"pass it, or leave it out of the desc: replace({field.name}=None)" if field.optional else None
            problems.append(Problem("bind.missing", field.name, "not given", f"an array for {_summary(described)}", remedy=remedy))
            continue
        tensors = described if field.listed else (described,)
        items = values[field.name] if field.listed else (values[field.name],)
        arrays = []
        for index, (tensor, item) in enumerate(zip(tensors, items, strict=True)):
            place = f"{field.name}[{index}]" if field.listed else field.name
            array, wrong = _array(place, tensor, item)
            if not wrong and field.marker.at_most is not None:
                wrong = _beyond(place, array, known[field.marker.at_most], field.marker.at_most)
            problems += wrong
            arrays.append(array.astype(_computed_type(tensor, wide), copy=False))
        found[field.name] = tuple(arrays) if field.listed else arrays[0]
    if problems:
        raise BindError(desc.c_name, problems)
    return found


def _summary(described: TensorDesc | tuple[TensorDesc, ...]) -> str:
    return described.summary() if isinstance(described, TensorDesc) else f"each of {len(described)} tensors, in a list"


def _by_field(desc: OperatorDesc, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Values by field name, None left out; what does not belong here is a problem."""
    fields: dict[str, TensorField] = {field.name: field for field in desc.inputs()}
    outputs = {field.name for field in desc.outputs()}
    found: dict[str, Any] = {}
    problems = []
    for spelling, value in given.items():
        name = desc.member_named(spelling) if isinstance(spelling, str) else None
        if name in outputs:
            problems.append(Problem("bind.misplaced", name, "an output", "inputs only: the outputs are returned"))
        elif name not in fields:
            remedy = None
            if isinstance(spelling, str):
                remedy = desc.unused_remedy(spelling) or did_you_mean(spelling, fields, c_member if spelling[:1].isupper() else str)
            expected = f"one of {', '.join(fields)}"
            problems.append(Problem("bind.unknown", brief(spelling), f"no input of {desc.c_name}", expected, remedy=remedy))
        elif name in found:
            problems.append(Problem("bind.twice", spelling, "given twice", f"{name} or {c_member(name)}, not both"))
        elif value is None:
            continue
        elif (described := getattr(desc, name)) is None:
            remedy = f"pass None, or use a desc that describes {name}"
            problems.append(Problem("bind.unexpected", name, "given", "nothing: the desc leaves it null", remedy=remedy))
        elif fields[name].listed and not (isinstance(value, list | tuple) and len(value) == len(described)):
            count = f"{len(value)} given" if isinstance(value, list | tuple) else f"of type {type(value).__name__}"
            problems.append(Problem("bind.count", name, count, f"a list of {len(described)}, one for each tensor"))
        else:
            found[name] = value
    return found, problems


def _array(place: str, tensor: TensorDesc, value: Any) -> tuple[Array, list[Problem]]:
    """A value as an array of the described sizes and kind, or what is wrong with it."""
    nothing = np.zeros(0)
    try:
        seen = view(value)
    except TypeError as error:
        return nothing, [Problem("array.kind", place, f"of type {type(value).__name__}", "an array in host memory", (str(error),))]
    if seen.device != "cpu":
        remedy = "copy it to the host: array.get()"
        return nothing, [Problem("array.device", place, "an array in GPU memory", "host memory", remedy=remedy)]
    array: Array = seen.owner[0]
    problems = []
    expected = tensor.data_type.numpy
    if array.dtype != expected and not array.dtype.kind == expected.kind == "f":
        wanted = "a floating-point type" if expected.kind == "f" else str(tensor.data_type)
        cast = f"cast it: array.astype(numpy.{expected})" if array.dtype.kind in "biuf" else None
        problems.append(Problem("array.type", place, str(array.dtype), wanted, (f"the desc has {tensor.summary()}",), cast))
    if array.shape != tensor.sizes:
        same = [size for size in array.shape if size != 1] == [size for size in tensor.sizes if size != 1]
        reshape = f"only ones differ: array.reshape({', '.join(map(str, tensor.sizes))})" if same else None
        reasons = (f"the desc has {tensor.summary()}",)
        problems.append(Problem("array.shape", place, str(list(array.shape)), str(list(tensor.sizes)), reasons, reshape))
    return array, problems


def _beyond(place: str, array: Array, limit: int, symbol: str) -> list[Problem]:
    """A problem for the first value that is not from 0 to a limit."""
    for index, value in enumerate(array.reshape(-1).tolist()):
        if not 0 <= value <= limit:
            return [Problem("value.range", f"{place}[{index}]", str(value), f"0 to {limit}", (f"{symbol} is {limit}",))]
    return []


# outputs


def _outputs(desc: OperatorDesc, results: Any, wide: np.dtype[Any]) -> dict[str, Any]:
    """The described outputs by field name, of what a definition gives."""
    described = {field.name: getattr(desc, field.name) for field in desc.outputs()}
    described = {name: tensors for name, tensors in described.items() if tensors is not None}
    if not isinstance(results, Mapping):
        results = {next(iter(described)): results}
    found: dict[str, Any] = {}
    for name, tensors in described.items():
        if isinstance(tensors, tuple):
            found[name] = tuple(_output(tensor, result, wide) for tensor, result in zip(tensors, results[name], strict=True))
        else:
            found[name] = _output(tensors, results[name], wide)
    return found


def _output(tensor: TensorDesc, result: Array, wide: np.dtype[Any]) -> Array:
    output = np.empty(tensor.sizes, _computed_type(tensor, wide))
    output[...] = result  # integers wrap around
    return output
