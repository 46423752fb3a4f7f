"""The plan of a max or average pooling in strips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.devices.cpu.convolution.depthwise import Planes, Strips
from dmlpy.devices.cpu.convolution.strip_parameters import PARAMETERS
from dmlpy.devices.cpu.isa import host_isa
from dmlpy.devices.cpu.jit import make_struct
from dmlpy.devices.cpu.pooling.pooling_counts import window_counts
from dmlpy.devices.cpu.thread_pool import TaskLaunch
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.devices.threads import available_threads
from dmlpy.operators.pooling.average import AveragingDesc

if TYPE_CHECKING:
    from dmlpy.operators.pooling.windows import ForwardPoolingDesc

_WORK_OF_A_THREAD = 1 << 20
"""Taps of all positions that are worth waking another thread for."""


class StripPoolingPlan(PlanWithoutConstants):
    """A pooling of FLOAT32 or FLOAT16 over two dimensions whose windows go down the planes in strips.

    Args:
        desc: a checked desc of four dimensions, without indices.
        planes: its planes, whose windows are strips.
    """

    temporary_size = 0

    def __init__(self, desc: ForwardPoolingDesc, planes: Planes) -> None:
        isa = host_isa()
        self._threads = max(1, min(available_threads(), planes.taps // _WORK_OF_A_THREAD))
        self._averages = isinstance(desc, AveragingDesc)
        self._strips = Strips("average" if self._averages else "max", planes, desc.tensors(), self._threads, isa)
        self._counts = window_counts(desc, isa) if self._averages else ()

    @classmethod
    def of(cls, desc: ForwardPoolingDesc) -> StripPoolingPlan | None:
        """The plan; None where windows are no strips, or there is one: vectors run along its rows then (see `PoolingPlan`)."""
        assert desc.output_tensor is not None  # guaranteed by the check
        (images, channels, *spatial), (_, _, *out) = desc.input_tensor.sizes, desc.output_tensor.sizes
        sizes = spatial, out, desc.window_size, desc.strides, desc.start_padding
        planes = Planes(images, channels, *((own[-2], own[-1]) for own in sizes))
        isa, dilations = host_isa(), getattr(desc, "dilations", (1, 1))
        undilated = all(taps == 1 or dilation == 1 for taps, dilation in zip(planes.window, dilations[-2:], strict=True))
        fits = undilated and planes.out != (1, 1) and planes.are_strips(desc.tensors(), isa.lanes, isa)
        return cls(desc, planes) if fits else None

    def load(self) -> None:
        self._strips.kernel()

    def describe(self) -> str:
        threads = f"{self._threads} thread{'s' * (self._threads > 1)}"
        return f"compiled by Numba, float32 arithmetic on {threads}; {self._strips.items} item(s)\n{self._strips.describe()}"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: dict[str, Any] = self._strips.values(tensors)
        if self._averages:
            values |= {name: counts.ctypes.data for name, counts in zip(("row_counts", "column_counts"), self._counts, strict=True)}
        parameters = make_struct(PARAMETERS, values)
        return TaskLaunch(self._strips.kernel(), parameters.ctypes.data, self._threads, (parameters, self._counts))
