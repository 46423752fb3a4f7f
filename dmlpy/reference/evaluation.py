"""`reference`: the results of a desc, computed by its definition."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.array_problems import int4_problems, shape_remedy, value_problems
from dmlpy.description.arrays import is_convertible, view
from dmlpy.description.bfloat16 import in_other_type
from dmlpy.description.bfloat16_numbers import cast_remedy, is_float, type_expression
from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.int4 import pack_tensor, unpack_tensor
from dmlpy.description.outputs import Outputs
from dmlpy.description.stored_floats import stored
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import BindError, CompileError, DescError, Problem, only_errors
from dmlpy.reference.registry import Array, definition, why_undefined
from dmlpy.validation.checking import check, no_desc
from dmlpy.validation.tensor_arguments import TensorArguments
from dmlpy.validation.undocumented import why_uncomputed

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from dmlpy.description.tensors import TensorDesc

_WIDE = {np.dtype(np.float32), np.dtype(np.float64)}


def reference(
    desc: OperatorDesc, inputs: Mapping[str, Any] | Sequence[Any] | None = None, /, *, dtype: DTypeLike = np.float64, **arrays: Any
) -> Outputs:
    """Computes an operator's results by its plain definition in `dmlpy.reference`, to which every device is held.

    FLOAT16, BFLOAT16 and FLOAT32 tensors are computed in `dtype`, and outputs of these types have it: they are not rounded to the
    described type (`outputs.output_tensor.astype(numpy.float16)` does that). FLOAT64 stays FLOAT64. Integers have their described types,
    and quantized operators round and clamp to them as on a device. FLOAT members are the 32-bit floats that the struct holds.

    Arrays are given by the tensors' sizes: strides do not matter, nor does OWNED_BY_DML. A reserve is an array of `dtype` in a layout
    that only `reference` uses: a gradient takes the reserve that `reference` returned for the training form.

    Tensors of 4-bit elements are given and returned as the bytes that operators take, in the described layout, or given as arrays of
    `ml_dtypes` of the described sizes.

    Args:
        desc: the operator.
        inputs: the inputs that are not given as keywords: by field name in either spelling, or a list of all in the struct's order, with
            None for those that are absent. An element of an array of tensors may be named by itself: `input_tensors[0]`.
        dtype: type of the arithmetic, `numpy.float64` or `numpy.float32`.
        **arrays: the inputs: arrays in host memory of the described sizes; for an array of tensors a list of them. Floating-point
            tensors take floating-point arrays of any precision, other tensors arrays of the described type.

    Returns:
        Outputs: the described outputs by field name, new arrays of the described sizes.

    Raises:
        CompileError: the desc breaks rules, or nothing defines what it computes.
        BindError: arrays are missing, unknown, or do not fit.
        DescError: `desc` is not an operator's desc, or `dtype` is another type.
    """
    if not isinstance(desc, OperatorDesc):
        raise DescError("reference", [no_desc(desc, "an operator's desc, like RNNDesc(...)")])
    definition = Definition(desc, _parse_type(dtype))
    values, problems = _by_place(desc, {} if inputs is None else inputs, arrays)
    if problems and not values:  # that the tensors are missing follows from it
        raise BindError(desc.c_name, problems)
    given, wrong = _inputs(desc, values, definition.dtype)
    if problems := problems + wrong:
        raise BindError(desc.c_name, problems)
    return Outputs(definition.results(given))


class Definition:
    """The definition of a desc that is checked once, for many runs.

    Args:
        desc: the operator.
        dtype: type of the arithmetic, `numpy.float64` or `numpy.float32`.
        wide_members: whether FLOAT members are what the desc was given, not the 32-bit floats that the struct holds.

    Raises:
        CompileError: the desc breaks rules, or nothing defines what it computes.
    """

    def __init__(self, desc: OperatorDesc, dtype: np.dtype[Any], *, wide_members: bool = False) -> None:
        violations = check(desc, None)
        if problems := only_errors(violations):
            raise CompileError(desc.c_name, problems, desc=desc)
        if (why := why_undefined(desc) or (why_uncomputed(desc) if violations else None)) is not None:
            problem = Problem("operator.undefined", "", desc.type_name, "an operator that dmlpy.reference defines", (why,))
            raise CompileError(desc.c_name, [problem], HResult.E_NOTIMPL, desc)
        function = definition(type(desc))
        assert function is not None  # otherwise `why_undefined` gives a reason
        self.dtype, self._desc, self._function = dtype, desc, function
        computed = desc if wide_members else stored(desc)
        self._computed = in_other_type(computed, DataType.FLOAT32) if computed.has_bfloat16 else computed
        slots = [(slot, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None]
        self._is_plain = all(
            slot.index is None and slot.field.marker.at_most is None and tensor.data_type.bits > 4 for slot, tensor in slots
        )
        self._types = {slot.place: _computed_type(tensor, dtype) for slot, tensor in slots}
        self._absent = _absent(desc)
        self._described = _described(self._computed)

    def results(self, given: dict[str, Any]) -> dict[str, Any]:
        """The outputs by field name, of inputs as a definition takes them."""
        with np.errstate(all="ignore"):
            return _outputs(self._described, self._function(self._computed, given), self.dtype)

    def of_arrays(self, values: Mapping[str, Array]) -> dict[str, Any]:
        """The outputs by field name, of arrays by place that have the described sizes and types, or are floats of any precision."""
        if not self._is_plain:  # texts, records and limits are for `_inputs`
            given, problems = _inputs(self._desc, values, self.dtype)
            assert not problems
            return self.results(given)
        return self.results(self._absent | {place: values[place].astype(kind, copy=False) for place, kind in self._types.items()})


# `import dmlpy.reference.recurrent.layer as layer` looks for `recurrent` in `dmlpy.reference`, which is the function: it has the package's
# names, those of modules that are imported later too.
reference.__dict__ = vars(sys.modules["dmlpy.reference"])


def _parse_type(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        parsed = DataType.parse(dtype).numpy if isinstance(dtype, str | DataType) else np.dtype(dtype)
    except (ImportError, TypeError, ValueError):
        parsed = None
    if parsed not in _WIDE:
        raise DescError("reference", [Problem("field.form", "dtype", brief(dtype), "numpy.float64 or numpy.float32")])
    assert parsed is not None
    return parsed


def _computed_type(tensor: TensorDesc, wide: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which a tensor's elements are computed and returned."""
    return wide if tensor.data_type in (DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT32) else tensor.data_type.unpacked


# inputs


def _absent(desc: OperatorDesc) -> dict[str, Any]:
    """The inputs of a definition before any array is given."""
    return {field.name: () if field.listed and getattr(desc, field.name) is not None else None for field in desc.inputs()}


def _inputs(desc: OperatorDesc, values: Mapping[str, Any], wide: np.dtype[Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Converts values by place to the inputs that a definition takes, with a problem for each that does not fit."""
    problems: list[Problem] = []
    inputs = _absent(desc)
    known = desc.sizes()
    for slot in desc.input_slots():
        if slot.tensor is None:
            continue
        if slot.place not in values:
            remedy = f"pass it, or leave it out of the desc: replace({slot.place}=None)" if slot.field.optional else None
            problems.append(Problem("bind.missing", slot.place, "not given", f"an array for {slot.tensor.summary()}", remedy=remedy))
            continue
        array, wrong = _array(slot.place, slot.tensor, values[slot.place])
        if not wrong and slot.field.marker.at_most is not None:
            wrong = value_problems(slot.place, array, known[slot.field.marker.at_most], slot.field.marker.at_most)
        problems += wrong
        if not wrong:  # texts and records have no numbers
            array = array.astype(_computed_type(slot.tensor, wide), copy=False)
        inputs[slot.field.name] = array if slot.index is None else (*inputs[slot.field.name], array)
    return inputs, problems


def _by_place(
    desc: OperatorDesc, inputs: Mapping[str, Any] | Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """The given values by place, with a problem for each that does not belong here."""
    fields = [replace(slot.field, name=slot.place) for slot in desc.input_slots()]
    table = TensorArguments(desc, fields, "input", [field.name for field in fields], returned=True)
    values, problems = table.by_place(inputs)
    named, wrong = table.by_place(keywords)
    problems += wrong
    problems += [Problem("bind.twice", place, "given twice", "by name or in the inputs, not both") for place in values if place in named]
    return values | named, problems


def _array(place: str, tensor: TensorDesc, value: Any) -> tuple[Array, list[Problem]]:
    """A value as an array of the described sizes and kind, or the problem with it."""
    nothing = np.zeros(0)
    try:
        seen = view(value)
    except TypeError as error:
        wanted = type_expression(tensor.data_type.numpy)
        remedy = f"make it an array: numpy.asarray(..., {wanted})" if is_convertible(value) else None
        return nothing, [Problem("array.kind", place, f"of type {type(value).__name__}", "an array in host memory", (str(error),), remedy)]
    if seen.device != "cpu":
        remedy = "copy it to the host: array.get()"
        return nothing, [Problem("array.device", place, "an array in GPU memory", "host memory", remedy=remedy)]
    array: Array = seen.owner[0]
    if tensor.data_type.bits == 4:
        wrong = int4_problems(place, tensor, array.dtype, array.shape, f"the desc has {tensor.summary()}", copied=True)
        unpacks = array.dtype == np.uint8 and not wrong
        return (unpack_tensor(np.ascontiguousarray(array), tensor) if unpacks else array), wrong
    problems = []
    expected = tensor.data_type.numpy
    of_floats = is_float(expected)
    if array.dtype != expected and not (of_floats and is_float(array.dtype)):
        wanted = "a floating-point type" if of_floats else str(tensor.data_type)
        cast = cast_remedy(array.dtype, expected)
        problems.append(Problem("array.type", place, str(array.dtype), wanted, (f"the desc has {tensor.summary()}",), cast))
    if array.shape != tensor.sizes:
        reasons = (f"the desc has {tensor.summary()}",)
        reshape = shape_remedy(tensor, array.shape)
        problems.append(Problem("array.shape", place, str(list(array.shape)), str(list(tensor.sizes)), reasons, reshape))
    return array, problems


# outputs


def _described(desc: OperatorDesc) -> dict[str, Any]:
    """The tensors of the described outputs by field name."""
    tensors = {field.name: getattr(desc, field.name) for field in desc.outputs()}
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def _outputs(described: Mapping[str, Any], results: Any, wide: np.dtype[Any]) -> dict[str, Any]:
    """The described outputs by field name, from a definition's results."""
    if not isinstance(results, Mapping):
        results = {next(iter(described)): results}
    outputs: dict[str, Any] = {}
    for name, tensors in described.items():
        if isinstance(tensors, tuple):
            outputs[name] = tuple(_output(tensor, result, wide) for tensor, result in zip(tensors, results[name], strict=True))
        else:
            outputs[name] = _output(tensors, results[name], wide)
    return outputs


def _output(tensor: TensorDesc, result: Array, wide: np.dtype[Any]) -> Array:
    if tensor.data_type.bits == 4:
        return pack_tensor(result, tensor)
    output = np.empty(tensor.sizes, _computed_type(tensor, wide))
    output[...] = result  # integers wrap around
    return output
