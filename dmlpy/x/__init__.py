"""Graphs written as expressions, as DirectMLX has them in C++: a function for each of DirectML's operators, and Python's operators.

    from dmlpy import x

    image = x.input("image", [1, 3, 32, 32])
    y = x.activation_relu(x.convolution(image, filters, bias) + 1.0)
    result = x.compile(y, "numpy")(image=array).output

`__init__.pyi` lists the names; `python -m dmlpy.x.stubs` writes it and the functions.
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
