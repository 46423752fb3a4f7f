"""`LoweredModel`: a model with the sizes of its inputs, and its lowering at each feature level."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from dmlpy.messages.naming import plural
from dmlpy.onnx.lowering.model_lowering import Lowering
from dmlpy.onnx.lowering.programs import Program, build_program
from dmlpy.validation.checking import LATEST, parse_level

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.graphs import Graph
    from dmlpy.messages.problems import Problem
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Value


class LoweredModel:
    """An ONNX model with the sizes of its inputs, as far as they are known.

    Attributes:
        name: what messages call it.
        inputs: the inputs by name, without those that are constants.
        given: all inputs by name, with the elements of those that are constants.
        outputs: the outputs by name.
    """

    def __init__(self, loaded: LoadedModel, given: Mapping[str, Value]) -> None:
        self.loaded = loaded
        self.name = loaded.name
        self.given = given
        self.inputs = {name: value for name, value in given.items() if value.array is None}
        self._lowerings: dict[FeatureLevel, Lowering] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The state of a pickle: without lowerings, which would repeat the weights and are made anew."""
        return {name: value for name, value in vars(self).items() if name != "graphs"} | {"_lowerings": {}}

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name} {value.summary()}" for name, value in self.inputs.items())
        return f"<ONNX model {self.name} of {plural(len(self.loaded.proto.graph.node), 'node')}: {inputs or 'no inputs'}>"

    @property
    def outputs(self) -> dict[str, Value]:
        return self.interpretation(LATEST).outputs

    def interpretation(self, feature_level: FeatureLevel | str | int = LATEST) -> Lowering:
        """The lowering of the model's nodes at a feature level."""
        level = parse_level(feature_level)
        if level not in self._lowerings:
            self._lowerings[level] = Lowering.of(self.loaded, self.given, level)
        return self._lowerings[level]

    def known_contradictions(self, feature_level: FeatureLevel) -> tuple[Problem, ...]:
        """Sizes that the file declares and the values do not have, if the model was lowered at this level."""
        return self._lowerings[feature_level].contradicted if feature_level in self._lowerings else ()

    def with_inputs(self, inputs: Mapping[str, Sequence[int | None]]) -> Self:
        """The model with the sizes of its inputs in one run; None leaves a size dynamic."""
        fixed = {name: replace(value, sizes=tuple(inputs[name])) if name in inputs else value for name, value in self.inputs.items()}
        model = type(self).__new__(type(self))
        LoweredModel.__init__(model, self.loaded, {**self.given, **fixed})
        return model

    @cached_property
    def graphs(self) -> list[Graph]:
        """The graphs of DirectML's operators at the latest feature level, in execution order."""
        return self.program().graphs

    def program(self, feature_level: FeatureLevel | str | int = LATEST) -> Program:
        """The graphs and the nodes on the host, in execution order."""
        lowering = self.interpretation(feature_level)
        return build_program(lowering.stages, lowering.outputs, self.name)
