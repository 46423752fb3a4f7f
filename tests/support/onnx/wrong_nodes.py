"""Models of one node that contradicts ONNX, with what its refusal says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto
from onnx.helper import make_attribute, make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.hidden_sizes import OLDEST, WAYS, array_type
from tests.support.onnx.models import Array, model

RNG = np.random.default_rng(7)


def normal(*sizes: int) -> Array:
    """Random numbers of these sizes."""
    return RNG.standard_normal(sizes).astype(np.float32)


def integers(*values: Any) -> Array:
    """INT64 numbers."""
    return np.asarray(values, np.int64)


def ones(count: int) -> Array:
    """That many ones."""
    return np.ones(count, np.float32)


@dataclass(frozen=True)
class Row:
    """A wrong node.

    Attributes:
        operator: its operator.
        given: its inputs in order; None for one that is left out.
        texts: texts of the refusal: the input or attribute, and sizes.
        attributes: its attributes; an array of nothing for a list without entries.
        opset: the version of ONNX.
        outputs: the number of its outputs.
        constants: the inputs that the model holds: of those that come when it runs, elements are not looked at.
        domain: the operator's domain.
    """

    operator: str
    given: tuple[Array | None, ...]
    texts: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1
    constants: tuple[int, ...] = ()
    domain: str = ""


def built(row: Row) -> tuple[Any, dict[str, Array]]:
    """The model of a row, and what it is called with."""
    names = ["" if array is None else f"x{index}" for index, array in enumerate(row.given)]
    arrays = {name: np.asarray(array) for name, array in zip(names, row.given, strict=True) if array is not None}
    constants = {name: array for name, array in arrays.items() if names.index(name) in row.constants}
    given = {name: array for name, array in arrays.items() if name not in constants}
    outputs = [f"y{index}" for index in range(row.outputs)]
    listless = {name: given for name, given in row.attributes.items() if isinstance(given, np.ndarray)}
    node = make_node(row.operator, names, outputs, name="wrong", domain=row.domain, **{**row.attributes, **dict.fromkeys(listless)})
    node.attribute.extend(make_attribute(name, [], attr_type=AttributeProto.INTS) for name in listless)
    types = {name: array_type(array) for name, array in given.items()}
    sizes = {name: array.shape for name, array in given.items()}
    return model(
        [node], sizes, outputs, opset=row.opset, types=types, constants=constants, domains={row.domain: 1} if row.domain else {}
    ), given


def in_all_ways(rows: Mapping[str, Row]) -> list[tuple[str, str]]:
    """The name of each row with "known", and with each of `WAYS` that its opset has."""
    return [(name, way) for name, row in rows.items() for way in ("known", *WAYS) if row.opset >= OLDEST.get(way, 0)]


def assert_refused(row: Row, way: str) -> None:
    """That dmlpy refuses a row with its texts, given its sizes as they are ("known") or by one of `WAYS`."""
    proto, given = built(row)
    if way != "known":
        proto, given = WAYS[way](proto, given)
    with pytest.raises((dml.CompileError, dml.DescError, dml.DeviceError, dml.BindError)) as caught:
        onnx.load(proto).compile("numpy")(given)
    text = str(caught.value)
    assert "wrong" in text
    # Ranks are refused before the first size is known, which chosen entries leave open.
    assert all(part in text or (way == "compress" and re.sub(r"(?<!expected )\[\d+", "[?", part) in text) for part in row.texts), text
