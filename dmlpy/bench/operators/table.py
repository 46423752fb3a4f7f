"""All rows, by name, in the order of `dmlpy ops`."""

from __future__ import annotations

from dmlpy.bench.operators import activations, arrays, elementwise, layers, normalizations
from dmlpy.bench.operators.row import Row, by_name

_FAMILIES = (activations, arrays, elementwise, layers, normalizations)

ROWS: dict[str, Row] = dict(sorted(by_name(row for family in _FAMILIES for row in family.rows()).items()))
