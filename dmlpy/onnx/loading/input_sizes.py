"""The inputs of a model, with the sizes and elements that the user gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.arrays import refuse_mask
from dmlpy.description.bfloat16_numbers import cast_remedy
from dmlpy.description.coercion import brief
from dmlpy.messages.naming import did_you_mean, listed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.onnx.loading.elements import dtype_of, sizes_problem
from dmlpy.onnx.loading.values import Value, can_be_equal, value_from_proto

if TYPE_CHECKING:
    from dmlpy.onnx.loading.load import LoadedModel


def inputs_of(loaded: LoadedModel, sizes: Mapping[str, int | Sequence[int]], constants: Mapping[str, Any]) -> dict[str, Value]:
    """All inputs of a model by name, with the sizes and elements that the user gives.

    Args:
        loaded: the model.
        sizes: as for `dmlpy.onnx.load`.
        constants: as for `dmlpy.onnx.load`.

    Raises:
        DescError: sizes or constants do not fit.
    """
    # The initializer of an input is a default, which a constant replaces.
    optional = default_inputs(loaded).keys() - constants.keys()
    declared = {item.name: value_from_proto(item.name, item.type) for item in loaded.proto.graph.input if item.name not in optional}
    return _apply_sizes(declared, sizes, constants, loaded.name)


def default_inputs(loaded: LoadedModel) -> dict[str, Value]:
    """The inputs that have an initializer, which a caller may leave out."""
    graph = loaded.proto.graph
    initialized = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    return {item.name: value_from_proto(item.name, item.type) for item in graph.input if item.name in initialized}


def _apply_sizes(
    declared: Mapping[str, Value], sizes: Mapping[str, int | Sequence[int]], constants: Mapping[str, Any], name: str
) -> dict[str, Value]:
    """The inputs with the sizes and elements that the user gives.

    Raises:
        DescError: these do not fit.
    """
    problems = []
    symbols = {size for value in declared.values() for size in value.sizes or () if isinstance(size, str)}
    for given, size in sizes.items():
        path = f"sizes[{given!r}]"
        if given in declared:
            stated = declared[given].sizes
            wanted = tuple(size) if isinstance(size, Sequence) else None
            if wanted is None or not all(isinstance(item, int) and item >= 0 for item in wanted):
                problems.append(Problem("onnx.sizes", path, brief(size), "the sizes of the input: a list of integers"))
            elif stated is not None and not can_be_equal(stated, wanted):
                problems.append(Problem("onnx.sizes", path, listed(wanted), f"sizes that the input has: {declared[given].summary()}"))
        elif given not in symbols:
            known = [*sorted(symbols), *declared]
            expected = f"one of {listed(known)}" if known else "nothing: all sizes are known"
            problems.append(Problem("onnx.sizes", path, "neither a symbol nor an input", expected, remedy=did_you_mean(given, known)))
        elif not isinstance(size, int) or size < 0:
            problems.append(Problem("onnx.sizes", path, brief(size), "a size: an integer"))
    problems += [
        Problem("onnx.inputs", f"constants[{given!r}]", "no input", f"one of {listed([*declared])}", remedy=did_you_mean(given, declared))
        for given in constants
        if given not in declared
    ]
    if problems:
        raise DescError(f"onnx.load: {name}", problems)
    changed = {}
    for given, value in declared.items():
        stated = value.sizes
        whole = sizes.get(given)
        if isinstance(whole, Sequence):
            stated = tuple(whole)
        elif stated is not None:
            stated = tuple(_resolve_size(size, sizes) for size in stated)
        if stated is not None and (
            problem := sizes_problem(f"sizes[{given!r}]", [s for s in stated if isinstance(s, int)], value.element or 0)
        ):
            problems.append(problem)
        changed[given] = replace(value, sizes=stated)
        if given in constants:
            changed[given], wrong = _known_value(given, changed[given], constants[given])
            problems += wrong
    if problems:
        raise DescError(f"onnx.load: {name}", problems)
    return changed


def _known_value(name: str, declared: Value, given: Any) -> tuple[Value, list[Problem]]:
    """An input with these elements, or why they are not those of the input."""
    path = f"constants[{name!r}]"
    try:
        refuse_mask(given)
        array = np.asarray(given)
        if array.dtype.kind == "U":
            array = array.astype(object)  # as the package onnx holds texts
    except Exception as error:  # other libraries' code
        return declared, [Problem("onnx.inputs", path, brief(given), declared.summary(), (f"{type(error).__name__}: {error}",))]
    problems = fit_problems(path, declared, array.dtype, array.shape)
    return declared if problems else Value.known(name, array), problems


def fit_problems(name: str, value: Value, dtype: np.dtype[Any] | None, sizes: Sequence[int]) -> list[Problem]:
    """Why an array does not fit an input.

    Args:
        name: the input's name.
        value: the input.
        dtype: the array's type; None if it does not matter.
        sizes: the array's sizes.
    """
    problems = []
    if value.element is not None and dtype is not None and dtype != dtype_of(value.element):
        wanted = dtype_of(value.element)
        remedy = "convert it: array.astype(object)" if wanted.kind == "O" else cast_remedy(dtype, wanted)
        problems.append(Problem("onnx.inputs", name, str(dtype), str(wanted), (), remedy))
    stated = value.sizes
    if stated is not None and (len(stated) != len(sizes) or any(isinstance(a, int) and a != b for a, b in zip(stated, sizes, strict=True))):
        problems.append(Problem("onnx.inputs", name, f"of sizes {listed(sizes)}", value.summary()))
    return problems


def _resolve_size(size: int | str | None, sizes: Mapping[str, int | Sequence[int]]) -> int | str | None:
    known = sizes.get(size) if isinstance(size, str) else size
    return known if isinstance(known, int) else size
