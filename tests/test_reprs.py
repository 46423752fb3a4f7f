"""What an object prints in a shell says what it is, and no address."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import dmlpy as dml
from dmlpy import keras, onnx
from tests.support.onnx.models import model


def builder() -> dml.GraphBuilder:
    g = dml.GraphBuilder("net")
    value = g.input("x", dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3]))
    g.output("y", g.add(dml.ElementWiseAbsDesc, "abs", input_tensor=value))
    return g


def onnx_model() -> onnx.Model:
    from onnx.helper import make_node

    return onnx.load(model([make_node("Relu", ["x"], ["y"])], {"x": [1, 3]}, ["y"]))


def network() -> keras.Sequential:
    found = keras.Sequential(device="numpy")
    found.add(keras.Dense(3, input_dim=2, name="first"))
    found.add(keras.Dense(1, name="last"))
    return found


def trained() -> keras.Optimizer:
    net, adam = network(), keras.Adam(0.01)
    net.compile(adam, "mse")
    net.train_on_batch(np.zeros((4, 2), np.float32), np.zeros((4, 1), np.float32))
    return adam


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (builder, "<graph builder 'net': 1 input, 1 node, 1 output>"),
        (onnx_model, "<ONNX model small of 1 node: x float32 [1, 3]>"),
        (lambda: keras.Sequential(device="numpy"), "<Sequential on numpy of 0 layers>"),
        (network, "<Sequential on numpy of 2 layers: first, last>"),
        (lambda: keras.LSTM(8, return_sequences=True), "LSTM(output_dim=8, return_sequences=True)"),
        (trained, "<Adam of lr 0.01 after 1 update>"),
    ],
)
def test_an_object_says_what_it_is(make: Callable[[], object], expected: str) -> None:
    assert repr(make()) == expected
    assert not re.search("0x[0-9a-f]{6}", repr(make()))
