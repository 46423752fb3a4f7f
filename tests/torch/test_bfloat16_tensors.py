"""Tensors of BFLOAT16, which PyTorch passes on by DLPack alone, and NumPy does not take."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from onnx import TensorProto, helper

import dmlpy as dml
from dmlpy import eager, onnx
from dmlpy.description import dlpack
from tests.support.onnx.models import model
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.tolerance import assert_close

torch: Any = pytest.importorskip("torch")

from dmlpy import torch as dt


class Tensor:
    """A tensor of PyTorch by DLPack alone, in a version of it."""

    def __init__(self, values: Any, *, versioned: bool) -> None:
        self.values, self.versioned, self.dtype = values, versioned, values.dtype

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **arguments: Any) -> Any:
        if arguments and not self.versioned:
            raise TypeError("unexpected keyword argument")
        return self.values.__dlpack__(**arguments)


@pytest.mark.parametrize("versioned", [True, False])
def test_tensors_of_other_libraries_are_used_in_place(versioned: bool) -> None:
    given, result = torch.randn(5, 9).bfloat16(), torch.full((4, 6), -1.0).bfloat16()
    source, target = Tensor(given[1:, ::2].T, versioned=versioned), Tensor(result.T[1:], versioned=versioned)
    desc = dml.ActivationReluDesc(input_tensor=dml.TensorDesc.of(source), output_tensor=dml.TensorDesc.of(target))
    assert [(tensor.sizes, tensor.strides) for tensor in desc.tensors().values()] == [((5, 4), (2, 9)), ((5, 4), (1, 6))]
    dml.compile(desc, "cpu").bind({"input_tensor": source}, {"output_tensor": target})()
    assert torch.equal(result[:, 1:], given[1:, ::2].relu())
    assert (result[:, 0] == -1.0).all()


def test_calls_and_models_take_tensors() -> None:
    """Calls give tensors of BFLOAT16, packed or not; models of ONNX give arrays, as of other tensors."""
    given = torch.randn(3, 8).bfloat16()
    for tensor in (given, given[:, ::2]):
        found = eager.activation_relu(tensor)
        assert torch.equal(found, tensor.relu())
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    types = {"x": TensorProto.BFLOAT16, "y": TensorProto.BFLOAT16}
    compiled = onnx.load(model(nodes, {"x": [3, 8]}, ["y"], opset=16, types=types)).compile("numpy")
    assert compiled(x=given)["y"].astype("float32").tolist() == given.relu().tolist()


@pytest.mark.parametrize("kind", ["LSTM", pytest.param("GRU", marks=pytest.mark.slow)])
def test_modules_and_their_gradients(kind: str) -> None:
    torch.manual_seed(3)
    module = getattr(dt, kind)(4, 6, 2, bidirectional=True, dtype=torch.bfloat16)
    wide = getattr(torch.nn, kind)(4, 6, 2, bidirectional=True, dtype=torch.float64)
    wide.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
    given = torch.randn(5, 3, 4).bfloat16()
    results: list[tuple[Any, ...]] = []
    for each, x in ((module, given), (wide, given.double())):
        x.requires_grad_()
        output, _ = each(x)
        (output.double() * torch.arange(output.numel()).reshape(output.shape) / 100).sum().backward()
        results.append((output.detach(), x.grad))
    named = module.views(module.params.grad)
    results[0] += tuple(named[name] for name in ("weight_ih_l0", "weight_hh_l1_reverse"))
    results[1] += (wide.weight_ih_l0.grad, wide.weight_hh_l1_reverse.grad)
    for found, expected in zip(*results, strict=True):
        assert found.dtype is torch.bfloat16
        assert_close(found.float().numpy(), expected.numpy(), BFLOAT16)


class Capsule:
    """A producer that gives a capsule that it has already given to another consumer, or made for a later version of DLPack."""

    dtype = torch.bfloat16

    def __init__(self, *, consumed: bool) -> None:
        self._capsule = torch.zeros(2, 3).bfloat16().__dlpack__(max_version=(1, 0))
        self._major = ctypes.c_uint32.from_address(dlpack.capsule_pointer(self._capsule, b"dltensor_versioned"))
        self._consumer = torch.from_dlpack(self._capsule) if consumed else None
        self._major.value = 1 if consumed else 2

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule


@pytest.mark.parametrize(("consumed", "message"), [(True, "named 'used_dltensor_versioned'"), (False, "of version 2")])
def test_capsules_that_may_not_be_read_are_refused(consumed: bool, message: str) -> None:
    """Their memory may be freed, or lie elsewhere."""
    with pytest.raises(dml.DescError, match=message):
        dml.TensorDesc.of(Capsule(consumed=consumed))
