"""A small inference engine over dmlpy's binding interface: it owns all memory and hands out raw pointers.

    python examples/engine.py [--device numpy|cuda]

Two LSTM layers run over ragged sequences. Everything that a dispatch touches lies in one arena, taken once:

    input | lengths | sequence of layer 1 | sequence of layer 2 | last states | packed constants | scratch

The engine compiles and packs while it loads; after that a run is two calls that launch and do nothing else. On a GPU they go to a
stream of the engine and are captured once in a CUDA graph. The results are compared with a plain loop in float64.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import dmlpy as dml

Array = np.ndarray[Any, np.dtype[Any]]

STEPS, BATCH, FEATURES, HIDDEN = 24, 6, 40, 64
"""T, B and I of the first layer, and H of both: the second layer's I is the first one's H."""


class Machine(Protocol):
    """What the engine needs of the place where it runs. Pointers are plain integers."""

    stream: Any
    """Where work is ordered; None where there is only one order."""

    def allocate(self, size: int) -> int:
        """The address of new memory that lives as long as this object."""

    def write(self, pointer: int, values: Array) -> None: ...
    def read(self, pointer: int, values: Array) -> None:
        """Fills `values` from memory, after all work on the stream."""

    def record(self, issue: Callable[[Any], None]) -> Callable[[], None]:
        """The cheapest form in which the launches that `issue` makes on a stream can be repeated."""


class Host:
    """Host memory, for the NumPy device."""

    stream = None

    def __init__(self) -> None:
        self._blocks: list[Any] = []

    def allocate(self, size: int) -> int:
        self._blocks.append((ctypes.c_ubyte * size)())
        return ctypes.addressof(self._blocks[-1])

    def write(self, pointer: int, values: Array) -> None:
        ctypes.memmove(pointer, values.ctypes.data, values.nbytes)

    def read(self, pointer: int, values: Array) -> None:
        ctypes.memmove(values.ctypes.data, pointer, values.nbytes)

    def record(self, issue: Callable[[Any], None]) -> Callable[[], None]:
        return lambda: issue(None)


class Gpu:
    """GPU memory and a separate stream, through CuPy. dmlpy takes pointers from anywhere: the driver's API would do as well."""

    def __init__(self, ordinal: int) -> None:
        import cupy

        self._cupy = cupy
        cupy.cuda.Device(ordinal).use()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._blocks: list[Any] = []

    def allocate(self, size: int) -> int:
        self._blocks.append(self._cupy.cuda.alloc(size))
        return int(self._blocks[-1].ptr)

    def write(self, pointer: int, values: Array) -> None:
        self._cupy.cuda.runtime.memcpyAsync(
            pointer, values.ctypes.data, values.nbytes, self._cupy.cuda.runtime.memcpyHostToDevice, self.stream.ptr
        )
        self.stream.synchronize()  # the host's values may be gone after the return

    def read(self, pointer: int, values: Array) -> None:
        self._cupy.cuda.runtime.memcpyAsync(
            values.ctypes.data, pointer, values.nbytes, self._cupy.cuda.runtime.memcpyDeviceToHost, self.stream.ptr
        )
        self.stream.synchronize()

    def record(self, issue: Callable[[Any], None]) -> Callable[[], None]:
        self.stream.begin_capture()
        issue(self.stream)
        graph = self.stream.end_capture()
        return lambda: graph.launch(self.stream)


class Arena:
    """One block of memory, given out from front to back."""

    def __init__(self, machine: Machine, size: int) -> None:
        self._next = machine.allocate(size)
        self._end = self._next + size

    def take(self, size: int, alignment: int = 256) -> dml.Buffer:
        """The next piece. 256 bytes is what DirectML asks for; dmlpy needs 16 for scratch and constants, an element for tensors."""
        start = -(-self._next // alignment) * alignment
        if start + size > self._end:
            raise MemoryError(f"the arena has {self._end - start} bytes left, {size} were asked for")
        self._next = start + size
        return dml.Buffer(start, size)


def layer_desc(input_size: int) -> dml.LSTMDesc:
    """A forward LSTM layer with bias. No array exists yet: descs are about sizes."""

    def tensor(*sizes: int, data_type: str = "FLOAT32") -> dml.TensorDesc:
        return dml.TensorDesc(data_type=data_type, sizes=sizes)

    return dml.LSTMDesc(
        input_tensor=tensor(1, STEPS, BATCH, input_size),
        weight_tensor=tensor(1, 1, 4 * HIDDEN, input_size),
        recurrence_tensor=tensor(1, 1, 4 * HIDDEN, HIDDEN),
        bias_tensor=tensor(1, 1, 1, 8 * HIDDEN),
        sequence_lengths_tensor=tensor(1, 1, 1, BATCH, data_type="UINT32"),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
    ).with_outputs("output_sequence_tensor", "output_single_tensor")


class Engine:
    """Two layers, loaded once and run many times.

    Args:
        device: as for `dmlpy.compile`.
        machine: memory and stream of that device.
        constants: weight, recurrence and bias of each layer, by field name.
    """

    def __init__(self, device: dml.Device | str, machine: Machine, constants: list[dict[str, Array]]) -> None:
        self.machine = machine
        # CreateOperator and CompileOperator. Equal descs share one compiled operator, whichever thread asks.
        descs = [layer_desc(FEATURES), layer_desc(HIDDEN)]
        operators = [dml.compile(desc, device) for desc in descs]

        # GetBindingProperties. The scratch is needed only while a layer runs, and the layers run one after the other: they share it.
        scratch_size = max(operator.binding_properties.temporary_resource_size for operator in operators)
        sizes = [
            descs[0].tensors()["input_tensor"].size_in_bytes,
            descs[0].tensors()["sequence_lengths_tensor"].size_in_bytes,
            *(descs[layer].tensors()["output_sequence_tensor"].size_in_bytes for layer in (0, 1)),
            *(descs[layer].tensors()["output_single_tensor"].size_in_bytes for layer in (0, 1)),
            *(operator.binding_properties.persistent_resource_size for operator in operators),
            scratch_size,
        ]
        arena = Arena(machine, sum(size + 255 for size in sizes))
        self.input, self.lengths, first, self.output, *rest = (arena.take(size) for size in sizes)
        singles, persistent, scratch = rest[0:2], rest[2:4], rest[4]

        # The initializer's work: weights are packed into the persistent memory, in the layout that the kernels read. Their memory
        # could be freed as soon as the stream has come past this: prepare() keeps no reference to it.
        for operator, arrays, memory in zip(operators, constants, persistent, strict=True):
            staging: dict[str, Any] = {name: dml.Buffer(machine.allocate(array.nbytes), array.nbytes) for name, array in arrays.items()}
            for name, array in arrays.items():
                machine.write(staging[name].pointer, array)
            operator.prepare(**staging, persistent=memory, stream=machine.stream)

        # CreateBindingTable, BindInputs, BindOutputs, BindTemporaryResource, BindPersistentResource: all in one call, and all checks
        # happen here. The output [T, 1, B, H] of layer 1 is, byte for byte, the input [1, T, B, H] of layer 2: it is not copied.
        layers = [
            operator.bind(
                {"input_tensor": source, "sequence_lengths_tensor": self.lengths},
                {"output_sequence_tensor": target, "output_single_tensor": single},
                temporary=scratch,
                persistent=memory,
            )
            for operator, source, target, single, memory in zip(
                operators, (self.input, first), (first, self.output), singles, persistent, strict=True
            )
        ]
        self.last = singles[1]

        def issue(stream: Any) -> None:
            """RecordDispatch, twice. Launches on one stream run in order, so no barrier stands between the layers."""
            for dispatch in layers:
                dispatch(stream)

        issue(machine.stream)  # whatever is done once only, is done before it is recorded
        self._replay = machine.record(issue)

    def run(self, x: Array, lengths: Array) -> tuple[Array, Array]:
        """Layer 2's states at all steps, [T, 1, B, H], and each sequence's last one, [1, 1, B, H].

        Args:
            x: [1, T, B, I], float32.
            lengths: steps of each sequence, [1, 1, 1, B], uint32.
        """
        self.machine.write(self.input.pointer, x)
        self.machine.write(self.lengths.pointer, lengths)
        self._replay()
        sequence, last = np.empty((STEPS, 1, BATCH, HIDDEN), np.float32), np.empty((1, 1, BATCH, HIDDEN), np.float32)
        self.machine.read(self.output.pointer, sequence)
        self.machine.read(self.last.pointer, last)
        return sequence, last


def plain_layer(x: Array, length: int, constants: dict[str, Array]) -> Array:
    """One sequence [T, I] through one LSTM layer, a step at a time in float64; rows past the length are zero."""
    weight, recurrence = (constants[name][0, 0].astype(np.float64) for name in ("weight_tensor", "recurrence_tensor"))
    bias = constants["bias_tensor"].astype(np.float64).reshape(2, 4 * HIDDEN).sum(axis=0)
    h, c = np.zeros(HIDDEN), np.zeros(HIDDEN)
    states = np.zeros((STEPS, HIDDEN))
    for t in range(length):
        i, o, f, g = np.split(weight @ x[t] + recurrence @ h + bias, 4)  # DirectML's order: input, output, forget, cell
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        states[t] = h
    return states


def plain(x: Array, lengths: Array, constants: list[dict[str, Array]]) -> tuple[Array, Array]:
    """What `Engine.run` returns, computed plainly."""
    sequence = np.zeros((STEPS, 1, BATCH, HIDDEN))
    last = np.zeros((1, 1, BATCH, HIDDEN))
    for b, length in enumerate(lengths.reshape(-1)):
        first = plain_layer(x[0, :, b].astype(np.float64), length, constants[0])
        sequence[:, 0, b] = plain_layer(first, length, constants[1])
        if length:
            last[0, 0, b] = sequence[length - 1, 0, b]
    return sequence, last


def random_constants(rng: np.random.Generator) -> list[dict[str, Array]]:
    """Weights of both layers; small enough that the gates are not saturated."""
    return [
        {
            name: (rng.standard_normal(desc.sizes) / np.sqrt(HIDDEN)).astype(np.float32)
            for name, desc in layer_desc(size).tensors().items()
            if name in ("weight_tensor", "recurrence_tensor", "bias_tensor")
        }
        for size in (FEATURES, HIDDEN)
    ]


def demonstrate(device: dml.Device | str, machine: Machine, runs: int = 5) -> float:
    """Runs fresh random sequences through one engine; the largest error against the plain loop."""
    rng = np.random.default_rng(0)
    constants = random_constants(rng)
    engine = Engine(device, machine, constants)
    worst = 0.0
    for _ in range(runs):
        x = rng.standard_normal((1, STEPS, BATCH, FEATURES), np.float32)
        lengths = rng.integers(0, STEPS, (1, 1, 1, BATCH), np.uint32, endpoint=True)
        for found, expected in zip(engine.run(x, lengths), plain(x, lengths, constants), strict=True):
            worst = max(worst, float(np.abs(found - expected).max()))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description="Drives dmlpy's binding interface with raw pointers.")
    parser.add_argument("--device", help="numpy, cuda, cuda:1; left out: a GPU if one answers, else NumPy")
    arguments = parser.parse_args()
    try:
        device = dml.device(arguments.device)
    except dml.DeviceError as error:
        print(f"engine: {error}", file=sys.stderr)
        return 1
    machine = Host() if device.memory_kind == "cpu" else Gpu(int(device.name.partition(":")[2]))
    runs = 5
    worst = demonstrate(device, machine, runs)
    print(f"{device.name}: {runs} runs of two LSTM layers, largest error against a plain float64 loop {worst:.1e}")
    return 0 if worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
