"""Runs an operator on arrays: what a call needs is prepared once for each layout and choice of attributes, and found by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dmlpy.compiler import compile as compile_desc
from dmlpy.description.arrays import dlpack_device, layout_of
from dmlpy.description.enums import DataType
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices import device as find_device
from dmlpy.devices.memory.reserve import Reserve
from dmlpy.eager.runs import Operand, Prepared, prepare_call
from dmlpy.messages.naming import c_member, plural
from dmlpy.messages.problems import DescError, Problem
from dmlpy.x.arguments import OperatorArguments
from dmlpy.x.calls import call, is_number
from dmlpy.x.desc_cache import UncacheableError, value_token
from dmlpy.x.policies import TensorPolicy, tensor_policy
from dmlpy.x.producers import InputProducer, OperatorProducer, TensorOperand, TensorRef
from dmlpy.x.signatures import function_name
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from dmlpy.description.descs import OperatorDesc

_MOST_PREPARED = 128
"""The calls that are kept prepared. Each may hold as many bytes as `runs.MAX_STAGED`, on a host device."""

_MOST_ATTRIBUTES = 4
"""The attributes that a message names."""

_ARGUMENTS = OperatorArguments(
    out="leave it out: results are new arrays; dml.compile(desc, device).bind(inputs, outputs) writes into given ones",
    stream="leave it out: it is the current stream of the GPU",
)

_prepared: dict[Hashable, Prepared] = {}
"""Prepared calls by operator, device, layouts and attributes, the oldest first."""


class EagerOperator:
    """An operator that is called on arrays. Threads may share it.

    Args:
        kind: its class.
        operands: the members of its inputs by the names of the function's parameters, in their order.
        wrap: what makes the function's result of the outputs, in the struct's order.
    """

    def __init__(self, kind: type[OperatorDesc], operands: Mapping[str, str], wrap: Callable[[list[Any]], Any]) -> None:
        self._kind, self._operands, self._wrap = kind, operands, wrap

    def __call__(self, given: tuple[Any, ...], others: dict[str, Any], device: Any) -> Any:
        arrays: list[Any] = []
        try:
            parts: list[Hashable] = [self._kind, device]
            for value in given:
                parts.append(_operand_key(value, arrays))
            for name, value in others.items():
                parts.append((name, _operand_key(value, arrays) if name in self._operands else value_token(value)))
            key: Hashable = tuple(parts)
            prepared = _prepared.get(key)
        except (UncacheableError, TypeError):  # a value that no key can hold; if it is invalid, the check says why
            key = prepared = None
        if prepared is None:
            prepared, arrays = self._prepare(given, dict(others), device)
            if key is not None:
                _keep(key, prepared)
        try:
            return prepared(arrays)
        except (ValueError, OverflowError, TypeError) as error:
            if isinstance(error, DescError) or not any(map(is_number, arrays)):
                raise
            # A number that the operand's type does not hold: the check says so.
            prepared, arrays = self._prepare(given, dict(others), device)
            return prepared(arrays)

    def _prepare(self, given: tuple[Any, ...], others: dict[str, Any], device: Any) -> tuple[Prepared, list[Any]]:
        """Returns the prepared operator for calls like this one, and the operands in the order in which it takes them."""
        name = function_name(self._kind)
        members = {self._operands[argument]: others.pop(argument) for argument in [*others] if argument in self._operands}
        positional = dict(zip(self._operands.values(), given, strict=False))
        self._refuse_surplus(name, given, members, positional)
        self._refuse_struct_names(name, others)
        arrays: list[Any] = []
        described: dict[str, Any] = {}
        places: dict[str, int] = {}
        problems: list[Problem] = []
        for member, value in (positional | members).items():  # in the order of the call, as its key has them
            described[member] = _described(member, value, arrays, places, problems)
        if problems:
            raise DescError(f"{name} {caller_location()}", problems)
        where = find_device(_location(arrays) if device is None else device)
        try:
            with tensor_policy(TensorPolicy.default):
                outputs = call(self._kind, **described, **others)
        except DescError as error:
            raise DescError(error.subject, [self._as_of_function(_as_of_arrays(problem)) for problem in error.problems]) from None
        producer = next(ref.producer for ref in outputs if ref is not None)
        assert isinstance(producer, OperatorProducer)
        taken = [_operand(place, places[place], ref) for place, ref in producer.inputs.items()]
        return prepare_call(compile_desc(producer.desc, where), taken, arrays, self._wrap), arrays

    def _refuse_surplus(self, name: str, given: Sequence[Any], members: Mapping[str, Any], positional: Mapping[str, Any]) -> None:
        """Raises the errors that Python raises for a wrong call of a function."""
        if len(given) > len(self._operands):
            takes = f"{plural(len(self._operands), 'operand')} ({', '.join(self._operands)})" if self._operands else "no operands"
            listed = [field.name for field in self._kind.inputs() if field.listed]
            if listed and len(self._operands) == 1:
                form = f"pass it a list: {name}([a, b], ...)"
            else:
                attributes = [field.name for field in self._kind.attribute_fields()][:_MOST_ATTRIBUTES]
                form = f"attributes are given by name{''.join(f', {attribute}=...' for attribute in attributes)}"
            raise TypeError(f"{name}() takes {takes}, but {len(given)} were given; {form}")
        if twice := [argument for argument, member in self._operands.items() if member in members and member in positional]:
            raise TypeError(f"{name}() got several values for {', '.join(twice)}")

    def _refuse_struct_names(self, name: str, others: Mapping[str, Any]) -> None:
        """Refuses operands by the names of their members, which messages use, in any spelling: they are parameters of other names."""
        called = {
            spelling: parameter
            for parameter, member in self._operands.items()
            for spelling in (member, c_member(member))
            if spelling != parameter
        }
        found = "the name of a member, not of a parameter"
        problems = [
            Problem("field.unknown", argument, found, f"one of {', '.join(self._parameters())}", remedy=f"write {called[argument]}=")
            for argument in others
            if argument in called
        ]
        if problems:
            raise DescError(f"{name} {caller_location()}", problems)

    def _parameters(self) -> list[str]:
        """The names of the function's parameters."""
        from dmlpy.x.generation import parameters  # only a mistake needs it

        return [*(name for group in parameters(self._kind) for name, *_ in group), "device"]

    def _as_of_function(self, problem: Problem) -> Problem:
        """The problem of an argument that no member has, with those that the function has."""
        if problem.code != "field.unknown":
            return problem
        of_function = _ARGUMENTS.problem(problem.field, self._parameters())
        return of_function if of_function.remedy else replace(of_function, remedy=problem.remedy)


def _keep(key: Hashable, prepared: Prepared) -> None:
    while len(_prepared) >= _MOST_PREPARED:
        try:
            _prepared.pop(next(iter(_prepared)), None)
        except (StopIteration, RuntimeError):  # another thread was faster
            break
    _prepared[key] = prepared


def _operand_key(value: Any, arrays: list[Any]) -> Hashable:
    """The properties of an operand on which a call depends; its arrays and numbers are appended to `arrays`."""
    kind: Any = type(value)
    if kind is np.ndarray:
        arrays.append(value)
        return value.dtype, value.shape, value.strides
    if value is None:
        return None
    if is_number(value):
        arrays.append(value)
        return cast("Hashable", kind)
    if kind in (list, tuple):
        return tuple([_operand_key(item, arrays) for item in value])
    if isinstance(value, Reserve):
        raise UncacheableError
    arrays.append(value)
    return kind, _place_of(value), *layout_of(value)


def _described(place: str, value: Any, arrays: list[Any], places: dict[str, int], problems: list[Problem]) -> Any:
    """An operand as expressions take it: arrays become inputs of their layout."""
    if value is None:
        return None
    if type(value) in (list, tuple):
        return [_described(f"{place}[{index}]", item, arrays, places, problems) for index, item in enumerate(value)]
    places[place] = len(arrays)
    arrays.append(value)
    if is_number(value):
        return value
    try:
        tensor = TensorDesc.of(value.array if isinstance(value, Reserve) else value)
    except DescError as error:
        problems += [problem.under(place) for problem in error.problems]
        return None
    return TensorOperand(TensorRef(InputProducer(name="", origin="", tensor=tensor), 0, tensor))


def _operand(place: str, index: int, ref: TensorRef) -> Operand:
    producer = ref.producer
    if isinstance(producer, InputProducer):
        return Operand(place, index, producer.tensor, ref.tensor)
    assert isinstance(producer, OperatorProducer)  # FILL_VALUE_CONSTANT, of a number
    return Operand(place, index, producer.desc.tensors()["output_tensor"], ref.tensor, is_number=True)


def _location(arrays: Sequence[Any]) -> str:
    """The name of the device where the first array is."""
    return next((_place_of(value) for value in arrays if not is_number(value)), "cpu")


_DLPACK_CUDA = (2, 13)
"""The device types of DLPack whose memory is a GPU's, or managed for it."""


def _place_of(array: Any) -> str:
    array = array.array if isinstance(array, Reserve) else array
    if (place := dlpack_device(array)) is not None:
        kind, index = place
        return f"cuda:{index}" if kind in _DLPACK_CUDA else "cpu"
    return "cuda" if hasattr(array, "__cuda_array_interface__") else "cpu"


def _as_of_arrays(problem: Problem) -> Problem:
    """The problem of a call on expressions in the words of a call on arrays."""
    if problem.code == "expression.operand":
        expected = problem.expected.replace("an expression or ", "").replace(" of NumPy", "").replace("expressions", "arrays")
        return replace(problem, expected=expected)
    if problem.code == "field.unknown" and problem.field in ("flags", "feature_level"):
        return replace(problem, remedy=f"describe the operator and pass it to dml.compile(desc, {problem.field}=...)")
    if (
        problem.remedy
        or not problem.code.startswith("type.")
        or problem.found != str(DataType.FLOAT64)
        or "FLOAT32" not in problem.expected
    ):
        return problem
    # An array of NumPy's default type, where operators take smaller floats only.
    argument = problem.field.removesuffix("_tensor")
    return replace(problem, remedy=f"cast it: {argument}.astype(numpy.float32)")
