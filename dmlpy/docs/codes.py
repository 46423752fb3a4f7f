"""`explain_code`: what a problem's code means, with statements that lead to it: for `dmlpy explain size.equal`."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from textwrap import indent
from typing import TYPE_CHECKING

from dmlpy.description.registry import OPERATORS, operator_class
from dmlpy.docs.error_examples.example import SECTIONS, examples_of
from dmlpy.docs.errors import WITHOUT_EXAMPLE
from dmlpy.docs.mistakes import SHOWN_BY, Mistake, mistakes
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.docs.error_examples import Example


def explain_code(code: str) -> str:
    """Explains a code: the rule, the operators that have it, and an example with its message, which is computed.

    Raises:
        DescError: there is no such code; the nearest one is named.
    """
    ruled = {kind: kind.rules()[code] for kind in _kinds() if code in kind.rules()}
    example = next((example for example in _examples() if code in example.codes), None)
    if example is not None:
        _, message = example.message()
        return _laid_out(code, ruled, example.code(), message)
    shown: list[type[OperatorDesc]] = [operator_class(SHOWN_BY[code])] if code in SHOWN_BY else []
    for kind in [*ruled, *shown]:
        if mistake := mistakes(kind).get(code):
            return _laid_out(code, ruled, _statement(kind, mistake), mistake.message)
    if code in WITHOUT_EXAMPLE:
        return f"{code}: {WITHOUT_EXAMPLE[code]}"
    close = get_close_matches(code, sorted(_known()), 1)
    remedy = f"did you mean {close[0]}?" if close else None
    raise DescError("code", [Problem("code.unknown", "code", repr(code), "the code of a problem, such as size.equal", (), remedy)])


def _examples() -> Iterator[Example]:
    """The examples whose packages are installed."""
    for section in SECTIONS:
        try:
            import_module(f"dmlpy.docs.error_examples.{section}")
        except ModuleNotFoundError:  # of Dask, safetensors, ...
            continue
        yield from examples_of(section)


def _kinds() -> list[type[OperatorDesc]]:
    """All operators, those with the shortest names first: they are the best known."""
    return sorted(OPERATORS.values(), key=lambda kind: (len(kind.short_name()), kind.short_name()))


def _known() -> set[str]:
    ruled = {name for kind in OPERATORS.values() for name in kind.rules()}
    return ruled | {*SHOWN_BY, *WITHOUT_EXAMPLE} | {code for example in _examples() for code in example.codes}


def _statement(kind: type[OperatorDesc], mistake: Mistake) -> str:
    return f"# desc is the example of `dmlpy explain {kind.short_name()}`\n{mistake.statement}"


def _laid_out(code: str, ruled: Mapping[type[OperatorDesc], str], statements: str, message: str) -> str:
    parts = [code]
    for text in dict.fromkeys(ruled.values()):
        names = [kind.short_name() for kind, other in ruled.items() if other == text]
        parts.append(f"A rule of {plural(len(names), 'operator')} ({', '.join(names)}):\n{indent(text, '    ')}")
    parts += [f"Example\n{indent(statements, '    ')}", f"gives\n{indent(message, '    ')}"]
    return "\n\n".join(parts)
