"""The plan of a recurrent layer on the Numba device: packed constants, memory layout, and the parameters of each walk."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.arrays import array_at
from dmlpy.description.enums import RecurrentDirection
from dmlpy.devices.cpu.kernels import Kernel
from dmlpy.devices.cpu.registers import FLOAT_BYTES, host_registers
from dmlpy.devices.cpu.team import team
from dmlpy.devices.cpu.walk_parameters import NUMBERS, PARAMETERS, STATES
from dmlpy.devices.plan import Launch, Layout, Plan, Pointers
from dmlpy.devices.threads import available_threads
from dmlpy.operators.activation import ActivationDesc, ActivationReluDesc, ActivationSigmoidDesc, ActivationTanhDesc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.kernels import Function
    from dmlpy.operators.recurrent.layer import RecurrentDesc

FUNCTIONS: dict[type[ActivationDesc], str] = {ActivationSigmoidDesc: "sigmoid", ActivationTanhDesc: "tanh", ActivationReluDesc: "relu"}
"""The activations that walks are compiled with."""

WALK = Kernel("dmlpy.devices.cpu.walk:walk_of", 5)
"""The walk of a cell: its kind, whether it resets first, its activations' names, and the registers."""

_ALIGNMENT = 64
_CHUNK_ROWS = 128
"""Rows of the input that share a product: enough that the weights are read from memory seldom, few enough to stay in a core's cache."""
_SHARE = 1 << 15
"""Multiplications of a step's recurrent product that make a thread worth its meetings with the others. Two threads have twice as many: an
LSTM of 128 units and one sample, whose weights are 256 KB. Below, two were seen to gain nothing or to lose."""

Array = np.ndarray[Any, np.dtype[Any]]
Copy = tuple[Array, Array | float]
"""The target and the source of a copy."""


@dataclass(frozen=True)
class _Span:
    """The steps of one call of a walk, and the copies around it."""

    before: Sequence[Copy]
    parameters: Array
    address: int
    """That of the parameters."""
    meetings: int
    after: Sequence[Copy]


def _copy(copies: Sequence[Copy]) -> None:
    for target, source in copies:
        target[...] = source


class RecurrentPlan(Plan):
    """RNN, LSTM or GRU by a compiled walk. Arithmetic and states are float32.

    Args:
        desc: a checked desc whose activations are all in `FUNCTIONS`.
    """

    def __init__(self, desc: RecurrentDesc) -> None:
        self._desc, self._sizes, self._cell, self._tensors = desc, desc.geometry, desc.cell, desc.tensors()
        sizes, self._registers = self._sizes, host_registers()
        self._blocks = -(-sizes.hidden_size // self._registers.lanes)
        multiplications = sizes.gates * sizes.hidden_size * sizes.hidden_size * sizes.batch_size
        self._threads = max(1, min(available_threads(), self._blocks, multiplications // _SHARE))
        self._chunk = min(max(1, _CHUNK_ROWS // sizes.batch_size), sizes.seq_length)
        output = self._tensors.get("output_sequence_tensor")
        self._input_row = self._row_of_input(self._tensors["input_tensor"])
        self._writes_output_directly = output is None or self._has_rows(output)
        self._packed = Layout(self._packed_arrays(), _ALIGNMENT)
        self._scratch = Layout(self._scratch_arrays(), _ALIGNMENT)
        self.constants = desc.constant_inputs()
        self.persistent_size = self._packed.size
        self.prepared_temporary_size = self._scratch.size
        self.temporary_size = self.persistent_size + self.prepared_temporary_size

    def load(self) -> None:
        _ = self._walks

    def describe(self) -> str:
        lanes, most = self._registers.lanes, self._registers.columns(self._sizes.gates)
        reading = "in place" if self._input_row is not None else "copied to float32 a chunk at a time"
        writing = "in place" if self._writes_output_directly else "copied from float32 a chunk at a time"
        return "\n".join(
            [
                f"Numba, float32 arithmetic; {self._sizes.num_directions} direction(s), one after the other; {self._threads} thread(s)",
                f"input product: {self._chunk} of {self._sizes.seq_length} steps at a time, input {reading}, output {writing}",
                f"step: blocks of {lanes} units, {self._sizes.gates} gate(s) of up to {most} samples in registers, {self._blocks} block(s)",
            ]
        )

    def pack(self, constants: Pointers, persistent: int) -> Launch:
        copies, sums = self._packing(self._views(constants), self._packed.arrays_at(persistent))

        computes = bool(sums) or any(isinstance(source, np.ndarray) and source.dtype != np.float32 for _, source in copies)

        def launch(stream: int) -> None:
            with np.errstate(all="ignore") if computes else nullcontext():  # infinite biases of opposite signs, or NaN
                _copy(copies)
                for target, first, second in sums:
                    np.add(first, second, target, casting="unsafe", dtype=np.float32)

        return launch

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        arrays = self._views(tensors)
        pack: Launch | None = None
        if persistent is None:
            pack = self.pack({name: tensors[name] for name in self.constants}, temporary)
            persistent, temporary = temporary, temporary + self.persistent_size
        packed, scratch = self._packed.arrays_at(persistent), self._scratch.arrays_at(temporary)
        directions = [(walk, *self._direction(index, arrays, packed, scratch)) for index, walk in enumerate(self._walks)]
        threads, converts = self._threads, self._tensors["input_tensor"].data_type.numpy != np.float32

        def launch(stream: int) -> None:
            with np.errstate(all="ignore") if converts else nullcontext():  # FLOAT16 results may overflow
                if pack is not None:
                    pack(stream)
                run = team().run
                for walk, begin, spans, end in directions:
                    _copy(begin)
                    for span in spans:
                        _copy(span.before)
                        run(walk, span.address, threads, span.meetings, span)
                        _copy(span.after)
                    _copy(end)

        return launch

    # layout

    def _views(self, pointers: Pointers) -> dict[str, Array]:
        descs = {name: self._tensors[name] for name in pointers}
        return {name: array_at(pointers[name], desc.sizes, desc.data_type.numpy, desc.element_strides) for name, desc in descs.items()}

    def _has_rows(self, tensor: TensorDesc) -> bool:
        """Returns whether the last dimension is contiguous float32."""
        return tensor.data_type.numpy == np.float32 and (tensor.element_strides[-1] == 1 or tensor.sizes[-1] == 1)

    def _row_of_input(self, tensor: TensorDesc) -> int | None:
        """The bytes from one sample's row to the next, over all steps, if they are a constant."""
        _, step, row, _ = tensor.element_strides
        batch, steps = self._sizes.batch_size, self._sizes.seq_length
        if batch == 1:
            row = step
        regular = self._has_rows(tensor) and (batch == 1 or steps == 1 or step == batch * row)
        return FLOAT_BYTES * row if regular else None

    @cached_property
    def _walks(self) -> list[Function]:
        """The compiled walk of each direction."""
        return [self._walk_of(direction) for direction in range(self._sizes.num_directions)]

    def _walk_of(self, direction: int) -> Function:
        functions = tuple(FUNCTIONS[type(activation)] for activation in self._desc.activations_of(direction))
        return WALK(self._cell.kind, self._cell.resets_first, functions, self._registers)

    def _packed_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, resets_first = self._sizes, self._cell.resets_first
        rows = {
            "weights": (sizes.input_size, sizes.gates),
            "recurrence": (sizes.hidden_size, sizes.gates - resets_first),
            "bias": (1, sizes.gates),
        }
        if resets_first:
            rows["candidate"] = (sizes.hidden_size, 1)
        if self._cell.resets_last:
            rows["hidden_bias"] = (1, sizes.gates)
        if self._cell.peephole:
            rows["peephole"] = (1, 3)
        leading, lanes, single = (sizes.num_directions, self._blocks), self._registers.lanes, np.dtype(np.float32)
        return [(name, (*leading, terms, gates, lanes), single) for name, (terms, gates) in rows.items()]

    def _scratch_arrays(self) -> list[tuple[str, Sequence[int], np.dtype[Any]]]:
        sizes, registers = self._sizes, self._registers
        batch, units = sizes.batch_size, self._blocks * registers.lanes
        # The products of fewer gates, before a reset, may take more samples at a time.
        columns = max(registers.columns(gates) for gates in range(1, sizes.gates + 1))
        shapes: dict[str, tuple[int, ...]] = {
            "state": (STATES, batch, units),
            "parts": (self._blocks, self._chunk * batch, sizes.gates, registers.lanes),
            "sums": (self._threads, columns, sizes.gates, registers.lanes),
        }
        if self._cell.has_memory:
            shapes["memory"] = (batch, units)
        if self._cell.resets_first:
            shapes["update"] = shapes["reset"] = (batch, units)
        if self._input_row is None:
            shapes["input"] = (self._chunk, batch, sizes.input_size)
        if not self._writes_output_directly:
            shapes["output"] = (self._chunk, batch, sizes.hidden_size)
        found: list[tuple[str, Sequence[int], np.dtype[Any]]] = [(name, shape, np.dtype(np.float32)) for name, shape in shapes.items()]
        if "sequence_lengths_tensor" in self._tensors:
            found.append(("lengths", (batch,), np.dtype(np.int64)))
        return found

    # constants

    def _packing(self, arrays: Mapping[str, Array], packed: Mapping[str, Array]) -> tuple[list[Copy], list[tuple[Array, Array, Array]]]:
        """The copies, and the sums of two, that arrange constants [D, gates, H, terms] in blocks of units."""
        sizes, lanes = self._sizes, self._registers.lanes
        copies: list[Copy] = []
        sums: list[tuple[Array, Array, Array]] = []

        def pieces(name: str, gates: slice, *sources: Array) -> list[tuple[Array, ...]]:
            """Yields equal parts of a packed array's gates and of [D, gates, H, terms] sources: whole blocks, then the remaining units."""
            target = packed[name].transpose(0, 3, 1, 4, 2)[:, gates]  # [D, gates, blocks, lanes, terms]
            whole, left = divmod(sizes.hidden_size, lanes)
            full = [source[:, :, : whole * lanes].reshape(*source.shape[:2], whole, lanes, source.shape[3]) for source in sources]
            found: list[tuple[Array, ...]] = [(target[:, :, :whole], *full)]
            if left:
                found.append((target[:, :, whole, :left], *(source[:, :, whole * lanes :] for source in sources)))
            return found

        def put(name: str, source: Array, gates: slice = slice(None)) -> None:
            copies.extend((target, piece) for target, piece in pieces(name, gates, source))

        copies += [(array, 0.0) for name, array in packed.items() if sizes.hidden_size % lanes or "bias" in name]
        by_gate = (sizes.num_directions, sizes.gates, sizes.hidden_size, -1)
        put("weights", arrays["weight_tensor"][0].reshape(by_gate))
        recurrence = arrays["recurrence_tensor"][0].reshape(by_gate)
        put("recurrence", recurrence[:, : sizes.gates - self._cell.resets_first])
        if self._cell.resets_first:
            put("candidate", recurrence[:, -1:])
        if "bias_tensor" in arrays:
            bias = arrays["bias_tensor"][0, 0].reshape(sizes.num_directions, 2, sizes.gates, sizes.hidden_size, 1)
            own = sizes.gates - self._cell.resets_last  # gates whose two biases are one sum
            sums.extend((a, b, c) for a, b, c in pieces("bias", slice(own), bias[:, 0, :own], bias[:, 1, :own]))
            if self._cell.resets_last:
                put("bias", bias[:, 0, own:], slice(own, None))
                put("hidden_bias", bias[:, 1, own:], slice(own, None))
        if self._cell.peephole:
            put("peephole", arrays["peephole_tensor"][0, 0].reshape(sizes.num_directions, 3, sizes.hidden_size, 1))
        return copies, sums

    # walks

    def _direction(
        self, direction: int, arrays: Mapping[str, Array], packed: Mapping[str, Array], scratch: Mapping[str, Array]
    ) -> tuple[list[Copy], list[_Span], list[Copy]]:
        """The work before a direction's walk, its spans, and the work after it."""
        sizes = self._sizes
        steps, hidden = sizes.seq_length, sizes.hidden_size
        backward = direction == 1 or self._desc.direction is RecurrentDirection.BACKWARD
        states = {"hidden_init_tensor": scratch["state"][0]}
        finals = {"output_single_tensor": scratch["state"][steps % STATES]}
        if self._cell.has_memory:
            states["cell_mem_init_tensor"] = finals["output_cell_single_tensor"] = scratch["memory"]
        begin: list[Copy] = []
        for name, state in states.items():
            begin.append((state[:, :hidden], arrays[name][0, direction] if name in arrays else 0.0))
        if "lengths" in scratch:
            begin.append((scratch["lengths"], arrays["sequence_lengths_tensor"].reshape(-1)))
        end: list[Copy] = [(arrays[name][0, direction], state[:, :hidden]) for name, state in finals.items() if name in arrays]
        x = arrays["input_tensor"][0]
        y = arrays["output_sequence_tensor"][:, direction] if "output_sequence_tensor" in arrays else None
        staged = self._input_row is None or not self._writes_output_directly
        spans: list[_Span] = []
        for start in range(0, steps, self._chunk if staged else steps):
            count = min(self._chunk, steps - start) if staged else steps
            low = steps - start - count if backward else start
            before: list[Copy] = []
            after: list[Copy] = []
            rows, results = x[low : low + count], None if y is None else y[low : low + count]
            if self._input_row is None:
                before.append((scratch["input"][:count], rows))
                rows = scratch["input"]
            if results is not None and not self._writes_output_directly:
                after.append((results, scratch["output"][:count]))
                results = scratch["output"]
            parameters = self._parameters(direction, packed, scratch, rows, results)
            parameters["steps"], parameters["time"], parameters["turn"], parameters["backward"] = count, low, start % STATES, backward
            spans.append(_Span(before, parameters, parameters.ctypes.data, NUMBERS * count + 2, after))
        return begin, spans, end

    def _parameters(
        self, direction: int, packed: Mapping[str, Array], scratch: Mapping[str, Array], rows: Array, results: Array | None
    ) -> Array:
        """The parameters that do not depend on time: sizes, options, addresses."""
        sizes = self._sizes
        values: dict[str, Any] = {
            "batch": sizes.batch_size,
            "inputs": sizes.input_size,
            "hidden": sizes.hidden_size,
            "blocks": self._blocks,
            "chunk": self._chunk,
            "input": rows.ctypes.data,
            "input_row": sizes.input_size * FLOAT_BYTES if self._input_row is None else self._input_row,
            "couple": self._cell.couple_input_forget,
            "clip": self._cell.clip or 0.0,
            "state_size": scratch["state"].strides[0],
            "state_row": scratch["state"].strides[1],
            "sums_size": scratch["sums"].strides[0],
        }
        values |= {name: array[direction].ctypes.data for name, array in packed.items()}
        values |= {name: array.ctypes.data for name, array in scratch.items() if name not in ("input", "output")}
        if results is not None:
            values |= {"output": results.ctypes.data, "output_step": results.strides[0], "output_row": results.strides[1]}
        parameters = np.zeros(1, PARAMETERS)
        for name, value in values.items():
            parameters[name] = value
        return parameters
