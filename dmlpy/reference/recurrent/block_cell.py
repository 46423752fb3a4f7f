"""One step of a GRU and its gradient, as TensorFlow's GRUBlockCell and GRUBlockCellGrad describe them."""

from __future__ import annotations

import numpy as np

from dmlpy.operators.recurrent.block_cell import GRUBlockCellDesc, GRUBlockCellGradDesc
from dmlpy.reference.activation import logistic
from dmlpy.reference.registry import Array, Inputs, defines


@defines(GRUBlockCellDesc)
def gru_block_cell(desc: GRUBlockCellDesc, inputs: Inputs) -> dict[str, Array]:
    x, h_prev = inputs["x"], inputs["h_prev"]
    units = h_prev.shape[1]
    gates = logistic(np.concatenate([x, h_prev], axis=1) @ inputs["w_ru"] + inputs["b_ru"])
    r, u = gates[:, :units], gates[:, units:]
    c = np.tanh(np.concatenate([x, h_prev * r], axis=1) @ inputs["w_c"] + inputs["b_c"])
    return {"r": r, "u": u, "c": c, "h": u * h_prev + (1.0 - u) * c}


@defines(GRUBlockCellGradDesc)
def gru_block_cell_gradient(desc: GRUBlockCellGradDesc, inputs: Inputs) -> dict[str, Array]:
    h_prev, r, u, c, d_h = (inputs[name] for name in ("h_prev", "r", "u", "c", "d_h"))
    input_size = inputs["x"].shape[1]
    d_c_bar = d_h * (1.0 - u) * (1.0 - c * c)
    d_u_bar = d_h * (h_prev - c) * u * (1.0 - u)
    of_candidate = d_c_bar @ inputs["w_c"].T
    d_x2, d_h_prevr = of_candidate[:, :input_size], of_candidate[:, input_size:]
    d_r_bar = d_h_prevr * h_prev * r * (1.0 - r)
    d_r_bar_u_bar = np.concatenate([d_r_bar, d_u_bar], axis=1)
    of_gates = d_r_bar_u_bar @ inputs["w_ru"].T
    d_x1, d_h1 = of_gates[:, :input_size], of_gates[:, input_size:]
    return {"d_x": d_x1 + d_x2, "d_h_prev": d_h1 + d_h_prevr * r + d_h * u, "d_c_bar": d_c_bar, "d_r_bar_u_bar": d_r_bar_u_bar}
