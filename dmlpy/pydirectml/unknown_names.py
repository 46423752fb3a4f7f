"""The message for a name that `dmlpy.pydirectml` does not have: pydirectml has functions for some operators only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.messages.naming import unknown_attribute

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODULE = "dmlpy.pydirectml"


def explain(name: str, public: Sequence[str]) -> str:
    """The text of an AttributeError of `dmlpy.pydirectml`.

    Args:
        name: the unknown name.
        public: the names that there are.
    """
    from dmlpy import x

    functions = {offered.replace("_", ""): offered for offered in public if offered.islower()}
    plain = name.replace("_", "").lower()
    found = next((functions[spelling] for spelling in (plain, f"activation{plain}") if spelling in functions), None)
    if found is not None and found != name:
        return f"module {_MODULE!r} has no attribute {name!r}: did you mean {_MODULE}.{found}?"
    if not name.startswith("_") and callable(getattr(x, name, None)):
        return f"module {_MODULE!r} has no attribute {name!r}, as pydirectml has none: dmlpy.x.{name} takes its expressions"
    return unknown_attribute(_MODULE, name, public)
