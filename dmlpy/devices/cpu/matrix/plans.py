"""The compiled plans of GEMM."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeVar

from dmlpy.description.enums import DataType, MatrixTransform
from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cpu.plans import plan, rounding_plan
from dmlpy.operators.activation import ActivationDesc, ActivationReluDesc
from dmlpy.operators.elementwise.ranges import ElementWiseClipDesc
from dmlpy.operators.matrix import GEMMDesc, MatrixProductDesc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dmlpy.devices.cpu.matrix.plan import PairProductPlan, TransposedProductPlan
    from dmlpy.devices.plan import Plan

Product = TypeVar("Product", bound=MatrixProductDesc)

_MIN_ROWS, _MIN_COLUMNS = 4, 16
"""With fewer rows, packing B would take as long as multiplying it; with fewer columns, most of a panel would be empty."""
_SMALL_MULTIPLICATIONS = 1 << 14
"""So few take less time than NumPy takes to begin a product."""
_MULTIPLICATIONS_IN_PLACE = 1 << 21
"""The most multiplications of several rows or matrices that one thread computes in place, at least as fast as BLAS; for more, BLAS may use
several threads."""
_MULTIPLICATIONS_OF_ONE = 1 << 8
"""The most multiplications of a narrow matrix of a batch, of which NumPy begins each product anew."""
_MOST_JOINED_ROWS = 32
"""The most rows of matrices that are joined: larger ones fill tiles of their own nearly as well."""
_MIN_TERMS = 16
"""With fewer terms, rounding A would take as long as multiplying it."""


@plan(GEMMDesc)
def product_plan(desc: GEMMDesc) -> Plan | str:
    """Tensors whose rows kernels do not read are copied, and so is a transposed A unless it is read in place."""
    from dmlpy.devices.cpu.tensor_copies import layout_copies_plan

    rows_in_place = _with_rows_in_place(desc)
    in_place = _plan_in_place(rows_in_place)
    if not isinstance(in_place, str):
        return in_place
    return layout_copies_plan(_without_transposition(rows_in_place), _plan_in_place, (), None, True) or in_place


def _without_transposition(desc: GEMMDesc) -> GEMMDesc:
    """The same product of an A that is not transposed: its rows are the columns of the desc's."""
    if desc.trans_a is not MatrixTransform.TRANSPOSE:
        return desc
    return desc.replace(a_tensor=_turned(desc.a_tensor), trans_a=MatrixTransform.NONE)


def _with_rows_in_place(desc: GEMMDesc) -> GEMMDesc:
    """The same product without the transposition of an A that has one term, or whose terms are contiguous: kernels read its rows."""
    plain = _without_transposition(desc)
    return plain if plain.a_tensor.sizes[-1] == 1 or plain.a_tensor.element_strides[-1] == 1 else desc


def _plan_in_place(desc: GEMMDesc) -> Plan | str:
    """The plan on tensors as they are. Matrices of a batch are joined as rows first. Small, narrow products read B in place."""
    from dmlpy.devices.cpu.float32_copies import float32_copy_plan
    from dmlpy.devices.cpu.matrix.plan import ProductPlan, b_strides

    desc = with_joined_rows(desc)
    is_float32 = desc.a_tensor.data_type is DataType.FLOAT32
    output, a = desc.output_tensor, desc.a_tensor
    assert output is not None  # guaranteed by the check
    is_narrow = (output.sizes[-2] < _MIN_ROWS and is_float32) or output.sizes[-1] < _MIN_COLUMNS
    multiplications, has_several = output.element_count * a.sizes[-1], prod(output.sizes[:-1]) > 1 and output.sizes[-2] < _MIN_ROWS
    has_many = prod(output.sizes[:-2]) > 1 and multiplications <= prod(output.sizes[:-2]) * _MULTIPLICATIONS_OF_ONE
    in_place = (has_several and is_float32) or (has_many and b_strides(desc)[1] == 1)
    is_small = multiplications <= (_MULTIPLICATIONS_IN_PLACE if in_place else _SMALL_MULTIPLICATIONS)
    if is_narrow and (desc.trans_a is MatrixTransform.TRANSPOSE or not is_small):
        return f"the result has fewer than {_MIN_ROWS} rows or {_MIN_COLUMNS} columns: BLAS is as fast"
    terms = a.sizes[-1]
    if desc.trans_a is MatrixTransform.TRANSPOSE:
        return _transposed_plan(desc, output)
    if (terms > 1 and a.element_strides[-1] != 1) or output.element_strides[-1] != 1:
        return "compiled matrix products need rows of A and of the result whose elements are contiguous"
    if terms > 1 and 1 not in b_strides(desc):
        return "compiled matrix products need a B whose rows or columns are contiguous"
    if desc.c_tensor is not None and desc.c_tensor.element_strides[-1] not in (0, 1):
        return "compiled matrix products need rows of C whose elements are contiguous, or are one"
    function = desc.fused_activation
    if function is not None and not isinstance(function, ActivationDesc | ElementWiseClipDesc):
        return f"{function.short_name()} is not computed with a compiled matrix product"
    if not is_float32 and not (function is None or isinstance(function, ActivationReluDesc | ElementWiseClipDesc)):
        return float32_copy_plan(desc)
    # A row of halves is multiplied in place where B's terms are contiguous: panels of FLOAT32 would be twice the memory to read.
    is_row_of_halves = not is_float32 and output.sizes[-2] == 1 and b_strides(desc)[0] == 1
    if is_narrow or (is_row_of_halves and multiplications <= _MULTIPLICATIONS_IN_PLACE):
        from dmlpy.devices.cpu.matrix.plan import SmallProductPlan

        turned = _with_a_column_as_row(desc)
        return SmallProductPlan(desc if turned is None else turned, swaps=turned is not None)
    return ProductPlan(desc)


def _with_a_column_as_row(desc: GEMMDesc) -> GEMMDesc | None:
    """The product of B and A in the other order, whose column of results is a row that vectors run along, if the tensors allow it."""
    output, a, b = desc.output_tensor, desc.a_tensor, desc.b_tensor
    assert output is not None  # guaranteed by the check
    if output.sizes[-1] != 1 or output.sizes[-2] == 1 or output.element_strides[-2] != 1 or desc.fused_activation is not None:
        return None
    if desc.c_tensor is not None and desc.c_tensor.element_strides[-2] not in (0, 1):
        return None
    row = b if desc.trans_b is MatrixTransform.TRANSPOSE else _turned(b)
    if row.sizes[-1] > 1 and row.element_strides[-1] != 1:
        return None
    others = {
        name: None if tensor is None else _turned(tensor) for name, tensor in (("output_tensor", output), ("c_tensor", desc.c_tensor))
    }
    return desc.replace(a_tensor=row, b_tensor=a, trans_b=MatrixTransform.TRANSPOSE, **others)


def _turned(tensor: TensorDesc) -> TensorDesc:
    """The transposed matrices of a tensor."""
    (*batch, rows, columns), (*steps, row, column) = tensor.sizes, tensor.element_strides
    return TensorDesc(data_type=tensor.data_type, sizes=(*batch, columns, rows), strides=(*steps, column, row))


def with_joined_rows(desc: GEMMDesc) -> GEMMDesc:
    """The product with matrices of a batch as rows of one matrix: see `join_rows`."""
    if desc.trans_a is MatrixTransform.TRANSPOSE:
        return desc
    return join_rows(desc, [name for name in desc.tensors() if name != "b_tensor"])


def join_rows(desc: Product, of_rows: Sequence[str]) -> Product:
    """The product with matrices of a batch as rows of one matrix, as far as all are multiplied by the same B and lie at equal distances.

    Sequences that begin with the steps are such a batch: matrices [steps, 1, terms] times a B that is broadcast.

    Args:
        desc: a checked desc.
        of_rows: the places of A, of the output, and of what has as many rows.
    """
    output = desc.tensors()["output_tensor"]
    while output.sizes[-2] <= _MOST_JOINED_ROWS:
        axis = max((axis for axis, size in enumerate(output.sizes[:-2]) if size > 1), default=None)
        if axis is None or desc.b_tensor.element_strides[axis] != 0:
            break
        rows = output.sizes[-2]
        several = {name: tensor for name, tensor in desc.tensors().items() if name in of_rows}
        if rows > 1 and any(operand.element_strides[axis] != rows * operand.element_strides[-2] for operand in several.values()):
            break
        joined = {name: _joined(tensor, axis, rows) for name, tensor in several.items()}
        desc = desc.replace(**joined, b_tensor=_joined(desc.b_tensor, axis, None))
        output = joined["output_tensor"]
    return desc


def _joined(tensor: TensorDesc, axis: int, rows: int | None) -> TensorDesc:
    """A tensor without the matrices along an axis of the batch, which are rows instead if it has as many rows for each."""
    sizes, strides = list(tensor.sizes), list(tensor.element_strides)
    if rows is not None:
        strides[-2] = strides[axis if rows == 1 else -2]
        sizes[-2] = rows * sizes[axis]
    sizes[axis] = 1
    return tensor.replace(sizes=sizes, strides=strides)


@rounding_plan(GEMMDesc)
def pair_plan(desc: GEMMDesc) -> PairProductPlan | None:
    """The plan of a checked desc whose factors are rounded to BFLOAT16, or are such numbers, if it is faster."""
    from dmlpy.devices.cpu.isa import multiplies_bfloat16
    from dmlpy.devices.cpu.matrix.plan import ProductPlan

    if desc.a_tensor.data_type is DataType.FLOAT16 or not multiplies_bfloat16():
        return None
    usual = product_plan(desc)
    if type(usual) is not ProductPlan or desc.a_tensor.sizes[-1] < _MIN_TERMS:
        return None
    from dmlpy.devices.cpu.matrix.plan import PairProductPlan

    return PairProductPlan(with_joined_rows(desc))


def _transposed_plan(desc: GEMMDesc, output: TensorDesc) -> TransposedProductPlan | str:
    """The plan for a transposed A."""
    from dmlpy.devices.cpu.matrix.plan import TransposedProductPlan

    if desc.a_tensor.data_type is not DataType.FLOAT32:
        return "a compiled matrix product with a transposed A is of FLOAT32"
    if desc.c_tensor is not None or desc.fused_activation is not None or desc.alpha != 1.0 or prod(output.sizes[:-2]) != 1:
        return "a compiled matrix product with a transposed A is of one matrix, without C, alpha and a fused function"
    if desc.trans_b is MatrixTransform.TRANSPOSE or any(tensor.element_strides[-1] != 1 for tensor in desc.tensors().values()):
        return "a compiled matrix product with a transposed A needs rows whose elements are contiguous, and no transposed B"
    return TransposedProductPlan(desc)
