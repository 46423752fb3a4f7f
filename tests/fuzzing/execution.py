"""Fuzzes execution: memory between forbidden pages, threads, interrupts and forks.

    python -m tests.fuzzing.execution --seconds 60 --seed 1
    python -m tests.fuzzing.execution interrupts --tries 500

Promises: a launch touches nothing but the bytes that its tensors, scratch and packed constants have, writes no input and no gap between
elements, whatever the values are; all that it writes follows from its inputs; what it raises is an error of dmlpy's own, and then no output
is written. Threads do not see each other. An interrupted launch is over when it raises: its memory may be freed at once. A process that
forks between launches, or during those of other threads, has a child in which launches work. What breaks one ends the program with a status
other than 0, by a signal if need be.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.fuzzing.pages import Guarded
from tests.support.descs.own_descs import OWN, own_desc
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close
from tests.support.tools import missing

Arrays = dict[str, np.ndarray[Any, Any]]
FILLS = (0x3C, 0xFF)
LONGEST_WAIT_S = 120
"""For a launch or a fork: what takes longer hangs."""


class BrokenPromiseError(AssertionError):
    """A promise that did not hold."""


class Tries:
    """How long a fuzzer runs: for some seconds, or some tries where no seconds are given."""

    def __init__(self, seconds: float | None, tries: int) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._tries = tries

    def __iter__(self) -> Iterator[int]:
        number = 0
        while number < self._tries if self._deadline is None else time.monotonic() < self._deadline:
            yield number
            number += 1


# descs and values


@cache
def devices() -> dict[str, dml.Device]:
    """NumPy, and the processor with compiled kernels."""
    return {name: dml.device(name) for name in ("numpy", "cpu")}


@cache
def emulated_devices() -> dict[str, Any]:
    """The cases of CUDA's plans by name, each with a device that has the strategy of kernels; none where g++ is missing."""
    if missing("g++"):
        return {}
    from dmlpy.devices.cuda.device import CudaDevice
    from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
    from tests.support.operators.dispatch_cases import CASES

    runtime = EmulatedRuntime()
    runtime._memory.check_range = lambda pointer, size: None  # type: ignore[method-assign]  # the fuzzer owns the memory, and its pages check
    return {name: (CudaDevice(runtime, strategy=case.strategy), case.describe) for name, case in CASES.items()}


def random_desc(rng: np.random.Generator) -> tuple[dml.Device, OperatorDesc, str]:
    """An operator on a device: each that dmlpy runs may come."""
    if rng.random() < 0.1 and emulated_devices():
        name = str(rng.choice(sorted(emulated_devices())))
        device, describe = emulated_devices()[name]
        return device, describe(str(rng.choice(["FLOAT32", "FLOAT16"]))), f"cuda: {name}"
    where = "cpu" if rng.random() < 0.2 else "numpy"  # compiling takes seconds
    device = devices()[where]
    runs = sorted(name for name, kind in OPERATORS.items() if device.runs(kind))
    name = str(rng.choice(runs))
    return device, own_desc(name) if name in OWN else sample(OPERATORS[name]), f"{where}: {name}"


def laid_out(rng: np.random.Generator, desc: OperatorDesc) -> OperatorDesc:
    """The desc, with gaps and other orders of dimensions in some of its tensors where it stays valid."""
    for field in type(desc).tensor_fields():
        tensor = getattr(desc, field.name)
        if not isinstance(tensor, dml.TensorDesc) or rng.random() < 0.6:
            continue
        strides, reach = [0] * len(tensor.sizes), int(rng.integers(1, 3))
        order = rng.permutation(len(tensor.sizes)) if rng.random() < 0.5 else np.arange(len(tensor.sizes))[::-1]
        for axis in order:
            strides[axis] = reach
            reach = reach * tensor.sizes[axis] + int(rng.integers(0, 3))
        try:
            changed = desc.replace(**{field.name: dml.TensorDesc(data_type=tensor.data_type, sizes=tensor.sizes, strides=strides)})
        except dml.DmlError:
            continue
        if not dml.check(changed):
            desc = changed
    return desc


def hostile(rng: np.random.Generator, sizes: tuple[int, ...], data_type: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Values of a tensor: usual ones, small whole ones, or any bits, so indices, lengths and floats of every kind."""
    kind = rng.integers(3)
    if kind == 0 and data_type.kind == "f":
        return rng.standard_normal(sizes).astype(data_type)
    if kind < 2:
        return rng.integers(0, 3, sizes).astype(data_type)
    return np.frombuffer(rng.bytes(int(np.prod(sizes)) * data_type.itemsize), data_type).reshape(sizes)


# memory between pages


class Placed:
    """A tensor's memory between pages."""

    def __init__(self, rng: np.random.Generator, desc: dml.TensorDesc) -> None:
        self.desc = desc
        alignment = max(desc.guaranteed_base_offset_alignment, desc.data_type.numpy.itemsize)
        self.block = Guarded(desc.extent_in_bytes, alignment, at_end=bool(rng.random() < 0.8), fill=FILLS[0])
        self.elements = self.block.values(desc.sizes, desc.data_type.numpy, desc.numpy_strides())
        self._is_gap = np.ones(self.block.bytes.size, np.bool_)
        size = desc.data_type.numpy.itemsize
        first = self.elements.ctypes.data - self.block.bytes.ctypes.data
        places = sum(np.arange(n).reshape(-1, *[1] * (len(desc.sizes) - 1 - axis)) * s for axis, (n, s) in enumerate(self._axes()))
        for byte in range(size):
            self._is_gap[(first + np.asarray(places) + byte).reshape(-1)] = False

    def _axes(self) -> Iterator[tuple[int, int]]:
        return zip(self.desc.sizes, self.desc.numpy_strides(), strict=True)

    @property
    def buffer(self) -> dml.Buffer:
        return dml.Buffer(self.block.pointer, self.block.size)

    def gaps(self) -> np.ndarray[Any, Any]:
        """The bytes between its elements and around them."""
        return self.block.bytes[self._is_gap]


def fuzz_pages(rng: np.random.Generator, seen: Counter[str]) -> None:
    """One operator over one choice of layouts and values, twice: memory is full of one byte, then of another."""
    device, desc, label = random_desc(rng)
    desc = laid_out(rng, desc)
    try:
        operator = dml.compile(desc, device)
    except dml.DmlError as error:
        seen[f"not compiled: {type(error).__name__}"] += 1
        return
    described = desc.tensors()
    outputs = {slot.place for slot in desc.slots() if slot.field.marker.output}
    placed = {name: Placed(rng, tensor) for name, tensor in described.items()}
    scratch_size = operator.binding_properties.temporary_resource_size
    scratch = Guarded(scratch_size, 16, at_end=True, fill=FILLS[0])
    try:
        for name, item in placed.items():
            if name not in outputs:
                item.elements[...] = hostile(rng, item.desc.sizes, item.desc.data_type.numpy)
                item.block.write_protect(True)
        temporary = dml.Buffer(scratch.pointer, scratch_size) if scratch_size else None
        given = {name: item.buffer for name, item in placed.items()}
        dispatch = operator.bind(
            {name: buffer for name, buffer in given.items() if name not in outputs},
            {name: buffer for name, buffer in given.items() if name in outputs},
            temporary,
        )
        found: list[dict[str, bytes]] = []
        for fill in FILLS:
            scratch.bytes[...] = fill
            for name in outputs & placed.keys():
                placed[name].block.bytes[...] = fill
            try:
                dispatch()
                device.synchronize(0)
            except dml.BindError as error:
                seen["refused"] += 1
                if any((placed[name].block.bytes != fill).any() for name in outputs & placed.keys()):
                    raise BrokenPromiseError(f"{label}: refused, and outputs are written") from error
                return
            found.append({name: placed[name].elements.tobytes() for name in outputs & placed.keys()})
            for name in outputs & placed.keys():
                if (placed[name].gaps() != fill).any():
                    raise BrokenPromiseError(f"{label}: bytes between the elements of {name} are written")
        for name, before in found[0].items():
            if before != found[1][name]:
                raise BrokenPromiseError(f"{label}: {name} depends on what was in memory")
        seen[f"ran on {label.partition(':')[0]}"] += 1
    finally:
        del dispatch, operator
        for item in placed.values():
            item.block.free()
        scratch.free()


# threads, interrupts, forks


def lstm(steps: int, batch: int, inputs: int, hidden: int) -> dml.LSTMDesc:
    return dml.LSTMDesc(
        input_tensor=tensor(1, steps, batch, inputs),
        weight_tensor=tensor(1, 1, 4 * hidden, inputs),
        recurrence_tensor=tensor(1, 1, 4 * hidden, hidden),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
        clip_threshold=1.0,
        use_clip_threshold=False,
        couple_input_forget=False,
    ).with_outputs()


def normalization(*sizes: int) -> dml.BatchNormalizationTrainingDesc:
    groups = tensor(1, sizes[1], *[1] * (len(sizes) - 2))
    return dml.BatchNormalizationTrainingDesc(
        input_tensor=tensor(*sizes), scale_tensor=groups, bias_tensor=groups, epsilon=1e-5
    ).with_outputs()


@cache
def workloads() -> list[tuple[str, Any]]:
    """Operators whose launches take several threads, each with its device's name."""
    found: list[tuple[str, OperatorDesc]] = [
        ("numpy", normalization(8, 32, 64, 64)),
        ("numpy", lstm(6, 64, 256, 256)),
        ("numpy", lstm(8, 1, 256, 256)),
        ("cpu", lstm(32, 8, 64, 128)),
    ]
    with pytest.MonkeyPatch.context() as patch:  # more threads than cores: who is done waits for the others, and may be interrupted there
        for module in ("recurrent.layer", "normalization.common"):
            patch.setattr(f"dmlpy.devices.numpy.{module}.available_threads", lambda: 2 * (os.cpu_count() or 1))
        return [(where, dml.compile(desc, where)) for where, desc in found]


def random_inputs(rng: np.random.Generator, operator: Any) -> Arrays:
    described = operator.desc.tensors()
    return {
        field.name: rng.standard_normal(described[field.name].sizes, dtype=np.float32) * np.float32(0.1)
        for field in operator.desc.inputs()
        if field.name in described
    }


def outputs_of(operator: Any, given: Arrays) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in operator(**given).as_dict().items()}


def as_promised(where: str, operator: Any, found: dict[str, bytes], expected: dict[str, bytes]) -> bool:
    """Whether results with concurrent threads are those of one thread alone: the same bits, and of BLAS the same sums.

    Some of OpenBLAS's kernels, those for AVX2 among them, sum in another order with another number of threads, and launches beside each
    other lower that number.
    """
    if where != "numpy" or not isinstance(operator.desc, dml.LSTMDesc):
        return found == expected
    described = operator.desc.tensors()
    for name, values in expected.items():
        actual, wanted = (np.frombuffer(data, described[name].data_type.numpy) for data in (found[name], values))
        assert_close(actual, wanted, actual.dtype, terms=512)
    return True


def fuzz_threads(rng: np.random.Generator, seen: Counter[str]) -> None:
    """Eight threads at once, each with separate inputs: the results are those of one thread alone."""
    jobs = [(where, operator, random_inputs(rng, operator)) for where, operator in workloads() for _ in range(3)]
    expected = [outputs_of(*job) for _, *job in jobs]
    order = rng.permutation(len(jobs) * 2) % len(jobs)
    with ThreadPoolExecutor(8) as pool:
        for number, found in zip(order, pool.map(lambda at: outputs_of(*jobs[at][1:]), order), strict=True):
            where, operator, _ = jobs[number]
            if not as_promised(where, operator, found, expected[number]):
                raise BrokenPromiseError(f"{operator.name}: other bits beside other threads")
            seen["calls beside other threads"] += 1


class Interrupter:
    """A thread that sends this process SIGINT once, some time after it was asked to."""

    def __init__(self) -> None:
        self._delays: SimpleQueue[float] = SimpleQueue()
        self.ask = self._delays.put
        threading.Thread(target=self._serve, name="interrupts", daemon=True).start()

    def _serve(self) -> None:
        while True:
            time.sleep(self._delays.get())
            os.kill(os.getpid(), signal.SIGINT)


@cache
def interrupter() -> Interrupter:
    return Interrupter()


def fuzz_interrupts(rng: np.random.Generator, seen: Counter[str]) -> None:
    """An interrupt in the middle of launches: all memory goes as soon as it is raised, so that a thread that works on is killed."""
    where, operator = workloads()[int(rng.integers(len(workloads())))]
    inputs = random_inputs(rng, operator)
    expected = outputs_of(operator, inputs)
    described = operator.desc.tensors()
    placed = {name: Placed(rng, desc) for name, desc in described.items()}
    scratch_size = operator.binding_properties.temporary_resource_size
    scratch = Guarded(scratch_size, 64, at_end=False, fill=0)
    for name, values in inputs.items():
        placed[name].elements[...] = values
    buffers = {name: item.buffer for name, item in placed.items()}
    dispatch = operator.bind(
        {name: buffer for name, buffer in buffers.items() if name in inputs},
        {name: buffer for name, buffer in buffers.items() if name not in inputs},
        dml.Buffer(scratch.pointer, scratch_size),
    )
    launches, start = 0, time.monotonic()
    dispatch()
    longest = 2.5 * (time.monotonic() - start)
    try:
        interrupter().ask(float(rng.random()) * longest)
        deadline = time.monotonic() + LONGEST_WAIT_S
        while time.monotonic() < deadline:
            dispatch()
            launches += 1
        raise BrokenPromiseError("no interrupt came")
    except KeyboardInterrupt:
        for item in placed.values():
            item.block.free()
        scratch.free()
    seen[f"interrupts on {where}"] += 1
    seen["launches between them"] += launches
    if outputs_of(operator, inputs) != expected:
        raise BrokenPromiseError(f"{operator.name}: other bits after an interrupt")


def fuzz_forks(rng: np.random.Generator, seen: Counter[str]) -> None:
    """Forks while other threads multiply matrices; each child multiplies and launches on all its threads."""
    operators = [operator for _, operator in workloads()]
    given = [random_inputs(rng, operator) for operator in operators]
    over = threading.Event()

    def work(at: int) -> None:
        while not over.is_set():
            operators[at](**given[at])

    others = [threading.Thread(target=work, args=(at % len(operators),), daemon=True) for at in range(4)]
    for other in others:
        other.start()
    factor = rng.standard_normal((600, 600), dtype=np.float32)
    try:
        for _ in range(4):
            time.sleep(float(rng.random()) * 0.02)
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                try:
                    np.matmul(factor, factor)
                    for operator, inputs in zip(operators, given, strict=True):
                        operator(**inputs)
                    os._exit(0)
                finally:
                    os._exit(1)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status:
                raise BrokenPromiseError(f"a forked child ended with status {status}: it hung" if status < 0 else "a forked child failed")
            seen["forks beside launches"] += 1
    finally:
        over.set()
        for other in others:
            other.join()


FUZZERS: dict[str, Callable[[np.random.Generator, Counter[str]], None]] = {
    "pages": fuzz_pages,
    "threads": fuzz_threads,
    "interrupts": fuzz_interrupts,
    "forks": fuzz_forks,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the fuzzers that are named, or all of them; the number of promises that were broken, at most 100."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fuzzers", nargs="*", choices=[[], *FUZZERS], help="which; by default all")
    parser.add_argument("--seconds", type=float, help="for each fuzzer, in place of tries")
    parser.add_argument("--tries", type=int, default=20, help="of each fuzzer")
    parser.add_argument("--seed", type=int, default=0, help="of the first try; the next ones count on")
    parser.add_argument("--verbose", action="store_true", help="tell the seed of each try before it: the last one told is what killed this")
    options = parser.parse_args(argv)
    faulthandler.enable()
    warnings.simplefilter("error")  # a launch reports nothing by warnings
    warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    broken = 0
    for name in options.fuzzers or FUZZERS:
        seen: Counter[str] = Counter()
        for number in Tries(options.seconds, options.tries):
            seed = options.seed + number
            if options.verbose:
                print(f"{name} --seed {seed} --tries 1", flush=True)
            faulthandler.dump_traceback_later(LONGEST_WAIT_S, exit=True)
            try:
                FUZZERS[name](np.random.default_rng(seed), seen)
            except Exception as error:
                broken += 1
                print(f"{name} --seed {seed} --tries 1: {type(error).__name__}: {error}", flush=True)
            finally:
                faulthandler.cancel_dump_traceback_later()
        print(f"{name}: {', '.join(f'{count} {what}' for what, count in sorted(seen.items()))}", flush=True)
    return min(broken, 100)


if __name__ == "__main__":
    sys.exit(main())
