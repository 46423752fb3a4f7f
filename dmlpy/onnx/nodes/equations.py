"""The equations of Einsum: their grammar, the letters of each input, and problems of inputs that do not fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dmlpy.messages.naming import listed
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.nodes.node import Node

_ELLIPSIS = "0123456789"
"""The labels for the dimensions of an ellipsis, the last digits for the last dimensions."""
_TERM = re.compile(r"[A-Za-z]*+(?:\.\.\.[A-Za-z]*+)?+")


def terms_of(node: Node) -> tuple[list[str], str | None]:
    """The terms of an equation, one for each input, and that of the result; None for one that is left out.

    Raises:
        NotLowered: the equation is not of this form.
    """
    equation = node.attribute("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(node.inputs):
        raise node.refusal("onnx.invalid", "equation", repr(equation), f"{len(node.inputs)} terms, one for each input")
    for term in (*terms, right):
        if _TERM.fullmatch(term) is None:
            raise node.refusal("onnx.invalid", "equation", repr(term), "letters and at most one '...'")
    letters = right.replace("...", "")
    if len(set(letters)) != len(letters) or not set(letters) <= set(left):
        raise node.refusal("onnx.invalid", "equation", repr(right), "each letter once, and only letters of the inputs")
    return terms, right if arrow else None


def letters_of(node: Node) -> tuple[list[str], str]:
    """The letters of each input and of the result: one for each dimension, digits for those of an ellipsis.

    Raises:
        NotLowered: the equation does not fit the inputs.
    """
    terms, result = terms_of(node)
    spelled = []
    for index, term in enumerate(terms):
        count = node.rank(index) - len(term.replace("...", ""))
        if count < 0 or (count and "..." not in term) or count > len(_ELLIPSIS):
            raise node.refusal("onnx.invalid", "equation", repr(term), f"the {node.rank(index)} dimensions of input {index}")
        spelled.append(term.replace("...", _ELLIPSIS[len(_ELLIPSIS) - count :]))
    longest = max((sum(letter.isdigit() for letter in term) for term in spelled), default=0)
    digits = _ELLIPSIS[len(_ELLIPSIS) - longest :]
    if result is not None:
        return spelled, result.replace("...", digits)
    whole = "".join(spelled)
    once = sorted(letter for letter in set(whole) if letter.isalpha() and whole.count(letter) == 1)
    return spelled, digits + "".join(once)


def result_sizes(node: Node) -> tuple[int, ...]:
    """The sizes of the result for inputs of known sizes: of a letter the one that is not 1, which the others repeat.

    Raises:
        NotLowered: the equation does not fit the inputs.
    """
    terms, result = letters_of(node)
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        for letter, size in zip(term, node.sizes(index), strict=True):
            sizes[letter] = size if sizes.get(letter, 1) == 1 else sizes[letter]
    return tuple(sizes[letter] for letter in result)


def equation_problems(node: Node) -> Iterator[Problem]:
    """An equation that its grammar has, which raises, and where the sizes are known, one for these inputs."""
    if not all(node.has(index) and node.value(index).is_static for index in range(len(node.inputs))):
        terms_of(node)
        return
    seen: dict[str, tuple[int, int]] = {}
    for index, term in enumerate(letters_of(node)[0]):
        yield from _diagonal_problems(node, index, term)
        for letter, size in zip(term, node.sizes(index), strict=True):
            first, earlier = seen.setdefault(letter, (size, index)) if size != 1 else (size, index)
            if first != size:
                expected = f"{first} along {'...' if letter.isdigit() else letter!r}, as input {earlier} has"
                yield Problem("onnx.invalid", node.input_label(index), listed(node.sizes(index)), expected)


def _diagonal_problems(node: Node, index: int, term: str) -> Iterator[Problem]:
    """Dimensions of one input with the same letter, of which a diagonal is taken: one of size 1 is not repeated."""
    sizes = node.sizes(index)
    for axis, letter in enumerate(term):
        first = term.index(letter)
        if first < axis and sizes[axis] != sizes[first] and 1 in (sizes[axis], sizes[first]):
            expected = f"the same size along axes {first} and {axis}, both {letter!r}"
            yield Problem("onnx.invalid", node.input_label(index), listed(sizes), expected)
