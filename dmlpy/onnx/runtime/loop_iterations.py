"""`LoopIterations`: the bound run of a loop's body, repeated in place: outputs of each iteration are inputs of the next one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmlpy.devices.loops import ArrayCopy, LoopBody

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices import Device
    from dmlpy.devices.loops import LoopRunner
    from dmlpy.devices.plan import Launch
    from dmlpy.onnx.loading.values import Array
    from dmlpy.onnx.runtime.bound_steps import Source, Step

_FIRST_ITERATIONS = 16
"""The iterations that run first without Python between them."""
_GROWTH = 4
"""How many times as many run after them, if they took less than `_PATIENCE_S`: Ctrl+C is answered when they are done."""
_PATIENCE_S = 0.005
_MOST_ROW_BYTES = 1 << 22
"""The most memory for what these iterations give, unless the number of iterations is known."""


@dataclass(frozen=True)
class LoopFlow:
    """The copies between the iterations of a loop.

    Attributes:
        fed_back: the outputs that are inputs of the iteration after, by the names of these inputs.
        counter: the input that is the number of the iteration.
        scanned: the inputs that are given an entry of what is scanned.
        kept: the outputs that the loop gives for each iteration.
        condition: the output that says whether there is another iteration.
    """

    fed_back: Mapping[str, str]
    counter: str | None
    scanned: Sequence[str]
    kept: Sequence[str]
    condition: str | None

    @property
    def changing(self) -> set[str]:
        """The inputs that are set before each iteration."""
        return {*self.scanned} | ({self.counter} if self.counter is not None else set())


class LoopOutcome(NamedTuple):
    """The outcome of some iterations.

    Attributes:
        iterations: their number.
        goes_on: whether the last one asked for another.
        rows: for each output that is kept, blocks [iterations, ...].
    """

    iterations: int
    goes_on: bool
    rows: list[list[Array]]


class LoopIterations:
    """The iterations of a loop whose body is bound, with memory of the same sizes in each: only copies lie between launches.

    Args:
        steps: the body's graphs with their memory, which nothing else runs meanwhile.
        sources: the sources of its outputs by name.
        constants: its outputs that are the same in each iteration.
        given: inputs of an iteration, of the types and sizes of all others.
        flow: what happens between iterations.
        device: where the graphs run.

    Attributes:
        outputs: the outputs of the last iteration by name, in memory that the next one writes.

    Raises:
        LookupError: it cannot run in place: memory is bound in each iteration, sizes change, or an iteration passes on another input
            unchanged.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        sources: Mapping[str, Source],
        constants: Mapping[str, Array],
        given: Mapping[str, Array],
        flow: LoopFlow,
        device: Device,
    ) -> None:
        fed_back, changing = flow.fed_back, flow.changing
        if not all(step.is_in_place for step in steps) or any(
            source in (fed_back.keys() | changing) - {name} for name, output in fed_back.items() if (source := sources.get(output))
        ):
            raise LookupError
        self._flow = flow
        given_on = {source for source in sources.values() if isinstance(source, str)}
        reads = {source for step in steps for _, source in step.copied_in if isinstance(source, str)}
        values = self._given = {name: np.array(given[name]) for name in reads | given_on | fed_back.keys() | changing}
        written = {source: elements for step in steps for elements, source in step.copied_out}
        self.outputs: dict[str, Array] = dict(constants)
        for name, source in sources.items():
            self.outputs[name] = values[source] if isinstance(source, str) else written[source]
        following = {name: self.outputs[output] for name, output in fed_back.items()}
        if any((array.shape, array.dtype) != (values[name].shape, values[name].dtype) for name, array in following.items()):
            raise LookupError
        self._first: list[ArrayCopy] = []
        """The copies before the first iteration."""
        before = [ArrayCopy(values[name], array) for name, array in following.items() if name in given_on]
        work: list[ArrayCopy | Step] = []
        for step in steps:
            for elements, source in step.copied_in:
                if not isinstance(source, str):
                    work.append(ArrayCopy(elements, written[source]))
                    continue
                self._first.append(ArrayCopy(elements, values[source]))
                if source in following or source in changing:
                    before.append(ArrayCopy(elements, following.get(source, values[source])))
            work.append(step)
        self._before = before
        """Copies of the values that change between iterations; made before any graph writes an output."""
        self._work = [each if isinstance(each, ArrayCopy) else each.launch_in_place for each in work]
        self._runner = self._compiled(work, device)
        self._is_first = True

    def begin(self, given: Mapping[str, Array]) -> None:
        """Begins a loop with these inputs of its first iteration."""
        for name, array in self._given.items():
            array[...] = given[name]
        for elements, array in self._first:
            elements[...] = array
        self._is_first = True

    def run(self, number: int, most: int | None, scanned: Sequence[Array], stream: int) -> LoopOutcome:
        """Runs iterations until one asks for no other, or there are no more.

        Args:
            number: the number of the next iteration.
            most: how many iterations, at most; None for any number.
            scanned: the entries of each input that is scanned, those of the next iteration first.
            stream: where the graphs run.
        """
        if self._runner is not None:
            return self._run_compiled(self._runner, number, most, scanned)
        flow, done, goes_on = self._flow, 0, True
        kept = [self.outputs[name] for name in flow.kept]
        rows: list[list[Array]] = [[] for _ in kept]
        counter = None if flow.counter is None else self._given[flow.counter]
        entries = [self._given[name] for name in flow.scanned]
        while goes_on and done != most:
            if counter is not None:
                counter[...] = number + done
            for entry, array in zip(entries, scanned, strict=True):
                entry[...] = array[done]
            self(stream)
            done += 1
            goes_on = self._goes_on()
            for row, array in zip(rows, kept, strict=True):
                row.append(array.copy())
        return LoopOutcome(done, goes_on, [[np.stack(row)] if row else [] for row in rows])

    def __call__(self, stream: int) -> None:
        """Runs an iteration."""
        if not self._is_first:
            for elements, array in self._before:
                elements[...] = array
        self._is_first = False
        for each in self._work:
            if isinstance(each, ArrayCopy):
                each.target[...] = each.source
            else:
                each(stream)

    def _run_compiled(self, repeat: LoopRunner, number: int, most: int | None, scanned: Sequence[Array]) -> LoopOutcome:
        """Runs iterations as `run` does, many of them without Python between."""
        kept = [self.outputs[name] for name in self._flow.kept]
        rows: list[list[Array]] = [[] for _ in kept]
        entries = [np.ascontiguousarray(array) for array in scanned]
        most_kept = max(1, _MOST_ROW_BYTES // max([1, *(array.nbytes for array in kept)]))
        done, goes_on, count = 0, True, _FIRST_ITERATIONS
        while goes_on and done != most:
            count = min(count, most_kept) if most is None else min(count, most_kept, most - done)
            blocks = [np.empty((count, *array.shape), array.dtype) for array in kept]
            started = time.perf_counter()
            ran = repeat(number + done, count, [array[done:] for array in entries], blocks, is_first=self._is_first)
            if time.perf_counter() - started < _PATIENCE_S:
                count *= _GROWTH
            self._is_first, done = False, done + ran
            for row, block in zip(rows, blocks, strict=True):
                row.append(block[:ran])
            goes_on = self._goes_on()
        return LoopOutcome(done, goes_on, rows)

    def _goes_on(self) -> bool:
        return self._flow.condition is None or bool(self.outputs[self._flow.condition].item(0))

    def _compiled(self, work: Sequence[ArrayCopy | Step], device: Device) -> LoopRunner | None:
        """The iterations without Python between them, where the device runs them so."""
        flow = self._flow
        launches: list[ArrayCopy | Launch] = []
        for each in work:
            calls = [each] if isinstance(each, ArrayCopy) else each.launches()
            if calls is None:
                return None
            launches += calls
        condition = None if flow.condition is None else self.outputs[flow.condition]
        if condition is not None and condition.dtype != np.bool_:
            return None
        return device.compile_loop(
            LoopBody(
                None if flow.counter is None else self._given[flow.counter],
                [self._given[name] for name in flow.scanned],
                self._before,
                launches,
                [self.outputs[name] for name in flow.kept],
                condition,
            )
        )
