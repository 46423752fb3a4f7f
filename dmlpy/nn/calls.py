"""`Call`: one call of a recurrent layer on a caller's arrays, and its backward pass.

Letters: T steps, B batch, I input size, H hidden units, D directions, G gates (LSTM 4, GRU 3, RNN 1).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from dmlpy.description.gate_order import GateOrder
from dmlpy.messages.naming import alternatives
from dmlpy.messages.problems import DescError, Problem
from dmlpy.nn.arrays import Array, Native, receive, receive_lengths
from dmlpy.nn.gates import copy_gates
from dmlpy.nn.layers import Layer, Lease, Sizes, Workspace, lease

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dmlpy.devices import Device


class RecurrentGradients(NamedTuple):
    """The gradients of a layer's arguments, in their shapes; None for those that were not given."""

    x: Array
    w: Array
    r: Array
    b: Array | None
    h0: Array | None
    c0: Array | None = None


class Call:
    """A call: its arrays checked and copied into a workspace, its results, and its backward pass."""

    def __init__(
        self,
        subject: str,
        layer: Layer,
        arrays: Mapping[str, Array | None],
        lengths: Any,
        order: GateOrder,
        device: Device | str | None,
        *,
        keep: bool,
    ) -> None:
        self.subject, self.layer, self.order = subject, layer, order
        self.home, given = receive(subject, arrays, device)
        self.shapes = {name: tuple(array.shape) for name, array in given.items()}
        if problems := _size_problems(layer, tuple(self.shapes.items())):
            raise DescError(subject, problems)
        steps, batch, inputs = self.shapes["x"]
        self.sizes = Sizes(steps, batch, inputs, self.shapes["r"][-1])
        self.dtype = given["x"].dtype
        counted = None if lengths is None else receive_lengths(subject, lengths, self.home, batch, steps)
        self.lease: Lease | None = None
        with self.home.current():
            if steps and batch:
                taken = lease(self.home, layer, self.sizes, self.dtype, ragged=counted is not None, trains=keep)
                results = self._compute(taken.space, given, counted)
                taken.space.note_use()
                if keep:
                    self.lease = taken
                else:
                    taken.close()
            else:
                results = self._without_steps(given)
            self.results = [self.home.wrap(array) for array in results]

    @property
    def _is_bidirectional(self) -> bool:
        return self.layer.directions == 2

    def _by_direction(self, array: Native) -> Native:
        """A caller's array with an axis of directions."""
        return array if self._is_bidirectional else array[None]

    def _compute(self, space: Workspace, given: Mapping[str, Native], lengths: Native | None) -> list[Native]:
        space.x[...] = given["x"]
        weights = [given[name] for name in ("w", "r", "b") if name in given]
        space.set_weights(self.order, weights, lambda: self._fill_weights(space, given))
        for name, buffer in (("h0", space.h0), ("c0", space.c0)):
            if buffer is not None:
                buffer[...] = self._by_direction(given[name]) if name in given else 0
        if space.lengths is not None:
            space.lengths[...] = lengths
        space.run()
        states = [state if self._is_bidirectional else state[0] for state in (space.h, space.c) if state is not None]
        return [array.copy() for array in (space.y, *states)]

    def _fill_weights(self, space: Workspace, given: Mapping[str, Native]) -> None:
        for name in ("w", "r"):
            self._copy_gates(getattr(space, name), self._by_direction(given[name]), inwards=True)
        self._fill_bias(space.b, given.get("b"))

    def _copy_gates(self, target: Native, source: Native, *, inwards: bool) -> None:
        orders = (self.order, GateOrder.DIRECTML) if inwards else (GateOrder.DIRECTML, self.order)
        copy_gates(target, source, self.layer.cell, *orders)

    def _fill_bias(self, buffer: Native, bias: Native | None) -> None:
        rows = self.layer.gates * self.sizes.units
        given = 0 if bias is None else bias.shape[-1]
        for start in (0, rows):
            if start < given:
                self._copy_gates(buffer[:, start : start + rows], self._by_direction(bias)[:, start : start + rows], inwards=True)
            else:
                buffer[:, start : start + rows] = 0

    def _without_steps(self, given: Mapping[str, Native]) -> list[Native]:
        """The results where there is no sample or no step: no output, and the states that no step changed."""
        xp, directions, (steps, batch, _, units) = self.home.xp, self.layer.directions, self.sizes
        shape = (directions, batch, units) if self._is_bidirectional else (batch, units)
        names = ("h0", "c0") if self.layer.cell == "LSTM" else ("h0",)
        states = [xp.array(given[name]) if name in given else xp.zeros(shape, self.dtype) for name in names]
        return [xp.zeros((steps, batch, directions * units), self.dtype), *states]

    def backward(self, dy: Array | None = None, dh: Array | None = None, dc: Array | None = None) -> RecurrentGradients:
        """The gradients of the arguments, given those of the results."""
        given = {name: array for name, array in (("dy", dy), ("dh", dh), ("dc", dc)) if array is not None}
        subject = f"{self.subject}_vjp's backward"
        if dc is not None and self.layer.cell != "LSTM":
            raise DescError(subject, [Problem("field.form", "dc", "given", "None", (f"{self.subject} has no cell state",))])
        upstream = receive(subject, given, self.home.device)[1] if given else {}
        shapes = dict(zip(("dy", "dh", "dc"), (tuple(result.shape) for result in self.results), strict=False))
        problems = [
            Problem("array.shape", name, str(list(array.shape)), str(list(shapes[name])), (f"{name[1:]} has these sizes",))
            for name, array in upstream.items()
            if tuple(array.shape) != shapes[name]
        ]
        if problems:
            raise DescError(subject, problems)
        with self.home.current():
            if self.lease is not None:
                self.lease.follow(self.home.device)
                gradients = self._differentiate(self.lease.space, upstream)
                self.lease.space.note_use()
            else:
                gradients = {name: self.home.xp.zeros(shape, self.dtype) for name, shape in self.shapes.items()}
                # No step lies between the first states and the last.
                gradients |= {f"{name[1]}0": self.home.xp.array(array) for name, array in upstream.items() if f"{name[1]}0" in gradients}
            wrapped = {name: self.home.wrap(array) for name, array in gradients.items()}
        return RecurrentGradients(**dict.fromkeys(("b", "h0", "c0")) | wrapped)

    def _differentiate(self, space: Workspace, upstream: Mapping[str, Native]) -> dict[str, Native]:
        for name, buffer in space.upstream.items():
            array = upstream.get(f"d{name}")
            buffer[...] = 0 if array is None else array if name == "y" else self._by_direction(array)
        space.differentiate()
        return {name: self._gradient(name, space.gradients[name]) for name in self.shapes}

    def _gradient(self, name: str, buffer: Native) -> Native:
        """A gradient in the shape and the order of the caller's array."""
        if name == "x":
            return buffer.copy()
        gradient = self.home.xp.empty(self.shapes[name], self.dtype)
        target = self._by_direction(gradient)
        rows = self.layer.gates * self.sizes.units
        if name in ("h0", "c0"):
            target[...] = buffer
        else:
            for start in range(0, target.shape[1], rows):
                self._copy_gates(target[:, start : start + rows], buffer[:, start : start + rows], inwards=False)
        return gradient


@lru_cache
def _size_problems(layer: Layer, given: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[Problem, ...]:
    """The problems of the arguments' sizes, which are given by name."""
    shapes = dict(given)
    lead: list[int | None] = []
    both: tuple[str, ...] = ()
    if layer.directions == 2:
        lead, both = [2], ("direction is bidirectional: the forward direction's, then the backward one's",)
    gates, problems = layer.gates, list[Problem]()
    units, turned = _units(shapes["r"], gates)
    if len(shapes["x"]) != 3:
        problems.append(Problem("dims.support", "x", f"{len(shapes['x'])}-D {list(shapes['x'])}", "[steps, batch, input size]"))
        batch, inputs = None, None
    else:
        _, batch, inputs = shapes["x"]
    rows = f"{gates} gates of H = {units} rows" if gates > 1 else f"H = {units} rows"
    why = (f"{rows}, H being the last size of r{' transposed' if turned else ''}", *both)
    expected: dict[str, list[list[int | None]]] = {
        "w": [[*lead, gates * units, inputs]],
        "r": [[*lead, gates * units, units]],
        "b": [[*lead, gates * units], [*lead, 2 * gates * units]],
        "h0": [[*lead, batch, units]],
        "c0": [[*lead, batch, units]],
    }
    for name, forms in expected.items():
        if name in shapes and not any(_fits(shapes[name], form) for form in forms):
            texts = ["[" + ", ".join("any" if size is None else str(size) for size in form) + "]" for form in forms]
            reasons = (f"[B, H]: B is the batch of x, H = {units} the units of r",) if name in ("h0", "c0") else why
            remedy = _size_remedy(name, shapes[name], forms, gates)
            problems.append(Problem("array.shape", name, str(list(shapes[name])), alternatives(texts), reasons, remedy))
    if not problems and (units == 0 or inputs == 0):
        found = f"H = {units}, I = {inputs}"
        problems.append(Problem("array.shape", "r" if units == 0 else "x", found, "at least one unit and one input"))
    return tuple(problems)


def _units(shape: tuple[int, ...], gates: int) -> tuple[int, bool]:
    """H of the matrix r, [..., G H, H], and whether r is given transposed, as Keras has it."""
    turned = len(shape) > 1 and gates > 1 and shape[-1] == gates * shape[-2] > 0
    return (shape[-2] if turned else shape[-1] if shape else 0), turned


def _size_remedy(name: str, shape: tuple[int, ...], forms: Sequence[Sequence[int | None]], gates: int) -> str | None:
    """The remedy for an array that is transposed, or whose elements are right in other axes."""
    if name in ("w", "r") and len(shape) > 1 and _fits((*shape[:-2], shape[-1], shape[-2]), forms[0]):
        turned = f"{name}.T" if len(shape) == 2 else f"{name}.swapaxes(1, 2)"
        return f"pass {turned}" + (", and if the weights are Keras's, gates='keras'" if gates > 1 else "")
    many = [size for size in shape if size != 1]
    for form in forms:
        same = name == "b" or many == [size for size in form if size != 1]
        if same and None not in form and math.prod(shape) == math.prod(size or 0 for size in form):
            return f"pass {name}.reshape({', '.join(map(str, form))})"
    return None


def _fits(shape: tuple[int, ...], form: Sequence[int | None]) -> bool:
    return len(shape) == len(form) and all(size is None or size == given for given, size in zip(shape, form, strict=True))
