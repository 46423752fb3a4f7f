"""The operations of recurrent layers: those of their matrix products."""

from __future__ import annotations

from typing import Any

from dmlpy.devices.flops import flops, of_products
from dmlpy.operators.recurrent.block_cell import GRUBlockDesc
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc


@flops(RecurrentDesc)
@of_products
def forward(desc: Any) -> int:
    """The products with the input and the states, and of a projection."""
    sizes = desc.geometry
    rows = sizes.seq_length * sizes.batch_size * sizes.num_directions
    projection = sizes.state_size * sizes.hidden_size if desc.cell.projection else 0
    return int(2 * rows * (sizes.gates * sizes.hidden_size * (sizes.input_size + sizes.state_size) + projection))


@flops(RecurrentGradDesc)
@of_products
def gradient(desc: Any) -> int:
    """The products of the backward recurrence, and one for each described gradient."""
    sizes, tensors = desc.geometry, desc.tensors()
    rows = sizes.seq_length * sizes.batch_size * sizes.num_directions
    gate_rows = sizes.gates * sizes.hidden_size
    widths = {"input": sizes.input_size, "weight": sizes.input_size, "recurrence": sizes.state_size}
    columns = sizes.state_size + sum(width for name, width in widths.items() if f"{name}_gradient_tensor" in tensors)
    projections = desc.cell.projection * (1 + ("projection_gradient_tensor" in tensors))
    return int(2 * rows * (gate_rows * columns + projections * sizes.state_size * sizes.hidden_size))


@flops(GRUBlockDesc)
@of_products
def block_cell(desc: Any) -> int:
    """The products with both weights; of the gradient those with their transposes."""
    return 2 * int(desc.x.sizes[0]) * int(desc.w_ru.element_count + desc.w_c.element_count)
