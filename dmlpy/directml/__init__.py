"""The names of directml.h: `DML_RNN_OPERATOR_DESC` is `dmlpy.RNNDesc`, and so on for every struct, enumeration and constant that dmlpy has.

For code that is carried over from C: `from dmlpy.directml import *`. An operator's type, like `DML_OPERATOR_GEMM`, is its name as text:
what `type_name` of its class is, and `Type` in JSON. What type checkers read, `__init__.pyi`, is written by `python -m dmlpy.x.stubs`.
"""

from dmlpy.directml.names import NAMES

globals().update(NAMES)
__all__ = sorted(NAMES)


def __getattr__(name: str) -> object:
    from dmlpy.directml.unknown_names import unknown_name

    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    raise AttributeError(unknown_name(name), name=name)
