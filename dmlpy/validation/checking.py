"""`check`: finds every rule that a desc breaks, at once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dmlpy.description import support
from dmlpy.description.bfloat16 import WHY_NO_LEVEL, with_bfloat16
from dmlpy.description.coercion import brief
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import DataType, DmlEnum, FeatureLevel, TensorFlags
from dmlpy.description.flags import check_flags
from dmlpy.description.markers import AttributeField, Slot, limit_problems
from dmlpy.description.sizes import Sizes, Term, is_permutation, run_of, show
from dmlpy.description.structs import Struct
from dmlpy.description.support import SupportRow, TypeSet, level_for, row_at
from dmlpy.description.tensors import MAX_DIMENSION_COUNT, MAX_UINT32, TensorDesc
from dmlpy.messages.naming import Count, listed, plural
from dmlpy.messages.problems import MAX_PROBLEMS, DescError, Problem, truncate
from dmlpy.validation.undocumented import find_undocumented, undocumented_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Set


FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
"""The least number that a 32-bit float rounds to infinity; a printed FLT_MAX lies between it and the largest float."""

_BFLOAT16_OVERFLOW = 2.0**128 - 2.0**119
"""The least number that BFLOAT16 rounds to infinity."""

LATEST = FeatureLevel.FL_6_4
Level = FeatureLevel | str | int | None
"""A feature level in any spelling; None checks against no DirectML, but against what dmlpy has."""
MAX_ENTRIES = 4096
"""The most entries of an attribute's array. DirectML's arrays have one per dimension, activation or channel."""


def parse_level(feature_level: FeatureLevel | str | int) -> FeatureLevel:
    """Parses a feature level: a member, a name (`5_0`, `5.0`, `DML_FEATURE_LEVEL_5_0`) or the header's number.

    Raises:
        DescError: there is no such level.
    """
    try:
        return FeatureLevel.parse(feature_level)
    except ValueError as error:
        expected, digits = str(error).removeprefix("expected "), re.findall(r"\d+", brief(feature_level))
        intended = next((name for name in FeatureLevel.spellings() if name == "_".join(digits)), None)
        problem = Problem("field.form", "feature_level", brief(feature_level), expected, remedy=intended and f"write {intended!r}")
        raise DescError("feature level", [problem]) from None


@runtime_checkable
class Checkable(Protocol):
    """The protocol of objects that are made of descs and check themselves, such as a `Graph`."""

    def check(self, feature_level: Level, *, strict: bool) -> list[Problem]: ...

    def lowest_level(self) -> FeatureLevel | None: ...


_DESC_OR_GRAPH = "an operator's desc, like RNNDesc(...), or a Graph"
_REMEDIES = {
    "GraphBuilder": "build it: builder.build()",
    "Value": "make it an output, and build the graph: builder.output(name, value), builder.build()",
    "Expression": "make a graph of it: expression.graph()",
    "CompiledOperator": "it is compiled; its desc is op.desc",
    "PreparedOperator": "it is compiled; its desc is prepared.desc",
    "CompiledGraph": "it is compiled; its graph is compiled.graph",
    "PreparedGraph": "it is compiled; its graph is prepared.graph.graph",
    "OperatorNode": "its desc is node.operator",
    "TensorDesc": "it describes a tensor: give an operator's desc that holds it",
    "Sequential": "make a graph of it: model.to_graph()",
    "Model": "a model of ONNX has checks and graphs of its own: model.report(), model.compile(device)",
    "ModelProto": "read it first: dmlpy.onnx.load(proto).compile(device)",
}
"""Remedies for other objects, by the name of their class."""


def _of_name(text: str) -> str | None:
    """The remedy for a string that is a file's name, or JSON."""
    if text.endswith(".onnx"):
        return "read it first: dmlpy.onnx.load(path).compile(device)"
    if text.lstrip().startswith("{"):
        return "read it with OperatorDesc.from_json, or Graph.from_json"
    return "read the file's text with OperatorDesc.from_json, or Graph.from_json" if text.endswith(".json") else None


def no_desc(value: Any, expected: str, place: str = "desc") -> Problem:
    """The problem of a value in the place of a desc, such as an operator's class without its members."""
    remedy = None
    if isinstance(value, type) and issubclass(value, OperatorDesc):
        members = ", ".join([f"{field.name}=..." for field in value.inputs()][:2])
        remedy = f"pass its members: {value.__name__}({members}{', ' if members else ''}...)"
    elif isinstance(value, Mapping) and "Type" in value:
        remedy = "read it with OperatorDesc.from_dict"
    elif isinstance(value, str | PurePath):
        remedy = _of_name(str(value))
    else:
        remedy = _REMEDIES.get(type(value).__name__)
    return Problem("field.form", place, brief(value), expected, remedy=remedy)


@check_flags
def check(desc: OperatorDesc | Checkable, feature_level: Level = LATEST, *, strict: bool = False) -> list[Problem]:
    """Finds all problems of a desc or a graph; the result is empty if it is valid.

    Problems whose `severity` is `undocumented` do not make a desc invalid: Microsoft's page does not list a type that a released program
    passes to DirectML. `compile` accepts such descs.

    Args:
        desc: any operator's desc, or a graph. Problems in it are returned, not raised.
        feature_level: the level of DirectML that the desc must be valid for. Levels do not limit the operators that only dmlpy has.
            With None, the desc may also have tensors of BFLOAT16, which no DirectML has, where the highest level takes FLOAT16.
        strict: whether to check also what DirectML demands of the buffers behind the tensors (`TensorDesc.problems`).

    Returns:
        The problems, in the order of the struct's fields.

    Raises:
        DescError: there is no such level, or `desc` is neither.
    """
    if not isinstance(desc, OperatorDesc):
        if isinstance(desc, Checkable):
            return desc.check(feature_level, strict=strict)
        raise DescError("check", [no_desc(desc, _DESC_OR_GRAPH)])
    level = LATEST if feature_level is None else parse_level(feature_level)
    if desc.is_extension:
        level = LATEST  # an operator that DirectML lacks is not limited by its levels
    unlimited = _is_unlimited(desc, feature_level is None)
    if (level, strict, unlimited) in _valid_at(desc):
        return []
    problems = [*truncate(_problems(desc, level, desc.sizes(), strict=strict, unlimited=unlimited), MAX_PROBLEMS)]
    if not problems:
        _note_validity(desc, {(level, strict, unlimited)})
        return problems
    order = {name: index for index, name in enumerate(type(desc).model_fields)}
    return sorted(problems, key=lambda problem: order.get(problem.field, -1))


def _is_unlimited(desc: OperatorDesc, without_level: bool) -> bool:
    """Whether a desc of BFLOAT16 may have it: DirectML's levels do not limit what is checked without one, and dmlpy's own operators."""
    return (without_level or desc.is_extension) and desc.has_bfloat16


def _valid_at(desc: OperatorDesc) -> frozenset[tuple[FeatureLevel, bool, bool]]:
    """The levels at which a desc was found valid, each with whether the check was strict, and whether it might have BFLOAT16.

    A desc never changes: it is checked once.
    """
    valid_at: frozenset[tuple[FeatureLevel, bool, bool]] = desc.__dict__.get("_valid_at", frozenset())
    return valid_at


def _note_validity(desc: OperatorDesc, levels: Set[tuple[FeatureLevel, bool, bool]]) -> None:
    """Adds levels in a new set: copies of the desc for other sizes share the old one."""
    desc.__dict__["_valid_at"] = _valid_at(desc) | levels


def keep_validity(original: OperatorDesc, changed: OperatorDesc) -> None:
    """Notes that a desc is valid where another one is, from which it differs only by members that are known to be right.

    Such are flags that not every operator takes and that are gone, or members of another checked desc.
    """
    _note_validity(changed, _valid_at(original))


def lowest_level(desc: OperatorDesc | Checkable) -> FeatureLevel | None:
    """The lowest feature level that accepts a desc or a graph.

    Returns:
        The level; the lowest of all for operators that only dmlpy has; None if no level takes the desc.

    Raises:
        DescError: `desc` is neither.
    """
    if not isinstance(desc, OperatorDesc):
        if isinstance(desc, Checkable):
            return desc.lowest_level()
        raise DescError("lowest_level", [no_desc(desc, _DESC_OR_GRAPH)])
    if "_lowest_level" not in desc.__dict__:
        desc.__dict__["_lowest_level"] = _lowest_level(desc)
    lowest: FeatureLevel | None = desc.__dict__["_lowest_level"]
    return lowest


def _lowest_level(desc: OperatorDesc) -> FeatureLevel | None:
    levels = (level for level in FeatureLevel if desc.is_extension or level >= desc.introduced())
    symbols = desc.sizes()
    return next((level for level in levels if _is_valid(desc, level, symbols)), None)


def is_valid(desc: OperatorDesc, level: FeatureLevel) -> bool:
    """Returns whether a desc has no problems at a level; it stops at the first problem."""
    return (level, False, _is_unlimited(desc, False)) in _valid_at(desc) or _is_valid(desc, level, desc.sizes())


def _is_valid(desc: OperatorDesc, level: FeatureLevel, symbols: Sizes) -> bool:
    at = LATEST if desc.is_extension else level, False, _is_unlimited(desc, False)
    if at not in _valid_at(desc):
        if next(_problems(desc, at[0], symbols, strict=False, unlimited=at[2]), None) is not None:
            return False
        _note_validity(desc, {at})
    return True


def _problems(desc: OperatorDesc, level: FeatureLevel, symbols: Sizes, *, strict: bool, unlimited: bool) -> Iterator[Problem]:
    """Yields the problems of a desc by itself, whose size symbols are `symbols`; they are found lazily."""
    yield from _level_problems(desc, level)
    yield from _alone_problems(desc)
    yield from _common_problems(desc, level, symbols, strict=strict, sound=not strict and bool(_valid_at(desc)), unlimited=unlimited)


def _level_problems(desc: OperatorDesc, level: FeatureLevel) -> Iterator[Problem]:
    introduced = desc.introduced()
    if introduced > level:
        since = f"{desc.type_name} exists from feature level {introduced} on (DirectML {introduced.directml_version})"
        yield Problem("level.operator", "", f"{desc.type_name} at feature level {level}", f"feature level {introduced} or higher", (since,))


def _alone_problems(desc: OperatorDesc) -> Iterator[Problem]:
    for field in desc.tensor_fields():
        if field.marker.required and getattr(desc, field.name) is None:
            expected = "a tensor: it may be null only inside another struct" if field.marker.null_when_fused else "a tensor"
            remedy, in_file = ("with_outputs() describes it", _described(desc, field.name)) if field.marker.output else (None, None)
            yield Problem("tensor.missing", field.name, "missing", expected, remedy=remedy, c_remedy=in_file)


def _described(desc: OperatorDesc, output: str) -> str:
    """The remedy for an output that a file does not describe: the inferred tensor, if the other members tell it."""
    try:
        tensor: TensorDesc = getattr(desc.with_outputs(output), output)
    except ValueError:
        return "describe it"
    return f"describe it: {tensor.data_type.name} {listed(tensor.sizes)}"


def _common_problems(
    desc: OperatorDesc, level: FeatureLevel, symbols: Sizes, *, strict: bool, sound: bool = False, unlimited: bool = False
) -> Iterator[Problem]:
    """Yields the problems of an operator, whether it is alone or within another one.

    Args:
        desc: the desc.
        level: the feature level.
        symbols: its size symbols.
        strict: as for `check`.
        sound: whether it is valid at another level: what all levels have in common is not looked at again.
        unlimited: whether tensors may be of BFLOAT16 where they may be of FLOAT16.
    """
    row = row_at(desc.rows() or desc.support, level)
    measurable = True
    for slot in desc.slots():
        if sound and (slot.tensor is None or _is_between(len(slot.tensor.sizes), row.dims_for(slot.field.name))):
            continue
        if slot.tensor is not None and len(slot.tensor.sizes) > MAX_DIMENSION_COUNT:
            measurable = False
            yield from (problem.under(slot.place) for problem in slot.tensor.problems(output=slot.field.marker.output, strict=strict))
        elif slot.tensor is not None:
            tensor_problems = [
                problem.under(slot.place) for problem in slot.tensor.problems(output=slot.field.marker.output, strict=strict)
            ]
            for problem in tensor_problems:
                yield _with_reasons(problem, desc, slot, slot.tensor, symbols)
            if slot.tensor.flags is TensorFlags.OWNED_BY_DML:
                yield from _flag_problems(desc, slot)
            if slot.field.marker.reserve:
                yield from _reserve_problems(slot, slot.tensor)
            yield from _size_problems(desc, slot, slot.tensor, row, level, symbols, reported={problem.path for problem in tensor_problems})
    yield from _type_problems(desc, row, level, unlimited=unlimited)
    for attribute in desc.attribute_fields():
        value = getattr(desc, attribute.name)
        if isinstance(value, tuple) and len(value) > MAX_ENTRIES:
            measurable = False
            yield Problem("attribute.length", attribute.name, plural(len(value), "entry"), f"at most {MAX_ENTRIES}")
            continue
        if value is None:
            continue
        limited = list(limit_problems(desc, attribute, symbols, level))
        if not sound:
            limits = {problem.path for problem in limited}
            yield from (problem for problem in _number_problems(desc, attribute, value) if problem.path not in limits)
        yield from limited
        yield from _nested_problems(attribute.name, value, level)
    if not measurable:
        return  # rules that relate tensors are meaningless then, and some would count millions of sizes
    for name in desc.rules():
        yield from desc.rule_problems(name, symbols, level)


def _is_between(count: int, span: tuple[int, int]) -> bool:
    return span[0] <= count <= span[1]


def _level_reason(desc: OperatorDesc, level: FeatureLevel) -> tuple[str, ...]:
    return () if desc.is_extension else (f"feature level {level}",)


def _with_reasons(problem: Problem, desc: OperatorDesc, slot: Slot, tensor: TensorDesc, symbols: Sizes) -> Problem:
    """Adds to a problem of one tensor where its size comes from, if other tensors determine it: those must be changed."""
    if problem.code == "size.range":
        for axis, term in enumerate(desc.aligned(slot, len(tensor.sizes)) or ()):
            # A run is derived as a whole: `out` for `out[0]`.
            derived = (term.symbol or "").partition("[")[0] in type(desc).derived_sizes() and symbols.evaluate(term) == tensor.sizes[axis]
            if derived and problem.path == f"{slot.place}.sizes[{axis}]":
                return replace(problem, why=(*problem.why, symbols.why(term.symbol or "")))
    return problem


def _flag_problems(desc: OperatorDesc, slot: Slot) -> Iterator[Problem]:
    """The problem of a tensor with the flag OWNED_BY_DML."""
    if not slot.field.marker.output and not desc.accepts_owned:
        why = f"{desc.c_name} does not support OWNED_BY_DML on any input"
        remedy = "pass it at execution; CompiledOperator.prepare packs weights once, and in a graph ELEMENT_WISE_IDENTITY can own them"
        yield Problem("flag.owned", f"{slot.place}.flags", "OWNED_BY_DML", "NONE", (why,), remedy)


def _reserve_problems(slot: Slot, tensor: TensorDesc) -> Iterator[Problem]:
    """The problem of a reserve with strides."""
    if not tensor.is_packed:
        why = ("a reserve's layout is internal to the device",)
        yield Problem("stride.reserve", f"{slot.place}.strides", listed(tensor.element_strides), "packed strides, or none", why)


def _size_problems(
    desc: OperatorDesc, slot: Slot, tensor: TensorDesc, row: SupportRow, level: FeatureLevel, symbols: Sizes, reported: set[str]
) -> Iterator[Problem]:
    count, field = len(tensor.sizes), slot.field
    least, most = row.dims_for(field.name)
    own_terms = desc.terms(field)
    terms = desc.aligned(slot, count)
    if not least <= count <= most or terms is None:
        if f"{slot.place}.sizes" not in reported:
            yield _dims_problem(desc, slot, tensor, row, level, symbols)
        return
    run = run_of(own_terms, count)
    if run is not None and (width := symbols.evaluate(run[0])) not in (None, run[1]):
        expected = count - run[1] + (width or 0)
        why = (f"{slot.place} is {show(own_terms)}", symbols.why(run[0].symbol or ""))
        remedy = desc.size_remedy(field, symbols) or _ones_in_front(desc, slot, tensor, expected, symbols)
        yield Problem("dims.equal", f"{slot.place}.sizes", plural(count, "dimension"), plural(expected, "dimension"), why, remedy)
        return
    if symbols.explain(terms, tensor.sizes):
        return
    wanted = [symbols.evaluate(term) for term in terms]
    rows = list(zip(terms, wanted, tensor.sizes, strict=True))
    pattern = f"{slot.place} is {show(own_terms)}"
    if all(value in (None, size) for _, value, size in rows):
        remedy = None
    else:
        remedy = desc.size_remedy(field, symbols)
        if remedy is None and None not in wanted and is_permutation(tensor.sizes, wanted):  # type: ignore[arg-type]
            remedy = f"the sizes are right in another order: {wanted}"
    for axis, (term, value, size) in enumerate(rows):
        path = f"{slot.place}.sizes[{axis}]"
        if value is not None and size != value and path not in reported:
            wanted_size = str(value) if term.symbol is None else f"{term} = {value}"
            reasons = (pattern,) if term.symbol is None else (pattern, symbols.why(term.symbol))
            half = field.marker.if_half if term.factor % 2 == 0 and 2 * size == value else None
            yield Problem("size.equal", path, str(size), wanted_size, reasons, half or remedy)
        elif value is None and size % term.factor and path not in reported:
            yield Problem("size.multiple", path, str(size), f"a multiple of {term.factor}", (pattern,))


def _dims_problem(desc: OperatorDesc, slot: Slot, tensor: TensorDesc, row: SupportRow, level: FeatureLevel, symbols: Sizes) -> Problem:
    """A dimension count that the level, or the operator, does not take."""
    count, name = len(tensor.sizes), slot.field.name
    least, most = row.dims_for(name)
    own_terms = desc.terms(slot.field)
    fitting = [dims for dims in range(least, most + 1) if desc.aligned(slot, dims)] or [least]
    expected = support.show_dims((fitting[0], fitting[-1]))
    fits = desc.aligned(slot, count) is not None
    later = level_for(desc.rows(), level, lambda item: item.dims_for(name)[0] <= count <= item.dims_for(name)[1] and fits)
    wanted = symbols.infer(own_terms)
    # A level that accepts the count does not help if the other tensors have another one.
    agreed = wanted is None or len(wanted) == count
    size_remedy = desc.size_remedy(slot.field, symbols)
    remedy = f"feature level {later} takes {count}" if later and agreed else size_remedy
    if later and agreed and (fuller := desc.fuller_remedy(slot.field, fitting[0])) is not None:
        remedy = f"{fuller}; or {remedy}"
    # If the other tensors have an accepted count, that one is suggested.
    target = fitting[0] if wanted is None or len(wanted) not in fitting else len(wanted)
    # The operator's remedy puts the sizes where they belong, which is not always behind leading ones.
    padded = None
    if size_remedy is None:
        padded = _ones_in_front(desc, slot, tensor, target, symbols if wanted is not None and len(wanted) == target else Sizes())
    if padded is not None:
        remedy = f"{padded}; or {remedy}" if remedy else padded
    elif remedy is None and count > fitting[-1] and math.prod(tensor.sizes[: count - fitting[-1]]) == 1:
        remedy = f"leave out leading ones: sizes {list(tensor.sizes[count - fitting[-1] :])}"
        remedy += "" if tensor.strides is None else f" and strides {list(tensor.strides[count - fitting[-1] :])}"
    why = (f"{slot.place} is {show(own_terms)}", *_level_reason(desc, level))
    actual = Count(f"{plural(count, 'dimension')} {listed(tensor.sizes)}")
    return Problem("dims.support", f"{slot.place}.sizes", actual, expected, why, remedy)


def _ones_in_front(desc: OperatorDesc, slot: Slot, tensor: TensorDesc, count: int, symbols: Sizes) -> str | None:
    """A remedy for a tensor that lacks only the leading ones of a run or of the pattern, if the other tensors agree."""
    missing, pattern, terms = count - len(tensor.sizes), desc.terms(slot.field), desc.aligned(slot, count)
    if terms is None or missing <= 0:
        return None
    if not (pattern[0].run or all(term == Term(1) for term in pattern[:missing])):
        return None
    padded = (1,) * missing + tensor.sizes
    agrees = all(symbols.evaluate(term) in (None, size) for term, size in zip(terms, padded, strict=True))
    strides = "" if tensor.strides is None else f" and strides {[*[0] * missing, *tensor.strides]}"
    return f"put ones in front: sizes {list(padded)}{strides}" if agrees else None


def _type_problems(desc: OperatorDesc, row: SupportRow, level: FeatureLevel, *, unlimited: bool) -> Iterator[Problem]:
    def taken(types: TypeSet) -> TypeSet:
        return with_bfloat16(types) if unlimited and not desc.combines_bits else types

    tensors = [(slot.place, desc.type_variable(slot.field), slot.tensor) for slot in desc.slots() if slot.tensor is not None]
    for place, types, tensor in tensors:
        if isinstance(types, frozenset) and tensor.data_type not in taken(types):
            yield _type_problem(desc, place, types, tensor, taken(types), level)
    for variable, limited in row.types.items():
        allowed = taken(limited)
        of_variable = [(place, tensor) for place, types, tensor in tensors if types == variable]
        if not of_variable or (
            of_variable[0][1].data_type in allowed and all(tensor.data_type is of_variable[0][1].data_type for _, tensor in of_variable)
        ):
            continue
        candidates = [tensor.data_type for _, tensor in of_variable if tensor.data_type in allowed]
        entry = None
        if not candidates and (entry := find_undocumented(desc, variable, [tensor for _, tensor in of_variable], level)) is not None:
            candidates = [tensor.data_type for _, tensor in of_variable if str(tensor.data_type) in entry.types]
        # The sort is stable, so a tie goes to the earliest field.
        winner = next(iter(Counter(candidates).most_common(1)), (None,))[0]
        places = [place for place, tensor in of_variable if tensor.data_type is winner]
        for place, tensor in of_variable:
            if entry is not None and tensor.data_type is winner:
                yield undocumented_type(place, tensor, allowed, entry, level)
            if tensor.data_type is winner or tensor.data_type is DataType.UNKNOWN:
                continue
            if winner is None:
                yield _type_problem(desc, place, variable, tensor, allowed, level)
                continue
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            why = (f"tensors of type {variable} must share a data type: {winner} is used by {', '.join(places[:3])}{more}",)
            if tensor.data_type in allowed or entry is not None:
                yield Problem("type.equal", f"{place}.data_type", str(tensor.data_type), str(winner), why)
            else:
                yield _type_problem(desc, place, variable, tensor, frozenset({winner}), level, why)


def _type_problem(
    desc: OperatorDesc,
    place: str,
    variable: TypeSet | str,
    tensor: TensorDesc,
    allowed: TypeSet,
    level: FeatureLevel,
    why: tuple[str, ...] = (),
) -> Problem:
    later = None
    if isinstance(variable, str):
        later = level_for(desc.rows(), level, lambda row: tensor.data_type in row.types.get(variable, frozenset()))
    remedy = f"feature level {later} takes {tensor.data_type}" if later else _other_sign(desc, variable, tensor.data_type, allowed, level)
    why = (*why, *_level_reason(desc, level)) if isinstance(variable, str) else why
    if tensor.data_type is DataType.BFLOAT16 and with_bfloat16(allowed) != allowed:
        why = (WHY_NO_LEVEL,)
        remedy = "use FLOAT16 or FLOAT32, or compile without a feature level"
        if desc.combines_bits:
            why, remedy = ("the bits of elements are combined",), "describe the same memory as UINT16"
    return Problem("type.support", f"{place}.data_type", str(tensor.data_type), support.show(allowed), why, remedy)


def _other_sign(desc: OperatorDesc, variable: TypeSet | str, data_type: DataType, allowed: TypeSet, level: FeatureLevel) -> str | None:
    """A remedy for integers where only the type of other signedness is accepted: bytes agree if no number is negative."""
    kin = data_type.name.removeprefix("U") if data_type.name.startswith("U") else f"U{data_type.name}"
    if kin not in DataType.__members__ or "INT" not in data_type.name:
        return None
    other = DataType[kin]
    since = None
    if other not in allowed:
        if isinstance(variable, str):
            since = level_for(desc.rows(), level, lambda row: other in row.types.get(variable, frozenset()))
        if since is None:
            return None
    later = f", which feature level {since} takes" if since else ""
    return f"describe it as {other}{later}: numbers of 0 to {2 ** (data_type.bits - 1) - 1} have the same bytes in both"


def _number_problems(desc: OperatorDesc, attribute: AttributeField, value: Any) -> Iterator[Problem]:
    """Yields numbers that the C member cannot hold."""
    if isinstance(value, DmlEnum | OperatorDesc):
        return
    if isinstance(value, Struct) and not isinstance(value, OperatorDesc):
        parts = [(f"{attribute.name}.{name}", getattr(value, name)) for name in type(value).model_fields]
    else:
        parts = [(f"{attribute.name}[{index}]", item) for index, item in enumerate(value)] if isinstance(value, tuple) else []
    least, most = (-(2**31), 2**31 - 1) if attribute.signed else (0, MAX_UINT32)
    for path, item in parts or [(attribute.name, value)]:
        if isinstance(item, float) and FLOAT32_OVERFLOW <= abs(item) < math.inf and attribute.name not in desc.scalars:
            yield Problem("attribute.range", path, repr(item), "a number that a 32-bit float holds")
        # Operators that only dmlpy has use integers of other widths, which their rules limit.
        number = isinstance(item, int) and not isinstance(item, bool | DmlEnum) and attribute.name not in desc.scalars
        if number and not least <= item <= most and (parts or not desc.is_extension):
            yield Problem("attribute.range", path, str(item), f"{least} to {most}")
    if (companion := desc.scalars.get(attribute.name)) is not None:
        typed = getattr(desc, companion)
        data_type = typed if isinstance(typed, DataType) else getattr(typed, "data_type", None)
        if data_type is not None and not holds(data_type, value):
            why = (f"{companion} is {data_type}",) if isinstance(typed, DataType) else (f"{companion} has elements of type {data_type}",)
            yield Problem("attribute.range", attribute.name, str(value), f"a number that {data_type} holds", why)


def holds(data_type: DataType, value: float) -> bool:
    """Returns whether an element type can hold a number: integers exactly, floats after rounding, without overflow."""
    name = str(data_type)
    if "FLOAT" in name:
        limit = {"FLOAT16": 65520.0, "BFLOAT16": _BFLOAT16_OVERFLOW, "FLOAT32": FLOAT32_OVERFLOW}.get(name, math.inf)
        return not abs(value) < math.inf or abs(value) < limit
    if not data_type.bits or (isinstance(value, float) and not value.is_integer()):
        return False
    half = 1 << (data_type.bits - 1)
    return 0 <= value < 2 * half if name.startswith("U") else -half <= value < half


def _nested_problems(name: str, value: Any, level: FeatureLevel) -> Iterator[Problem]:
    for index, item in enumerate(value if isinstance(value, tuple) else (value,)):
        if not isinstance(item, OperatorDesc):
            continue
        path = f"{name}[{index}]" if isinstance(value, tuple) else name
        for slot in item.slots():
            if slot.tensor is not None:
                yield Problem("tensor.fused", f"{path}.{slot.place}", "a tensor", "null: inside another struct a function has no tensors")
        bare = item.replace(**{field.name: None for field in item.tensor_fields()})
        inner = [*_level_problems(bare, level), *_common_problems(bare, level, bare.sizes(), strict=False)]
        yield from (problem.under(path) for problem in inner)
