"""Tensors of PyTorch whose signs are flipped when they are read: DLPack and addresses do not show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import dmlpy as dml
from dmlpy import eager, onnx
from dmlpy.description.arrays import view
from tests.support.onnx.models import model

torch: Any = pytest.importorskip("torch")

Z = torch.tensor([[1 + 2j, 3 - 4j, -5 + 0.5j], [6j, -7 - 1j, 8 + 8j]])
EXPECTED = -Z.imag.numpy()


TENSORS = {
    "flipped": (lambda: Z.conj().imag, EXPECTED),
    "every second": (lambda: Z.conj().imag[:, ::2], EXPECTED[:, ::2]),
    "without memory": (lambda: torch._efficientzerotensor((2, 3)), np.zeros((2, 3), np.float32)),
    "without memory, halves": (lambda: torch._efficientzerotensor((2, 3), dtype=torch.float16), np.zeros((2, 3), np.float16)),
    "without memory, flipped": (lambda: torch._neg_view(torch._efficientzerotensor((2, 3))), np.zeros((2, 3), np.float32)),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_an_input_has_the_elements_that_pytorch_shows(kind: str) -> None:
    make, expected = TENSORS[kind]
    tensor = make()
    assert tensor.is_neg() or tensor._is_zerotensor()
    desc = dml.ActivationIdentityDesc(input_tensor=dml.TensorDesc.of(tensor)).with_outputs()
    np.testing.assert_array_equal(dml.compile(desc, "numpy")(input_tensor=tensor).output_tensor, expected)
    np.testing.assert_array_equal(dml.reference(desc, input_tensor=tensor).output_tensor, expected)
    np.testing.assert_array_equal(np.asarray(eager.activation_identity(tensor)), expected)
    element = helper.np_dtype_to_tensor_dtype(expected.dtype)
    built = model([helper.make_node("Identity", ["x"], ["y"])], {"x": tuple(tensor.shape)}, ["y"], types={"x": element, "y": element})
    np.testing.assert_array_equal(onnx.load(built).compile("numpy")({"x": tensor})["y"], expected)


class OfGpu:
    """A tensor of a GPU as PyTorch's is, with signs that are flipped when it is read, or without memory."""

    is_cuda = True

    def __init__(self, *, flipped: bool) -> None:
        self._flipped = flipped

    def is_neg(self) -> bool:
        return self._flipped

    def _is_zerotensor(self) -> bool:
        return not self._flipped

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("its memory is taken as it is")


@pytest.mark.parametrize("flipped", [True, False])
def test_such_a_tensor_of_a_gpu_is_refused(flipped: bool, cuda_device: dml.Device) -> None:
    """Its copy would be made and freed in the order of PyTorch's stream."""
    for look in (view, cuda_device.view):
        with pytest.raises(TypeError, match=r"resolve_neg\(\)\.clone"):
            look(OfGpu(flipped=flipped))


def test_an_output_is_refused_whose_signs_would_be_turned() -> None:
    tensor = Z.clone().conj().imag
    assert view(tensor).read_only
    desc = dml.ActivationIdentityDesc(input_tensor=dml.TensorDesc.of(tensor)).with_outputs()
    with pytest.raises(dml.BindError, match="a read-only array"):
        dml.compile(desc, "numpy")(input_tensor=EXPECTED, output_tensor=tensor)
    np.testing.assert_array_equal(tensor.resolve_neg().numpy(), EXPECTED)
