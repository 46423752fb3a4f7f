"""The tasks of one call of `map_blocks`, as Dask's graphs hold them."""

from __future__ import annotations

from operator import getitem
from typing import TYPE_CHECKING, Any

from dmlpy.dask.chunking import all_chunks
from dmlpy.dask.jobs import Job, Task, run, run_step

if TYPE_CHECKING:
    from collections.abc import Mapping

Key = tuple[Any, ...]


class TaskGraph:
    """The tasks of an job.

    Attributes:
        name: the name of the tasks that compute chunks, and of the only output.
        is_single: whether a chunk's task returns an output itself; otherwise other tasks pick the outputs from its result.

    Args:
        job: what is computed.
        name: as the attribute.
        sources: the name and dimension count of each array of Dask, by input.
    """

    def __init__(self, job: Job, name: str, sources: Mapping[str, tuple[str, int]]) -> None:
        self.name = name
        self.is_single = len(job.outputs) == 1 and job.steps is None
        self._job, self._sources = job, sources
        self._grid = {chunk.index: chunk for chunk in all_chunks(job.groups)}
        steps = job.steps
        count = 0 if steps is None else len(job.groups[steps.axis].chunks)
        self._steps = range(count) if steps is None or steps.forward else range(count - 1, -1, -1)

    def of_task(self, task: Task) -> dict[Any, Any]:
        """The tasks that compute the chunks, and the constants that all of them get."""
        job, shared = self._job, f"{self.name}-constants"
        constants = [self._source(name, None) for name in job.awaited]
        tasks: dict[Any, Any] = {shared: (task.with_constants, *constants) if constants else task}
        for index, chunk in self._grid.items():
            arrays = [self._source(name, index) for name in job.cut]
            if self.is_single:
                tasks[self._block(self.name, job.outputs[0], index, job.dimensions[0])] = (run, shared, chunk, *arrays)
            elif job.steps is None:
                tasks[self.name, *index] = (run, shared, chunk, *arrays)
            else:
                before = self._before(index)
                tasks[self.name, *index] = (run_step, shared, chunk, before and self._state(before), *arrays)
                # By itself, so that the next chunk does not need the outputs of this one.
                tasks[self._state(index)] = (getitem, (self.name, *index), len(job.outputs))
        return tasks

    def of_output(self, layer: str, output: str, dimensions: int) -> dict[Any, Any]:
        """The tasks that pick an output from what the chunks give."""
        at = self._job.outputs.index(output)
        return {
            self._block(layer, output, index, dimensions): (getitem, (self.name, *index), at)
            for index in self._grid
            if self._gives(output, index)
        }

    def _source(self, name: str, index: tuple[int, ...] | None) -> Key:
        """The block of an input that a chunk gets, or the only block of a constant."""
        array, dimensions = self._sources[name]
        return (array, *(0,) * dimensions) if index is None else self._block(array, name, index, dimensions)

    def _block(self, array: str, name: str, index: tuple[int, ...], dimensions: int) -> Key:
        place = [0] * dimensions
        for group, at in zip(self._job.groups, index, strict=True):
            if name in group.axes:
                place[group.axes[name]] = at
        return array, *place

    def _state(self, index: tuple[int, ...]) -> Key:
        return f"{self.name}-state", *index

    def _before(self, index: tuple[int, ...]) -> tuple[int, ...] | None:
        """The chunk whose state a chunk begins with."""
        assert self._job.steps is not None
        axis = self._job.steps.axis
        at = self._steps.index(index[axis])
        return (*index[:axis], self._steps[at - 1], *index[axis + 1 :]) if at else None

    def _gives(self, output: str, index: tuple[int, ...]) -> bool:
        """Whether a chunk's output is part of the result: of those without an axis of time, that of the last chunk that runs is."""
        steps = self._job.steps
        return steps is None or output in self._job.groups[steps.axis].axes or index[steps.axis] == self._steps[-1]
