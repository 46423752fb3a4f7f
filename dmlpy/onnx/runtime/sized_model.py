"""`SizedModel`: what compiling a model and reporting on it use of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.enums import FeatureLevel
    from dmlpy.graphs import Graph
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.lowering.lower import Interpretation
    from dmlpy.onnx.reporting.report import Like, Report
    from dmlpy.onnx.runtime.programs import Program


class SizedModel(Protocol):
    """A model with the sizes of its inputs, as far as they are known: see `dmlpy.onnx.Model`, which is one."""

    name: str
    loaded: LoadedModel
    given: dict[str, Value]
    inputs: dict[str, Value]

    @property
    def outputs(self) -> dict[str, Value]: ...

    @property
    def graphs(self) -> list[Graph]: ...

    def interpretation(self, feature_level: FeatureLevel | str | int = ...) -> Interpretation: ...

    def program(self, feature_level: FeatureLevel | str | int = ...) -> Program: ...

    def report(self, feature_level: FeatureLevel | str | int = ..., *, like: Like = "dmlpy") -> Report: ...

    def with_inputs(self, inputs: Mapping[str, Sequence[int | None]]) -> SizedModel: ...
