"""`run`: a model's commands on a device."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dmlpy.compiler import compile as compile_desc
from dmlpy.description.arrays import Buffer
from dmlpy.description.coercion import brief
from dmlpy.devices import CompiledOperator, Device, Memory
from dmlpy.devices import Dispatch as BoundDispatch
from dmlpy.devices import device as find_device
from dmlpy.devices.graphs import CompiledGraph, GraphDispatch
from dmlpy.dxdispatch import output
from dmlpy.dxdispatch.bindings import Dispatchable, GraphDispatchable, OperatorDispatchable, Range
from dmlpy.dxdispatch.commands import Command, Dispatch, Print, WriteFile
from dmlpy.dxdispatch.files import Array, write_npy
from dmlpy.dxdispatch.model import Model
from dmlpy.dxdispatch.onnx_dispatchables import OnnxDispatch, OnnxDispatchable
from dmlpy.dxdispatch.onnx_runs import BoundModel
from dmlpy.dxdispatch.pictures import write_image
from dmlpy.dxdispatch.report import Finding
from dmlpy.dxdispatch.timing import Timings
from dmlpy.messages.hresult import HResult
from dmlpy.messages.naming import c_path, printable
from dmlpy.messages.problems import BindError, CompileError, DescError, DeviceError, DmlError, Problem
from dmlpy.system.files import write_bytes
from dmlpy.validation.checking import LATEST, parse_level

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.dxdispatch.resources import Resource
    from dmlpy.onnx import CompiledModel
    from dmlpy.onnx import Model as SizedModel

ALIGNMENT = 256
"""The alignment in bytes of every resource's memory."""


@dataclass(frozen=True)
class RunOptions:
    """Options for repeating and timing dispatches.

    Attributes:
        iterations: the number of times that a dispatch command binds and runs.
        repeat: dispatches in each iteration.
        milliseconds: the duration to run for, instead of a number of iterations.
        interval: milliseconds from one iteration's start to the next, at least.
        warmup: warm-up iterations, reported separately.
        verbosity: 0 a line for each dispatch, 1 statistics, 2 every iteration.
        max_gpu_samples: the number of GPU timings to store; 0 does not time the GPU.
        debug: whether each dispatch is checked for NaN and for bytes written outside the described elements.
        print_commands: whether commands are shown as they start and end.
        profile: whether each dispatch is also measured node by node.
    """

    iterations: int = 1
    repeat: int = 1
    milliseconds: float | None = None
    interval: float = 0.0
    warmup: int = 1
    verbosity: int = 0
    max_gpu_samples: int = 8192
    debug: bool = False
    print_commands: bool = False
    profile: bool = False

    def __post_init__(self) -> None:
        least = {"iterations": 1, "repeat": 1, "warmup": 0, "verbosity": 0, "max_gpu_samples": 0}
        problems = [
            Problem("field.form", name, brief(value), f"an integer of at least {number}")
            for name, number in least.items()
            if not isinstance(value := getattr(self, name), int | np.integer) or isinstance(value, bool) or value < number
        ]
        for name in ("milliseconds", "interval"):
            value = getattr(self, name)
            if not (value is None and name == "milliseconds") and (not isinstance(value, int | float | np.number) or not value >= 0):
                problems.append(Problem("field.form", name, brief(value), "a number of at least 0"))
        if problems:
            raise DescError("RunOptions", problems)


class RunError(DmlError):
    """A part of a run failed; the text says which."""


def run(
    model: Model,
    device: Device | str | None = None,
    options: RunOptions = RunOptions(),
    feature_level: FeatureLevel | str | int = LATEST,
    *,
    inform: Callable[[str], None] = print,
    warn: Callable[[str], None] = print,
) -> list[Profile]:
    """Uploads the resources, compiles every dispatchable, then runs the commands in order.

    Args:
        model: a loaded model.
        device: the device to run on, or its name; None: a usable GPU, else `cpu`.
        options: how dispatches are repeated and timed.
        feature_level: a cap, as for `dmlpy.compile`.
        inform: receives each line of the output.
        warn: receives each warning.

    Returns:
        The profiles of the dispatches, if they are measured node by node.

    Raises:
        CompileError: operators that do not compile for the device; all of them at once.
        RunError: a command failed; the remaining ones were not run.
        DescError: an argument of another type.
        DeviceError: no memory for the resources, or no such device.
    """
    for name, value, kind, remedy in (("model", model, Model, "dxdispatch.load(path)"), ("options", options, RunOptions, None)):
        if not isinstance(value, kind):
            expected = f"a {kind.__name__} of dmlpy.dxdispatch"
            raise DescError("dxdispatch.run", [Problem("field.form", name, brief(value), expected, remedy=remedy)])
    run_ = _ModelRun(model, find_device(device), options, parse_level(feature_level), inform, warn)
    run_.compile_all()
    run_.upload_all()
    for index, command in enumerate(model.commands):
        run_.command(index, command)
    return run_.profiles


class _ModelRun:
    def __init__(
        self,
        model: Model,
        device: Device,
        options: RunOptions,
        feature_level: FeatureLevel,
        inform: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self.model = model
        self.device = device
        self.options = options
        self.level = feature_level
        self.inform = _escape(inform)
        self.warn = _escape(warn)
        self.stream = device.current_stream()
        self.memory: dict[str, Memory] = {}
        self.resources = dict(model.resources)
        """The resources as they are now: deferred ones get memory."""
        self.compiled: dict[str, CompiledOperator | CompiledGraph] = {}
        self.models: dict[SizedModel, CompiledModel] = {}
        """The ONNX models, for the sizes of each dispatch."""
        self.profiles: list[Profile] = []
        self.constants: dict[str, dict[str, Memory]] = {}
        """The file contents of serialized graphs' inputs, by dispatchable and graph input."""

    def compile_all(self) -> None:
        problems: list[Problem] = []
        hresult = CompileError.default_hresult
        for name, dispatchable in self.model.dispatchables.items():
            start = time.perf_counter()
            try:
                if isinstance(dispatchable, OnnxDispatchable):
                    self.models |= {sized: sized.compile(self.device, self.level) for sized in dispatchable.sized.values()}
                else:
                    self.compiled[name] = self.compile(dispatchable)
            except CompileError as error:
                hresult = error.hresult
                problems += [problem.under(f"dispatchable {name!r}") for problem in error.problems]
                continue
            if self.options.verbosity >= 1:
                self.inform(f"Initialize '{name}': {_since(start):.4f} ms")
        if problems:
            raise CompileError(str(self.model.path), problems, hresult)

    def compile(self, dispatchable: Dispatchable) -> CompiledOperator | CompiledGraph:
        if isinstance(dispatchable, GraphDispatchable):
            return compile_desc(dispatchable.graph, self.device, self.level, dispatchable.flags)
        assert isinstance(dispatchable, OperatorDispatchable)
        assert dispatchable.desc is not None, "a model that loads has its descs"
        return compile_desc(dispatchable.desc, self.device, self.level, dispatchable.flags)

    def upload_all(self) -> None:
        self.device.require(sum(resource.size for resource in self.model.resources.values()), f"the resources of {self.model.path}")
        for name, resource in self.model.resources.items():
            if resource.deferred:
                continue
            try:
                block = np.zeros(resource.size + ALIGNMENT, np.uint8)
                start = -block.ctypes.data % ALIGNMENT
                buffer = block[start : start + resource.size]
                resource.fill(buffer)
            except MemoryError:
                raise DeviceError(f"the host has no memory left for resource {name!r}", hresult=HResult.E_OUTOFMEMORY) from None
            except (OSError, DescError) as error:  # a file has changed since the model was read
                raise RunError(f"resource {name!r} cannot be filled: {error}") from error
            self.memory[name] = self.device.upload(buffer, self.stream)
        for name, dispatchable in self.model.dispatchables.items():
            if isinstance(dispatchable, GraphDispatchable):
                self.constants[name] = {
                    constant: self.device.upload(np.frombuffer(dispatchable.loaded.read_constant(constant), np.uint8), self.stream)
                    for constant in dispatchable.loaded.constants
                }

    def command(self, index: int, command: Command) -> None:
        text = json.dumps(command.source, separators=(",", ":"))
        if self.options.print_commands:
            self.inform(f"[StartCmd][{index:04}]\t: {text}")
        try:
            match command.action:
                case Dispatch() | OnnxDispatch():
                    self.dispatch(command.action)
                case Print():
                    self.print(command.action)
                case WriteFile():
                    self.write_file(command.action)
        except (DmlError, MemoryError) as error:
            out_of_memory = DeviceError("the host has no memory left for it", hresult=HResult.E_OUTOFMEMORY)
            failed = error if isinstance(error, DmlError) else out_of_memory
            message = str(failed)
            if failed.problems and isinstance(command.action, Dispatch):
                # Uses the file's spelling of members.
                compiled = self.compiled[command.action.dispatchable.name]
                struct = compiled.desc.c_name if isinstance(compiled, CompiledOperator) else None
                message = Finding("", failed.problems, struct).text()
            if self.options.print_commands:
                self.inform(f"[EndCmd][{index:04}]\t: hr=0x{failed.hresult:08X} {' '.join(message.split())}")
            raise RunError(f"command at index {index} failed: {text}\n{message}", hresult=failed.hresult) from error
        if self.options.print_commands:
            self.inform(f"[EndCmd][{index:04}]\t: hr=0x00000000 ")

    def dispatch(self, action: Dispatch | OnnxDispatch) -> None:
        name = action.dispatchable.name
        options = self.options
        timings = Timings(options.warmup, options.max_gpu_samples)
        # Every iteration binds the same memory, so binding once is the same.
        bound = self.bind_model(action) if isinstance(action, OnnxDispatch) else self.bind(action)
        start = time.perf_counter()
        while True:
            began = time.perf_counter()
            before = self.contents() if options.debug else {}
            timings.add(*self.time(bound))
            if options.debug:
                self.examine(action, before)
            pause = max(0.0, options.interval - _since(began))
            if options.milliseconds is None:
                if len(timings.cpu) >= options.iterations:
                    break
            elif _since(start) + pause > options.milliseconds:
                break
            time.sleep(pause / 1000)
        for text in timings.lines(name, options.verbosity):
            self.inform(text)
        if options.profile:
            self.profiles.append(replace(bound.profile(stream=self.stream), name=name))
            for text in str(self.profiles[-1]).splitlines():
                self.inform(text)

    def bind_model(self, action: OnnxDispatch) -> BoundModel:
        return BoundModel(action, self.models[action.sized], self.device, self.memory, self.resources)

    def bind(self, action: Dispatch) -> BoundDispatch | GraphDispatch:
        name = action.dispatchable.name
        compiled, outputs = self.compiled[name], self.outputs(name)
        buffers = {place: Buffer(memory.pointer, memory.size) for place, memory in self.constants.get(name, {}).items()}
        buffers |= {place: self.buffer(memory) for place, memory in {**action.dispatchable.owned, **action.bindings}.items()}
        inputs = {place: buffer for place, buffer in buffers.items() if place not in outputs}
        if isinstance(compiled, CompiledGraph):
            # An unused input of a graph may be bound; it has no effect.
            inputs = {place: buffer for place, buffer in inputs.items() if place in compiled.inputs}
            owned = {place: inputs.pop(place) for place in compiled.prepared_inputs if place in inputs}
            if compiled.prepared_inputs:
                prepared = compiled.prepare(owned, stream=self.stream)
                return prepared.bind(inputs, {place: buffer for place, buffer in buffers.items() if place in outputs})
        return compiled.bind(inputs, {place: buffer for place, buffer in buffers.items() if place in outputs})

    def outputs(self, name: str) -> dict[str, TensorDesc]:
        """The described outputs of a dispatchable, by place or by the graph's name for it."""
        compiled = self.compiled[name]
        if isinstance(compiled, CompiledGraph):
            return compiled.outputs
        return {slot.place: slot.tensor for slot in compiled.desc.output_slots() if slot.tensor is not None}

    def buffer(self, place: Range) -> Buffer:
        return Buffer(self.memory[place.resource.name].pointer + place.offset, place.resource.size - place.offset)

    def time(self, bound: BoundDispatch | GraphDispatch | BoundModel) -> tuple[float, float | None]:
        """The milliseconds of one dispatch, by the host's clock including the wait, and by the device's clock."""
        repeat = self.options.repeat
        start = time.perf_counter()
        stop = self.device.start_timer(self.stream) if self.options.max_gpu_samples else None
        for _ in range(repeat):
            bound(self.stream)
        gpu = None if stop is None else stop() / repeat
        self.device.synchronize(self.stream)
        return _since(start) / repeat, gpu

    def contents(self) -> dict[str, bytes]:
        # Resources allocated by the run cannot be written out of bounds.
        return {name: self.read(resource) for name, resource in self.model.resources.items() if not resource.deferred}

    def examine(self, action: Dispatch | OnnxDispatch, before: Mapping[str, bytes]) -> None:
        """Checks a debug run. Raises BindError for bytes that changed outside the described elements of the outputs."""
        written: dict[str, list[tuple[int, TensorDesc]]] = {}
        for name, tensor, place in self.bound_outputs(action):
            written.setdefault(place.resource.name, []).append((place.offset, tensor))
            data = np.frombuffer(self.read(self.resources[place.resource.name]), np.uint8)
            memory = tensor.memory
            elements = np.ndarray(memory.sizes, memory.data_type.numpy, data.data, place.offset, memory.numpy_strides())
            if elements.dtype.kind == "f" and (count := int(np.isnan(elements).sum())):
                place_name = name if isinstance(action, OnnxDispatch) else c_path(name)
                self.warn(f"{place_name} of dispatchable {action.dispatchable.name!r} has {count} NaN values")
        problems = []
        for name, old in before.items():
            strays = stray_bytes(old, self.read(self.model.resources[name]), written.get(name, []))
            if strays.size:
                actual = f"changed at {strays.size} bytes outside the described elements, the first at byte {strays[0]}"
                problems.append(Problem("debug.stray", f"resource {name!r}", actual, "the bytes that were there"))
        if problems:
            raise BindError(f"dispatchable {action.dispatchable.name!r}", problems)

    def bound_outputs(self, action: Dispatch | OnnxDispatch) -> list[tuple[str, TensorDesc, Range]]:
        """The outputs that a dispatch has written, each with its tensor and its place."""
        if isinstance(action, OnnxDispatch):
            return action.written()
        outputs = self.outputs(action.dispatchable.name)
        return [(name, tensor, action.bindings[name]) for name, tensor in outputs.items() if name in action.bindings]

    def read(self, resource: Resource) -> bytes:
        return self.device.read(self.memory[resource.name].pointer, resource.size, self.stream)

    def print(self, action: Print) -> None:
        resource = self.resources[action.resource.name]
        action.check(resource)
        assert resource.data_type is not None
        values = resource.values(self.read(resource))
        if not action.verbose:
            self.inform(output.line(resource.name, values))
            return
        for text in output.verbose(resource.name, values, resource.data_type):
            self.inform(text)

    def write_file(self, action: WriteFile) -> None:
        resource, target = self.resources[action.resource.name], action.target
        action.check(resource)
        data = self.read(resource)
        try:
            if action.typed:
                values = resource.values(data)
                shape = action.dimensions or (resource.count,)
                tensor = values[: math.prod(shape)].reshape(shape)
                (write_npy if target.suffix.lower() == ".npy" else write_image)(target, tensor)
            else:
                write_bytes(target, data)
        except OSError as error:  # one of `inform` is none of the command: the pipe that reads the output has ended
            raise DeviceError(str(error)) from error
        self.inform(f"Resource '{resource.name}' written to '{target}'")


def _escape(take: Callable[[str], None]) -> Callable[[str], None]:
    return lambda text: take(printable(text, "\n\t"))


def stray_bytes(before: bytes, after: bytes, written: list[tuple[int, TensorDesc]]) -> Array:
    """The bytes of a buffer that changed although no element of a written tensor lies there; tensors with their offsets."""
    allowed = np.zeros(len(before), bool)
    for offset, tensor in ((offset, described.memory) for offset, described in written):
        size = tensor.data_type.numpy.itemsize
        np.ndarray((*tensor.sizes, size), bool, allowed.data, offset, (*tensor.numpy_strides(), 1))[...] = True
    changed = np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8)
    strays: Array = np.flatnonzero(changed & ~allowed)
    return strays


def _since(start: float) -> float:
    """The milliseconds since a reading of the clock."""
    return (time.perf_counter() - start) * 1000
