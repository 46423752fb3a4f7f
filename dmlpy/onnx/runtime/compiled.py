"""`CompiledModel`: an ONNX model on a device."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Never

import numpy as np

from dmlpy.debugging import FALLBACKS, log_once
from dmlpy.description.coercion import as_uint, brief, entries
from dmlpy.devices import Device
from dmlpy.devices import device as find_device
from dmlpy.devices.persistence.pickling import Refused, device_name, version_refused, written_by
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import did_you_mean, listed
from dmlpy.messages.problems import BindError, CompileError, DescError, DmlError, Problem
from dmlpy.onnx.loading.input_sizes import default_inputs, fit_problems
from dmlpy.onnx.lowering.cache import LRUCache
from dmlpy.onnx.lowering.lowered_model import LoweredModel
from dmlpy.onnx.lowering.program_templates import ProgramTemplates
from dmlpy.onnx.runtime.bound_runs import BoundRunCache
from dmlpy.onnx.runtime.compile_context import CompileContext
from dmlpy.onnx.runtime.compiled_program import CompiledProgram, compile_deferred
from dmlpy.onnx.runtime.graph_runs import PackedWeights
from dmlpy.onnx.runtime.inputs import receive, to_sequence
from dmlpy.onnx.runtime.open_sizes import OpenSizes
from dmlpy.system import forks
from dmlpy.system.garbage import collections_paused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices.reporting.profile import Profile
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.programs import Program
    from dmlpy.onnx.runtime.bound_runs import Signature
    from dmlpy.onnx.runtime.plans import ModelComparison, ModelPlan

_MOST_PREPARED = 64
"""The most nodes of a model that is compiled for sizes that it may have: a larger one takes longer itself than what a process does once."""

_MOST_TRIED = 3
"""The most sizes that are tried then."""

_RUNS_UNTIL_BOUND = 2
"""The runs after which sizes recur and the graphs are bound together."""


_MOST_NAMED = 4
"""The most inputs that a message names."""


@foreign_members
class CompiledModel:
    """A model on a device. Thread-safe.

    A pickle holds the model with its weights, the device's name and the arguments of `compile`: it is compiled again where it is loaded.
    External data stays in its files, which have to be there, too.

    Attributes:
        model: the model.
        device: the device that its graphs run on.
        feature_level: the highest level that they use.
    """

    def __init__(
        self,
        model: LoweredModel,
        device: Device | str | None,
        feature_level: FeatureLevel,
        flags: Flags | Sequence[Flags],
        *,
        fuse: bool,
        keep_bytes: int,
    ) -> None:
        self.model = model
        self.device = find_device(device)
        self.feature_level = feature_level
        if not isinstance(keep_bytes, int | np.integer) or isinstance(keep_bytes, bool) or keep_bytes < 0:
            problem = Problem("field.form", "keep_bytes", brief(keep_bytes), "a number of bytes, 0 or more")
            raise DescError(f"{model.name}.compile", [problem])
        self._cache = LRUCache(keep_bytes)
        self._recurring = BoundRunCache(self.device, self._cache)
        weights = PackedWeights(model.loaded)
        self._context = CompileContext(
            model.name, model.loaded, self.device, feature_level, flags, fuse, compile_deferred, self._cache, self._recurring, weights
        )
        self._lock = forks.lock()
        initialized = default_inputs(model.loaded)
        self._replaceable = frozenset(initialized)
        self._defaults = {name: value for name, value in initialized.items() if name not in model.given}
        self._replacing: dict[frozenset[str], CompiledModel] = {}
        self._options: dict[str, Any] = {"feature_level": feature_level, "flags": flags, "fuse": fuse, "keep_bytes": keep_bytes}
        self._open: OpenSizes | None = None
        self._templates = ProgramTemplates(feature_level, self._program_for_sizes, self._cache)
        self._tensors = {name: value for name, value in model.inputs.items() if value.kind == "tensor"}
        self._has_tensors_only = len(self._tensors) == len(model.inputs)
        self._reads_host_arrays = self._has_tensors_only and self.device.memory_kind == "cpu"
        if all(value.is_static for value in self._tensors.values()):
            self._compile_for_sizes({name: value.static_sizes for name, value in self._tensors.items()})
        else:
            self._open = OpenSizes(model, feature_level, self._compile)
            self._prepare_process()

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, *unnamed: Never, **named: Any) -> dict[str, Any]:
        """Runs the model: `run` with its inputs as keywords."""
        if unnamed:
            raise self._unnamed_error("compiled", inputs, unnamed)
        return self.run(named if inputs is None else {**self._by_name(inputs), **named})

    def run(self, inputs: Mapping[str, Any], *unnamed: Never, outputs: Literal["host", "device"] = "host") -> dict[str, Any]:
        """Runs the model.

        Args:
            inputs: arrays by the model's names: of NumPy, in the device's memory, or others that support DLPack; for a sequence a list of
                them, for an optional also None, for a map a dict. An input with an initializer may be left out.
            *unnamed: nothing: all inputs are in one mapping.
            outputs: `device` leaves the outputs of graphs in the device's memory: CuPy arrays on a GPU. Outputs of host nodes stay in
                host memory.

        Returns:
            The outputs by the model's names, as NumPy arrays unless requested otherwise; sequences are lists, maps dicts.

        Raises:
            BindError: inputs that are missing, unknown, or of another type or size.
            CompileError: the model does not run with these sizes.
            DescError: `outputs` is neither place.
            DeviceError: not enough memory, a failed launch, or a node that fails on the host.
        """
        if unnamed:
            raise self._unnamed_error("compiled.run", inputs, unnamed)
        on_device = outputs == "device"
        if not on_device and outputs != "host":
            raise DescError(f"{self.model.name}.run", [Problem("field.form", "outputs", brief(outputs), "'host' or 'device'")])
        key = self._host_signature(inputs)
        if key is not None and (bound := self._recurring.find(key)) is not None:
            with suppress(BindError):  # which the run below reports
                if (results := bound.outputs(inputs, on_device=on_device)) is not None:
                    return results
        if (other := self._with_replaced_defaults(inputs)) is not None:
            return other.run(inputs, outputs=outputs)
        given = self._arrays(inputs)
        sizes = {name: given[name].shape for name in self._tensors}
        key = tuple([(array.dtype, array.shape) for array in given.values()]) if self._has_tensors_only else None
        if self._open is not None:
            with self._lock:
                form = self._open.form(sizes)
            if form is not None:
                with suppress(BindError, CompileError):  # which the model as a whole reports
                    return self._recurring.outputs(form, given, key, on_device=on_device)
                results = self._compile_for_sizes(sizes).run(given, on_device=on_device)
                with self._lock:
                    self._open.give_up()
                return results
        return self._recurring.outputs(self._compile_for_sizes(sizes), given, key, on_device=on_device)

    def _with_replaced_defaults(self, inputs: Mapping[str, Any]) -> CompiledModel | None:
        """The model with the initializers that a caller replaces as inputs; None if none is replaced."""
        if not self._defaults or not isinstance(inputs, Mapping):
            return None
        replaced = frozenset(self._defaults.keys() & inputs.keys())
        if not replaced:
            return None
        with self._lock:
            if replaced not in self._replacing:
                given = {**self.model.given, **{name: self._defaults[name] for name in sorted(replaced)}}
                self._replacing[replaced] = CompiledModel(LoweredModel(self.model.loaded, given), self.device, **self._options)
            return self._replacing[replaced]

    def _host_signature(self, inputs: Mapping[str, Any]) -> Signature | None:
        """The types and sizes of the inputs if they are all that the model has, NumPy's arrays, for a device with host memory."""
        if not self._reads_host_arrays or not isinstance(inputs, Mapping) or len(inputs) != len(self._tensors):
            return None
        signature = []
        for name in self._tensors:
            array = inputs.get(name)
            if type(array) is not np.ndarray:
                return None
            signature.append((array.dtype, array.shape))
        return tuple(signature)

    def explain_plan(self, sizes: Mapping[str, Sequence[int]] | None = None) -> ModelPlan:
        """The work and the memory of one run: the reports of the graphs, and the nodes on the host between them.

        Args:
            sizes: the sizes of the inputs by name; None if the model has no dynamic sizes.

        Raises:
            BindError: sizes are missing or do not fit.
            CompileError: the model does not run with these sizes.
        """
        return self._fitting({} if sizes is None else self._sizes_by_name(sizes)).plan()

    def profile(self, inputs: Mapping[str, Any], *, runs: int = 20) -> Profile:
        """Measures whole runs, as `run` makes them, and each node by itself: those of graphs one by one, those on the host as they run.

        Nodes that wait for sizes run as compiled for these inputs; a loop that is not unrolled is one node.

        Args:
            inputs: as for `run`.
            runs: how many runs are measured, after those that bind the graphs.

        Raises:
            BindError, CompileError, DeviceError: as for `run`.
            DescError: `runs` is not a number from 1 on.
        """
        from dmlpy.devices.reporting.profile import Profile, checked_runs, profile_whole  # imports tables
        from dmlpy.onnx.runtime.profiling import profile_nodes

        if (other := self._with_replaced_defaults(inputs)) is not None:
            return other.profile(inputs, runs=runs)
        count, given = checked_runs(runs, f"{self.model.name}.profile"), self._arrays(inputs)
        for _ in range(_RUNS_UNTIL_BOUND):
            self.run(given)
        stream = self.device.current_stream()
        whole_us = profile_whole(self.device, lambda: self.run(given), count, stream)
        program = self._compile_for_sizes({name: given[name].shape for name in self._tensors})
        return Profile(self.model.name, self.device.name, profile_nodes(program, given, self.device, count, stream), whole_us)

    def compare(self, device: Device | str, inputs: Mapping[str, Any], *, tolerance: float | None = None) -> ModelComparison:
        """Runs the graphs node by node here and on another device, each with the inputs that it has here.

        Args:
            device: the other device, or `reference`: the operators' definitions in float64.
            inputs: as for `run`.
            tolerance: as for `dmlpy.compare`.

        Raises:
            BindError: inputs that do not fit.
            CompileError: the other device does not run an operator.
        """
        if (other := self._with_replaced_defaults(inputs)) is not None:
            return other.compare(device, inputs, tolerance=tolerance)
        given = self._arrays(inputs)
        return self._compile_for_sizes({name: given[name].shape for name in self._tensors}).compare(given, device, tolerance)

    def _fitting(self, sizes: Mapping[str, Sequence[int]]) -> CompiledProgram:
        problems = []
        shapes = {}
        for name, value in self._tensors.items():
            given = sizes.get(name, value.static_sizes if value.is_static else None)
            if given is None:
                problems.append(Problem("onnx.sizes", f"sizes[{name!r}]", "not given", f"sizes of {value.summary()}"))
            else:
                shapes[name] = tuple(given)
                problems += fit_problems(name, value, None, shapes[name])
        if problems:
            raise BindError(self.model.name, problems)
        return self._compile_for_sizes(shapes)

    def _sizes_by_name(self, sizes: Any) -> dict[str, tuple[int, ...]]:
        """The sizes of inputs, which a caller may have given in another form."""
        if not isinstance(sizes, Mapping):
            found, expected = brief(sizes), "sizes by the names of inputs: {'x': (1, 3, 224, 224)}"
            raise BindError(self.model.name, [Problem("onnx.sizes", "sizes", found, expected)])
        read, problems = {}, []
        for name, given in sizes.items():
            try:
                read[name] = entries(given, as_uint)
            except (TypeError, ValueError):
                problems.append(Problem("onnx.sizes", f"sizes[{name!r}]", brief(given), "the sizes of the input: a list of integers"))
            if name not in self.model.inputs:
                known = self.model.inputs
                problems.append(
                    Problem("onnx.sizes", f"sizes[{name!r}]", "no input", f"one of {listed([*known])}", remedy=did_you_mean(name, known))
                )
        if problems:
            raise BindError(self.model.name, problems)
        return read

    def _by_name(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs, which a caller may have given without their names."""
        if isinstance(inputs, Mapping):
            return inputs
        name = next(iter(self.model.inputs), "name")
        expected, remedy = "a mapping of the model's input names to arrays", f"name it: {{{name!r}: array}}"
        raise BindError(self.model.name, [Problem("bind.form", "inputs", brief(inputs), expected, remedy=remedy)])

    def _unnamed_error(self, call: str, inputs: object, unnamed: Sequence[object]) -> BindError:
        """The error for a call with several arguments, such as ONNX Runtime's `session.run(output_names, input_feed)`."""
        found = ", ".join(map(brief, (inputs, *unnamed)))
        why = ("all outputs are returned, by name",)
        given = ", ".join(f"{name!r}: array" for name in islice(self.model.inputs, _MOST_NAMED))
        remedy = f"{call}({{{given}}})[{next(iter(self.model.outputs), 'name')!r}]"
        return BindError(self.model.name, [Problem("bind.form", "call", f"{call}({found})", f"{call}(inputs)", why, remedy)])

    def _arrays(self, given: Mapping[str, Any]) -> dict[str, Any]:
        problems = []
        wanted, given = self.model.inputs, self._by_name(given)
        for name in given:
            if name not in wanted:
                problems.append(
                    Problem(
                        "onnx.inputs",
                        brief(name),
                        "no input of the model",
                        f"one of {listed([*wanted, *self._defaults])}",
                        remedy=did_you_mean(name, [*wanted, *self._defaults]),
                    )
                )
        arrays = {}
        for name, value in wanted.items():
            if name not in given:
                problems.append(Problem("onnx.inputs", name, "not given", value.summary()))
                continue
            if value.kind != "tensor":
                arrays[name], wrong = to_sequence(name, value, given[name], self.device)
                problems += wrong
                continue
            if given[name] is None:
                remedy = "leave it out: its initializer is used" if name in self._replaceable else None
                problems.append(Problem("onnx.inputs", name, "None", value.summary(), remedy=remedy))
                continue
            arrays[name], wrong = receive(name, value, given[name], self.device)
            problems += wrong or fit_problems(name, value, np.dtype(arrays[name].dtype), arrays[name].shape)
        if problems:
            raise BindError(self.model.name, problems)
        return arrays

    def _compile_for_sizes(self, shapes: Mapping[str, Sequence[int]]) -> CompiledProgram:
        """The model compiled as a whole for sizes of its inputs."""
        key = CompiledModel, tuple(tuple(shapes[name]) for name in self._tensors)
        with self._lock:
            program: CompiledProgram | None = self._cache.get(key)
            if program is None:
                known = all(value.is_static and value.static_sizes == tuple(shapes[name]) for name, value in self._tensors.items())
                with collections_paused():
                    program = self._compile(self.model) if known else self._compile_from_template(shapes)
                self._cache.put(key, program, program.held_bytes)
        return program

    def _compile(self, model: LoweredModel) -> CompiledProgram:
        return CompiledProgram(self._program(model), self._context)

    def _compile_from_template(self, shapes: Mapping[str, Sequence[int]]) -> CompiledProgram:
        given = {name: replace(value, sizes=tuple(shapes[name])) for name, value in self._tensors.items()}
        program = self._templates.program(given)
        assert program is not None
        return CompiledProgram(program, self._context)

    def _prepare_process(self) -> None:
        """Compiles a small model for sizes that a call might have.

        What a process does once, such as imports, checks of classes and the loading of kernels, takes a hundred times as long as a new size
        of a small model: it belongs to the compilation rather than to the first call.
        """
        if self.device.memory_kind != "cpu" or len(self.model.loaded.proto.graph.node) > _MOST_PREPARED:
            return
        from dmlpy.onnx.loading.size_candidates import size_candidates

        for candidate in size_candidates(self._tensors)[1 : 1 + _MOST_TRIED]:
            with suppress(DmlError):  # a call reports what is wrong with its sizes
                self._compile_for_sizes(candidate.shapes).make_launches()  # the weights that it packs are those of the first call, too
                return

    def _program_for_sizes(self, inputs: Mapping[str, Value]) -> Program:
        return self._program(self.model.with_inputs({name: value.static_sizes for name, value in inputs.items()}))

    def _program(self, model: LoweredModel) -> Program:
        """The program of a model.

        Raises:
            CompileError: the model cannot be compiled.
        """
        if problems := model.interpretation(self.feature_level).problems:
            raise CompileError(model.name, problems)
        if FALLBACKS.isEnabledFor(logging.INFO):
            self._log_fallbacks(model)
        return model.program(self.feature_level)

    def _log_fallbacks(self, model: LoweredModel) -> None:
        for record in model.interpretation(self.feature_level).records:
            if record.where == "host":
                why = "; ".join(problem.headline() for problem in record.problems)
                log_once(FALLBACKS, lambda: f"{model.name}: node {record.name!r} ({record.op_type}) runs on the host: {why}")  # noqa: B023  (called at once)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (written_by(), pickle.dumps((self.model, device_name(self), self._options)))

    def __copy__(self) -> CompiledModel:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledModel:
        return self

    def __repr__(self) -> str:
        return f"<ONNX model {self.model.name} compiled for {self.device.name} at feature level {self.feature_level}>"


def _arrived(writer: str, work: bytes) -> CompiledModel | Refused:
    """Compiles what a pickle holds.

    Its name, place and first argument must stay the same in all versions, as those of `dmlpy.compiler._arrived`.

    Raises:
        PickleError: another version of dmlpy wrote it.
        CompileError: nothing here runs a node.
        DeviceError: there is no such device here.
    """
    if (refused := version_refused(writer)) is not None:
        return refused
    model, name, options = pickle.loads(work)
    return CompiledModel(model, name, **options)
