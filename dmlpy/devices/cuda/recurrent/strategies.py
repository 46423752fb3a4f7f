"""Chooses the strategy by which CUDA runs a recurrent desc: each strategy checks if it can, and `model` estimates its time.

| strategy | launches | runs |
|---|---|---|
| persistent_block | 1 for a sequence | R and the states of a sample fit a block's shared memory; H is at most
`MOST_PERSISTENT_BLOCK_THREADS` |
| persistent_grid | 1 for a sequence | R fits the registers and shared memory of blocks that are resident together, or of one |
| per_step | 2 or more for a step | everything |

Only `per_step` runs layers with dropout of states or a projection, which multiply states by more than R. Of the strategies and shapes that
can run a desc, the one with the lowest estimate for the whole sequence is chosen, the first one if several are equal; sequences of at most
`FEW_STEPS` steps are run by `per_step`. The plan reports the estimate of each strategy or why it has none. A strategy that the caller names
is used or refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dmlpy.debugging import FALLBACKS, log_once
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.plans import STRATEGIES
from dmlpy.devices.cuda.recurrent.block_shapes import BlockShape, block_shapes
from dmlpy.devices.cuda.recurrent.common import MOST_CAPTURED_STEPS, rounds_to_tf32, storage_type, work_of
from dmlpy.devices.cuda.recurrent.grid_shapes import Facts, GridShape
from dmlpy.devices.cuda.recurrent.input_product import can_be_in_chunks
from dmlpy.devices.cuda.recurrent.model import (
    Estimate,
    PersistentGrid,
    Work,
    least_unit_groups,
    per_step_time,
    persistent_block_time,
    persistent_grid_time,
)
from dmlpy.devices.cuda.recurrent.products import Fma
from dmlpy.devices.cuda.recurrent.residence import ResidentPlan
from dmlpy.devices.cuda.runtime.interface import NotResidentError
from dmlpy.messages.problems import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dmlpy.devices.cuda.kernels import KernelLibrary
    from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
    from dmlpy.devices.cuda.recurrent.layer import RecurrentPlan
    from dmlpy.devices.cuda.runtime.interface import Limits
    from dmlpy.devices.plan import Layout
    from dmlpy.operators.recurrent.layer import RecurrentDesc

FEW_STEPS = 2
"""The number of steps for which loading R on chip does not pay."""

PlanT = TypeVar("PlanT", "RecurrentPlan", "RecurrentGradientPlan")


@dataclass(frozen=True)
class Plans(Generic[PlanT]):
    """The plans and shapes of the strategies of one pass.

    Attributes:
        block: the plan of `persistent_block`: desc, library, shape, reason, whether TF32 is allowed.
        block_slices: possible numbers of samples of its blocks, ascending.
        block_shared_bytes: its shared memory for a desc and a number of samples.
        grid: the plan of `persistent_grid`: as `persistent_block`.
        grid_shapes: its shapes that fit a device.
        grid_exchange: the layout of the data that its blocks exchange, for a desc's facts and a shape.
        step: the plan of `per_step`: as `persistent_block`, without a shape.
    """

    block: Callable[..., PlanT]
    block_slices: tuple[int, ...]
    block_shared_bytes: Callable[[Any, int], int]
    grid: Callable[..., PlanT]
    grid_shapes: Callable[..., Sequence[GridShape]]
    grid_exchange: Callable[[Facts, GridShape], Layout]
    step: Callable[..., PlanT]


@dataclass(frozen=True)
class Option(Generic[PlanT]):
    """One way to run a desc.

    Attributes:
        what: describes the launches in a few words.
        estimate: the model's estimate.
        plan: creates the plan, given the kernels and the reason.
        cooperative: whether its blocks wait for each other, so that all have to be resident.
        clustered: whether blocks wait for those of their cluster, which the device schedules together.
    """

    what: str
    estimate: Estimate
    plan: Callable[[KernelLibrary, str], PlanT]
    cooperative: bool = False
    clustered: bool = False

    @property
    def step_us(self) -> float:
        """The predicted time of a step, with its share of the work before the first step."""
        return self.estimate.sequence_us / self.estimate.work.steps


# the strategies: all ways in which each can run a desc, or why there is none


def _block_options(plans: Plans[PlanT], desc: RecurrentDesc, limits: Limits, tf32: bool) -> list[Option[PlanT]] | str:
    if why := Facts.of(desc).refusal:
        return why
    shapes = block_shapes(desc, limits, plans.block_slices, partial(plans.block_shared_bytes, desc))
    if isinstance(shapes, str):
        return shapes
    work, gpu = work_of(desc), GpuModel.of(limits)

    def option(shape: BlockShape) -> Option[PlanT]:
        estimate = Estimate(
            "persistent_block", work, persistent_block_time(work, gpu, shape.samples), shared=work.recurrence_bytes * work.directions
        )
        return Option(shape.summary(), estimate, lambda library, reason: plans.block(desc, library, shape, reason, tf32))

    return [option(shape) for shape in shapes]


def _grid_options(plans: Plans[PlanT], desc: RecurrentDesc, limits: Limits, tf32: bool) -> list[Option[PlanT]] | str:
    facts = Facts.of(desc)
    if facts.refusal:
        return facts.refusal
    work, gpu = work_of(desc, tf32=tf32), GpuModel.of(limits)
    shapes = plans.grid_shapes(desc, limits, tf32=work.arithmetic == "tf32")
    if not shapes:
        needed = work.recurrence_bytes * work.directions
        if least_unit_groups(work, gpu) is None:
            return f"R of {needed} bytes is more than {limits.multiprocessors} multiprocessors hold"
        return f"R of {needed} bytes fits {limits.multiprocessors} multiprocessors, but no available block shape fits"

    def option(shape: GridShape) -> Option[PlanT]:
        grid = PersistentGrid(
            units=shape.units,
            samples=shape.samples,
            pass_samples=shape.pass_samples,
            protocol=shape.protocol,
            register_bytes=shape.register_bytes,
            depth_warps=shape.depth_warps,
            row_warps=shape.row_warps,
            row_lanes=shape.product.row_lanes if isinstance(shape.product, Fma) else 32,
            padding=_multiplied(work, shape) / (work.unit_weights * shape.units),
            blocks=shape.blocks,
            cluster_blocks=shape.unit_groups if shape.clustered else 1,
            exchange_bytes=plans.grid_exchange(facts, shape).size,
        )
        time = persistent_grid_time(work, gpu, grid)
        whole = work.recurrence_bytes * work.directions
        registers = min(whole, shape.register_bytes * shape.unit_groups * work.directions)
        operand = work.exchanged * work.itemsize * work.batch * work.directions
        exchanged = 0 if shape.alone else operand * shape.unit_groups
        estimate = Estimate("persistent_grid", work, time, registers, whole - registers, exchanged)
        return Option(
            shape.describe(),
            estimate,
            lambda library, reason: plans.grid(desc, library, shape, reason, tf32),
            cooperative=shape.cooperative,
            clustered=shape.clustered,
        )

    return [option(shape) for shape in shapes]


def _multiplied(work: Work, shape: GridShape) -> int:
    """The entries of a block's matrices as its products multiply them, rows and depth rounded up."""
    gates = (work.gates - 1, 1) if work.resets_first else (work.gates,)
    depths = [work.hidden * (count if work.backward else 1) for count in gates]
    return sum(product.rows * product.padded_depth(depth) for product, depth in zip(shape.products, depths, strict=True))


def _step_options(plans: Plans[PlanT], desc: RecurrentDesc, limits: Limits, tf32: bool) -> list[Option[PlanT]] | str:
    work, cell = work_of(desc, tf32=tf32), desc.cell
    if work.backward:
        # The factors of its products are float32 for every storage type.
        work = replace(work, arithmetic="tf32" if rounds_to_tf32(limits, storage_type(desc), tf32) else "float")
    late = cell.resets_first + cell.projection
    early = work.gates - cell.resets_first if "state_dropout_tensor" in desc.tensors() else 1
    captured = work.steps <= MOST_CAPTURED_STEPS
    time = per_step_time(
        work,
        GpuModel.of(limits),
        launches=1 + late,
        products=early + late,
        captured=captured,
        loads=2 if "sequence_lengths_tensor" in desc.tensors() and not work.backward else 1,
        gates_from_memory=work.backward or not can_be_in_chunks(desc),
    )
    products = f"{early + late} matrix product(s) and {1 + late} kernel(s) for each step"
    what = f"{products}, {'in a CUDA graph' if captured else f'no CUDA graph beyond {MOST_CAPTURED_STEPS} steps'}"
    return [Option(what, Estimate("per_step", work, time), lambda library, reason: plans.step(desc, library, reason, tf32))]


_OPTIONS: Mapping[str, Callable[..., Any]] = dict(zip(STRATEGIES, (_block_options, _grid_options, _step_options), strict=True))


# the choice


@dataclass(frozen=True)
class Choice(Generic[PlanT]):
    """A strategy and how it runs a desc.

    Attributes:
        strategy: its name.
        option: its launches.
        verdicts: the best of each strategy, or why there is none.
        asked_for: whether the caller named the strategy.
    """

    strategy: str
    option: Option[PlanT]
    verdicts: Mapping[str, Option[PlanT] | str]
    asked_for: bool

    def without_waits(self, why: str) -> Choice[PlanT]:
        """The best alternative whose blocks do not wait for each other, given why those of this one cannot."""
        verdicts: dict[str, Option[PlanT] | str] = {
            name: why if isinstance(verdict, Option) and (verdict.cooperative or verdict.clustered) else verdict
            for name, verdict in self.verdicts.items()
        }
        options = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Option)}
        best = min(options, key=lambda name: options[name].step_us)
        return Choice(best, options[best], verdicts, asked_for=False)

    @property
    def reason(self) -> str:
        """The reason for the choice, as lines of text."""
        why = "as asked for" if self.asked_for else "the least estimate of a step, from a model that was not measured"
        lines = [f"strategy {self.strategy}: {why}"]
        for strategy, verdict in self.verdicts.items():
            outcome = verdict if isinstance(verdict, str) else f"{verdict.step_us:.2f} us; {verdict.what}"
            lines.append(f"    {strategy}: {outcome}")
        return "\n".join(lines)


def choose(
    plans: Plans[PlanT], desc: RecurrentDesc, limits: Limits, tf32: bool = False, strategy: str | None = None, not_resident: str = ""
) -> Choice[PlanT]:
    """The strategy and the launches for a checked desc.

    Args:
        plans: the plans of the pass, `FORWARD` or `BACKWARD`.
        desc: the checked desc.
        limits: the device's limits.
        tf32: whether factors of float32 matrix products may be rounded to TF32.
        strategy: the strategy to use; None leaves the choice to the estimates.
        not_resident: why blocks cannot wait for each other; empty if they can.

    Raises:
        DeviceError: the requested strategy does not support the desc.
    """
    verdicts: dict[str, Option[PlanT] | str] = {}
    steps = desc.geometry.seq_length
    if not limits.cooperative:
        not_resident = "the device refuses cooperative launches, whose blocks wait for each other"
    for name, options_of in _OPTIONS.items():
        if strategy is None and name != "per_step" and steps <= FEW_STEPS:
            candidates: list[Option[PlanT]] | str = f"{steps} step(s) are too few to bring R on chip"
        else:
            candidates = options_of(plans, desc, limits, tf32)
        if not_resident and not isinstance(candidates, str):
            candidates = [option for option in candidates if not option.cooperative] or not_resident
        verdicts[name] = candidates if isinstance(candidates, str) else min(candidates, key=lambda option: option.step_us)
    options = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Option)}
    if strategy is not None and strategy not in options:
        raise DeviceError(f"strategy {strategy!r} cannot take {desc.c_name}: {verdicts[strategy]}")
    best = strategy or min(options, key=lambda name: options[name].step_us)
    return Choice(best, options[best], verdicts, strategy is not None)


def make_plan(plans: Plans[PlanT], desc: RecurrentDesc, library: KernelLibrary, tf32: bool, strategy: str | None) -> PlanT:
    """The plan for a checked desc by the best strategy, or the named one; arguments and errors as for `choose`."""
    choice, why = choose(plans, desc, library.limits, tf32, strategy), ""
    try:
        plan = _build_plan(choice, library, why)
    except NotResidentError as error:  # known only once the kernel is loaded
        why, refused = str(error), choice.strategy
        log_once(FALLBACKS, lambda: f"{desc.c_name}, strategy {refused}: {why}: other kernels run instead")
        choice = choose(plans, desc, library.limits, tf32, strategy, not_resident=why)
        plan = _build_plan(choice, library, why)
    waits = choice.option.cooperative or choice.option.clustered
    if isinstance(plan, ResidentPlan) and waits and strategy is None:  # only the driver knows if a launch fits
        plan.fall_back_on(lambda refused: _build_plan(choice.without_waits(refused), library, refused))
    return plan


def _build_plan(choice: Choice[PlanT], library: KernelLibrary, not_resident: str) -> PlanT:
    plan = choice.option.plan(library, choice.reason)
    plan.estimate, plan.not_resident = choice.option.estimate, not_resident
    return plan
