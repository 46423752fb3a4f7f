r"""Formulas as TeX, which MathJax sets on the site.

The classes write their formulas as plain text, which `dmlpy explain` prints: `y = alpha * A B / (1 + exp(-x[i])), else 0`. `to_tex` reads
that notation: names, indices in brackets, powers, fractions, roots, sums over indices, cases, and English words between them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_WORDS_TEXT = """
    a after all along an and any are as asks at band before below both but by coordinate coordinates cover deeper differ dimension
    directions each element elements else end exactly first for from gate gave gets group head height holds if in inference infinity
    integral is it its largest layer lies maximum negative not number of one only or order other outside over part positive projected
    queries range read region rounded row samples says size smallest start step stride sum th that the then they those to training
    type up weight were what where whose width window windows with product bits DECREASING INCREASING EDGE WRAP REFLECTION SYMMETRIC
    CONSTANT NaN dropout forward rnn lstm gru mean output input
"""
WORDS = frozenset(_WORDS_TEXT.split())
"""English words of formulas, where they are not names: neither a member's, nor what stands left of an equals sign, nor a single letter."""
NOUNS = frozenset(["element", "elements", "size", "start", "step", "stride", "weight", "window"])
"""Words that are names where they stand beside an arithmetic sign: `start + stride * o`."""
_FUNCTIONS_TEXT = """
    acos acosh act argmax argmin asin asinh atan atanh atan2 ceil clamp clip cos cosh erf exp floor flat function ln max mean min mod
    xor product reduction round sigmoid sin sinh softmax static_cast sum tan tanh trunc weight philox_4x32_10
"""
FUNCTIONS = frozenset(_FUNCTIONS_TEXT.split())
_TEX_FUNCTIONS = frozenset(["cos", "cosh", "exp", "ln", "max", "min", "sin", "sinh", "tan", "tanh"])
_BRACKETS = {"floor": "floor", "ceil": "ceil"}
_GREEK = frozenset(["alpha", "beta", "gamma", "epsilon", "pi"])
_OPERATORS = {
    "==": "=",
    "=": "=",
    "+=": r"\mathrel{+}=",
    "!=": r"\ne",
    "<=": r"\le",
    ">=": r"\ge",
    "<": "<",
    ">": ">",
    "+": "+",
    "-": "-",
    "*": r"\cdot",
    "<<": r"\ll",
    ">>": r"\gg",
    "&": r"\mathbin{\&}",
    "|": r"\mid",
    "~": r"{\sim}",
    "...": r"\ldots",
    "..": r"\ldots",
    ",": ",",
    ";": ";",
    ":": r"\colon",
}
_ARITHMETIC = frozenset(["+", "-", "*", "/", "^"])
_ENDS_TERM = frozenset({"==", "=", "+=", "!=", "<=", ">=", "<", ">", "+", "-", ",", ";", ":", "|", "&", "...", ".."})
"""Operators at which the numerator of a fraction begins."""
_TOKEN = re.compile(
    r"(?P<space> +)|(?P<name>[A-Za-z_][A-Za-z_0-9]*(?:'s\b|'?))|(?P<number>\d+(?:\.\d+)?)|"
    r"(?P<operator>\.\.\.|\.\.|\*\*|==|!=|<=|>=|<<|>>|\+=|[-+*/^&|~=<>(),;:\[\].])"
)
_ANOTHER = re.compile(r", (?=[A-Za-z_]['\w]*(?:\[[^\]]*\])? \+?= )|; ")
_CASE = re.compile(r"^(?P<left>.*? = )?(?P<first>.+?) where (?P<rest>.+, else .+)$")


@dataclass
class _Part:
    """A piece of TeX: an atom, an operator or English text, and whether it is a group in parentheses, whose content is `inner`."""

    kind: str
    tex: str
    source: str = ""
    inner: str | None = None


def to_tex(formula: str, members: Collection[str] = ()) -> list[str]:
    """The statements of a formula as TeX, one for each line to set.

    Args:
        formula: the text of an operator's class.
        members: the names of its members, which are names in the formula too, with and without `_tensor`.
    """
    names = {*members, *(re.sub("_tensors?$", "", name) for name in members)}
    names |= {named for named in re.findall(r"([A-Za-z_][\w']*)(?:\[[^\]]*\])?(?= \+?= |, )", formula) if named not in WORDS - FUNCTIONS}
    names |= set(re.findall(r"([A-Za-z_]\w*)(?:\[[^\]]*\])? \+?= ", formula))
    lines = formula.replace("the sum of", "sum of").splitlines()
    return [_statement(text, names) for line in lines for text in _statements(line)]


def _statements(line: str) -> Iterator[str]:
    """The statements of a line: they are separated by semicolons, or by commas before a name and an equals sign."""
    start, depth = 0, 0
    for place, letter in enumerate(line):
        depth += (letter in "([") - (letter in ")]")
        # `i, f, o = ...` is one statement: the names before an equals sign belong together.
        if depth == 0 and (separator := _ANOTHER.match(line, place)) and (letter == ";" or "= " in line[start:place]):
            yield line[start:place].strip()
            start = separator.end()
    yield line[start:].strip()


def _statement(text: str, names: Collection[str]) -> str:
    if (case := _CASE.match(text)) and ";" not in text:
        branches = _branches(f"{case['first']} where {case['rest']}")
        if branches:
            rows = r" \\ ".join(
                f"{_sequence(value, names)} & {_sequence(f'where {condition}', names) if condition else _text('otherwise')}"
                for value, condition in branches
            )
            return f"{_sequence(case['left'] or '', names)} \\begin{{cases}} {rows} \\end{{cases}}"
    return _sequence(text, names)


def _branches(text: str) -> list[tuple[str, str]] | None:
    """The values of `1 where a, 2 where b, else 3` with their conditions; None if the text is something else."""
    *parts, last = _at_commas(text)
    if not last.startswith("else ") or " where " not in parts[0] or any(part.count(" where ") > 1 for part in parts):
        return None
    branches: list[tuple[str, str]] = []
    for part in parts:
        value, where, condition = part.partition(" where ")
        if where:
            branches.append((value, condition))
        elif branches:
            branches[-1] = (branches[-1][0], f"{branches[-1][1]}, {part}")
    return [*branches, (last.removeprefix("else "), "")]


def _at_commas(text: str) -> list[str]:
    """The parts of a text between commas that stand in no parentheses."""
    parts, start, depth = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and text.startswith(", ", place):
            parts.append(text[start:place])
            start = place + 2
    return [*parts, text[start:]]


def _sequence(text: str, names: Collection[str]) -> str:
    reader = _Reader(text, names)
    return _joined(reader.parts(None))


class _Reader:
    """Reads one statement from left to right."""

    def __init__(self, text: str, names: Collection[str]) -> None:
        self._tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text)]
        if "".join(token for _, token in self._tokens) != text:
            raise ValueError(f"a formula has a sign that TeX is not written for: {text!r}")
        self._names, self._place = names, 0

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self._place + ahead
        return self._tokens[place] if place < len(self._tokens) else ("", "")

    def parts(self, closing: str | None) -> list[_Part]:
        """The parts up to a closing bracket, which is consumed, or to the end."""
        parts: list[_Part] = []
        while True:
            kind, token = self._peek()
            if not kind:
                if closing is not None:
                    raise ValueError(f"a formula lacks {closing!r}")
                return parts
            self._place += 1
            if token == closing:
                return parts
            if kind == "space":
                continue
            if token == "/":
                self._divide(parts)
            elif token in ("^", "**"):
                parts[-1] = _Part("atom", f"{parts[-1].tex}^{{{self._exponent()}}}")
            else:
                parts.append(self._part(kind, token, parts))

    def _part(self, kind: str, token: str, before: list[_Part]) -> _Part:
        if kind == "number":
            return self._indexed(_Part("atom", token))
        if kind == "name":
            return self._name(token, before)
        if token == "(":
            inner = _joined(self.parts(")"))
            return self._indexed(_Part("atom", rf"\left({inner}\right)", inner=inner))
        if token == "[":
            return self._indexed(_Part("atom", rf"\left[{_joined(self.parts(']'))}\right]"))
        if token == "|" and not (self._place > 1 and self._tokens[self._place - 2][0] == "space" and self._peek()[0] == "space"):
            return _Part("atom", rf"\left|{_joined(self.parts('|'))}\right|")
        return _Part("operator", _OPERATORS[token], token)

    def _name(self, token: str, before: list[_Part]) -> _Part:
        if token in ("sum", "max", "product") and self._peek(1)[1] in ("over", "of") and (bounds := self._bounds()) is not None:
            sign = {"sum": r"\sum", "max": r"\max", "product": r"\prod"}[token]
            return _Part("operator", rf"{sign}_{{{bounds}}}" if bounds else sign, ",")
        called = self._peek()[1] == "("
        if token == "sqrt" and called:
            self._place += 1
            return _Part("atom", rf"\sqrt{{{_joined(self.parts(')'))}}}")
        if called and token in _BRACKETS:
            self._place += 1
            return _Part("atom", rf"\left\l{_BRACKETS[token]}{{}}{_joined(self.parts(')'))}\right\r{_BRACKETS[token]}")
        if called and (token in FUNCTIONS or len(token.rstrip("'")) == 1):
            self._place += 1
            return _Part("atom", rf"{_function(token)}\left({_joined(self.parts(')'))}\right)")
        if token in FUNCTIONS and token not in self._names and token not in WORDS:
            return _Part("operator", _function(token), "*")
        if self._is_word(token, before):
            return _Part("text", token)
        return self._indexed(_Part("atom", name_tex(token)))

    def _is_word(self, token: str, before: list[_Part]) -> bool:
        if (token in self._names and token not in ("and", "or")) or self._peek()[1] == "[":
            return False
        following = next((token for kind, token in self._tokens[self._place :] if kind != "space"), "")
        if token == "a":  # `a deeper layer`, but `a where b != 0`
            return following in WORDS - {"where", "and", "or"}
        if token in NOUNS and (following in _ARITHMETIC or (before and before[-1].source in _ARITHMETIC)):
            return False
        return token in WORDS or token.endswith("'s")

    def _bounds(self) -> str | None:
        """The indices of `sum over c, k of`; empty for `sum of`. Nothing is consumed if other words follow."""
        bounds: list[str] = []
        for place in range(self._place, len(self._tokens)):
            kind, token = self._tokens[place]
            if token == "of":
                self._place = place + 1
                return ",".join(bounds)
            if kind == "name" and token not in ("over", "and", "t") and len(token) > 1 and token != "batch":
                return None
            if kind == "name" and token not in ("over", "and"):
                bounds.append(name_tex(token))
        return None

    def _indexed(self, part: _Part) -> _Part:
        """A name, with the brackets that follow it directly as its index."""
        while self._peek()[1] == "[":
            self._place += 1
            part = _Part("atom", f"{part.tex}_{{{_joined(self.parts(']'))}}}")
        return part

    def _operand(self) -> _Part:
        """The operand right of a slash, or an exponent: an atom with its sign and its powers."""
        while self._peek()[0] == "space":
            self._place += 1
        kind, token = self._peek()
        self._place += 1
        if token == "-":
            return _Part("atom", f"-{self._operand().tex}")
        part = self._part(kind, token, [])
        while self._peek()[1] in ("^", "**"):
            self._place += 1
            part = _Part("atom", f"{part.tex}^{{{self._exponent()}}}")
        return part

    def _exponent(self) -> str:
        part = self._operand()
        return r"\mathsf{T}" if part.tex == "T" else part.inner or part.tex

    def _divide(self, parts: list[_Part]) -> None:
        """Replaces the term before a slash by a fraction."""
        start = len(parts)
        while start and not (parts[start - 1].kind == "text" or parts[start - 1].source in _ENDS_TERM):
            start -= 1
        above, below = parts[start:], self._operand()
        numerator = above[0].inner if len(above) == 1 and above[0].inner else _joined(above)
        parts[start:] = [_Part("atom", rf"\frac{{{numerator}}}{{{below.inner or below.tex}}}")]


def name_tex(name: str) -> str:
    """A name as TeX: Greek letters by their signs, a digit at the end as an index, long names in one piece."""
    stem, digit = (match[1], match[2]) if (match := re.fullmatch(r"([a-z]+)(\d)", name)) else (name, "")
    if stem in _GREEK:
        return rf"\{stem}" + (f"_{{{digit}}}" if digit else "")
    if len(name.rstrip("'")) == 1:
        return name
    return rf"\mathit{{{name.replace('_', chr(92) + '_')}}}"


def _function(name: str) -> str:
    if name in _TEX_FUNCTIONS:
        return rf"\{name}"
    return name if len(name.rstrip("'")) == 1 else rf"\operatorname{{{name.replace('_', chr(92) + '_')}}}"


def _text(words: str) -> str:
    return rf"\text{{{words}}}"


def _joined(parts: list[_Part]) -> str:
    """The TeX of parts in a row; words next to each other become one text."""
    joined: list[str] = []
    words: list[str] = []
    for part in [*parts, _Part("end", "")]:
        if part.kind == "text":
            words.append(part.tex)
            continue
        if words:
            gap = "" if part.kind == "end" or part.source in (",", ":", ";") else " "
            joined.append(rf"\text{{{' ' if joined else ''}{' '.join(words)}{gap}}}")
            words = []
        if part.kind != "end":
            thin = r"\," if part.kind == "atom" and joined and not joined[-1].startswith(r"\text") and _is_factor(parts, part) else ""
            joined.append(thin + part.tex)
    return " ".join(joined)


def _is_factor(parts: list[_Part], part: _Part) -> bool:
    """Whether a part stands right behind another atom: a product without a sign, which TeX would set without a gap."""
    place = next(place for place, other in enumerate(parts) if other is part)
    return place > 0 and parts[place - 1].kind == "atom"
