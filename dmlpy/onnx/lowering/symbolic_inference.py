"""Sizes of a node's outputs as formulas of its inputs' sizes, where these are symbolic.

ONNX's inference gives them for numbers only. Each formula here is compared with what it gives for the example; an operator without one
depends on the numbers.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from dmlpy.description.sized_arrays import SizedArray
from dmlpy.description.symbolic_sizes import is_symbolic, slice_indices, specialize_all
from dmlpy.graphs.views import broadcast_sizes
from dmlpy.onnx.nodes.equations import result_sizes
from dmlpy.onnx.nodes.node import NotLowered
from dmlpy.onnx.nodes.resizing import resized
from dmlpy.onnx.nodes.windows import compute_windows, sliced_window, transposed_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from dmlpy.onnx.loading.values import Value
    from dmlpy.onnx.nodes.node import Node

Formula: TypeAlias = "Callable[[Node], Sequence[tuple[int, ...] | None]]"
"""The sizes of a node's outputs; None, or nothing, for those that depend on the numbers."""

_FORMULAS: dict[str, Formula] = {}
_SINCE = 7
"""The opset from which on the formulas hold: before, attributes say how operators broadcast."""


def example_of(value: Value) -> Value:
    """The value with the example's numbers for symbolic sizes."""
    if value.sizes is None or not any(map(is_symbolic, value.sizes)):
        return value
    return replace(value, sizes=_example(value.sizes))


def _depends_on_symbols(value: Value) -> bool:
    return isinstance(value.array, SizedArray) or any(map(is_symbolic, value.sizes or ()))


def _example(sizes: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(size.example if is_symbolic(size) else size for size in sizes)


def with_symbolic_sizes(node: Node, found: Sequence[Value | None], stated: Collection[int]) -> tuple[Value | None, ...]:
    """The outputs of a node with the formulas of their sizes.

    Args:
        node: the node, whose inputs may have symbolic sizes.
        found: its outputs for the example.
        stated: the indices of outputs whose sizes do not follow from the example: the file states them, or they are formulas.
    """
    if not any(value is not None and _depends_on_symbols(value) for value in node.inputs):
        return tuple(found)
    formula = _FORMULAS.get(node.op_type) if not node.domain and node.opset >= _SINCE else None
    known: list[tuple[int, ...] | None] = []
    if formula is not None and all(value is None or value.sizes is not None for value in node.inputs):
        with suppress(NotLowered):  # it needs sizes or elements that are computed while the model runs
            known = [*formula(replace(node, inputs=tuple(map(_with_unknown_sizes, node.inputs))))]
    outputs: list[Value | None] = []
    for index, value in enumerate(found):
        sizes = _combined(value.sizes, known[index]) if value is not None and index < len(known) else None
        if value is not None and sizes is not None:
            outputs.append(replace(value, sizes=sizes))
            continue
        if value is not None and index not in stated and any(isinstance(size, int) for size in value.sizes or ()):
            specialize_all()
        outputs.append(value)  # sizes that are not known for numbers either are left to the operators that the node becomes
    return tuple(outputs)


class _UnknownSize:
    """A size that is computed while the model runs, as is what is computed with it. To `isinstance` it is an integer."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    def _same(self, *_: Any) -> _UnknownSize:
        return self

    def _refuse(self, *_: Any) -> NoReturn:
        raise NotLowered(())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _same
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __index__ = __int__ = __float__ = __hash__ = _refuse
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __divmod__ = __rdivmod__ = __abs__ = __round__ = _refuse


_UNKNOWN: Any = _UnknownSize()


def _is_unknown(size: Any) -> bool:
    return type(size) is _UnknownSize


def _with_unknown_sizes(value: Value | None) -> Value | None:
    """The value with `_UNKNOWN` for sizes that are not known."""
    if value is None or value.is_static:
        return value
    return replace(value, sizes=tuple(size if isinstance(size, int) else _UNKNOWN for size in value.sizes or ()))


def _combined(found: Sequence[Any] | None, known: Sequence[Any] | None) -> tuple[Any, ...] | None:
    """Sizes that are known for the example, with formulas in place of their numbers; None if these differ."""
    if found is None or known is None or len(found) != len(known):
        return None
    sizes = []
    for inferred, size in zip(found, known, strict=True):
        if isinstance(inferred, int) and (_is_unknown(size) or inferred != _example([size])[0]):
            return None
        sizes.append(size if isinstance(inferred, int) else inferred)
    return tuple(sizes)


def _formula(op_types: str) -> Callable[[Formula], Formula]:
    """Registers a formula for operators, whose names are separated by spaces."""

    def register(function: Formula) -> Formula:
        for op_type in op_types.split():
            assert op_type not in _FORMULAS
            _FORMULAS[op_type] = function
        return function

    return register


@_formula(
    "Abs Acos Acosh Asin Asinh Atan Atanh Bernoulli BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumProd CumSum "
    "DequantizeLinear Elu Erf Exp EyeLike Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity "
    "InstanceNormalization IsInf IsNaN LRN LeakyRelu Log LogSoftmax LpNormalization MeanVarianceNormalization Mish Neg "
    "Not PRelu QuantizeLinear RMSNormalization RandomNormalLike RandomUniformLike Reciprocal Relu ReverseSequence Round "
    "ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh "
    "ThresholdedRelu Trilu"
)
def _like_first(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [node.sizes(0)]


@_formula("Dropout")
def _all_like_first(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [node.sizes(0)] * 2


@_formula("LayerNormalization")
def _normalize(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", -1), len(sizes))
    return [sizes, *[(*sizes[:axis], *[1] * (len(sizes) - axis))] * 2]


@_formula("BatchNormalization")
def _first_like_first(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [node.sizes(0)] if sum(map(bool, node.proto.output)) == 1 else []


@_formula(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or "
    "Pow Sub Sum Where Xor"
)
def _broadcast(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [_broadcast_sizes([node.sizes(index) for index in range(len(node.inputs))])]


def _broadcast_sizes(given: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Sizes to which others broadcast, as ONNX infers it: one that is not known does to any that is not 1."""
    if not any(_is_unknown(size) for sizes in given for size in sizes):
        return broadcast_sizes(*given)
    rank = max(map(len, given))
    found: list[Any] = []
    for at in range(-rank, 0):
        column = [sizes[at] for sizes in given if -at <= len(sizes)]
        known = broadcast_sizes((1,), *((size,) for size in column if not _is_unknown(size)))
        if known is None:
            return None
        found.append(_UNKNOWN if known[0] == 1 and any(map(_is_unknown, column)) else known[0])
    return tuple(found)


@_formula("MatMul MatMulInteger QLinearMatMul")
def _product(node: Node) -> Sequence[tuple[int, ...] | None]:
    first, second = node.sizes(0), node.sizes(3 if node.op_type == "QLinearMatMul" else 1)
    if not first or not second:
        return []
    outer = _broadcast_sizes([first[:-2], second[:-2]])
    return [] if outer is None else [(*outer, *(first[-2:-1] if len(first) > 1 else ()), *(second[-1:] if len(second) > 1 else ()))]


@_formula("GridSample")
def _sample(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [(*node.sizes(0)[:2], *node.sizes(1)[1:-1])]


@_formula("Einsum")
def _einsum(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [result_sizes(node)]


@_formula("Gemm")
def _gemm(node: Node) -> Sequence[tuple[int, ...] | None]:
    rows = node.sizes(0)[1 if node.attribute("transA", 0) else 0]
    return [(rows, node.sizes(1)[0 if node.attribute("transB", 0) else 1])]


@_formula("Transpose")
def _transpose(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    return [tuple(sizes[axis] for axis in node.attribute("perm") or reversed(range(len(sizes))))]


@_formula("Concat")
def _concat(node: Node) -> Sequence[tuple[int, ...] | None]:
    given = [node.sizes(index) for index in range(len(node.inputs))]
    axis = node.axis(node.attribute("axis"), len(given[0]))
    return [(*given[0][:axis], _total(sizes[axis] for sizes in given), *given[0][axis + 1 :])]


def _total(sizes: Iterable[Any]) -> Any:
    listed = [*sizes]
    return _UNKNOWN if any(map(_is_unknown, listed)) else sum(listed)


@_formula("Reshape")
def _reshape(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes, wanted = node.sizes(0), node.integers(1) or ()
    if not node.attribute("allowzero", 0):
        wanted = tuple(sizes[at] if size == 0 else size for at, size in enumerate(wanted))
    rest = prod(size for size in wanted if size != -1)
    return [tuple(prod(sizes) // rest if size == -1 else size for size in wanted)]


@_formula("Flatten")
def _flatten(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    axis = node.attribute("axis", 1)
    axis += len(sizes) if axis < 0 else 0
    return [(prod(sizes[:axis]), prod(sizes[axis:]))]


@_formula("Squeeze")
def _squeeze(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    axes = node.integers(1, "axes")
    if axes is None:
        return [tuple(size for size in sizes if size != 1)]
    left_out = {node.axis(axis, len(sizes)) for axis in axes}
    return [tuple(size for at, size in enumerate(sizes) if at not in left_out)]


@_formula("Unsqueeze")
def _unsqueeze(node: Node) -> Sequence[tuple[int, ...] | None]:
    axes, remaining = node.integers(1, "axes") or (), iter(node.sizes(0))
    rank = node.rank(0) + len(axes)
    added = {node.axis(axis, rank) for axis in axes}
    return [tuple(1 if at in added else next(remaining) for at in range(rank))]


@_formula("Gather")
def _gather(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    axis = node.axis(node.attribute("axis", 0), len(sizes))
    return [(*sizes[:axis], *node.sizes(1), *sizes[axis + 1 :])]


@_formula("Expand")
def _expand(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [broadcast_sizes(node.sizes(0), node.integers(1) or ())]


@_formula("Slice")
def _slice(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [slice_sizes(node, node.sizes(0))]


def slice_sizes(node: Node, given: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a Slice's output for sizes of its first input; of any opset, with axes in any order."""
    sizes = [*given]
    starts, ends = node.integers(1, "starts") or (), node.integers(2, "ends") or ()
    axes = node.integers(3, "axes") or range(len(starts))
    steps = (node.integers(4) if node.has(4) else None) or (1,) * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = node.axis(axis, len(sizes))
        first, stop, _ = slice_indices(sliced_window(start, end, step, sizes[place]), sizes[place])
        sizes[place] = max(0, (stop - first + step - (1 if step > 0 else -1)) // step)
    return tuple(sizes)


@_formula("Split")
def _split(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes, lengths, count = node.sizes(0), node.integers(1, "split"), len(node.proto.output)
    axis = node.axis(node.attribute("axis", 0), len(sizes))
    if lengths is None:
        part = -(-sizes[axis] // count)
        lengths = (*[part] * (count - 1), sizes[axis] - part * (count - 1))
    return [(*sizes[:axis], length, *sizes[axis + 1 :]) for length in lengths]


@_formula("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare")
def _reduce(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    given = node.integers(1, "axes") or ()
    if not given and node.attribute("noop_with_empty_axes", 0):
        return [sizes]
    axes = {node.axis(axis, len(sizes)) for axis in given} if given else {*range(len(sizes))}
    kept = node.attribute("keepdims", 1)
    return [tuple(1 if at in axes else size for at, size in enumerate(sizes) if kept or at not in axes)]


@_formula("ArgMax ArgMin")
def _arg_reduce(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes = node.sizes(0)
    axis, kept = node.axis(node.attribute("axis", 0), len(sizes)), node.attribute("keepdims", 1)
    return [(*sizes[:axis], *((1,) if kept else ()), *sizes[axis + 1 :])]


@_formula("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def _pool_globally(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [(*node.sizes(0)[:2], *[1] * (node.rank(0) - 2))]


@_formula("NonZero")
def _find_not_zero(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [(node.rank(0), _UNKNOWN)]


@_formula("Compress")
def _compress(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [_with_unknown_rows(node)]


@_formula("Unique")
def _find_unique(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [_with_unknown_rows(node), *[(_UNKNOWN,)] * 3]


def _with_unknown_rows(node: Node) -> tuple[int, ...]:
    """The sizes of rows along an axis of which the elements tell how many there are; of elements without an axis."""
    sizes, axis = [*node.sizes(0)], node.attribute("axis")
    if axis is None:
        return (_UNKNOWN,)
    sizes[node.axis(axis, len(sizes))] = _UNKNOWN
    return tuple(sizes)


@_formula("NonMaxSuppression")
def _suppress(_: Node) -> Sequence[tuple[int, ...] | None]:
    return [(_UNKNOWN, 3)]


@_formula("Multinomial")
def _draw(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [(node.sizes(0)[0], node.attribute("sample_size", 1))]


@_formula("Conv ConvInteger QLinearConv")
def _convolve(node: Node) -> Sequence[tuple[int, ...] | None]:
    filters = node.sizes(3 if node.op_type == "QLinearConv" else 1)
    return [] if len(filters) != node.rank(0) else [(node.sizes(0)[0], filters[0], *_windows(node, filters[2:]))]


@_formula("AveragePool MaxPool LpPool")
def _pool(node: Node) -> Sequence[tuple[int, ...] | None]:
    if node.attribute("ceil_mode", 0):
        windows = compute_windows(node, node.sizes(0)[2:], node.attribute("kernel_shape")).axes
        kept = windows[len(windows) - node.rank(0) + 2 :]
        return [(*node.sizes(0)[:2], *(window.rounded_up_within for window in kept))] * len(node.proto.output)
    return [(*node.sizes(0)[:2], *_windows(node, node.attribute("kernel_shape")))] * len(node.proto.output)


def _windows(node: Node, window: Sequence[int]) -> tuple[int, ...]:
    """The numbers of windows that fit along each spatial dimension."""
    rank, padding = len(window), node.attribute("auto_pad", "NOTSET")
    if padding not in ("NOTSET", "VALID"):  # as many as steps fit: pads follow from the sizes
        return tuple(-(-size // stride) for size, stride in zip(node.sizes(0)[2:], node.attribute("strides") or [1] * rank, strict=True))
    strides, dilations = node.attribute("strides") or [1] * rank, node.attribute("dilations") or [1] * rank
    pads: Any = node.attribute("pads") if padding == "NOTSET" else None
    pads = pads or [0] * (2 * rank)
    return tuple(
        (size + pads[at] + pads[at + rank] - dilations[at] * (window[at] - 1) - 1) // strides[at] + 1
        for at, size in enumerate(node.sizes(0)[2:])
    )


@_formula("ConvTranspose")
def _convolve_transposed(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [] if node.rank(1) != node.rank(0) else [transposed_sizes(node)]


@_formula("Pad")
def _pad(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes, pads = [*node.sizes(0)], node.integers(1, "pads") or ()
    axes = [node.axis(axis, len(sizes)) for axis in node.integers(3) or ()] if node.has(3) else [*range(len(sizes))]
    for at, axis in enumerate(axes):
        sizes[axis] += pads[at] + pads[at + len(axes)]
    return [tuple(sizes)]


@_formula("Tile")
def _tile(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [tuple(size * count for size, count in zip(node.sizes(0), node.integers(1) or (), strict=True))]


@_formula("Resize Upsample")
def _resize(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [tuple(resized(node)[0])]


@_formula("DepthToSpace")
def _depth_to_space(node: Node) -> Sequence[tuple[int, ...] | None]:
    (batch, channels, height, width), block = node.sizes(0), node.attribute("blocksize")
    return [(batch, channels // block**2, height * block, width * block)]


@_formula("SpaceToDepth")
def _space_to_depth(node: Node) -> Sequence[tuple[int, ...] | None]:
    (batch, channels, height, width), block = node.sizes(0), node.attribute("blocksize")
    return [(batch, channels * block**2, height // block, width // block)]


@_formula("GatherElements")
def _gather_elements(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [node.sizes(1)]


@_formula("GatherND")
def _gather_tuples(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes, (*outer, length) = node.sizes(0), node.sizes(1)
    return [(*outer, *sizes[node.attribute("batch_dims", 0) + int(length) :])]


@_formula("TopK")
def _largest(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes, (count,) = node.sizes(0), node.integers(1, "k") or (1,)
    axis = node.axis(node.attribute("axis", -1), len(sizes))
    return [(*sizes[:axis], count, *sizes[axis + 1 :])] * 2


@_formula("OneHot")
def _one_hot(node: Node) -> Sequence[tuple[int, ...] | None]:
    sizes, (depth,) = node.sizes(0), node.integers(1) or (1,)
    axis = node.axis(node.attribute("axis", -1), len(sizes) + 1)
    return [(*sizes[:axis], depth, *sizes[axis:])]


@_formula("DynamicQuantizeLinear")
def _quantize_dynamically(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [node.sizes(0), (), ()]


@_formula("Shape")
def _shape(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [(len(node.sizes(0)[slice(node.attribute("start", 0), node.attribute("end"))]),)]


@_formula("Size")
def _size(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [()]


@_formula("ConstantOfShape")
def _constant_of_shape(node: Node) -> Sequence[tuple[int, ...] | None]:
    return [node.integers(0) or ()]


@_formula("Range")
def _range(node: Node) -> Sequence[tuple[int, ...] | None]:
    numbers = [_whole_number(node, index) for index in range(3)]
    if any(number is None for number in numbers):
        return []
    start, limit, step = numbers
    return [(max(0, -((start - limit) // step)),)]


def _whole_number(node: Node, index: int) -> Any:
    """A known scalar of any type, which may be symbolic; None if it is no whole number."""
    array = node.value(index).array
    if isinstance(array, SizedArray):
        return None if array.numbers is None else array.numbers[0]
    number = node.array(index).item()
    return int(number) if number == number // 1 else None


@_formula("RNN GRU LSTM")
def _recurrent(node: Node) -> Sequence[tuple[int, ...] | None]:
    steps, batch, _ = node.sizes(0)
    directions, hidden = node.sizes(2)[0], node.sizes(2)[-1]
    if node.attribute("layout", 0):
        steps, batch = batch, steps
        return [(batch, steps, directions, hidden), *[(batch, directions, hidden)] * 2]
    return [(steps, directions, batch, hidden), *[(directions, batch, hidden)] * 2]
