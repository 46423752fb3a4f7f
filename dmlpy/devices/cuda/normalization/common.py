"""The bases of the plans of normalizations: of any, and of batch normalization and its gradient."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dmlpy.devices.axes import Axis, merged, vector_width
from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.common.axes import VECTOR_BYTES, axes_type
from dmlpy.devices.cuda.common.division import SPLITS, Division, of_tensors, thread_groups_type
from dmlpy.devices.cuda.kernels import ALIGNMENT, Kernel, KernelLibrary, Struct, struct
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, L2_SHARE, GpuModel
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, in_order

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from dmlpy.operators.normalization.geometry import NormalizationGeometry, Operand

PART_BYTES = 12
"""Bytes of a thread's partial results of a group: three floats."""

_BYTE: np.dtype[Any] = np.dtype(np.uint8)


def parameters_type(
    data: tuple[str, ...], statistics: tuple[str, ...], numbers: tuple[str, ...], *others: tuple[Any, ...]
) -> np.dtype[np.void]:
    """Makes a struct type of parameters.

    Args:
        data: the roles of tensors of the input's sizes.
        statistics: the roles of tensors with one entry for each group.
        numbers: the other float32 members of the struct's `statistics`.
        others: the other members of the struct.
    """
    of_statistics = struct(
        *((role, np.uint64) for role in statistics),
        ("outer", axes_type(len(statistics))),
        ("strides", np.int64, (len(statistics),)),
        *((name, np.float32) for name in numbers),
    )
    addresses = ((role, np.uint64) for role in data)
    return struct(*addresses, ("thread_groups", thread_groups_type(len(data))), ("statistics", of_statistics), ("splits", SPLITS), *others)


class ThreadGroupsPlan(PlanWithoutConstants):
    """The operands' layout, the division of the groups, and launches that share one struct of parameters.

    Vectors need addresses at multiples of their size: a launch with other addresses uses single entries.

    Args:
        sizes: the sizes of the input.
        reduced: the dimensions that a group extends along.
        operands: the tensors by role: those of the input's sizes, and those with one entry for each group. `x` is one of them.
        library: the device's kernels.
        reduces: whether it computes sums over groups.

    Raises:
        DeviceError: there are more groups, or entries of a group, than kernels can index, or a kernel cannot be compiled.
    """

    data: ClassVar[tuple[str, ...]]
    """The roles of tensors of the input's sizes, in the order of the kernels."""
    statistics: ClassVar[tuple[str, ...]] = ()
    """The roles of tensors with one entry for each group, in the order of the kernels."""
    scratch: ClassVar[Mapping[str, int]]
    """The arrays besides the partial sums if groups are split: bytes for each group, by the field of their address."""

    def __init__(
        self, sizes: Sequence[int], reduced: Collection[int], operands: Mapping[str, Operand], library: KernelLibrary, reduces: bool
    ) -> None:
        self._library = library
        self._reduces = reduces
        self._operands = operands
        self.type = operands["x" if "x" in operands else "dy"].data_type.numpy  # some gradients do not read x
        nowhere = (0,) * len(sizes)
        strides = [operands[role].strides if role in operands else nowhere for role in (*self.data, *self.statistics)]
        axes = merged(sizes, strides, reduced) or (Axis(1, (0,) * len(strides), reduced=True),)
        width = vector_width(of_tensors(axes, slice(0, len(self.data))), VECTOR_BYTES // self.type.itemsize)
        again = len(self.read_again())
        divisions = [
            Division(axes, len(self.data), entries, self.type.itemsize, library.limits, reduces, PART_BYTES, again)
            for entries in (width, 1)
        ]
        self._by_vectors, self._by_entries = divisions
        # a tensor that repeats one element along vectors needs no alignment
        self._side_by_side = [role for at, role in enumerate(self.data) if role in operands and axes[-1].strides[at]]
        self.temporary_size = max(self._scratch(division).size for division in divisions)
        library.functions(self.kernel(name, self._by_vectors) for name in self.names(self._by_vectors))

    @abstractmethod
    def names(self, division: Division) -> list[str]:
        """The kernels of a launch, in order."""

    @abstractmethod
    def kernel(self, name: str, division: Division) -> Kernel:
        """The kernel of a name."""

    @abstractmethod
    def fill(self, argument: Struct, division: Division) -> None:
        """Sets the fields that are neither addresses nor described by the division."""

    def describe(self) -> str:
        division, other = self._by_vectors, self._by_entries
        lines = [
            f"CUDA, {self._library.limits.name}, {self.describe_types()}, float32 arithmetic",
            division.describe(),
            f"kernels: {self._entries(division)}",
        ]
        if division.width > 1:
            size = division.width * self.type.itemsize
            lines.append(f"unless each of {', '.join(self._side_by_side)} is at a multiple of {size} bytes: {other.describe()}")
        return "\n".join(lines)

    def describe_types(self) -> str:
        """Describes the types of tensors."""
        return f"{self.type} data"

    @abstractmethod
    def read_again(self) -> tuple[str, ...]:
        """The roles of data that a second pass reads again."""

    def cost(self) -> Cost:
        division, gpu = self._by_vectors, GpuModel.of(self._library.limits)
        size = division.groups * division.entries * self.type.itemsize
        once = size * sum(role in self._operands for role in self.data)
        again = round(size * len(self.read_again()) * (1.0 - division.kept_share))
        # The second pass goes backwards, so it starts with what the first one read last.
        missed = max(0.0, again - L2_SHARE * gpu.l2_bytes * division.groups / division.resident_groups())
        return Cost(
            traffic={"second pass": again} if again else {},
            floor_us=gpu.memory_us(once),
            estimate_us=gpu.memory_us(once + missed) + CAPTURED_LAUNCH_US * len(self.names(division)),
        )

    def _entries(self, division: Division) -> str:
        return ", ".join(self.kernel(name, division).entry for name in self.names(division))

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        addresses = {role: tensors[operand.name] for role, operand in self._operands.items()}
        size = self._by_vectors.width * self.type.itemsize
        aligned = all(addresses[role] % size == 0 for role in self._side_by_side)
        division = self._by_vectors if aligned else self._by_entries
        argument = self._argument(division, addresses | self._scratch(division).pointers(temporary))
        return in_order([self._launch(name, division, argument) for name in self.names(division)])

    def _scratch(self, division: Division) -> Layout:
        """The scratch arrays that a launch leaves for the next one."""
        if division.splits == 1 or not self._reduces:
            return Layout([], ALIGNMENT)
        sizes = {"partials": division.partial_bytes}
        sizes |= {name: division.groups * size for name, size in self.scratch.items()}
        return Layout([(name, (size,), _BYTE) for name, size in sizes.items()], ALIGNMENT)

    def _argument(self, division: Division, addresses: Mapping[str, int]) -> Struct:
        kernel = self.kernel(self.names(division)[0], division)
        argument: Struct = np.zeros(1, kernel.parameters)
        for role in (*self.data, *self.scratch):
            argument[role] = addresses.get(role, 0)
        argument["thread_groups"] = division.thread_groups()
        argument["splits"] = division.merging().splits(division, addresses.get("partials", 0))
        argument["cached"] = division.cached
        for role in self.statistics:
            argument["statistics"][role] = addresses.get(role, 0)
        self.fill(argument, division)
        return argument

    def _launch(self, name: str, division: Division, argument: Struct) -> Launch:
        kernel = self.kernel(name, division)
        if name == "combine":
            merging = division.merging()
            return self._library.launch(kernel, (merging.blocks,), merging.threads, argument, merging.shared_bytes)
        shared_bytes = division.shared_bytes if kernel.dynamic_shared else 0
        return self._library.launch(kernel, division.grid, division.threads, argument, shared_bytes)


class NormalizationPlan(ThreadGroupsPlan):
    """A plan of batch normalization or of its gradient.

    Args:
        geometry: the geometry of a checked desc.
        library: the device's kernels.
        used: the roles of tensors of the input's sizes that are read or written.
        reduces: whether it computes sums over groups.

    Raises:
        DeviceError: as `ThreadGroupsPlan`.
    """

    def __init__(self, geometry: NormalizationGeometry, library: KernelLibrary, used: Collection[str], reduces: bool) -> None:
        self._geometry = geometry
        self.statistic_type = geometry.operands["scale"].data_type.numpy
        operands = {role: operand for role, operand in geometry.operands.items() if role in used or role in self.statistics}
        super().__init__(geometry.sizes, geometry.reduced, operands, library, reduces)

    def describe_types(self) -> str:
        return f"{self.type} data, {self.statistic_type} statistics"

    def fill(self, argument: Struct, division: Division) -> None:
        argument["statistics"]["outer"], argument["statistics"]["strides"] = division.statistics()
        argument["side_by_side"] = division.side_by_side
