"""Models the time of a recurrent step on a GPU; `strategies` chooses by it, and `explain_plan` reports it.

Nothing here was measured but where a constant says so, and nothing asks a GPU. A step is a chain: the states of the previous step reach the
block (exchange), the matrix product is computed (product: the slowest of arithmetic, shared memory and operand), and its parts are combined
to the new states (chain: waiting for barriers and for results; pointwise: the special-function units). Memory traffic
is a lower bound of the sum. Cycles are of the multiprocessors' clock.

Letters: G gates, H hidden units, I inputs, B samples, T steps, D directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dmlpy.devices.cost import Cost
from dmlpy.devices.cuda.performance.gpu_model import CAPTURED_LAUNCH_US, L2_SHARE, LAUNCH_US, Arithmetic, GpuModel

if TYPE_CHECKING:
    from collections.abc import Mapping

Protocol = Literal["alone", "flags", "data", "cluster"]
"""How the blocks of a group exchange values: see raw_kernels/common/block_exchange.cuh."""

# latencies in cycles (measured on an H800 where a source is named: Luo et al., arXiv 2402.13499)

BARRIER = 20
"""A barrier of one block. Model."""
SHARED_LOAD = 29
"""A load from shared memory to a register. Luo et al."""
MEMORY_LOAD = 479
"""A load from the GPU's memory to a register. Luo et al."""
MMA = 24
"""Latency between dependent mma.sync instructions. Luo et al."""
MMA_CHAIN = 4
"""The fewest products that one warp adds in sequence. Model: several independent sums share the depth."""
ACTIVATIONS = 77
"""From the sums of a unit to its new states, when the special-function units are idle. Model."""
SINGLE_SUMS = 4
"""The time of one sample's sums on their way to shared memory, in columns of 4 bytes. Derived: half of a store's lanes are idle."""
UNIFORM_LOAD = 2
"""The load/store units' time for 16 bytes that all lanes of a warp read. Derived from the rate of compiled code."""
COPY_LOADS = 8
"""Loads of 16 bytes that a thread of `persistent_block` has in flight while R is copied to shared memory."""
COPY_STORES = 40
"""The time until those loads are stored to shared memory and the next ones begin. Model."""
LEAST_GEMM_US = 4.0
"""A library's product of a few rows, which is bound by the latency of loads. Estimated: 4 to 6 us."""
FMA = 4
"""Latency between dependent multiply-adds."""
CLUSTER = 250
"""An exchange within a cluster. Model, based on a hop of 180 (Luo et al.)."""
CLUSTER_SHARE = 8 / 9
"""The share of multiprocessors that clusters occupy: their blocks share a group of 16 or 18 multiprocessors. Model."""
LOCAL = 2 * BARRIER + 3 * SHARED_LOAD + MMA_CHAIN * MMA + ACTIVATIONS
"""The part of a step that does not depend on sizes: operand, product, sums of other warps, activations; 300 cycles."""
FLAG_TRIPS = 4.0
"""Trips to the L2 cache in an exchange with flags: states stored and visible, flag stored and seen, states read. Model."""
DATA_TRIPS = 2.0
"""The trips if each word of data shows by itself whether it has arrived: stored, and seen after half a failed poll on average. All loads
that a thread still waits for are repeated in one trip. Model."""
LEAST_DATA_TRIPS = 1.5
"""A lower bound for any exchange between blocks by data. Model."""
MULTICAST = 170
"""The extra latency when the L2 cache is read once for a whole cluster. Luo et al."""

# rates

MULTICAST_RATE = 64
"""Bytes a cycle that reach a multiprocessor when a cluster reads the L2 cache jointly. Model."""
CLUSTER_RATE = 14
"""Bytes a cycle from the other blocks of a cluster. Luo et al.: 13 to 16."""

# residency

THREADS = 256
"""Threads of a block that holds its part of R on chip."""
WEIGHT_REGISTERS = 176
"""Registers of each of its threads for R, besides the sums of 8 samples: the compiler reports no spills."""
WORKING_BYTES = 27 * 1024
"""Bytes of its shared memory for other data: states, partial sums."""


@dataclass(frozen=True)
class Work:
    """The work of a recurrence, forward or backward (its gradients).

    Attributes:
        gates: G.
        hidden: H.
        inputs: I.
        batch: B.
        steps: T.
        directions: D.
        arithmetic: the arithmetic of the recurrent product.
        training: whether values for the gradient are saved; forward only.
        resets_first: whether the last gate's product depends on the others (a GRU without linear_before_reset).
        backward: whether it is the gradient, which runs against time.
        projected: S, the entries of h with a projection; None without one.
    """

    gates: int
    hidden: int
    inputs: int
    batch: int
    steps: int
    directions: int
    arithmetic: Arithmetic
    training: bool = False
    resets_first: bool = False
    backward: bool = False
    projected: int | None = None

    @property
    def itemsize(self) -> int:
        """The bytes of an element of R and of exchanged values."""
        return 2 if self.arithmetic == "half" else 4

    @property
    def state(self) -> int:
        """S, the number of entries of h."""
        return self.projected or self.hidden

    @property
    def unit_weights(self) -> int:
        """The number of elements of R, and of a projection, per unit."""
        return self.gates * self.state + (self.projected or 0)

    @property
    def recurrence_bytes(self) -> int:
        """The bytes of R and of a projection, for one direction."""
        return self.unit_weights * self.hidden * self.itemsize

    @property
    def step_flops(self) -> int:
        """The floating-point operations of a step's recurrent products, for one direction."""
        return 2 * self.unit_weights * self.hidden * self.batch

    @property
    def exchanges(self) -> int:
        """The number of exchanges in a step, each followed by a product that depends on it."""
        return 2 if self.resets_first or self.projected else 1

    @property
    def exchanged(self) -> int:
        """The values of a sample that every block needs in a step: h and the factors of a late product, or the gate gradients."""
        if self.backward:
            return self.gates * self.hidden + (self.projected or 0)
        return self.state + (self.hidden if self.exchanges > 1 else 0)

    @property
    def special_functions(self) -> int:
        """The special-function operations per unit and sample: two for each of an LSTM's 5, a GRU's 3 or an RNN's 1 activations."""
        return 2 * {4: 5, 3: 3}.get(self.gates, 1) if not self.backward else 2

    @property
    def gate_bytes(self) -> int:
        """The bytes of an element of the input product, or of the gates that training saves: float32 except in inference."""
        return 4 if self.training or self.backward else self.itemsize

    def memory_bytes(self, *, gates_from_memory: bool = True) -> int:
        """The bytes that one direction reads or writes in a step, without R, per unit and sample; the L2 cache may hold input gates."""
        if self.backward:
            return 3 * self.gates * self.gate_bytes + 3 * self.itemsize
        read = self.gates * self.gate_bytes if gates_from_memory else 0
        return read + self.itemsize + (4 * (self.gates + 1) if self.training else 0)


# residency


def block_bytes(gpu: GpuModel) -> int:
    """The bytes of R that one block can hold: in registers, and in shared memory besides its working memory."""
    return 4 * WEIGHT_REGISTERS * THREADS + max(0, gpu.shared_bytes - WORKING_BYTES)


def least_unit_groups(work: Work, gpu: GpuModel) -> int | None:
    """The fewest blocks that hold R of one direction, each with all gates of its units; None if there are too few multiprocessors."""
    most_units = block_bytes(gpu) // (work.unit_weights * work.itemsize)
    groups = -(-work.hidden // most_units) if most_units else gpu.multiprocessors + 1
    return groups if groups * work.directions <= gpu.multiprocessors else None


# the floor: the best that any kernel could do, even one that does not exist


def floors_us(work: Work, gpu: GpuModel) -> dict[str, float]:
    """The lower bound of a step's microseconds for each kind of kernel that can do the work; for all samples and directions.

    Keys: `block` (R in one block), `cluster` (in a cluster), `grid` (in many blocks, the data being the flag; the part that does not fit is
        read
    from the L2 cache), `launches` (two launches for each step). Each uses the best arithmetic: float32, or if they are accurate enough
    tensor cores; FLOAT32 needs three products of FLOAT16 parts there.
    """
    multiprocessors = gpu.multiprocessors // work.directions or 1
    floors = {"launches": _launches_floor_us(work, gpu)}
    if work.recurrence_bytes <= block_bytes(gpu):
        samples = -(-work.batch // multiprocessors)
        floors["block"] = gpu.us(work.exchanges * LOCAL + _arithmetic(work, gpu, work.hidden, samples))
    if gpu.has_clusters:
        candidates = []
        for blocks in (2, 4, 8, 16):
            if work.recurrence_bytes <= blocks * block_bytes(gpu) and blocks <= multiprocessors:
                samples = -(-work.batch // (multiprocessors // blocks))
                ingest = samples * work.exchanged * work.itemsize * (blocks - 1) / blocks / CLUSTER_RATE
                compute = _arithmetic(work, gpu, work.hidden / blocks, samples)
                candidates.append(work.exchanges * (LOCAL + CLUSTER) + max(compute, ingest))
        if candidates:
            floors["cluster"] = gpu.us(min(candidates))
    floors["grid"] = gpu.us(min(_grid_floors(work, gpu, multiprocessors)))
    streamed = gpu.memory_us(work.memory_bytes(gates_from_memory=False) * work.batch * work.hidden * work.directions)
    return {strategy: max(value, streamed) for strategy, value in floors.items()}


def floor_us(work: Work, gpu: GpuModel) -> float:
    """The least of `floors_us`."""
    return min(floors_us(work, gpu).values())


def _arithmetic(work: Work, gpu: GpuModel, units: float, samples: int) -> float:
    """The cycles of one block's product with this many units and samples; tensor cores take samples in groups of eight."""
    flops = 2.0 * work.unit_weights * units
    padded = -(-samples // 8) * 8
    ways = [flops * samples / gpu.fma, 3 * flops * padded / gpu.mma]
    if work.arithmetic == "half":
        ways.append(flops * padded / gpu.mma)
    if work.arithmetic == "tf32" and gpu.mma_tf32:
        ways.append(flops * padded / gpu.mma_tf32)
    return min(ways)


def _grid_floors(work: Work, gpu: GpuModel, multiprocessors: int) -> list[float]:
    """The cycles of a step in a grid, for each number of blocks that R can be split over."""
    overflow = max(0.0, work.recurrence_bytes - multiprocessors * block_bytes(gpu))
    floors = []
    for groups in range(2, multiprocessors + 1):
        units = -(-work.hidden // (8 * groups)) * 8 if work.hidden >= 8 * groups else -(-work.hidden // groups)
        fits = work.unit_weights * units * work.itemsize <= block_bytes(gpu)
        if not fits and multiprocessors // groups > 1:
            continue
        samples = -(-work.batch // (multiprocessors // groups))
        compute = _arithmetic(work, gpu, units, samples)
        ingest = samples * work.exchanged * work.itemsize
        exchange = work.exchanges * (LOCAL + LEAST_DATA_TRIPS * gpu.l2_cycles)
        streamed = 0.0 if fits else overflow / (gpu.l2_rate * multiprocessors)
        floors.append(exchange + max(compute, ingest / gpu.l2_rate, streamed))
        if gpu.has_clusters and fits:
            floors.append(exchange + MULTICAST + max(compute, ingest / MULTICAST_RATE))
    return floors or [float("inf")]


def _launches_floor_us(work: Work, gpu: GpuModel) -> float:
    size = work.recurrence_bytes * work.directions
    return 2 * work.exchanges * CAPTURED_LAUNCH_US + gpu.gemm_us(work.step_flops * work.directions, size, work.arithmetic)


# the existing strategies


def clusters_at_a_time(gpu: GpuModel, blocks: int) -> int:
    """The number of clusters of this many blocks, one block for each multiprocessor, that run at the same time; at least one."""
    return max(1, int(CLUSTER_SHARE * gpu.multiprocessors) // blocks)


@dataclass(frozen=True)
class StepTime:
    """The predicted time of one step of a strategy, part by part, in microseconds.

    Attributes:
        exchange_us: the time until states of other blocks arrive.
        product_us: the time of the matrix products.
        chain_us: the latency of dependent barriers, loads and results.
        pointwise_us: the time of special functions.
        launch_us: the time of kernel launches.
        memory_us: the time of other tensors read and written; a lower bound of the step, not part of it.
        once_us: the time of loading R on chip, once per sequence.
    """

    exchange_us: float = 0.0
    product_us: float = 0.0
    chain_us: float = 0.0
    pointwise_us: float = 0.0
    launch_us: float = 0.0
    memory_us: float = 0.0
    once_us: float = 0.0

    @property
    def us(self) -> float:
        """The microseconds of a step."""
        return max(self.exchange_us + self.product_us + self.chain_us + self.pointwise_us + self.launch_us, self.memory_us)


@dataclass(frozen=True)
class Estimate:
    """The model's estimate for one strategy and shape.

    Attributes:
        strategy: the strategy of kernels.
        work: the work, in the strategy's arithmetic.
        time: the time of a step.
        registers: bytes of one copy of R of all directions that lie in registers.
        shared: the same in shared memory; the rest is read in each step.
        exchanged: bytes that blocks read of each other in a step.
    """

    strategy: str
    work: Work
    time: StepTime
    registers: int = 0
    shared: int = 0
    exchanged: int = 0

    @property
    def sequence_us(self) -> float:
        """The microseconds of all steps and of the launches before them."""
        return self.time.once_us + self.work.steps * self.time.us


def persistent_block_time(work: Work, gpu: GpuModel, samples: int) -> StepTime:
    """The time of a step of `persistent_block`: R in each block's shared memory, a thread per unit, `samples` per block.

    More blocks than multiprocessors run in rounds, which counts as longer steps.
    """
    warps, quads = -(-work.hidden // 32), -(-work.hidden // 4)
    rounds = -(-(-(-work.batch // samples) * work.directions) // gpu.multiprocessors)
    # A warp issues its multiplications to one quarter of the multiprocessor; few warps leave the other quarters idle.
    additions = 4 * quads * work.gates * samples
    instructions = additions * (
        2 if work.arithmetic == "half" and samples == 1 else 1
    )  # halves are converted to floats once for all samples
    issue = instructions * 2 * 32 * max(warps, 4) / gpu.fma
    shared = quads * warps * (128 * work.gates * work.itemsize + 128 * samples) / gpu.shared_rate
    waits = FMA * quads * (work.gates if work.backward else 4)  # the longest of a thread's independent sums
    product = max(issue, shared, waits, _gates_cycles(work, gpu))
    pointwise = work.special_functions * work.hidden * samples / gpu.special
    chain = work.exchanges * (BARRIER + SHARED_LOAD) + ACTIVATIONS
    turns = -(-work.recurrence_bytes // (16 * COPY_LOADS * 32 * warps))  # rounds of copying R by all threads
    copied = max(work.recurrence_bytes / gpu.l2_rate, turns * (gpu.l2_cycles + COPY_STORES)) + MEMORY_LOAD
    return StepTime(
        product_us=rounds * gpu.us(product),
        chain_us=rounds * gpu.us(chain),
        pointwise_us=rounds * gpu.us(pointwise),
        memory_us=_memory_us(work, gpu),
        once_us=rounds * gpu.us(copied) + (CAPTURED_LAUNCH_US if work.backward else 0.0),  # another kernel transposes R
    )


@dataclass(frozen=True, kw_only=True)
class PersistentGrid:
    """A launch of `persistent_grid`, as far as its time depends on it.

    Attributes:
        units: the units of a block, padding included.
        samples: the samples of a block.
        pass_samples: the samples processed at a time.
        protocol: how blocks exchange states; `alone` for one block for each direction, `cluster` if all of them form one.
        register_bytes: the bytes of the block's part of R in registers; the rest is read from shared memory in each pass.
        depth_warps: warps that split the depth of a product, whose sums are added in shared memory.
        row_warps: warps that split its rows and read the same operand.
        row_lanes: lanes of a warp with different rows, in float32; the others split the depth too.
        padding: the multiplications of the product, rows and depth rounded up, for each multiplication that is needed.
        blocks: the number of blocks. There may be more single blocks, and clusters, than run at a time, which counts as longer steps.
        cluster_blocks: the blocks of a cluster.
        exchange_bytes: the bytes of all buffers between blocks, which are filled before the first step.
    """

    units: int
    samples: int
    pass_samples: int
    protocol: Protocol
    register_bytes: int = 4 * WEIGHT_REGISTERS * THREADS
    depth_warps: int = 8
    row_warps: int = 1
    row_lanes: int = 32
    padding: float = 1.0
    blocks: int = 1
    cluster_blocks: int = 1
    exchange_bytes: int = 0


def persistent_grid_time(work: Work, gpu: GpuModel, grid: PersistentGrid) -> StepTime:
    """The time of a step of `persistent_grid`: R in registers and shared memory of one or many blocks."""
    passes = -(-grid.samples // grid.pass_samples)
    alone, clustered = grid.protocol == "alone", grid.protocol == "cluster"
    through_l2 = not (alone or clustered)
    on_tensor_cores = work.arithmetic != "float"
    columns = -(-grid.pass_samples // 8) * 8 if on_tensor_cores else grid.pass_samples
    rows = grid.units if work.backward else work.gates * grid.units
    part = work.unit_weights * grid.units
    rate = {"half": gpu.mma, "tf32": gpu.mma_tf32, "float": gpu.fma}[work.arithmetic]
    compute = 2.0 * part * grid.padding * columns / rate
    # A block loads an operand from the L2 cache once, or gets it from its cluster, and every warp with different rows reads it from shared
    # memory.
    real = min(grid.samples, grid.pass_samples)
    loaded = real * work.exchanged * work.itemsize
    weights = max(0, part * work.itemsize - grid.register_bytes) / gpu.shared_rate
    shared = weights + _operand_cycles(work, gpu, columns, grid) + (loaded / gpu.shared_rate if through_l2 else 0)
    # A single sample is stored by 8 of 32 lanes, in two stores for each 16 rows.
    put = SINGLE_SUMS if on_tensor_cores and real == 1 else columns
    sums = 4 * grid.depth_warps * rows * (put + real) / gpu.shared_rate
    others = 1 - 1 / grid.cluster_blocks
    ingest = 0.0 if alone else loaded * others / CLUSTER_RATE if clustered else loaded / gpu.l2_rate
    product = passes * (max(compute, shared, ingest) + sums)
    exchange = _exchange_cycles(gpu, grid.protocol)
    if not through_l2:
        product = max(product, _gates_cycles(work, gpu) - exchange)  # otherwise the exchange hides it
    local = LOCAL + BARRIER + SHARED_LOAD if through_l2 else LOCAL
    at_a_time = clusters_at_a_time(gpu, grid.cluster_blocks) * grid.cluster_blocks if clustered else gpu.multiprocessors
    rounds = -(-grid.blocks // at_a_time)
    return StepTime(
        exchange_us=rounds * gpu.us(work.exchanges * exchange),
        product_us=rounds * gpu.us(product),
        chain_us=rounds * gpu.us(work.exchanges * passes * local),
        pointwise_us=rounds * gpu.us(work.special_functions * grid.units * grid.samples / gpu.special),
        memory_us=_memory_us(work, gpu),
        once_us=rounds * gpu.us(part * work.itemsize / gpu.l2_rate + MEMORY_LOAD) + _begin_us(gpu, grid),
    )


def _operand_cycles(work: Work, gpu: GpuModel, columns: int, grid: PersistentGrid) -> float:
    """The cycles in which a block's warps read the operand of a pass from shared memory: every warp with different rows reads it."""
    if work.arithmetic == "float":
        return UNIFORM_LOAD * work.exchanged / 4 * columns * grid.row_lanes / 32
    return columns * work.exchanged * work.itemsize * grid.row_warps / gpu.shared_rate


def _exchange_cycles(gpu: GpuModel, protocol: Protocol) -> float:
    """The cycles that blocks take to exchange states once."""
    trips = {"flags": FLAG_TRIPS, "data": DATA_TRIPS}
    return trips[protocol] * gpu.l2_cycles if protocol in trips else CLUSTER if protocol == "cluster" else 0.0


def _begin_us(gpu: GpuModel, grid: PersistentGrid) -> float:
    """The microseconds before the first step: a launch fills the exchange buffers; blocks of a cluster synchronize."""
    if grid.protocol == "alone":
        return 0.0
    return gpu.us(CLUSTER) if grid.protocol == "cluster" else CAPTURED_LAUNCH_US + gpu.memory_us(grid.exchange_bytes)


def per_step_time(
    work: Work, gpu: GpuModel, *, launches: int, products: int, captured: bool, loads: int = 1, gates_from_memory: bool = True
) -> StepTime:
    """The time of a step of `per_step`: matrix products by a library and a fused kernel, one launch after another.

    Args:
        work: the work to do.
        gpu: the GPU.
        launches: the launches of kernels, without products.
        products: matrix products of one direction, which share the gates.
        captured: whether the launches are replayed as one CUDA graph.
        loads: the dependent loads of a launch.
        gates_from_memory: whether the input's gates are read from there; else they are still in the L2 cache.
    """
    gates = max(1, work.gates // products)
    columns, depth = (work.hidden, gates * work.hidden) if work.backward else (gates * work.hidden, work.hidden)
    parts = -(-work.batch // 32) * -(-columns // 64) * -(-depth // 1024)
    one = gpu.gemm_us(work.step_flops / products, work.recurrence_bytes / products, work.arithmetic, parts)
    count = launches + products * work.directions
    activations = work.special_functions * work.directions * work.hidden * work.batch
    return StepTime(
        product_us=products * work.directions * max(one, LEAST_GEMM_US),
        chain_us=launches * gpu.us(loads * gpu.l2_cycles + ACTIVATIONS),
        pointwise_us=gpu.us(activations / (gpu.special * gpu.multiprocessors)),
        launch_us=count * (CAPTURED_LAUNCH_US if captured else LAUNCH_US),
        memory_us=_memory_us(work, gpu, gates_from_memory=gates_from_memory),
    )


def product_us(
    gpu: GpuModel, arithmetic: Arithmetic, rows: int, columns: int, depth: int, itemsize: int = 4, result_itemsize: int = 4
) -> float:
    """The microseconds of a product over all steps outside the recurrence: [rows, depth] by [depth, columns], factors of `itemsize` bytes.

    A result with items of 0 bytes does not go to memory: it is read while the L2 cache holds it.
    """
    size = itemsize * depth * (rows + columns) + result_itemsize * rows * columns
    return max(gpu.gemm_us(2 * rows * columns * depth, 0, arithmetic), gpu.memory_us(size))


def cost_of(estimate: Estimate, work: Work, gpu: GpuModel, products_us: float, traffic: Mapping[str, int], not_resident: str = "") -> Cost:
    """The cost of a plan.

    Args:
        estimate: the estimate of the plan's strategy.
        work: the work that any strategy must do.
        gpu: the GPU.
        products_us: the time of the products over all steps, the same for every strategy.
        traffic: bytes that the estimate does not include.
        not_resident: why `persistent_grid` could not be used, if so.
    """
    whole = estimate.work.recurrence_bytes * work.directions
    places = {"registers": estimate.registers, "shared memory": estimate.shared}
    places["nowhere"] = whole - sum(places.values())
    added = {"recurrence in each step": places["nowhere"] * work.steps, "exchange between blocks": estimate.exchanged * work.steps}
    step_us = floor_us(work, gpu)
    return Cost(
        strategy=f"{estimate.strategy} (persistent_grid: {not_resident})" if not_resident else estimate.strategy,
        traffic={kind: size for kind, size in {**traffic, **added}.items() if size},
        residency={place: size for place, size in places.items() if size},
        floor_us=work.steps * step_us + products_us,
        floor_step_us=step_us,
        estimate_us=estimate.sequence_us + products_us,
        estimate_step_us=estimate.time.us,
    )


def _gates_cycles(work: Work, gpu: GpuModel) -> int:
    """The cycles until the input's gates of a step, or those that training saved, have been read."""
    size = work.gate_bytes * work.gates * work.hidden * work.batch * work.directions * work.steps
    return gpu.l2_cycles if size <= L2_SHARE * gpu.l2_bytes else MEMORY_LOAD


def _memory_us(work: Work, gpu: GpuModel, *, gates_from_memory: bool = True) -> float:
    """The microseconds for the memory that a step reads and writes, without R."""
    size = work.memory_bytes(gates_from_memory=gates_from_memory)
    return gpu.memory_us(size * work.batch * work.hidden * work.directions)
