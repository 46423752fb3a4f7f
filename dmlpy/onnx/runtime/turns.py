"""`Turns`: a bound run that is repeated in place, as the body of a loop is: outputs of each turn are inputs of the next one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.runtime.bound_steps import Source, Step

Copies: TypeAlias = "list[tuple[Array, Array]]"
"""Arrays, each with the one whose elements it is given."""


class Turns:
    """The turns of a loop whose body is bound, with memory of the same sizes in each: only copies lie between launches.

    Args:
        steps: the body's graphs with their memory, which nobody else runs meanwhile.
        sources: the sources of its outputs by name.
        constants: its outputs that are the same in each turn.
        given: the inputs of the next turn.
        fed_back: the outputs that are inputs of the turn after, by the names of these inputs.
        changing: the inputs whose elements the caller sets before each turn.
        stream: where the graphs run.

    Attributes:
        given: the inputs by name; of those that are changing the caller sets the elements.
        outputs: the outputs of the last turn by name, in memory that the next one writes.

    Raises:
        LookupError: it does not run in place: memory is bound anew in each turn, sizes change, or turns hand on another input as it is.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        sources: Mapping[str, Source],
        constants: Mapping[str, Array],
        given: Mapping[str, Array],
        fed_back: Mapping[str, str],
        changing: Collection[str],
        stream: int,
    ) -> None:
        if not all(step.is_in_place for step in steps) or any(
            source in (fed_back.keys() | {*changing}) - {name} for name, output in fed_back.items() if (source := sources.get(output))
        ):
            raise LookupError
        self.given = {name: np.array(array) for name, array in given.items()}
        self._stream = stream
        written = {source: elements for step in steps for elements, source in step.copied_out}
        self.outputs: dict[str, Array] = dict(constants)
        for name, source in sources.items():
            self.outputs[name] = self.given[source] if isinstance(source, str) else written[source]
        following = {name: self.outputs[output] for name, output in fed_back.items()}
        if any((array.shape, array.dtype) != (self.given[name].shape, self.given[name].dtype) for name, array in following.items()):
            raise LookupError
        given_on = {source for source in sources.values() if isinstance(source, str)}
        self._before: Copies = [(self.given[name], array) for name, array in following.items() if name in given_on]
        """What changes between turns: copied before any graph writes an output."""
        self._steps: list[tuple[Copies, Callable[[int], Any]]] = []
        for step in steps:
            copies: Copies = []
            for elements, source in step.copied_in:
                if not isinstance(source, str):
                    copies.append((elements, written[source]))
                    continue
                elements[...] = self.given[source]
                if source in following or source in changing:
                    self._before.append((elements, following.get(source, self.given[source])))
            self._steps.append((copies, step.launch_in_place))
        self._is_first = True

    def __call__(self) -> None:
        """Runs a turn."""
        if not self._is_first:
            for elements, array in self._before:
                elements[...] = array
        self._is_first = False
        for copies, launch in self._steps:
            for elements, array in copies:
                elements[...] = array
            launch(self._stream)
