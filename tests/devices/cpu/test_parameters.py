"""The parameters of convolutions, products, poolings, normalizations, reductions and programs: kernels read every field there is."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import chain

import pytest

from dmlpy.devices.cpu.structs import CountedParameters, KernelStruct, StagedParameters, UnitParameters
from tests.support.folders import ROOT

FOLDER = ROOT / "dmlpy/devices/cpu"
MODULES = {
    "convolution": ("layout", "depthwise"),
    "elementwise": ("program",),
    "matrix": ("blocked", "plan"),
    "normalization": ("plan",),
    "pooling": ("plan",),
    "reduction": ("plan",),
}
BASES = (KernelStruct, CountedParameters, StagedParameters, UnitParameters)
UNUSED = {"reserved"}
"""Fields that are there for their size alone."""


def structs() -> dict[str, tuple[str, type[KernelStruct]]]:
    """The structs that a family's modules define, and the family, by their names."""
    found: dict[str, tuple[str, type[KernelStruct]]] = {}
    for family, modules in MODULES.items():
        for name in modules:
            module = import_module(f"dmlpy.devices.cpu.{family}.{name}")
            for each in vars(module).values():
                if isinstance(each, type) and issubclass(each, KernelStruct) and each.__module__ == module.__name__:
                    found[each.__name__] = family, each
    return found


STRUCTS = structs()


@pytest.mark.parametrize("name", STRUCTS)
def test_every_field_is_described_and_read(name: str) -> None:
    """By its name, in the family's kernels, in those that gather input tiles of poolings, or in what begins with a thread's scratch."""
    family, struct = STRUCTS[name]
    shared = [FOLDER / "thread_pool_kernels.py", *[FOLDER / "convolution/gather_kernels.py"] * (family == "pooling")]
    kernels = chain(FOLDER.glob(f"{family}/*kernels.py"), shared)
    text = "\n".join(path.read_text(encoding="utf-8") for path in kernels)
    read = {first or second for first, second in re.findall(r"\b[pi]\.(\w+)\b|\"(\w+)\"", text)}
    own = set(struct.dtype.names or ()) - set(chain.from_iterable(base.dtype.names or () for base in BASES)) - UNUSED
    assert own
    assert own - read == set()
    assert all(struct.texts[field].strip() for field in own)


def test_numbers_of_eight_bytes_are_aligned() -> None:
    """Kernels load them as a whole, and write to the first two of a launch's parameters atomically."""
    for _, struct in STRUCTS.values():
        assert struct.dtype.fields is not None
        assert {offset % kind.itemsize for kind, offset, *_ in struct.dtype.fields.values()} == {0}, struct.__name__
        if issubclass(struct, CountedParameters):
            assert list(struct.dtype.names or ())[:3] == ["ticket", "done", "tiles"]
