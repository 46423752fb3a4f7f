"""Gradients of recurrent layers over guarded memory: a training form's run, its gradient's, and the float64 gradient to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dmlpy.devices.numpy.recurrent.definition import DefinitionPlan
from dmlpy.reference.recurrent.layer import packed_reserve
from tests.support.operators.exact import exact, traced
from tests.support.recurrent.layer_runs import GUARD, Layout, Placed, Run, place, scratch
from tests.support.recurrent.training_runs import H_DROPOUT, OUTPUTS, RESERVE, X_DROPOUT, SavedGates, SavedRows, check_reserve, saved_gates
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Plans:
    """A device's plans, and how their reserve is read.

    Attributes:
        layer: the plan of a training form.
        gradient: the plan of a gradient.
        rows: what a reserve holds.
        gates: what it saves of gates.
    """

    layer: Callable[[Any], Any]
    gradient: Callable[[Any], Any]
    rows: Callable[[Any, Array], SavedRows]
    gates: SavedGates

    def check_forward(self, run: Run) -> None:
        """The outputs of a run that was launched, and what its reserve holds, against the plain loop."""
        trace = traced(run.desc, run.arrays)
        for name, placed in run.outputs.items():
            if name == RESERVE:
                check_reserve(run.desc, self.rows(run.desc, placed.elements), self.gates, trace, run.terms)
            else:
                assert_close(placed.elements, trace.outputs[name], placed.elements.dtype, terms=run.terms, what=name)


NUMPY = Plans(DefinitionPlan, DefinitionPlan, SavedRows.of_definition, saved_gates)

CELLS = ("RNN", "LSTM", "GRU")
DROPOUTS = (X_DROPOUT, H_DROPOUT)
UPSTREAM = tuple(f"{name.removesuffix('_tensor')}_gradient_tensor" for name in OUTPUTS)


@dataclass
class Backward:
    """A gradient desc whose tensors lie in memory.

    Attributes:
        run: the training form that wrote the reserve.
        plans: the device's.
    """

    run: Run
    desc: Any
    inputs: dict[str, Placed]
    outputs: dict[str, Placed]
    terms: int = field(default=1)
    plans: Plans = NUMPY

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: placed.elements for name, placed in self.inputs.items()}

    def launch(self) -> dict[str, Array]:
        """One dispatch with outputs and scratch full of NaN; copies of the results."""
        plan = self.plans.gradient(self.desc)
        for placed in self.outputs.values():
            placed.elements[...] = np.nan
        block, temporary = scratch(plan.temporary_size)
        plan.bind({name: placed.pointer for name, placed in (self.inputs | self.outputs).items()}, temporary, None)(0)
        assert (block[-64:] == GUARD).all()
        for name, placed in self.outputs.items():
            assert (placed.gaps() == GUARD).all(), f"{name}: written between or beside its elements"
        return {name: placed.elements.copy() for name, placed in self.outputs.items()}

    def expected(self) -> dict[str, Array]:
        """The described gradients by their definition, from the values in the device's reserve."""
        gradients = exact(self.desc, self.arrays | {RESERVE: defined_reserve(self.run, self.plans)})
        return {name: gradients[name] for name in self.outputs}

    def check(self, what: str = "") -> dict[str, Array]:
        """One dispatch, whose results must be those of float64."""
        found, expected = self.launch(), self.expected()
        assert found.keys() == expected.keys()
        for name, array in found.items():
            assert_close(array, expected[name], array.dtype, terms=self.terms, what=f"{what}{name}")
        return found


def backward(
    run: Run,
    rng: np.random.Generator,
    *,
    gradients: Sequence[str] = (),
    upstream: Iterable[str] = UPSTREAM,
    scale: float = 1.0,
    layouts: tuple[Layout, ...] = ("packed",),
    plans: Plans = NUMPY,
) -> Backward:
    """The gradient of a training form, after running that.

    Args:
        gradients: which to compute; none means all.
        upstream: which upstream gradients there are, of those that the operator has.
        scale: of the upstream gradients.
        layouts: of the added tensors.
        plans: the device's.
    """
    run.launch(plans.layer(run.desc))
    desc = run.desc.gradient(*gradients)
    tensors = desc.tensors()
    dtype = run.inputs["input_tensor"].elements.dtype
    inputs = {name: placed for name, placed in run.inputs.items() if name in tensors} | {RESERVE: run.outputs[RESERVE]}
    for name in UPSTREAM:
        if name in tensors and name in upstream:
            values = (rng.standard_normal(tensors[name].sizes) * scale).astype(dtype)
            inputs[name] = place(values, rng.choice(np.array(layouts)), rng)
    outputs: dict[str, Placed] = {}
    for output in desc.outputs():
        if output.name in tensors:
            layout: Layout = rng.choice(np.array(layouts))
            empty = np.full(tensors[output.name].sizes, np.nan, dtype)
            outputs[output.name] = place(empty, "padded" if layout == "broadcast" else layout, rng)
    update: dict[str, Any] = dict.fromkeys(UPSTREAM[: 2 + desc.cell.has_memory])
    update |= {name: placed.desc for name, placed in (inputs | outputs).items()}
    sizes = desc.geometry
    terms = sizes.seq_length * (sizes.batch_size + sizes.gates * sizes.hidden_size) + sizes.input_size
    return Backward(run, desc.model_copy(update=update), inputs, outputs, terms, plans)


def defined_reserve(run: Run, plans: Plans = NUMPY) -> Array:
    """The reserve of a run as its definition lays it out, in float64: a gradient of it separates the backward pass's errors from the
    forward's.

    States and arguments are those of the device's reserve. Where that saves a gate's value, the argument is the definition's.
    """
    rows = plans.rows(run.desc, run.outputs[RESERVE].elements.astype(np.float64))
    trace = traced(run.desc, run.arrays)
    for d, arguments in enumerate(trace.arguments):
        for index, gate, activation in plans.gates(run.desc, d):
            if activation is None:
                arguments[:, gate] = rows.saved[d, :, index]
    memory = trace.memory if rows.memory is None else rows.memory
    return packed_reserve(run.desc, replace(trace, hidden=rows.hidden, memory=memory))
