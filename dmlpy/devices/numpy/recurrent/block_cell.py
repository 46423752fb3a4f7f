"""GRUBlockCell and GRUBlockCellGrad in NumPy.

[x, h_prev] is laid out as one matrix, so each pair of gates and each gradient is one product. Weights are read where they are if BLAS
can; elsewhere each launch copies them. Only what the described outputs need is computed. A launch calls functions with outputs given;
FLOAT16 is converted on reading and rounded once on writing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.devices.numpy.activation.formulas import logistic
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import Launch, Layout, PlanWithoutConstants, Pointers, arrays_of

if TYPE_CHECKING:
    from dmlpy.operators.recurrent.block_cell import GRUBlockDesc

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

_ALIGNMENT = 64


class GRUBlockPlan(PlanWithoutConstants):
    """The base of the plans of the step and of its gradient: weights as BLAS reads them, and scratch.

    Args:
        desc: a checked desc.
    """

    def __init__(self, desc: GRUBlockDesc) -> None:
        known = desc.sizes()
        self._tensors = desc.tensors()
        self._batch, self._inputs, self._units = (known[name] for name in ("batch_size", "input_size", "cell_size"))
        self._copied = {name: slices for name, slices in self._weights().items() if not self._is_matrix(name)}
        shapes = self._scratch_shapes()
        for name, (rows, columns) in self._copied.items():
            shapes[name] = (rows.stop - rows.start, columns.stop - columns.start)
        self._scratch = Layout([(name, sizes, COMPUTE) for name, sizes in shapes.items()], _ALIGNMENT)
        self.temporary_size = self._scratch.size

    @abstractmethod
    def _weights(self) -> dict[str, tuple[slice, slice]]:
        """The rows and columns of each weight matrix that the described outputs need."""

    @abstractmethod
    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays of a launch, without the copies of weights."""

    def _needs(self, *names: str) -> bool:
        """Returns whether any of these outputs is described."""
        return any(name in self._tensors for name in names)

    def _is_matrix(self, name: str) -> bool:
        """Returns whether BLAS can read the tensor's elements in place, by rows or by columns."""
        tensor = self._tensors[name]
        (rows, columns), (row_stride, column_stride) = tensor.sizes, tensor.element_strides
        by_rows, by_columns = column_stride == 1 and row_stride >= columns, row_stride == 1 and column_stride >= rows
        return tensor.data_type.numpy == COMPUTE and (by_rows or by_columns)

    def _describe_head(self) -> list[str]:
        return [
            f"NumPy, {COMPUTE} arithmetic; {self._batch} samples, {self._units} units",
            *(f"{name}: copied to packed {COMPUTE} by each launch" for name in self._copied),
        ]

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        return self.bind_arrays(arrays_of(self._tensors, tensors), temporary, persistent)

    def bind_arrays(self, arrays: Arrays, temporary: int, persistent: int | None) -> Launch:
        """Binds as `bind` does, over arrays of the described sizes, whose types may differ from the desc's."""
        scratch = self._scratch.arrays_at(temporary)
        needed = {name: arrays[name][slices] for name, slices in self._weights().items()}
        copies = [(scratch[name], needed[name]) for name in self._copied]
        work = self._work(arrays, {name: scratch.get(name, array) for name, array in needed.items()}, scratch)

        def launch(stream: int) -> None:
            with np.errstate(all="ignore"):
                for target, source in copies:
                    target[...] = source
                work(stream)

        return launch

    @abstractmethod
    def _work(self, arrays: Arrays, weights: Arrays, scratch: Arrays) -> Launch:
        """The launch's work, without the copies of weights.

        Args:
            arrays: the tensors.
            weights: the arrays that `_weights` names, in the compute type.
            scratch: what `_scratch_shapes` names.
        """


class GRUBlockCellPlan(GRUBlockPlan):
    """The step on the host."""

    @property
    def _gates(self) -> slice:
        """The gates that are computed, as the columns of r and u in w_ru."""
        first = 0 if self._needs("r", "c", "h") else self._units
        return slice(first, 2 * self._units if self._needs("u", "h") else self._units)

    def _weights(self) -> dict[str, tuple[slice, slice]]:
        rows = slice(0, self._inputs + self._units)
        weights = {"w_ru": (rows, self._gates)}
        if self._needs("c", "h"):
            weights["w_c"] = (rows, slice(0, self._units))
        return weights

    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        batch, units, gates = self._batch, self._units, self._gates
        of_gates = (batch, gates.stop - gates.start)
        shapes: dict[str, tuple[int, ...]] = {"joined": (batch, self._inputs + units), "gates": of_gates, "denominators": of_gates}
        if self._needs("c", "h"):
            shapes["candidate"] = shapes["kept"] = (batch, units)
        return shapes

    def describe(self) -> str:
        width, gates = self._inputs + self._units, self._gates
        lines = [f"gates: [x, h_prev] w_ru, [{self._batch}, {width}] by [{width}, {gates.stop - gates.start}]"]
        if self._needs("c", "h"):
            lines.append(f"candidate: [x, h_prev * r] w_c, [{self._batch}, {width}] by [{width}, {self._units}]")
        return "\n".join([*self._describe_head(), *lines])

    def _work(self, arrays: Arrays, weights: Arrays, scratch: Arrays) -> Launch:
        units, joined, gates, denominators = self._units, scratch["joined"], scratch["gates"], scratch["denominators"]
        joined_x, joined_h = joined[:, : self._inputs], joined[:, self._inputs :]
        x, h_prev, one = arrays["x"], arrays["h_prev"], np.array(1.0, COMPUTE)
        w_ru, b_ru = weights["w_ru"], arrays["b_ru"][self._gates]
        r, u = gates[:, :units], gates[:, -units:]
        r_out, u_out, c_out, h_out = (arrays.get(name) for name in "ruch")

        def gate() -> None:
            joined_x[...] = x
            joined_h[...] = h_prev
            np.matmul(joined, w_ru, gates)
            np.add(gates, b_ru, gates)
            logistic(gates, gates, denominators, one)
            if r_out is not None:
                r_out[...] = r
            if u_out is not None:
                u_out[...] = u

        if "candidate" not in scratch:
            return lambda stream: gate()

        w_c, b_c, candidate, kept = weights["w_c"], arrays["b_c"], scratch["candidate"], scratch["kept"]

        def step(stream: int) -> None:
            gate()
            if h_out is not None:
                np.multiply(u, joined_h, kept)
            np.multiply(joined_h, r, joined_h)
            np.matmul(joined, w_c, candidate)
            np.add(candidate, b_c, candidate)
            np.tanh(candidate, candidate)
            if c_out is not None:
                c_out[...] = candidate
            if h_out is not None:
                np.subtract(one, u, u)
                np.multiply(candidate, u, candidate)
                np.add(candidate, kept, h_out)

        return step


class GRUBlockCellGradPlan(GRUBlockPlan):
    """The gradient on the host."""

    @property
    def _needs_gates(self) -> bool:
        """Whether any output other than d_c_bar, from which the others follow, is described."""
        return self._needs("d_x", "d_h_prev", "d_r_bar_u_bar")

    def _weights(self) -> dict[str, tuple[slice, slice]]:
        weights: dict[str, tuple[slice, slice]] = {}
        first = 0 if self._needs("d_x") else self._inputs
        if self._needs_gates:
            weights["w_c"] = slice(first, self._inputs + self._units), slice(0, self._units)
        if self._needs("d_x", "d_h_prev"):
            last = self._inputs + self._units if self._needs("d_h_prev") else self._inputs
            weights["w_ru"] = slice(first, last), slice(0, 2 * self._units)
        return weights

    def _scratch_shapes(self) -> dict[str, tuple[int, ...]]:
        batch, units = self._batch, self._units
        shapes: dict[str, tuple[int, ...]] = {"d_c_bar": (batch, units), "d_r_bar_u_bar": (batch, 2 * units)}
        if self._needs_gates:
            shapes["work"] = (batch, units)
        for name, (rows, _) in self._weights().items():
            shapes[f"product_{name}"] = (batch, rows.stop - rows.start)
        return shapes

    def describe(self) -> str:
        gradients = {"w_c": ("d_c_bar", self._units), "w_ru": ("d_r_bar_u_bar", 2 * self._units)}
        lines = ["d_c_bar: element by element"]
        for name, (rows, _) in self._weights().items():
            gradient, columns = gradients[name]
            lines.append(f"{gradient} {name}^T: [{self._batch}, {columns}] by [{columns}, {rows.stop - rows.start}]")
        return "\n".join([*self._describe_head(), *lines])

    def _work(self, arrays: Arrays, weights: Arrays, scratch: Arrays) -> Launch:
        units, one = self._units, np.array(1.0, COMPUTE)
        d_c_bar, d_ru_bar = scratch["d_c_bar"], scratch["d_r_bar_u_bar"]
        d_r_bar, d_u_bar, work = d_ru_bar[:, :units], d_ru_bar[:, units:], scratch.get("work")
        h_prev, r, u, c, d_h = (arrays[name] for name in ("h_prev", "r", "u", "c", "d_h"))
        d_x_out, d_h_prev_out, d_c_bar_out, d_ru_bar_out = (arrays.get(name) for name in ("d_x", "d_h_prev", "d_c_bar", "d_r_bar_u_bar"))

        # Where neither operand has the compute type, `dtype` makes the arithmetic's type what the result's is.
        def candidate() -> None:
            np.subtract(one, u, d_u_bar)
            np.multiply(d_u_bar, d_h, d_u_bar)
            np.multiply(c, c, d_c_bar, dtype=COMPUTE)
            np.subtract(one, d_c_bar, d_c_bar)
            np.multiply(d_c_bar, d_u_bar, d_c_bar)
            if d_c_bar_out is not None:
                d_c_bar_out[...] = d_c_bar

        if work is None:
            return lambda stream: candidate()

        inputs, w_c, from_candidate = self._inputs, weights["w_c"].T, scratch["product_w_c"]
        d_h_prevr = from_candidate[:, -units:]

        def gate() -> None:
            candidate()
            np.subtract(h_prev, c, work, dtype=COMPUTE)
            np.multiply(d_u_bar, work, d_u_bar)
            np.multiply(d_u_bar, u, d_u_bar)
            np.matmul(d_c_bar, w_c, from_candidate)
            np.subtract(one, r, d_r_bar)
            np.multiply(d_r_bar, r, d_r_bar)
            np.multiply(d_r_bar, h_prev, d_r_bar)
            np.multiply(d_r_bar, d_h_prevr, d_r_bar)
            if d_ru_bar_out is not None:
                d_ru_bar_out[...] = d_ru_bar

        if "w_ru" not in weights:
            return lambda stream: gate()

        w_ru, from_gates = weights["w_ru"].T, scratch["product_w_ru"]

        def gradient(stream: int) -> None:
            gate()
            np.matmul(d_ru_bar, w_ru, from_gates)
            if d_x_out is not None:
                np.add(from_gates[:, :inputs], from_candidate[:, :inputs], d_x_out)
            if d_h_prev_out is not None:
                np.multiply(d_h_prevr, r, d_h_prevr)
                np.multiply(d_h, u, work, dtype=COMPUTE)
                np.add(work, d_h_prevr, work)
                np.add(from_gates[:, -units:], work, d_h_prev_out)

        return gradient
