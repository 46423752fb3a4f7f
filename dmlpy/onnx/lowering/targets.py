"""`Target`: what the parts of a model are compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.onnx.runtime.deferred import DeferredNodes
from dmlpy.onnx.runtime.graph_runs import OnDevice, PackedWeights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx import GraphProto

    from dmlpy.compiler import Flags
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.onnx.loading.load import LoadedModel
    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.runtime.deferred import Ready, Take
    from dmlpy.onnx.runtime.kept import Kept
    from dmlpy.onnx.runtime.programs import Program


@dataclass(frozen=True)
class Target:
    """What the parts of a model are compiled for.

    Attributes:
        name: what messages call the model.
        model: the model.
        device: where its graphs run.
        level: the highest feature level that they use.
        flags: execution flags.
        fuse: whether activations are moved into the operators before them.
        run_late: makes a program ready to run that was made from values that have come: `running.late`.
        kept: what was compiled for sizes that have come.
        weights: what was packed for other sizes.
    """

    name: str
    model: LoadedModel
    device: Device
    level: FeatureLevel
    flags: Flags | Sequence[Flags]
    fuse: bool
    run_late: Callable[[Program, Target], Ready]
    kept: Kept
    weights: PackedWeights

    def on_host(self, held: Any) -> Any:
        """A value as an array of NumPy; lists of them and None stay."""
        if isinstance(held, OnDevice):
            return held.on_host(self.device)
        if isinstance(held, list):
            return [self.on_host(item) for item in held]
        return held if isinstance(held, np.ndarray) or held is None else self.device.to_host(held)

    def walking(self, graph: GraphProto, opsets: Mapping[str, int]) -> Take:
        """Gives a body to a walk."""
        return lambda walk, scope: walk.walk(graph, scope, "", opsets)

    def deferred(self, take: Take, reads: Mapping[str, Value], wanted: Sequence[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Nodes that are compiled when what they read has come."""
        run = lambda program: self.run_late(program, self)  # noqa: E731
        nodes = DeferredNodes(self.name, self.model, self.level, take, reads, wanted, run, self.kept)
        return lambda values: nodes(values, self.on_host)
