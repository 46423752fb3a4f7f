"""What only the NumPy device promises of batch normalization: its blocks, threads, scratch, and plan text."""

from __future__ import annotations

import itertools
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.tensors import packed_strides
from dmlpy.devices.axes import Axis, merged
from dmlpy.devices.numpy.normalization import blocks, common
from dmlpy.devices.numpy.normalization.blocks import Blocking
from dmlpy.devices.numpy.normalization.forward import ForwardPlan
from dmlpy.devices.numpy.normalization.gradient import GradientPlan
from tests.support.recurrent.layer_runs import GUARD, scratch
from tests.support.tables import table
from tests.support.tolerance import assert_close

Array = np.ndarray[Any, np.dtype[Any]]

SIZES = ("BLOCK", "TILE", "LONGEST", "SHORT")
LIMITS = ((16, 4, 8, 2), (16, 8, 8, 16), (64, 16, 16, 4), (100, 30, 40, 16), (1 << 18, 1 << 13, 1 << 13, 1 << 7))
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1,), ()),
    ((37,), (0,)),
    ((37,), ()),
    ((101, 3), (0,)),
    ((3, 101), (1,)),
    ((7, 50), (0,)),
    ((5, 6, 7), (0, 2)),
    ((5, 6, 33), (0, 2)),
    ((6, 5, 7), (1,)),
    ((3, 4, 5, 6), (0, 2)),
    ((2, 3, 2, 5, 3, 2), (1, 3, 4)),
)

FORWARD_TEXT = """\
NumPy, float32 arithmetic on 2 threads; 64 groups of 25088
axes as input_tensor lies in memory: 25088* 64 (* within groups); 28 blocks of 7 x 128 x 64
input_tensor: from FLOAT16, block by block
output_tensor: to FLOAT16, block by block
statistics: sums of x and x^2; blocks of groups with a large mean are read again, centred
y: (x - centre) * factor [+ offset], the offset only where the centre cannot hold it
activation: DML_OPERATOR_ACTIVATION_RELU"""

BACKWARD_TEXT = """\
NumPy, float32 arithmetic on 2 threads; 64 groups of 25088
axes as input_tensor lies in memory: 8* 64 3136* (* within groups); 8 blocks of 1 x 64 x 3136
sums of dy, dy * x, x; x is centred where its mean is large
dx: ((x - centre) * slope [+ offset] + dy) * factor, the offset only where the centre cannot hold it"""


@pytest.fixture(params=LIMITS, ids=str)
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, ...]:
    """Sizes of blocks so small that small tensors have many of every kind, and the usual ones."""
    found: tuple[int, ...] = request.param
    for name, value in zip(SIZES, found, strict=True):
        monkeypatch.setattr(blocks, name, value)
    monkeypatch.setattr(common, "_ENTRIES_OF_A_THREAD", 1)
    monkeypatch.setattr(common, "available_threads", lambda: 2)
    return found


def statistics_sizes(sizes: tuple[int, ...], reduced: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if at in reduced else size for at, size in enumerate(sizes))


def described(kind: Any, arrays: dict[str, Array], **members: Any) -> Any:
    return kind(**{name: dml.TensorDesc.of(array) for name, array in arrays.items()}, **members).with_outputs()


def forward(x: Array, reduced: tuple[int, ...], **members: Any) -> tuple[Any, dict[str, Array]]:
    """The desc of training over some dimensions, and its inputs."""
    rng = np.random.default_rng(1)
    scale, bias = rng.standard_normal((2, *statistics_sizes(x.shape, reduced))).astype(x.dtype)
    arrays = {"input_tensor": x, "scale_tensor": scale, "bias_tensor": bias}
    return described(dml.BatchNormalizationTrainingDesc, arrays, **members), arrays


def backward(x: Array, reduced: tuple[int, ...]) -> tuple[Any, dict[str, Array]]:
    rng = np.random.default_rng(2)
    x64 = x.astype(np.float64)
    mean, variance = (moment(x64, axis=reduced, keepdims=True).astype(x.dtype) for moment in (np.mean, np.var))
    dy, scale = (np.asarray(rng.standard_normal(sizes), x.dtype) for sizes in (x.shape, mean.shape))
    arrays = {"input_tensor": x, "input_gradient_tensor": dy, "mean_tensor": mean, "variance_tensor": variance, "scale_tensor": scale}
    return described(dml.BatchNormalizationTrainingGradDesc, arrays), arrays


def run(desc: Any, arrays: dict[str, Array]) -> dict[str, Array]:
    found: dict[str, Array] = dml.compile(desc, device="numpy")(**arrays).as_dict()
    return found


@pytest.mark.parametrize(("sizes", "reduced"), SHAPES, ids=str)
def test_blocks_hold_every_entry_once(sizes: tuple[int, ...], reduced: tuple[int, ...], limits: tuple[int, ...]) -> None:
    axes = merged(sizes, [packed_strides(sizes)], reduced)
    blocking = Blocking(axes, limits[0])
    counts = np.zeros([axis.size for axis in blocking.axes], np.int64)
    writers = np.zeros((blocking.rows, *blocking.statistics), np.int64)
    for block in itertools.chain.from_iterable(blocking.ranges):
        entries = counts[block.entries].reshape(block.shape)
        assert np.shares_memory(entries, counts)
        entries += 1
        sums = writers[block.row][block.groups]
        assert sums.ndim == entries.ndim
        assert np.broadcast_shapes(sums.shape, entries.shape) == entries.shape
        sums += 1
        assert entries.size <= max(limits[0], limits[1])
        assert all(own <= most for own, most in zip(block.shape[1:], blocking.largest[1:], strict=True))
        assert entries.size <= np.prod(blocking.largest)
    assert (counts == 1).all()
    assert (writers == 1).all()


def test_blocks_of_usual_layouts() -> None:
    nchw = Blocking([Axis(32, (), reduced=True), Axis(64, ()), Axis(3136, (), reduced=True)])
    assert (nchw.largest, nchw.block_count, nchw.rows, nchw.expands) == ((1, 64, 3136), 32, 32, False)
    nhwc = Blocking([Axis(100352, (), reduced=True), Axis(64, ())])
    assert (nhwc.largest, nhwc.block_count, nhwc.rows, nhwc.expands) == ((31, 128, 64), 26, 26, True)
    wide = Blocking([Axis(1000, (), reduced=True), Axis(100_000, ())])
    assert wide.largest[-1] <= blocks.TILE
    assert wide.rows * 16 < 1000
    single = Blocking([Axis(1 << 20, (), reduced=True)])
    assert single.largest == (32, blocks.LONGEST), "no dot product is so long that BLAS starts threads"


@table("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
@table(("sizes", "reduced"), SHAPES, ids=str)
def test_sums_over_many_blocks(sizes: tuple[int, ...], reduced: tuple[int, ...], dtype: Any, limits: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(sizes) + 2.0).astype(dtype)
    n = int(np.prod(x.shape)) // max(1, int(np.prod(statistics_sizes(sizes, reduced))))
    for desc, arrays in (forward(x, reduced), backward(x, reduced)):
        if n == 1 and "input_gradient_tensor" in arrays:
            arrays["mean_tensor"] = arrays["mean_tensor"] + np.array(0.5, dtype)
        expected = plain(desc, arrays, reduced)
        for name, found in run(desc, arrays).items():
            assert_close(found, expected[name], dtype, terms=max(n, 64), what=name)


def plain(desc: Any, arrays: dict[str, Array], reduced: tuple[int, ...]) -> dict[str, Array]:
    """The formulas in float64."""
    a = {name: array.astype(np.float64) for name, array in arrays.items()}
    x, scale, own_mean = a["input_tensor"], a["scale_tensor"], a["input_tensor"].mean(axis=reduced, keepdims=True)
    if "bias_tensor" in a:
        variance = x.var(axis=reduced, keepdims=True)
        y = scale * (x - own_mean) / np.sqrt(variance + desc.epsilon) + a["bias_tensor"]
        return {"output_tensor": y, "output_mean_tensor": own_mean, "output_variance_tensor": variance}
    dy, centred, inverse = a["input_gradient_tensor"], x - own_mean, 1.0 / np.sqrt(a["variance_tensor"] + desc.epsilon)
    products = (dy * centred).mean(axis=reduced, keepdims=True)
    dx = scale * inverse * (dy - dy.mean(axis=reduced, keepdims=True) - centred * products * inverse**2)
    return {
        "output_gradient_tensor": dx,
        "output_scale_gradient_tensor": (dy * (x - a["mean_tensor"]) * inverse).sum(axis=reduced, keepdims=True),
        "output_bias_gradient_tensor": dy.sum(axis=reduced, keepdims=True),
    }


@pytest.mark.parametrize(("build", "plan_of"), [(forward, ForwardPlan), (backward, GradientPlan)])
def test_bits_do_not_depend_on_threads(build: Any, plan_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desc, arrays = build(np.random.default_rng(4).standard_normal((1 << 15, 64)).astype(np.float32), (0,))
    monkeypatch.setattr(common, "_FEW_THREADS", 5)
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(common, "available_threads", lambda threads=threads: threads)
        plan = plan_of(desc.geometry)
        assert f"on {threads} thread" in plan.describe()
        outputs = {field.name: np.full(desc.tensors()[field.name].sizes, np.nan, np.float32) for field in desc.outputs()}
        block, temporary = scratch(plan.temporary_size)
        plan.bind({name: array.ctypes.data for name, array in {**arrays, **outputs}.items()}, temporary, None)(0)
        assert (block[-64:] == GUARD).all()
        results.append(outputs)
    for name, found in results[0].items():
        assert np.isfinite(found).all()
        for other in results[1:]:
            assert np.array_equal(found, other[name]), name


@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_100000_rows(mean: float) -> None:
    x = (np.random.default_rng(5).standard_normal((100_000, 3)) + mean).astype(np.float32)
    desc, arrays = forward(x, (0,))
    expected, found = plain(desc, arrays, (0,)), run(desc, arrays)
    assert np.linalg.norm(found["output_tensor"] - expected["output_tensor"]) < 1e-6 * np.linalg.norm(expected["output_tensor"])
    np.testing.assert_allclose(found["output_variance_tensor"], expected["output_variance_tensor"], rtol=1e-6)


@pytest.mark.parametrize("outlier", [1e4 + 30, 1e4 + 300, 1e6])
@pytest.mark.parametrize("channels", [0, 1])
def test_an_outlier_in_front_does_not_spoil_the_variance(channels: int, outlier: float) -> None:
    """Not even where it is too small, in so many entries, to make the variance its own."""
    x = (np.random.default_rng(6).standard_normal((100_000, 2)) + 1e4).astype(np.float32)
    x[0] = outlier
    x, reduced = (x, (0,)) if channels else (np.ascontiguousarray(x.T), (1,))
    desc, arrays = forward(x, reduced)
    expected, found = plain(desc, arrays, reduced), run(desc, arrays)
    np.testing.assert_allclose(found["output_variance_tensor"], expected["output_variance_tensor"], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 10_000.1, 3e38, 1e-25, 1e-44])
def test_equal_entries(value: float) -> None:
    x = np.full((70_000, 5), value, np.float32)
    desc, arrays = forward(x, (0,))
    found = run(desc, arrays)
    assert (found["output_variance_tensor"] == 0.0).all()
    assert (found["output_mean_tensor"] == x[0]).all()
    assert (found["output_tensor"] == arrays["bias_tensor"]).all()


@pytest.mark.parametrize("other", [np.nan, np.inf, 1e4, 1e30])
@pytest.mark.parametrize("build", [forward, backward])
def test_a_group_changes_no_bit_of_the_others(build: Any, other: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "_ENTRIES_OF_A_THREAD", 1)
    monkeypatch.setattr(common, "available_threads", lambda: 2)  # other threads are silent about overflow too
    x = np.random.default_rng(7).standard_normal((9000, 8)).astype(np.float32)
    usual = run(*build(x, (0,)))
    x[:, 3] += np.float32(other)
    with np.errstate(all="ignore"):
        desc, arrays = build(x, (0,))
    found = run(desc, arrays)
    others = [0, 1, 2, 4, 5, 6, 7]
    for name, values in usual.items():
        assert np.array_equal(values[:, others], found[name][:, others]), name


@pytest.mark.parametrize("build", [forward, backward])
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
def test_a_launch_allocates_nothing_that_grows(build: Any, dtype: Any) -> None:
    x = np.random.default_rng(8).standard_normal((1 << 15, 64)).astype(dtype)
    desc, arrays = build(x, (0,))
    outputs = {field.name: np.empty(desc.tensors()[field.name].sizes, dtype) for field in desc.outputs()}
    bound = dml.compile(desc, device="numpy").bind(arrays, outputs)
    bound()
    tracemalloc.start()
    bound()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 18  # x has 4 MiB or more


@pytest.mark.parametrize(("build", "plan"), [(forward, ForwardPlan), (backward, GradientPlan)])
def test_scratch(build: Any, plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "available_threads", lambda: 1)
    sizes = [plan(build(np.zeros((rows, 64), np.float32), (0,))[0].geometry).temporary_size for rows in (1 << 14, 1 << 17)]
    assert sizes[0] < 2 * 4 * blocks.BLOCK
    assert sizes[1] - sizes[0] < 0.01 * 4 * 64 * (1 << 17)
    one = plan(build(np.zeros((1, 1), np.float32), (0,))[0].geometry).temporary_size
    assert one <= 32 * 64


@pytest.mark.parametrize(("build", "plan_of"), [(forward, ForwardPlan), (backward, GradientPlan)])
def test_threads_are_as_many_as_are_worth_their_scratch(build: Any, plan_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "available_threads", lambda: 64)
    for rows, dtype, expected in ((1 << 11, np.float32, 1), (1 << 12, np.float16, 1), (1 << 13, np.float32, 2), (1 << 15, np.float32, 3)):
        plan = plan_of(build(np.zeros((rows, 64), dtype), (0,))[0].geometry)
        assert f"on {expected} thread" in plan.describe()
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 19, 64), (0, 0))
    described = {
        name: dml.TensorDesc(data_type="FLOAT32", sizes=sizes) for name, sizes in (("input_tensor", x.shape), ("scale_tensor", (1, 64)))
    }
    trained = dml.BatchNormalizationTrainingDesc(**described, bias_tensor=described["scale_tensor"]).with_outputs()
    plan = plan_of((trained if build is forward else trained.gradient()).geometry)
    assert "on 3 thread" not in plan.describe()
    assert plan.temporary_size < 0.12 * 4 * x.size


def test_plan_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "available_threads", lambda: 2)
    nhwc = np.zeros((8, 56, 56, 64), np.float16).transpose(0, 3, 1, 2)
    layout = dml.TensorDesc.of(nhwc)
    desc = forward(nhwc, (0, 2, 3), fused_activation=dml.ActivationReluDesc())[0].replace(output_tensor=layout)
    assert ForwardPlan(desc.geometry).describe() == FORWARD_TEXT
    desc = backward(np.zeros((8, 64, 56, 56), np.float32), (0, 2, 3))[0]
    assert GradientPlan(desc.geometry).describe() == BACKWARD_TEXT


def test_launches_from_several_threads() -> None:
    desc, arrays = forward(np.random.default_rng(9).standard_normal((1 << 13, 64)).astype(np.float32), (0,))
    expected = run(desc, arrays)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: run(desc, arrays), range(8)):
            for name, values in found.items():
                assert np.array_equal(values, expected[name]), name
