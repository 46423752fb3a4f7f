"""The structs that Python passes to kernels are laid out as C++ lays them out."""

from __future__ import annotations

import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.compiler import dtype_layout, struct_layouts
from dmlpy.devices.cuda.functors import ELEMENT_WISE, functor
from tests.support.cuda.kernel_instances import instances
from tests.support.tools import require

FILES = sorted({kernel.file for kernel in instances()})


@pytest.mark.parametrize("file", FILES)
def test_parameters(file: str) -> None:
    require("g++")
    in_python = {kernel.parameter_struct: dtype_layout(kernel.parameters) for kernel in instances() if kernel.file == file}
    fields = {struct: [name for name in layout if name] for struct, layout in in_python.items()}
    assert in_python == struct_layouts(sources.read(file), fields)


def test_activation_attributes() -> None:
    """Members are the attributes in order, floats without gaps; a functor without attributes is empty, so of size 1."""
    require("g++")
    attributes = {functor(activation): names for activation, names in ELEMENT_WISE.items()}
    expected = {
        name: {member: 4 * place for place, member in enumerate(members)} | {"": max(1, 4 * len(members))}
        for name, members in attributes.items()
    }
    assert expected == struct_layouts(sources.read("recurrent/layer.cu"), attributes)
