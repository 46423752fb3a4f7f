"""Training forms: runs with dropout, masks and reserves, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc
from dmlpy.reference.activation import activate
from dmlpy.reference.recurrent.layer import Trace, unpacked_reserve
from tests.support.recurrent.layer_runs import (
    FLAGS,
    GUARD,
    OPTIONAL,
    USUAL,
    Layout,
    Placed,
    Run,
    place,
    sizes_of,
)
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


TRAINING: dict[str, Any] = {"RNN": RNNTrainingDesc, "LSTM": LSTMTrainingDesc, "GRU": GRUTrainingDesc}


GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


SavedGates = Callable[[Any, int], Iterable[tuple[int, int, ActivationDesc | None]]]
"""What a reserve saves of a direction's gates: see `saved_gates`, which is NumPy's."""


RESERVE, MASK, X_DROPOUT, H_DROPOUT = "reserve_tensor", "step_mask_tensor", "input_dropout_tensor", "state_dropout_tensor"


OUTPUTS = ("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor")


DIRECTIONS = ("FORWARD", "BACKWARD", "BIDIRECTIONAL")


VARIANTS: list[dict[str, Any]] = [
    {},
    {"dropout": (X_DROPOUT, H_DROPOUT), "p": 3},
    {"dropout": (X_DROPOUT,), "p": 21},
    {"dropout": (H_DROPOUT,)},
]
"""What only training forms have: arguments of `build`. There are projections to fewer entries than there are units, and to more."""


def of_cell(cell: str, variant: dict[str, Any]) -> dict[str, Any]:
    """A variant without what this cell has not."""
    return {name: value for name, value in variant.items() if name != "p" or cell == "LSTM"}


def training_sizes(cell: str, t: int, b: int, i: int, h: int, s: int, d: int) -> dict[str, tuple[int, ...]]:
    """The sizes of every tensor of a training form but the reserve; h has `s` entries."""
    g = GATES[cell]
    return sizes_of(cell, t, b, i, h, d) | {
        "recurrence_tensor": (1, d, g * h, s),
        "hidden_init_tensor": (1, d, b, s),
        "output_sequence_tensor": (t, d, b, s),
        "output_single_tensor": (1, d, b, s),
        "projection_tensor": (1, d, s, h),
        MASK: (1, 1, t, b),
        X_DROPOUT: (d, g, b, i),
        H_DROPOUT: (d, g, b, s),
    }


def build(
    cell: str,
    rng: np.random.Generator,
    *,
    t: int = 4,
    b: int = 3,
    i: int = 3,
    h: int = 4,
    p: int | None = None,
    dtype: Any = np.float32,
    direction: str = "FORWARD",
    lengths: list[int] | None = None,
    mask: Any = None,
    dropout: tuple[str, ...] = (),
    optional: tuple[str, ...] = OPTIONAL,
    outputs: tuple[str, ...] = (*OUTPUTS, RESERVE),
    functions: tuple[ActivationDesc, ...] | None = None,
    layouts: tuple[Layout, ...] = ("packed",),
    **flags: Any,
) -> Run:
    """Random tensors for a training form.

    Args:
        p: the projection's size, or None.
        mask: [T, B], or None.
        dropout: which of the two dropout tensors there are.
        optional: which of `OPTIONAL` there are.
        outputs: which outputs there are; NaN-filled.
    """
    d, s = 2 if direction == "BIDIRECTIONAL" else 1, p or h
    sizes = training_sizes(cell, t, b, i, h, s, d)
    present = {"input_tensor", "weight_tensor", "recurrence_tensor", *optional, *dropout}
    values: dict[str, Array] = {}
    if lengths is not None:
        values["sequence_lengths_tensor"] = np.array(lengths, np.uint32).reshape(1, 1, 1, b)
    if mask is not None:
        values[MASK] = np.array(mask, np.uint8).reshape(1, 1, t, b)
    if p is not None:
        present.add("projection_tensor")
    scale = {"input_tensor": 1.0, "weight_tensor": 1.0 / i**0.5, "recurrence_tensor": 0.8 / s**0.5, "projection_tensor": 1.0 / h**0.5}
    for name in sorted(present & set(sizes)):
        if name in (X_DROPOUT, H_DROPOUT):
            values[name] = (rng.integers(0, 4, sizes[name]) > 0).astype(dtype) * np.asarray(4.0 / 3.0, dtype)
        else:
            values[name] = (rng.uniform(-1.0, 1.0, sizes[name]) * scale.get(name, 0.5)).astype(dtype)
    inputs: dict[str, Placed] = {}
    for name, array in values.items():
        layout: Layout = rng.choice(np.array(layouts))
        inputs[name] = place(array, "packed" if name == "sequence_lengths_tensor" and layout == "broadcast" else layout, rng)
    results: dict[str, Placed] = {}
    for name in outputs:
        if name in sizes:
            layout = rng.choice(np.array(layouts))
            results[name] = place(np.full(sizes[name], np.nan, dtype), "padded" if layout == "broadcast" else layout, rng)
    fields: dict[str, Any] = {name: placed.desc for name, placed in (inputs | results).items()}
    desc = TRAINING[cell](**fields, activation_descs=functions or USUAL[cell] * d, direction=direction, **flags)
    if RESERVE in outputs:
        desc = desc.with_outputs(RESERVE)
        results[RESERVE] = place(np.full(desc.reserve_tensor.sizes, np.nan, np.float32), "packed", rng)
    return Run(desc, inputs, results)


LAYOUTS: tuple[Layout, ...] = ("packed", "padded", "permuted", "broadcast")


def random_run(seed: int, *, batches: Sequence[int], hidden: Sequence[int]) -> Run:
    """A training form with any options, in any layouts; each third one has the same cell.

    Args:
        seed: of everything that is drawn.
        batches: numbers of samples to choose from.
        hidden: numbers of units to choose from.
    """
    rng, cell = np.random.default_rng(seed), list(TRAINING)[seed % 3]
    t, b = int(rng.choice([1, 2, 3, 6, 9])), int(rng.choice(batches))
    flags = dict(FLAGS[cell][rng.integers(len(FLAGS[cell]))])
    flags["optional"] = tuple(name for name in OPTIONAL if rng.integers(2))
    return build(
        cell,
        rng,
        t=t,
        b=b,
        i=int(rng.integers(1, 8)),
        h=int(rng.choice(hidden)),
        p=int(rng.integers(1, 2 * max(hidden))) if cell == "LSTM" and rng.integers(2) else None,
        dtype=rng.choice(np.array([np.float32, np.float16])),
        direction=str(rng.choice(DIRECTIONS)),
        lengths=None if rng.integers(2) else [int(length) for length in rng.integers(0, t + 3, b)],
        mask=None if rng.integers(2) else rng.integers(0, 2, (t, b)),
        dropout=tuple(name for name in (X_DROPOUT, H_DROPOUT) if rng.integers(2)),
        layouts=LAYOUTS,
        **flags,
    )


@dataclass(frozen=True)
class SavedRows:
    """What a reserve saves: of gates [D, T, K, B, H], and h and c before and after each step [D, T + 1, B, entries]."""

    saved: Array
    hidden: Array
    memory: Array | None

    @classmethod
    def of_definition(cls, desc: Any, array: Array) -> SavedRows:
        """Of NumPy's plans, whose reserve is that of the definition."""
        saved, hidden, memory = unpacked_reserve(desc, array)
        return cls(saved, hidden, memory if desc.cell.has_memory else None)


def check(run: Run, trace: Trace, kind: Any = None) -> None:
    """All outputs against the plain loop, the reserve part by part, each to the tolerance of its type or of `kind`."""
    for name, placed in run.outputs.items():
        assert (placed.gaps() == GUARD).all(), f"{name}: written between or beside its elements"
        if name == RESERVE:
            check_reserve(run.desc, SavedRows.of_definition(run.desc, placed.elements), saved_gates, trace, run.terms, kind)
        else:
            assert_close(placed.elements, trace.outputs[name], kind or placed.elements.dtype, terms=run.terms, what=name)


def check_repeated_outputs(cell: str, plan: Callable[[Any], Any]) -> None:
    """Runs a layer whose mask leaves steps out: each shows the output before it, or zeros where there is none, not the initial state."""
    run = build(cell, np.random.default_rng(4), t=6, b=1, direction="BIDIRECTIONAL", lengths=[5], mask=[0, 1, 0, 0, 1, 1])
    run.launch(plan(run.desc))
    forward, backward = np.moveaxis(run.outputs["output_sequence_tensor"].elements[:, :, 0], 1, 0)
    assert (forward[0] == 0).all()  # and not the initial state
    np.testing.assert_array_equal(forward[2:4], np.stack([forward[1]] * 2))
    np.testing.assert_array_equal(backward[2:4], np.stack([backward[4]] * 2))
    np.testing.assert_array_equal(backward[0], backward[1])
    assert (run.outputs["output_sequence_tensor"].elements[5] == 0).all()
    single = run.outputs["output_single_tensor"].elements[0, :, 0]
    np.testing.assert_array_equal(single, [forward[4], backward[0]])


def check_dropout_of_h(plan: Callable[[Any], Any]) -> None:
    """Runs a step of a GRU all of whose products vanish: h is still interpolated with its former value, of which dropout leaves nothing."""
    run = build("GRU", np.random.default_rng(6), t=1, dropout=(H_DROPOUT,), outputs=("output_single_tensor",))
    for name in (H_DROPOUT, "weight_tensor", "bias_tensor"):
        run.inputs[name].elements[...] = 0.0
    run.launch(plan(run.desc))
    np.testing.assert_array_equal(run.outputs["output_single_tensor"].elements, run.inputs["hidden_init_tensor"].elements / 2)


def check_reserve(desc: Any, reserve: SavedRows, gates: SavedGates, trace: Trace, terms: int, kind: Any = np.float32) -> None:
    """Every slot of the states, and the saved gate values of each step that a sample takes."""
    kind = kind or np.float32
    assert_close(reserve.hidden, trace.hidden, kind, terms=terms, what="h in the reserve")
    assert (reserve.memory is not None) == isinstance(desc, LSTMTrainingDesc)
    if reserve.memory is not None:
        assert_close(reserve.memory, trace.memory, kind, terms=terms, what="c in the reserve")
    for d, arguments in enumerate(trace.arguments):
        for index, gate, activation in gates(desc, d):
            taken = ~np.isnan(arguments[:, gate])
            expected = arguments[:, gate][taken]
            if activation is not None:
                expected = activate(activation, expected)
            assert_close(reserve.saved[d, :, index][taken], expected, kind, terms=terms, what=f"gate {gate} in the reserve")


def saved_gates(desc: Any, d: int) -> Iterator[tuple[int, int, ActivationDesc | None]]:
    """What a reserve of the definition saves of a direction's gates: each argument.

    Yields:
        tuple: the index in `SavedRows.saved`, the gate's index in `Trace.arguments`, and the activation whose value is saved, or None
            where its argument is.
    """
    for gate in range(desc.cell.saved):
        yield gate, gate, None


HOLES = {1: [[1], [0], [7], [0]], 3: [[0, 1, 1], [1, 0, 1], [1, 255, 0], [0, 1, 1]]}


MASKS = {
    "leading": [[0, 0, 0], [0, 0, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]],
    "trailing": [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]],
    "holes": [[1, 0, 1], [0, 0, 0], [1, 1, 0], [0, 0, 0], [1, 1, 1]],
    "all": [[0, 0, 0]] * 5,
    "one sample": [[0, 1, 1]] * 5,
    "none": [[1, 2, 255]] * 5,
}
"""Step masks of 5 steps and 3 samples."""
