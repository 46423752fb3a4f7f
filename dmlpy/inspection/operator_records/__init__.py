"""A record of each operator of DirectML: the size at which it is timed, its equivalents in other libraries, its largest errors.

`dmlpy explain`, the operators' pages, `dmlpy bench` and the tests read it. Valid and wrong descs are not here but in `tests/facts`, apart
from dmlpy's code, which they check; `dmlpy.inspection.samples` has a valid one of each operator.
"""

from __future__ import annotations

from itertools import chain

from dmlpy.inspection.operator_records import activations, arrays, elementwise, layers, normalizations
from dmlpy.inspection.operator_records.record import OperatorRecord, TimedCase, UlpBound

__all__ = ["CASES", "RECORDS", "OperatorRecord", "TimedCase", "UlpBound"]

_LISTED = list(chain.from_iterable(family.records() for family in (activations, arrays, elementwise, layers, normalizations)))

RECORDS: dict[str, OperatorRecord] = {record.operator: record for record in sorted(_LISTED, key=lambda record: record.operator)}
"""The records by the operators' short names, in the order of `dmlpy ops`."""

CASES: dict[str, TimedCase] = {name: case for record in RECORDS.values() for name, case in record.cases().items()}
"""The sizes at which operators are timed, by name: `CONVOLUTION`, `CONVOLUTION:DEPTHWISE`."""

assert len(RECORDS) == len(_LISTED), "two records of an operator"
