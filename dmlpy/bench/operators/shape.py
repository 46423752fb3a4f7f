"""`OperatorShape` and `LargeShape`: cases of the operators' tables as shapes of the benchmark."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import dmlpy as dml
from dmlpy.bench.operators import suite
from dmlpy.bench.operators.scaling import OneSizeError, case_of, scaled_name
from dmlpy.bench.shapes import BOTH, DataType, Pass, Shape
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.flops import flops_of_products
from dmlpy.inspection.operator_records import CASES
from dmlpy.messages.naming import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.bench.operators.large import LargeCase
    from dmlpy.inspection.operator_records.record import Array, TimedCase

_SEED = 1


@dataclass(frozen=True, kw_only=True)
class _CaseShape(Shape):
    """The shape of a case of a table of operators."""

    operator: str
    """The case's name: the operator's, as in `dmlpy ops`, its form if it has several, and the multiple of its usual size: `GEMM@4`."""

    @property
    def key(self) -> str:
        return self.operator

    @property
    @abstractmethod
    def operator_case(self) -> TimedCase | LargeCase:
        """The case."""

    @abstractmethod
    def desc(self, dtype: DataType) -> dml.OperatorDesc:
        """The operator's desc."""

    def flops(self, which: Pass) -> int:
        return flops_of_products(self.desc("FLOAT32"))

    def bytes(self, which: Pass, dtype: DataType) -> int:
        """The bytes of all tensors, each once."""
        return sum(tensor.extent_in_bytes for tensor in self.desc(dtype).tensors().values())

    def descs(self, which: Pass, dtype: DataType) -> list[dml.OperatorDesc]:
        return [self.desc(dtype)]


@dataclass(frozen=True, kw_only=True)
class OperatorShape(_CaseShape):
    """One operator. Another type than FLOAT32 is that of all its FLOAT32 tensors; INT8 rows also have the operators on 8-bit tensors."""

    @property
    def operator_case(self) -> TimedCase:
        return case_of(self.operator)

    def arrays(self, dtype: DataType) -> dict[str, Any]:
        """The inputs by field, the same in every process; a tuple for an array of tensors."""
        return _arrays(self.operator, dtype if _converts(self.operator, dtype) else "FLOAT32")

    def desc(self, dtype: DataType) -> dml.OperatorDesc:
        return _desc(self.operator, dtype)


@dataclass(frozen=True, kw_only=True)
class LargeShape(_CaseShape):
    """One operator at a size that fills a GPU."""

    least_repeats: ClassVar[int | None] = 3
    turn_s: ClassVar[float | None] = 0.02

    @property
    def operator_case(self) -> LargeCase:
        return suite.CASES[self.operator]

    def desc(self, dtype: DataType) -> dml.OperatorDesc:
        return self.operator_case.desc(dtype)


@lru_cache(2)
def _arrays(operator: str, dtype: DataType) -> dict[str, Any]:
    rng = np.random.default_rng([_SEED, *operator.encode()])

    def drawn(draw: Any) -> Array:
        array: Array = draw(rng)
        return _of_type(array, dtype)

    inputs = case_of(operator).inputs
    return {name: tuple(map(drawn, draw)) if isinstance(draw, tuple) else drawn(draw) for name, draw in inputs.items()}


_INT8_SCALE = 30
"""The factor of numbers before they are rounded to INT8: normal ones then fill its range."""


def _of_type(array: Array, dtype: DataType) -> Array:
    """An array with FLOAT32 converted to the type; strides of 0 are preserved."""
    if array.dtype != np.float32 or dtype == "FLOAT32":
        return array
    from dmlpy.inspection.operator_records.record import once

    values = np.clip(np.rint(once(array) * _INT8_SCALE), -128, 127) if dtype == "INT8" else once(array)
    return np.broadcast_to(values.astype(dtype.lower()), array.shape)


@lru_cache(512)
def _converts(operator: str, dtype: DataType) -> bool:
    """Whether an operator's FLOAT32 tensors have another type: not if some have 8 bits and the type is INT8."""
    return dtype == "FLOAT16" or (dtype == "INT8" and not _has_bytes(_desc(operator, "FLOAT32")))


def _has_bytes(desc: dml.OperatorDesc) -> bool:
    return any(tensor.data_type.bits == 8 for tensor in desc.tensors().values())


@lru_cache(512)
def _takes(operator: str, dtype: DataType) -> bool:
    """Whether a case exists at its size, with tensors of a type, or of 8 bits, that DirectML supports."""
    try:
        case_of(operator)
        if dtype == "FLOAT32":
            return True
        desc = _desc(operator, dtype)
    except (OneSizeError, dml.DmlError):  # or outputs of this type cannot be inferred
        return False
    has_type = _has_bytes(desc) if dtype == "INT8" else any(tensor.data_type.name == dtype for tensor in desc.tensors().values())
    return has_type and not dml.check(desc)


@lru_cache(512)
def _desc(operator: str, dtype: DataType) -> dml.OperatorDesc:
    case, dtype = case_of(operator), dtype if _converts(operator, dtype) else "FLOAT32"
    kind = next(kind for kind in OPERATORS.values() if kind.short_name() == case.operator)

    def described(sizes: tuple[int, ...], of: Any) -> dml.TensorDesc:
        name = np.dtype(of).name.upper()
        return dml.TensorDesc(data_type=dtype if name == "FLOAT32" else name, sizes=sizes)

    members: dict[str, Any] = {
        name: dtype if name.endswith("data_type") and value == "FLOAT32" else value for name, value in case.members.items()
    }
    for field, value in _arrays(operator, dtype).items():
        members[field] = [*map(dml.TensorDesc.of, value)] if isinstance(value, tuple) else dml.TensorDesc.of(value)
    for field, tensors in case.outputs.items():
        members[field] = [described(*part) for part in tensors] if isinstance(tensors, list) else described(*tensors)
    desc: dml.OperatorDesc = kind(**members)
    missing = [name for name in desc.applicable_outputs() if name not in case.outputs]
    return desc.with_outputs(*missing) if missing and not case.outputs else desc


def tensor_text(desc: dml.OperatorDesc) -> str:
    """The type and sizes of the largest input, or of the first output: FLOAT32 8×32×32×32."""
    inputs, outputs = ([slot.tensor for slot in slots if slot.tensor is not None] for slots in (desc.input_slots(), desc.output_slots()))
    shown = max(inputs or outputs[:1], key=lambda tensor: prod(tensor.sizes))
    return f"{shown.data_type.name} {'×'.join(map(str, shown.sizes))}"


def select(
    names: Sequence[str], dtypes: Sequence[DataType], memory_kind: str = "cpu", scales: Sequence[float] = (1,)
) -> list[OperatorShape | LargeShape]:
    """The operators of these case-insensitive names, in all their forms, or one form: `CONVOLUTION:DEPTHWISE`.

    `ADD` also means `ELEMENT_WISE_ADD`. Without names, all on the CPU, and on a GPU those of `suite`. On a GPU a name means its large
    cases, if it has any; these have one size. Operators that take none of the types, or cannot have that multiple of their usual size, are
    left out.

    Raises:
        ValueError: a name is not an operator.
    """
    tables: list[Mapping[str, TimedCase | LargeCase]] = [suite.CASES, CASES] if memory_kind == "cuda" else [CASES]
    chosen = dict.fromkeys([full_name for name in names for full_name in _find_cases(name, tables)] or tables[0])
    shapes = [
        large_shape(name, dtypes) if name in suite.CASES else _shape(scaled_name(name, scale), dtypes)
        for name in chosen
        for scale in ((1,) if name in suite.CASES else scales)
    ]
    return [shape for shape in shapes if shape.dtypes]


def large_shape(name: str, dtypes: Sequence[DataType] = ()) -> LargeShape:
    """A case of `suite` in these of its types, or in all."""
    case_types: tuple[DataType, ...] = ("FLOAT32",) if suite.CASES[name].half_precision else BOTH
    chosen = tuple(dtype for dtype in case_types if not dtypes or dtype in dtypes)
    return LargeShape(title="operator", suite="operators", dtypes=chosen, passes=("forward",), operator=name)


def _shape(name: str, dtypes: Sequence[DataType]) -> OperatorShape:
    types: tuple[DataType, ...] = tuple(dtype for dtype in dtypes or ("FLOAT32",) if _takes(name, dtype))
    return OperatorShape(title="operator", suite="operators", dtypes=types, passes=("forward",), operator=name)


def _find_cases(name: str, tables: Sequence[Mapping[str, TimedCase | LargeCase]]) -> list[str]:
    """The cases of a name in the first table that has some."""
    spelled = name.upper().removeprefix("DML_OPERATOR_")
    for table in tables:
        for alias in (spelled, f"ELEMENT_WISE_{spelled}", f"ACTIVATION_{spelled}"):
            if keys := [key for key, case in table.items() if alias in (key, case.operator)]:
                return keys
    near = nearest(spelled, [case_name for table in tables for case_name in table])
    raise ValueError(f"{name!r} is not an operator of DirectML's; " + (f"did you mean {near!r}?" if near else "dmlpy ops lists all"))
