"""`Expression`: the tensor that an input, a constant or an operator gives, with operators, views and indexing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dmlpy.description.coercion import as_uint, brief
from dmlpy.description.enums import DataType, TensorFlags
from dmlpy.description.flags import flag_problems, is_set
from dmlpy.description.symbolic_sizes import is_symbolic, slice_indices
from dmlpy.description.tensors import TensorDesc
from dmlpy.graphs import views
from dmlpy.messages.foreign_members import foreign_members
from dmlpy.messages.naming import listed
from dmlpy.messages.problems import DescError, Problem
from dmlpy.x import calls, composition
from dmlpy.x.arguments import refuse_others
from dmlpy.x.policies import current_policy
from dmlpy.x.producers import TensorOperand, TensorRef
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import graphviz

    from dmlpy.compiler import Flags
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.enums import FeatureLevel
    from dmlpy.devices import Device
    from dmlpy.devices.graphs import CompiledGraph
    from dmlpy.graphs import Graph

Array = np.ndarray[Any, Any]


@foreign_members
class Expression(views.TensorViews, TensorOperand):
    """The tensor that an input, a constant or an operator of a graph gives. The functions of `dmlpy.x` make and take expressions.

    `+ - * / % **`, comparisons, `@` and indexing make expressions as NumPy would make arrays: operands are broadcast by strides, and
    numbers and arrays may be on either side. A comparison is UINT8, 0 or 1; integers are divided as ELEMENT_WISE_DIVIDE does.
    Compare expressions with `is`.
    """

    __slots__ = ()
    __hash__ = object.__hash__
    __array_ufunc__ = None  # an array on the left leaves the operation to the expression

    @property
    def tensor(self) -> TensorDesc:
        """The tensor's desc."""
        return self._ref.tensor

    @property
    def sizes(self) -> tuple[int, ...]:
        """The elements along each dimension."""
        return self.tensor.sizes

    @property
    def data_type(self) -> Any:
        """The type of the elements, a `DataType`."""
        return self.tensor.data_type

    def viewed(self, tensor: TensorDesc) -> Self:
        """Views the same bytes under another desc, which may also have another data type."""
        return type(self)(TensorRef(self._ref.producer, self._ref.index, tensor))

    def _copied_by(self, nodes: Iterable[views.CopyNode]) -> Self:
        """The output of the last of some nodes, of which each reads the one before."""
        copy = self
        for node in nodes:
            given: dict[str, Any] = dict(node.members)
            if node.quantization_tensors:
                given["quantization_tensors"] = list(node.quantization_tensors)
            if node.data_type is not None:
                given["output_data_type"] = node.data_type
            copy = self._of(one(node.operator, input_tensor=copy, **given))
        return copy

    def _of(self, other: Expression) -> Self:
        """The other expression in this one's class."""
        return type(self)(other._ref)

    # In one call

    def graph(self, name: str | None = None) -> Graph:
        """The graph whose only output, `output`, the expression is; see `dmlpy.x.graph` for several."""
        return composition.graph(self, name)

    def compile(
        self,
        device: Device | str | None = None,
        feature_level: FeatureLevel | str | int | None = None,
        flags: Flags | Sequence[Flags] = (),
    ) -> CompiledGraph:
        """Compiles the graph whose only output, `output`, the expression is; arguments and errors are those of `dmlpy.compile`."""
        return composition.compile(self, device, feature_level, flags)

    def to_graphviz(self) -> graphviz.Digraph:
        """The picture of the graph whose only output the expression is."""
        return self.graph().to_graphviz()

    def _repr_svg_(self) -> str | None:
        return self.graph()._repr_svg_()

    def _repr_html_(self) -> str:
        return self.graph()._repr_html_()

    def __repr__(self) -> str:
        producer = self._ref.producer
        return f"<expression {self.tensor.summary()} of {producer.name}{f' {producer.origin}' if producer.origin else ''}>"

    # Operators

    def __add__(self, other: Expression | Array | float) -> Self:
        return self._scaled(1.0, other) if self._takes_scale_bias(other) else self._binary("ADD", self, other)

    def __radd__(self, other: Array | float) -> Self:
        return self._scaled(1.0, other) if self._takes_scale_bias(other) else self._binary("ADD", other, self)

    def __sub__(self, other: Expression | Array | float) -> Self:
        return self._scaled(1.0, -other) if self._takes_scale_bias(other) else self._binary("SUBTRACT", self, other)

    def __rsub__(self, other: Array | float) -> Self:
        return self._scaled(-1.0, other) if self._takes_scale_bias(other) else self._binary("SUBTRACT", other, self)

    def __mul__(self, other: Expression | Array | float) -> Self:
        return self._scaled(other, 0.0) if self._takes_scale_bias(other) else self._binary("MULTIPLY", self, other)

    def __rmul__(self, other: Array | float) -> Self:
        return self._scaled(other, 0.0) if self._takes_scale_bias(other) else self._binary("MULTIPLY", other, self)

    def __truediv__(self, other: Expression | Array | float) -> Self:
        return self._binary("DIVIDE", self, other)

    def __rtruediv__(self, other: Array | float) -> Self:
        return self._binary("DIVIDE", other, self)

    def __mod__(self, other: Expression | Array | float) -> Self:
        return self._binary("MODULUS_FLOOR", self, other)

    def __rmod__(self, other: Array | float) -> Self:
        return self._binary("MODULUS_FLOOR", other, self)

    def __pow__(self, other: Expression | Array | float) -> Self:
        if calls.is_number(other):
            return self._of(one("ELEMENT_WISE_CONSTANT_POW", input_tensor=self, exponent=other))
        return self._of(one("ELEMENT_WISE_POW", input_tensor=self, exponent_tensor=other))

    def __rpow__(self, other: Array | float) -> Self:
        return self._of(one("ELEMENT_WISE_POW", input_tensor=other, exponent_tensor=self))

    def __neg__(self) -> Self:
        return self._of(one("ELEMENT_WISE_NEGATE", input_tensor=self))

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._of(one("ELEMENT_WISE_ABS", input_tensor=self))

    def __lt__(self, other: Expression | Array | float) -> Self:  # type: ignore[misc]
        return self._binary("LOGICAL_LESS_THAN", self, other)

    def __le__(self, other: Expression | Array | float) -> Self:  # type: ignore[misc]
        return self._binary("LOGICAL_LESS_THAN_OR_EQUAL", self, other)

    def __gt__(self, other: Expression | Array | float) -> Self:  # type: ignore[misc]
        return self._binary("LOGICAL_GREATER_THAN", self, other)

    def __ge__(self, other: Expression | Array | float) -> Self:  # type: ignore[misc]
        return self._binary("LOGICAL_GREATER_THAN_OR_EQUAL", self, other)

    def __eq__(self, other: Expression | Array | float) -> Self:  # type: ignore[override]
        return self._binary("LOGICAL_EQUALS", self, other)

    def __ne__(self, other: Expression | Array | float) -> Self:  # type: ignore[override]
        return self._of(one("ELEMENT_WISE_LOGICAL_NOT", input_tensor=self._binary("LOGICAL_EQUALS", self, other)))

    def __matmul__(self, other: Expression | Array) -> Self:
        return self._of(_product(self, Expression(calls.ref_of(other))))

    def __rmatmul__(self, other: Array) -> Self:
        return self._of(_product(Expression(calls.ref_of(other)), self))

    def __getitem__(self, key: Any) -> Self:
        """The elements that NumPy's basic indexing takes: integers, slices with steps of either sign, `...` and `None`.

        Raises:
            DescError: another index, one out of range, or a slice of no elements, which no tensor has.
        """
        offsets, sizes, strides, kept = _windows(key, self.sizes)
        return self.slice(offsets, sizes, strides).reshape(*(kept or [1]))

    __iter__ = None

    def __bool__(self) -> bool:
        remedy = "x.if_(condition, a, b) chooses element by element"
        problem = Problem(
            "expression.bool", "expression", repr(self), "no condition: it has no values before the graph runs", remedy=remedy
        )
        raise DescError(f"Expression {caller_location()}", [problem])

    def _binary(self, name: str, a: Any, b: Any) -> Self:
        return self._of(one(f"ELEMENT_WISE_{name}", a_tensor=a, b_tensor=b))

    def _takes_scale_bias(self, other: Any) -> bool:
        """Whether ELEMENT_WISE_IDENTITY with a scale and a bias can add or multiply the operand."""
        return calls.is_number(other) and self.tensor.data_type.name in ("FLOAT32", "FLOAT16", "BFLOAT16")

    def _scaled(self, scale: Any, bias: Any) -> Self:
        return self._of(one("ELEMENT_WISE_IDENTITY", input_tensor=self, scale_bias={"Scale": scale, "Bias": bias}))


@refuse_others
def input(
    name: str,
    tensor: TensorDesc | Sequence[int],
    data_type: DataType | str | int | np.dtype[Any] | type[np.generic] | None = None,
    *,
    owned_by_dml: bool = False,
) -> Expression:
    """An input of the graph.

    Args:
        name: the name to bind it by.
        tensor: the desc of what is bound, or its sizes, laid out by the policy that holds here.
        data_type: the type of the elements: FLOAT32 where sizes are given; of a desc, the one that it has.
        owned_by_dml: whether it is bound at initialisation; the flag of a desc has this effect, too.

    Raises:
        DescError: no such tensor, or a desc of another type.
    """
    problems = flag_problems(owned_by_dml=owned_by_dml)
    if not isinstance(tensor, TensorDesc):
        given = DataType.FLOAT32 if data_type is None else data_type
        tensor = current_policy().laid_out(TensorDesc(data_type=given, sizes=tensor))
    elif data_type is not None and tensor.replace(data_type=data_type).data_type is not tensor.data_type:
        problems.append(Problem("field.form", "data_type", brief(data_type), f"{tensor.data_type.name}, as the tensor desc has, or none"))
    if is_set(owned_by_dml):
        tensor = tensor.replace(flags=TensorFlags.OWNED_BY_DML)
    if problems := [*problems, *tensor.problems(output=False)]:
        raise DescError(f"input {name!r} {caller_location()}", problems)
    return Expression(calls.input_ref(name, tensor))


@refuse_others
def constant(array: Array) -> Expression:
    """An array that the graph holds: a constant node, which needs feature level 6_2.

    Args:
        array: of any type that DirectML has; bool becomes UINT8, and `int4` and `uint4` of `ml_dtypes` are packed.

    Raises:
        DescError: no array, or of another type.
    """
    try:
        return Expression(calls.ref_of(array))
    except DescError as error:
        raise DescError(f"constant {caller_location()}", [problem.under("array") for problem in error.problems]) from None


def operator(kind: type[OperatorDesc] | OperatorDesc, /, **members: Any) -> tuple[Any, ...]:
    """An operator by its class, also one that DirectML lacks: `operator(dml.RNNGradDesc, input_tensor=x, ...)`.

    Args:
        kind: the operator's class, or a desc that is complete except for the members that follow.
        **members: its members by Python name; an expression or an array stands for a tensor.

    Returns:
        The outputs in the struct's order; None for those that the operator does not have with these members.

    Raises:
        DescError: every broken rule, with the caller's line.
    """
    return tuple(None if ref is None else Expression(ref) for ref in calls.call(kind, **members))


def one(operator: str, /, **members: Any) -> Expression:
    """The only output of an operator; see `dmlpy.x.calls.call`."""
    (ref,) = calls.call(operator, **members)
    assert ref is not None
    return Expression(ref)


def several(operator: str, /, **members: Any) -> tuple[Any, ...]:
    """The outputs of an operator in the struct's order; None for those that it does not have with these members."""
    return tuple(None if ref is None else Expression(ref) for ref in calls.call(operator, **members))


def _product(a: Expression, b: Expression) -> Expression:
    """The matrix product as NumPy's `@`: leading dimensions are broadcast, and vectors get a dimension that the result loses."""
    left, right = a if len(a.sizes) > 1 else a.reshape(1, -1), b if len(b.sizes) > 1 else b.reshape(-1, 1)
    batch = views.broadcast_sizes(left.sizes[:-2], right.sizes[:-2])
    if batch is None or left.sizes[-1] != right.sizes[-2]:
        why = "the last dimension of a is the one before the last of b, and the dimensions before those broadcast"
        raise DescError(
            f"@ {caller_location()}",
            [Problem("expression.sizes", "b", listed(b.sizes), f"sizes that {listed(a.sizes)} can be multiplied by", (why,))],
        )
    (m, k), n = left.sizes[-2:], right.sizes[-1]
    folded = batch if len(batch) <= 2 else (math.prod(batch[:-1]), batch[-1])  # GEMM takes 4 dimensions
    tensors = [
        side.broadcast(*batch, *last).reshape(*folded, *last).with_leading_ones(4) for side, last in ((left, (m, k)), (right, (k, n)))
    ]
    product = one("GEMM", a_tensor=tensors[0], b_tensor=tensors[1])
    sizes = (*batch, *([m] if len(a.sizes) > 1 else []), *([n] if len(b.sizes) > 1 else []))
    return product.reshape(*(sizes or [1]))


def _windows(key: Any, sizes: tuple[int, ...]) -> tuple[list[int], list[int], list[int], list[int]]:
    """The offsets, sizes and strides of SLICE1 for an index, and the sizes that the result is viewed with."""
    parts = list(key) if isinstance(key, tuple) else [key]
    named = sum(part is not None and part is not Ellipsis for part in parts)
    if named > len(sizes) or sum(part is Ellipsis for part in parts) > 1:
        raise _bad_index("key", brief(key), f"at most {len(sizes)} indices and one ..., for sizes {listed(sizes)}")
    at = next((place for place, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (len(sizes) - named)
    offsets: list[int] = []
    windows: list[int] = []
    strides: list[int] = []
    kept: list[int] = []
    for part in parts:
        if part is None:
            kept.append(1)
            continue
        axis = len(offsets)
        first, count, step = _index_range(part, sizes[axis], axis)
        offsets.append(first if step > 0 else first + (count - 1) * step)
        windows.append((count - 1) * abs(step) + 1)
        strides.append(step)
        kept += [count] if isinstance(part, slice) else []
    return offsets, windows, strides, kept


def _index_range(part: Any, size: int, axis: int) -> tuple[int, int, int]:
    """The first index, the number of elements and the step of one dimension's index."""
    if isinstance(part, slice):
        try:
            symbolic = is_symbolic(size) or is_symbolic(part.start) or is_symbolic(part.stop)
            first, stop, step = slice_indices(part, size) if symbolic else part.indices(size)
        except (TypeError, ValueError):
            raise _bad_index(f"dimension {axis}", brief(part), "a slice of integers with a step other than 0") from None
        count = max(0, (stop - first + step - (1 if step > 0 else -1)) // step)
        if not count:
            raise _bad_index(f"dimension {axis}", brief(part), f"a slice that takes some of the {size} elements: no tensor is empty")
        return first, count, step
    try:
        index = as_uint(part)
    except ValueError:
        raise _bad_index(f"dimension {axis}", brief(part), "an integer, a slice, ... or None") from None
    if not -size <= index < size:
        raise _bad_index(f"dimension {axis}", brief(part), f"{-size} to {size - 1}")
    return index % size, 1, 1


def _bad_index(path: str, found: str, expected: str) -> DescError:
    return DescError(f"index {caller_location()}", [Problem("expression.index", path, found, expected)])
