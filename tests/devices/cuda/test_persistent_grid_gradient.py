"""The recurrent gradients of `persistent_grid`, R resident in many blocks or in one, on the CPU and on a GPU: against a float64 tape."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.arrays import view
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.emulation.runtime import H100, T4, EmulatedRuntime
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.recurrent.gradient_results import RecurrentGradientPlan
from dmlpy.devices.cuda.recurrent.grid_gradient_shapes import grid_gradient_shape, grid_gradient_shapes, product_gates, whole_parts
from dmlpy.devices.cuda.recurrent.grid_shapes import Facts
from dmlpy.devices.cuda.recurrent.persistent_grid_gradient import PersistentGridGradientPlan
from dmlpy.devices.cuda.runtime.interface import CudaRuntime, Limits, NotResidentError
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from tests.support.cuda.changed_waits import RELAXED_POLL
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gradient_cases import HALF_ROUNDING, LAYOUTS, LSTMS, MOST_TERMS, PLAIN, STRATEGIES, Case, gradient_desc
from tests.support.operators.bfloat16_cases import BFLOAT16
from tests.support.pairwise import first_few
from tests.support.recurrent.layer_runs import GUARD, options_of, random_order
from tests.support.tolerance import assert_close, tolerance
from tests.support.tools import require

Array = np.ndarray[Any, np.dtype[Any]]
Flags = dict[str, Any]

H = 37
"""Hidden units: no multiple of what any block owns."""
RNN, RESETS_FIRST, RESETS_LAST = PLAIN


@dataclass(frozen=True)
class Spread:
    """How the work is spread, and over what.

    Attributes:
        units: of a block.
        pass_samples: samples that a block works at a time.
        samples: of a block; None: what a pass takes.
        dtype: of the tensors.
        tf32: whether the recurrence's products are on tensor cores in TF32. Those after it are not: they have tests of their own.
        batch: samples of the case.
        registers: of a thread for R; None leaves that to the shape.
        options: more for `grid_gradient_shape`.
    """

    units: int
    pass_samples: int
    samples: int | None = None
    dtype: Any = np.float32
    tf32: bool = False
    batch: int = 5
    registers: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, desc: RecurrentGradDesc, library: KernelLibrary) -> PersistentGridGradientPlan:
        samples = self.samples or self.pass_samples
        shape = grid_gradient_shape(
            desc, library.limits, self.units, samples, self.pass_samples, tf32=self.tf32, most_registers=self.registers, **self.options
        )
        assert shape is not None
        return PersistentGridGradientPlan(desc, library, shape, "as the test asks")


DATA = {"protocol": "data"}
SPREADS = {
    "fma, 5 blocks": Spread(8, 4),
    "fma, 3 blocks in passes": Spread(16, 2, 5, registers=4),
    "fma, 2 blocks": Spread(32, 1, 2),
    "fma, alone": Spread(64, 4),
    "halves, 3 blocks": Spread(16, 8, dtype=np.float16),
    "halves, 3 blocks in passes": Spread(16, 8, 13, np.float16, batch=19, registers=0),
    "halves, 2 blocks": Spread(32, 16, 3, np.float16, options={"row_warps": 2}),
    "halves, alone": Spread(48, 8, dtype=np.float16),
    "halves, alone with a tile of rows for each warp": Spread(128, 8, dtype=np.float16, options={"row_warps": 8}),
    "tf32, 3 blocks": Spread(16, 8, tf32=True),
    "tf32, alone": Spread(48, 16, tf32=True, batch=17),
    "fma, 5 blocks, data": Spread(8, 4, options=DATA),
    "fma, 3 blocks in passes, data": Spread(16, 2, 5, registers=4, options=DATA),
    "halves, 3 blocks, data": Spread(16, 8, dtype=np.float16, options=DATA),
    "halves, 3 blocks in passes, data": Spread(16, 8, 13, np.float16, batch=19, registers=0, options=DATA),
    "halves, 2 blocks, data": Spread(32, 16, 3, np.float16, options=DATA | {"row_warps": 2}),
    "tf32, 3 blocks, data": Spread(16, 8, 2, tf32=True, options=DATA),
    "halves, 3 blocks of one sample": Spread(16, 8, 1, np.float16, batch=2, options=DATA),
    "bfloat16s, 3 blocks in passes": Spread(16, 8, 13, BFLOAT16, batch=19, registers=0),
    "bfloat16s, 2 blocks, data": Spread(32, 16, 3, BFLOAT16, options=DATA | {"row_warps": 2}),
    "bfloat16s, alone": Spread(48, 8, dtype=BFLOAT16),
}


def check(case: Case, spread: Spread, what: str = "") -> None:
    """As Case.check, in the spread's arithmetic."""
    for name, placed in case.outputs.items():
        found, expected = placed.elements.astype(np.float64), case.expected[name]
        if placed.elements.dtype == np.float16:
            found = np.where(np.abs(found - expected) <= HALF_ROUNDING, expected, found)
        assert_close(found, expected, placed.elements.dtype, terms=MOST_TERMS, what=f"{what}{name}", tf32=spread.tf32)
        assert (placed.gaps() == GUARD).all(), f"{what}{name}: written between or beside its elements"


def random_case(rng: np.random.Generator, cell: str, flags: Flags, spread: Spread) -> Case:
    """Both directions, ragged lengths from 0 to beyond T, masks with holes, absent tensors, every layout."""
    t, b = int(rng.choice([1, 2, 5])), spread.batch
    optional = ("peephole",) if flags.get("peephole") else ()
    upstream = ("output_sequence", "output_single", "output_cell_single")
    return Case(
        cell,
        rng,
        t=t,
        b=b,
        h=H,
        dtype=spread.dtype,
        **random_order(rng, b, t + 1),
        mask=rng.random((t, b)) < 0.6 if rng.random() < 0.5 else None,
        optional=optional,
        upstream=tuple(name for name in upstream if rng.random() < 0.8),
        layouts=LAYOUTS if rng.random() < 0.7 else ("packed",),
        **options_of(flags),
    )


# every kind of cell

CELLS = (RNN, RESETS_FIRST, RESETS_LAST, *LSTMS)
OTHER_CELLS = (RNN, RESETS_LAST, *LSTMS)
ROWS = [
    pytest.param(
        *cell,
        name,
        id=f"{cell[0]}{''.join(f', {flag}' for flag, on in cell[1].items() if on)}, {name}",
        marks=[pytest.mark.slow] * ((cell is RESETS_FIRST) != (place % 3 == 1)),
    )
    for place, name in enumerate(SPREADS)
    for cell in (RESETS_FIRST, OTHER_CELLS[place * 2 // 3 % len(OTHER_CELLS)])
]
"""Each way to spread the work with the cell of two products and with another. One of the two is slow; of the others all cells occur."""
ALL_ROWS = [pytest.param(*cell, name, id=f"{cell[0]}, {cell[1]}, {name}") for cell in CELLS for name in SPREADS]


def check_row(runtime: CudaRuntime, cell: str, flags: Flags, name: str, cases: int) -> None:
    start, spread = zlib.crc32(repr((cell, flags, name)).encode()), SPREADS[name]
    together: dict[str, list[tuple[Array, Array]]] = {}
    for seed in range(start, start + cases):
        case = random_case(np.random.default_rng(seed), cell, flags, spread)
        case.launch(spread, runtime)
        if (
            spread.dtype == BFLOAT16
        ):  # a small result may be little but the rounding of its factors: those of all seeds are checked together
            for output, pair in case.results(f"seed {seed}: ").items():
                together.setdefault(output, []).append(pair)
        else:
            check(case, spread, f"seed {seed}: ")
    for output, pairs in together.items():
        found, expected = (np.concatenate([array.ravel() for array in arrays]) for arrays in zip(*pairs, strict=True))
        assert_close(found, expected, spread.dtype, terms=MOST_TERMS, what=f"{output} of all seeds")


@pytest.mark.each_value
@pytest.mark.parametrize(("cell", "flags", "name"), ROWS)
def test_random_descs(cuda_runtime: CudaRuntime, cell: str, flags: Flags, name: str) -> None:
    check_row(cuda_runtime, cell, flags, name, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "flags", "name"), ALL_ROWS)
def test_random_descs_in_full(cuda_runtime: CudaRuntime, cell: str, flags: Flags, name: str) -> None:
    check_row(cuda_runtime, cell, flags, name, 10)


NAMED = ["fma, 3 blocks in passes", "halves, 3 blocks in passes", "halves, alone"]
"""Spreads for what depends on little but them."""


@pytest.mark.each_value
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(("cell", "flags"), [RESETS_FIRST, ("LSTM", {})], ids=["GRU", "LSTM"])
def test_long_sequences_keep_their_accuracy(cuda_runtime: CudaRuntime, cell: str, flags: Flags, name: str) -> None:
    spread = SPREADS[name]
    lengths = [40, 17, 0, 39, 1] * 4
    case = Case(cell, np.random.default_rng(3), t=40, b=spread.batch, h=H, dtype=spread.dtype, lengths=lengths[: spread.batch], **flags)
    case.launch(spread, cuda_runtime)
    check(case, spread)


@pytest.mark.parametrize("name", first_few(NAMED[::-1], 1))
def test_directions_may_have_different_activations(cuda_runtime: CudaRuntime, name: str) -> None:
    functions = (dml.ActivationSigmoidDesc(), dml.ActivationSoftsignDesc(), dml.ActivationHardSigmoidDesc(), dml.ActivationTanhDesc())
    spread = SPREADS[name]
    case = Case("GRU", np.random.default_rng(4), h=H, b=spread.batch, dtype=spread.dtype, functions=functions, direction="BIDIRECTIONAL")
    case.launch(spread, cuda_runtime)
    check(case, spread)


# steps that are not taken


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(("cell", "flags"), [RESETS_FIRST, ("LSTM", {})], ids=["GRU", "LSTM"])
def test_what_is_not_taken_is_never_seen(cuda_runtime: CudaRuntime, cell: str, flags: Flags, name: str) -> None:
    """NaN in the input and in the saved values of such steps, and in the upstream gradients of outputs that show no state."""
    spread = SPREADS[name]
    rng = np.random.default_rng(7)
    lengths, mask = rng.integers(0, 5, spread.batch), rng.random((4, spread.batch)) < 0.6
    lengths[:2] = 0, 4
    case = Case(cell, rng, b=spread.batch, h=H, dtype=spread.dtype, direction="BIDIRECTIONAL", lengths=lengths.tolist(), mask=mask, **flags)
    taken = (np.arange(4)[:, None] < lengths) & mask
    case.inputs["input_tensor"].elements[0, ~taken] = np.nan
    upstream = case.inputs["output_sequence_gradient_tensor"].elements
    for time, sample in np.ndindex(4, spread.batch):
        for direction, earlier in enumerate([taken[: time + 1, sample], taken[time:, sample]]):
            if time >= lengths[sample] or not earlier.any():
                upstream[time, direction, sample] = np.nan
    assert np.isnan(case.inputs["reserve_tensor"].elements).any()
    case.launch(spread, cuda_runtime)
    check(case, spread)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("lengths", [[0], [0, 4]], ids=["no sample takes a step", "one does"])
def test_a_sequence_of_length_zero_passes_its_gradient_through(cuda_runtime: CudaRuntime, name: str, lengths: list[int]) -> None:
    """Whatever R is: NaN."""
    spread = SPREADS[name]
    lengths = [lengths[sample % len(lengths)] for sample in range(spread.batch)]
    case = Case("LSTM", np.random.default_rng(8), b=spread.batch, h=H, dtype=spread.dtype, lengths=lengths)
    case.inputs["recurrence_tensor"].elements[...] = np.nan
    case.launch(spread, cuda_runtime)
    short = np.array(lengths) == 0
    for of_state in ("hidden_init", "cell_mem_init"):
        source = {"hidden_init": "output_single", "cell_mem_init": "output_cell_single"}[of_state]
        found = case.outputs[f"{of_state}_gradient_tensor"].elements[:, :, short]
        np.testing.assert_array_equal(found, case.inputs[f"{source}_gradient_tensor"].elements[:, :, short])


# upstream gradients, and gradients that nobody wants

UPSTREAM = ("output_sequence", "output_single", "output_cell_single")


@pytest.mark.parametrize("upstream", [(), *((name,) for name in UPSTREAM)], ids=str)
@pytest.mark.parametrize("name", NAMED[1:])
def test_each_upstream_gradient_alone(cuda_runtime: CudaRuntime, name: str, upstream: tuple[str, ...]) -> None:
    spread = SPREADS[name]
    case = Case("LSTM", np.random.default_rng(12), b=spread.batch, h=H, dtype=spread.dtype, upstream=upstream)
    case.launch(spread, cuda_runtime)
    check(case, spread)


@pytest.mark.parametrize("output", ["weight", "hidden_init", "cell_mem_init", "peephole"])
def test_each_gradient_alone(cuda_runtime: CudaRuntime, output: str) -> None:
    case = Case("LSTM", np.random.default_rng(13), b=5, h=H, optional=("peephole",), outputs=(output,), lengths=[2, 0, 4, 4, 1])
    case.launch(SPREADS[NAMED[0]], cuda_runtime)
    check(case, SPREADS[NAMED[0]])


def gate_gradients(case: Case, make: Callable[[RecurrentGradDesc, KernelLibrary], RecurrentGradientPlan], runtime: CudaRuntime) -> Array:
    """What a plan's recurrence leaves of each step: [T, values] of float32."""
    plan = make(case.desc, KernelLibrary(runtime, 0))
    copies = {name: runtime.to_device(0, placed.memory, 0) for name, placed in (case.inputs | case.outputs).items()}
    pointers = {
        name: view(copies[name]).pointer + placed.pointer - placed.memory.ctypes.data
        for name, placed in (case.inputs | case.outputs).items()
    }
    temporary = runtime.allocate(0, plan.temporary_size, 0)
    plan.bind(pointers, temporary.pointer, None)(0)
    offset, sizes, data_type = plan._scratch.arrays["gate_gradients"]
    data = runtime.read(temporary.pointer + offset, int(np.prod(sizes)) * data_type.itemsize, 0)
    return np.frombuffer(data, data_type).reshape(case.desc.geometry.seq_length, -1).astype(np.float64)


@pytest.mark.each_value
@pytest.mark.parametrize("name", ["halves, 3 blocks", "halves, alone", "bfloat16s, alone"])
@pytest.mark.parametrize(("cell", "flags"), [*PLAIN, ("LSTM", {})], ids=["RNN", "GRU, resets first", "GRU, resets last", "LSTM"])
def test_two_bytes_keep_the_accuracy_of_gradients_of_any_size(cuda_runtime: CudaRuntime, cell: str, flags: Flags, name: str) -> None:
    """They fade from 1e-4 to what no half can hold, and between samples and units they differ much."""
    spread = SPREADS[name]
    case = Case(cell, np.random.default_rng(14), t=8, b=spread.batch, h=H, dtype=spread.dtype, upstream=("output_single",), **flags)
    sizes = 2.0 ** -np.arange(14, 14 + spread.batch)
    case.inputs["output_single_gradient_tensor"].elements[...] *= sizes[:, None].astype(spread.dtype)
    case.inputs["recurrence_tensor"].elements[...] /= 32
    if cell == "LSTM":  # the memory would keep the gradients large
        kept = case.inputs["reserve_tensor"].elements.reshape(-1)[: 4 * 8 * spread.batch * H].reshape(8, spread.batch, 4, H)
        kept[:, :, 2] = 0.0
    elif cell == "GRU":
        rows = 4 if flags["linear_before_reset"] else 3
        kept = case.inputs["reserve_tensor"].elements.reshape(-1)[: rows * 8 * spread.batch * H].reshape(8, spread.batch, rows, H)
        kept[:, :, 0] /= 64
    found, expected = (gate_gradients(case, make, cuda_runtime) for make in (spread, STRATEGIES["per_step"]))
    largest = np.abs(expected).max(axis=1)
    assert largest[-1] > 1e-7
    assert largest[0] < 1e-11
    for time in range(8):
        for_sample = (array[time].reshape(spread.batch, -1) for array in (found, expected))
        for sample, (one, other) in enumerate(zip(*for_sample, strict=True)):
            assert np.linalg.norm(one - other) <= tolerance(spread.dtype) * np.linalg.norm(other), (time, sample)


@pytest.mark.each_value
@pytest.mark.parametrize("scale", [1e-8, 1e4])
@pytest.mark.parametrize("name", ["fma, 3 blocks in passes", "tf32, 3 blocks", "bfloat16s, 2 blocks, data"])
def test_scaled_upstream_gradients_keep_their_accuracy(cuda_runtime: CudaRuntime, name: str, scale: float) -> None:
    of_case = {"dtype": SPREADS[name].dtype, "scale": scale, "direction": "BACKWARD", "lengths": [6, 2, 5, 0, 1]}
    case = Case("GRU", np.random.default_rng(10), t=6, b=5, h=H, **of_case)
    case.launch(SPREADS[name], cuda_runtime)
    check(case, SPREADS[name])


@pytest.mark.each_value
@pytest.mark.parametrize("name", ["fma, 3 blocks in passes", "halves, 2 blocks", "halves, alone"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_sample(cuda_runtime: CudaRuntime, name: str, value: float) -> None:
    found = []
    for changed in (False, True):
        case = Case("GRU", np.random.default_rng(21), b=5, h=H, dtype=SPREADS[name].dtype, outputs=("hidden_init",))
        if changed:
            case.inputs["output_sequence_gradient_tensor"].elements[2, 0, 1, 5] = value
        case.launch(SPREADS[name], cuda_runtime)
        found.append(case.outputs["hidden_init_gradient_tensor"].elements[0, 0])
    others = np.arange(5) != 1
    np.testing.assert_array_equal(found[0][others], found[1][others])
    assert np.isfinite(found[0]).all()
    assert not np.isfinite(found[1][1]).any()


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_parts_are_whole_where_no_warp_begins_within_one(cell: str) -> None:
    """Then kernels take the scale of a part of one block for all steps of depth that lie in it; the others look for it in each step."""
    found = set()
    for hidden in (48, 256, 384):
        desc = gradient_desc(cell, "FLOAT16", 16, hidden, 3)
        facts = Facts.of(desc)
        for shape in grid_gradient_shapes(desc, H100, tf32=False):
            begins = []
            for product, gates in zip(shape.products, product_gates(facts), strict=True):
                part = gates * shape.units
                run = product.steps(shape.unit_groups * part) * product.step_depth
                begins += [warp * run % part for warp in range(1, product.depth_warps + 1)]
            found.add(whole_parts(facts, shape))
            assert whole_parts(facts, shape) == (set(begins) == {0})
    assert found == {True, False}


# what blocks promise each other

SOAKED: dict[str, tuple[Spread, int, str, Flags, int, int]] = {
    # how the work is spread, hidden units, cell, flags, steps, seeds
    "fma": (Spread(8, 1, batch=1), 13, *RNN, 700, 2),
    "halves": (Spread(16, 8, dtype=np.float16, batch=1), 29, "LSTM", {}, 250, 2),
    "fma in passes": (Spread(16, 2, 5), H, *RESETS_FIRST, 100, 2),
    "fma without flags": (Spread(8, 1, batch=1, options=DATA), 13, *RNN, 500, 2),
    "halves without flags": (Spread(16, 8, 9, np.float16, batch=9, options=DATA), H, *RESETS_FIRST, 100, 3),
    "halves in passes": (Spread(32, 8, 9, np.float16, batch=9), H, *RESETS_LAST, 100, 3),
}
"""Each row runs once without delays and with as many seeds as it says with them; the slow run takes 20 times as many seeds of all rows."""


def soak(name: str, longer: int) -> None:
    """With each seed blocks are late at random: bit for bit what the first run without delays gives, which is right."""
    require("g++")
    spread, hidden, cell, flags, steps, seeds = SOAKED[name]
    lengths = ([steps, steps - 7, 0, steps // 2, 1] * 2)[: spread.batch]
    first: list[bytes] = []
    for seed in range(longer * seeds + 1):
        case = Case(cell, np.random.default_rng(15), t=steps, b=spread.batch, i=1, h=hidden, dtype=spread.dtype, lengths=lengths, **flags)
        case.launch(spread, EmulatedRuntime(H100, seed=seed, delay_us=20 * seed))
        found = [placed.elements.tobytes() for placed in case.outputs.values()]
        if not first:
            check(case, spread)
            first = found
        assert found == first, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["halves", "fma without flags"])
def test_late_blocks_change_nothing(name: str) -> None:
    soak(name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOAKED)
def test_late_blocks_change_nothing_in_a_long_time(name: str) -> None:
    soak(name, 20)


@pytest.mark.parametrize(
    "waits", first_few(["all &= exchange.is_there(under_way_[i].values);", "return exchange_.is_there(under_way_);"], 1)
)
def test_what_is_not_waited_for_is_wrong(waits: str) -> None:
    """The operand of a product, and the scales of its halves, for which one loop waits. A launch may be lucky, but not all of them are."""
    require("g++")

    def goes_wrong(seed: int) -> bool:
        case = Case("LSTM", np.random.default_rng(16), t=40, b=5, h=H, dtype=np.float16)
        spread = Spread(16, 8, dtype=np.float16, options=DATA)
        case.launch(spread, EmulatedRuntime(H100, seed=seed, fault=(waits, 0, "return true;"), delay_us=200))
        try:
            check(case, spread)
        except AssertionError:
            return True
        return False

    assert any(goes_wrong(seed) for seed in range(8))


BARRIER = "__syncthreads();"
SMALL = {
    "fma": (Spread(8, 1, registers=4), {"h": 13, "b": 2, "dtype": np.float32}),
    "halves": (Spread(32, 8, 9, np.float16, registers=0), {"h": 37, "b": 9, "dtype": np.float16}),
    "halves, shared": (Spread(32, 8, 9, np.float16, registers=0, options={"row_warps": 2}), {"h": 37, "b": 9, "dtype": np.float16}),
    "halves without flags": (Spread(32, 8, 9, np.float16, options=DATA), {"h": 37, "b": 9, "dtype": np.float16}),
    "fma without flags": (Spread(8, 2, options=DATA), {"h": 13, "b": 2, "dtype": np.float32}),
    "alone": (Spread(16, 8, dtype=np.float16, registers=0), {"h": 13, "b": 2, "dtype": np.float16}),
}
"""One with several passes and more than 16 units of halves: there all barriers in the steps count but that of warps that share an operand.
Alone, the one before them does."""


MAIN = ("persistent_grid<",)
"""What computes. The sanitizers watch over other kernels in test_gradient.py: each CUDA thread costs one of them a millisecond."""


def run_small(name: str, **options: Any) -> tuple[Case, Spread]:
    spread, sizes = SMALL[name]
    case = Case("GRU", np.random.default_rng(16), t=2, linear_before_reset=False, outputs=("hidden_init",), **sizes)
    case.launch(spread, EmulatedRuntime(H100, **options))
    return case, spread


@pytest.mark.parametrize(
    ("name", "sanitize"),
    [
        ("fma", "thread"),
        pytest.param("halves", "thread", marks=pytest.mark.slow),
        pytest.param("halves", "address,undefined", marks=pytest.mark.slow),
        pytest.param("halves, shared", "thread", marks=pytest.mark.slow),
        pytest.param("halves without flags", "thread", marks=pytest.mark.slow),
        pytest.param("halves without flags", "address,undefined", marks=pytest.mark.slow),
        pytest.param("fma without flags", "thread", marks=pytest.mark.slow),
        ("alone", "address,undefined"),
    ],
)
def test_the_sanitizers_are_silent(name: str, sanitize: str) -> None:
    require("g++")
    check(*run_small(name, sanitize=sanitize, sanitized=(*MAIN, "arrange<")))


FAULTS = [("store_release", 1, "store_relaxed"), RELAXED_POLL]


@pytest.mark.slow  # in the usual run test_persistent_grid_sanitized.py shows it of the same exchange
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault[0])
def test_the_thread_sanitizer_misses_a_release_and_an_acquire(fault: tuple[str, int, str]) -> None:
    require("g++")
    with pytest.raises(dml.DeviceError, match="data race"):
        run_small("fma", sanitize="thread", sanitized=MAIN, fault=fault)


BARRIERS = sources.read("recurrent/persistent_grid_gradient.cu").count(BARRIER)
ELSEWHERE = {1: "halves, shared", 3: "alone"}
"""The numbers of the barrier between warps that share an operand, and of that between a block's first values and its steps."""


USUAL_BARRIERS = (0,)


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=[pytest.mark.slow] * (place not in USUAL_BARRIERS)) for place in range(BARRIERS)]
)
def test_the_thread_sanitizer_misses_every_barrier(place: int) -> None:
    require("g++")
    with pytest.raises(dml.DeviceError, match="data race"):
        run_small(ELSEWHERE.get(place, "halves"), sanitize="thread", sanitized=MAIN, fault=(BARRIER, place))


# plans and shapes


def test_launches() -> None:
    """One launch for each arrangement of R and one for the recurrence, and what the blocks exchange is zero before."""
    require("g++")
    runtime = EmulatedRuntime(H100)

    def counted(cell: str, units: int, **flags: Any) -> dict[str, int]:
        before = runtime.counts.copy()
        Case(cell, np.random.default_rng(17), t=5, h=H, outputs=("hidden_init",), **flags).launch(Spread(units, 1), runtime)
        used = runtime.counts - before
        return {name: used[name] for name in ("launch", "memset")}

    of_case = 1  # Case.launch fills the scratch
    assert counted("RNN", 16) == {"launch": 2, "memset": of_case + 1}
    assert counted("RNN", 64) == {"launch": 2, "memset": of_case}
    assert counted("GRU", 16, linear_before_reset=False) == {"launch": 3, "memset": of_case + 1}


def test_a_bound_launch_starts_anew_each_time() -> None:
    """The flags of the last launch are not flags of this one."""
    require("g++")
    runtime, spread = EmulatedRuntime(H100), SPREADS["fma, 3 blocks in passes"]
    cases = [Case("LSTM", np.random.default_rng(seed), b=5, h=H, lengths=[4, 2, 3, 0, 4]) for seed in (18, 19)]
    plan = spread(cases[0].desc, KernelLibrary(runtime, 0))
    arrays = {
        name: runtime.to_device(0, np.ascontiguousarray(placed.elements), 0)
        for name, placed in (cases[0].inputs | cases[0].outputs).items()
    }
    temporary = runtime.allocate(0, plan.temporary_size, 0)
    graph = runtime.capture(0, plan.bind({name: array.pointer for name, array in arrays.items()}, temporary.pointer, None))
    for case in cases:
        for name, placed in case.inputs.items():
            arrays[name].set(np.ascontiguousarray(placed.elements))
        runtime.launch_graph(graph, 0)
        for name, placed in case.outputs.items():
            placed.elements[...] = runtime.to_host(arrays[name], 0)
        check(case, spread)
    runtime.check_guards()


@pytest.mark.parametrize(("limits", "tf32"), [(T4, False), (H100, False), (H100, True)], ids=["T4", "H100", "H100 with TF32"])
@pytest.mark.parametrize(("cell", "dtype"), [("LSTM", "FLOAT16"), ("GRU", "FLOAT16"), ("LSTM", "FLOAT32"), ("RNN", "FLOAT32")])
def test_shapes_fit(cell: str, dtype: str, limits: Limits, tf32: bool) -> None:
    """Whatever the sizes: all units and samples have a block, blocks of a group run at a time, and a plan can be made."""
    runtime = DryRunRuntime(limits)
    for hidden, batch in ((1, 1), (37, 5), (128, 64), (512, 16), (1000, 200)):
        desc = gradient_desc(cell, dtype, batch, hidden, 3)
        shapes = grid_gradient_shapes(desc, limits, tf32=tf32)
        assert shapes or hidden > 128
        for shape in shapes:
            assert shape.units * (shape.unit_groups - 1) < hidden <= shape.units * shape.unit_groups
            assert shape.samples * (shape.batch_groups - 1) < batch <= shape.samples * shape.batch_groups
            assert shape.alone or shape.blocks <= limits.multiprocessors
            assert shape.shared_bytes <= limits.shared_memory_per_block
            for product in shape.products:
                assert product.rows == shape.units
        if shapes:
            plan = PersistentGridGradientPlan(desc, KernelLibrary(runtime, 0), shapes[0], "the first", tf32)
            assert shapes[0].describe() in plan.describe()
            assert f"scratch: {plan.temporary_size} bytes" in plan.describe()


def test_what_is_resident() -> None:
    """R of an LSTM in halves: up to H = 2048 on an H100, each block with at least 16 units."""
    assert grid_gradient_shapes(gradient_desc("LSTM", "FLOAT16", 8, 2048, 3), H100, tf32=False)
    assert not grid_gradient_shapes(gradient_desc("LSTM", "FLOAT16", 8, 4096, 3), H100, tf32=False)
    assert grid_gradient_shapes(gradient_desc("LSTM", "FLOAT32", 8, 1024, 3), H100, tf32=False)


@pytest.mark.parametrize("optional", ["state_dropout", "projection"])
def test_dropped_states_and_projections_are_left_to_per_step(optional: str) -> None:
    projects = optional == "projection"
    case = Case("LSTM", np.random.default_rng(20), p=3 if projects else 0, optional=() if projects else (optional,))
    assert not grid_gradient_shapes(case.desc, H100, tf32=False)


def test_blocks_that_do_not_run_together_are_refused() -> None:
    """More than the device that is there holds, by the driver's numbers for the compiled kernel."""
    desc = gradient_desc("RNN", "FLOAT32", 1, H, 3)
    shape = grid_gradient_shape(desc, H100, 8, 1, 1, tf32=False)
    assert shape is not None
    with pytest.raises(NotResidentError, match="5 blocks have to run at the same time, and the device holds 4"):
        PersistentGridGradientPlan(desc, KernelLibrary(DryRunRuntime(replace(H100, multiprocessors=4)), 0), shape, "as the test asks")
