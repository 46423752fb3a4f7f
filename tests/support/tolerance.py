"""How far a result may be from the float64 value: one policy for all tests.

A result passes if the norm of its error is at most `tolerance` of the reference's norm, and no single element is off by more than
5 * tolerance * max(1, largest reference). FLOAT32 results differ by the order of their sums, whose error grows like the root of the number
of terms; 1e-5 is the most that is ever allowed. In FLOAT16 and BFLOAT16 the rounding of stored values (2**-11, 2**-8) outweighs all else.
So do the factors where a FLOAT32 operator was allowed TF32: tensor cores may cut both of a product off, each by less than 2**-10 of it.

A small element may be the difference of terms that are not small, each off by its own rounding, and nothing else in its tensor need be
large. For such results `least` is the size that an element counts as in the reference's norm if it is smaller; zeros count as zeros.

With elements of 1e30 that checks nothing of the others. Where elements do not depend on each other's size, `assert_each_close` takes
5 * tolerance * max(1, |reference|) of each by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

_FLOAT32_LIMIT = 1e-5
_TF32 = 2e-3
_FLOAT16 = 2e-3
_BFLOAT16 = 8 * _FLOAT16
_FLOAT64 = 1e-12
CANCELED_HALF_SUM = 0.25
"""The `least` of random layers of FLOAT16: 2e-3 of it is 2**-11, which the rounding to FLOAT16 takes from a term between 1 and 2. Of
BFLOAT16 the tolerance and the rounding are eight times that."""


def tolerance(dtype: DTypeLike, terms: int = 1, *, tf32: bool = False) -> float:
    """The relative error allowed to results stored as `dtype` whose elements sum `terms` products, of factors in TF32 if `tf32`."""
    kind = np.dtype(dtype)
    if kind == np.float16:
        return _FLOAT16
    if kind.name == "bfloat16":
        return _BFLOAT16
    if kind == np.float32 and tf32:
        return _TF32
    if kind == np.float32:
        return min(_FLOAT32_LIMIT, float(8 * np.finfo(np.float32).eps * max(terms, 4) ** 0.5))
    if kind == np.float64:
        return _FLOAT64
    raise ValueError(f"no tolerance is set for {kind}")


def assert_close(
    actual: ArrayLike,
    reference: ArrayLike,
    dtype: DTypeLike,
    *,
    terms: int = 1,
    what: str = "result",
    tf32: bool = False,
    least: float = 0.0,
) -> None:
    """Fails with the figures if `actual` is too far from the float64 `reference`; infinities and NaN must be in the same places."""
    with np.errstate(invalid="ignore"):  # operators on bits make signalling NaN of floats
        found, expected = np.asarray(actual, np.float64), np.asarray(reference, np.float64)
    assert found.shape == expected.shape, f"{what} has the sizes {found.shape}, expected {expected.shape}"
    odd = ~np.isfinite(expected)
    np.testing.assert_array_equal(found[odd], expected[odd], err_msg=f"{what}: where the reference is not finite")
    lost = ~np.isfinite(found) & ~odd
    assert not lost.any(), f"{what}: {lost.sum()} of {lost.size} elements are not finite, first at {_first(lost)}"
    error, allowed = np.where(odd, 0.0, found) - np.where(odd, 0.0, expected), tolerance(dtype, terms, tf32=tf32)
    worst = float(np.max(np.abs(error), initial=0.0))
    unit = max(1.0, float(np.max(np.abs(expected[~odd]), initial=0.0)))  # squares of larger numbers may overflow
    sizes = np.where(expected[~odd] == 0.0, 0.0, np.maximum(np.abs(expected[~odd]), least))
    size, norm = (float(np.linalg.norm(values / unit)) for values in (sizes, error))
    bound = 5 * allowed * unit
    assert norm <= allowed * size, (
        f"{what}: relative norm of the error {norm / size if size else np.inf:.3g}, "
        f"allowed {allowed:.3g} ({np.dtype(dtype)}, {terms} terms); "
        f"largest error {worst:.3g} at {_first(np.abs(error) == worst)}"
    )
    assert worst <= bound, f"{what}: largest error {worst:.3g} at {_first(np.abs(error) == worst)}, allowed {bound:.3g}"


def assert_each_close(actual: ArrayLike, reference: ArrayLike, dtype: DTypeLike, *, terms: int = 1, what: str = "result") -> None:
    """Fails with the figures if an element is too far from the float64 `reference`; what the type has no number for is as it stores it."""
    with np.errstate(all="ignore"):
        found, expected = np.asarray(actual, np.float64), np.asarray(reference, np.float64)
        stored = expected.astype(dtype)
        odd, error = ~np.isfinite(stored), np.abs(found - expected)
    np.testing.assert_array_equal(found[odd], stored[odd], err_msg=f"{what}: where the reference is not finite")
    allowed = 5 * tolerance(dtype, terms) * np.maximum(1.0, np.abs(expected))
    wrong = ~odd & ~(error <= allowed)
    assert not wrong.any(), f"{what}: {wrong.sum()} of {wrong.size} elements, first {found[wrong][0]:.7g} for {expected[wrong][0]:.7g}"


def _first(mask: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(mask)[0])
