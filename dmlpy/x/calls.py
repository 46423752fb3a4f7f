"""Makes an operator of a call: operands become tensors, members that are left out get their defaults, and outputs are inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType
from dmlpy.description.registry import operator_class
from dmlpy.description.tensors import TensorDesc
from dmlpy.description.value_structs import ScaleBias
from dmlpy.graphs import views
from dmlpy.graphs.builder import constant_of
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DescError, Problem, only_errors
from dmlpy.validation.checking import FLOAT32_OVERFLOW, check
from dmlpy.x.defaults import told_sizes, with_defaults
from dmlpy.x.desc_cache import DescBuild, cached_desc, scaled_desc, token_of
from dmlpy.x.policies import current_policy
from dmlpy.x.producers import ConstantProducer, InputProducer, NumberProducer, OperatorProducer, TensorOperand, TensorRef
from dmlpy.x.signatures import function_name, shares_sizes
from dmlpy.x.source_locations import caller_location, scoped_name

if TYPE_CHECKING:
    from dmlpy.description.markers import TensorField

MOST_OPERANDS = 1 << 16
"""The most operands of a list: an iterator without an end is refused."""


def call(operator: str | type[OperatorDesc] | OperatorDesc, /, **given: Any) -> tuple[TensorRef | None, ...]:
    """Makes an operator.

    Args:
        operator: its short name, its class, or a desc that is complete except for the members that follow.
        **given: its members by Python name. Inputs are expressions, arrays or, where operands are broadcast, numbers. Besides them
            `output_sizes`, and the data type of an output as `output_data_type` for `output_tensor`.

    Returns:
        The outputs in the struct's order; None for those that the operator does not have with these members.

    Raises:
        DescError: every broken rule, with the caller's line.
    """
    kind = operator_class(operator) if isinstance(operator, str) else operator if isinstance(operator, type) else type(operator)
    if not issubclass(kind, OperatorDesc):
        raise DescError(
            f"operator {caller_location()}", [Problem("field.form", "operator", brief(operator), "an operator's class, or a desc")]
        )
    name = function_name(kind)
    try:
        return _Call(kind, name).build(operator, dict(given))
    except DescError as error:
        problems = [_with_sizes_remedy(problem) for problem in error.problems]
        raise DescError(" ".join(filter(None, (name, caller_location()))), problems) from None


def ref_of(value: Any) -> TensorRef:
    """The tensor of an expression, or of an array as a constant.

    Raises:
        DescError: it is neither.
    """
    if isinstance(value, TensorOperand):
        return value._ref
    if isinstance(value, np.ndarray | np.generic):
        data, tensor = constant_of(value)
        # Copied: the array may change before the graph is built.
        return constant_ref(data.tobytes(), tensor)
    remedy = "make it an array: numpy.array(values, numpy.float32)" if isinstance(value, list | tuple) else None
    raise DescError("operand", [Problem("expression.operand", "", brief(value), "an expression or an array of NumPy", remedy=remedy)])


def constant_ref(data: bytes, tensor: TensorDesc) -> TensorRef:
    """The tensor of a new constant of the graph, which holds these bytes."""
    return TensorRef(ConstantProducer(name=scoped_name("constant"), origin=caller_location(), data=data, tensor=tensor), 0, tensor)


def input_ref(name: str, tensor: TensorDesc) -> TensorRef:
    """A new input of the graph."""
    return TensorRef(InputProducer(name=name, origin=caller_location(), tensor=tensor), 0, tensor)


_NEUTRAL = ScaleBias(scale=1.0, bias=0.0)


def _ordinary_factors(given: Mapping[str, Any]) -> tuple[float, float] | None:
    """The argument `scale_bias` if no rule can concern its numbers, so that calls with other such numbers share the checks."""
    factors = given.get("scale_bias")
    if type(factors) is dict and factors.keys() == {"Scale", "Bias"}:
        numbers = factors["Scale"], factors["Bias"]
    elif isinstance(factors, ScaleBias):
        numbers = factors.scale, factors.bias
    else:
        return None
    scale, bias = (float(number) if isinstance(number, np.floating) else number for number in numbers)
    if not all(type(number) in (int, float) and abs(number) < FLOAT32_OVERFLOW for number in (scale, bias)):
        return None
    return float(scale), float(bias)


def _broadcast(ref: TensorRef, sizes: Sequence[int]) -> TensorRef:
    return TensorRef(ref.producer, ref.index, views.broadcast(ref.tensor, sizes))


class _Call:
    """One call of an operator's function."""

    def __init__(self, kind: type[OperatorDesc], name: str) -> None:
        self.kind = kind
        self.name = name
        self.refs: dict[str, TensorRef] = {}
        """The operands by place."""

    def build(self, operator: Any, given: dict[str, Any]) -> tuple[TensorRef | None, ...]:
        """The call's outputs."""
        problems: list[Problem] = []
        for field in self.kind.inputs():
            self._take(field, given, problems)
        if problems:
            raise DescError(self.name, problems)
        tensors = self._tensors()
        factors = _ordinary_factors(given)
        members = given if factors is None else {**given, "scale_bias": _NEUTRAL}
        token = token_of(operator, self.refs, members)
        if token is None:
            members, factors = given, None
        build = DescBuild(lambda: self._desc(operator, tensors, members))
        desc = build.make() if token is None else cached_desc(token, build)
        if factors is not None:
            desc = scaled_desc(desc, *factors)
        for slot in desc.input_slots():
            if slot.tensor is not None and slot.tensor is not (ref := self.refs[slot.place]).tensor:
                self.refs[slot.place] = TensorRef(ref.producer, ref.index, slot.tensor)
        producer = OperatorProducer(name=scoped_name(self.name), origin=caller_location(), desc=desc, inputs=self.refs)
        refs = [None if slot.tensor is None else TensorRef(producer, index, slot.tensor) for index, slot in enumerate(desc.output_slots())]
        return tuple(refs)

    def _desc(self, operator: Any, tensors: dict[str, Any], given: dict[str, Any]) -> OperatorDesc:
        """The whole desc of the call, checked. It depends only on the operands' views and the arguments."""
        sizes = told_sizes(self.kind, tensors, given)
        types = {field.name: given.pop(_type_argument(field), None) for field in self.kind.outputs()}
        members = with_defaults(self.kind, tensors, {name: value for name, value in given.items() if value is not None}, sizes)
        tensors = self._with_repeated_addend(tensors, members)
        sized = {} if sizes is None else self._describe_first_output(sizes, tensors, members, types)
        whole = isinstance(operator, OperatorDesc)
        desc = operator.replace(**tensors, **members) if whole else self.kind(**sized, **tensors, **members)
        desc = self._with_outputs(desc, sized, types)
        if problems := [*self._without_operands(desc), *only_errors(check(desc, None))]:
            # What is wrong with an inferred output follows from the operands, which are reported alone.
            outputs = {field.name for field in self.kind.outputs()}
            inferred = {name for name in outputs if name not in sized and not (whole and getattr(operator, name))}
            raise DescError(self.name, [problem for problem in problems if problem.field not in inferred] or problems)
        return desc

    def _take(self, field: TensorField, given: dict[str, Any], problems: list[Problem]) -> None:
        """Takes an input's operands out of what is given; numbers stay there until the operands' sizes are known."""
        value = given.pop(field.name, None)
        if value is None:
            return
        if field.listed and (isinstance(value, TensorOperand | np.ndarray | str) or not isinstance(value, Iterable)):
            problems.append(Problem("expression.operand", field.name, brief(value), "a list of expressions"))
            return
        try:
            items = islice(value, MOST_OPERANDS + 1) if field.listed else ()
            places = {f"{field.name}[{index}]": item for index, item in enumerate(items)} if field.listed else {field.name: value}
        except Exception:  # whatever the iterator of the caller's type raises
            problems.append(Problem("expression.operand", field.name, brief(value), "a list of expressions"))
            return
        if len(places) > MOST_OPERANDS:
            problems.append(Problem("expression.operand", field.name, brief(value), f"a list of at most {MOST_OPERANDS} expressions"))
            return
        for place, item in places.items():
            try:
                self.refs[place] = self._scalar(item, field) if is_number(item) else ref_of(item)
            except DescError as error:
                problems += [problem.under(place) for problem in error.problems]

    def _scalar(self, value: Any, field: TensorField) -> TensorRef:
        """A number as a tensor of one element, which is broadcast; it is given the type of the other operands later."""
        if not shares_sizes(self.kind, field):
            expected = "an expression or an array: only element-wise operators repeat a number"
            raise DescError(self.name, [Problem("expression.operand", "", brief(value), expected)])
        tensor = TensorDesc(data_type="UNKNOWN", sizes=[1])
        return TensorRef(NumberProducer(name="", origin="", value=value), 0, tensor)

    def _tensors(self) -> dict[str, Any]:
        """The operands' tensors by member, broadcast where the operator's tensors all have the same sizes."""
        shared = [field for field in self.kind.inputs() if field.name in self.refs and shares_sizes(self.kind, field)]
        self._type_numbers(shared)
        if len(shared) > 1:
            given = {field.name: self.refs[field.name].tensor.sizes for field in shared}
            sizes = views.broadcast_sizes(*given.values())
            if sizes is None:
                found = " and ".join(f"{name} {listed(given_sizes)}" for name, given_sizes in given.items())
                why = "sizes are aligned at the last dimension, and only dimensions of size 1 are repeated"
                raise DescError(self.name, [Problem("expression.sizes", "sizes", found, "sizes that broadcast to each other", (why,))])
            for field in shared:
                self.refs[field.name] = _broadcast(self.refs[field.name], sizes)
        return self._by_member()

    def _with_repeated_addend(self, tensors: dict[str, Any], members: dict[str, Any]) -> dict[str, Any]:
        """The operands of a GEMM, with C broadcast to the product's sizes as ONNX's Gemm does it."""
        if not issubclass(self.kind, operator_class("GEMM")) or not {"a_tensor", "b_tensor", "c_tensor"} <= tensors.keys():
            return tensors
        try:
            product = self.kind(**members, **{**tensors, "c_tensor": None}).with_outputs().tensors()["output_tensor"].sizes
        except DescError:
            return tensors  # the check of the whole reports what is wrong
        if views.broadcast_sizes(tensors["c_tensor"].sizes, product) == product:
            self.refs["c_tensor"] = _broadcast(self.refs["c_tensor"], product)
        return self._by_member()

    def _by_member(self) -> dict[str, Any]:
        tensors: dict[str, Any] = {}
        for place, ref in self.refs.items():
            name, bracket, _ = place.partition("[")
            if bracket:
                tensors.setdefault(name, []).append(ref.tensor)
            else:
                tensors[name] = ref.tensor
        return tensors

    def _type_numbers(self, fields: Sequence[TensorField]) -> None:
        """Makes nodes of numbers among operands, of the type of another operand, first of one that shares the type variable."""
        known = {field: self.refs[field.name] for field in fields if not isinstance(self.refs[field.name].producer, NumberProducer)}
        for field in fields:
            producer = self.refs[field.name].producer
            if not isinstance(producer, NumberProducer):
                continue
            if not known:
                why = "a number has the type of the other operand"
                raise DescError(self.name, [Problem("expression.operand", field.name, brief(producer.value), "an expression", (why,))])
            like = next((other for other in known if other.marker.types == field.marker.types), next(iter(known)))
            self.refs[field.name] = _fill_number(producer.value, known[like].tensor.data_type, field.name)

    def _describe_first_output(
        self, sizes: Any, tensors: Mapping[str, Any], members: Mapping[str, Any], types: Mapping[str, Any]
    ) -> dict[str, TensorDesc | list[TensorDesc]]:
        """The first output with sizes that the caller gives."""
        field = self.kind.outputs()[0]
        data_type = _type_of(self.kind, field, tensors, members) if types[field.name] is None else types[field.name]
        if field.listed:
            return {field.name: [TensorDesc(data_type=data_type, sizes=part_sizes) for part_sizes in sizes]}
        return {field.name: TensorDesc(data_type=data_type, sizes=sizes)}

    def _with_outputs(self, desc: OperatorDesc, sized: Iterable[str], types: Mapping[str, Any]) -> OperatorDesc:
        """The desc with the outputs that it may have, of the wanted types; those not described are laid out by the policy."""
        wanted = [name for name in desc.applicable_outputs() if getattr(desc, name) is None]
        if wanted:
            chosen = {name: _preferred_type(desc, name) if types[name] is None else types[name] for name in wanted}
            try:
                desc = desc.with_outputs(*wanted, data_types=chosen)
            except DescError as error:
                # What leaves an output's sizes open, such as an axis out of range, is what the caller has to mend.
                causes = [problem for problem in only_errors(check(desc, None)) if problem.field not in wanted]
                raise DescError(self.name, causes or error.problems) from None
        policy = current_policy()
        laid: dict[str, Any] = {}
        for name in (*sized, *wanted):
            described = getattr(desc, name)
            laid[name] = policy.laid_out(described) if isinstance(described, TensorDesc) else tuple(map(policy.laid_out, described))
        return desc if all(getattr(desc, name) == laid_out for name, laid_out in laid.items()) else desc.replace(**laid)

    def _without_operands(self, desc: OperatorDesc) -> Iterator[Problem]:
        """The inputs that a whole desc describes though the call gives nothing for them."""
        for slot in desc.input_slots():
            if slot.tensor is not None and slot.place not in self.refs:
                yield Problem("expression.operand", slot.place, "described, but not given", "an expression for each input of the desc")


def _with_sizes_remedy(problem: Problem) -> Problem:
    """The problem of an output whose sizes no input and no attribute determines, with the argument that does."""
    if problem.code == "field.missing" and problem.field == "output_tensors":
        return replace(problem, remedy="pass the sizes of the parts along the axis: output_axis_sizes=[...]")
    if problem.code == "size.unknown" and problem.remedy is None:
        return replace(problem, remedy="pass its sizes: output_sizes=[...]")
    return problem


def is_number(value: Any) -> bool:
    """Whether a value is a number of Python or NumPy."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.ndarray)


def _fill_number(value: Any, data_type: DataType, place: str) -> TensorRef:
    """A tensor of one element that FILL_VALUE_CONSTANT writes."""
    is_integer = "INT" in data_type.name
    number: int | float | None
    try:
        number = int(value) if is_integer else float(value)
        is_exact = not is_integer or bool(value == number)
    except Exception:  # an infinity or NaN as an integer, an integer larger than floats, or whatever the methods of a caller's type raise
        number, is_exact = None, False
    if not is_exact:
        remedy = "cast the expression: x.cast(y, output_data_type='FLOAT32')" if is_integer else None
        raise DescError("number", [Problem("expression.number", place, brief(value), f"a value that {data_type} holds", remedy=remedy)])
    (ref,) = call("FILL_VALUE_CONSTANT", output_sizes=[1], value_data_type=data_type, value=number)
    assert ref is not None
    return ref


def _type_argument(field: TensorField) -> str:
    """The name of the argument for an output's data type: `output_index_data_type` for `output_index_tensor`."""
    return f"{field.name.removesuffix('s').removesuffix('_tensor')}_data_type"


def _type_of(kind: type[OperatorDesc], field: TensorField, tensors: Mapping[str, Any], members: Mapping[str, Any]) -> Any:
    """The data type of an output whose struct must have it: that of the inputs of its type variable, or of an attribute."""
    variable = field.marker.types
    if not isinstance(variable, str):
        return min(variable)
    for item in kind.attribute_fields():
        if item.limits.type_of == field.name:
            return members.get(item.name, DataType.FLOAT32)
    for other in kind.inputs():
        if other.marker.types == variable and other.name in tensors:
            tensor = tensors[other.name]
            return (tensor[0] if other.listed else tensor).data_type
    return min(kind.support[-1].types[variable])


def _preferred_type(desc: OperatorDesc, name: str) -> DataType | None:
    """UINT8, DirectMLX's choice, for the output of an element-wise operator that may be UINT8 and whose inputs do not determine it."""
    field = next(field for field in desc.outputs() if field.name == name)
    variable = desc.type_variable(field)
    if isinstance(variable, str):
        if any(slot.tensor is not None and desc.type_variable(slot.field) == variable for slot in desc.input_slots()):
            return None
        # Some functions of an operator have a variable of their own, which the newest line of support need not be about.
        variable = next(since.types[variable] for since in reversed(desc.support) if variable in since.types)
    return DataType.UINT8 if DataType.UINT8 in variable and desc.short_name().startswith("ELEMENT_WISE_") else None
