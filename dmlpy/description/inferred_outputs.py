"""The outputs that a desc's inputs determine, and why they do not determine one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dmlpy.description.coercion import brief
from dmlpy.description.enums import DataType, FeatureLevel
from dmlpy.description.markers import limit_problems
from dmlpy.description.registry import OPERATORS
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import did_you_mean
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence


def _training_remedy(desc: Any, name: str) -> str | None:
    """The desc of an operator's training form, if that has the output."""
    training = OPERATORS.announced(type(desc).__name__.removesuffix("Desc") + "Training")
    if training is None or name not in [field.name for field in training.outputs()]:
        return None
    return f"{training.__name__} has it"


def inferred_outputs(desc: Any, names: Sequence[str], data_types: Mapping[str, DataType | str | int | None]) -> dict[str, TensorDesc]:
    """The descs of outputs by field, as `OperatorDesc.with_outputs` sets them.

    Args:
        desc: an `OperatorDesc` with its inputs.
        names: output fields in either spelling; none means all that the desc may have.
        data_types: the types of outputs for which the operator has a choice, by field; None stands for the one that is inferred.

    Raises:
        DescError: no such output, or the inputs do not determine its sizes.
    """
    if not isinstance(data_types, Mapping):
        example = ", ".join(f"{field.name!r}: ..." for field in desc.outputs())
        raise DescError(desc.c_name, [Problem("field.form", "data_types", brief(data_types), f"a type for each output: {{{example}}}")])
    source = {desc.member_named(spelling) or spelling: given for spelling, given in data_types.items()}
    outputs = {field.name: field for field in desc.outputs()}
    problems, wanted = [], {}
    for spelling in names or desc.applicable_outputs():
        if not isinstance(spelling, str):
            problems.append(Problem("field.form", "names", brief(spelling), "the name of an output"))
            continue
        name = desc.member_named(spelling)
        if name not in outputs:
            expected = f"one of {', '.join(outputs)}"
            remedy = did_you_mean(spelling, outputs) or _training_remedy(desc, name or spelling)
            problems.append(Problem("field.unknown", spelling, "not an output", expected, remedy=remedy))
            continue
        if outputs[name].listed:
            expected = "a TensorDesc for each: no input determines their number and sizes"
            problems.append(Problem("size.unknown", name, "not determined", expected))
            continue
        sizes = desc.inferred_sizes(outputs[name])
        if sizes is None:
            # Without a reason the output would be left out silently.
            remedy = "dml.check(desc) reports the cause"
            missing = Problem("size.unknown", name, "not determined", "an input tensor that determines its sizes", remedy=remedy)
            # An invalid tensor or attribute determines nothing: its problems are the cause.
            reasons = [*_wrong_inputs(desc), *_wrong_attributes(desc)] or _wrong_without(desc, outputs)
            wrong = reasons or list(dict.fromkeys(desc.undetermined_sizes(outputs[name]))) or [missing]
            problems += [problem for problem in wrong if problem not in problems]
            continue
        given = source.pop(name, None)
        data_type = desc.inferred_type(outputs[name]) if given is None else given
        with suppress(ValueError):  # which the tensor's desc reports
            data_type = DataType.parse(data_type)
        wanted[name] = TensorDesc(data_type=data_type, sizes=sizes)
    for name in () if problems else source:
        expected = f"one of {', '.join(wanted)}"
        problems.append(Problem("field.unknown", name, "not an inferred output", expected, remedy=did_you_mean(name, wanted)))
    if problems:
        raise DescError(desc.c_name, problems)
    return wanted


def _wrong_inputs(desc: Any) -> list[Problem]:
    """The problems of each input by itself."""
    described = ((slot.place, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None)
    return [problem.under(place) for place, tensor in described for problem in tensor.problems(output=False)]


def _wrong_attributes(desc: Any) -> list[Problem]:
    """The problems of attributes beyond their limits."""
    symbols, level = desc.sizes(), max(FeatureLevel)
    return [problem for attribute in desc.attribute_fields() for problem in limit_problems(desc, attribute, symbols, level)]


def _wrong_without(desc: Any, outputs: Iterable[str]) -> list[Problem]:
    """The problems by the operator's rules that do not concern outputs."""
    level = max(FeatureLevel)
    return [problem for name in desc.rules() for problem in desc.rule_problems(name, desc.sizes(), level) if problem.field not in outputs]
