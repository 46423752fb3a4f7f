"""Operators called on arrays: a function for each, which describes the arrays, checks, compiles and runs in one call.

    from dmlpy import eager

    y = eager.gemm(a, b, trans_b="TRANSPOSE")

A function has the name and the parameters of that of `dmlpy.x`, also where DirectML lacks the operator. `__init__.pyi` lists them for
editors; `python -m dmlpy.x.stubs` writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from dmlpy.eager.functions import make_function

    if (kind := _operator_of(name)) is None:
        from dmlpy.x.unknown_functions import unknown_function

        raise AttributeError(unknown_function("eager", name), name=name)
    function = globals()[name] = make_function(kind)
    return function


def __dir__() -> list[str]:
    from dmlpy.description.registry import OPERATORS
    from dmlpy.x.signatures import function_name

    return sorted(map(function_name, OPERATORS.values()))


def _operator_of(name: str) -> type[OperatorDesc] | None:
    """The operator that a function is named after. Only its family is imported."""
    from dmlpy.description.registry import C_PREFIX, EXTENSION_PREFIX, OPERATORS
    from dmlpy.x.signatures import function_name

    short = name.removesuffix("_").upper()
    for spelling in (C_PREFIX + short, f"{C_PREFIX}ELEMENT_WISE_{short}", EXTENSION_PREFIX + short):
        if spelling in OPERATORS and function_name(OPERATORS[spelling]) == name:
            return OPERATORS[spelling]
    return None
