"""The names of directml.h: `DML_RNN_OPERATOR_DESC` is `dmlpy.RNNDesc`, and so on for every struct, enumeration and constant that dmlpy has.

For code that is carried over from C: `from dmlpy.directml import *`. An operator's type, like `DML_OPERATOR_GEMM`, is its name as text:
what `type_name` of its class is, and `Type` in JSON. What type checkers read, `__init__.pyi`, is written by `python -m dmlpy.x.stubs`.
"""

from dmlpy.directml.names import NAMES

globals().update(NAMES)
__all__ = sorted(NAMES)


def __getattr__(name: str) -> object:
    from dmlpy.messages.naming import did_you_mean

    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    page = "the page From DirectML has the counterparts of interfaces and functions" if name.startswith(("DMLCreate", "IDML")) else None
    hint = page or did_you_mean(name, NAMES, "dmlpy.directml.{}".format)
    raise AttributeError(f"dmlpy.directml has no name {name!r}{f': {hint}' if hint else ''}", name=name)
