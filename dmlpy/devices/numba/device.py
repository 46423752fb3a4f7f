"""`NumbaDevice`: host memory like NumPy's, and compiled walks for recurrent layers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from dmlpy.descs import OperatorDesc
from dmlpy.devices.device import shared
from dmlpy.devices.numpy.device import NumpyDevice
from dmlpy.devices.plan import Plan
from dmlpy.enums import ExecutionFlags, HResult
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RecurrentDesc, RNNDesc
from dmlpy.problems import CompileError, Problem

_RUNS = (RNNDesc, LSTMDesc, GRUDesc)
"""These alone: the training forms derive from them, but keep a reserve, may mask steps and project."""


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
        problems = list(_refusals(desc))
        if problems or not isinstance(desc, RecurrentDesc):
            raise CompileError(desc.c_name, problems, HResult.E_NOTIMPL, desc)
        from dmlpy.devices.numba.plan import RecurrentPlan

        return RecurrentPlan(desc)

    @classmethod
    def runs(cls, kind: type[OperatorDesc]) -> bool:
        return kind in _RUNS

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


def _refusals(desc: OperatorDesc) -> Iterator[Problem]:
    remedy = "compile it for the device 'numpy'" if NumpyDevice.runs(type(desc)) else None
    if not isinstance(desc, RecurrentDesc) or type(desc) not in _RUNS:
        names = ", ".join(kind.type_name for kind in _RUNS)
        yield Problem("operator.not_built", "", desc.type_name, f"an operator that runs on numba: {names}", remedy=remedy)
        return
    from dmlpy.devices.numba.plan import FUNCTIONS

    expected = f"one that runs on numba: {', '.join(kind.type_name for kind in FUNCTIONS)}"
    for index, activation in enumerate(desc.activation_descs):
        if type(activation) not in FUNCTIONS:
            yield Problem("operator.not_built", f"activation_descs[{index}]", activation.type_name, expected, remedy=remedy)


@shared
def numba_device(index: int) -> NumbaDevice | str:
    """The Numba device, or why there is none of that index."""
    return NumbaDevice() if index == 0 else "there is one Numba device, 'numba'"
