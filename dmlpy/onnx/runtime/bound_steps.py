"""`Step`: one of the graphs of a run that are bound together."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dmlpy.onnx.runtime.graph_runs import DeviceTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.plan import Launch
    from dmlpy.onnx.loading.values import Array, Value
    from dmlpy.onnx.runtime.bound_graphs import BoundGraph
    from dmlpy.onnx.runtime.graph_runs import GraphRun

Source: TypeAlias = "str | tuple[int, str]"
"""The source of a value: an input of the model by its name, or an output of a graph by the graph's index and its name there."""

RunTensor: TypeAlias = "Array | DeviceTensor"
"""A tensor of a run: with ONNX's type and sizes, or as a graph wrote it."""


class Step:
    """A graph bound to its memory, except for the model's inputs and outputs.

    Args:
        bound: the graph with its memory.
        run: the graph.
        reads: the sources of the inputs that may differ between runs, with their values in the graph.
        writes: the outputs that are new in each run, likewise.

    Attributes:
        copied_in: the memory of inputs that are copied, with their sources.
        copied_out: the memory of outputs that are copied, likewise.
    """

    def __init__(
        self, bound: BoundGraph, run: GraphRun, reads: Sequence[tuple[str, Value, Source]], writes: Sequence[tuple[str, Value, Source]]
    ) -> None:
        self._bound, self._run = bound, run
        self.copied_in: list[tuple[Array, Source]] = []
        self._rebound: list[tuple[str, Value, Source]] = []
        for name, value, source in reads:
            elements = bound.elements(name, value)
            if elements is None:
                self._rebound.append((name, value, source))
            else:
                self.copied_in.append((elements, source))
        self.copied_out: list[tuple[Array, Source]] = []
        self._allocated: list[tuple[str, Value, Source]] = []
        for name, value, source in writes:
            elements = bound.elements(name, value)
            if elements is None:
                self._allocated.append((name, value, source))
            else:
                self.copied_out.append((elements, source))

    @property
    def is_in_place(self) -> bool:
        """Whether it has memory for all that it reads and writes."""
        return not self._rebound and not self._allocated

    def launch_in_place(self, stream: int) -> None:
        """Runs the graph with what lies in that memory."""
        self._bound.launch({}, stream)

    def launches(self) -> list[Launch] | None:
        """The launches of `launch_in_place`, in order; None if it does more than launch."""
        return self._bound.launches()

    def __call__(self, tensors: dict[Source, RunTensor], stream: int) -> None:
        """Runs the graph; what it reads and writes is in `tensors`."""
        for elements, source in self.copied_in:
            elements[...] = tensors[source]
        written = self._bound.launch({name: self._run.read(value, tensors[source]) for name, value, source in self._rebound}, stream)
        for elements, source in self.copied_out:
            tensors[source] = elements.copy()
        for name, value, source in self._allocated:
            tensors[source] = DeviceTensor(written[name], value)
