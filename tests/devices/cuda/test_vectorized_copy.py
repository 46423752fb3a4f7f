"""Kernels that move words: which words they choose, offsets beyond 2^31, the division of elements among blocks, and the sanitizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda import sources
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.indexing import nonzero
from dmlpy.devices.cuda.kernels import KernelLibrary
from dmlpy.devices.cuda.performance.gpu_model import GpuModel
from dmlpy.devices.cuda.plans import Target, plan_of
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.operators.layout_runs import layouts, packed, random_values, results_of, run, same
from tests.support.tools import require

Array = np.ndarray[Any, Any]


def tensor(dtype: str, sizes: Sequence[int], strides: Sequence[int] | None = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=dtype, sizes=sizes, strides=strides)


def gather(dtype: str, strides: Sequence[int] | None = None, *, row: int = 48) -> dml.OperatorDesc:
    """Rows of 7, picked by 5 indices."""
    return dml.GatherDesc(
        input_tensor=tensor(dtype, (7, row), strides), indices_tensor=tensor("INT32", (1, 5)), axis=0, index_dimensions=1
    ).with_outputs()


def scatter_nd(dtype: str, *, row: int = 8) -> dml.OperatorDesc:
    counts = {"input_dimension_count": 2, "indices_dimension_count": 2}
    return dml.ScatterNDDesc(
        input_tensor=tensor(dtype, (7, row)), indices_tensor=tensor("INT64", (5, 1)), updates_tensor=tensor(dtype, (5, row)), **counts
    ).with_outputs()


def padding(dtype: str, start: Sequence[int], mode: str = "CONSTANT") -> dml.OperatorDesc:
    return dml.PaddingDesc(
        input_tensor=tensor(dtype, (3, 4, 16)), padding_mode=mode, padding_value=2.0, start_padding=start, end_padding=(0, 0, 0)
    ).with_outputs()


def reverse(dtype: str, lengths: Sequence[int] | None = None) -> dml.OperatorDesc:
    return dml.ReverseSubsequencesDesc(
        input_tensor=tensor(dtype, (3, 4, 16)), sequence_lengths_tensor=tensor("UINT32", (3, 1, 16), lengths), axis=1
    ).with_outputs()


def adam(dtype: str, sizes: Sequence[int] = (1, 2, 3, 8)) -> dml.OperatorDesc:
    names = ("input_parameters_tensor", "input_first_moment_tensor", "input_second_moment_tensor", "gradient_tensor")
    tensors = dict.fromkeys(names, tensor(dtype, sizes))
    return dml.AdamOptimizerDesc(**tensors, training_step_tensor=tensor("UINT32", (1, 1, 1, 1)), learning_rate=0.1).with_outputs()


class Recorder(DryRunRuntime):
    """A device that takes note of the kernels that are launched and runs none."""

    def __init__(self) -> None:
        super().__init__(H100)
        self.launched: list[str] = []

    def launch(self, function: Any, grid: Any, threads: int, shared_bytes: int, argument: Array, *rest: Any) -> None:
        self.launched.append(function)


QUAD = "Vector4<unsigned>"
CHOICES = [
    # the desc, the tensors' addresses modulo 256, and the kernel that moves words
    ("rows of bytes", gather("UINT8"), 0, f"gather<{QUAD}>"),
    ("rows at a multiple of 8 bytes", gather("FLOAT16"), 8, "gather<unsigned long long>"),
    ("rows at a multiple of the element alone", gather("FLOAT16"), 2, "gather<unsigned short>"),
    ("rows of 47 floats", gather("FLOAT32", row=47), 0, "gather<unsigned>"),
    ("rows of 6 halves", gather("FLOAT16", row=6), 0, "gather<unsigned>"),
    ("rows 50 bytes apart", gather("UINT8", (50, 1)), 0, "gather<unsigned short>"),
    ("elements with gaps", gather("INT16", (96, 2)), 0, "gather<unsigned short>"),
    ("blocks", scatter_nd("FLOAT16"), 0, f"replace<{QUAD}>"),
    ("blocks of 7 elements", scatter_nd("FLOAT64", row=7), 0, "replace<unsigned long long>"),
    ("a margin around rows", padding("FLOAT32", (1, 2, 0)), 0, f"padding<{QUAD}>"),
    ("a margin before each row", padding("FLOAT32", (0, 0, 16)), 0, "padding<unsigned>"),
    ("a length for each element", reverse("FLOAT16"), 0, "reverse<unsigned short>"),
    ("a length for each row", reverse("FLOAT16", (1, 1, 0)), 0, f"reverse<{QUAD}>"),
    ("packed parameters", adam("FLOAT16"), 0, "adam<machine::half, 8>"),
    ("parameters at a multiple of 8 bytes", adam("FLOAT16"), 8, "adam<machine::half, 1>"),
    ("parameters that leave a remainder", adam("FLOAT32", (1, 1, 1, 7)), 0, "adam<float, 1>"),
]


@pytest.mark.parametrize(("desc", "offset", "entry"), [case[1:] for case in CHOICES], ids=[case[0] for case in CHOICES])
def test_words_are_the_widest_that_layouts_and_addresses_allow(desc: dml.OperatorDesc, offset: int, entry: str) -> None:
    runtime = Recorder()
    plan = plan_of(desc, Target(KernelLibrary(runtime, 0)))
    assert plan is not None
    addresses = {name: 4096 * (number + 1) + offset for number, name in enumerate(desc.tensors())}
    plan.bind(addresses, 1 << 20, None)(0)
    assert entry in runtime.launched[-1]
    if offset == 0:
        assert entry in plan.describe()


@pytest.mark.parametrize("desc", [case[1] for case in CHOICES], ids=[case[0] for case in CHOICES])
def test_words_of_any_width_give_the_same(cuda_device: dml.Device, desc: dml.OperatorDesc) -> None:
    """As on the host, in memory at multiples of an element's size alone and in memory that the device allocates."""
    rng = np.random.default_rng(3)
    arrays = {slot.place: random_values(rng, slot.tensor, positive=True) for slot in desc.input_slots() if slot.tensor is not None}
    for name, array in arrays.items():
        own = desc.tensors()[name]
        first = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in own.element_strides)
        arrays[name] = np.broadcast_to(array[first], own.sizes)
    expected = run(desc, arrays)
    for found in (run(desc, arrays, cuda_device), results_of(desc.replace(**unstrided(desc)), arrays, cuda_device)):
        for name, array in expected.items():
            if isinstance(desc, dml.AdamOptimizerDesc):
                np.testing.assert_allclose(found[name], array, 1e-6 if array.dtype == np.float32 else 1e-3)
            else:
                same(found[name], array, name)


def unstrided(desc: dml.OperatorDesc) -> dict[str, dml.TensorDesc]:
    """The inputs without gaps: `results_of` copies them so."""
    return {name: dml.TensorDesc(data_type=own.data_type, sizes=own.sizes) for name, own in desc.tensors().items()}


@pytest.mark.parametrize(
    ("desc", "least", "again"),
    [
        (gather("FLOAT16"), 2 * 5 * 48 * 2 + 5 * 4, {}),
        (padding("FLOAT32", (1, 2, 0)), (4 * 6 * 16 + 3 * 4 * 16) * 4, {}),
        (adam("FLOAT16"), 7 * 48 * 2 + 4, {}),
        # 7 winners in 256 bytes of scratch are cleared and read, 5 are written
        (scatter_nd("FLOAT32"), (2 * 7 + 5) * 8 * 4 + 5 * 8, {"winners": 2 * 256 + 5 * 4}),
    ],
    ids=lambda own: own.short_name() if isinstance(own, dml.OperatorDesc) else "",
)
def test_the_floor_is_one_pass_over_what_has_to_move(desc: dml.OperatorDesc, least: int, again: dict[str, int]) -> None:
    library = KernelLibrary(DryRunRuntime(H100), 0)
    plan, gpu = plan_of(desc, Target(library)), GpuModel.of(library.limits)
    assert plan is not None
    cost = plan.cost()
    assert cost.floor_us == pytest.approx(gpu.memory_us(least))
    assert dict(cost.traffic) == again
    assert cost.estimate_us is not None
    assert cost.estimate_us > gpu.memory_us(least + sum(again.values()))


# offsets beyond 2^31


FAR = 2**31 + 24
"""The distance of two rows of bytes; the memory between them is never touched, so the host has none for it."""


@pytest.mark.parametrize("far", ["input_tensor", "output_tensor"])
@pytest.mark.parametrize(
    "desc",
    [
        dml.GatherDesc(input_tensor=tensor("UINT8", (2, 5)), indices_tensor=tensor("INT32", (1, 2)), axis=0, index_dimensions=1),
        dml.GatherElementsDesc(input_tensor=tensor("UINT8", (2, 5)), indices_tensor=tensor("INT64", (2, 5)), axis=0),
        dml.GatherNDDesc(
            input_tensor=tensor("UINT8", (2, 5)),
            indices_tensor=tensor("UINT32", (2, 1)),
            input_dimension_count=2,
            indices_dimension_count=2,
        ),
        dml.ScatterDesc(
            input_tensor=tensor("UINT8", (2, 5)), indices_tensor=tensor("INT32", (1, 5)), updates_tensor=tensor("UINT8", (1, 5)), axis=0
        ),
        dml.ReverseSubsequencesDesc(input_tensor=tensor("UINT8", (2, 5)), sequence_lengths_tensor=tensor("UINT32", (1, 5)), axis=0),
        dml.PaddingDesc(input_tensor=tensor("UINT8", (2, 5)), start_padding=(0, 1), end_padding=(0, 2), padding_mode="REFLECTION"),
        dml.DiagonalMatrix1Desc(
            input_tensor=tensor("UINT8", (2, 5)), value_data_type="UINT8", value=3, diagonal_fill_begin=0, diagonal_fill_end=2
        ),
    ],
    ids=lambda own: own.short_name(),
)
def test_rows_may_be_more_than_2_to_the_31_elements_from_each_other(desc: Any, far: str) -> None:
    require("g++")
    desc = desc.with_outputs()
    own = getattr(desc, far)
    desc = desc.replace(**{far: tensor("UINT8", own.sizes, (FAR, 1))})
    rng = np.random.default_rng(4)
    arrays, views = {}, {}
    for place, own in desc.tensors().items():
        arrays[place] = np.zeros(own.span, own.data_type.numpy)
        views[place] = np.lib.stride_tricks.as_strided(arrays[place], own.sizes, own.numpy_strides())
    inputs = {slot.place: views[slot.place] for slot in desc.input_slots() if slot.tensor is not None}
    for place, view in inputs.items():
        view[...] = rng.integers(0, 256 if place == "input_tensor" else 2, view.shape)
    runtime = EmulatedRuntime()
    plan = plan_of(desc, Target(KernelLibrary(runtime, 0)))
    assert plan is not None
    scratch = runtime.allocate(0, max(plan.temporary_size, 1), 0)
    plan.bind({place: array.ctypes.data for place, array in arrays.items()}, scratch.pointer, None)(0)
    same(views["output_tensor"], dml.reference(desc, inputs).output_tensor, desc.short_name())


# coordinates


@pytest.mark.parametrize("count", [255, 256, 257, 5000, 80_001])
def test_coordinates_of_elements_in_many_blocks(cuda_device: dml.Device, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In more blocks than each of them has threads, for the largest of the counts."""
    monkeypatch.setattr(nonzero, "_ROUNDS", 1)
    rng = np.random.default_rng(count)
    values = (rng.random((count, 1)) < rng.choice([0.0, 0.01, 0.99, 1.0], (count, 1))).astype(np.uint8)
    desc = dml.NonzeroCoordinatesDesc(
        input_tensor=packed(np.uint8, count, 1),
        output_count_tensor=packed(np.uint32, 1, 1),
        output_coordinates_tensor=packed(np.uint32, count, 2),
    )
    for name, array in results_of(desc, {"input_tensor": values}, "numpy").items():
        same(results_of(desc, {"input_tensor": values}, cuda_device)[name], array, name)


# the sanitizers


SANITIZED = {
    "GATHER": gather("FLOAT16", row=6),
    "SCATTER_ND": scatter_nd("FLOAT32", row=3),
    "PADDING": padding("UINT8", (1, 2, 5), "SYMMETRIC"),
    "REVERSE_SUBSEQUENCES": reverse("INT16"),
    "ADAM_OPTIMIZER": adam("FLOAT16", (1, 1, 3, 5)),
    "ONE_HOT": dml.OneHotDesc(
        indices_tensor=tensor("INT64", (3, 1)), values_tensor=tensor("INT8", (2,)), output_tensor=tensor("INT8", (3, 5)), axis=1
    ),
    "NONZERO_COORDINATES": dml.NonzeroCoordinatesDesc(
        input_tensor=tensor("FLOAT16", (30, 11)),
        output_count_tensor=tensor("UINT32", (1,)),
        output_coordinates_tensor=tensor("UINT32", (330, 2)),
    ),
    "RANDOM_GENERATOR": dml.RandomGeneratorDesc(
        input_state_tensor=tensor("UINT32", (1, 6)), output_tensor=tensor("UINT32", (3, 5))
    ).with_outputs("output_state_tensor"),
    "DIAGONAL_MATRIX": dml.DiagonalMatrixDesc(output_tensor=tensor("FLOAT64", (3, 5)), offset=-(2**31)),
}


def hostile(desc: dml.OperatorDesc) -> Mapping[str, Array]:
    """Random inputs, of integers many out of any range."""
    rng = np.random.default_rng(5)
    return {slot.place: random_values(rng, slot.tensor) for slot in desc.input_slots() if slot.tensor is not None}


SOON = {("address,undefined", name) for name in ("GATHER", "SCATTER_ND", "NONZERO_COORDINATES")} | {("thread", "NONZERO_COORDINATES")}
"""What is not slow: each takes seconds to compile."""
SANITIZERS = [
    pytest.param(sanitize, name, marks=[] if (sanitize, name) in SOON else pytest.mark.slow)
    for sanitize in ("address,undefined", "thread")
    for name in SANITIZED
]


@pytest.mark.parametrize(("sanitize", "name"), SANITIZERS)
def test_the_sanitizers_are_silent(sanitize: str, name: str) -> None:
    require("g++")
    desc = SANITIZED[name]
    arrays = hostile(desc)
    runtime = EmulatedRuntime(sanitize=sanitize)
    for own in layouts(desc):
        expected = run(desc, arrays)
        for place, found in run(own, arrays, CudaDevice(runtime)).items():
            if isinstance(desc, dml.AdamOptimizerDesc):
                np.testing.assert_allclose(found, expected[place], 1e-3)
            else:
                same(found, expected[place], f"{name}, {place}")
    runtime.check_guards()


BARRIER = "__syncthreads();"


@pytest.mark.slow
@pytest.mark.parametrize("place", range(sources.read("indexing/nonzero.cu").count(BARRIER)))
def test_the_thread_sanitizer_misses_every_barrier(place: int) -> None:
    require("g++")
    rng = np.random.default_rng(6)
    desc = dml.NonzeroCoordinatesDesc(
        input_tensor=packed(np.uint8, 3000),
        output_count_tensor=packed(np.uint32, 1),
        output_coordinates_tensor=packed(np.uint32, 3000, 1),
    )
    device = CudaDevice(EmulatedRuntime(sanitize="thread", fault=(BARRIER, place)))
    with pytest.raises(dml.DeviceError, match="data race"):
        run(desc, {"input_tensor": rng.integers(0, 2, 3000).astype(np.uint8)}, device)
