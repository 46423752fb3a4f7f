"""The structs that Python passes to kernels are laid out as C++ lays them out."""

from __future__ import annotations

import re

import pytest

from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.common.axes import MOST_AXES
from dmlpy.devices.cuda.common.element_engine import elements_kernel
from dmlpy.devices.cuda.common.functors import ELEMENT_WISE, Applied, Chained, Functor, functor
from dmlpy.devices.cuda.emulation.compiler import dtype_layout, struct_layouts
from dmlpy.devices.graphs.elementwise_fusion import MAX_GROUPED, MAX_INPUTS
from tests.support.cuda.instances.kernels import instances
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


MOST_BYTES = 4096
"""Of a kernel's arguments, with drivers before 530."""


def test_arguments_fit_every_driver() -> None:
    """Those of all instances, and of the longest chain in a graph, of functors that scale their argument and have two attributes."""
    scaled = Functor(Chained.file, "Scaled<Linear>", tuple((name, "float32", 1.0) for name in ("scale", "bias", "alpha", "beta")))
    chain = Chained((Applied(scaled, "float", ()),) * MAX_GROUPED)
    longest = elements_kernel(chain, 1, "int64", 2 * MOST_AXES, ["float"] * (1 + MAX_INPUTS))
    largest = max((*instances(), longest), key=lambda kernel: kernel.parameters.itemsize)
    assert largest.parameters.itemsize <= MOST_BYTES, f"{largest.entry}: {largest.parameters.itemsize} bytes"


def test_comments_begin_with_a_space() -> None:
    """Else a line of a `///` comment was wrapped by a tool that does not know them."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sources.directory().rglob("*.cu*")}
    found = {name: re.findall(r"^\s*//[^ /\n].*", text, re.MULTILINE) for name, text in texts.items()}
    assert not {name: lines for name, lines in found.items() if lines}
