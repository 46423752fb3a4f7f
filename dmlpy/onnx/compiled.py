"""`CompiledModel`: an ONNX model on a device."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.compiler import compile as compile_graph
from dmlpy.description.member_forms import brief
from dmlpy.description.naming import did_you_mean, listed
from dmlpy.devices import Device
from dmlpy.devices import device as find_device
from dmlpy.nibbles import int4_type, pack_int4
from dmlpy.onnx.elements import dtype_of
from dmlpy.onnx.programs import GraphPart, HostPart
from dmlpy.onnx.stages import as_elements
from dmlpy.validation.problems import BindError, CompileError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.onnx.model import Model
    from dmlpy.onnx.values import Value

Shapes = tuple[tuple[int, ...], ...]


class CompiledModel:
    """A model on a device. Threads may share it.

    Attributes:
        model: the model.
        device: the device that its graphs run on.
        feature_level: the highest level that they use.
    """

    def __init__(
        self,
        model: Model,
        device: Device | str | None,
        feature_level: FeatureLevel,
        flags: Flags | Sequence[Flags],
        *,
        fuse: bool,
        keep: int,
    ) -> None:
        self.model = model
        self.device = find_device(device)
        self.feature_level = feature_level
        self._flags = flags
        self._fuse = fuse
        self._keep = keep
        self._lock = threading.Lock()
        self._kept: OrderedDict[Shapes, _Specialized] = OrderedDict()
        self._tensors = {name: value for name, value in model.inputs.items() if value.kind == "tensor"}
        if all(value.is_static for value in self._tensors.values()):
            self._specialized({name: value.static_sizes for name, value in self._tensors.items()})

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Runs the model.

        Args:
            inputs: arrays by the model's names.
            **named: the same as keywords.

        Returns:
            The outputs by the model's names, as arrays of NumPy; sequences are lists of arrays.

        Raises:
            BindError: inputs that are missing, unknown, or of another type or size.
            CompileError: the model does not run with these sizes.
            DeviceError: not enough memory, a failed launch, or a node that fails on the host.
        """
        given = self._arrays(dict(inputs or {}) | named)
        return self._specialized({name: np.shape(given[name]) for name in self._tensors}).run(given)

    def _arrays(self, given: Mapping[str, Any]) -> dict[str, Any]:
        problems = []
        wanted = self.model.inputs
        for name in given:
            if name not in wanted:
                problems.append(
                    Problem(
                        "onnx.inputs",
                        brief(name),
                        "no input of the model",
                        f"one of {listed([*wanted])}",
                        remedy=did_you_mean(name, wanted),
                    )
                )
        found = {}
        for name, value in wanted.items():
            if name not in given:
                problems.append(Problem("onnx.inputs", name, "not given", value.summary()))
                continue
            array = given[name] if value.kind != "tensor" else np.asarray(self.device.to_host(given[name]))
            problems += _misfits(name, value, array)
            found[name] = array
        if problems:
            raise BindError(self.model.name, problems)
        return found

    def _specialized(self, shapes: Mapping[str, Sequence[int]]) -> _Specialized:
        key = tuple(tuple(shapes[name]) for name in self._tensors)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = _Specialized(self, self.model.with_inputs(shapes))
                while len(self._kept) > self._keep:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def __repr__(self) -> str:
        return f"<ONNX model {self.model.name} compiled for {self.device.name} at feature level {self.feature_level}>"


class _Specialized:
    """A compiled model for given sizes of its inputs."""

    def __init__(self, compiled: CompiledModel, model: Model) -> None:
        device = compiled.device
        found = model.interpretation(compiled.feature_level)
        if problems := [problem.under(record.name) for record in found.records if record.where == "nowhere" for problem in record.problems]:
            raise CompileError(model.name, problems)
        self._device = device
        self._program = model.program(compiled.feature_level)
        self._runs: list[Any] = []
        for part in self._program.parts:
            if isinstance(part, GraphPart):
                graph = compile_graph(part.graph, device, compiled.feature_level, compiled._flags, fuse=compiled._fuse)
                self._runs.append(graph.prepare(part.owned, copy=True))
            else:
                self._runs.append(part.programs())
        self._host_lock = threading.Lock()

    def run(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by the model's names."""
        values: dict[str, Any] = dict(given)
        for part, run in zip(self._program.parts, self._runs, strict=True):
            if isinstance(part, HostPart):
                self._run_on_host(part, run, values)
            else:
                self._run_graph(part, run, values)
        found = {name: _value(value, values) for name, value in self._program.outputs.items()}
        return {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in found.items()}

    def _run_graph(self, part: GraphPart, prepared: Any, values: dict[str, Any]) -> None:
        inputs = {name: self._device.from_host(_as_tensor(value, values[name])) for name, value in part.reads.items()}
        outputs = {name: self._device.empty(prepared.outputs[name], self._device.current_stream()) for name in prepared.outputs}
        prepared.bind(inputs, outputs)()
        for name, value in part.writes.items():
            values[name] = as_elements(value, self._device.to_host(outputs[name]))

    def _run_on_host(self, part: HostPart, programs: Any, values: dict[str, Any]) -> None:
        known = dict(part.owned) | {name: values[name] for name in part.reads}
        with self._host_lock:
            for program in programs:
                known.update(program(known))
        values.update({name: known[name] for name in part.writes})


def _value(value: Value, values: Mapping[str, Any]) -> Any:
    return value.array if value.array is not None else values[value.name]


def _as_tensor(value: Value, array: Any) -> Any:
    """An array as the tensor that a graph reads."""
    packed = np.ascontiguousarray(array).reshape(value.tensor_sizes)
    if packed.dtype == np.bool_:
        return packed.view(np.uint8)
    return pack_int4(packed) if int4_type(packed.dtype) else packed


def _misfits(name: str, value: Value, array: Any) -> list[Problem]:
    if value.kind != "tensor" or not isinstance(array, np.ndarray):
        return []
    problems = []
    if value.element is not None and array.dtype != dtype_of(value.element):
        problems.append(Problem("onnx.inputs", name, f"of type {array.dtype}", f"of type {dtype_of(value.element)}"))
    if value.sizes is not None and (
        len(value.sizes) != array.ndim or any(isinstance(a, int) and a != b for a, b in zip(value.sizes, array.shape, strict=True))
    ):
        problems.append(Problem("onnx.inputs", name, f"of sizes {listed(array.shape)}", value.summary()))
    return problems
