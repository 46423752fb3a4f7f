"""dmlpy: bound dispatches, an operator for each layer; forward passes with parameters packed beforehand."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import dmlpy as dml
from dmlpy.bench.libraries import Library, Mode, Runner, UnsupportedError
from dmlpy.bench.work import (
    Array,
    BatchNormWork,
    RecurrentWork,
    SampledWork,
    Work,
    gradients_by_name,
    parameter_fields,
    upstream_of_y_alone,
)
from dmlpy.devices.reporting.report import total

if TYPE_CHECKING:
    from dmlpy.devices.device import Memory

Dispatches = Sequence[dml.Dispatch]


class Dmlpy(Library):
    """dmlpy on a device.

    Args:
        device: its name, or the device.
        threads: the number of threads that it may use on the CPU; the environment has set it for the libraries below.
    """

    def __init__(self, device: str | dml.Device, threads: int) -> None:
        self.place = dml.device(device)
        super().__init__(self.place.name, threads)

    def versions(self) -> dict[str, str]:
        versions = {"dmlpy": dml.__version__, "numpy": np.__version__}
        versions |= {name: text for name, text in self.place.describe().items() if "llvmlite" in name}
        if self.on_gpu:
            from importlib.metadata import packages_distributions, version

            from dmlpy.devices.cuda.device import CudaDevice

            assert isinstance(self.place, CudaDevice)
            for name in packages_distributions().get("cupy", [])[:1]:
                versions |= {"cupy": version(name), "CuPy's package": name}  # which names the CUDA version
            versions["compiler"] = self.place.runtime.compiler_version()
        return versions

    def instruction_set(self) -> str | None:
        if self.place.name != "cpu":
            return None
        from dmlpy.devices.cpu.isa import instruction_set

        return instruction_set()

    def device_facts(self) -> dict[str, str]:
        return self.place.describe()

    def build(self, work: Work, mode: Mode) -> Runner:
        for desc in work.case.shape.descs(work.case.which, work.case.dtype):
            if not self.place.runs(type(desc)):
                raise UnsupportedError(f"the device {self.place.name} does not run {desc.c_name}")
        if isinstance(work, BatchNormWork):
            return NormalizationRunner(self, work, mode)
        if isinstance(work, RecurrentWork):
            return (TrainingRunner if work.case.trains else ForwardRunner)(self, work, mode)
        raise UnsupportedError(f"there is no runner for {type(work).__name__}")

    def microseconds(self, issue: Callable[[], None], repeats: int) -> float:
        stop = self.place.start_timer(self.place.current_stream())
        if stop is None:  # the device has no clock, and runs in the calling thread
            return super().microseconds(issue, repeats)
        for _ in range(repeats):
            issue()
        return 1e3 * stop() / repeats

    def mark(self) -> None:
        if self.on_gpu:
            self._before = -self.place.available_memory()
        else:
            super().mark()

    def peak_bytes(self) -> int | None:
        """The bytes in use; on a GPU those in use now, because a dispatch allocates nothing."""
        if not self.on_gpu or self._before is None:
            return super().peak_bytes()
        return max(-self.place.available_memory() - self._before, 0)


class OnNumpy(Dmlpy):
    """dmlpy's NumPy device, compared with the measured one."""

    def __init__(self, device: str, threads: int) -> None:
        super().__init__("numpy", threads)

    def versions(self) -> dict[str, str]:
        return {"dmlpy-numpy": dml.__version__}


class OnOneThread(Dmlpy):
    """dmlpy on the measured device, in a process with one thread for it."""

    def versions(self) -> dict[str, str]:
        return {"dmlpy-one-thread": dml.__version__}


class DmlpyRunner(Runner):
    """A list of dispatches for each set of inputs, over named memory."""

    _work: Work

    def __init__(self, library: Dmlpy, work: Work, mode: Mode) -> None:
        self._device, self._work = library.place, work
        self._stream = self._device.current_stream()
        self._memory: dict[str, Memory] = {}
        self._sizes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        sets = self.sets or library.sets
        self._place(sets)
        library.mark()
        # Referenced here, since a graph does not own its dispatches' scratch.
        self._dispatches, operators = self._bind(sets)
        self.plan = tuple(line for number, one in enumerate(operators) for line in _numbered(number, one.plan, len(operators)))
        report = total("a pass", self._device.name, [one.explain_plan() for one in operators])
        self.floor_us, self.estimate_us, self.estimate_step_us = report.floor_us, report.estimate_us, report.estimate_step_us
        self._launches = [self._launch(dispatches, mode) for dispatches in self._dispatches]

    @abstractmethod
    def _place(self, sets: int) -> None:
        """Copies the inputs of all sets and the parameters to the device."""

    @abstractmethod
    def _bind(self, sets: int) -> tuple[list[Dispatches], list[dml.CompiledOperator]]:
        """Binds the dispatches of a pass over each set, and compiles the operators."""

    def _launch(self, dispatches: Dispatches, mode: Mode) -> Callable[[], None]:
        stream = self._stream

        def issue(stream: int) -> None:
            for dispatch in dispatches:
                dispatch(stream)

        if mode == "eager":
            return lambda: issue(stream)
        from dmlpy.devices.cuda.device import CudaDevice

        if not isinstance(self._device, CudaDevice):
            raise UnsupportedError(f"{self._device.name} has no graphs")
        issue(stream)  # the setup of a first launch is not allowed during stream capture
        runtime, ordinal = self._device.runtime, self._device.ordinal
        self._device.synchronize(stream)
        graph = runtime.capture(ordinal, issue)
        return lambda: runtime.launch_graph(graph, stream)

    # memory

    def _put(self, name: str, array: Array) -> None:
        """Copies an array to the device's memory, preserving its layout."""
        packed = np.ascontiguousarray(array if array.flags.c_contiguous else np.moveaxis(array, 1, -1))
        self._memory[name] = self._device.upload(packed, self._stream)
        self._sizes[name] = packed.shape, packed.dtype

    def _make(self, name: str, tensor: dml.TensorDesc) -> None:
        """Allocates memory for a tensor."""
        self._memory[name] = self._device.allocate(tensor.extent_in_bytes, self._stream, name)
        self._sizes[name] = tensor.sizes, tensor.data_type.numpy

    def _buffer(self, name: str) -> dml.Buffer:
        memory = self._memory[name]
        return dml.Buffer(memory.pointer, memory.size)

    def _buffers(self, names: Mapping[str, str]) -> dict[str, dml.Buffer]:
        """The buffers by field, from memory names by field."""
        return {field: self._buffer(name) for field, name in names.items()}

    def _read(self, name: str, sizes: Sequence[int] | None = None) -> Array:
        memory, (own_sizes, dtype) = self._memory[name], self._sizes[name]
        data = self._device.read(memory.pointer, memory.size, self._stream)
        return np.frombuffer(data, dtype).reshape(own_sizes if sizes is None else sizes)

    # passes

    def run(self, number: int) -> None:
        self._launches[number]()


class _SampledRunner(DmlpyRunner):
    """Passes over samples, whose upstream gradient may be replaced."""

    _work: SampledWork

    def _place(self, sets: int) -> None:
        for number in range(sets):
            self._put(f"x{number}", self._work.x(number))
        if self._work.case.trains:
            self._put("dy", self._work.upstream())

    def load_upstream(self, upstream: Array) -> None:
        before = self._memory["dy"]
        self._put("dy", upstream)
        after, self._memory["dy"] = self._memory["dy"], before
        self._device.copy(before.pointer, after.pointer, after.size, self._stream)
        self._device.synchronize(self._stream)


class _LayersRunner(_SampledRunner):
    """A stack of layers, [T, B, D S] in memory between them."""

    _work: RecurrentWork

    def _place(self, sets: int) -> None:
        super()._place(sets)
        shape = self._work.shape
        parameters = self._work.parameters()
        for number, layer in enumerate(shape.layers):
            fields = parameter_fields(layer, parameters, number) | self._work.initial_fields(layer, shape.batch)
            for field, array in fields.items():
                self._put(f"{field}{number}", array)
        if shape.ragged:
            self._put("lengths", self._work.lengths().astype(np.uint32))
        self._descs: list[Any] = shape.descs(self._work.case.which, self._work.case.dtype)

    def _named(self, desc: Any, number: int, *, unnumbered: Sequence[str]) -> dict[str, str]:
        """The names of a layer's memory by field, without the sequence between layers; allocates memory that does not exist yet."""
        names = {}
        for field, tensor in desc.tensors().items():
            if field == "sequence_lengths_tensor":
                names[field] = "lengths"
            elif field not in unnumbered:
                names[field] = f"{field}{number}"
                if names[field] not in self._memory:
                    self._make(names[field], tensor)
        return names

    def _forward_names(self, desc: Any, number: int, input_set: int) -> dict[str, str]:
        """The names of a forward operator's tensors; `input_set` is the set of inputs."""
        names = self._named(desc, number, unnumbered=("input_tensor",))
        return names | {"input_tensor": f"output_sequence_tensor{number - 1}" if number else f"x{input_set}"}

    def results(self) -> dict[str, Array]:
        shape = self._work.shape
        last = len(shape.layers) - 1
        results = {"y": self._read(f"output_sequence_tensor{last}", (shape.steps, shape.batch, shape.layers[last].output_size))}
        for number, layer in enumerate(shape.layers):
            results[f"h{number}"] = self._read(f"output_single_tensor{number}")[0]
            if layer.cell == "LSTM":
                results[f"c{number}"] = self._read(f"output_cell_single_tensor{number}")[0]
        return results


class ForwardRunner(_LayersRunner):
    """Inference: packed parameters."""

    packs = True

    def _bind(self, sets: int) -> tuple[list[Dispatches], list[dml.CompiledOperator]]:
        operators = [dml.compile(desc, self._device) for desc in self._descs]
        self._packing: list[Callable[[], object]] = []
        dispatches_of: list[list[dml.Dispatch]] = [[] for _ in range(sets)]
        for number, operator in enumerate(operators):
            names = self._forward_names(operator.desc, number, 0)
            packed: dict[str, Any] = self._buffers({field: names[field] for field in names if field.removesuffix("_tensor") in _PARAMETERS})
            prepared = operator.prepare(**packed)
            self._packing.append(self._repacking(operator, number, packed))
            for input_set, dispatches in enumerate(dispatches_of):
                buffers = self._buffers(self._forward_names(operator.desc, number, input_set))
                dispatches.append(prepared.bind(*_split(operator.desc, {name: buffers[name] for name in buffers if name not in packed})))
        return list(dispatches_of), operators

    def _repacking(self, operator: dml.CompiledOperator, number: int, packed: Mapping[str, dml.Buffer]) -> Callable[[], object]:
        """Packs a layer's parameters into separate memory that no pass reads."""
        size, name = operator.binding_properties.persistent_resource_size, f"packed{number}"

        def pack() -> None:
            if name not in self._memory:
                self._memory[name] = self._device.allocate(size, self._stream, "packed parameters")
            constants: dict[str, Any] = dict(packed)
            operator.prepare(persistent=self._buffer(name) if size else None, **constants)

        return pack

    def pack(self) -> None:
        for pack in self._packing:
            pack()


class TrainingRunner(_LayersRunner):
    """The forward pass that saves values for the gradient, then all gradients; parameters are packed in each pass."""

    def _bind(self, sets: int) -> tuple[list[Dispatches], list[dml.CompiledOperator]]:
        layers = len(self._descs) // 2
        forward = self._descs[:layers]
        backward = [upstream_of_y_alone(desc, forward[layers - 1 - index]) for index, desc in enumerate(self._descs[layers:])]
        operators = [dml.compile(desc, self._device) for desc in (*forward, *backward)]
        dispatches_of: list[list[dml.Dispatch]] = [[] for _ in range(sets)]
        for place, operator in enumerate(operators):
            number = place if place < layers else 2 * layers - 1 - place
            for input_set, dispatches in enumerate(dispatches_of):
                if number and input_set:  # only the first layer reads the set's input
                    dispatches.append(dispatches_of[0][place])
                    continue
                names = self._forward_names(operator.desc, number, input_set)
                if place >= layers:
                    above = f"input_gradient_tensor{number + 1}" if number < layers - 1 else "dy"
                    names["output_sequence_gradient_tensor"] = above
                dispatches.append(operator.bind(*_split(operator.desc, self._buffers(names))))
        return list(dispatches_of), operators

    def _named(self, desc: Any, number: int, *, unnumbered: Sequence[str]) -> dict[str, str]:
        return super()._named(desc, number, unnumbered=(*unnumbered, "output_sequence_gradient_tensor"))

    def results(self) -> dict[str, Array]:
        results = super().results()
        for number, layer in enumerate(self._work.shape.layers):
            names = [name for name in self._memory if name.endswith(f"_gradient_tensor{number}")]
            results |= gradients_by_name(layer, {name.removesuffix(str(number)): self._read(name) for name in names}, number)
        return results | {"dx": self._read("input_gradient_tensor0")[0]}


class NormalizationRunner(_SampledRunner):
    """Batch normalization, and its gradient in training."""

    _work: BatchNormWork

    def _place(self, sets: int) -> None:
        super()._place(sets)
        for name, array in self._work.parameters().items():
            self._put(name, array)

    def _bind(self, sets: int) -> tuple[list[Dispatches], list[dml.CompiledOperator]]:
        descs = self._work.shape.descs(self._work.case.which, self._work.case.dtype)
        operators = [dml.compile(desc, self._device) for desc in descs]
        for desc in descs:
            for field, tensor in desc.tensors().items():
                if field not in ("x", "y_backprop") and field not in self._memory:
                    self._make(field, tensor)
        dispatches_of = []
        for input_set in range(sets):
            dispatches = []
            for operator in operators:
                given_names = {field: _NORMALIZATION.get(field, field) for field in operator.desc.tensors()} | {"x": f"x{input_set}"}
                dispatches.append(operator.bind(*_split(operator.desc, self._buffers(given_names))))
            dispatches_of.append(dispatches)
        return list(dispatches_of), operators

    def results(self) -> dict[str, Array]:
        names = {"y": "y"}
        if self._work.case.trains:
            names |= {"dx": "x_backprop", "dscale": "scale_backprop", "doffset": "offset_backprop"}
        arrays = {name: self._read(memory) for name, memory in names.items()}
        return {name: self._work.from_memory(array) if array.ndim == 4 else array for name, array in arrays.items()}


_PARAMETERS = ("weight", "recurrence", "bias", "projection")
_NORMALIZATION = {"y_backprop": "dy"}


def _split(desc: Any, buffers: Mapping[str, dml.Buffer]) -> tuple[dict[str, dml.Buffer], dict[str, dml.Buffer]]:
    """Splits tensors into inputs and outputs."""
    outputs = {field.name for field in desc.outputs()}
    return (
        {field: buffer for field, buffer in buffers.items() if field not in outputs},
        {field: buffer for field, buffer in buffers.items() if field in outputs},
    )


def _numbered(number: int, plan: str, count: int) -> list[str]:
    lines = plan.splitlines()
    return lines if count == 1 else [f"{number}: {line}" for line in lines]
