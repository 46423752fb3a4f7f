"""The work of a worker: one chunk of an operator or graph, with constants that are packed once in each process."""

from __future__ import annotations

import pickle
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy import compiler
from dmlpy.dask.chunking import Chunk, Group, resize_to
from dmlpy.description.array_problems import value_problems
from dmlpy.description.coercion import brief
from dmlpy.description.tensors import same_layout
from dmlpy.devices import Device, Reserve
from dmlpy.devices import device as find_device
from dmlpy.devices.host.memory import no_memory
from dmlpy.devices.persistence.pickling import WrittenBy
from dmlpy.messages.hresult import HResult
from dmlpy.messages.problems import BindError, DeviceError, DmlError, Problem
from dmlpy.system import forks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dmlpy.dask.resizing import Described
    from dmlpy.description.enums import ExecutionFlags, FeatureLevel
    from dmlpy.description.tensors import TensorDesc

NO_GPU = "let only workers with a GPU run it: with dask.annotate(resources={'GPU': 1}), or workers=[...] of compute"
LESS_MEMORY = "smaller chunks (array.rechunk) or fewer threads of a worker need less"


@dataclass(frozen=True)
class Steps:
    """How state is passed from one chunk of time to the next.

    Attributes:
        later: the desc of every chunk but the first that runs: it takes the state.
        states: the input of each state, by the output that computes it.
        axis: which of the groups is time.
        lengths: the name of the sequences' lengths, or None.
        total: the steps of all chunks.
        forward: whether the first chunk runs first.
    """

    later: Described
    states: Mapping[str, str]
    axis: int
    lengths: str | None
    total: int
    forward: bool


@dataclass(frozen=True)
class Job:
    """The arguments of a call of `map_blocks`, without its arrays.

    Attributes:
        described: the desc or graph, with outputs described.
        device: the name of the device, or None: the one whose memory the chunks are in.
        feature_level: the cap for checks.
        flags: the execution flags.
        fuse: as for `compile`.
        groups: the axes that are chunked.
        cut: the inputs that are chunked, in the order in which `run` takes their chunks.
        awaited: the constants that are arrays of Dask, in the order in which `Task.with_constants` takes them.
        outputs: the outputs to return, in order.
        dimensions: the number of dimensions of each.
        steps: how state is passed; None if it is not.
    """

    described: Described
    device: str | None
    feature_level: FeatureLevel
    flags: ExecutionFlags
    fuse: bool
    groups: tuple[Group, ...]
    cut: tuple[str, ...]
    awaited: tuple[str, ...]
    outputs: tuple[str, ...]
    dimensions: tuple[int, ...]
    steps: Steps | None


@dataclass(frozen=True)
class PickledJob:
    """A pickled job, which the task unpickles, so that an exception becomes the task's error.

    A worker of `distributed` that fails to unpickle a message loses its connection without reporting why.

    Attributes:
        pickled: the version of dmlpy, then the job.
    """

    pickled: bytes

    def opened(self) -> Job:
        """The job.

        Raises:
            PickleError: another version of dmlpy wrote it.
        """
        _, job = pickle.loads(self.pickled)
        assert isinstance(job, Job)
        return job


class Task:
    """A job with its constants. Dask sends it to each worker once; the constants packed from it are cached in the worker's process.

    Args:
        job: what is computed.
        constants: the inputs that are the same for all chunks, by name.
    """

    def __init__(self, job: Job | PickledJob, constants: Mapping[str, Any]) -> None:
        self._sent, self.constants = job, dict(constants)
        self._ready: dict[tuple[tuple[int, ...], bool, str], CompiledTask] = {}
        self._lock = forks.lock()

    @cached_property
    def job(self) -> Job:
        """A computation.

        Raises:
            PickleError: another version of dmlpy sent it.
        """
        return self._sent.opened() if isinstance(self._sent, PickledJob) else self._sent

    def with_constants(self, *arrays: Any) -> Task:
        """The task with its computed constants."""
        return Task(self.job, self.constants | dict(zip(self.job.awaited, arrays, strict=True)))

    def ready(self, chunk: Chunk, *, continued: bool, device: Device) -> CompiledTask:
        """The compiled task for chunks of these sizes on a device; cached."""
        key = chunk.sizes, continued, device.name
        with self._lock:
            if key not in self._ready:
                self._ready[key] = CompiledTask(self, chunk.sizes, device, continued=continued)
            return self._ready[key]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + sum(int(array.nbytes) for array in self.constants.values())

    def __reduce__(self) -> tuple[Any, ...]:
        return unpickle_task, (PickledJob(pickle.dumps((WrittenBy(), self.job))), self.constants)


def unpickle_task(job: PickledJob, constants: Mapping[str, Any]) -> Task:
    """The task as it comes out of a pickle."""
    return Task(job, constants)


class CompiledTask:
    """An operator or graph, compiled for one size of chunks on one device, with its constants on that device.

    Attributes:
        inputs: the tensors to bind, by name.
    """

    def __init__(self, task: Task, sizes: Sequence[int], device: Device, *, continued: bool) -> None:
        job = task.job
        described = job.steps.later if job.steps is not None and continued else job.described
        whole = resize_to(described, job.groups, sizes)
        self.device, self.inputs = device, whole.inputs
        compiled = compiler.compile(whole.described, device, job.feature_level, job.flags, fuse=job.fuse)
        constants = task.constants
        packed = compiled.prepared_inputs
        self._run: Any = compiled
        if packed and constants.keys() >= set(packed):
            self._run = compiled.prepare(copy=True, **{name: self._laid_out(name, constants[name]) for name in packed})
            constants = {name: array for name, array in constants.items() if name not in packed}
        self._constants = {name: self._placed(self._laid_out(name, array)) for name, array in constants.items()}

    def _placed(self, array: Any) -> Any:
        return self.device.from_host(array) if isinstance(array, np.ndarray) and self.device.memory_kind != "cpu" else array

    def _laid_out(self, name: str, array: Any) -> Any:
        """The array in the layout of its desc; a host array for a GPU gets it when it is copied."""
        tensor = self.inputs[name]
        if isinstance(array, np.ndarray) and self.device.memory_kind != "cpu":
            return array
        return lay_out(self.device, tensor, array)

    def __call__(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs of a chunk, by name, in the chunks' kind of memory."""
        on_host = all(isinstance(array, np.ndarray) for array in arrays.values())
        given = {name: self._laid_out(name, array) for name, array in arrays.items()}
        # The lengths that are left, and the state so far, take the place of what was given for all chunks.
        results = self._run(copy=on_host and self.device.memory_kind != "cpu", **(self._constants | given)).as_dict()
        tensors: dict[str, Any] = {}
        for name, value in results.items():
            tensors |= {f"{name}[{index}]": item for index, item in enumerate(value)} if isinstance(value, tuple) else {name: value}
        tensors = {name: value.array if isinstance(value, Reserve) else value for name, value in tensors.items()}
        return {name: self.device.to_host(array) for name, array in tensors.items()} if on_host else tensors


def lay_out(device: Device, tensor: TensorDesc, array: Any) -> Any:
    """An array of the device's memory in the layout of a desc: itself, or a copy.

    Arrays received over a network may be misaligned, and an operator needs aligned memory. Binding reports arrays that do not fit the desc.
    """
    if array.shape != tensor.sizes or array.dtype != tensor.data_type.numpy:
        return array
    strides = tuple(stride // array.dtype.itemsize for stride in array.strides)
    if same_layout(tensor, strides) and device.view(array).pointer % tensor.required_alignment == 0:
        return array
    copied = device.empty(tensor, device.current_stream())
    copied[...] = array
    return copied


def run(task: Task, chunk: Chunk, *arrays: Any) -> Any:
    """Computes one chunk.

    Args:
        task: what is computed, with its constants.
        chunk: which chunk.
        arrays: the chunks of `task.job.cut`.

    Returns:
        The outputs in order: the array itself if there is one only.

    Raises:
        DmlError: what went wrong, with the chunk and the worker in its subject.
    """
    with _name_chunk(chunk):
        results = _run_chunk(task, chunk, dict(zip(task.job.cut, arrays, strict=True)), continued=False)
    outputs = tuple(results[name] for name in task.job.outputs)
    return outputs if len(outputs) > 1 else outputs[0]


def run_step(task: Task, chunk: Chunk, state: tuple[Any, ...] | None, *arrays: Any) -> tuple[Any, ...]:
    """Computes one chunk of time from the previous chunk's final state; arguments and errors as for `run`.

    Returns:
        The outputs in order, then the state as a tuple.
    """
    with _name_chunk(chunk):
        steps = task.job.steps
        assert steps is not None
        given = dict(zip(task.job.cut, arrays, strict=True))
        if steps.lengths is not None:
            lengths = given[steps.lengths] if steps.lengths in given else task.constants[steps.lengths]
            given[steps.lengths] = _remaining_lengths(lengths, chunk.starts[steps.axis], chunk.sizes[steps.axis], steps)
        if state is not None:
            given |= dict(zip(steps.states.values(), state, strict=True))
        results = _run_chunk(task, chunk, given, continued=state is not None)
    return (*(results[name] for name in task.job.outputs), tuple(results[name] for name in steps.states))


def _remaining_lengths(lengths: Any, start: int, count: int, steps: Steps) -> Any:
    """The steps of each sequence within a chunk, from its total steps."""
    if isinstance(lengths, np.ndarray) and lengths.size and lengths.max() > steps.total:
        raise BindError("map_blocks", value_problems(steps.lengths or "", lengths, steps.total, "the number of all steps"))
    return (lengths.astype(np.int64) - start).clip(0, count).astype(lengths.dtype)


def _run_chunk(task: Task, chunk: Chunk, arrays: Mapping[str, Any], *, continued: bool) -> dict[str, Any]:
    if wrong := [
        _no_array_problem(name, array) for name, array in arrays.items() if not hasattr(array, "dtype") or not hasattr(array, "shape")
    ]:
        raise BindError("map_blocks", wrong)
    device = find_device(task.job.device or _device_of(arrays or task.constants))
    return task.ready(chunk, continued=continued, device=device)(arrays)


def _no_array_problem(name: str, array: Any) -> Problem:
    """The problem of a chunk that is not an array, such as the result of a task that returns nothing."""
    return Problem("array.kind", name, brief(array), "an array", ("a chunk is what the task returns that makes it",))


def _device_of(arrays: Mapping[str, Any]) -> str:
    """The device whose memory arrays are in."""
    array = next(iter(arrays.values()))
    return "cpu" if isinstance(array, np.ndarray) else f"cuda:{getattr(getattr(array, 'device', None), 'id', 0)}"


@contextmanager
def _name_chunk(chunk: Chunk) -> Iterator[None]:
    """Adds the chunk and the worker to an error."""
    try:
        try:
            yield
        except MemoryError as error:
            raise no_memory("map_blocks", error) from None
    except DmlError as error:
        kind, arguments = error.__reduce__()
        subject, problems, *rest = arguments
        if isinstance(error, DeviceError):
            remedy = LESS_MEMORY if error.hresult == HResult.E_OUTOFMEMORY else NO_GPU if "does not exist" in subject else ""
            subject = f"{subject}; {remedy}" if remedy else subject
        raise kind(f"{chunk.label}{_worker()}: {subject}", problems, *rest) from error


def _worker() -> str:
    """The name of this cluster worker, for messages."""
    if "distributed" not in sys.modules:
        return ""
    from distributed import get_worker

    try:
        return f" (on {get_worker().address})"
    except ValueError:  # not on a worker
        return ""


def chunk_problems(chunk: Chunk, problems: Sequence[Problem]) -> list[Problem]:
    """A chunk's problems, each of which names the chunk."""
    return [
        Problem(problem.code, problem.path, problem.found, problem.expected, (chunk.label, *problem.why), problem.remedy)
        for problem in problems
    ]
