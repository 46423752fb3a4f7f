"""The reductions of raw_kernels/common/reduction.cuh: the name of each, the entry type of its kernel, and its parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.enums import AxisDirection, ReduceFunction
from dmlpy.devices.cuda.kernels import scalar_type, struct
from dmlpy.operators.reduction import ArgminDesc, IndexReductionDesc, ReduceDesc

if TYPE_CHECKING:
    from dmlpy.operators.reduction import ReductionDesc

SETTINGS = struct(
    ("flip", np.int64), ("entries", np.float32), ("number_step", np.uint32), ("number_flip", np.uint32), ("index_bytes", np.int32)
)
"""`ReductionSettings`."""

FUNCTIONS = {
    ReduceFunction.SUM: "Sum",
    ReduceFunction.AVERAGE: "Average",
    ReduceFunction.MULTIPLY: "Multiply",
    ReduceFunction.L1: "L1",
    ReduceFunction.L2: "L2",
    ReduceFunction.SUM_SQUARE: "SumSquare",
    ReduceFunction.LOG_SUM: "LogSum",
    ReduceFunction.LOG_SUM_EXP: "LogSumExp",
    ReduceFunction.MIN: "Extreme",
    ReduceFunction.MAX: "Extreme",
    ReduceFunction.ARGMIN: "ArgExtreme",
    ReduceFunction.ARGMAX: "ArgExtreme",
}
"""The reductions by their C++ names."""

_ALL_BITS = 2**32 - 1


@dataclass(frozen=True)
class Reduction:
    """A function of groups of entries.

    Attributes:
        function: its C++ name.
        data_type: of the entries.
        smallest: whether an `Extreme` or `ArgExtreme` finds the smallest entry, not the largest.
        last: whether the last of equal entries counts.
    """

    function: str
    data_type: np.dtype[Any]
    smallest: bool = False
    last: bool = False

    @classmethod
    def of(cls, desc: ReductionDesc) -> Reduction:
        """The reduction of a checked desc."""
        data_type = desc.input_tensor.data_type.numpy
        if isinstance(desc, ReduceDesc):
            return cls(FUNCTIONS[desc.function], data_type, desc.function in (ReduceFunction.MIN, ReduceFunction.ARGMIN))
        assert isinstance(desc, IndexReductionDesc)
        return cls("ArgExtreme", data_type, isinstance(desc, ArgminDesc), desc.axis_direction is AxisDirection.DECREASING)

    @property
    def gives_numbers(self) -> bool:
        """Whether the result is an entry's number in its group."""
        return self.function == "ArgExtreme"

    @property
    def scalar(self) -> str:
        """The element type as the kernel spells it: integers of a size share a kernel if it ignores their sign."""
        if is_float(self.data_type):
            return scalar_type(self.data_type)
        if self.function.endswith("Extreme"):
            return {1: "signed char", 2: "short", 4: "int", 8: "long long"}[self.data_type.itemsize]
        signed = self.function == "L1" and self.data_type.kind == "i"
        return (
            {4: "int", 8: "long long"}[self.data_type.itemsize]
            if signed
            else {4: "unsigned", 8: "unsigned long long"}[self.data_type.itemsize]
        )

    @property
    def part_bytes(self) -> int:
        """Bytes of the C++ reduction's part."""
        number = 8 if self.data_type.itemsize == 8 else 4
        if self.function == "Multiply" and self.data_type == np.float32:
            return 8  # a double
        return {"L2": 12, "LogSumExp": 8, "ArgExtreme": 2 * number}.get(self.function, number)

    def settings(self, entries: int, number_step: int, index_bytes: int) -> tuple[int, float, int, int, int]:
        """The value of a `SETTINGS` field.

        Args:
            entries: of a group.
            number_step: from the number of an entry of a vector to that of the next.
            index_bytes: of a result that is a number.
        """
        bits = 8 * self.data_type.itemsize
        sign = 1 << (bits - 1)
        # the largest signed number represents the entry to find: unsigned entries have their highest bit inverted
        flip = (sign if self.data_type.kind == "u" else 0) ^ (2 * sign - 1 if self.smallest else 0)
        return flip - 2 * sign * (flip >= sign), entries, number_step, _ALL_BITS * self.last, index_bytes
