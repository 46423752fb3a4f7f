"""The structs that Python passes to kernels are laid out as C++ lays them out."""

from __future__ import annotations

import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.kernels import Kernel
from dmlpy.devices.cuda.recurrent import ATTRIBUTES
from dmlpy.operators.activation import ActivationDesc
from tests.cpu_compiler import dtype_layout, struct_layout
from tests.kernel_instances import functor, instances
from tests.tools import require

STRUCTS = {kernel.parameter_struct: kernel for kernel in instances()}


@pytest.mark.parametrize("kernel", STRUCTS.values(), ids=STRUCTS)
def test_parameters(kernel: Kernel) -> None:
    require("g++")
    in_python = dtype_layout(kernel.parameters)
    in_cpp = struct_layout(sources.read(kernel.file), kernel.parameter_struct, [name for name in in_python if name])
    assert in_python == in_cpp


def test_activation_attributes() -> None:
    """Members are the attributes in order, floats without gaps; a functor without attributes is empty, so of size 1."""
    require("g++")
    source = sources.read("recurrent.cu")

    def in_cpp(activation: type[ActivationDesc]) -> dict[str, int]:
        return struct_layout(source, functor(activation), ATTRIBUTES[activation])

    for activation, attributes in ATTRIBUTES.items():
        expected = {name: 4 * place for place, name in enumerate(attributes)} | {"": max(1, 4 * len(attributes))}
        assert in_cpp(activation) == expected, activation
