"""Bases of the plans of recurrent layers and of their gradients: for all strategies, and for `persistent_block`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from dmlpy.devices.cuda.recurrent.block_shapes import pack_vector4_kernel
from dmlpy.devices.cuda.recurrent.common import storage_type
from dmlpy.devices.plan import Plan

if TYPE_CHECKING:
    from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary, Struct
    from dmlpy.devices.cuda.recurrent.block_shapes import BlockShape
    from dmlpy.devices.cuda.recurrent.model import Estimate
    from dmlpy.devices.plan import Launch
    from dmlpy.operators.recurrent.layer import RecurrentDesc


class RecurrencePlan(Plan):
    """The base of the strategies' plans, of either pass.

    Attributes:
        label: the operator that its launches belong to, for messages.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        reason: why this strategy was chosen, for `describe`.
        tf32: whether factors of float32 matrix products may be rounded to TF32.
    """

    estimate: Estimate | None = None
    """The model's estimate of the recurrence; set by `strategies`."""

    not_resident = ""
    """Why `persistent_grid` could not be used, if so; set by `strategies`."""

    steps_apart = 0
    """The number of steps launched separately; 0 if one launch runs the whole sequence."""

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, reason: str, tf32: bool = False) -> None:
        self.label = desc.c_name
        self._desc, self._library, self._reason, self._tf32 = desc, library, reason, tf32
        self._sizes, self._cell, self._tensors, self._type = desc.geometry, desc.cell, desc.tensors(), storage_type(desc)

    def load(self) -> None:
        self._library.functions(self.kernels())

    @abstractmethod
    def kernels(self) -> list[Kernel]:
        """All kernels that this plan launches."""

    @abstractmethod
    def _describe_recurrence(self) -> list[str]:
        """Describes the launches of the recurrence, for `describe`."""


class BlockRecurrencePlan(RecurrencePlan):
    """One launch of a kernel `persistent_block` for the whole sequence.

    Args:
        desc: a checked desc.
        library: the device's kernels.
        shape: of the launch.
        reason: as for `RecurrencePlan`.
        tf32: as for `RecurrencePlan`.
    """

    def __init__(self, desc: RecurrentDesc, library: KernelLibrary, shape: BlockShape, reason: str, tf32: bool = False) -> None:
        self._shape = shape
        super().__init__(desc, library, reason, tf32)

    @property
    @abstractmethod
    def _kernel(self) -> Kernel:
        """The kernel."""

    def kernels(self) -> list[Kernel]:
        return [*super().kernels(), pack_vector4_kernel(self._type), self._kernel]  # type: ignore[safe-super]

    def _launch_recurrence(self, argument: Struct) -> Launch:
        shape = self._shape
        return self._library.launch(self._kernel, shape.grid, shape.threads, argument, shape.shared_bytes)
