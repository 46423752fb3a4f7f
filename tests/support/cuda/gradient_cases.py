"""Gradients of recurrent layers on CUDA: descs, cases of each strategy, and the comparison with the definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from dmlpy.description.arrays import view
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.block_shapes import block_shape
from dmlpy.devices.cuda.recurrent.gradient import (
    SLICES,
    PersistentBlockGradientPlan,
    PerStepGradientPlan,
    block_shared_bytes,
)
from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
from dmlpy.devices.cuda.recurrent.reserve import ReserveAddresses
from dmlpy.devices.cuda.runtime.interface import CudaRuntime
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.recurrent.gradient import GRUGradDesc, LSTMGradDesc, RecurrentGradDesc, RNNGradDesc
from dmlpy.reference.activation import activate
from dmlpy.reference.recurrent.layer import Trace, packed_reserve
from dmlpy.validation.checking import check as check_desc
from tests.support.operators.activation_cases import keeps_value
from tests.support.operators.exact import exact, traced
from tests.support.recurrent.layer_runs import GUARD, USUAL, Layout, Placed, place
from tests.support.recurrent.training_runs import training_sizes
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


MakePlan = Callable[[RecurrentGradDesc, KernelLibrary], RecurrentGradientPlan]


GRADIENTS: dict[str, type[RecurrentGradDesc]] = {"RNN": RNNGradDesc, "GRU": GRUGradDesc, "LSTM": LSTMGradDesc}


LAYOUTS: tuple[Layout, ...] = ("packed", "padded", "permuted", "broadcast")


HALF_ROUNDING = 2.0**-25


MOST_TERMS = 1 << 20
"""Gradients pass through many sums: they are held to the tolerance that is never exceeded."""


BARRIER = "__syncthreads();"


INPUT_ONLY = ("bias_tensor", "hidden_init_tensor", "cell_mem_init_tensor")
"""What the forward operator reads and the gradient does not."""


def persistent_block(samples: int) -> MakePlan:
    def plan(desc: RecurrentGradDesc, library: KernelLibrary) -> RecurrentGradientPlan:
        return PersistentBlockGradientPlan(desc, library, block_shape(desc, samples, block_shared_bytes(desc, samples)), "as the test asks")

    return plan


def per_step(desc: RecurrentGradDesc, library: KernelLibrary) -> RecurrentGradientPlan:
    return PerStepGradientPlan(desc, library, "as the test asks")


STRATEGIES: dict[str, MakePlan] = {f"persistent_block {samples}": persistent_block(samples) for samples in SLICES} | {"per_step": per_step}


class Case:
    """A gradient desc whose tensors lie in memory, and what running it must give.

    `plain` holds the inputs as arrays, with those that only the forward operator reads; `given` are some that shall not be random.
    """

    def __init__(
        self,
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
        optional: tuple[str, ...] = (),
        upstream: tuple[str, ...] = ("output_sequence", "output_single", "output_cell_single"),
        outputs: tuple[str, ...] | None = None,
        functions: tuple[ActivationDesc, ...] | None = None,
        layouts: tuple[Layout, ...] = ("packed",),
        scale: float = 1.0,
        given: Mapping[str, Array] | None = None,
        **flags: Any,
    ) -> None:
        kind = GRADIENTS[cell]
        d, s = 2 if direction == "BIDIRECTIONAL" else 1, p or h
        shapes = training_sizes(cell, t, b, i, h, s, d)
        shapes |= {f"{name}_gradient_tensor": shapes[f"{name}_tensor"] for name in upstream if f"{name}_tensor" in shapes}
        scales = {"weight_tensor": i**-0.5, "recurrence_tensor": 0.8 * s**-0.5, "projection_tensor": h**-0.5}
        names = ["input_tensor", "weight_tensor", "recurrence_tensor", *INPUT_ONLY, *(f"{name}_gradient_tensor" for name in upstream)]
        names += [f"{name}_tensor" for name in optional] + (["projection_tensor"] if p else [])
        self.inputs: dict[str, Placed] = {}
        plain: dict[str, Array] = {}
        for name in names:
            if cell != "LSTM" and ("cell" in name or name in ("peephole_tensor", "projection_tensor")):
                continue
            values = rng.uniform(-1.0, 1.0, shapes[name]) * scales.get(name, 0.5 if name in INPUT_ONLY else 1.0)
            if "dropout" in name:
                values = np.where(rng.random(shapes[name]) < 0.4, 0.0, 1.0 / 0.6)
            if name.endswith("_gradient_tensor"):
                values = values * scale
            values = (given or {}).get(name, values)
            placed = place(values.astype(dtype), rng.choice(np.array(layouts)), rng)
            plain[name] = np.array(placed.elements)
            if name not in INPUT_ONLY:
                self.inputs[name] = placed
        if lengths is not None:
            self.inputs["sequence_lengths_tensor"] = place(np.array(lengths, np.uint32).reshape(1, 1, 1, b), "packed", rng)
        if mask is not None:
            self.inputs["step_mask_tensor"] = place(np.array(mask, np.uint8).reshape(1, 1, t, b), "padded", rng)
        selecting = ("sequence_lengths_tensor", "step_mask_tensor")
        plain |= {name: np.array(self.inputs[name].elements) for name in selecting if name in self.inputs}
        size = RESERVE_VALUES[cell](t, h, s, bool(flags.get("linear_before_reset"))) * d * b
        self.inputs["reserve_tensor"] = place(np.full((1, 1, 1, size), np.nan, np.float32), "packed", rng)
        described = {name: placed.desc for name, placed in self.inputs.items()}
        activations = functions or USUAL[cell] * d
        desc = kind(**described, activation_descs=activations, direction=direction, **flags).with_outputs(
            *(f"{name}_gradient_tensor" for name in outputs or self._every_gradient(cell))
        )
        self.outputs: dict[str, Placed] = {}
        for field in desc.outputs():
            if (tensor := getattr(desc, field.name)) is not None:
                layout = rng.choice(np.array(layouts))
                values = np.full(tensor.sizes, np.nan, dtype)
                self.outputs[field.name] = place(values, "padded" if layout == "broadcast" else layout, rng)
        self.desc: RecurrentGradDesc = desc.model_copy(update={name: placed.desc for name, placed in self.outputs.items()})
        assert not check_desc(self.desc)
        self.plain = plain
        forward = traced(self.desc, plain)
        self.expected = exact(self.desc, plain | {"reserve_tensor": packed_reserve(self.desc, forward)})
        flat, kept = self.inputs["reserve_tensor"].elements.reshape(-1), saved_values(self.desc, forward)
        parts = [kept, forward.hidden, *([forward.memory] if cell == "LSTM" else [])]
        flat[...] = np.concatenate([part.ravel() for part in parts])
        places = ReserveAddresses.of(self.desc, 0)
        assert (places.hidden, places.memory) == (4 * kept.size, 4 * (size - forward.memory.size) if cell == "LSTM" else 0)

    def _every_gradient(self, cell: str) -> list[str]:
        names = ["input", "weight", "recurrence", "bias", "hidden_init"]
        if cell == "LSTM":
            names.append("cell_mem_init")
            names += [name for name in ("peephole", "projection") if f"{name}_tensor" in self.inputs]
        return names

    def launch(self, make: MakePlan, runtime: CudaRuntime) -> RecurrentGradientPlan:
        """Runs a plan over copies of the case's memory on the runtime's device, with scratch of exactly the size that it asks for."""
        plan = make(self.desc, KernelLibrary(runtime, 0))
        every = self.inputs | self.outputs
        copies = {name: runtime.to_device(0, placed.memory, 0) for name, placed in every.items()}
        starts = {name: view(copy).pointer for name, copy in copies.items()}
        pointers = {name: starts[name] + placed.pointer - placed.memory.ctypes.data for name, placed in every.items()}
        temporary = runtime.allocate(0, plan.temporary_size, 0)
        runtime.memset(temporary.pointer, 0xFF, plan.temporary_size, 0)
        plan.bind(pointers, temporary.pointer, None)(0)
        for name, placed in every.items():
            before = placed.memory.copy()
            placed.memory[...] = np.frombuffer(runtime.read(starts[name], placed.memory.size, 0), np.uint8)
            assert name in self.outputs or (placed.memory == before).all(), f"{name} is an input and was written"
        return plan

    def check(self, what: str = "") -> None:
        for name, (found, expected) in self.results(what).items():
            assert_close(found, expected, self.outputs[name].elements.dtype, terms=MOST_TERMS, what=f"{what}{name}")

    def results(self, what: str = "") -> dict[str, tuple[Array, Array]]:
        """What was found of each output and what was expected, in float64."""
        results = {}
        for name, placed in self.outputs.items():
            found, expected = placed.elements.astype(np.float64), self.expected[name]
            if placed.elements.dtype == np.float16:  # what is as close as the smallest numbers of the type allow counts as exact
                found = np.where(np.abs(found - expected) <= HALF_ROUNDING, expected, found)
            assert (placed.gaps() == GUARD).all(), f"{what}{name}: written between or beside its elements"
            results[name] = found, expected
        return results


def saved_values(desc: RecurrentGradDesc, forward: Trace) -> Array:
    """What the reserve saves of each gate, its value or its argument, [T, B, D, K, H]; NaN at steps that a sample does not take."""
    kept, cell = forward.arguments.copy(), desc.cell
    for d in range(len(kept)):
        f, *others = desc.activations_of(d)
        for gate in range(cell.gates):
            function = others[0] if others and gate == cell.gates - 1 else f
            if cell.clip is None and keeps_value(function):
                kept[d, :, gate] = activate(function, kept[d, :, gate])
    return kept.transpose(1, 3, 0, 2, 4)


RESERVE_VALUES: dict[str, Callable[[int, int, int, bool], int]] = {
    "RNN": lambda t, h, s, last: t * h + (t + 1) * s,
    "GRU": lambda t, h, s, last: (4 if last else 3) * t * h + (t + 1) * s,
    "LSTM": lambda t, h, s, last: 4 * t * h + (t + 1) * (s + h),
}
"""The reserve's elements for each direction and sample."""


PLAIN: tuple[tuple[str, dict[str, Any]], ...] = (("RNN", {}), *(("GRU", {"linear_before_reset": last}) for last in (False, True)))


LSTMS: tuple[tuple[str, dict[str, Any]], ...] = tuple(
    ("LSTM", {"use_clip_threshold": clip, "couple_input_forget": couple, "peephole": peephole})
    for clip, couple, peephole in product((0, 1), repeat=3)
)


def gradient_desc(cell: str, dtype: str, batch: int, hidden: int, steps: int) -> RecurrentGradDesc:
    """All gradients of a forward layer with three inputs, from the last state's."""
    g = len(GRADIENTS[cell].gate_names)
    size = RESERVE_VALUES[cell](steps, hidden, hidden, False) * batch
    sizes = {
        "input_tensor": (1, steps, batch, 3),
        "weight_tensor": (1, 1, g * hidden, 3),
        "recurrence_tensor": (1, 1, g * hidden, hidden),
        "output_single_gradient_tensor": (1, 1, batch, hidden),
    }
    tensors = {name: TensorDesc(data_type=dtype, sizes=values) for name, values in sizes.items()}
    reserve = TensorDesc(data_type="FLOAT32", sizes=(1, 1, 1, size))
    desc = GRADIENTS[cell](**tensors, reserve_tensor=reserve, activation_descs=USUAL[cell], direction="FORWARD")
    return desc.with_outputs("input_gradient_tensor", "weight_gradient_tensor", "recurrence_gradient_tensor", "bias_gradient_tensor")
