"""Recurrent layers over guarded memory: random tensors in any layout, one launch, and the comparison with what it must give."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dmlpy.description.tensors import TensorDesc, packed_strides
from dmlpy.devices.plan import Plan
from dmlpy.operators import activation as activations
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.layer import GRUDesc, LSTMDesc, RecurrentDesc, RNNDesc
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]
Layout = Literal["packed", "padded", "permuted", "broadcast"]

CELLS: dict[str, type[RecurrentDesc]] = {"RNN": RNNDesc, "LSTM": LSTMDesc, "GRU": GRUDesc}
TANH, SIGMOID = activations.ActivationTanhDesc(), activations.ActivationSigmoidDesc()
USUAL: dict[str, tuple[ActivationDesc, ...]] = {"RNN": (TANH,), "LSTM": (SIGMOID, TANH, TANH), "GRU": (SIGMOID, TANH)}
EVERY_ACTIVATION: tuple[ActivationDesc, ...] = (
    activations.ActivationIdentityDesc(),
    activations.ActivationLinearDesc(alpha=0.7, beta=0.1),
    activations.ActivationReluDesc(),
    activations.ActivationLeakyReluDesc(alpha=0.2),
    activations.ActivationThresholdedReluDesc(alpha=0.3),
    activations.ActivationEluDesc(alpha=0.8),
    activations.ActivationCeluDesc(alpha=0.6),
    activations.ActivationScaledEluDesc(alpha=1.2, gamma=0.7),
    activations.ActivationSigmoidDesc(),
    activations.ActivationHardSigmoidDesc(alpha=0.3, beta=0.4),
    activations.ActivationTanhDesc(),
    activations.ActivationScaledTanhDesc(alpha=0.9, beta=0.7),
    activations.ActivationSoftsignDesc(),
    activations.ActivationSoftplusDesc(steepness=1.5),
    activations.ActivationParametricSoftplusDesc(alpha=0.5, beta=0.8),
    activations.ActivationGeluDesc(),
    activations.ActivationShrinkDesc(bias=0.1, threshold=0.2),
)
GUARD = 0xA5


@dataclass
class Placed:
    """A tensor in separate memory: the desc, the bytes around and between its elements, and the elements."""

    desc: TensorDesc
    memory: Array
    elements: Array

    @property
    def pointer(self) -> int:
        return int(self.elements.ctypes.data)

    def gaps(self) -> Array:
        """The bytes that belong to no element."""
        own = np.zeros(self.memory.size, np.bool_)
        offset = self.pointer - self.memory.ctypes.data
        strides = (*self.elements.strides, 1)
        np.lib.stride_tricks.as_strided(own[offset:], (*self.elements.shape, self.elements.itemsize), strides)[...] = True
        return self.memory[~own]


def place(values: Array, layout: Layout, rng: np.random.Generator) -> Placed:
    """The values in guarded memory. `broadcast` repeats the first entry of an axis, by a stride of zero."""
    sizes, item = values.shape, values.dtype.itemsize
    order = list(range(len(sizes)))
    strides: list[int] = list(packed_strides(sizes))
    if layout in ("padded", "permuted"):
        if layout == "permuted":
            rng.shuffle(order)
        reach = 1
        for axis in reversed(order):
            strides[axis] = reach + int(rng.integers(0, 3)) * (layout == "padded" or axis != order[-1])
            reach = strides[axis] * sizes[axis]
    elif layout == "broadcast":
        axis = int(rng.choice([axis for axis, size in enumerate(sizes) if size > 1] or [0]))
        values = np.broadcast_to(np.take(values, [0], axis), sizes)
        strides = list(packed_strides([1 if place == axis else size for place, size in enumerate(sizes)]))
        strides[axis] = 0
    desc = TensorDesc(data_type=str(values.dtype).upper(), sizes=sizes, strides=None if layout == "packed" else strides)
    memory = np.full(desc.span * item + 128, GUARD, np.uint8)
    start = -memory.ctypes.data % 64 + item  # aligned to the element and to nothing more
    elements = np.lib.stride_tricks.as_strided(
        memory[start : start + desc.span * item].view(values.dtype), sizes, [s * item for s in strides]
    )
    elements[...] = values
    return Placed(desc, memory, elements)


def sizes_of(cell: str, t: int, b: int, i: int, h: int, d: int) -> dict[str, tuple[int, ...]]:
    g = len(CELLS[cell].gate_names)
    sizes: dict[str, tuple[int, ...]] = {
        "input_tensor": (1, t, b, i),
        "weight_tensor": (1, d, g * h, i),
        "recurrence_tensor": (1, d, g * h, h),
        "bias_tensor": (1, 1, d, 2 * g * h),
        "hidden_init_tensor": (1, d, b, h),
        "sequence_lengths_tensor": (1, 1, 1, b),
        "output_sequence_tensor": (t, d, b, h),
        "output_single_tensor": (1, d, b, h),
    }
    if cell == "LSTM":
        sizes |= {"cell_mem_init_tensor": (1, d, b, h), "peephole_tensor": (1, 1, d, 3 * h), "output_cell_single_tensor": (1, d, b, h)}
    return sizes


OPTIONAL = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor", "peephole_tensor")


@dataclass
class Run:
    """A desc whose tensors lie in memory, and what running it must give; `tf32`: with factors of matrix products in TF32."""

    desc: Any
    inputs: dict[str, Placed]
    outputs: dict[str, Placed]
    tf32: bool = False

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: placed.elements for name, placed in self.inputs.items()}

    @property
    def terms(self) -> int:
        sizes = self.desc.geometry
        return int(sizes.input_size + max(sizes.hidden_size, sizes.state_size))

    def launch(self, plan: Plan, *, prepared: bool = False) -> None:
        """One dispatch with scratch full of NaN, exactly as large as the plan asks for."""
        pointers = {name: placed.pointer for name, placed in (self.inputs | self.outputs).items()}
        if not prepared:
            block, temporary = scratch(plan.temporary_size)
            plan.bind(pointers, temporary, None)(0)
            assert (block[-64:] == GUARD).all()
            return
        packed, persistent = scratch(plan.persistent_size)
        plan.pack({name: pointers.pop(name) for name in plan.constants}, persistent)(0)
        block, temporary = scratch(plan.prepared_temporary_size)
        plan.bind(pointers, temporary, persistent)(0)
        assert (block[-64:] == GUARD).all()
        assert (packed[-64:] == GUARD).all()

    def check(self, expected: Mapping[str, Array], what: str = "", *, least: float = 0.0) -> None:
        for name, placed in self.outputs.items():
            what_of = f"{what}{name}"
            dtype = placed.elements.dtype
            assert_close(placed.elements, expected[name], dtype, terms=self.terms, what=what_of, tf32=self.tf32, least=least)
            assert (placed.gaps() == GUARD).all(), f"{what_of}: written between or beside its elements"


def scratch(size: int) -> tuple[Array, int]:
    """Memory full of NaN with 64 guard bytes behind it, and its address."""
    block = np.full(size + 128, 0xFF, np.uint8)
    start = -block.ctypes.data % 64
    block[start + size :] = GUARD
    return block[: start + size + 64], int(block.ctypes.data) + start


def check_allocations(plan: Any, run: Any, most: int) -> None:
    """Fails if a launch over prepared constants allocates `most` bytes or more, or writes behind what it was given."""
    (packed, persistent), (block, temporary) = scratch(plan.persistent_size), scratch(plan.prepared_temporary_size)
    pointers = {name: placed.pointer for name, placed in (run.inputs | run.outputs).items()}
    plan.pack({name: pointers.pop(name) for name in plan.constants}, persistent)(0)
    launch = plan.bind(pointers, temporary, persistent)
    launch(0)
    tracemalloc.start()
    try:
        launch(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most, f"{peak} bytes"
    assert (packed[-64:] == GUARD).all()
    assert (block[-64:] == GUARD).all()


def build(
    cell: str,
    rng: np.random.Generator,
    *,
    t: int = 4,
    b: int = 3,
    i: int = 3,
    h: int = 4,
    dtype: Any = np.float32,
    direction: str = "FORWARD",
    lengths: list[int] | None = None,
    optional: tuple[str, ...] = OPTIONAL,
    outputs: tuple[str, ...] = ("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor"),
    functions: tuple[ActivationDesc, ...] | None = None,
    layouts: tuple[Layout, ...] = ("packed",),
    **flags: Any,
) -> Run:
    """Random tensors for a cell. Weights are small enough that no activation lets the states grow without bound."""
    directions = 2 if direction == "BIDIRECTIONAL" else 1
    sizes = sizes_of(cell, t, b, i, h, directions)
    scale = {"input_tensor": 1.0, "weight_tensor": 1.0 / i**0.5, "recurrence_tensor": 0.8 / h**0.5}
    inputs: dict[str, Placed] = {}
    for name, shape in sizes.items():
        absent = (name in OPTIONAL and name not in optional) or (name == "sequence_lengths_tensor" and lengths is None)
        if absent or name.startswith("output"):
            continue
        if name == "sequence_lengths_tensor":
            values = np.array(lengths, np.uint32).reshape(shape)
        else:
            values = (rng.uniform(-1.0, 1.0, shape) * scale.get(name, 0.5)).astype(dtype)
        layout: Layout = rng.choice(np.array(layouts))
        inputs[name] = place(values, "packed" if name == "sequence_lengths_tensor" and layout == "broadcast" else layout, rng)
    placed_outputs: dict[str, Placed] = {}
    for name in outputs:
        if name in sizes:
            layout = rng.choice(np.array(layouts))
            placed_outputs[name] = place(np.full(sizes[name], np.nan, dtype), "padded" if layout == "broadcast" else layout, rng)
    desc = CELLS[cell](
        **{name: placed.desc for name, placed in (inputs | placed_outputs).items()},
        activation_descs=functions or USUAL[cell] * directions,
        direction=direction,
        **flags,
    )
    return Run(desc, inputs, placed_outputs)


LENGTHS = {1: [2], 3: [0, 4, 2]}


LSTM_FLAGS = [
    {"optional": optional, "use_clip_threshold": clips, "clip_threshold": 0.15, "couple_input_forget": coupled}
    for optional, clips, coupled in itertools.product([OPTIONAL, OPTIONAL[:3], ()], [False, True], [False, True])
]


GRU_FLAGS = [{"optional": optional, "linear_before_reset": last} for optional, last in itertools.product([OPTIONAL, ()], [False, True])]


FLAGS: dict[str, list[dict[str, Any]]] = {"RNN": [{"optional": OPTIONAL}, {"optional": ()}], "LSTM": LSTM_FLAGS, "GRU": GRU_FLAGS}


def options_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """A row's flags as a desc takes them: a clip has a threshold, and peephole is a tensor and no flag."""
    options = {flag: bool(value) for flag, value in flags.items() if flag != "peephole"}
    return options | ({"clip_threshold": 0.3} if options.get("use_clip_threshold") else {})


def random_order(rng: np.random.Generator, batch: int, longest: int) -> dict[str, Any]:
    """A direction, and now and then ragged lengths from 0 to `longest`."""
    direction = str(rng.choice(["FORWARD", "BACKWARD", "BIDIRECTIONAL"]))
    lengths = [int(length) for length in rng.integers(0, longest + 1, batch)] if rng.random() < 0.6 else None
    return {"direction": direction, "lengths": lengths}


def activations_by_direction(cell: str) -> tuple[ActivationDesc, ...]:
    """Other activations for each direction and role."""
    forward = (
        activations.ActivationHardSigmoidDesc(alpha=0.3, beta=0.4),
        activations.ActivationSoftsignDesc(),
        activations.ActivationEluDesc(),
    )
    backward = (SIGMOID, activations.ActivationScaledTanhDesc(alpha=0.7), TANH)
    count = {"RNN": 1, "GRU": 2, "LSTM": 3}[cell]
    return forward[:count] + backward[:count]


def random_run(rng: np.random.Generator) -> Run:
    cell = str(rng.choice(list(CELLS)))
    t, b = int(rng.choice([1, 2, 3, 6, 9])), int(rng.choice([1, 1, 2, 3, 8]))
    direction = str(rng.choice(["FORWARD", "BACKWARD", "BIDIRECTIONAL"]))
    outputs = [name for name in sizes_of(cell, 1, 1, 1, 1, 1) if name.startswith("output")]
    # The gates' function is a bounded one, else their products would let the states explode.
    bounded = [desc for desc in EVERY_ACTIVATION if type(desc).__name__.endswith(("SigmoidDesc", "TanhDesc", "SoftsignDesc"))]
    functions: list[ActivationDesc] = []
    for _ in range(2 if direction == "BIDIRECTIONAL" else 1):
        for role in range(len(USUAL[cell])):
            candidates = bounded if role == 0 and cell != "RNN" else EVERY_ACTIVATION
            functions.append(candidates[rng.integers(len(candidates))])
    flags: dict[str, Any] = {}
    if cell == "LSTM":
        flags = {"use_clip_threshold": bool(rng.integers(2)), "clip_threshold": 0.2, "couple_input_forget": bool(rng.integers(2))}
    elif cell == "GRU":
        flags = {"linear_before_reset": bool(rng.integers(2))}
    return build(
        cell,
        rng,
        t=t,
        b=b,
        i=int(rng.integers(1, 8)),
        h=int(rng.choice([1, 2, 5, 9])),
        dtype=rng.choice(np.array([np.float32, np.float16])),
        direction=direction,
        lengths=None if rng.integers(2) else [int(length) for length in rng.integers(0, t + 3, b)],
        optional=tuple(name for name in OPTIONAL if rng.integers(2)),
        outputs=tuple(rng.permutation(outputs)[: rng.integers(1, len(outputs) + 1)]),
        functions=tuple(functions),
        layouts=("packed", "padded", "permuted", "broadcast"),
        **flags,
    )


def check_threads_share(run: Run, plan: Any, expected: dict[str, np.ndarray[Any, Any]]) -> None:
    """Launches a plan many times at once, on the run's inputs and separate outputs for each launch."""

    def one(seed: int) -> Run:
        outputs = {name: place(np.full_like(p.elements, np.nan), "packed", np.random.default_rng(seed)) for name, p in run.outputs.items()}
        mine = Run(run.desc, run.inputs, outputs)
        mine.launch(plan, prepared=bool(seed % 2))
        return mine

    with ThreadPoolExecutor(4) as pool:
        for done in pool.map(one, range(16)):
            done.check(expected)
