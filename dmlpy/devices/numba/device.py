"""`NumbaDevice`: host memory like NumPy's, and compiled walks for recurrent layers."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from dmlpy.description.enums import ExecutionFlags, HResult
from dmlpy.description.registry import OPERATORS
from dmlpy.devices.device import shared
from dmlpy.devices.numba.plans import plan
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.validation.problems import CompileError, Problem

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.devices.plan import Plan


class NumbaDevice(NumpyDevice):
    """The processor, by kernels that Numba compiles: RNN, LSTM and GRU forward. Arrays are NumPy's; execution flags have no effect.

    The first plan of a cell compiles its kernels, which takes seconds. NUMBA_NUM_THREADS bounds the threads.
    """

    name = "numba"

    def plan(self, desc: OperatorDesc, flags: ExecutionFlags = ExecutionFlags.NONE) -> Plan | None:
        """The plan for a checked desc.

        Raises:
            CompileError: the device does not run this operator, or not with these activations.
        """
        make = plan.find(type(desc))
        if make is None:
            raise CompileError(desc.c_name, [_refusal(desc, elsewhere=super().plan(desc) is not None)], HResult.E_NOTIMPL, desc)
        return make(desc)

    @classmethod
    def runs(cls, kind: type[OperatorDesc]) -> bool:
        return plan.find(kind) is not None

    def describe(self) -> dict[str, str]:
        from dmlpy.devices.numba.plan import max_threads
        from dmlpy.devices.numba.vectors import host_registers

        registers = host_registers()
        return {
            **super().describe(),
            "name": "Numba on the CPU",
            "Numba, llvmlite": f"{version('numba')}, {version('llvmlite')}",
            "vector registers": f"{registers.count} of {registers.lanes} floats",
            "threads": str(max_threads()),
        }


def _refusal(desc: OperatorDesc, *, elsewhere: bool) -> Problem:
    names = ", ".join(known.type_name for known in OPERATORS.values() if NumbaDevice.runs(known))
    remedy = "compile it for the device 'numpy'" if elsewhere else None
    return Problem("operator.not_built", "", desc.type_name, f"an operator that runs on numba: {names}", remedy=remedy)


@shared
def numba_device(index: int) -> NumbaDevice | str:
    """The Numba device, or the reason why there is none of that index."""
    return NumbaDevice() if index == 0 else "there is one Numba device, 'numba'"
