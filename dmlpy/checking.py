"""`check`: every rule that a desc breaks, at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dmlpy import support
from dmlpy.descs import OperatorDesc, TensorField
from dmlpy.enums import DataType, FeatureLevel, TensorFlags
from dmlpy.naming import plural
from dmlpy.problems import DescError, Problem
from dmlpy.sizes import Sizes, UnboundSymbolError, align, is_permutation, run_of, show
from dmlpy.structs import brief
from dmlpy.support import Since, TypeSet, level_for, row_at
from dmlpy.tensors import MAX_UINT32, TensorDesc

FLOAT32_OVERFLOW = 2.0**128 - 2.0**103
"""The least number that a 32-bit float rounds to infinity; what is printed as FLT_MAX lies between it and the largest float."""

LATEST = FeatureLevel.FL_6_4


def parse_level(feature_level: FeatureLevel | str | int) -> FeatureLevel:
    """The level that a member, a name (`5_0`, `5.0`, `DML_FEATURE_LEVEL_5_0`) or the header's number stands for.

    Raises:
        DescError: there is no such level.
    """
    try:
        return FeatureLevel.parse(feature_level)
    except ValueError as error:
        problem = Problem("field.form", "feature_level", repr(feature_level), str(error).removeprefix("expected "))
        raise DescError("feature level", [problem]) from None


def check(desc: OperatorDesc, feature_level: FeatureLevel | str | int = LATEST, *, strict: bool = False) -> list[Problem]:
    """All problems of a desc; empty when it is valid.

    Args:
        desc: any operator's desc; whatever it holds, this function does not raise for it.
        feature_level: a cap: the desc must be valid for a DirectML that has no more than this level. dmlpy's own operators know no levels.
        strict: also what DirectML demands of the buffers behind the tensors (`TensorDesc.problems`).

    Returns:
        The problems, in the order of the struct's fields.

    Raises:
        DescError: there is no such level, or `desc` is no operator's desc.
    """
    if not isinstance(desc, OperatorDesc):
        raise DescError("check", [Problem("field.form", "desc", brief(desc), "an operator's desc, like RNNDesc(...)")])
    level = parse_level(feature_level)
    if desc.own:
        level = LATEST  # what DirectML does not have at all, no level of it limits
    order = {name: index for index, name in enumerate(type(desc).model_fields)}
    found = [*_level_problems(desc, level), *_alone_problems(desc), *_common_problems(desc, level, strict=strict)]
    return sorted(found, key=lambda problem: order.get(problem.field, -1))


def _level_problems(desc: OperatorDesc, level: FeatureLevel) -> Iterator[Problem]:
    introduced = desc.introduced()
    if introduced > level:
        since = f"{desc.type_name} exists from feature level {introduced} on (DirectML {introduced.directml_version})"
        yield Problem("level.operator", "", f"{desc.type_name} at feature level {level}", f"feature level {introduced} or higher", (since,))


def _alone_problems(desc: OperatorDesc) -> Iterator[Problem]:
    for field in desc.tensor_fields():
        if field.marker.required and getattr(desc, field.name) is None:
            expected = "a tensor: only inside another struct it is null" if field.marker.null_when_fused else "a tensor"
            remedy = "with_outputs() describes it" if field.marker.output else None
            yield Problem("tensor.missing", field.name, "missing", expected, remedy=remedy)


def _common_problems(desc: OperatorDesc, level: FeatureLevel, *, strict: bool) -> Iterator[Problem]:
    row = row_at(desc.support, level)
    known = desc.sizes()
    for field in desc.tensor_fields():
        tensor = getattr(desc, field.name)
        if tensor is not None:
            own = [problem.under(field.name) for problem in tensor.problems(output=field.marker.output, strict=strict)]
            yield from (_explained(problem, desc, field, tensor, known) for problem in own)
            yield from _flag_problems(desc, field, tensor)
            yield from _reserve_problems(field, tensor)
            yield from _size_problems(desc, field, tensor, row, level, known, reported={problem.path for problem in own})
    yield from _type_problems(desc, row, level)
    for name in desc.attribute_names():
        value = getattr(desc, name)
        yield from _number_problems(name, value)
        yield from _nested_problems(name, value, level)
    for name in desc.rules():
        for breach in _breaches(desc, name, known, level):
            yield Problem(name, breach.path, breach.found, breach.expected, breach.why, breach.remedy)


def _level_reason(desc: OperatorDesc, level: FeatureLevel) -> tuple[str, ...]:
    return () if desc.own else (f"feature level {level}",)


def _breaches(desc: OperatorDesc, name: str, known: Sizes, level: FeatureLevel) -> list[Any]:
    try:
        return list(getattr(desc, name)(known, level))
    except UnboundSymbolError:
        return []  # a rule on a symbol that no well-formed tensor binds: the tensors' own problems say so


def _explained(problem: Problem, desc: OperatorDesc, field: TensorField, tensor: TensorDesc, known: Sizes) -> Problem:
    """A problem of a tensor alone, with where its size comes from if other tensors determine it: there it has to be mended."""
    if problem.code == "size.range":
        for axis, term in enumerate(align(desc.terms(field), len(tensor.sizes)) or ()):
            derived = term.symbol in type(desc).derived_sizes() and known.evaluate(term) == tensor.sizes[axis]
            if derived and problem.path == f"{field.name}.sizes[{axis}]":
                return replace(problem, why=(*problem.why, known.why(term.symbol or "")))
    return problem


def _flag_problems(desc: OperatorDesc, field: TensorField, tensor: TensorDesc) -> Iterator[Problem]:
    if tensor.flags is TensorFlags.OWNED_BY_DML and not field.marker.output and not desc.accepts_owned:
        why = f"{desc.c_name} supports it on none of its inputs"
        remedy = "pass it at execution; CompiledOperator.prepare packs weights once, in a graph ELEMENT_WISE_IDENTITY can own them"
        yield Problem("flag.owned", f"{field.name}.flags", "OWNED_BY_DML", "NONE", (why,), remedy)


def _reserve_problems(field: TensorField, tensor: TensorDesc) -> Iterator[Problem]:
    if field.marker.reserve and not tensor.is_packed:
        why = ("what lies where in a reserve is the device's own affair",)
        yield Problem("stride.reserve", f"{field.name}.strides", str(list(tensor.element_strides)), "packed strides, or none", why)


def _size_problems(
    desc: OperatorDesc, field: TensorField, tensor: TensorDesc, row: Since, level: FeatureLevel, known: Sizes, reported: set[str]
) -> Iterator[Problem]:
    count = len(tensor.sizes)
    least, most = row.dims
    own_terms = desc.terms(field)
    pattern = f"{field.name} is {show(own_terms)}"
    terms = align(own_terms, count)
    if not least <= count <= most or terms is None:
        if f"{field.name}.sizes" in reported:
            return
        fitting = [dims for dims in range(least, most + 1) if align(own_terms, dims)]
        expected = plural(fitting[0], "dimension") if len(fitting) == 1 else f"{fitting[0]} to {fitting[-1]} dimensions"
        later = level_for(desc.support, level, lambda item: item.dims[0] <= count <= item.dims[1] and terms is not None)
        remedy = f"feature level {later} takes {count}" if later else desc.size_remedy(field, known)
        padded = (1,) * (fitting[0] - count) + tensor.sizes
        if count < fitting[0] and all(term.symbol is None and term.factor == 1 for term in own_terms[: fitting[0] - count]):
            remedy = f"put ones in front: sizes {list(padded)}" + (f"; or {remedy}" if remedy else "")
        why = (pattern, *_level_reason(desc, level))
        found = f"{plural(count, 'dimension')} {list(tensor.sizes)}"
        yield Problem("dims.support", f"{field.name}.sizes", found, expected, why, remedy)
        return
    run = run_of(own_terms, count)
    if run is not None and (width := known.evaluate(run[0])) not in (None, run[1]):
        expected = plural(count - run[1] + (width or 0), "dimension")
        yield Problem("dims.equal", f"{field.name}.sizes", plural(count, "dimension"), expected, (pattern, known.why(run[0].symbol or "")))
        return
    wanted = [known.evaluate(term) for term in terms]
    remedy = desc.size_remedy(field, known)
    if remedy is None and None not in wanted and is_permutation(tensor.sizes, wanted):  # type: ignore[arg-type]
        remedy = f"the sizes are right in another order: {wanted}"
    for axis, (term, value, size) in enumerate(zip(terms, wanted, tensor.sizes, strict=True)):
        path = f"{field.name}.sizes[{axis}]"
        if value is not None and size != value and path not in reported:
            expected = str(value) if term.symbol is None else f"{term} = {value}"
            reasons = (pattern,) if term.symbol is None else (pattern, known.why(term.symbol))
            half = field.marker.if_half if term.factor % 2 == 0 and 2 * size == value else None
            yield Problem("size.equal", path, str(size), expected, reasons, half or remedy)
        elif value is None and size % term.factor and path not in reported:
            yield Problem("size.multiple", path, str(size), f"a multiple of {term.factor}", (pattern,))


def _type_problems(desc: OperatorDesc, row: Since, level: FeatureLevel) -> Iterator[Problem]:
    tensors = [(field, desc_) for field in desc.tensor_fields() if (desc_ := getattr(desc, field.name)) is not None]
    for field, tensor in tensors:
        if isinstance(field.marker.types, frozenset) and tensor.data_type not in field.marker.types:
            yield _type_problem(desc, field, tensor, field.marker.types, level)
    for variable, allowed in row.types.items():
        held = [(field, tensor) for field, tensor in tensors if field.marker.types == variable]
        votes = [tensor.data_type for _, tensor in held if tensor.data_type in allowed]
        # max() keeps the first of equals: a tie goes to the earliest field.
        winner = max(votes, key=votes.count, default=None)
        places = [f"{field.name}" for field, tensor in held if tensor.data_type is winner]
        for field, tensor in held:
            if tensor.data_type is winner or tensor.data_type is DataType.UNKNOWN:
                continue
            if winner is None:
                yield _type_problem(desc, field, tensor, allowed, level)
                continue
            more = f" and {len(places) - 3} more" if len(places) > 3 else ""
            why = (f"all tensors of type {variable} have one type: {winner} is held by {', '.join(places[:3])}{more}",)
            if tensor.data_type in allowed:
                yield Problem("type.equal", f"{field.name}.data_type", str(tensor.data_type), str(winner), why)
            else:
                yield _type_problem(desc, field, tensor, frozenset({winner}), level, why)


def _type_problem(
    desc: OperatorDesc, field: TensorField, tensor: TensorDesc, allowed: TypeSet, level: FeatureLevel, why: tuple[str, ...] = ()
) -> Problem:
    variable = field.marker.types
    later = None
    if isinstance(variable, str):
        later = level_for(desc.support, level, lambda row: tensor.data_type in row.types.get(variable, frozenset()))
    remedy = f"feature level {later} takes {tensor.data_type}" if later else None
    why = (*why, *_level_reason(desc, level)) if isinstance(variable, str) else why
    return Problem("type.support", f"{field.name}.data_type", str(tensor.data_type), support.show(allowed), why, remedy)


def _number_problems(name: str, value: Any) -> Iterator[Problem]:
    if isinstance(value, float) and math.isfinite(value) and abs(value) >= FLOAT32_OVERFLOW:
        yield Problem("attribute.range", name, repr(value), "a number that a 32-bit float holds")
    elif isinstance(value, tuple) and all(isinstance(item, int) for item in value):
        for index, item in enumerate(value):
            if not 0 <= item <= MAX_UINT32:
                yield Problem("attribute.range", f"{name}[{index}]", str(item), f"0 to {MAX_UINT32}")


def _nested_problems(name: str, value: Any, level: FeatureLevel) -> Iterator[Problem]:
    nested = [(f"{name}[{index}]", item) for index, item in enumerate(value)] if isinstance(value, tuple) else [(name, value)]
    for path, item in nested:
        if not isinstance(item, OperatorDesc):
            continue
        for field in item.tensor_fields():
            if getattr(item, field.name) is not None:
                yield Problem("tensor.fused", f"{path}.{field.name}", "a tensor", "null: inside another struct a function has no tensors")
        bare = item.replace(**{field.name: None for field in item.tensor_fields()})
        inner = [*_level_problems(bare, level), *_common_problems(bare, level, strict=False)]
        yield from (problem.under(path) for problem in inner)
