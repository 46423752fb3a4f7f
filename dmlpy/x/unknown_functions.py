"""The message for a function that `dmlpy.x` or `dmlpy.eager` does not have: it names the one that is meant."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from dmlpy.description.foreign_names import operator_remedy
from dmlpy.description.registry import OPERATORS
from dmlpy.messages.naming import did_you_mean
from dmlpy.x.signatures import function_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_DIRECTMLX = {
    "Reinterpret": "expression.reshape(...) has other sizes, and expression.viewed(desc) any desc, of the same memory",
    "FusedActivation": "pass fused_activation=dmlpy.ActivationReluDesc() or another activation",
    "ConvolutionBuilder": "did you mean x.convolution? its options are keywords",
    "TensorDesc": "did you mean dmlpy.TensorDesc? x.input takes its members",
    "Size2D": "did you mean dmlpy.Size2D?",
    "ScaleBias": "did you mean dmlpy.ScaleBias?",
}
"""The names of DirectMLX that are not functions here."""


def unknown_function(module: str, name: str, public: Sequence[str] = ()) -> str:
    """The text of an AttributeError.

    Args:
        module: the module's name behind `dmlpy.`.
        name: the unknown name.
        public: its public names, of which those that are no operator's function are remedies too.
    """
    # `from dmlpy.x import calls` asks for the attribute before it imports the module: the remedy would import all operators.
    if name.isidentifier() and find_spec(f"dmlpy.{module}.{name}") is not None:
        return f"dmlpy.{module}.{name} is a module that is not imported: import dmlpy.{module}.{name}"
    functions = {
        kind.short_name(): f"x.operator(dmlpy.{kind.__name__}, ...)"
        if module == "x" and kind.is_extension
        else f"{module}.{function_name(kind)}"
        for kind in OPERATORS.values()
    }
    called = {*functions.values()}
    others = [name_of_module for name_of_module in public if f"{module}.{name_of_module}" not in called]
    hint = (
        (_OF_DIRECTMLX.get(name[:1].upper() + name[1:]) if module == "x" else None)
        or operator_remedy(name, functions, functions.__getitem__, spelled_alike=False)
        or did_you_mean(name, others, f"{module}.{{}}".format)
        or operator_remedy(name, functions, functions.__getitem__)
    )
    return f"dmlpy.{module} has no function {name!r}{f': {hint}' if hint else ''}"
