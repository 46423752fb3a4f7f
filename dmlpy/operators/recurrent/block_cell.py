"""One step of a GRU and its gradient, as TensorFlow's GRUBlockCell and GRUBlockCellGrad describe them.

Letters: B batch, I input size, H units. The gates r and u lie side by side in `w_ru` and `b_ru`, r first. The reset gate acts before the
product, on h_prev; `u` weighs the old state (DirectML's z).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from dmlpy.description.bfloat16_numbers import is_float
from dmlpy.description.coercion import brief
from dmlpy.description.descs import SomeOutputDesc
from dmlpy.description.markers import In, Out, derived
from dmlpy.description.sizes import Sizes
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DescError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping


class GRUBlockDesc(SomeOutputDesc):
    """The base of the step and its gradient."""

    accepts_owned = False
    support = (SupportRow("1_0", dims=(1, 2), T=FLOATS),)

    x: Annotated[TensorDesc, In("batch_size input_size")]
    """The input of the step."""

    h_prev: Annotated[TensorDesc, In("batch_size cell_size")]
    """The state before the step."""

    w_ru: Annotated[TensorDesc, In("input_and_cell_size 2*cell_size")]
    """The weights of r, then those of u. The rows are for x, then for h_prev."""

    w_c: Annotated[TensorDesc, In("input_and_cell_size cell_size")]
    """The weights of c. The rows are for x, then for h_prev * r."""

    @derived("input_size + cell_size")
    def input_and_cell_size(self, symbols: Sizes) -> int:
        return symbols["input_size"] + symbols["cell_size"]


class GRUBlockCellDesc(GRUBlockDesc, extension="GRU_BLOCK_CELL"):
    """DMLPY_GRU_BLOCK_CELL_OPERATOR_DESC: one step of gated recurrent units."""

    formula = """\
[r, u] = sigmoid([x, h_prev] w_ru + b_ru)
c = tanh([x, h_prev * r] w_c + b_c)
h = u * h_prev + (1 - u) * c"""

    b_ru: Annotated[TensorDesc, In("2*cell_size")]
    """The biases of r, then those of u."""

    b_c: Annotated[TensorDesc, In("cell_size")]
    """The biases of c."""

    r: Annotated[TensorDesc | None, Out("batch_size cell_size")] = None
    """The reset gate."""

    u: Annotated[TensorDesc | None, Out("batch_size cell_size")] = None
    """The update gate."""

    c: Annotated[TensorDesc | None, Out("batch_size cell_size")] = None
    """The candidate."""

    h: Annotated[TensorDesc | None, Out("batch_size cell_size")] = None
    """The state after the step."""


class GRUBlockCellGradDesc(GRUBlockDesc, extension="GRU_BLOCK_CELL_GRAD"):
    """DMLPY_GRU_BLOCK_CELL_GRAD_OPERATOR_DESC: the gradient of one step, without that of its weights.

    `gru_block_cell_weight_gradients` makes those of weights and biases from it.

    TensorFlow's page on the gradient has six slips: it names the two weight gradients the wrong way round; writes `w_r_x` for `w_u_x` and
    `w_r_h_prev` for `w_u_h_prev` in the terms of u; `h` for `h_prev` in `d_u_bar`; `u` for the product of `u` and `d_h` in its second
    `d_h_prev`; and never defines `d_r_bar`. The equations here are those that the operator computes: they agree with TensorFlow's results
    to 1e-7 on random inputs, where each slip of the page, taken literally, is off by 15% to 165%.
    """

    formula = """\
d_c_bar = d_h * (1 - u) * (1 - c * c)
d_u_bar = d_h * (h_prev - c) * u * (1 - u)
[d_x2, d_h_prevr] = d_c_bar w_c^T
d_r_bar = d_h_prevr * h_prev * r * (1 - r)
[d_x1, d_h1] = [d_r_bar, d_u_bar] w_ru^T
d_x = d_x1 + d_x2
d_h_prev = d_h1 + d_h_prevr * r + d_h * u"""

    b_ru: Annotated[TensorDesc | None, In("2*cell_size")] = None
    """The biases of r and u, which are not read."""

    b_c: Annotated[TensorDesc | None, In("cell_size")] = None
    """The biases of c, which are not read."""

    r: Annotated[TensorDesc, In("batch_size cell_size")]
    """The reset gate that the step computed."""

    u: Annotated[TensorDesc, In("batch_size cell_size")]
    """The update gate that the step computed."""

    c: Annotated[TensorDesc, In("batch_size cell_size")]
    """The candidate that the step computed."""

    d_h: Annotated[TensorDesc, In("batch_size cell_size")]
    """The upstream gradient of h."""

    d_x: Annotated[TensorDesc | None, Out("batch_size input_size")] = None
    """The gradient of x."""

    d_h_prev: Annotated[TensorDesc | None, Out("batch_size cell_size")] = None
    """The gradient of h_prev."""

    d_c_bar: Annotated[TensorDesc | None, Out("batch_size cell_size")] = None
    """The gradient of the argument of tanh."""

    d_r_bar_u_bar: Annotated[TensorDesc | None, Out("batch_size 2*cell_size")] = None
    """The gradient of the argument of sigmoid, r then u."""


class GRUBlockWeightGradients(NamedTuple):
    """The gradients of a step's weights and biases: `d_w_ru` [I + H, 2H], `d_w_c` [I + H, H], `d_b_ru` [2H], `d_b_c` [H]."""

    d_w_ru: Any
    d_w_c: Any
    d_b_ru: Any
    d_b_c: Any


def gru_block_cell_weight_gradients(x: Any, h_prev: Any, r: Any, d_c_bar: Any, d_r_bar_u_bar: Any) -> GRUBlockWeightGradients:
    """Computes the gradients of w_ru, w_c, b_ru and b_c, which GRUBlockCellGrad leaves to the caller.

    d_w_ru = [x, h_prev]^T d_r_bar_u_bar, d_w_c = [x, h_prev * r]^T d_c_bar; the biases' are sums over the batch. (TensorFlow's page
    names the two weight gradients the wrong way round.) Sums are float32 also for FLOAT16; the results have the arguments' type.

    Args:
        x: [B, I], NumPy's or CuPy's, like all others.
        h_prev: [B, H].
        r: the output of GRUBlockCell, [B, H].
        d_c_bar: the output of GRUBlockCellGrad, [B, H].
        d_r_bar_u_bar: the output of GRUBlockCellGrad, [B, 2H].

    Raises:
        DescError: an argument is no array, or has other sizes; all of them at once.
    """
    given = {"x": x, "h_prev": h_prev, "r": r, "d_c_bar": d_c_bar, "d_r_bar_u_bar": d_r_bar_u_bar}
    if problems := _array_problems(given):
        raise DescError("gru_block_cell_weight_gradients", problems)
    # NumPy's functions dispatch to the arrays' library.
    wide_x, wide_h, wide_r, of_c, of_ru = (item.astype(np.float32) for item in given.values())
    d_w_ru = np.concatenate([wide_x, wide_h], axis=1).T @ of_ru
    d_w_c = np.concatenate([wide_x, wide_h * wide_r], axis=1).T @ of_c
    return GRUBlockWeightGradients(*(item.astype(x.dtype) for item in (d_w_ru, d_w_c, of_ru.sum(0), of_c.sum(0))))


def _array_problems(given: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the arguments of `gru_block_cell_weight_gradients`."""
    wrong = {name: item for name, item in given.items() if len(getattr(item, "shape", ())) != 2 or not hasattr(item, "astype")}
    wrong |= {name: item for name, item in given.items() if name not in wrong and item.dtype.kind not in "iu" and not is_float(item.dtype)}
    if wrong:
        return [Problem("array.kind", name, brief(item), "a matrix of numbers: an array of NumPy or CuPy") for name, item in wrong.items()]
    (batch, _), units = given["x"].shape, given["h_prev"].shape[1]
    wanted = {"h_prev": units, "r": units, "d_c_bar": units, "d_r_bar_u_bar": 2 * units}
    why = (f"x is {listed(given['x'].shape)}, h_prev is {listed(given['h_prev'].shape)}",)
    return [
        Problem("array.shape", name, listed(given[name].shape), listed((batch, columns)), why)
        for name, columns in wanted.items()
        if tuple(given[name].shape) != (batch, columns)
    ]
