"""Graphs written as expressions, as DirectMLX has them in C++: a function for each of DirectML's operators, and Python's operators.

    from dmlpy import x

    image = x.input("image", [1, 3, 32, 32])
    y = x.activation_relu(x.convolution(image, filters, bias) + 1.0)
    result = x.compile(y, "numpy")(image=array).output

`__init__.pyi` lists the names; `python -m dmlpy.x.stubs` writes it and the functions.
"""

from typing import Any as _Any

from dmlpy.system.lazy_names import attach_names as _attach_names

_attribute, __dir__, __all__ = _attach_names(__name__, __file__)


def __getattr__(name: str) -> _Any:
    try:
        return _attribute(name)
    except AttributeError:
        if name.startswith("_"):
            raise
        from dmlpy.x.unknown_functions import unknown_function

        raise AttributeError(unknown_function("x", name, __all__), name=name) from None
