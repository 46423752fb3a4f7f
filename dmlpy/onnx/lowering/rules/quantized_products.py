"""Matrix products and convolutions of quantized numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from dmlpy import x
from dmlpy.description.enums import DataType
from dmlpy.graphs.views import broadcast_sizes
from dmlpy.messages.naming import listed
from dmlpy.onnx.lowering.rules import lowers
from dmlpy.onnx.nodes.windows import compute_windows

if TYPE_CHECKING:
    from dmlpy.onnx.nodes.node import Node
    from dmlpy.x.expressions import Expression


@dataclass(frozen=True)
class Sides:
    """The sides of a matrix product with four dimensions each.

    Attributes:
        a: `[*batch, m, k]`.
        b: `[*batch, k, n]`.
        sizes: what the product has in ONNX.
    """

    a: Expression
    b: Expression
    sizes: tuple[int, ...]

    @property
    def folded(self) -> tuple[int, ...]:
        """The sizes of the product with four dimensions."""
        return (*self.a.sizes[:-1], self.b.sizes[-1])


def sides(node: Node, first: int, second: int) -> Sides:
    """Two inputs as the sides of a product, as NumPy's `matmul` takes them: vectors get a dimension, others are broadcast by strides."""
    a_sizes, b_sizes = node.sizes(first), node.sizes(second)
    if not a_sizes or not b_sizes:
        raise node.refusal("onnx.invalid", node.input_label(first if not a_sizes else second), "a scalar", "a vector or matrices")
    a, b = node.x(first), node.x(second)
    a = a.reshape(1, -1) if len(a_sizes) == 1 else a
    b = b.reshape(-1, 1) if len(b_sizes) == 1 else b
    batch = broadcast_sizes(a.sizes[:-2], b.sizes[:-2])
    if batch is None or a.sizes[-1] != b.sizes[-2]:
        expected = f"a factor of {listed(a_sizes)}: its rows, and sizes before those that broadcast"
        raise node.refusal("onnx.invalid", node.input_label(second), listed(b_sizes), expected)
    four = (prod(batch[:-1]), *batch[-1:]) if len(batch) > 2 else batch
    operands = [side.broadcast(*batch, *side.sizes[-2:]).reshape(*four, *side.sizes[-2:]).with_leading_ones(4) for side in (a, b)]
    rows, columns = a.sizes[-2:-1] if len(a_sizes) > 1 else (), b.sizes[-1:] if len(b_sizes) > 1 else ()
    return Sides(operands[0], operands[1], (*batch, *rows, *columns))


def by_row(node: Node, index: int, rows: int) -> Expression | None:
    """A scale or zero point of a product's left side or result: `[1, 1, 1 or rows, 1]`; None if it is left out."""
    return _parameter(node, index, rows, row=True)


def by_column(node: Node, index: int, columns: int) -> Expression | None:
    """A scale or zero point of a product's right side: `[1, 1, 1, 1 or columns]`; None if it is left out."""
    return _parameter(node, index, columns, row=False)


def _parameter(node: Node, index: int, count: int, *, row: bool) -> Expression | None:
    if not node.has(index):
        return None
    sizes = node.sizes(index)
    wanted = (count, 1) if row else (1, count)
    if prod(sizes) == 1 or (prod(sizes) == count and (len(sizes) == 1 or sizes[-2:] == wanted)):
        return node.x(index).reshape(1, 1, -1, 1) if row else node.x(index).reshape(1, 1, 1, -1)
    expected = f"one element, or one for each {'row' if row else 'column'}: {count}"
    raise node.refusal("onnx.sizes", node.input_label(index), listed(sizes), expected)


def require(node: Node, index: int, tensor: Expression | None) -> Expression:
    """A scale, which an operator cannot do without."""
    node.value(index)
    assert tensor is not None
    return tensor


def _float_scale(node: Node, index: int, tensor: Expression | None) -> Expression:
    """A scale as DirectML's quantized operators take it: FLOAT32."""
    scale = require(node, index, tensor)
    return scale if scale.data_type is DataType.FLOAT32 else x.cast(scale, output_data_type=DataType.FLOAT32)


@lowers("MatMulInteger")
def matmul_integer(node: Node) -> Expression:
    """MATRIX_MULTIPLY_INTEGER."""
    both = sides(node, 0, 1)
    return x.matrix_multiply_integer(both.a, both.b, by_row(node, 2, both.a.sizes[2]), by_column(node, 3, both.b.sizes[3]))


@lowers("QLinearMatMul")
def qlinear_matmul(node: Node) -> Expression:
    """QUANTIZED_LINEAR_MATRIX_MULTIPLY; scales of halves are cast."""
    both = sides(node, 0, 3)
    rows, columns = both.a.sizes[2], both.b.sizes[3]
    return x.quantized_linear_matrix_multiply(
        both.a,
        _float_scale(node, 1, by_row(node, 1, rows)),
        both.b,
        _float_scale(node, 4, by_column(node, 4, columns)),
        _float_scale(node, 6, by_row(node, 6, rows)),
        by_row(node, 2, rows),
        by_column(node, 5, columns),
        by_row(node, 7, rows),
        output_data_type=node.data_type(7),
    )


@lowers("ConvInteger")
def convolution_integer(node: Node) -> Expression:
    """CONVOLUTION_INTEGER; of a width alone with a height of 1."""
    windows = compute_windows(node, node.sizes(0)[2:], node.attribute("kernel_shape") or node.sizes(1)[2:])
    return x.convolution_integer(
        windows.add_dimensions(node.x(0)),
        windows.add_dimensions(node.x(1)),
        per_channel(node, 2),
        per_channel(node, 3),
        **windows.members(node),
    )


@lowers("QLinearConv")
def qlinear_convolution(node: Node) -> Expression:
    """QUANTIZED_LINEAR_CONVOLUTION; of a width alone with a height of 1."""
    windows = compute_windows(node, node.sizes(0)[2:], node.attribute("kernel_shape") or node.sizes(3)[2:])
    scale, zero_point = _float_scale(node, 4, per_channel(node, 4)), per_channel(node, 5)
    if zero_point is not None:  # DirectML rejects a mix of per-channel and scalar parameters
        channels = max(scale.sizes[1], zero_point.sizes[1])
        scale, zero_point = (tensor.broadcast(1, channels, 1, 1) for tensor in (scale, zero_point))
    return x.quantized_linear_convolution(
        windows.add_dimensions(node.x(0)),
        _float_scale(node, 1, per_channel(node, 1)),
        windows.add_dimensions(node.x(3)),
        scale,
        _float_scale(node, 6, per_channel(node, 6)),
        per_channel(node, 2),
        zero_point,
        per_channel(node, 8),
        per_channel(node, 7),
        **windows.members(node),
        output_data_type=node.data_type(7),
    )


def per_channel(node: Node, index: int) -> Expression | None:
    """A scalar or a vector of channels as `[1, channels, 1, 1]`; None if it is left out."""
    return node.x(index).reshape(1, -1, 1, 1) if node.has(index) else None
