"""Writes the functions of `dmlpy.x` from the operators' classes: the text of the modules in `dmlpy/x/functions`."""

from __future__ import annotations

import re
import textwrap
from enum import EnumType
from typing import TYPE_CHECKING

from dmlpy.description import enums
from dmlpy.description.accepted_types import accepted_type
from dmlpy.description.enums import DmlEnum
from dmlpy.description.registry import OPERATORS
from dmlpy.x.defaults import default_text, has_default
from dmlpy.x.signatures import argument_name, function_name, output_name, shares_sizes, takes_sizes, tuple_name, typed_outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.markers import TensorField
    from dmlpy.description.member_docs import MemberInfo

_LONGEST = 140
"""The columns of a line of code."""
WIDTH = 116
"""The columns of a line of documentation."""

_HEAD = '''# Written by `python -m dmlpy.x.stubs`: do not edit.
"""The functions of the operators in `dmlpy.operators.{family}`."""

from __future__ import annotations

'''
_TYPE = "DataType | str | int | dtype[Any] | type[generic]"
_EXTRA = {
    "CAST": {"output_data_type": (_TYPE, "The data type of the result")},
    "SPLIT": {"output_axis_sizes": ("Sequence[int]", "The sizes of the parts along the axis")},
    "ONE_HOT": {"output_length": ("int | integer[Any]", "The size of the result along the axis")},
}
"""Arguments that describe the output of operators whose inputs do not determine it."""
_HEAVY = {"FusableDesc": "dmlpy.description.descs", "Device": "dmlpy.devices", "ActivationDesc": "dmlpy.operators.activation"}
"""Classes that only type checkers need, by module."""
_TUPLE_METHODS = ("count", "index")
"""Fields of named tuples that hide a method of tuples."""

Parameter = tuple[str, str, str, str]
"""The name, type, default (empty if there is none) and text of a parameter."""


def modules() -> dict[str, str]:
    """The text of the module of each family."""
    return {family: _module(family, kinds) for family, kinds in families().items()}


def families() -> dict[str, list[type[OperatorDesc]]]:
    """DirectML's operators by family."""
    by_family: dict[str, list[type[OperatorDesc]]] = {}
    for kind in OPERATORS.values():
        if not kind.is_extension:
            by_family.setdefault(kind.family(), []).append(kind)
    return dict(sorted(by_family.items()))


def names() -> dict[str, str]:
    """The public names that are generated, by the module below `dmlpy.x` that has them."""
    by_name = {}
    for family, kinds in families().items():
        for kind in kinds:
            by_name[function_name(kind)] = f"functions.{family}"
            if is_several(kind):
                by_name[tuple_name(kind)] = f"functions.{family}"
    return by_name


def is_several(kind: type[OperatorDesc]) -> bool:
    """Whether the function returns a named tuple."""
    return len(kind.outputs()) > 1


def _module(family: str, kinds: Iterable[type[OperatorDesc]]) -> str:
    body = "\n\n".join("\n".join(_function(kind)) for kind in kinds)
    return _HEAD.format(family=family) + "\n".join(_imports(body)) + "\n\n\n" + body + "\n"


def _imports(body: str, *, stub: bool = False) -> Iterator[str]:
    code = re.sub(r'""".*?"""', "", body, flags=re.DOTALL)

    def find_used(candidates: Iterable[str]) -> list[str]:
        return [name for name in candidates if re.search(rf"\b{name}\b", code)]

    later = find_used(_HEAVY)
    kinds = [name for name, value in vars(enums).items() if isinstance(value, EnumType)]
    imports: Mapping[str, list[str]] = {
        "collections.abc": find_used(["Iterable", "Mapping", "Sequence"]),
        "typing": [*(["TYPE_CHECKING"] if later and not stub else []), *find_used(["Any", "NamedTuple"])],
        "numpy": find_used(["bool_", "dtype", "floating", "generic", "integer", "number"]),
        "dmlpy.description.enums": find_used(sorted(kinds)),
        "dmlpy.description.value_structs": find_used(["ScaleBias", "Size2D"]),
        "dmlpy.x.arguments": find_used(["refuse_others"]),
        "dmlpy.x.expressions": find_used(["Array", "Expression", "one", "several"]),
    }
    if stub:
        imports = {**imports, **{_HEAVY[name]: [*imports.get(_HEAVY[name], []), name] for name in later}}
        imports = dict(sorted(imports.items()))
    standard = ("collections.abc", "typing")
    for modules in ([name for name in imports if name in standard], ["numpy"], [name for name in imports if name.startswith("dmlpy")]):
        lines = [_import_line(module, imports[module]) for module in modules if imports[module]]
        yield from [*lines, ""] if lines else []
    if later and not stub:
        yield from ["if TYPE_CHECKING:", *(f"    from {_HEAVY[name]} import {name}" for name in later)]


def _import_line(module: str, names: Iterable[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= _LONGEST else "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _function(kind: type[OperatorDesc]) -> Iterator[str]:
    if is_several(kind):
        yield from _named_tuple(kind)
    operands, others = parameters(kind)
    returned = tuple_name(kind) if is_several(kind) else "tuple[Expression, ...]" if kind.outputs()[0].listed else "Expression"
    yield "@refuse_others"
    yield f"def {function_name(kind)}("
    yield from (_declaration(parameter) for parameter in operands)
    if others:
        yield "    *,"
        yield from (_declaration(parameter) for parameter in others)
    yield f") -> {returned}:"
    yield from textwrap.indent(f'"""{documentation(kind)}\n"""', "    ").splitlines()
    members = {field.name: argument_name(field) for field in kind.inputs()} | {name: name for name, *_ in others}
    call = "several" if is_several(kind) or kind.outputs()[0].listed else "one"
    opening, closing = (f"{tuple_name(kind)}(*", ")") if is_several(kind) else ("", "")
    yield f"    return {opening}{call}("
    yield f'        "{kind.short_name()}",'
    yield from (f"        {member}={argument}," for member, argument in members.items())
    yield f"    ){closing}"
    yield ""


def parameters(kind: type[OperatorDesc]) -> tuple[list[Parameter], list[Parameter]]:
    """The parameters of an operator's function: those for operands, and those that are given by name."""
    return list(_operands(kind)), list(_others(kind))


def documentation(kind: type[OperatorDesc]) -> str:
    """The documentation of an operator's function: what it computes, its arguments and its results."""
    operands, others = parameters(kind)
    return "\n".join(_documentation(kind, [*operands, *others]))


def _named_tuple(kind: type[OperatorDesc]) -> Iterator[str]:
    texts = {info.name: info for info in kind.members()}
    yield f"class {tuple_name(kind)}(NamedTuple):"
    yield f'    """The outputs of `{function_name(kind)}`."""'
    yield ""
    for field in kind.outputs():
        name = output_name(kind, field)
        ignored = "  # type: ignore[assignment]" if name in _TUPLE_METHODS else ""
        yield f"    {name}: Expression{ignored}"
        yield from _text_lines(texts[field.name].text)
    yield ""
    yield ""


def _text_lines(text: str) -> Iterator[str]:
    lines = textwrap.wrap(f'"""{" ".join(text.split())}', WIDTH - 3, initial_indent="    ", subsequent_indent="    ")
    yield from [f'{lines[0]}"""'] if len(lines) == 1 else [*lines, '    """']


def _declaration(parameter: Parameter) -> str:
    name, annotation, default, _ = parameter
    return f"    {name}: {annotation}{f' = {default}' if default else ''},"


def _operands(kind: type[OperatorDesc]) -> Iterator[Parameter]:
    infos = {info.name: info for info in kind.members()}
    for field in sorted(kind.inputs(), key=lambda field: field.optional):
        annotation = "Expression | Array | float" if shares_sizes(kind, field) else "Expression | Array"
        annotation = f"Sequence[{annotation}]" if field.listed else annotation
        optional = (" | None", "None") if field.optional else ("", "")
        yield argument_name(field), annotation + optional[0], optional[1], _operand_text(infos[field.name], field)


def _operand_text(info: MemberInfo, field: TensorField) -> str:
    return f"`{info.form.replace(' each', '')}`{' each' if field.listed else ''}. {info.text}"


def _others(kind: type[OperatorDesc]) -> Iterator[Parameter]:
    infos = {info.name: info for info in kind.members()}
    for name in kind.attribute_names():
        annotation, optional = accepted_type(kind, name)
        annotation += " | None" if optional else ""
        info = infos[name]
        text = ". ".join(filter(None, (info.text.rstrip("."), f"{info.limits[:1].upper()}{info.limits[1:]}")))
        if has_default(kind, name):
            annotation, default = f"{annotation.removesuffix(' | None')} | None", "None"
            text = f"{text}. Default: {default_text(kind, name)}"
        elif not kind.model_fields[name].is_required():
            default = _literal(kind.model_fields[name].default)
        else:
            default = ""
        yield name, annotation, default, text
    for name, (annotation, text) in _EXTRA.get(kind.short_name(), {}).items():
        yield name, annotation, "", text
    if sized := takes_sizes(kind):
        at_will = sized == "optional"
        text = "The sizes of the output" + (", where they shall not be inferred" if at_will else ", which no input determines")
        yield "output_sizes", f"Sequence[int]{' | None' if at_will else ''}", "None" if at_will else "", text
    for field in () if kind.short_name() == "CAST" else typed_outputs(kind):
        name = f"{field.name.removesuffix('_tensor')}_data_type"
        yield name, f"{_TYPE} | None", "None", "The data type of the output, where the operator has a choice"


def _literal(value: object) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, DmlEnum) else repr(value)


def _documentation(kind: type[OperatorDesc], parameters: Iterable[Parameter]) -> Iterator[str]:
    infos = {info.name: info for info in kind.members()}
    summary, *rest = kind.description().split("\n\n")
    yield from textwrap.wrap(f"{kind.short_name()}: {' '.join(summary.split())}", WIDTH)
    for paragraph in rest:
        yield ""
        yield from textwrap.wrap(" ".join(paragraph.split()), WIDTH)
    if kind.formula:
        yield ""
        yield "::"
        yield ""
        yield from textwrap.indent(kind.formula, "    ").splitlines()
    yield ""
    yield "Args:"
    for name, _, _, text in parameters:
        yield from textwrap.wrap(f"{name}: {_sentence(text)}", WIDTH, initial_indent="    ", subsequent_indent="        ")
    yield ""
    yield "Returns:"
    if is_several(kind):
        yield f"    The named tuple `{tuple_name(kind)}` of these fields."
        yield ""
    for field in kind.outputs():
        shown = _sentence(f"`{infos[field.name].form.replace(' each', '')}`. {infos[field.name].text}")
        bullet, text = ("    - ", f"`{output_name(kind, field)}`: {shown}") if is_several(kind) else ("    ", shown)
        yield from textwrap.wrap(text, WIDTH, initial_indent=bullet, subsequent_indent=" " * len(bullet))
    yield ""
    yield "Raises:"
    yield "    DescError: the operator breaks rules; all of them are reported, with the caller's line."


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith(".") else f"{text}."


def eager_stub() -> str:
    """The text of `__init__.pyi` of `dmlpy.eager`: the functions of `dmlpy.x`, and of operators that DirectML lacks, for arrays."""
    body = "\n".join(line for kind in OPERATORS.values() for line in _eager_function(kind))
    imports = "\n".join(_imports(body, stub=True))
    listed = ",\n".join(f'    "{name}"' for name in sorted(function_name(kind) for kind in OPERATORS.values()))
    return f"# Written by `python -m dmlpy.x.stubs`: do not edit.\n{imports}\n{body}\n__all__ = [\n{listed},\n]\n"


def _eager_function(kind: type[OperatorDesc]) -> Iterator[str]:
    if is_several(kind):
        yield f"class {tuple_name(kind)}(NamedTuple):"
        for field in kind.outputs():
            yield f"    {output_name(kind, field)}: Any"
        yield ""
    operands, others = parameters(kind)
    returned = tuple_name(kind) if is_several(kind) else "tuple[Any, ...]" if kind.outputs()[0].listed else "Any"
    yield f"def {function_name(kind)}("
    arrays = (_declaration(parameter).replace("Expression | Array | float", "Any") for parameter in operands)
    yield from (line.replace("Expression | Array", "Any") for line in arrays)
    yield "    *,"
    yield from (_declaration(parameter) for parameter in others)
    yield "    device: Device | str | None = None,"
    yield f") -> {returned}:"
    summary = " ".join(kind.description().split("\n\n")[0].split())
    yield from textwrap.indent("\n".join(textwrap.wrap(f'"""{kind.short_name()}: {summary}"""', WIDTH)), "    ").splitlines()
    yield ""
