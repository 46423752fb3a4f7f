"""The plans of functions of groups, of ARGMIN and of ARGMAX: the layout of entries, and the parameters of their kernels."""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from dmlpy.description.enums import AxisDirection, DataType, ReduceFunction
from dmlpy.devices.axes import Axis, element_count, merged, repeated
from dmlpy.devices.cpu.isa import FLOAT_BYTES, Storage, have_one_storage, host_isa, storage_of
from dmlpy.devices.cpu.jit import Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, Flag, Float32, Float64, UnitParameters, aligned, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads, WorkShares
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.plan import Launch, PlanWithoutConstants, Pointers
from dmlpy.operators.activation import ActivationReluDesc

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.cpu.jit import Function
    from dmlpy.operators.activation import ActivationDesc
    from dmlpy.operators.reduction import IndexReductionDesc


Layout = Literal["rows", "columns"]
"""The contiguous entries: in `rows` those of a group, in `columns` those of neighbouring groups."""

CHUNK = 1 << 12
"""Entries of a row that are summed in float32, at most; sums of these are added in float64."""
COLUMN_VECTORS = 8
"""Vectors of neighbouring columns in a unit, at most: a single column would read one cache line of each row."""
REDUCED_VECTORS = 4
"""The same where floats are reduced."""
CHUNK_ROWS = 64
"""Entries of a column that are summed before their sum is added to that of the others."""

TENSORS = ("x", "y", "scale", "bias")


def running_vectors(*, multiplies: bool) -> int:
    """The vectors of columns of a unit of running sums of floats, or of products, which are twice as wide."""
    return COLUMN_VECTORS // 2 if multiplies else COLUMN_VECTORS


class GroupParameters(UnitParameters):
    """The parameters of the kernels of groups. A tile is some of the units: groups, or in columns some vectors of them.

    Groups have two axes, and so have the entries of a group. Tensors that are absent have the address 0.
    """

    columns: Count = field("units along the axis of contiguous groups")
    inner: Count = field("groups along that axis")
    group_size: Count = field("groups along the inner of the two axes of groups")
    outer_size: Count = field("entries of a group along the outer of their two axes")
    entry_size: Count = field("entries of a group along the inner one")
    x: Address = field("x")
    x_group: Bytes = field("from a group of x to the next along the outer axis of groups")
    x_group1: Bytes = field("from a group of x to the next along the inner axis of groups")
    x_outer: Bytes = field("from an entry of x to the next along the outer axis of entries")
    x_entry: Bytes = field("from an entry of x to the next along the inner axis of entries")
    y: Address = field("y")
    y_group: Bytes = field("from a group of y to the next along the outer axis of groups")
    y_group1: Bytes = field("from a group of y to the next along the inner axis of groups")
    y_outer: Bytes = field("from an entry of y to the next along the outer axis of entries")
    y_entry: Bytes = field("from an entry of y to the next along the inner axis of entries")
    scale: Address = field("the scale of a normalization")
    scale_group: Bytes = field("from a group of the scale to the next along the outer axis of groups")
    scale_group1: Bytes = field("from a group of the scale to the next along the inner axis of groups")
    scale_outer: Bytes = field("from an entry of the scale to the next along the outer axis of entries")
    scale_entry: Bytes = field("from an entry of the scale to the next along the inner axis of entries")
    bias: Address = field("the bias of a normalization")
    bias_group: Bytes = field("from a group of the bias to the next along the outer axis of groups")
    bias_group1: Bytes = field("from a group of the bias to the next along the inner axis of groups")
    bias_outer: Bytes = field("from an entry of the bias to the next along the outer axis of entries")
    bias_entry: Bytes = field("from an entry of the bias to the next along the inner axis of entries")
    scratch: Address = field("for each thread the entries of a unit, which have 2 bytes in the tensors")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    log: Flag = field("whether softmax, or a reduction's sum, takes the logarithm")
    centres: Flag = field("whether a normalization subtracts the mean")
    scales: Flag = field("whether a normalization divides by the deviation")
    count: Float64 = field("entries of a group")
    epsilon: Float64 = field("what is added to a normalization's variance, or the least divisor of one by norms")
    squares: Flag = field("whether a reduction adds squares")
    magnitudes: Flag = field("whether a reduction or a norm adds magnitudes")
    root: Flag = field("whether a reduction is the square root of the sum")
    factor: Float64 = field("what a reduction's sum is multiplied by; of an extreme 1 for the largest, -1 for the smallest")
    backward: Flag = field("whether running sums and products begin with the last entry")
    exclusive: Flag = field("whether a running sum or product is that of the entries before")
    low: Float32 = field("the lower bound of a normalization's results")


SOFTMAX = Kernel("dmlpy.devices.cpu.reduction.softmax_kernels:build_softmax", 5)
"""Softmax and its logarithm: the layout of the entries, the type of tensors, and the instruction set."""
NORMALIZATION = Kernel("dmlpy.devices.cpu.reduction.softmax_kernels:build_normalization", 5)
"""Mean-variance normalization: the type of tensors, and the instruction set."""

REDUCTION = Kernel("dmlpy.devices.cpu.reduction.kernels:build_reduction", 5)
"""Sums and extremes: the layout of the entries, whether of extremes, the type of tensors, and the instruction set."""

PRODUCT = Kernel("dmlpy.devices.cpu.reduction.product_kernels:build_product", 5)
"""Products: the layout of the entries, the type of tensors, and the instruction set."""
LOG_SUM_EXP = Kernel("dmlpy.devices.cpu.reduction.softmax_kernels:build_log_sum_exp", 5)
"""Logarithms of sums of powers: the layout of the entries, the type of tensors, and the instruction set."""
LP_NORMALIZATION = Kernel("dmlpy.devices.cpu.reduction.softmax_kernels:build_lp_normalization", 5)
"""Rows divided by their norms: the type of tensors, and the instruction set."""
HARDMAX = Kernel("dmlpy.devices.cpu.reduction.kernels:build_hardmax", 5)
"""Hardmax of rows: the type of tensors, and the instruction set."""
RUNNING = Kernel("dmlpy.devices.cpu.reduction.running_kernels:build_running", 5)
"""Running sums and products of floats: whether products, the layout of the entries, the type of tensors, and the instruction set."""
INTEGER_REDUCTION = Kernel("dmlpy.devices.cpu.reduction.integer_kernels:build_integer_reduction", 5)
"""Sums, products and extremes of rows of integers: `sum`, `multiply`, `min` or `max`, NumPy's name of the type, the instruction set."""
INTEGER_COLUMNS = Kernel("dmlpy.devices.cpu.reduction.integer_kernels:build_integer_columns", 5)
"""Sums, products and extremes of columns of integers, with the arguments of `INTEGER_REDUCTION`."""
RUNNING_INTEGERS = Kernel("dmlpy.devices.cpu.reduction.running_kernels:build_running_integers", 5)
"""Running sums and products of integers: whether products, the layout of the entries, the bytes of an element, the instruction set."""

_WORK_OF_A_THREAD = 1 << 15
"""Entries that are worth waking another thread for: each is read three times."""
_NAMES = {"x": "input_tensor", "y": "output_tensor", "scale": "scale_tensor", "bias": "bias_tensor"}
_ONE = Axis(1, (0,) * len(TENSORS))


class Groups(NamedTuple):
    """The layout of the entries of groups.

    Attributes:
        groups: the two axes of the groups, outermost first, without `inner`.
        entries: the two axes of a group's entries. In rows their tensors' strides along the last one are 1, or 0 for scale and bias.
        inner: in columns the axis of contiguous groups; in rows one of size 1.
        layout: `rows` or `columns`.
        names: the places of the tensors that are present, by their names in the kernels.
        size: the bytes of an element.
        stored: the type of the elements, if they are floats.
    """

    groups: tuple[Axis, Axis]
    entries: tuple[Axis, Axis]
    inner: Axis
    layout: Layout
    names: Mapping[str, str]
    size: int
    stored: Storage | None

    @classmethod
    def of(
        cls, tensors: Mapping[str, TensorDesc], reduced: Collection[int], *, reduces: bool = False, integers: Collection[DataType] = ()
    ) -> Groups | str:
        """The groups of a checked desc's tensors, or why kernels do not read them.

        Args:
            tensors: the tensors of the desc by their places.
            reduced: the dimensions that a group extends along.
            reduces: whether the output has one element for each group.
            integers: the types that kernels of integers read, FLOAT64 among them, besides other floats.
        """
        types, data_type = {tensor.data_type for tensor in tensors.values()}, tensors["input_tensor"].data_type
        are_integers = types == {data_type} and data_type in integers
        if not are_integers and not have_one_storage(types):
            return "compiled functions of groups have tensors of one type of floats"
        sizes = tensors["input_tensor"].sizes
        strides: list[tuple[int, ...]] = []
        for name in TENSORS:
            tensor = tensors.get(_NAMES[name])
            strides.append((0,) * len(sizes) if tensor is None else repeated(tensor.sizes, tensor.element_strides))
        axes = merged(sizes, strides, reduced)
        last = axes[-1] if axes else _ONE
        layout: Layout = "rows" if last.reduced or not axes else "columns"
        inner = last if layout == "columns" else _ONE
        entries = [axis for axis in axes if axis.reduced]
        groups = [axis for axis in axes if not axis.reduced and axis is not inner]
        contiguous = (1, 0 if reduces and layout == "rows" else 1)
        if max(len(entries), len(groups)) > 2 or (axes and (last.strides[:2] != contiguous or max(last.strides[2:]) > 1)):
            return "a compiled function of groups needs contiguous elements, and two axes of groups and two of entries at most"
        outer, entry = (_ONE, _ONE, *entries)[-2:]
        group, group1 = (_ONE, _ONE, *groups)[-2:]
        names = {name: _NAMES[name] for name in TENSORS if _NAMES[name] in tensors}
        stored = None if are_integers else storage_of(data_type)
        return cls((group, group1), (outer, entry), inner, layout, names, data_type.numpy.itemsize, stored)


class _GroupsPlan(PlanWithoutConstants):
    """The base of the plans.

    Args:
        groups: the layout of the entries.
        vectors: the vectors of columns that a unit has, at most.
    """

    _stages: ClassVar[bool] = True
    """Whether entries of 2 bytes are copied to FLOAT32 in scratch."""

    def __init__(self, groups: Groups, vectors: int = 1) -> None:
        self._layout, self._stored, self._names = groups.layout, groups.stored, groups.names
        columns = -(-groups.inner.size // (vectors * host_isa().lanes))
        self._units, self._count = element_count(groups.groups) * columns, element_count(groups.groups) * groups.inner.size
        self._entries = element_count(groups.entries)
        self._shares = WorkShares(self._units, Threads.of(available_threads(), self._count * self._entries, _WORK_OF_A_THREAD))
        vector, (outer, entry) = host_isa().lanes * FLOAT_BYTES, groups.entries
        vectors = outer.size * (-(-entry.size // host_isa().lanes) if groups.layout == "rows" else entry.size)
        self._scratch_size = aligned(vectors * vector) if self._stages and groups.stored != "float32" else 0
        self.temporary_size = self._shares.threads.most * self._scratch_size
        self._numbers = {
            **self._shares.values,
            "columns": columns,
            "inner": groups.inner.size,
            "group_size": groups.groups[1].size,
            "outer_size": outer.size,
            "entry_size": entry.size,
            "scratch_size": self._scratch_size,
        }
        size, present = groups.size, [TENSORS.index(name) for name in groups.names]
        for part, axis in zip(("group", "group1", "outer", "entry"), (*groups.groups, outer, entry), strict=True):
            self._numbers |= {f"{TENSORS[at]}_{part}": axis.strides[at] * size for at in present}

    @abstractmethod
    def _kernel(self) -> Function:
        """The compiled function."""

    @abstractmethod
    def _settings(self) -> Mapping[str, Any]:
        """The parameters that select the function of a group."""

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        return f"compiled by LLVM, float32 arithmetic on {self._shares}; {self._count} {self._layout} of {self._entries} entries"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        scratch = temporary if self._scratch_size else 0
        addresses = {name: tensors[place] for name, place in self._names.items()}
        values: Mapping[str, Any] = {**self._numbers, **self._settings(), **addresses, "scratch": scratch}
        return TaskLaunch.of(self._kernel(), GroupParameters.bound(values), self._shares.threads)


class CompiledSoftmaxPlan(_GroupsPlan):
    """Softmax, or its logarithm.

    Args:
        groups: the layout of the entries.
        log: whether it is the logarithm.
    """

    def __init__(self, groups: Groups, log: bool) -> None:
        super().__init__(groups)
        self._log = log

    def _kernel(self) -> Function:
        return SOFTMAX(self._layout, self._stored, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return {"log": self._log}


class CompiledMeanVariancePlan(_GroupsPlan):
    """Mean-variance normalization of rows.

    Args:
        groups: the layout of the entries.
        centres: whether it subtracts the mean.
        scales: whether it divides by the deviation.
        epsilon: the number added to the variance.
        activation: nothing or ReLU.
    """

    def __init__(self, groups: Groups, centres: bool, scales: bool, epsilon: float, activation: ActivationDesc | None) -> None:
        super().__init__(groups)
        self._values = {"centres": centres, "scales": scales, "epsilon": epsilon, "count": self._entries}
        self._low = 0.0 if isinstance(activation, ActivationReluDesc) else -inf

    def _kernel(self) -> Function:
        return NORMALIZATION(self._stored, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return {**self._values, "low": self._low}


class CompiledReductionPlan(_GroupsPlan):
    """A sum, a mean, a product, a logarithm of sums, or the largest or smallest element, of each group.

    Args:
        groups: the layout of the entries; the output has one element for each group.
        function: the function of a group.
    """

    _stages = False

    def __init__(self, groups: Groups, function: ReduceFunction) -> None:
        super().__init__(groups, 1 if function is ReduceFunction.LOG_SUM_EXP else REDUCED_VECTORS)
        self._function, self._extreme = function, function in (ReduceFunction.MIN, ReduceFunction.MAX)
        factors = {ReduceFunction.AVERAGE: 1.0 / self._entries, ReduceFunction.MIN: -1.0}
        self._values = {
            "factor": factors.get(function, 1.0),
            "squares": function in (ReduceFunction.SUM_SQUARE, ReduceFunction.L2),
            "root": function is ReduceFunction.L2,
            "log": function in (ReduceFunction.LOG_SUM, ReduceFunction.LOG_SUM_EXP),
            "magnitudes": function is ReduceFunction.L1,
        }

    def _kernel(self) -> Function:
        if self._function in (ReduceFunction.MULTIPLY, ReduceFunction.LOG_SUM_EXP):
            return (PRODUCT if self._function is ReduceFunction.MULTIPLY else LOG_SUM_EXP)(self._layout, self._stored, host_isa())
        return REDUCTION(self._layout, self._extreme, self._stored, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return self._values


class CompiledIntegerReductionPlan(_GroupsPlan):
    """A sum, a product, or the largest or smallest element, of each group of integers; the extremes of groups of FLOAT64, too.

    Args:
        groups: the layout of the entries; the output has one element for each group.
        function: the function of a group.
        data_type: the type of the elements.
    """

    _stages = False

    def __init__(self, groups: Groups, function: ReduceFunction, data_type: DataType) -> None:
        super().__init__(groups, COLUMN_VECTORS)
        self._choices = function.name.lower(), data_type.numpy.name, host_isa()
        self._elements = "doubles" if data_type is DataType.FLOAT64 else "integers"

    def _kernel(self) -> Function:
        return (INTEGER_REDUCTION if self._layout == "rows" else INTEGER_COLUMNS)(*self._choices)

    def _settings(self) -> Mapping[str, Any]:
        return {}

    def describe(self) -> str:
        return f"compiled by LLVM on {self._shares}; {self._count} {self._layout} of {self._entries} {self._elements}"


class CompiledRunningPlan(_GroupsPlan):
    """The running sum or product of each group.

    Args:
        groups: the layout of the entries, which have one axis.
        multiplies: whether it is the product.
        backward: whether it begins with the last entry.
        exclusive: whether a result is that of the entries before.
    """

    _stages = False

    def __init__(self, groups: Groups, multiplies: bool, backward: bool, exclusive: bool) -> None:
        super().__init__(groups, running_vectors(multiplies=multiplies))
        self._multiplies, self._values = multiplies, {"backward": backward, "exclusive": exclusive}

    def _kernel(self) -> Function:
        return RUNNING(self._multiplies, self._layout, self._stored, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return self._values


class CompiledIntegerRunningPlan(_GroupsPlan):
    """The running sum or product of each group of integers, which wraps around.

    Args:
        groups: the layout of the entries, which have one axis.
        multiplies: whether it is the product.
        backward: whether it begins with the last entry.
        exclusive: whether a result is that of the entries before.
    """

    _stages = False

    def __init__(self, groups: Groups, multiplies: bool, backward: bool, exclusive: bool) -> None:
        super().__init__(groups, COLUMN_VECTORS)
        self._multiplies, self._width, self._values = multiplies, groups.size, {"backward": backward, "exclusive": exclusive}

    def _kernel(self) -> Function:
        return RUNNING_INTEGERS(self._multiplies, self._layout, self._width, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return self._values

    def describe(self) -> str:
        return f"compiled by LLVM on {self._shares}; {self._count} {self._layout} of {self._entries} integers"


class CompiledHardmaxPlan(_GroupsPlan):
    """Hardmax of rows, whose entries have one axis."""

    _stages = False

    def _kernel(self) -> Function:
        return HARDMAX(self._stored, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return {}


class CompiledLPNormalizationPlan(_GroupsPlan):
    """Rows divided by their norms.

    Args:
        groups: the layout of the entries, which have one axis.
        magnitudes: whether a norm is the sum of the magnitudes, else the root of that of the squares.
        epsilon: the least divisor.
    """

    _stages = False

    def __init__(self, groups: Groups, magnitudes: bool, epsilon: float) -> None:
        super().__init__(groups)
        self._values = {"magnitudes": magnitudes, "epsilon": epsilon}

    def _kernel(self) -> Function:
        return LP_NORMALIZATION(self._stored, host_isa())

    def _settings(self) -> Mapping[str, Any]:
        return self._values


INDEX_REDUCTION = Kernel("dmlpy.devices.cpu.reduction.index_kernels:build_index_reduction", 5)
"""The indices of largest or smallest elements of rows: the type of the elements, and the instruction set."""
INTEGER_INDEX = Kernel("dmlpy.devices.cpu.reduction.index_kernels:build_integer_index", 5)
"""The indices of extremes of rows of integers: `min` or `max`, NumPy's name of the type, and the instruction set."""
INDEX_COLUMNS = Kernel("dmlpy.devices.cpu.reduction.index_kernels:build_index_columns", 5)
"""The indices of largest or smallest elements of columns, with the arguments of `INDEX_REDUCTION`."""


class IndexReductionParameters(UnitParameters):
    """The parameters of the indices of extremes. A tile is some of the units: rows, which have two axes, or vectors of columns."""

    row_size: Count = field("rows along the inner of their two axes")
    entries: Count = field("elements of a row")
    x: Address = field("the input, whose rows or neighbouring columns are contiguous")
    x_entry: Bytes = field("of columns, from an element to the next")
    inner: Count = field("columns side by side")
    columns: Count = field("units that have them")
    x_row: Bytes = field("from a row of the input to the next along the outer axis of rows")
    x_row1: Bytes = field("from a row of the input to the next along the inner axis")
    y: Address = field("the output")
    y_row: Bytes = field("from an index to the next along the outer axis of rows")
    y_row1: Bytes = field("from an index to the next along the inner axis")
    y_width: Bytes = field("bytes of an index, 4 or 8")
    backward: Flag = field("whether the last of equal elements counts")
    sign: Float32 = field("1 for the largest element, -1 for the smallest")


class IndexReductionPlan(PlanWithoutConstants):
    """ARGMIN or ARGMAX along one dimension.

    Args:
        desc: a checked desc.
        axes: two axes of groups, that of their elements, and of columns that of neighbouring groups, else one of size 1.
        sign: 1 for the largest element, -1 for the smallest.
    """

    temporary_size = 0

    def __init__(self, desc: IndexReductionDesc, axes: tuple[Axis, Axis, Axis, Axis], sign: int) -> None:
        assert desc.output_tensor is not None  # guaranteed by the check
        outer, group, entry, inner = axes
        width, data_type = desc.output_tensor.data_type.numpy.itemsize, desc.input_tensor.data_type
        self._stored = storage_of(data_type) if have_one_storage({data_type}) else None
        self._of_integers = "max" if sign > 0 else "min", data_type.numpy.name
        size = desc.input_tensor.data_type.numpy.itemsize
        self._groups, self._entries, self._has_columns = outer.size * group.size * inner.size, entry.size, inner.size > 1
        columns = -(-inner.size // (REDUCED_VECTORS * host_isa().lanes))
        self._values = {
            "row_size": group.size,
            "entries": entry.size,
            "x_entry": entry.strides[0] * size,
            "inner": inner.size,
            "columns": columns,
            "x_row": outer.strides[0] * size,
            "x_row1": group.strides[0] * size,
            "y_row": outer.strides[1] * width,
            "y_row1": group.strides[1] * width,
            "y_width": width,
            "backward": desc.axis_direction is AxisDirection.DECREASING,
            "sign": sign,
        }
        threads = Threads.of(available_threads(), self._groups * self._entries, _WORK_OF_A_THREAD)
        self._shares = WorkShares(outer.size * group.size * columns, threads)

    def _kernel(self) -> Function:
        if self._stored is None:
            return INTEGER_INDEX(*self._of_integers, host_isa())
        return (INDEX_COLUMNS if self._has_columns else INDEX_REDUCTION)(self._stored, host_isa())

    def load(self) -> None:
        self._kernel()

    def describe(self) -> str:
        groups = "columns" if self._has_columns else "row(s)"
        return f"compiled by LLVM on {self._shares}; {self._groups} {groups} of {self._entries} elements"

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        values: Mapping[str, Any] = {
            **self._shares.values,
            **self._values,
            "x": tensors["input_tensor"],
            "y": tensors["output_tensor"],
        }
        return TaskLaunch.of(self._kernel(), IndexReductionParameters.bound(values), self._shares.threads)


def axes_of(desc: IndexReductionDesc) -> tuple[Axis, Axis, Axis, Axis] | str:
    """The axes of a checked desc, as `IndexReductionPlan` takes them, or why the kernels do not read them."""
    x, y = desc.input_tensor, desc.output_tensor
    assert y is not None  # guaranteed by the check
    is_float = have_one_storage({x.data_type})
    if not is_float and x.data_type.numpy.kind == "f":
        return "a compiled index of an extreme is that of FLOAT32, of 2 bytes or of integers"
    axes = merged(x.sizes, [x.element_strides, repeated(y.sizes, y.element_strides)], set(desc.axes))
    entries, groups = [axis for axis in axes if axis.reduced], [axis for axis in axes if not axis.reduced]
    steps = [x.element_strides[axis] for axis in sorted(set(desc.axes)) if x.sizes[axis] > 1]
    if len(entries) > 1 or steps != sorted(steps, reverse=True):
        return "a compiled index of an extreme is that along dimensions whose elements follow one another in memory"
    entry, inner = entries[0] if entries else _ONE, _ONE
    if entry.size > 1 and entry.strides[0] != 1:
        if not is_float:
            return "a compiled index of an extreme of integers needs contiguous rows"
        if not groups or groups[-1].strides != (1, 1):
            return "a compiled index of an extreme needs contiguous rows or columns"
        inner = groups.pop()
    elif entry.size == 1 and is_float and groups and groups[-1].strides == (1, 1):
        inner = groups.pop()  # by vectors, of which rows of a single element would each read one
    if len(groups) > 2:
        return "a compiled index of an extreme needs two axes of rows at most"
    outer, group = (_ONE, _ONE, *groups)[-2:]
    return outer, group, entry, inner
