"""Training forms on CUDA: layers with every added tensor, and the comparison with the definition."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dmlpy.devices.cuda.recurrent.reserve import ReserveAddresses
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.training import GRUTrainingDesc, LSTMTrainingDesc, RNNTrainingDesc
from dmlpy.reference.activation import activate
from tests.support.operators.activation_cases import keeps_value
from tests.support.operators.exact import traced
from tests.support.recurrent.layer_runs import CELLS, USUAL, Layout, Placed, Run, place
from tests.support.recurrent.training_runs import training_sizes
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


TRAINING: dict[str, Any] = {"RNN": RNNTrainingDesc, "GRU": GRUTrainingDesc, "LSTM": LSTMTrainingDesc}


OPTIONAL = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor", "peephole_tensor")


ADDED = ("input_dropout_tensor", "state_dropout_tensor")


OUTPUTS = ("output_sequence_tensor", "output_single_tensor", "output_cell_single_tensor", "reserve_tensor")


def build(
    cell: str,
    rng: np.random.Generator,
    *,
    t: int = 4,
    b: int = 3,
    i: int = 3,
    h: int = 4,
    p: int = 0,
    dtype: Any = np.float32,
    direction: str = "FORWARD",
    lengths: list[int] | None = None,
    mask: Any = None,
    optional: tuple[str, ...] = OPTIONAL,
    outputs: tuple[str, ...] = OUTPUTS,
    functions: tuple[ActivationDesc, ...] | None = None,
    layouts: tuple[Layout, ...] = ("packed",),
    **flags: Any,
) -> Run:
    """Random tensors for a training form; with `p` a projection. Weights are small enough that no activation lets the states grow."""
    d, g, s = 2 if direction == "BIDIRECTIONAL" else 1, len(CELLS[cell].gate_names), p or h
    shapes = training_sizes(cell, t, b, i, h, s, d)
    wanted = {"input_tensor", "weight_tensor", "recurrence_tensor", *optional, *(["projection_tensor"] if p else [])}
    scale = {"input_tensor": 1.0, "weight_tensor": i**-0.5, "recurrence_tensor": 0.8 * s**-0.5, "projection_tensor": h**-0.5}
    inputs: dict[str, Placed] = {}
    for name, shape in shapes.items():
        if name in wanted & TRAINING[cell].model_fields.keys():
            dropped = "dropout" in name
            values = rng.choice([0.0, 1.0, 1.25], shape) if dropped else rng.uniform(-1.0, 1.0, shape) * scale.get(name, 0.5)
            inputs[name] = place(values.astype(dtype), rng.choice(np.array(layouts)), rng)
    exact: tuple[Layout, ...] = tuple(layout for layout in layouts if layout != "broadcast")
    if lengths is not None:
        values = np.array(lengths, np.uint32).reshape(1, 1, 1, b)
        inputs["sequence_lengths_tensor"] = place(values, rng.choice(np.array(exact)), rng)
    if mask is not None:
        values = np.array(mask, np.uint8).reshape(1, 1, t, b)
        inputs["step_mask_tensor"] = place(values, rng.choice(np.array(exact)), rng)
    kept = g + bool(flags.get("linear_before_reset"))
    states = s + h * (cell == "LSTM")
    sizes = shapes | {"reserve_tensor": (1, 1, 1, d * b * (t * kept * h + (t + 1) * states))}
    placed = {}
    for name in outputs:
        if name in sizes:
            in_reserve = name == "reserve_tensor"
            values = np.full(sizes[name], np.nan, np.float32 if in_reserve else dtype)
            placed[name] = place(values, "packed" if in_reserve else rng.choice(np.array(exact)), rng)
    desc = TRAINING[cell](
        **{name: tensor.desc for name, tensor in (inputs | placed).items()},
        activation_descs=functions or USUAL[cell] * d,
        direction=direction,
        **flags,
    )
    return Run(desc, inputs, placed)


def check(run: Run, what: str = "", *, least: float = 0.0) -> None:
    """Outputs, all states of the reserve, and what it saves of the steps that are taken."""
    arrays = {name: np.array(array) for name, array in run.arrays.items()}
    reference = traced(run.desc, arrays)
    reserve = run.outputs.pop("reserve_tensor", None)
    run.check(reference.outputs, what, least=least)
    if reserve is None:
        return
    assert isinstance(run.desc, RNNTrainingDesc | GRUTrainingDesc | LSTMTrainingDesc)
    sizes, cell, dtype = run.desc.geometry, run.desc.cell, run.inputs["input_tensor"].elements.dtype
    t, b, d, h = sizes.seq_length, sizes.batch_size, sizes.num_directions, sizes.hidden_size
    values, places = reserve.elements.reshape(-1), ReserveAddresses.of(run.desc, 0)

    def part(offset: int, *shape: int) -> Array:
        return values[offset // 4 :][: prod(shape)].reshape(shape)

    def compare(found: Array, expected: Array, name: str) -> None:
        assert_close(found, expected, dtype, terms=run.terms, what=f"{what}{name}", tf32=run.tf32, least=least)

    compare(part(places.hidden, d, t + 1, b, sizes.state_size), reference.hidden, "slots of h")
    if cell.has_memory:
        compare(part(places.memory, d, t + 1, b, h), reference.memory, "slots of c")
    kept = part(places.saved, t, b, d, cell.saved, h).transpose(2, 0, 3, 1, 4)
    assert kept.size + (t + 1) * d * b * (sizes.state_size + h * cell.has_memory) == values.size
    found, wanted = [], []  # of all gates together: a single value near zero may be little but the rounding of FLOAT16 factors
    for direction in range(d):
        for place_of, name in enumerate((*run.desc.gate_names, "Rh h + Rbh")[: cell.saved]):
            if cell.couple_input_forget and name == "f":
                continue
            arguments = reference.arguments[direction, :, place_of]
            taken = ~np.isnan(arguments)
            expected = arguments[taken]
            if place_of < cell.gates and cell.clip is None:
                function = run.desc.activations_of(direction)[1 if name in ("c", "h") else 0]
                if keeps_value(function):
                    expected = activate(function, expected)
            found.append(kept[direction, :, place_of][taken])
            wanted.append(expected)
    compare(np.concatenate(found), np.concatenate(wanted), "kept values")
