"""Checks of constructor arguments that report all problems at once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from itertools import islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from dmlpy.description.arrays import refuse_mask
from dmlpy.description.coercion import MAX_ENTRIES, brief, has_entries
from dmlpy.messages.naming import plural
from dmlpy.messages.problems import DescError, DmlError, Problem

if TYPE_CHECKING:
    import numpy as np


def found_argument(find: Callable[[Any], Any], value: Any, argument: str, problems: list[Problem]) -> Any:
    """Resolves an argument; if it is wrong, a problem is added and the result is None."""
    try:
        return find(value)
    except DescError as error:
        problems += [problem.under(argument) for problem in error.problems]
        return None


def found_array(
    read: Callable[[Any], np.ndarray[Any, Any]], value: Any, argument: str, problems: list[Problem], remedy: str | None = None
) -> np.ndarray[Any, Any] | None:
    """Reads an array of numbers with `read`; if it is wrong, a problem is added and the result is None."""
    try:
        refuse_mask(value)
        array = read(value)
    except DmlError:
        raise
    except Exception as error:  # other libraries' code
        problems.append(Problem("data.form", argument, brief(value), "an array of numbers", (str(error),), remedy))
        return None
    if array.dtype.kind not in "biuf":
        problems.append(Problem("data.form", argument, f"of type {array.dtype}", "an array of numbers"))
        return None
    return array


def found_arrays(read: Callable[[Any], np.ndarray[Any, Any]], values: Iterable[Any], argument: str) -> list[np.ndarray[Any, Any]]:
    """Reads each array of a list, as `found_array` does.

    Raises:
        DescError: the value is not a list, or an entry is not an array of numbers.
    """
    if not isinstance(values, Iterable):
        raise DescError(argument, [Problem("data.form", argument, brief(values), "a list of arrays")])
    problems: list[Problem] = []
    arrays = [found_array(read, value, f"{argument}[{index}]", problems) for index, value in enumerate(values)]
    if problems:
        raise DescError(argument, problems)
    return [array for array in arrays if array is not None]


def entries_of(value: Any) -> tuple[Any, ...] | None:
    """The entries of a list, an array or an iterator; None for a value without any or without an order, or with too many."""
    if not has_entries(value):
        return None
    try:
        found = tuple(islice(value, MAX_ENTRIES + 1))
    except (TypeError, ValueError) as error:  # an array of no dimensions, a closed file
        if isinstance(error, DmlError) or isinstance(value, Generator):  # of what the caller's code makes
            raise
        return None
    return found if len(found) <= MAX_ENTRIES else None


def size_problems(**sizes: Any) -> list[Problem]:
    """Problems of sizes that are not integers of at least 1."""
    return [
        Problem("field.form", name, brief(size), "an integer of at least 1")
        for name, size in sizes.items()
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 1
    ]


def dropout_problems(**rates: Any) -> list[Problem]:
    """Problems of rates that are not numbers of at least 0 and below 1."""
    return [
        Problem("dropout_range", name, brief(rate), "a number of at least 0, below 1")
        for name, rate in rates.items()
        if not isinstance(rate, Real) or isinstance(rate, bool) or not 0 <= float(rate) < 1
    ]


def count_problem(layers: Iterable[Any], given: int, wanted: int) -> Problem:
    """The problem of another number of arrays than the weights of a model's layers; they may be in the order of later versions of Keras."""
    later = 0
    for layer in layers:
        try:
            later += len(layer.get_weights("keras3"))
        except TypeError:  # a layer whose weights have one order
            later += len(layer.get_weights())
    remedy = "give each layer its arrays: model.layers[0].set_weights(arrays, order='keras3') takes those of Keras 2 and 3"
    return Problem("weights.count", "weights", plural(given, "array"), str(wanted), remedy=remedy if given == later else None)
