"""The two spellings of a struct member: `input_tensor` in Python, `InputTensor` in directml.h."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice

_MAX_COMPARED = 200
"""Candidates that a mistyped name is compared with, and"""
_MAX_COMPARED_LENGTH = 100
"""their most characters: a comparison takes time that grows with the product of both lengths."""
_IRREGULAR = {"roi_tensor": "ROITensor", "output_roi_gradient_tensor": "OutputROIGradientTensor", "slice_sizes": "Sizes"}


@cache
def c_member(name: str) -> str:
    """The member's name in directml.h, of its name in Python."""
    return _IRREGULAR.get(name) or "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def c_path(path: str) -> str:
    """A place like `weight_tensor.sizes[1]`, spelled as in directml.h: `WeightTensor.Sizes[1]`."""
    return re.sub(r"[A-Za-z_]\w*", lambda match: c_member(match[0]), path)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a mistyped name most probably stands for, or None if none of the first few hundred is close."""
    import difflib  # only a mistake needs it

    if len(name) > _MAX_COMPARED_LENGTH:
        return None
    compared = (candidate for candidate in candidates if len(candidate) <= _MAX_COMPARED_LENGTH)
    plain = {re.sub(r"\W|_", "", candidate).lower(): candidate for candidate in islice(compared, _MAX_COMPARED)}
    found = difflib.get_close_matches(re.sub(r"\W|_", "", name).lower(), plain, n=1, cutoff=0.6)
    return plain[found[0]] if found else None


def did_you_mean(name: object, candidates: Iterable[str], show: Callable[[str], str] = str) -> str | None:
    """A remedy for a mistyped name: `did you mean weight_tensor?`; None if no candidate is close, or the name is no text."""
    candidate = nearest(name, candidates) if isinstance(name, str) else None
    return f"did you mean {show(candidate)}?" if candidate else None


def is_c_style(name: str, beside: Iterable[str] = ()) -> bool:
    """Whether a mistyped name is meant in the spelling of directml.h: by the names that stand beside it, if most are of one spelling."""
    others = [other[:1].isupper() for other in beside if other and other != name]
    in_c = sum(others)
    return name[:1].isupper() if 2 * in_c == len(others) else 2 * in_c > len(others)


def listed(values: Sequence[object], most: int = 16) -> str:
    """A list for a message, cut off where it is long: `[1, 1, 1, ... 997 more]`."""
    shown = [str(value) for value in values[:most]]
    more = [f"... {len(values) - most} more"] if len(values) > most else []
    return f"[{', '.join([*shown, *more])}]"


def plural(count: int, noun: str) -> str:
    """A number of things: `1 dimension`, `3 dimensions`, `2 entries`."""
    if count != 1:
        noun = noun[:-1] + "ies" if noun.endswith("ry") else noun + "s"
    return f"{count} {noun}"
