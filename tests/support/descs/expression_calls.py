"""Calls of the functions of `dmlpy.x` that make given descs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import dmlpy as dml
from dmlpy import x
from dmlpy.x.signatures import function_name, takes_sizes

Call = tuple[Callable[..., Any], list[Any], dict[str, Any]]


def call_of(desc: dml.OperatorDesc) -> Call:
    """The function that makes the operator, its operands, which are inputs of the graph named by place, and its other arguments."""
    kind = type(desc)
    operands: list[Any] = []
    for field in sorted(desc.inputs(), key=lambda field: field.optional):
        given = getattr(desc, field.name)
        if field.listed:
            operands.append([x.input(f"{field.name}_{index}", tensor) for index, tensor in enumerate(given)])
        else:
            operands.append(None if given is None else x.input(field.name, given))
    return getattr(x, function_name(kind)), operands, arguments_of(desc)


def arguments_of(desc: dml.OperatorDesc) -> dict[str, Any]:
    """The arguments other than operands that make the operator."""
    others = {name: getattr(desc, name) for name in desc.attribute_names() if getattr(desc, name) is not None}
    return others if desc.is_extension else others | _of_outputs(desc)


def _of_outputs(desc: dml.OperatorDesc) -> dict[str, Any]:
    """The arguments that give sizes and types of outputs."""
    told: dict[str, Any] = {}
    name, first = desc.short_name(), getattr(desc, desc.outputs()[0].name)
    if name == "SPLIT":
        return {"output_axis_sizes": [tensor.sizes[desc.axis] for tensor in first]}  # type: ignore[attr-defined]
    if name == "ONE_HOT":
        return {"output_length": first.sizes[desc.axis]}  # type: ignore[attr-defined]
    if takes_sizes(type(desc)) and first is not None:
        told["output_sizes"] = first.sizes
    for parameter in inspect.signature(getattr(x, function_name(type(desc)))).parameters:
        field = f"{parameter.removesuffix('_data_type')}_tensor"
        if parameter.endswith("_data_type") and parameter.startswith("output") and getattr(desc, field, None) is not None:
            told[parameter] = getattr(desc, field).data_type
    return told


def inputs_of(desc: dml.OperatorDesc, values: dict[str, Any]) -> dict[str, Any]:
    """The operator's arrays by the names that `call_of` gives the graph's inputs."""
    found: dict[str, Any] = {}
    for field in desc.inputs():
        given = values.get(field.name)
        if field.listed:
            found |= {f"{field.name}_{index}": array for index, array in enumerate(given)}
        elif given is not None:
            found[field.name] = given
    return found
