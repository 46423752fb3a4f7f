"""What a notebook shows of operators, outputs and dispatches: small tables in which every text is escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices import Outputs
from dmlpy.devices.memory.reserve import Reserve

SIZES = (1, 1, 2, 3)


def addition(**members: Any) -> Any:
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=SIZES)
    return dml.compile(dml.ElementWiseAddDesc(a_tensor=tensor, b_tensor=tensor.replace(**members), output_tensor=tensor), "numpy")


def array(start: float = 0) -> Any:
    return np.arange(6, dtype=np.float32).reshape(SIZES) + np.float32(start)


def shown(value: Any) -> list[str]:
    """The texts of what a notebook shows, which has to be well-formed."""
    html = value._repr_html_()
    assert len(html) < 10_000
    return [text.strip() for text in ElementTree.fromstring(f"<div>{html}</div>").itertext() if text.strip()]


def test_an_operator() -> None:
    texts = shown(addition())
    assert "a_tensor" in texts
    assert any(text.startswith("<DML_ELEMENT_WISE_ADD_OPERATOR_DESC compiled for numpy") and "whole arrays" in text for text in texts)


def test_a_prepared_operator() -> None:
    assert any("prepared for numpy" in text for text in shown(addition(flags="OWNED_BY_DML").prepare(b_tensor=array())))


def test_outputs() -> None:
    texts = shown(addition()(a_tensor=array(), b_tensor=array(0.5)))
    assert texts == ["Outputs", "name", "type", "sizes", "values", "output_tensor", "float32", "(1, 1, 2, 3)", "0.5, 2.5, 4.5, 6.5, ..."]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((np.array([1, 2], np.int8), np.zeros(1, np.float16)), ["out[0]", "int8", "(2,)", "1, 2", "out[1]", "float16", "(1,)", "0"]),
        (Reserve.of(np.zeros(5, np.uint8), {}), ["out", "uint8", "(5,)", "a reserve"]),
        (dml.Buffer(16, 4), ["out", "of type Buffer"]),
        (np.zeros((500, 500), np.uint8)[::2], ["out", "uint8", "(250, 500)", "0, 0, 0, 0, ..."]),
    ],
    ids=["an array of tensors", "a reserve", "a buffer", "large and strided"],
)
def test_outputs_of_each_kind(value: Any, expected: list[str]) -> None:
    assert shown(Outputs({"out": value}))[5:] == expected


def test_texts_are_escaped() -> None:
    assert "<script>" in shown(Outputs({"<script>": np.zeros(1)}))
    assert "<script>" not in Outputs({"<script>": np.zeros(1)})._repr_html_()


def test_a_dispatch() -> None:
    texts = shown(addition().bind([array(), array()], [array()]))
    assert texts[0] == "<dispatch of DML_ELEMENT_WISE_ADD_OPERATOR_DESC on numpy>"
    assert texts[-3:] == ["output_tensor", "output", "FLOAT32 [1, 1, 2, 3] (packed, 24 bytes)"]


def test_a_graph() -> None:
    g = dml.GraphBuilder("<sum>")
    x = g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=SIZES))
    g.output("y", g.add(dml.ElementWiseAddDesc, a_tensor=x, b_tensor=x))
    html = dml.compile(g.build(), "numpy")._repr_html_()
    assert "&lt;graph of 1 node compiled for numpy" in html
    assert "<sum>" not in html
