"""The compiled plans of batch normalization: NumPy's plans, with compiled passes over the tensors instead of loops over blocks.

Values of groups (the accuracy of sums, statistics, coefficients) are computed as there, for all groups at once.
"""

from __future__ import annotations

from math import ceil, inf, prod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dmlpy.devices.cpu.isa import have_one_storage, host_isa, storage_of
from dmlpy.devices.cpu.jit import Function, Kernel
from dmlpy.devices.cpu.structs import Address, Bytes, Count, CountedParameters, Flag, Float32, Float64, field
from dmlpy.devices.cpu.thread_pool import TaskLaunch, Threads
from dmlpy.devices.host.threads import available_threads
from dmlpy.devices.numpy.normalization import forward, gradient
from dmlpy.devices.numpy.normalization.blocks import Block
from dmlpy.devices.numpy.normalization.common import TENSORS, Array, NormalizationLaunch, NormalizationPlan, axes_of
from dmlpy.devices.numpy.plans import COMPUTE
from dmlpy.devices.plan import in_order
from dmlpy.operators.activation import ActivationReluDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dmlpy.devices.cpu.isa import Isa, Storage
    from dmlpy.devices.plan import Launch, Pointers
    from dmlpy.operators.normalization.geometry import NormalizationGeometry


EntryLayout = Literal["planes", "rows"]
"""The layout of the entries: `planes` of one group each, [outer, groups, inner] with the inner ones contiguous, or `rows`, [outer, groups],
with the groups contiguous."""

CHUNK = 1 << 12
"""Entries of a plane whose sums are separate, at most: each lane of a vector then adds at most a few hundred."""
CHUNK_ROWS = 512
"""Rows whose sums are separate."""
BLOCK_ROWS = 64
"""Rows that are summed before the next vectors of groups, so that their cache lines are still in a cache."""


class BatchNormalizationParameters(CountedParameters):
    """The parameters of the kernels. A tile is some of the chunks, which are parts of a plane or of the rows.

    Tensors that are absent have the address 0. Coefficients are floats, one for each group.
    """

    outer: Count = field("planes of each group, or rows")
    groups: Count = field("groups")
    inner: Count = field("entries of a plane")
    chunks: Count = field("chunks of a plane, or of all rows")
    x: Address = field("x")
    x_outer: Bytes = field("from a plane or row of x to the next of the same group")
    x_group: Bytes = field("from a group of x to the next")
    dy: Address = field("the gradient of y")
    dy_outer: Bytes = field("from a plane or row of dy to the next of the same group")
    dy_group: Bytes = field("from a group of dy to the next")
    add: Address = field("what is added to y")
    add_outer: Bytes = field("from a plane or row of it to the next of the same group")
    add_group: Bytes = field("from a group of it to the next")
    output: Address = field("y, or the gradient of x")
    output_outer: Bytes = field("from a plane or row of the output to the next of the same group")
    output_group: Bytes = field("from a group of the output to the next")
    centre: Address = field("what is subtracted from x")
    factor: Address = field("what x - centre is multiplied by, or the gradient")
    offset: Address = field("what is added to that product")
    slope: Address = field("in a gradient the factor of x - centre")
    sums: Address = field("the sums of each chunk, vectors; those of a chunk of rows are of all groups")
    sum_size: Bytes = field("from each of the sums to the next")
    scratch: Address = field("a vector of scratch for each thread")
    scratch_size: Bytes = field("from a thread's scratch to the next")
    low: Float32 = field("the lower bound of y")


class CoefficientParameters(CountedParameters):
    """The parameters of the kernels of coefficients: of y, or of dx."""

    groups: Count = field("groups")
    scale: Address = field("the scales")
    scale_step: Bytes = field("from a scale to the next")
    bias: Address = field("the biases")
    bias_step: Bytes = field("from a bias to the next")
    centre: Address = field("what is subtracted from x, a float for each group")
    factor: Address = field("what the difference is multiplied by")
    offset: Address = field("what is added to that product")
    epsilon: Float64 = field("what is added to variances")


class KnownStatisticsParameters(CoefficientParameters):
    """The parameters of `COEFFICIENTS`."""

    mean: Address = field("the means")
    mean_step: Bytes = field("from a mean to the next")
    variance: Address = field("the variances")
    variance_step: Bytes = field("from a variance to the next")


class GroupSumsParameters(CoefficientParameters):
    """The parameters of the kernels of coefficients that add up the sums of a group's chunks."""

    outer: Count = field("planes of each group; not read for rows")
    chunks: Count = field("chunks of a plane, or of all rows")
    sums: Address = field("the sums of x, or of dy, of each chunk, and behind them the others; 0 for none")
    sum_size: Bytes = field("from each of the sums to the next")
    group_size: Bytes = field("from the sums of a plane to those of the next group's")
    outer_size: Bytes = field("from the sums of a plane to those of the group's next one, or of a chunk of rows to the next")
    entries: Float64 = field("entries of a group")


class BatchStatisticsParameters(GroupSumsParameters):
    """The parameters of `FIRST_SHIFTS` and `BATCH_COEFFICIENTS`. A statistic that is not written has the address 0."""

    x: Address = field("x")
    x_group: Bytes = field("from a group of x to the next")
    samples: Count = field("entries of a group that its first shift depends on")
    sample_size: Bytes = field("from such an entry to the next")
    shifts: Address = field("what is subtracted from x in the sums, a float for each group")
    batch_mean: Address = field("the means")
    batch_mean_step: Bytes = field("from a mean to the next")
    batch_variance: Address = field("the variances")
    batch_variance_step: Bytes = field("from a variance to the next")
    unsettled: Address = field("how many groups have a mean so far from the shift that their sums have lost digits, an int64")


class GradientStatisticsParameters(GroupSumsParameters):
    """The parameters of `GRADIENT_CENTRES` and `GRADIENT_COEFFICIENTS`. What is not written has the address 0.

    dx is ((x - centre) * slope + offset + dy) * factor.
    """

    mean: Address = field("the means")
    mean_step: Bytes = field("from a mean to the next")
    variance: Address = field("the variances")
    variance_step: Bytes = field("from a variance to the next")
    d_scale: Address = field("the gradients of the scales")
    d_scale_step: Bytes = field("from such a gradient to the next")
    d_bias: Address = field("the gradients of the biases")
    d_bias_step: Bytes = field("from such a gradient to the next")
    has_products: Flag = field("whether there are sums of dy * (x - centre)")
    centres_anew: Flag = field("whether there are sums of x - centre, from which the mean is computed again")
    slope: Address = field("what x - centre is multiplied by, if the gradient passes through the statistics")


SUMS = Kernel("dmlpy.devices.cpu.normalization.kernels:build_sums", 5)
"""The sums over groups: the layout of the entries, whether of a gradient, the type of tensors, and the instruction set."""
RESULTS = Kernel("dmlpy.devices.cpu.normalization.kernels:build_results", 5)
"""y or dx. The choices are those of `SUMS`."""

COEFFICIENTS = Kernel("dmlpy.devices.cpu.normalization.kernels:build_coefficients", 5)
"""The coefficients of y from known statistics: the type of these, and the instruction set."""

FIRST_SHIFTS = Kernel("dmlpy.devices.cpu.normalization.kernels:build_first_shifts", 5)
"""The shifts of a batch's first sums: the type of tensors, and the instruction set."""

BATCH_COEFFICIENTS = Kernel("dmlpy.devices.cpu.normalization.kernels:build_batch_coefficients", 5)
"""The statistics of a batch, and the coefficients of y: the layout of the entries, the types of tensors and of statistics, and the
instruction set."""

GRADIENT_CENTRES = Kernel("dmlpy.devices.cpu.normalization.kernels:build_gradient_centres", 5)
"""The number that is subtracted from x in a gradient's sums: the type of statistics, and the instruction set."""

GRADIENT_COEFFICIENTS = Kernel("dmlpy.devices.cpu.normalization.kernels:build_gradient_coefficients", 5)
"""The coefficients of dx: the layout of the entries, the type of statistics, and the instruction set."""

_WORK_OF_A_THREAD = 1 << 17
"""Entries that are worth waking another thread for."""
_TILES_PER_THREAD = 8
"""Tiles for each thread, so that all end at about the same time."""
_SAMPLES, _FEW_ENTRIES = 8, 1 << 8
"""Entries by which the first shift is chosen, and those of a group, at most, whose first shift is 0: it is summed as fast."""
_OUTPUTS = {"y": "output", "dx": "output"}
STATISTICS = ("mean", "variance", "scale", "bias")
"""The roles of the operands that y's coefficients are computed from."""
_GRADIENT_ROLES = ("mean", "variance", "scale", "d_scale", "d_bias")
"""The roles of the operands that dx's coefficients are computed from, and of their gradients."""
_AFFINE, _OF_BATCH = ("scale", "bias"), ("batch_mean", "batch_variance")


def entry_layout(geometry: NormalizationGeometry) -> EntryLayout | None:
    """The layout of the entries of a checked desc's tensors; None if the kernels do not support it."""
    roles, axes = axes_of(geometry)
    tensors = sum(role in TENSORS for role in roles)
    if not axes or any(stride != 1 for stride in axes[-1].strides[:tensors]):
        return None
    kinds = tuple(axis.reduced for axis in axes)
    if kinds in {(True,), (False, True), (True, False, True)}:
        return "planes"
    return "rows" if kinds == (True, False) and axes[-1].size >= host_isa().lanes // 2 else None


class _CompiledPlan(NormalizationPlan):
    """The base of the plan of y and of that of the gradients.

    Args:
        geometry: a checked desc's.
        layout: its `entry_layout`.

    Attributes:
        layout: the layout of the entries.
        threads: the threads of a pass.
    """

    is_gradient: ClassVar[bool]

    def __init__(self, geometry: NormalizationGeometry, layout: EntryLayout) -> None:
        self.layout = layout
        self.threads = Threads.of(available_threads(), prod(geometry.sizes), _WORK_OF_A_THREAD)
        super().__init__(geometry)

    def _count_threads(self) -> int:
        return self.threads.most

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """The entries outside of the groups, the groups, the entries within them, and the chunks of a plane, or of all rows."""
        sizes = [axis.size for axis in self._axes]
        if self.layout == "rows":
            outer, groups = sizes
            return outer, groups, 1, ceil(outer / CHUNK_ROWS)
        outer, groups, inner = (1, 1, 1, *sizes)[-3:]
        return outer, groups, inner, ceil(inner / CHUNK)

    @property
    def kernels(self) -> tuple[Function | None, Function | None]:
        """The functions of the sums and of the results, if they are needed."""
        choices = self.layout, self.is_gradient, storage_of(self._geometry.operands[self._roles[0]].data_type), host_isa()
        results = {"y", "dx"} & set(self._roles)
        return SUMS(*choices) if self._sums() else None, RESULTS(*choices) if results else None

    def load(self) -> None:
        _ = self.kernels

    def _partial_sums(self) -> tuple[Sequence[int], np.dtype[Any]]:
        outer, groups, _, chunks = self.extents
        lanes, sums = host_isa().lanes, 3 if self.is_gradient else 2
        sizes = (chunks, ceil(groups / lanes) * lanes) if self.layout == "rows" else (outer * groups * chunks, lanes)
        return (sums, *sizes), COMPUTE

    def _thread_scratch(self) -> Iterable[tuple[str, Sequence[int], np.dtype[Any]]]:
        yield "vector", (host_isa().lanes,), COMPUTE

    def _describe_blocks(self) -> str:
        outer, groups, inner, chunks = self.extents
        layout = f"{outer} rows of {groups} groups" if self.layout == "rows" else f"{outer} x {groups} planes of {inner} entries"
        return f"compiled by LLVM, {COMPUTE} arithmetic on {self.threads}; {layout}, in {chunks} chunk{'s' * (chunks > 1)}"

    def _describe_copies(self) -> list[str]:
        return []


class CompiledForwardPlan(_CompiledPlan, forward.ForwardPlan):
    """y, and in training the statistics."""

    is_gradient = False

    @property
    def _coefficient_kernel(self) -> Function | None:
        """The function of the coefficients, and in training of the batch's statistics, if nothing is left to NumPy then.

        The statistics have one type, and none is a running one.
        """
        operands = self._geometry.operands
        roles = operands.keys() - {"x", "add", "y"}
        types = {operands[role].data_type for role in roles}
        if len(types) > 1 or "y" not in operands or not roles.issuperset(_AFFINE):
            return None
        if not self._geometry.training:
            return COEFFICIENTS(storage_of(*types), host_isa()) if roles == set(STATISTICS) else None
        stored = self._shift_choices[0], storage_of(*types)
        return BATCH_COEFFICIENTS(self.layout, *stored, host_isa()) if roles <= {*_AFFINE, *_OF_BATCH} else None

    @property
    def _shift_choices(self) -> tuple[Storage, Isa]:
        return storage_of(self._geometry.operands["x"].data_type), host_isa()

    def load(self) -> None:
        super().load()
        if self._coefficient_kernel is not None and self._geometry.training:
            _ = FIRST_SHIFTS(*self._shift_choices)

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        launch, kernel, geometry = _CompiledLaunch(self, tensors, temporary), self._coefficient_kernel, self._geometry
        if kernel is not None and not geometry.training:
            return launch.without_numpy(kernel, geometry.epsilon)
        if kernel is not None:
            return launch.with_sums(FIRST_SHIFTS(*self._shift_choices), kernel, geometry.epsilon)
        return _make_launch(_Forward(self, launch).run)


class CompiledGradientPlan(_CompiledPlan, gradient.GradientPlan):
    """dx, d_scale and d_bias."""

    is_gradient = True

    @property
    def _coefficient_kernels(self) -> tuple[Function | None, Function] | None:
        """The functions of the centres, if sums need them, and of the coefficients; None if they are left to NumPy.

        The statistics and their gradients have one type.
        """
        operands = self._geometry.operands
        roles = operands.keys() - {"x", "dy", "dx"}
        types = {operands[role].data_type for role in roles}
        if not {"mean", "variance", "scale"} <= roles <= set(_GRADIENT_ROLES) or not have_one_storage(types):
            return None
        choices = storage_of(*types), host_isa()
        return GRADIENT_CENTRES(*choices) if len(self._sums()) > 1 else None, GRADIENT_COEFFICIENTS(self.layout, *choices)

    def load(self) -> None:
        super().load()
        _ = self._coefficient_kernels

    def bind(self, tensors: Pointers, temporary: int, persistent: int | None) -> Launch:
        kernels = self._coefficient_kernels
        if kernels is not None:
            return _CompiledLaunch(self, tensors, temporary).of_gradient(*kernels, self._geometry, len(self._sums()))
        return _make_launch(_Gradient(self, _CompiledLaunch(self, tensors, temporary)).run)


def _make_launch(run: Callable[[], None]) -> Launch:
    def launch(stream: int) -> None:
        with np.errstate(all="ignore"):
            run()

    return launch


class _CompiledLaunch(NormalizationLaunch):
    """A plan's tensors and scratch in memory, and its two passes over them.

    Attributes:
        groups: a block of the first entry of each group, which indexes all statistics.
    """

    def __init__(self, plan: _CompiledPlan, pointers: Pointers, temporary: int) -> None:
        super().__init__(plan, pointers, temporary)
        first = tuple(slice(0, 1) if axis.reduced else slice(None) for axis in self.blocking.axes)
        self.groups = Block(first, first, 0, self.blocking.statistics)
        self._extents, self._is_rows, self._threads = plan.extents, plan.layout == "rows", plan.threads
        self._zeros = np.zeros(plan.extents[1] + host_isa().lanes, COMPUTE)
        operands = plan._geometry.operands
        self._addresses = {role: pointers[operands[role].name] for role in plan._roles}
        self._shared = plan._shared.pointers(temporary)
        self._values = self._values_of(plan, temporary + plan._shared.size)
        self._sum, self._compute = (None if kernel is None else self._pass(kernel) for kernel in plan.kernels)

    def _pass(self, kernel: Function, **others: Any) -> TaskLaunch:
        """A pass over the tensors, with other values of some parameters."""
        return TaskLaunch.of(kernel, BatchNormalizationParameters.bound({**self._values, **others}), self._threads)

    def sum_groups(self) -> None:
        """Computes the sums of all chunks."""
        assert self._sum is not None
        self._sum(0)

    def compute(self) -> None:
        """Computes y or dx, from the coefficients."""
        assert self._compute is not None
        self._compute(0)

    def without_numpy(self, kernel: Function, epsilon: float) -> Launch:
        """Computes the coefficients, and y from them."""
        assert self._compute is not None
        parameters = KnownStatisticsParameters.bound(self._coefficient_values(STATISTICS, epsilon))
        return in_order([TaskLaunch.of(kernel, parameters, 1), self._compute])

    def with_sums(self, first_shifts: Function, kernel: Function, epsilon: float) -> Launch:
        """Computes statistics and coefficients from sums, and y. Sums that have lost digits are computed again, with other shifts."""
        assert self._sum is not None
        assert self._compute is not None
        outer, _, inner, _ = self._extents
        unsettled = np.zeros(1, np.int64)
        values = self._coefficient_values([role for role in (*_AFFINE, *_OF_BATCH) if role in self.tensors], epsilon)
        entries, shifts = self.blocking.group_size, np.zeros_like(self._zeros)
        values |= self._sum_values() | {"unsettled": unsettled, "shifts": shifts}
        values |= {name: self._values[name] for name in ("x", "x_group")}
        count, size = max((outer, self._values["x_outer"]), (inner, self.tensors["x"].itemsize))
        values |= {"samples": min(count, _SAMPLES) if entries > _FEW_ENTRIES else 0, "sample_size": size}
        parameters = BatchStatisticsParameters.bound(values)
        set_shifts, settle = (TaskLaunch.of(function, parameters, 1) for function in (first_shifts, kernel))
        add_up, compute = self._pass(self._sum.body, centre=shifts), self._compute

        def launch(stream: int) -> None:
            set_shifts(stream)
            for _ in range(forward.ATTEMPTS):
                add_up(stream)
                settle(stream)
                if not unsettled[0]:
                    break
            compute(stream)

        return launch

    def of_gradient(self, centres: Function | None, kernel: Function, geometry: NormalizationGeometry, sums: int) -> Launch:
        """Computes the sums, if there are some, the coefficients and the gradients of statistics, and dx."""
        values = self._coefficient_values([role for role in _GRADIENT_ROLES if role in self.tensors], geometry.epsilon)
        values |= {"has_products": sums > 1, "centres_anew": sums > 2} | (self._sum_values() if sums else {"entries": 1.0})
        parameters = GradientStatisticsParameters.bound(values)
        set_centres, compute = (None if function is None else TaskLaunch.of(function, parameters, 1) for function in (centres, kernel))
        work = (set_centres, self._sum if sums else None, compute, self._compute)
        return in_order([launch for launch in work if launch is not None])

    def _sum_values(self) -> dict[str, Any]:
        """The parameters of `GroupSumsParameters`."""
        (outer, groups, _, chunks), sums, vector = self._extents, self.statistics["sums"], host_isa().lanes * COMPUTE.itemsize
        values: dict[str, Any] = {"outer": outer, "chunks": chunks, "sums": self._shared["sums"], "sum_size": sums.strides[0]}
        values |= {"group_size": chunks * vector, "outer_size": sums.strides[1] if self._is_rows else groups * chunks * vector}
        return values | {"entries": float(self.blocking.group_size)}

    def _coefficient_values(self, roles: Iterable[str], epsilon: float) -> dict[str, Any]:
        """The parameters of a kernel of coefficients, with the statistics of these roles."""
        values: dict[str, Any] = {"tiles": 1, "groups": self._extents[1], "epsilon": epsilon}
        for role in roles:
            array = self.tensors[role]
            steps = array.strides if self._is_rows else (0, 0, *array.strides)[-3:]
            values |= {role: self._addresses[role], f"{role}_step": steps[1]}
        return values | self._coefficient_addresses()

    def _coefficient_addresses(self) -> dict[str, int]:
        """The addresses of the coefficients that there are."""
        return {name: self._shared[name] for name in ("centre", "factor", "offset", "slope") if name in self._shared}

    def total(self, block: Block) -> Array:
        sums, (outer, groups, *_) = self.statistics["sums"], self._extents
        if self._is_rows:
            totals: Array = np.add.reduce(sums, axis=1, dtype=np.float64)[:, :groups]
        else:
            totals = np.add.reduce(sums.reshape(len(sums), outer, groups, -1), axis=(1, 3), dtype=np.float64)
        return totals.reshape(len(sums), *self.blocking.statistics)

    def _values_of(self, plan: _CompiledPlan, scratch: int) -> dict[str, Any]:
        """The parameters of the passes; `scratch` is the address of the threads' scratch."""
        outer, groups, inner, chunks = self._extents
        values: dict[str, Any] = {
            "tiles": min(chunks if self._is_rows else outer * groups * chunks, self._threads.tiles(_TILES_PER_THREAD)),
            "outer": outer,
            "groups": groups,
            "inner": inner,
            "chunks": chunks,
            "scratch": plan._thread_layout.pointers(scratch)["vector"],
            "scratch_size": plan._thread_layout.size,
            "centre": self._zeros,
            "low": 0.0 if isinstance(plan._geometry.activation, ActivationReluDesc) else -inf,
        }
        if "sums" in self.statistics:
            values |= {"sums": self._shared["sums"], "sum_size": self.statistics["sums"].strides[0]}
        values |= self._coefficient_addresses()
        for role in TENSORS:
            if role in self.tensors:
                tensor, name = self.tensors[role], _OUTPUTS.get(role, role)
                steps = tensor.strides if self._is_rows else (0, 0, *tensor.strides)[-3:]
                values |= {name: self._addresses[role], f"{name}_outer": steps[0], f"{name}_group": steps[1]}
        if "x" not in self.tensors and "dy" in self.tensors:  # the sums of dy alone; those with x are not read
            values |= {f"x{part}": values[f"dy{part}"] for part in ("", "_outer", "_group")}
        return values


class _Forward(forward.Forward):
    """A dispatch of the forward plan."""

    _launch: _CompiledLaunch

    def run(self) -> None:
        launch = self._launch
        if self._geometry.training:
            self._find_statistics()
        self._prepare(launch.groups, 0)
        if "y" in launch.tensors:
            launch.compute()

    def _find_statistics(self) -> None:
        launch = self._launch
        launch.statistics["centre"].fill(0.0)
        for attempt in range(forward.ATTEMPTS):
            launch.sum_groups()
            if self._settles(launch.groups, attempt):
                break


class _Gradient(gradient.Gradient):
    """A dispatch of the gradient plan."""

    _launch: _CompiledLaunch

    def run(self) -> None:
        launch = self._launch
        if len(self._sums) > 1:
            self._centre(launch.groups, 0)
        if self._sums:
            launch.sum_groups()
        self._prepare(launch.groups, 0)
        if "dx" in launch.tensors:
            launch.compute()
