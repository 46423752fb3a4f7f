"""`load` and `Model`: an ONNX model, what becomes of its nodes, and the graphs that it becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.enums import ExecutionFlags
from dmlpy.description.member_forms import brief
from dmlpy.messages.naming import did_you_mean, listed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.onnx.loading.elements import sizes_problem
from dmlpy.onnx.loading.load import LoadedModel, load_model
from dmlpy.onnx.loading.values import Array, Value, of_proto
from dmlpy.onnx.lowering.lower import Interpretation
from dmlpy.onnx.runtime.programs import Program, program_of
from dmlpy.validation.checking import LATEST, parse_level

if TYPE_CHECKING:
    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.graphs import Graph
    from dmlpy.onnx.loading.limits import Limits
    from dmlpy.onnx.reporting.report import Like, Report
    from dmlpy.onnx.runtime.compiled import CompiledModel


def load(
    source: Any,
    *,
    sizes: Mapping[str, int | Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
) -> Model:
    """Loads an ONNX model.

    Args:
        source: a path, the bytes of a file, or a `ModelProto`. External data is read from below the file's folder.
        sizes: what the file leaves open: sizes by the name of a symbol, or all sizes of an input by its name.
        constants: inputs whose elements are known before the model runs, by name.
        limits: the most that the model may take while it is loaded, reported on and compiled; None for the usual limits.

    Raises:
        DescError: no such file, no valid model in it, one beyond the limits, or sizes and constants that do not fit; all problems are told.
    """
    return Model(load_model(source, limits), dict(sizes or {}), {name: np.asarray(array) for name, array in (constants or {}).items()})


class Model:
    """An ONNX model with the sizes of its inputs, as far as they are known.

    Attributes:
        name: what messages call it.
        inputs: the inputs by name, without those that are constants.
        given: all inputs by name, with their elements where they are constants.
        outputs: the outputs by name.
    """

    def __init__(self, loaded: LoadedModel, sizes: Mapping[str, int | Sequence[int]], constants: Mapping[str, Array]) -> None:
        self.loaded = loaded
        self.name = loaded.name
        self._constants = constants
        graph = loaded.proto.graph
        # An input that has an initializer is a default: a constant takes its place.
        initializers = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
        initializers -= constants.keys()
        declared = {item.name: of_proto(item.name, item.type) for item in graph.input if item.name not in initializers}
        self.given = _with_sizes(declared, sizes, constants, self.name)
        self.inputs = {name: value for name, value in self.given.items() if value.array is None}
        self._interpretations: dict[FeatureLevel, Interpretation] = {}

    @property
    def outputs(self) -> dict[str, Value]:
        return self.interpretation(LATEST).outputs

    def interpretation(self, feature_level: FeatureLevel | str | int = LATEST) -> Interpretation:
        """What becomes of the model's nodes at a feature level."""
        level = parse_level(feature_level)
        if level not in self._interpretations:
            self._interpretations[level] = Interpretation.of(self.loaded, self.given, level)
        return self._interpretations[level]

    def report(self, feature_level: FeatureLevel | str | int = LATEST, *, like: Like = "dmlpy") -> Report:
        """What becomes of each node, and why some do not run on DirectML.

        Args:
            feature_level: the highest feature level that may be used.
            like: `dmlpy` for what `compile` does; `onnxruntime` for what its DirectML provider is predicted to do, by the facts of
                `provider.toml`. The prediction knows kernels, types, constant inputs and sizes; it does not know the optimizers that change
                a model before it is placed, but for the folding of constants.

        Raises:
            DescError: `like` is neither.
        """
        from dmlpy.onnx.reporting.build import report_of

        return report_of(self, parse_level(feature_level), like)

    def with_inputs(self, inputs: Mapping[str, Sequence[int | None]]) -> Model:
        """The model with the sizes that its inputs have in one run; those that are None stay open."""
        fixed = {name: replace(value, sizes=tuple(inputs[name])) if name in inputs else value for name, value in self.inputs.items()}
        made = Model.__new__(Model)
        made.loaded, made.name, made._constants = self.loaded, self.name, self._constants
        made.given = self.given | fixed
        made.inputs, made._interpretations = fixed, {}
        return made

    @cached_property
    def graphs(self) -> list[Graph]:
        """The graphs of DirectML's operators that the model becomes at the latest feature level, in the order in which they run."""
        return self.program().graphs

    def program(self, feature_level: FeatureLevel | str | int = LATEST) -> Program:
        """The graphs, and the nodes on the host, in the order in which they run."""
        found = self.interpretation(feature_level)
        return program_of(found.stages, found.outputs, self.name)

    def compile(
        self,
        device: Device | str | None = None,
        feature_level: FeatureLevel | str | int = LATEST,
        flags: Flags | Sequence[Flags] = ExecutionFlags.NONE,
        *,
        fuse: bool = True,
        keep_bytes: int = 1 << 28,
    ) -> CompiledModel:
        """Compiles the model; where sizes are open, for those of the inputs that it is called with.

        Args:
            device: as for `dmlpy.compile`.
            feature_level: as for `dmlpy.compile`: nodes that need a higher level run on the host.
            flags: as for `dmlpy.compile`.
            fuse: as for `dmlpy.compile`.
            keep_bytes: how many bytes of what is compiled for sizes of the inputs are kept; what was used last is in any case.

        Raises:
            CompileError: nodes that nothing runs; all of them are told.
            DeviceError: there is no such device.
        """
        from dmlpy.onnx.runtime.compiled import CompiledModel

        return CompiledModel(self, device, parse_level(feature_level), flags, fuse=fuse, keep_bytes=keep_bytes)


def _with_sizes(
    declared: Mapping[str, Value], sizes: Mapping[str, int | Sequence[int]], constants: Mapping[str, Array], name: str
) -> dict[str, Value]:
    """The inputs with the sizes and elements that the user gives.

    Raises:
        DescError: these do not fit.
    """
    problems = []
    symbols = {size for value in declared.values() for size in value.sizes or () if isinstance(size, str)}
    for given, size in sizes.items():
        path = f"sizes[{given!r}]"
        if given in declared:
            own = declared[given].sizes
            wanted = tuple(size) if isinstance(size, Sequence) else None
            if wanted is None or not all(isinstance(item, int) and item >= 0 for item in wanted):
                problems.append(Problem("onnx.sizes", path, brief(size), "the sizes of the input: a list of integers"))
            elif own is not None and (
                len(own) != len(wanted) or any(isinstance(a, int) and a != b for a, b in zip(own, wanted, strict=True))
            ):
                problems.append(Problem("onnx.sizes", path, listed(wanted), f"sizes that the input has: {declared[given].summary()}"))
        elif given not in symbols:
            known = [*sorted(symbols), *declared]
            expected = f"one of {listed(known)}" if known else "nothing: all sizes are known"
            problems.append(Problem("onnx.sizes", path, "neither a symbol nor an input", expected, remedy=did_you_mean(given, known)))
        elif not isinstance(size, int) or size < 0:
            problems.append(Problem("onnx.sizes", path, brief(size), "a size: an integer"))
    problems += [
        Problem("onnx.inputs", f"constants[{given!r}]", "no input", f"one of {listed([*declared])}", remedy=did_you_mean(given, declared))
        for given in constants
        if given not in declared
    ]
    if problems:
        raise DescError(f"onnx.load: {name}", problems)
    found = {}
    for given, value in declared.items():
        own = value.sizes
        whole = sizes.get(given)
        if isinstance(whole, Sequence):
            own = tuple(whole)
        elif own is not None:
            own = tuple(_bound(size, sizes) for size in own)
        if own is not None and (problem := sizes_problem(f"sizes[{given!r}]", [s for s in own if isinstance(s, int)], value.element or 0)):
            problems.append(problem)
        found[given] = Value.known(given, constants[given]) if given in constants else replace(value, sizes=own)
    if problems:
        raise DescError(f"onnx.load: {name}", problems)
    return found


def _bound(size: int | str | None, sizes: Mapping[str, int | Sequence[int]]) -> int | str | None:
    known = sizes.get(size) if isinstance(size, str) else size
    return known if isinstance(known, int) else size
