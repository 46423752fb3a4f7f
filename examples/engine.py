"""A small inference engine over dmlpy's binding interface: it owns all memory and hands out raw pointers.

    python examples/engine.py [--device numpy|cuda]

A graph of two LSTM layers runs over ragged sequences. Everything that a dispatch touches lies in one arena, taken once:

    input | lengths | states at all steps | last states | persistent: packed weights | temporary: tensors between nodes, scratch

The engine compiles the graph, uploads the weights, has them packed and frees the upload's memory while it loads; after that a run is one
call. On a GPU dmlpy has captured the whole graph in a CUDA graph, so that call is one launch. The results are compared with a plain loop in
float64.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
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
        """The address of new memory that lives until it is freed."""

    def free(self, pointer: int) -> None:
        """Frees memory when all work on the stream is done."""

    def write(self, pointer: int, values: Array) -> None: ...
    def read(self, pointer: int, values: Array) -> None:
        """Fills `values` from memory, after all work on the stream."""


class Host:
    """Host memory, for the NumPy device."""

    stream = None

    def __init__(self) -> None:
        self._blocks: dict[int, Any] = {}

    def allocate(self, size: int) -> int:
        block = (ctypes.c_ubyte * size)()
        self._blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def free(self, pointer: int) -> None:
        ctypes.memset(pointer, 0xFF, ctypes.sizeof(self._blocks[pointer]))  # so that whoever still reads it is found out
        del self._blocks[pointer]

    def write(self, pointer: int, values: Array) -> None:
        ctypes.memmove(pointer, values.ctypes.data, values.nbytes)

    def read(self, pointer: int, values: Array) -> None:
        ctypes.memmove(values.ctypes.data, pointer, values.nbytes)


class Gpu:
    """GPU memory and a separate stream, through CuPy. dmlpy takes pointers from anywhere: the driver's API would do as well."""

    def __init__(self, ordinal: int) -> None:
        import cupy

        self._cupy = cupy
        cupy.cuda.Device(ordinal).use()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._blocks: dict[int, Any] = {}

    def allocate(self, size: int) -> int:
        block = self._cupy.cuda.alloc(size)
        self._blocks[int(block.ptr)] = block
        return int(block.ptr)

    def free(self, pointer: int) -> None:
        self.stream.synchronize()
        del self._blocks[pointer]

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


def tensor(*sizes: int, **members: Any) -> dml.TensorDesc:
    """A desc of packed float32, if the members do not say otherwise."""
    return dml.TensorDesc(**{"data_type": "FLOAT32", "sizes": sizes} | members)


def weight_sizes(input_size: int) -> dict[str, tuple[int, ...]]:
    """The sizes of a layer's constants, by field name."""
    return {
        "weight_tensor": (1, 1, 4 * HIDDEN, input_size),
        "recurrence_tensor": (1, 1, 4 * HIDDEN, HIDDEN),
        "bias_tensor": (1, 1, 1, 8 * HIDDEN),
    }


def network() -> dml.Graph:
    """Two forward LSTM layers with bias. No array exists yet: graphs are about sizes."""
    g = dml.GraphBuilder("two layers")
    x = g.input("input", tensor(1, STEPS, BATCH, FEATURES))
    lengths = g.input("lengths", tensor(1, 1, 1, BATCH, data_type="UINT32"))
    for layer, outputs in enumerate((["output_sequence_tensor"], ["output_sequence_tensor", "output_single_tensor"])):
        weights = {}
        for name, sizes in weight_sizes(x.tensor.sizes[3]).items():
            owned = g.input(f"{name} {layer}", tensor(*sizes, flags="OWNED_BY_DML"))
            # LSTM takes no owned tensors, so DirectML's users put a copy behind them. dmlpy packs the weights from the owned input.
            weights[name] = g.add(dml.ElementWiseIdentityDesc, input_tensor=owned, output_tensor=tensor(*sizes))
        results = g.add(
            dml.LSTMDesc,
            f"layer {layer}",
            outputs=outputs,
            input_tensor=x,
            sequence_lengths_tensor=lengths,
            activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
            direction="FORWARD",
            **weights,
        )
        sequence, last = results if len(outputs) == 2 else (results, None)
        # The output [T, 1, B, H] is, byte for byte, the next input [1, T, B, H].
        x = sequence.viewed(tensor(1, STEPS, BATCH, HIDDEN))
    g.output("states", sequence)
    g.output("last", last)
    return g.build()


class Engine:
    """The network, loaded once and run many times.

    Args:
        device: as for `dmlpy.compile`.
        machine: memory and stream of that device.
        constants: weight, recurrence and bias of each layer, by field name.
    """

    def __init__(self, device: dml.Device | str, machine: Machine, constants: list[dict[str, Array]]) -> None:
        self.machine = machine
        graph = dml.compile(network(), device)

        # GetBindingProperties. The temporary resource holds the tensors between the layers and their scratch; what is not needed at the
        # same time shares memory.
        properties = graph.binding_properties
        tensors = {**graph.inputs, **graph.outputs}
        sizes = {name: desc.size_in_bytes for name, desc in tensors.items() if name not in graph.prepared_inputs}
        sizes |= {"persistent": properties.persistent_resource_size, "temporary": properties.temporary_resource_size}
        arena = Arena(machine, sum(size + 255 for size in sizes.values()))
        places = {name: arena.take(size) for name, size in sizes.items()}
        self.input, self.lengths, self.states, self.last = (places[name] for name in ("input", "lengths", "states", "last"))

        # The initializer's work: weights are packed into the persistent memory, in the layout that the kernels read. The memory that they
        # were uploaded to is free afterwards: the prepared graph refers to no owned input.
        uploaded = {f"{name} {layer}": array for layer, arrays in enumerate(constants) for name, array in arrays.items()}
        staging = {name: dml.Buffer(machine.allocate(array.nbytes), array.nbytes) for name, array in uploaded.items()}
        for name, array in uploaded.items():
            machine.write(staging[name].pointer, array)
        prepared = graph.prepare(staging, persistent=places["persistent"], stream=machine.stream)
        for buffer in staging.values():
            machine.free(buffer.pointer)

        # CreateBindingTable, BindInputs, BindOutputs, BindTemporaryResource, BindPersistentResource: all in one call, and all checks
        # happen here. On a GPU the graph is recorded here too.
        self._dispatch = prepared.bind(
            {"input": self.input, "lengths": self.lengths},
            {"states": self.states, "last": self.last},
            temporary=places["temporary"],
        )

    def run(self, x: Array, lengths: Array) -> tuple[Array, Array]:
        """Layer 2's states at all steps, [T, 1, B, H], and each sequence's last one, [1, 1, B, H].

        Args:
            x: [1, T, B, I], float32.
            lengths: steps of each sequence, [1, 1, 1, B], uint32.
        """
        self.machine.write(self.input.pointer, x)
        self.machine.write(self.lengths.pointer, lengths)
        self._dispatch(self.machine.stream)
        sequence, last = np.empty((STEPS, 1, BATCH, HIDDEN), np.float32), np.empty((1, 1, BATCH, HIDDEN), np.float32)
        self.machine.read(self.states.pointer, sequence)
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
        {name: (rng.standard_normal(sizes) / np.sqrt(HIDDEN)).astype(np.float32) for name, sizes in weight_sizes(size).items()}
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
    parser.add_argument("--device", help="cpu, numpy, cuda, cuda:1; left out: a GPU if one answers, else cpu")
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
