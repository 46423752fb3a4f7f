"""Tensors of PyTorch whose signs are flipped when they are read: DLPack and addresses do not show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlpy as dml
from dmlpy import onnx
from dmlpy.description.arrays import view
from tests.support.onnx.models import model

torch: Any = pytest.importorskip("torch")

Z = torch.tensor([[1 + 2j, 3 - 4j, -5 + 0.5j], [6j, -7 - 1j, 8 + 8j]])
EXPECTED = -Z.imag.numpy()


@pytest.mark.parametrize("kind", ["whole", "every second"])
def test_an_input_has_the_signs_that_pytorch_shows(kind: str) -> None:
    tensor, expected = Z.conj().imag, EXPECTED
    if kind == "every second":
        tensor, expected = tensor[:, ::2], expected[:, ::2]
    assert tensor.is_neg()
    desc = dml.ActivationIdentityDesc(input_tensor=dml.TensorDesc.of(tensor)).with_outputs()
    np.testing.assert_array_equal(dml.compile(desc, "numpy")(input_tensor=tensor).output_tensor, expected)
    built = model([helper.make_node("Identity", ["x"], ["y"])], {"x": tuple(tensor.shape)}, ["y"])
    np.testing.assert_array_equal(onnx.load(built).compile("numpy")({"x": tensor})["y"], expected)


def test_an_output_is_refused_whose_signs_would_be_turned() -> None:
    tensor = Z.clone().conj().imag
    assert view(tensor).read_only
    desc = dml.ActivationIdentityDesc(input_tensor=dml.TensorDesc.of(tensor)).with_outputs()
    with pytest.raises(dml.BindError, match="a read-only array"):
        dml.compile(desc, "numpy")(input_tensor=EXPECTED, output_tensor=tensor)
    np.testing.assert_array_equal(tensor.resolve_neg().numpy(), EXPECTED)
