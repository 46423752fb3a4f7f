"""What the kernels ask of shared and global memory, counted without a GPU: bank conflicts, sectors and rounds of loads, as tables.

A limit that a change of the kernels leaves far behind is to be lowered: what it would let pass again is no longer noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from dmlpy.description.tensors import TensorDesc
from dmlpy.devices.cuda.common import element_tiles
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.devices.cuda.recurrent.gradient_plan import gradient_plan
from dmlpy.devices.cuda.recurrent.grid_gradient_shapes import grid_gradient_shape
from dmlpy.devices.cuda.recurrent.grid_shapes import grid_shape
from dmlpy.devices.cuda.recurrent.model import Protocol
from dmlpy.devices.cuda.recurrent.persistent_grid import PersistentGridPlan
from dmlpy.devices.cuda.recurrent.persistent_grid_gradient import PersistentGridGradientPlan
from dmlpy.devices.cuda.recurrent.plan import recurrent_plan
from dmlpy.operators.attention import MultiheadAttentionDesc
from dmlpy.operators.convolution import ConvolutionDesc
from dmlpy.operators.elementwise.math import ElementWiseIdentityDesc
from dmlpy.operators.matrix import GEMMDesc
from dmlpy.operators.recurrent.gradient import RecurrentGradDesc
from dmlpy.operators.recurrent.layer import RecurrentDesc
from tests.support.cuda.binaries.access_counts import CountingRuntime, Counts
from tests.support.cuda.gradient_cases import gradient_desc
from tests.support.cuda.normalized_images import INFERENCE, TRAINING, TRAINING_GRAD, described, images
from tests.support.recurrent.layer_runs import CELLS, USUAL, sizes_of
from tests.support.tools import require

SLACK = 1.1
"""How many times what is found a limit may be."""
STEPS = 2
MOST_STATES = 8 * 512
"""Of a layer in the usual run, B times H: what is counted of a larger one takes seconds."""


class Asked(NamedTuple):
    """What the first block of a launch asks of memory, without the words with which blocks wait for each other.

    Attributes:
        wavefronts: of shared memory.
        conflicts: wavefronts for each that the same words need.
        sectors: of global memory, each access of a warp by itself.
        scattering: sectors for each that the same bytes need.
        rounds: of loads from global memory, for each warp: those before which it has stored something, or waited at a barrier. What is
            loaded a step ahead is a round of its own.
    """

    wavefronts: float
    conflicts: float
    sectors: float
    scattering: float
    rounds: float

    @classmethod
    def of(cls, counts: Counts) -> Asked:
        plain = counts.where(lambda line: line.kind in ("load", "store"))
        wavefronts, sectors = plain.sum("wavefronts"), plain.sum("sectors")
        conflicts, scattering = wavefronts / max(plain.sum("least_wavefronts"), 1), sectors / max(plain.sum("least_sectors"), 1)
        return cls(wavefronts, conflicts, sectors, scattering, plain.sum("rounds") / counts.warps)

    def __str__(self) -> str:
        return f"Asked({', '.join(f'{round(value, 2):.12g}' for value in self)})"


def hold(*held: tuple[Counts, Asked]) -> None:
    """Each number is at most its limit, and the limit no more than `SLACK` times that. A failure shows all as the tables do."""
    problems = []
    for counts, limits in held:
        found = Asked.of(counts)
        for name, value, limit in zip(Asked._fields, found, limits, strict=True):
            if value > limit + 5e-3:
                problems.append(f"{name}: found {value:.6g}, allowed {limit}\n{counts}")
            elif value * SLACK + 5e-3 < limit:
                problems.append(f"{name}: found {value:.6g}, lower the limit of {limit}")
    assert not problems, "\n".join([*problems, f"found: {', '.join(str(Asked.of(counts)) for counts, _ in held)}"])


def run(runtime: CountingRuntime, desc: Any, plan: Any, *, prepared: bool) -> None:
    """Runs a plan over memory of zeros, whose addresses are multiples of 256: constants packed before (all zero) or now."""
    memory = {name: runtime.allocate(0, tensor.size_in_bytes, 0) for name, tensor in desc.tensors().items()}
    scratch = runtime.allocate(0, plan.prepared_temporary_size if prepared else plan.temporary_size, 0)
    persistent = runtime.allocate(0, plan.persistent_size, 0)
    for allocated in (*memory.values(), scratch, persistent):
        runtime.memset(allocated.pointer, 0, allocated.size, 0)
    pointers = {name: allocated.pointer for name, allocated in memory.items() if not prepared or name not in plan.constants}
    plan.bind(pointers, scratch.pointer, persistent.pointer if prepared else None)(0)
    runtime.check_guards()


# recurrent layers: a step, and what comes before the first one


def forward(cell: str, data_type: str, batch: int, hidden: int, steps: int) -> RecurrentDesc:
    """A forward layer with a bias and its outputs of all steps."""
    sizes = sizes_of(cell, steps, batch, 8, hidden, 1)
    names = ("input_tensor", "weight_tensor", "recurrence_tensor", "bias_tensor", "output_sequence_tensor")
    tensors = {name: TensorDesc(data_type=data_type, sizes=sizes[name]) for name in names}
    return CELLS[cell](**tensors, activation_descs=USUAL[cell], direction="FORWARD")


def spread(desc: Any, library: KernelLibrary, shape: tuple[int, int, int], tf32: bool = False, **options: Any) -> Any:
    """The plan of the strategy `persistent_grid` whose blocks have so many units, so many samples, and so many of these in a pass.

    `options` as for `grid_shape`.
    """
    if isinstance(desc, RecurrentGradDesc):
        gradient_shape = grid_gradient_shape(desc, library.limits, *shape, tf32=tf32, **options)
        assert gradient_shape is not None
        return PersistentGridGradientPlan(desc, library, gradient_shape, "as the test asks")
    layer_shape = grid_shape(desc, library.limits, *shape, tf32=tf32, **options)
    assert layer_shape is not None
    return PersistentGridPlan(desc, library, layer_shape, "as the test asks", tf32)


@dataclass(frozen=True)
class Layer:
    """A layer or its gradients in one of the strategies that keep R on the chip, and what its kernel may ask of memory.

    Attributes:
        cell: of the layer.
        data_type: of its tensors.
        sizes: samples and hidden units. Blocks are those of a larger batch where `shape` says so: they do not know of others.
        shape: units of a block, samples of a block, samples of a pass; None: the strategy is `persistent_block`.
        step: what one step asks.
        around: what comes before the first step and after the last.
        gradient: whether it is of the gradients.
        tf32: whether products are in TF32.
        protocol: of the strategy `persistent_grid`: how blocks exchange states.
        row_warps: warps of a block with different rows.
    """

    cell: str
    data_type: str
    sizes: tuple[int, int]
    shape: tuple[int, int, int] | None
    step: Asked
    around: Asked
    gradient: bool = False
    tf32: bool = False
    protocol: Protocol = "flags"
    row_warps: int = 1

    def __str__(self) -> str:
        kind = "TF32" if self.tf32 else self.data_type
        what = f"{self.cell} {'gradient ' * self.gradient}{kind} B={self.sizes[0]} H={self.sizes[1]}"
        return f"{what}, {'persistent_block' if self.shape is None else f'{self.shape}, {self.protocol}'}"

    def plan(self, desc: Any, library: KernelLibrary) -> Any:
        if self.shape is None:
            return (gradient_plan if self.gradient else recurrent_plan)(desc, Target(library, strategy="persistent_block"))
        return spread(desc, library, self.shape, self.tf32, protocol=self.protocol, row_warps=self.row_warps)

    def counts(self, steps: int) -> Counts:
        """Of the kernel's first block."""
        runtime = CountingRuntime(traced=("persistent_grid<", "persistent_block<"))
        desc = (gradient_desc if self.gradient else forward)(self.cell, self.data_type, *self.sizes, steps)
        run(runtime, desc, self.plan(desc, KernelLibrary(runtime, 0)), prepared=not self.gradient)
        (counts,) = runtime.launches
        return counts


LAYERS = [
    # as the model spreads them for 64, 8 and 1 samples
    Layer(
        "LSTM",
        "FLOAT16",
        (32, 1024),
        (16, 32, 32),
        Asked(4976, 1.01, 2248, 1, 5),
        Asked(908, 1, 4104, 1, 3.13),
        protocol="data",
        row_warps=4,
    ),
    Layer("LSTM", "FLOAT32", (8, 1024), (8, 8, 8), Asked(2382, 1.32, 1072, 1, 2.25), Asked(1012, 1, 4100, 1, 5.13), protocol="data"),
    Layer("LSTM", "FLOAT16", (1, 512), (8, 1, 8), Asked(196, 1.2, 38, 1, 1.13), Asked(39, 1, 1028, 1, 1.13), protocol="data"),
    # with flags; two products; TF32
    Layer("LSTM", "FLOAT16", (16, 512), (32, 16, 8), Asked(2464, 1, 704, 1, 4), Asked(756, 1.02, 4112, 1, 3.13)),
    Layer("GRU", "FLOAT16", (8, 512), (32, 8, 8), Asked(824, 1, 608, 1, 3), Asked(196, 1, 3084, 1, 2.13)),
    Layer("LSTM", "FLOAT32", (16, 256), (16, 16, 16), Asked(968, 1.18, 704, 1, 3), Asked(204, 1.02, 2056, 1, 1.13), tf32=True),
    Layer(
        "LSTM", "FLOAT16", (16, 512), (32, 16, 16), Asked(3648, 1.16, 2896, 1, 5), Asked(608, 1.02, 4912, 1, 5), gradient=True, row_warps=2
    ),
    Layer("LSTM", "FLOAT32", (4, 512), (16, 4, 4), Asked(1560, 1.52, 1136, 1, 2.25), Asked(217, 1.02, 4216, 1, 2.38), gradient=True),
    # one block
    Layer("LSTM", "FLOAT16", (2, 128), None, Asked(1284, 1.11, 40, 1, 1), Asked(1036, 1, 4160, 1, 9)),
    Layer("LSTM", "FLOAT32", (2, 96), None, Asked(1299, 1.06, 60, 1, 1), Asked(1161, 1, 4656, 1, 13)),
    Layer("GRU", "FLOAT16", (2, 128), None, Asked(1288, 1.25, 32, 1, 1), Asked(784, 1, 3120, 1, 7)),
    Layer("LSTM", "FLOAT16", (2, 128), None, Asked(2064, 1.33, 160, 1, 1), Asked(3120, 1.2, 4264, 1, 9), gradient=True),
]


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(layer, marks=[pytest.mark.slow] * (number % 4 > 0 or layer.sizes[0] * layer.sizes[1] > MOST_STATES), id=str(layer))
        for number, layer in enumerate(LAYERS)
    ],
)
def test_recurrent_layers(layer: Layer) -> None:
    require("g++")
    fewer = layer.counts(STEPS)
    step = layer.counts(STEPS + 1).without(fewer)
    around = fewer.without(step, STEPS - layer.gradient)  # the gradient's last step has no product
    hold((step, layer.step), (around, layer.around))


# what runs once: packing, a step of `per_step`, normalization


@dataclass(frozen=True)
class Work:
    """A plan and what each of its kernels may ask of memory, in the order of the launches."""

    name: str
    desc: Any
    plan: Callable[[Any, KernelLibrary], Any]
    kernels: Sequence[tuple[str, Asked]]


def normalization(name: str, mode: str, sizes: tuple[int, ...], memory: str, data_type: str, *kernels: tuple[str, Asked]) -> Work:
    """Batch normalization over channels."""
    desc = described(mode, images(sizes, memory, data_type))
    return Work(name, desc, lambda desc, library: plan_of(desc, Target(library)), kernels)


def of_strategy(strategy: str) -> Callable[[Any, KernelLibrary], Any]:
    return lambda desc, library: recurrent_plan(desc, Target(library, strategy=strategy))


def column_major(desc: RecurrentDesc) -> RecurrentDesc:
    """With weights whose columns lie side by side."""
    turned = {}
    for name in ("weight_tensor", "recurrence_tensor"):
        tensor = desc.tensors()[name]
        rows, columns = tensor.sizes[-2:]
        turned[name] = tensor.replace(strides=(rows * columns, rows * columns, 1, rows))
    return desc.replace(**turned)


def across(data_type: str) -> Any:
    """A transposition."""
    tensor = TensorDesc(data_type=data_type, sizes=(256, 256))
    return ElementWiseIdentityDesc(input_tensor=tensor.replace(strides=(1, 256)), output_tensor=tensor)


def directly(desc: Any, library: KernelLibrary) -> Any:
    """The plan without tiles in shared memory."""
    with patch.object(element_tiles, "LEAST_SIDE", 2**32):
        return plan_of(desc, Target(library))


def by_tiles(desc: Any, library: KernelLibrary) -> Any:
    return plan_of(desc, Target(library))


def product(trans_b: str) -> Any:
    """A product of halves of which both operands' rows or columns come 16 bytes at a time, and the single tile of its results."""
    tensors = {"a_tensor": (64, 64), "b_tensor": (64, 64), "output_tensor": (64, 64)}
    descs = {name: TensorDesc(data_type="FLOAT16", sizes=sizes) for name, sizes in tensors.items()}
    return GEMMDesc(**descs, trans_b=trans_b)


def image_product(data_type: str, *, channels_last: bool) -> Any:
    """A convolution of 64 output channels and 64 pixels, both in the same order of memory."""
    channels = 64
    tensors = {"input_tensor": (1, channels, 10, 10), "filter_tensor": (64, channels, 3, 3), "output_tensor": (1, 64, 8, 8)}
    descs = {name: TensorDesc(data_type=data_type, sizes=sizes) for name, sizes in tensors.items()}
    if channels_last:
        for name, (batch, own, height, width) in tensors.items():
            assert batch
            descs[name] = descs[name].replace(strides=(own * height * width, 1, own * width, own))
    pairs = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "output_padding": (0, 0)}
    return ConvolutionDesc(**descs, **pairs)


def attention() -> Any:
    """Of halves: 64 queries, 128 keys and 64 elements of one head."""
    tensors = {"query_tensor": (1, 64, 64), "key_tensor": (1, 128, 64), "value_tensor": (1, 128, 64), "output_tensor": (1, 64, 64)}
    descs = {name: TensorDesc(data_type="FLOAT16", sizes=sizes) for name, sizes in tensors.items()}
    return MultiheadAttentionDesc(**descs, scale=1.0, mask_filter_value=0.0, head_count=1)


WORKS = [
    Work("attention of halves", attention(), by_tiles, [("attend_halves<", Asked(1616, 1.12, 1536, 1, 5))]),
    *(
        Work(f"a convolution of {data_type}, {name}", image_product(data_type, channels_last=last), by_tiles, kernels)
        for data_type, name, last, kernels in (
            ("FLOAT16", "channels last", True, [("convolve_tiles<", Asked(5037, 1.1, 5120, 1.05, 18))]),
            ("FLOAT32", "channels last", True, [("convolve_tiles<", Asked(22445, 1.78, 10240, 1.05, 36))]),
            (
                "FLOAT16",
                "channels first",
                False,
                [
                    ("crossed_elements<", Asked(64, 1, 152, 1.19, 1)),
                    ("elements<", Asked(0, 0, 160, 5, 1)),
                    ("convolve_tiles<", Asked(5037, 1.1, 4864, 1, 18)),
                ],
            ),
        )
    ),
    *(
        Work(f"a product of halves, b {trans_b}", product(trans_b), by_tiles, [("product<", asked)])
        for trans_b, asked in (("NONE", Asked(384, 1, 1056, 1.38, 2)), ("TRANSPOSE", Asked(384, 1, 1056, 1.38, 2)))
    ),
    *(
        Work(f"a transposition of {data_type}, {name}", across(data_type), plan, [kernel])
        for data_type, name, plan, kernel in (
            ("FLOAT32", "directly", directly, ("elements<", Asked(0, 0, 288, 4.5, 1))),
            ("FLOAT32", "by tiles", by_tiles, ("crossed_elements<", Asked(64, 1, 256, 1, 1))),
            ("FLOAT16", "by tiles", by_tiles, ("crossed_elements<", Asked(64, 1, 128, 1, 1))),
            ("UINT8", "by tiles", by_tiles, ("crossed_elements<", Asked(64, 1, 64, 1, 1))),
            ("INT64", "by tiles", by_tiles, ("crossed_elements<", Asked(128, 1, 512, 1, 1))),
        )
    ),
    Work(
        "LSTM of the strategy per_step",
        forward("LSTM", "FLOAT16", 64, 256, 2),
        of_strategy("per_step"),
        [
            ("copy<machine::half, machine::half>", Asked(0, 0, 32, 1, 1)),
            ("copy<machine::half, machine::half>", Asked(0, 0, 32, 1, 1)),
            ("pack_bias<machine::half>", Asked(0, 0, 64, 1, 1)),
            ("step<machine::half", Asked(0, 0, 288, 1, 1)),
            ("step<machine::half", Asked(0, 0, 480, 1, 1)),
        ],
    ),
    Work(
        "GRU of the strategy per_step, weights column by column",
        column_major(forward("GRU", "FLOAT32", 8, 96, 2)),
        of_strategy("per_step"),
        [
            ("copy<float, float>", Asked(0, 0, 96, 1.5, 1)),
            ("copy<float, float>", Asked(0, 0, 288, 4.5, 1)),
            ("pack_bias<float>", Asked(0, 0, 96, 1, 1)),
            ("step<float", Asked(0, 0, 96, 1, 1)),
            ("reset<float", Asked(0, 0, 132, 1, 1)),
            ("step<float", Asked(0, 0, 144, 1, 1)),
        ],
    ),
    Work(
        "LSTM of the strategy persistent_grid",
        forward("LSTM", "FLOAT16", 16, 256, 2),
        lambda desc, library: spread(desc, library, (32, 16, 8)),
        [
            ("copy<machine::half, machine::half>", Asked(0, 0, 32, 1, 1)),
            ("arrange<machine::half", Asked(0, 0, 640, 2.5, 1)),
            ("pack_bias<machine::half>", Asked(0, 0, 64, 1, 1)),
            ("persistent_grid<machine::half", Asked(3096, 1, 2960, 1, 9.13)),
        ],
    ),
    normalization(
        "training, NCHW", TRAINING, (8, 256, 8, 8), "NCHW", "FLOAT32", ("normalize<float, float, 4, false", Asked(68, 1, 133, 1, 2))
    ),
    normalization(
        "training, NCHW of odd rows",
        TRAINING,
        (64, 256, 7, 7),
        "NCHW",
        "FLOAT32",
        ("normalize<float, float, 1, false", Asked(412, 1, 1114, 1.34, 4.13)),
    ),
    normalization(
        "training, NHWC",
        TRAINING,
        (16, 256, 8, 8),
        "NHWC",
        "FLOAT16",
        ("gather<machine::half, machine::half, 8, true", Asked(720, 1, 2176, 1.7, 1)),
        ("combine<machine::half", Asked(36, 1, 105, 3.5, 1.5)),
        ("apply<machine::half, machine::half, 8, true, true", Asked(0, 0, 10240, 3.34, 4)),
    ),
    normalization(
        "inference, NHWC", INFERENCE, (8, 256, 8, 8), "NHWC", "FLOAT32", ("apply<float, float, 4, true, false", Asked(0, 0, 4096, 1.6, 4))
    ),
    normalization(
        "gradient of training, NCHW",
        TRAINING_GRAD,
        (8, 256, 8, 8),
        "NCHW",
        "FLOAT32",
        ("differentiate<float, float, 4, false", Asked(100, 1, 198, 1, 3)),
    ),
    normalization(
        "gradient of training, NHWC",
        TRAINING_GRAD,
        (16, 256, 8, 8),
        "NHWC",
        "FLOAT32",
        ("gather<float, float, 4, true", Asked(360, 1, 3968, 1.6, 1)),
        ("combine<float", Asked(36, 1, 105, 3.5, 1.5)),
        ("apply<float, float, 4, true", Asked(0, 0, 7680, 2, 4)),
    ),
]


@pytest.mark.parametrize(
    "work",
    [pytest.param(work, marks=[pytest.mark.slow] * (number % 8 > 0)) for number, work in enumerate(WORKS)],
    ids=[work.name for work in WORKS],
)
def test_kernels_of_other_work(work: Work) -> None:
    require("g++")
    runtime = CountingRuntime()
    run(runtime, work.desc, work.plan(work.desc, KernelLibrary(runtime, 0)), prepared=False)
    assert [counts.entry[: len(name)] for counts, (name, _) in zip(runtime.launches, work.kernels, strict=True)] == [
        name for name, _ in work.kernels
    ]
    hold(*((counts, limits) for counts, (_, limits) in zip(runtime.launches, work.kernels, strict=True)))
