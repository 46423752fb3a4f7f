"""Operators at sizes that fill a GPU, by dmlpy and PyTorch: in CUDA graphs, over more input sets in turn than caches hold."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dmlpy as dml
from dmlpy.bench.libraries import UnsupportedError
from dmlpy.bench.libraries.dmlpy import Dispatches, DmlpyRunner
from dmlpy.bench.libraries.torch import TorchRunner
from dmlpy.description.enums import ExecutionFlags
from dmlpy.devices.cuda.device import CudaDevice

if TYPE_CHECKING:
    from dmlpy.bench.libraries import Mode
    from dmlpy.bench.libraries.dmlpy import Dmlpy
    from dmlpy.bench.libraries.torch import Torch
    from dmlpy.bench.operators.large import Tensor
    from dmlpy.bench.work import Array, LargeWork

GRAPH = "graph"
NO_KERNEL = ("No available kernel", "No viable backend")
"""The start of PyTorch's error if the selected attention kernel does not support the tensors."""
_UNWRITTEN = 0xFF
"""The byte that outputs are filled with: a NaN, wherever no kernel writes."""


def modes(work: LargeWork) -> tuple[Mode, ...]:
    """PyTorch's modes: its own choice, and in FLOAT16 each selectable kernel."""
    variants = work.operator_case.variants if work.case.dtype == "FLOAT16" else ()
    return (GRAPH, *(f"{GRAPH} {name}" for name in variants))


class LargeDmlpyRunner(DmlpyRunner):
    """A dispatch for each set of inputs and outputs."""

    _work: LargeWork

    def __init__(self, library: Dmlpy, work: LargeWork, mode: Mode) -> None:
        self.sets = work.sets
        super().__init__(library, work, mode)

    def _place(self, sets: int) -> None:
        device, stream, case = self._device, self._stream, self._work.operator_case
        assert isinstance(device, CudaDevice), "these sizes are for GPUs"
        for field, array in self._work.arrays().items():
            self._put(_name(field, 0), case.inputs[field].in_memory(array))
            first = self._memory[_name(field, 0)]
            for number in range(1, sets):
                copied = device.allocate(first.size, stream, field)
                device.copy(copied.pointer, first.pointer, first.size, stream)
                self._memory[_name(field, number)] = copied
        for field, tensor in case.outputs.items():
            for number in range(sets):
                self._make(_name(field, number), tensor.desc(self._work.case.dtype))
                memory = self._memory[_name(field, number)]
                with device.runtime.use(device.ordinal):
                    device.runtime.memset(memory.pointer, _UNWRITTEN, memory.size, stream)

    def _bind(self, sets: int) -> tuple[list[Dispatches], list[dml.CompiledOperator]]:
        case = self._work.operator_case
        flags = ExecutionFlags.ALLOW_HALF_PRECISION_COMPUTATION if case.half_precision else ExecutionFlags.NONE
        operator = dml.compile(self._work.desc, self._device, flags=flags)
        dispatches: list[Dispatches] = []
        scratch: dml.Buffer | None = None
        if size := operator.binding_properties.temporary_resource_size:  # one for all, since they run one at a time
            self._memory["scratch"] = self._device.allocate(size, self._stream, "scratch")
            scratch = self._buffer("scratch")
        for number in range(sets):
            inputs, outputs = ({field: self._buffer(_name(field, number)) for field in tensors} for tensors in (case.inputs, case.outputs))
            dispatches.append([operator.bind(inputs, outputs, temporary=scratch)])
        return dispatches, [operator]

    def results(self) -> dict[str, Array]:
        return {field: tensor.from_memory(self._read(_name(field, 0))) for field, tensor in self._work.operator_case.outputs.items()}


def _name(field: str, number: int) -> str:
    return f"{field}{number}"


class LargeTorchRunner(TorchRunner):
    """Calls the case's function with selected or default kernels. Its modes share the inputs."""

    _work: LargeWork

    def __init__(self, library: Torch, work: LargeWork, mode: Mode, inputs: list[Any]) -> None:
        self.sets, self._inputs, self._variant = work.sets, inputs, mode.removeprefix(GRAPH).strip()
        self.plan = (f"PyTorch's {self._variant or 'own choice'}" + (", TF32 allowed" if work.operator_case.half_precision else ""),)
        try:
            super().__init__(library, work, mode)
        except RuntimeError as error:
            if self._variant and str(error).startswith(NO_KERNEL):
                raise UnsupportedError(f"PyTorch has no {self._variant} kernel for these tensors here") from error
            raise

    def _place(self) -> None:
        """The inputs are in memory."""

    def _pass(self, number: int) -> dict[str, Any]:
        torch, case = self._torch, self._work.operator_case
        context = case.variants[self._variant](torch) if self._variant else nullcontext()
        with torch.no_grad(), context:
            outputs = case.torch(torch, self._inputs[number])
        described = [field for field in case.outputs if field not in case.lacking]
        return dict(zip(described, outputs if isinstance(outputs, tuple) else (outputs,), strict=True))

    def results(self) -> dict[str, Array]:
        sizes = {field: tensor.sizes for field, tensor in self._work.operator_case.outputs.items()}
        return {field: array.reshape(sizes[field]) for field, array in super().results().items()}


def place_inputs(library: Torch, work: LargeWork) -> list[Any]:
    """The inputs of each set by field, in PyTorch's memory."""
    tensors_of_inputs = work.operator_case.inputs
    first = {
        field: library.torch.from_numpy(tensors_of_inputs[field].in_memory(array)).to(library.place)
        for field, array in work.arrays().items()
    }
    sets = [first, *({field: stored.clone() for field, stored in first.items()} for _ in range(1, work.sets))]
    return [
        SimpleNamespace(**{field: _as_described(tensors_of_inputs[field], stored) for field, stored in tensors.items()}) for tensors in sets
    ]


def _as_described(tensor: Tensor, stored: Any) -> Any:
    """A tensor in the desc's order over packed memory."""
    return stored.permute(*tensor.places).expand(tensor.sizes)
