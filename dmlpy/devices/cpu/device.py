"""`CpuDevice`: the processor, with compiled plans if there are some, else with NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dmlpy.debugging import FALLBACKS, log_once
from dmlpy.description.enums import DataType, ExecutionFlags
from dmlpy.devices.bfloat16 import bfloat16_plan
from dmlpy.devices.cpu.plans import compiled_plan, llvmlite_is_installed, rounding_plan, why_no_kernels
from dmlpy.devices.device import shared
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.numpy.device import NumpyDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.loops import LoopBody, LoopRunner
    from dmlpy.devices.numpy.array_functions import WholePlan
    from dmlpy.devices.plan import Launch, LaunchSequence, Plan


_READ_BFLOAT16 = frozenset(
    {
        *("activation", "convolution", "matrix", "normalization", "optimization", "pooling", "reduction", "resampling"),
        *("GRU_BLOCK_CELL", "GRU_BLOCK_CELL_GRAD"),
    }
)
"""The families, and single operators, whose kernels read and write BFLOAT16, beside element-wise programs.

A step of a GRU reads all weights anew, of which copies would take as long as the step. Other recurrent operators copy them once.
"""


class CpuDevice(NumpyDevice):
    """The processor: runs everything that NumPy's device runs, with kernels that LLVM compiles, if llvmlite is installed and they exist.

    Arrays are NumPy's. ALLOW_HALF_PRECISION_COMPUTATION lets FLOAT32 products round their factors to BFLOAT16; other execution flags
    have no effect. `plan` of an operator names the strategy, `compiled` or `numpy`, and why. The first plan of a kind compiles its
    kernels, which takes a second.
    """

    name = "cpu"
    relocates = True
    looks_up_bytes = True

    def plan(self, desc: OperatorDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> Plan | None:
        compiled = compiled_plan(desc) if not desc.has_bfloat16 or self._reads_bfloat16(desc) else why_no_kernels() or ""
        if ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION in flags and not isinstance(compiled, str):
            make = rounding_plan.find(type(desc))
            compiled = (make(desc) if make is not None else None) or compiled
        if not isinstance(compiled, str):
            compiled.strategy = "compiled"
            return compiled
        if desc.has_bfloat16 and why_no_kernels() is None:
            from dmlpy.devices.cpu.movement.plans import bfloat16_conversion

            return bfloat16_plan(desc, lambda other: self.plan(other, flags), bfloat16_conversion)
        usual = super().plan(desc, flags)
        if usual is not None:
            log_once(FALLBACKS, lambda: f"{desc.c_name} on cpu: NumPy runs it: {compiled}")
            usual.strategy, usual.is_fallback = f"numpy ({compiled})", why_no_kernels() is None
        return usual

    @staticmethod
    def _reads_bfloat16(desc: OperatorDesc) -> bool:
        """Whether the plan of a desc with tensors of BFLOAT16, if it is compiled, reads and writes them."""
        from dmlpy.devices.cpu.elementwise.plans import is_groupable
        from dmlpy.devices.graphs.elementwise_group_desc import ElementwiseGroupDesc

        is_element_wise = isinstance(desc, ElementwiseGroupDesc) or is_groupable(desc)
        return is_element_wise or not _READ_BFLOAT16.isdisjoint({desc.family(), desc.short_name()})

    def _whole_plan_kind(self, desc: OperatorDesc) -> type[WholePlan]:
        types = {tensor.data_type for tensor in desc.tensors().values()}
        if DataType.FLOAT16 not in types or why_no_kernels() is not None:
            return super()._whole_plan_kind(desc)
        from dmlpy.devices.cpu.array_functions import ConvertingPlan

        return ConvertingPlan

    def is_element_wise(self, desc: OperatorDesc, plan_of: Callable[[OperatorDesc], Plan]) -> bool:
        from dmlpy.devices.cpu.elementwise.plans import is_groupable  # imports the element-wise operators, which most processes do not need

        return is_groupable(desc)

    def sequence(self, launches: Sequence[Launch]) -> LaunchSequence:
        from dmlpy.devices.cpu.launches import BatchedLaunches

        return BatchedLaunches(launches)

    def compile_loop(self, body: LoopBody) -> LoopRunner | None:
        from dmlpy.devices.cpu.launches import compiled_loop

        return None if why_no_kernels() is not None else compiled_loop(body)

    def describe(self) -> dict[str, str]:
        lines = {**super().describe(), "name": "CPU", "threads": str(available_threads())}
        if not llvmlite_is_installed():
            return lines | {"compiled plans": "none: llvmlite is not installed (pip install 'dmlpy[cpu]')"}
        from importlib.metadata import version  # imports what reads e-mails

        from dmlpy.devices.cpu.isa import host_isa, multiplies_bfloat16
        from dmlpy.devices.cpu.llvm import max_isa

        isa = host_isa()
        return lines | {
            "llvmlite": version("llvmlite"),
            "vector registers": f"{isa.registers} of {isa.lanes} floats",
            "BFLOAT16 products": "yes" if multiplies_bfloat16() else "no",
            **({} if (limit := max_isa()) is None else {"largest instruction set": limit}),
        }


@shared
def cpu_device(index: int) -> CpuDevice | str:
    """The processor as a device, or the reason why it does not exist."""
    return CpuDevice() if index == 0 else "there is one CPU device, 'cpu'"
