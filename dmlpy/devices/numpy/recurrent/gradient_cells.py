"""One step of RNN, LSTM and GRU backwards in NumPy: the gradients of the gates' sums and of the previous state.

With dh and dc for the gradients of a step's states, the gradient of every gate's sum is dh or dc times a factor that does not depend on
them: i * g'(a) for the LSTM's cell gate, say. So the factors of a chunk of steps are computed at once, into the array that the gradients
are to fill, and a step only multiplies them by its dh or dc, in place.

Where a sample does not take a step its factors are replaced by zeros (whatever the reserve holds there) and dh and dc pass unchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmlpy.devices.numpy.activation.derivatives import Derivative, keeps_value
from dmlpy.devices.numpy.activation.formulas import Activation, ElementWise
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.numpy.recurrent.cells import packed_gates

if TYPE_CHECKING:
    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.operators.recurrent.gradient import RecurrentGradDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]
Call = Callable[[], object]
Shapes = dict[str, tuple[int, ...]]
Step = Callable[..., None]
"""One step back: takes the step's arrays and, where not every sample takes it, who does. Changes dh and dc in place."""


class Rows(NamedTuple):
    """Consecutive blocks of H rows among the gates' gradients, and their gates."""

    first: int
    gates: tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """Some steps of a walk, in time order: n steps, H hidden units, B samples, S entries of h.

    Attributes:
        kept: [n, K, H * B], as the reserve holds it.
        before: h before each step, [n, S * B].
        memory_before: the cell state before each step, [n, H * B]; None but for LSTM.
        memory_after: likewise after each step.
        skipped: who does not take each step, [n, 1, 1, B]; None where everybody takes all steps.
        gradient: the gradient of the gates' sums, [n, blocks, H * B].
        operand: a further operand of products over all steps, [n, H * B]: r * h[t-1] of a GRU that resets first, o * h(c) of an LSTM with
            a projection; None if it is not needed.
        state_gradients: dh of every step, [n, S * B]; None if it is not needed.
    """

    kept: Array
    before: Array
    memory_before: Array | None
    memory_after: Array | None
    skipped: Array | None
    gradient: Array
    operand: Array | None
    state_gradients: Array | None

    def clear(self) -> None:
        """Sets the results of steps that every sample skips to zero."""
        for array in (self.gradient, self.operand, self.state_gradients):
            if array is not None:
                array.fill(0.0)


@dataclass
class Prepared:
    """The work on a span, bound to its arrays.

    Attributes:
        fill: computes the factors.
        select: replaces those of steps that samples do not take.
        steps: the arrays of each step, in the order of time.
        conclude: the sums to take once all steps are done.
    """

    fill: list[Call] = field(default_factory=list)
    select: list[Call] = field(default_factory=list)
    steps: Sequence[tuple[Array, ...]] = field(default_factory=list)
    conclude: list[Call] = field(default_factory=list)


class CellGradient(ABC):
    """A cell's backward step. A subclass arranges the gates' gradients for its products.

    Attributes:
        blocks: the blocks of H rows among the gates' gradients.
        input_rows: the blocks that multiply x and W.
        state_rows: the blocks that multiply h[t-1] and R.
        activations: the desc of each role.
    """

    blocks: int
    input_rows: Rows
    state_rows: Rows

    def __init__(self, desc: RecurrentGradDesc, direction: int) -> None:
        self._cell, self._tensors = desc.cell, desc.tensors()
        self._hidden, self._state, self._batch = desc.geometry.hidden_size, desc.geometry.state_size, desc.geometry.batch_size
        self._ragged = any(name in self._tensors for name in ("sequence_lengths_tensor", "step_mask_tensor"))
        self._clip = None if desc.cell.clip is None else (np.array(-desc.cell.clip, COMPUTE), np.array(desc.cell.clip, COMPUTE))
        self._one = np.array(1.0, COMPUTE)
        self.activations = desc.activations_of(direction)

    @property
    def work(self) -> int:
        """Rows of scratch that the activations and their derivatives need."""
        return max(kind.of(desc, COMPUTE).work for desc in self.activations for kind in (Activation, Derivative))

    @property
    def staged_values(self) -> bool:
        """Whether some gate's value must be recomputed."""
        return self._clip is not None or not all(keeps_value(desc) for desc in self.activations[:2])

    @property
    def operand_is_needed(self) -> bool:
        """Whether a product over all steps reads `Span.operand`."""
        return False

    @abstractmethod
    def shapes(self, chunk: int) -> Shapes:
        """Scratch of the compute type by name, for chunks of so many steps."""

    @abstractmethod
    def prepare(self, span: Span, scratch: Arrays) -> Prepared:
        """The work on a span."""

    @abstractmethod
    def step(self, scratch: Arrays) -> Step:
        """One step over the arrays that `prepare` returned for it."""

    # shared by the cells

    def _bound(self, element: ElementWise, x: Array, out: Array, scratch: Arrays) -> Call:
        """Wraps a function of flat arrays for whole arrays of any sizes."""
        work = scratch["work"][: element.work * x.size].reshape(element.work, *x.shape)
        return partial(element.formula, x, out, work, scratch["mask"][: x.size].reshape(x.shape), *element.constants)

    def _evaluate(
        self, desc: ActivationDesc, kept: Array, values: Array | None, slopes: Array, scratch: Arrays
    ) -> tuple[Array, list[Call]]:
        """Evaluates an activation's values and derivatives from what the forward pass kept of it.

        Args:
            desc: the activation.
            kept: its values, its arguments, or with a clip its unclipped arguments.
            values: the target of values that are not kept; None if they are not read.
            slopes: the target of the derivatives, with any strides.
            scratch: the scratch of the plan.

        Returns:
            The array that then holds the values, and the work.
        """
        function, derivative = Activation.of(desc, COMPUTE), Derivative.of(desc, COMPUTE)
        if self._clip is None:
            calls = [self._bound(derivative, kept, slopes, scratch)]
            if keeps_value(desc) or values is None:
                return kept, calls
            return values, [*calls, self._bound(function, kept, values, scratch)]
        assert values is not None
        low, high = self._clip
        outside = scratch["mask"][: kept.size].reshape(kept.shape)
        evaluate, differentiate = self._bound(function, values, values, scratch), self._bound(derivative, values, slopes, scratch)
        return values, [
            partial(np.minimum, kept, high, out=values),
            partial(np.maximum, values, low, out=values),
            *((evaluate, differentiate) if keeps_value(desc) else (differentiate, evaluate)),
            partial(np.greater, kept, high, outside),
            partial(np.copyto, slopes, 0.0, where=outside),
            partial(np.less, kept, low, outside),
            partial(np.copyto, slopes, 0.0, where=outside),
        ]

    def _values(self, scratch: Arrays, steps: int, count: int) -> Array | None:
        """Room for the values of a span's gates, or None if all are kept."""
        if not self.staged_values:
            return None
        size = self._hidden * self._batch
        return scratch["values"][: steps * count * size].reshape(steps, count, size)

    def _where_skipped(self, span: Span, array: Array, value: float) -> list[Call]:
        """Replaces an array's values [n, ..., H * B] at skipped steps."""
        if span.skipped is None:
            return []
        by_sample = array.reshape(len(array), -1, array.shape[-1] // self._batch, self._batch)
        return [partial(np.copyto, by_sample, value, where=span.skipped)]

    def _by_sample(self, array: Array) -> Array:
        return array.reshape(-1, self._batch)

    def _back(self, scratch: Arrays, part: slice = slice(None)) -> Callable[[Array, Array], object]:
        """The call that propagates the gates' gradients [rows, B] to h[t-1]; it takes them and its target, [S, B].

        Args:
            scratch: the scratch of the plan.
            part: the part of the blocks of `state_rows`.
        """
        hidden, gates = self._hidden, self.state_rows.gates[part]
        start = range(len(self.state_rows.gates))[part].start * hidden
        recurrence = scratch["recurrence"][:, start : start + len(gates) * hidden]
        if "state_dropout" not in scratch:
            # np.dot has the lower call overhead, but copies a column slice.
            return partial(np.dot if recurrence.flags.c_contiguous else np.matmul, recurrence)
        product = scratch["dropout_product"]
        factors = [(recurrence[:, at * hidden : (at + 1) * hidden], scratch["state_dropout"][gate]) for at, gate in enumerate(gates)]

        def back(gradient: Array, target: Array) -> None:
            target.fill(0.0)
            for at, (matrix, dropout) in enumerate(factors):
                np.matmul(matrix, gradient[at * hidden : (at + 1) * hidden], product)
                np.multiply(product, dropout, product)
                np.add(target, product, target)

        return back

    def _replace_state(self, scratch: Arrays) -> Step:
        """Computes dh of the previous step, for cells whose h[t-1] enters only the gates; it stays where a sample skips the step."""
        back, state = self._back(scratch), scratch["state_gradient"]
        product = scratch.get("product")

        def replace(gradient: Array, taken: Array | None) -> None:
            if taken is None or product is None:
                back(gradient, state)
            else:
                back(gradient, product)
                np.copyto(state, product, where=taken)

        return replace


class RNNGradient(CellGradient):
    """Computes da = dh * f'."""

    blocks = 1
    input_rows = state_rows = Rows(0, (0,))

    @property
    def staged_values(self) -> bool:
        return False

    def shapes(self, chunk: int) -> Shapes:
        return {"product": (self._state, self._batch)} if self._ragged else {}

    def prepare(self, span: Span, scratch: Arrays) -> Prepared:
        da = span.gradient
        _, fill = self._evaluate(self.activations[0], span.kept, None, da, scratch)
        steps = [(gradient[0], self._by_sample(gradient)) for gradient in da]
        return Prepared(fill, self._where_skipped(span, da, 0.0), steps)

    def step(self, scratch: Arrays) -> Step:
        dh, replace_state = scratch["state_gradient"].reshape(-1), self._replace_state(scratch)

        def step(da: Array, by_sample: Array, taken: Array | None) -> None:
            np.multiply(da, dh, da)
            replace_state(by_sample, taken)

        return step


class LSTMGradient(CellGradient):
    """Blocks o, i, f, c in the reserve's order, without f where it is 1 - i: o multiplies dh, the others dc."""

    def __init__(self, desc: RecurrentGradDesc, direction: int) -> None:
        super().__init__(desc, direction)
        gates = packed_gates(desc.cell)
        self.blocks, self.input_rows, self.state_rows = len(gates), Rows(0, gates), Rows(0, gates)

    @property
    def operand_is_needed(self) -> bool:
        return "projection_gradient_tensor" in self._tensors

    def shapes(self, chunk: int) -> Shapes:
        size, hidden, batch = self._hidden * self._batch, self._hidden, self._batch
        shapes: Shapes = {"cell_factor": (chunk, size), "cell_value": (chunk, size)}
        if self._ragged:
            shapes["product"] = (self._state, batch)
        if self._ragged or self._cell.couple_input_forget:
            shapes["forget"] = (chunk, size)
        if self._cell.projection:
            shapes["output_gradient"] = (hidden, batch)
        if self._cell.peephole:
            shapes |= {"peephole": (3, hidden, batch), "peephole_product": (1, size)}
        return shapes

    def prepare(self, span: Span, scratch: Arrays) -> Prepared:
        da, kept, count, last = span.gradient, span.kept, len(span.gradient), self.blocks - 1
        before, after = span.memory_before, span.memory_after
        assert before is not None
        assert after is not None
        f, g, of_cell = self.activations
        values = self._values(scratch, count, self.blocks)
        gates, evaluate_gates = self._evaluate(f, kept[:, :last], None if values is None else values[:, :last], da[:, :last], scratch)
        candidate = None if values is None else values[:, last:]
        candidates, evaluate_candidates = self._evaluate(g, kept[:, last : last + 1], candidate, da[:, last:], scratch)
        factor, value = scratch["cell_factor"][:count], scratch["cell_value"][:count]
        function, derivative = Activation.of(of_cell, COMPUTE), Derivative.of(of_cell, COMPUTE)
        o, i, new = gates[:, 0], gates[:, 1], candidates[:, 0]
        fill: list[Call] = [
            *evaluate_gates,
            *evaluate_candidates,
            self._bound(function, after, value, scratch),
            self._bound(derivative, value if keeps_value(of_cell) else after, factor, scratch),
            partial(np.multiply, factor, o, factor),
            partial(np.multiply, da[:, 0], value, da[:, 0]),
            partial(np.multiply, da[:, last], i, da[:, last]),
        ]
        select = [*self._where_skipped(span, da, 0.0), *self._where_skipped(span, factor, 0.0)]
        if span.operand is not None:
            fill.append(partial(np.multiply, o, value, span.operand))
            select += self._where_skipped(span, span.operand, 0.0)
        if self._cell.couple_input_forget:
            forget = scratch["forget"][:count]
            fill += [
                partial(np.subtract, new, before, value),
                partial(np.multiply, da[:, 1], value, da[:, 1]),
                partial(np.subtract, self._one, i, forget),
            ]
        else:
            forget = gates[:, 2]
            fill += [partial(np.multiply, da[:, 1], new, da[:, 1]), partial(np.multiply, da[:, 2], before, da[:, 2])]
            if self._ragged:
                forget = scratch["forget"][:count]
                fill.append(partial(np.copyto, forget, gates[:, 2]))
        select += self._where_skipped(span, forget, 1.0)
        steps: list[tuple[Array, ...]] = []
        for at, gradient in enumerate(da):
            views = (gradient[0], gradient[1:], factor[at], forget[at], self._by_sample(gradient))
            steps.append(views if span.state_gradients is None else (*views, span.state_gradients[at]))
        conclude: list[Call] = []
        if "peephole_sum" in scratch:
            states = (after, before, before)[: self.blocks - 1]
            conclude = [self._peephole_sum(da[:, gate], state, gate, value, scratch) for gate, state in enumerate(states)]
        return Prepared(fill, select, steps, conclude)

    def _peephole_sum(self, gradient: Array, state: Array, gate: int, products: Array, scratch: Arrays) -> Call:
        """Adds the sum over a span's steps of a gate's gradient times the cell state that the gate reads."""
        total, part = scratch["peephole_sum"].reshape(3, -1)[gate], scratch["peephole_product"][0]

        def add() -> None:
            np.multiply(gradient, state, products)
            np.add.reduce(products, axis=0, out=part)
            np.add(total, part, total)

        return add

    def step(self, scratch: Arrays) -> Step:
        dh_by_sample, dc = scratch["state_gradient"], scratch["memory_gradient"].reshape(-1)
        dh, replace_state = dh_by_sample.reshape(-1), self._replace_state(scratch)
        if self._cell.peephole:
            peephole, product = scratch["peephole"].reshape(3, -1), scratch["peephole_product"][0]

        def see_cell(gate: int, gradient: Array) -> None:
            np.multiply(peephole[gate], gradient, product)
            np.add(dc, product, dc)

        sees_cell, before_cell = self._cell.peephole, self.blocks - 2

        def through_cell(dh: Array, o: Array, others: Array, factor: Array, forget: Array) -> None:
            np.multiply(o, dh, o)
            np.multiply(factor, dh, factor)
            np.add(dc, factor, dc)
            if sees_cell:
                see_cell(0, o)
            np.multiply(others, dc, others)
            np.multiply(dc, forget, dc)
            if sees_cell:
                for at in range(before_cell):
                    see_cell(1 + at, others[at])

        if not self._cell.projection:

            def step(o: Array, others: Array, factor: Array, forget: Array, by_sample: Array, taken: Array | None) -> None:
                through_cell(dh, o, others, factor, forget)
                replace_state(by_sample, taken)

            return step

        output = scratch["output_gradient"]
        unproject, output_flat = partial(np.dot, scratch["projection"], dh_by_sample, output), output.reshape(-1)

        def projected_step(o: Array, others: Array, factor: Array, forget: Array, by_sample: Array, *rest: Array | None) -> None:
            *kept, taken = rest
            for target in kept:
                np.copyto(target, dh)  # type: ignore[arg-type]
            unproject()
            through_cell(output_flat, o, others, factor, forget)
            replace_state(by_sample, taken)

        return projected_step


class GRUGradient(CellGradient):
    """The base of both forms of GRU: dh also reaches the previous step through z, apart from the gates."""

    def shapes(self, chunk: int) -> Shapes:
        shapes: Shapes = {"product": (self._hidden, self._batch), "difference": (chunk, self._hidden * self._batch)}
        if self._ragged:
            shapes["update"] = (chunk, self._hidden * self._batch)
        return shapes

    def _interpolation(self, span: Span, z: Array, new: Array, factors: tuple[Array, Array], scratch: Arrays) -> tuple[list[Call], Array]:
        """The factors of z and of the last gate in the gradient of h = (1 - z) * n + z * h[t-1], and the z through which dh passes."""
        difference, (of_update, of_new) = scratch["difference"][: len(z)], factors
        fill: list[Call] = [
            partial(np.subtract, self._one, z, difference),
            partial(np.multiply, of_new, difference, of_new),
            partial(np.subtract, span.before, new, difference),
            partial(np.multiply, of_update, difference, of_update),
        ]
        if self._ragged:
            update = scratch["update"][: len(z)]
            return [*fill, partial(np.copyto, update, z)], update
        return fill, z


class ResetLastGradient(GRUGradient):
    """Blocks q, z, r, h, where q = r * da_h belongs to the recurrent product: all multiply dh."""

    blocks, input_rows, state_rows = 4, Rows(1, (0, 1, 2)), Rows(0, (2, 0, 1))

    def prepare(self, span: Span, scratch: Arrays) -> Prepared:
        da, kept, (f, g) = span.gradient, span.kept, self.activations
        values = self._values(scratch, len(da), 3)
        gates, evaluate_gates = self._evaluate(f, kept[:, :2], None if values is None else values[:, :2], da[:, 1:3], scratch)
        candidates, evaluate_new = self._evaluate(g, kept[:, 2:3], None if values is None else values[:, 2:], da[:, 3:], scratch)
        z, r, product = gates[:, 0], gates[:, 1], kept[:, 3]
        interpolate, update = self._interpolation(span, z, candidates[:, 0], (da[:, 1], da[:, 3]), scratch)
        fill: list[Call] = [
            *evaluate_gates,
            *evaluate_new,
            *interpolate,
            partial(np.multiply, da[:, 3], r, da[:, 0]),
            partial(np.multiply, da[:, 2], product, da[:, 2]),
            partial(np.multiply, da[:, 2], da[:, 3], da[:, 2]),
        ]
        steps = [(gradient, update[at], self._by_sample(gradient[:3])) for at, gradient in enumerate(da)]
        return Prepared(fill, [*self._where_skipped(span, da, 0.0), *self._where_skipped(span, update, 1.0)], steps)

    def step(self, scratch: Arrays) -> Step:
        dh, product = scratch["state_gradient"].reshape(-1), scratch["product"]
        back, product_flat = self._back(scratch), product.reshape(-1)

        def step(da: Array, update: Array, by_sample: Array, taken: Array | None) -> None:
            np.multiply(da, dh, da)
            np.multiply(dh, update, dh)
            back(by_sample, product)
            np.add(dh, product_flat, dh)

        return step


class ResetFirstGradient(GRUGradient):
    """Blocks r, z, h: z and h multiply dh, r the gradient of r * h[t-1] that h gives."""

    blocks, input_rows, state_rows = 3, Rows(0, (1, 0, 2)), Rows(0, (1, 0, 2))

    @property
    def operand_is_needed(self) -> bool:
        return "recurrence_gradient_tensor" in self._tensors

    def shapes(self, chunk: int) -> Shapes:
        shapes = super().shapes(chunk) | {"reset_gradient": (self._hidden, self._batch)}
        if self._ragged:
            shapes["reset"] = shapes["update"]
        return shapes

    def prepare(self, span: Span, scratch: Arrays) -> Prepared:
        da, kept, (f, g) = span.gradient, span.kept, self.activations
        values = self._values(scratch, len(da), 3)
        # The reserve has z before r.
        gates, evaluate_gates = self._evaluate(f, kept[:, :2], None if values is None else values[:, :2], da[:, 1::-1], scratch)
        candidates, evaluate_new = self._evaluate(g, kept[:, 2:3], None if values is None else values[:, 2:], da[:, 2:], scratch)
        z, r = gates[:, 0], gates[:, 1]
        interpolate, update = self._interpolation(span, z, candidates[:, 0], (da[:, 1], da[:, 2]), scratch)
        fill: list[Call] = [*evaluate_gates, *evaluate_new, *interpolate, partial(np.multiply, da[:, 0], span.before, da[:, 0])]
        select = [*self._where_skipped(span, da, 0.0), *self._where_skipped(span, update, 1.0)]
        if span.operand is not None:
            fill.append(partial(np.multiply, r, span.before, span.operand))
            select += self._where_skipped(span, span.operand, 0.0)
        reset = r
        if self._ragged:
            reset = scratch["reset"][: len(da)]
            fill.append(partial(np.copyto, reset, r))
            select += self._where_skipped(span, reset, 0.0)
        steps = [
            (gradient[0], gradient[1:], update[at], reset[at], self._by_sample(gradient[:2]), self._by_sample(gradient[2:]))
            for at, gradient in enumerate(da)
        ]
        return Prepared(fill, select, steps)

    def step(self, scratch: Arrays) -> Step:
        dh, product, reset_product = scratch["state_gradient"].reshape(-1), scratch["product"], scratch["reset_gradient"]
        back_gates, back_new = self._back(scratch, slice(0, 2)), self._back(scratch, slice(2, 3))
        dq, product_flat = reset_product.reshape(-1), product.reshape(-1)

        def step(da_r: Array, others: Array, update: Array, reset: Array, gates: Array, new: Array, taken: Array | None) -> None:
            np.multiply(others, dh, others)
            back_new(new, reset_product)
            np.multiply(da_r, dq, da_r)
            np.multiply(dq, reset, dq)
            np.multiply(dh, update, dh)
            np.add(dh, dq, dh)
            back_gates(gates, product)
            np.add(dh, product_flat, dh)

        return step


def cell_gradient(desc: RecurrentGradDesc, direction: int) -> CellGradient:
    """The cell of the walk with this index."""
    kinds: Sequence[type[CellGradient]] = (RNNGradient, LSTMGradient, ResetLastGradient, ResetFirstGradient)
    index = {"RNN": 0, "LSTM": 1, "GRU": 2 if desc.cell.linear_before_reset else 3}[desc.cell.kind]
    return kinds[index](desc, direction)
