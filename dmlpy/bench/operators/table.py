"""All cases, by name, in the order of `dmlpy ops`."""

from __future__ import annotations

from dmlpy.bench.operators import activations, arrays, elementwise, layers, normalizations
from dmlpy.bench.operators.case import OperatorCase, by_name

_FAMILIES = (activations, arrays, elementwise, layers, normalizations)

CASES: dict[str, OperatorCase] = dict(sorted(by_name(case for family in _FAMILIES for case in family.cases()).items()))
