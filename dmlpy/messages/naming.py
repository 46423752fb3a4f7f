"""The two spellings of a struct member: `input_tensor` in Python, `InputTensor` in directml.h."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_MAX_COMPARED = 400
"""The most candidates that a mistyped name is compared with."""
_MAX_COMPARED_LENGTH = 100
"""The most characters of a compared name: the time of a comparison grows with the product of both lengths."""
_VOWELS = "aeiou"
_VOWEL_LETTERS = "AEFHILMNORSX"
"""The letters whose names begin with a vowel."""
_AS_CONSONANT = ("uni", "use", "uint", "eu", "one")
_IRREGULAR = {"roi_tensor": "ROITensor", "output_roi_gradient_tensor": "OutputROIGradientTensor", "slice_sizes": "Sizes"}


def printable(text: str, kept: str = "") -> str:
    """Escapes control characters, which names from untrusted files may contain.

    Args:
        text: any text.
        kept: control characters that stay, such as line ends of a text of several lines.
    """
    return text if text.isprintable() else "".join(char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text)


@cache
def c_member(name: str) -> str:
    """Converts a member's Python name to its name in directml.h."""
    return _IRREGULAR.get(name) or "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def c_path(path: str) -> str:
    """Converts a place such as `weight_tensor.sizes[1]` to the spelling of directml.h: `WeightTensor.Sizes[1]`."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: c_member(match[0]), path)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to a mistyped name, or None if none of the first few hundred is close.

    A member whose two names differ is found by either.
    """
    import difflib  # not at the top: only a misspelt name needs it

    if len(name) > _MAX_COMPARED_LENGTH:
        return None
    compared = [*islice((candidate for candidate in candidates if len(candidate) <= _MAX_COMPARED_LENGTH), _MAX_COMPARED)]
    plain = {_plain(spelling): candidate for candidate in compared for spelling in (_IRREGULAR.get(candidate, candidate), candidate)}
    if (tensor := plain.get(f"{_plain(name)}tensor")) is not None:  # `a`, the name in `dmlpy.eager`, for `a_tensor`
        return tensor
    if (operand := plain.get(re.sub("tensor(s?)$", r"\1", _plain(name)))) is not None:  # `a_tensor` for `a`
        return operand
    matches = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return plain[matches[0]] if matches else None


def _plain(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()


def did_you_mean(name: object, candidates: Iterable[str], show: Callable[[str], str] = str) -> str | None:
    """A remedy for a mistyped name: `did you mean weight_tensor?`; None if no candidate is close, or the name is not a string."""
    candidate = nearest(name, candidates) if isinstance(name, str) else None
    return f"did you mean {show(candidate)}?" if candidate else None


def unknown_attribute(module: str, name: str, public: Iterable[str]) -> str:
    """The text of a module's AttributeError, with the name that is meant.

    Args:
        module: the module's full name.
        name: the unknown name.
        public: the names that there are.
    """
    names = sorted(public)
    plain = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_") or (name.isidentifier() and find_spec(f"{module}.{name}") is not None):
        return plain  # Python asks for the attribute first where a submodule is imported from the module
    hint = did_you_mean(name, names, f"{module}.{{}}".format) or f"dir({module}) lists its names"
    return f"{plain}: {hint}"


def class_remedy(value: object, base: type) -> str | None:
    """A remedy for a class in the place of an object of it; None for anything else."""
    return f"call the class: {value.__name__}(...)" if isinstance(value, type) and issubclass(value, base) else None


def is_c_style(name: str, beside: Iterable[str] = ()) -> bool:
    """Returns whether a mistyped name is meant in directml.h's spelling, as most of the names next to it are."""
    others = [other[:1].isupper() for other in beside if other and other != name]
    in_c = sum(others)
    return name[:1].isupper() if 2 * in_c == len(others) else 2 * in_c > len(others)


def alternatives(values: Iterable[object]) -> str:
    """The choices in a sentence: `FLOAT32, FLOAT16 or INT32`."""
    texts = [str(value) for value in values]
    return " or ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def listed(values: Sequence[object], most: int = 16) -> str:
    """Formats a list for a message and shortens it if it is long: `[1, 1, 1, ... 997 more]`."""
    shown = [_text(value) for value in values[:most]]
    more = [f"... {len(values) - most} more"] if len(values) > most else []
    return f"[{', '.join([*shown, *more])}]"


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # of a caller's type, or an integer too long for Python to print
        return f"{type(value).__name__} object"


def with_article(name: str) -> str:
    """A name with its article, as pronounced: `a list`, `an int`, `an ndarray`, `an LSTM`, `a GRU`, `a UINT8`."""
    spelled_out = name[:2].isupper() and len(name) > 1
    vowel = name[:1] in _VOWEL_LETTERS if spelled_out else name[:1].lower() in _VOWELS and not name.lower().startswith(_AS_CONSONANT)
    return f"{'an' if vowel or name == 'ndarray' else 'a'} {name}"


class Count(str):
    """A text that counts parts, such as `3 dimensions [2, 3, 4]`: a place has it, where it is any other text."""

    __slots__ = ()

    def __str__(self) -> str:
        return self


def plural(count: int, noun: str) -> str:
    """Formats a count with its noun: `1 dimension`, `3 dimensions`, `2 entries`, `2 processes`. The text is a `Count`."""
    if count != 1:
        noun = noun[:-1] + "ies" if noun.endswith("ry") else noun + ("es" if noun.endswith("ss") else "s")
    return Count(f"{count} {noun}")
