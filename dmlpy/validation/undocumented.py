"""Element types that released programs give DirectML and Microsoft's page does not list: undocumented, but no errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.description import support
from dmlpy.description.enums import FeatureLevel
from dmlpy.messages.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.support import TypeSet
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.evidence.undocumented import TypeEntry


def find_undocumented(desc: OperatorDesc, variable: str, tensors: Iterable[TensorDesc], level: FeatureLevel) -> TypeEntry | None:
    """The entry on a type that no row of the operator lists and a program uses; the first tensor with such a type decides.

    Args:
        desc: the desc.
        variable: the type variable that the tensors share.
        tensors: the tensors.
        level: the feature level that the desc is checked against.
    """
    entries = [entry for entry in _applying(desc) if entry.variable == variable and _includes(entry, level)]
    return next((entry for tensor in tensors for entry in entries if str(tensor.data_type) in entry.types), None)


def undocumented_type(place: str, tensor: TensorDesc, allowed: TypeSet, entry: TypeEntry, level: FeatureLevel) -> Problem:
    """The problem of a tensor with such a type: what the page lists, and what the program does."""
    why = (f"feature level {level}", entry.sentence())
    return Problem("type.support", f"{place}.data_type", str(tensor.data_type), support.show(allowed), why, severity="undocumented")


def why_uncomputed(desc: OperatorDesc, *, on_cuda: bool = False) -> str | None:
    """The reason why a checked desc with an undocumented type is not computed, or None: most are."""
    for entry in _applying(desc):
        reason = entry.uncomputed or (entry.uncomputed_on_cuda if on_cuda else "")
        tensor = getattr(desc, entry.field)
        if reason and str(tensor.data_type) in entry.types:
            return f"{entry.field} is {tensor.data_type}: {reason}"
    return None


def _applying(desc: OperatorDesc) -> list[TypeEntry]:
    """The undocumented entries of the operator that are about a desc with these attributes."""
    from dmlpy.evidence.undocumented import undocumented_types  # which few descs ask for

    entries = undocumented_types(desc.short_name())
    return [entry for entry in entries if all(str(getattr(desc, name)) in values for name, values in entry.when.items())]


def _includes(entry: TypeEntry, level: FeatureLevel) -> bool:
    first, last = map(FeatureLevel.parse, entry.levels)
    return first <= level <= last
