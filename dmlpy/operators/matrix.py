"""The matrix product: GEMM, general matrix multiplication."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Annotated

from dmlpy.description.coercion import Float, Spelled, default
from dmlpy.description.descs import OperatorDesc
from dmlpy.description.enums import FeatureLevel, MatrixTransform
from dmlpy.description.markers import In, Out, TensorField, Violation, rule
from dmlpy.description.sizes import Sizes, Term, parse
from dmlpy.description.support import FLOATS, SupportRow
from dmlpy.description.tensors import TensorDesc
from dmlpy.operators.activation import FusedFunction, unfusable_function


class MatrixProductDesc(OperatorDesc):
    """A product of two matrices, for each entry of a batch."""

    if TYPE_CHECKING:
        # Declared by each struct, at its place in the C struct's order.
        @property
        def a_tensor(self) -> TensorDesc: ...
        @property
        def b_tensor(self) -> TensorDesc: ...
        @property
        def output_tensor(self) -> TensorDesc | None: ...

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        tensor: TensorDesc | None = getattr(self, field.name)
        if tensor is None or not field.marker.terms[0].run:
            return super().size_remedy(field, symbols)
        if len(tensor.sizes) > 4:
            return self._folded(tensor)
        if len(tensor.sizes) == 1 and field.name in ("a_tensor", "b_tensor"):
            return f"a column is sizes {[*tensor.sizes, 1]}" if field.name == "b_tensor" else None
        return _repeated(tensor, symbols.infer(self.terms(field)))

    def _folded(self, tensor: TensorDesc) -> str | None:
        """A remedy for tensors of more than 4 dimensions: the leading ones folded into one, if every tensor's strides allow it."""
        others = [other for other in self.tensors().values() if len(other.sizes) == len(tensor.sizes)]
        batch = tuple(max(column) for column in zip(*(other.sizes[:-2] for other in others), strict=True))
        folded = _folded(tensor, batch)
        if folded is None or None in [_folded(other, batch) for other in others]:
            return None
        sizes, strides = folded
        if all(other.is_packed and other.sizes[:-2] == batch for other in others):
            return f"fold the leading dimensions of every tensor, as all are packed: sizes {sizes} here"
        return f"fold the leading dimensions of every tensor: sizes {sizes}, strides {strides} here"


def _folded(tensor: TensorDesc, batch: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """A tensor's sizes and strides, repeated to a batch, with all but the last three dimensions merged; None if no stride does that."""
    fits = all(size in (1, most) for size, most in zip(tensor.sizes, batch, strict=False))
    if not fits or len(tensor.element_strides) != len(tensor.sizes):
        return None
    sizes = (*batch, *tensor.sizes[-2:])
    strides = [stride if actual == size else 0 for actual, size, stride in zip(tensor.sizes, sizes, tensor.element_strides, strict=True)]
    steps = [(size, stride) for size, stride in zip(sizes[:-3], strides, strict=False) if size > 1] or [(1, 0)]
    if any(outer != size * inner for (_, outer), (size, inner) in pairwise(steps)):
        return None
    return [math.prod(sizes[:-3]), *sizes[-3:]], [steps[-1][1], *strides[-3:]]


def _repeated(tensor: TensorDesc, wanted: Sequence[int] | None) -> str | None:
    """The strides that repeat a tensor along dimensions of size 1, or missing ones, to the wanted size; None if it has another size."""
    if wanted is None or len(tensor.sizes) > len(wanted) or len(tensor.element_strides) != len(tensor.sizes):
        return None
    missing = len(wanted) - len(tensor.sizes)
    sizes, strides = (1,) * missing + tensor.sizes, (0,) * missing + tensor.element_strides
    if sizes == tuple(wanted) or any(size not in (1, other) for size, other in zip(sizes, wanted, strict=True)):
        return None
    steps = [0 if size == 1 else stride for size, stride in zip(sizes, strides, strict=True)]
    return f"strides of 0 repeat it: sizes {list(wanted)}, strides {steps}"


class GEMMDesc(MatrixProductDesc, dml="GEMM"):
    """DML_GEMM_OPERATOR_DESC: the product of two matrices, for each entry of a batch.

    A beta of 0 multiplies C like any other: what is not finite there gives NaN. A fused SOFTMAX is that of each row of the result.

    DirectML was seen to refuse more than 65,535 in a dimension of the batch (its issue 650). Its documentation has no such limit, and
    neither has dmlpy.
    """

    formula = "output = f(alpha * A B + beta * C)"
    support = (SupportRow("1_0", dims=4, T=FLOATS), SupportRow("4_0", dims=(2, 4), T=FLOATS))

    a_tensor: Annotated[TensorDesc, In("*batch m k")]
    """The matrix A. With trans_a TRANSPOSE it has k rows and m columns."""

    b_tensor: Annotated[TensorDesc, In("*batch k n")]
    """The matrix B. With trans_b TRANSPOSE it has n rows and k columns."""

    c_tensor: Annotated[TensorDesc | None, In("*batch m n")] = None
    """The matrix C that is added to the product. Strides of 0 repeat a row or a column. If absent, nothing is added."""

    output_tensor: Annotated[TensorDesc | None, Out("*batch m n", required=True)] = None
    """The result."""

    trans_a: Spelled[MatrixTransform] = default(MatrixTransform.NONE)
    """Whether A is transposed first."""

    trans_b: Spelled[MatrixTransform] = default(MatrixTransform.NONE)
    """Whether B is transposed first."""

    alpha: Float = default(1.0)
    """The factor of the product."""

    beta: Float = default(1.0)
    """The factor of C."""

    fused_activation: FusedFunction = default(None)
    """The function f of the result, described without tensors. If absent, the result is unchanged."""

    def terms(self, field: TensorField) -> tuple[Term, ...]:
        transposed = {"a_tensor": self.trans_a, "b_tensor": self.trans_b}.get(field.name)
        if transposed is MatrixTransform.TRANSPOSE:
            return parse("*batch k m" if field.name == "a_tensor" else "*batch n k")
        return field.marker.terms

    def size_remedy(self, field: TensorField, symbols: Sizes) -> str | None:
        return super().size_remedy(field, symbols) or self._transforms()

    def _transforms(self) -> str | None:
        """The transforms with which the sizes agree, if the given ones do not and exactly one other choice does."""
        a, b, c = self.a_tensor.sizes, self.b_tensor.sizes, self.output_tensor or self.c_tensor
        if len(a) < 2 or len(b) < 2:
            return None
        inner = []
        fitting = []
        for trans_a, trans_b in product(MatrixTransform, repeat=2):
            m, k = a[-2:] if trans_a is MatrixTransform.NONE else a[:-3:-1]
            rows, n = b[-2:] if trans_b is MatrixTransform.NONE else b[:-3:-1]
            if k == rows:
                inner.append((trans_a, trans_b))
                if c is None or c.sizes[-2:] == (m, n):
                    fitting.append((trans_a, trans_b))
        # An output that was inferred has the sizes of the wrong choice: the factors alone decide then.
        fitting = fitting or inner
        if len(fitting) != 1 or fitting == [(self.trans_a, self.trans_b)]:
            return None
        changed = [f"{name} {fit}" for name, fit in zip(("trans_a", "trans_b"), fitting[0], strict=True) if fit is not getattr(self, name)]
        return f"{' and '.join(changed)} {'fits' if len(changed) == 1 else 'fit'} these sizes"

    @rule("the fused function is one that DirectML fuses into GEMM: element-wise, from 6_0 on CLIP, from 6_1 on SOFTMAX")
    def fused_function(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        also = {"ELEMENT_WISE_CLIP": "6_0", "ACTIVATION_SOFTMAX": "6_1", "ACTIVATION_SOFTMAX1": "6_1"}
        yield from unfusable_function("fused_activation", self.fused_activation, level, also)

    @rule("the axes of a fused SOFTMAX1 are dimensions of the output")
    def fused_axes(self, symbols: Sizes, level: FeatureLevel) -> Iterable[Violation]:
        count = len((self.output_tensor or self.a_tensor).sizes)
        for index, axis in enumerate(getattr(self.fused_activation, "axes", ())):
            if not 0 <= axis < count:
                yield Violation(f"fused_activation.axes[{index}]", str(axis), f"a dimension of the output, 0 to {count - 1}")
