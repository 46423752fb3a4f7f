"""DirectML's operators on any machine: structs that mirror directml.h, checked, compiled, and run on CPUs or CUDA.

Start with `dmlpy.eager` for single operators on arrays, `dmlpy.x` for graphs as expressions, or a desc such as `GEMMDesc`, `check` and
`compile`; `dmlpy.onnx`, `dmlpy.torch`, `dmlpy.keras`, `dmlpy.nn` and `dmlpy.thinc` build on them.

A public name is imported from its module when it is first used: describing all of DirectML takes longer than importing NumPy.
`__init__.pyi` lists the names; `python -m dmlpy.x.stubs` writes it.
"""

from dmlpy.system import interrupts as _interrupts  # noqa: F401  (first: Ctrl+C may come while the rest is imported)

# isort: split
import os as _os
from typing import Any as _Any

from dmlpy.system.garbage import collections_paused as _collections_paused
from dmlpy.system.lazy_names import attach_names as _attach_names
from dmlpy.version import __version__ as __version__

with _collections_paused():
    from dmlpy import operators as _operators  # noqa: F401  (announces the operators)
    from dmlpy.devices import cpu as _cpu  # noqa: F401  (adds itself to the kinds of devices)
    from dmlpy.devices import cuda as _cuda  # noqa: F401  (likewise)
    from dmlpy.devices import numpy as _numpy  # noqa: F401  (likewise)

_attribute, __dir__, __all__ = _attach_names(__name__, __file__)


def __getattr__(name: str) -> _Any:
    if name in __all__:
        return _attribute(name)
    from dmlpy.unknown_names import unknown_attribute

    raise AttributeError(unknown_attribute(name, __all__), name=name)


if "DMLPY_DEBUG" in _os.environ:
    from dmlpy.debugging import follow_environment as _follow_environment

    _follow_environment()
