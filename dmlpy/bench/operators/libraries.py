"""Single operators by dmlpy, ONNX Runtime and PyTorch. One process of each runs all operators, and also layers if they are measured."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlpy as dml
from dmlpy.bench.libraries import Library, Mode, Runner, UnsupportedError
from dmlpy.bench.libraries import torch as pytorch
from dmlpy.bench.libraries.dmlpy import Dispatches, Dmlpy, DmlpyRunner
from dmlpy.bench.libraries.onnxruntime import IR_VERSION, OnnxRuntime
from dmlpy.bench.operators import large_runners
from dmlpy.bench.work import LargeWork, OperatorWork
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.inspection.operator_records.record import once

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dmlpy.bench.work import Array, Work

NO_EQUIVALENT = "no equivalent"
MICROSOFT = "com.microsoft"


class _OperatorLibrary(Library):
    """A library with one process for all operators."""

    @property
    def reusable(self) -> bool:
        return True

    def clock(self) -> float:
        """CPU time for a single thread, which other processes affect least."""
        return time.process_time() if self.threads == 1 else super().clock()


class DmlpyOperators(_OperatorLibrary, Dmlpy):
    """dmlpy."""

    def release(self) -> None:
        """Frees CuPy's pool, since other libraries' processes need the memory."""
        if self.on_gpu:
            from dmlpy.bench.libraries.cupy import free_cached
            from dmlpy.devices.cuda.runtime.cupy_runtime import CupyRuntime

            if isinstance(self.place, CudaDevice) and isinstance(self.place.runtime, CupyRuntime):
                free_cached()

    def modes(self, work: Work) -> tuple[Mode, ...]:
        return (large_runners.GRAPH,) if isinstance(work, LargeWork) else super().modes(work)

    def build(self, work: Work, mode: Mode) -> Runner:
        if isinstance(work, LargeWork):
            return large_runners.LargeDmlpyRunner(self, work, mode)
        return _OperatorRunner(self, work, mode) if isinstance(work, OperatorWork) else super().build(work, mode)


class _OperatorRunner(DmlpyRunner):
    """One dispatch, shared by all sets: an operator's tensors are small and stay in the caches."""

    _work: OperatorWork

    def _place(self, sets: int) -> None:
        for place, array in self._work.placed().items():
            self._put(place, once(array))
        for slot in self._work.desc.output_slots():
            if slot.tensor is not None:
                self._make(slot.place, slot.tensor)

    def _bind(self, sets: int) -> tuple[list[Dispatches], list[dml.CompiledOperator]]:
        operator = dml.compile(self._work.desc, self._device)
        slots = {slot.place: slot.field.marker.output for slot in operator.desc.slots() if slot.tensor is not None}
        inputs, outputs = (
            {place: self._buffer(place) for place, is_output in slots.items() if is_output == output} for output in (False, True)
        )
        return [[operator.bind(inputs, outputs)]] * sets, [operator]

    def results(self) -> dict[str, Array]:
        return {slot.place: self._read(slot.place) for slot in self._work.desc.output_slots() if slot.tensor is not None}


class OnnxRuntimeOperators(_OperatorLibrary, OnnxRuntime):
    """ONNX Runtime: a model of the case's nodes."""

    def build(self, work: Work, mode: Mode) -> Runner:
        if not isinstance(work, OperatorWork):
            return super().build(work, mode)
        if not work.operator_case.onnx:
            raise UnsupportedError(NO_EQUIVALENT)
        return _OnnxRunner(self, work)


class OnnxEquivalent:
    """A case's nodes as an ONNX model.

    Attributes:
        model: the model.
        operators: the operators of its nodes.
        arrays: its inputs.
        output_names: the names of its outputs.

    Args:
        onnx: the module.
        work: the work.
    """

    def __init__(self, onnx: Any, work: OperatorWork) -> None:
        self._work, case = work, work.operator_case
        nodes = [onnx.parser.parse_node(line) for line in case.onnx.splitlines()]
        self._names = {place.replace("[", "").replace("]", ""): place for place in work.placed() | dict.fromkeys(output_places(work))}
        placed = {name: once(work.placed()[place]) for name, place in self._names.items() if place in work.placed()}
        parameters = {name: value[1](placed[value[0]]) if isinstance(value, tuple) else value for name, value in case.onnx_inputs.items()}
        if work.case.dtype == "FLOAT16":  # numbers beside the tensors have their type
            parameters = {
                name: array.astype(np.float16) if array.dtype == np.float32 and not array.ndim else array
                for name, array in parameters.items()
            }
        used = {name for node in nodes for name in node.input}
        constants = {
            name: array for name, array in parameters.items() if not isinstance(case.onnx_inputs[name], tuple) and name not in case.fed
        }
        inputs = {name: array for name, array in (placed | parameters).items() if name in used and name not in constants}
        self.arrays = {
            name: np.ascontiguousarray(array).reshape(array.shape) for name, array in inputs.items()
        }  # it makes vectors of scalars
        self.operators = [node.op_type for node in nodes]
        self.output_names = [name for node in nodes for name in node.output if name in self._names]
        helper = onnx.helper
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(operand.dtype), operand.shape)
            for name, operand in self.arrays.items()
        ]
        initializers = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.output_names]
        graph = helper.make_graph(nodes, "operator", infos, outputs, initializers)
        versions = [helper.make_opsetid("", case.opset), helper.make_opsetid(MICROSOFT, 1)]
        self.model = helper.make_model(graph, opset_imports=versions, ir_version=IR_VERSION)

    def described(self, results: Mapping[str, Array]) -> dict[str, Array]:
        """The model's results by place, with the described sizes."""
        return {self._names[name]: self._work.described(self._names[name], array) for name, array in results.items()}


class _OnnxRunner(Runner):
    """A session with inputs and outputs in place."""

    def __init__(self, library: OnnxRuntime, work: OperatorWork) -> None:
        self._equivalent = OnnxEquivalent(library.onnx, work)
        arrays, self._output_names = self._equivalent.arrays, self._equivalent.output_names
        session = library.session(self._equivalent.model)
        self.plan = (f"{library.provider}, {', '.join(self._equivalent.operators)}",)
        place = library.place
        first = session.run(self._output_names, arrays)
        library.mark()
        self._binding = session.io_binding()
        self._inputs = [library.runtime.OrtValue.ortvalue_from_numpy(array, *place) for array in arrays.values()]
        for name, value in zip(arrays, self._inputs, strict=True):
            self._binding.bind_ortvalue_input(name, value)
        make = library.runtime.OrtValue.ortvalue_from_shape_and_type
        self._results = [make(list(array.shape), array.dtype, *place) for array in first]
        for name, value in zip(self._output_names, self._results, strict=True):
            self._binding.bind_ortvalue_output(name, value)
        self._session = session

    def run(self, number: int) -> None:
        self._session.run_with_iobinding(self._binding)

    def results(self) -> dict[str, Array]:
        return self._equivalent.described({name: value.numpy() for name, value in zip(self._output_names, self._results, strict=True)})


def output_places(work: OperatorWork) -> list[str]:
    """The places of the described outputs."""
    return [slot.place for slot in work.desc.output_slots() if slot.tensor is not None]


class TorchOperators(_OperatorLibrary, pytorch.Torch):
    """PyTorch: a function of tensors."""

    _placed: tuple[LargeWork, list[Any]] | None = None

    def release(self) -> None:
        self._placed = None
        super().release()

    def modes(self, work: Work) -> tuple[Mode, ...]:
        return large_runners.modes(work) if isinstance(work, LargeWork) else super().modes(work)

    def build(self, work: Work, mode: Mode) -> Runner:
        if isinstance(work, LargeWork):
            self.allow_tf32(work.operator_case.half_precision)
            self.torch.backends.cudnn.benchmark = True  # selects the fastest convolution algorithm
            if self._placed is None or self._placed[0] is not work:
                self._placed = work, large_runners.place_inputs(self, work)
            return large_runners.LargeTorchRunner(self, work, mode, self._placed[1])
        self.allow_tf32(False)
        if not isinstance(work, OperatorWork):
            return super().build(work, mode)
        if work.operator_case.torch is None:
            raise UnsupportedError(NO_EQUIVALENT)
        return _TorchRunner(self, work, mode)


class _TorchRunner(pytorch.TorchRunner):
    """Calls the case's function. PyTorch allocates its results from its cache."""

    _work: OperatorWork

    def _place(self) -> None:
        values: dict[str, Any] = {}
        for field, value in self._work.arrays.items():
            values[field] = [self._tensor(part) for part in value] if isinstance(value, tuple) else self._expanded(value)
        self._inputs = SimpleNamespace(**values, device=self._library.place)

    def _expanded(self, array: Array) -> Any:
        return self._tensor(np.array(once(array))).expand(array.shape)

    def _pass(self, number: int) -> dict[str, Any]:
        assert self._work.operator_case.torch is not None
        with self._torch.no_grad():
            try:
                outputs = self._work.operator_case.torch(self._torch, self._inputs)
            except NotImplementedError as error:  # it has no kernel for the type
                raise UnsupportedError(str(error).splitlines()[0]) from error
        if isinstance(outputs, dict):
            return outputs
        return dict(zip(output_places(self._work), outputs if isinstance(outputs, list | tuple) else (outputs,), strict=True))

    def results(self) -> dict[str, Array]:
        plain = {place: part.int_repr() if part.is_quantized else part for place, part in self._kept.items()}
        return {place: self._work.described(place, part.contiguous().cpu().numpy()) for place, part in plain.items()}
