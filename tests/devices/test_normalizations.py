"""Mean-variance, local response and Lp normalization on every device against plain definitions in float64 and ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.descs import relation_descs as descs
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import Array, compute, layouts, repeated, run
from tests.support.operators.scalar_activations import activate as activate_number
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require

MEAN_VARIANCE = ("MEAN_VARIANCE_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION1", "MEAN_VARIANCE_NORMALIZATION2")


def given(desc: Any, rng: np.random.Generator, offset: float = 0.0) -> dict[str, Array]:
    return {
        slot.place: rng.normal(offset, 2, slot.tensor.sizes).astype(slot.tensor.data_type.numpy)
        for slot in desc.input_slots()
        if slot.tensor is not None
    }


def check(device: dml.Device, desc: Any, arrays: dict[str, Array], wanted: Any, *, terms: int, what: str) -> None:
    """Fails unless the desc gives what is wanted of any inputs, packed, in other layouts, and with inputs that are broadcast."""
    output = next(iter(desc.outputs())).name
    for broadcast, own in [(repeats, own) for repeats in (False, True) for own in layouts(desc, broadcast=repeats)]:
        used = {name: repeated(array, own.tensors()[name]) for name, array in arrays.items()}
        doubles = {name: array.astype(np.float64) for name, array in used.items()}
        dtype = next(iter(used.values())).dtype
        assert_close(run(own, used, device)[output], wanted(doubles), dtype, terms=terms, what=f"{what}, broadcast {broadcast}")


def mean_variance(desc: Any, x: dict[str, Array]) -> Array:
    """By moments: the variance is the mean of squares without the mean's square."""
    kind, values = desc.short_name(), x["input_tensor"]
    axes = desc.axes if kind != MEAN_VARIANCE[0] else ((1, 2, 3) if desc.cross_channel else (2, 3))
    centred = desc.use_mean if kind == MEAN_VARIANCE[2] else True
    divided = desc.use_variance if kind == MEAN_VARIANCE[2] else desc.normalize_variance
    count = np.prod([values.shape[axis] for axis in axes])
    mean = np.add.reduce(values, tuple(axes), keepdims=True) / count if centred else 0.0
    moment = np.add.reduce(values**2, tuple(axes), keepdims=True) / count - mean**2
    y = (values - mean) / (np.sqrt(np.maximum(moment, 0) + desc.epsilon) if divided else 1)
    y = y * x.get("scale_tensor", 1) + x.get("bias_tensor", 0)
    return y if desc.fused_activation is None else np.vectorize(lambda value: activate_number(desc.fused_activation, value))(y)


VARIANTS = [(operator, own) for operator in (*MEAN_VARIANCE, "LP_NORMALIZATION") for own in descs.variants(f"DML_OPERATOR_{operator}")]


def on_devices(count: int, every: int) -> list[Any]:
    """Each device with each of so many cases. On CUDA each case has kernels to compile: all but some are slow."""
    numpy = [("numpy", number) for number in range(count)]
    emulated = [pytest.param("cuda-emulated", number, marks=[pytest.mark.slow] * bool(number % every)) for number in range(count)]
    return [*numpy, *emulated, *(pytest.param("cuda", number, marks=pytest.mark.gpu) for number in range(count))]


@pytest.mark.parametrize(("any_device", "number"), on_devices(len(VARIANTS), 20), indirect=["any_device"])
def test_normalizations_of_groups(any_device: dml.Device, number: int) -> None:
    operator, own = VARIANTS[number]
    desc: Any = dml.OperatorDesc.from_dict(descs.data(f"DML_OPERATOR_{operator}", own.members))
    arrays = given(desc, np.random.default_rng(21), 1.0)
    check(any_device, desc, arrays, lambda x: plain(desc, x), terms=300, what=f"{operator}, {own.about}")


def plain(desc: Any, x: dict[str, Array]) -> Array:
    """By the formula."""
    if desc.short_name() in MEAN_VARIANCE:
        return mean_variance(desc, x)
    return np.asarray(x["input_tensor"] / np.maximum(np.linalg.norm(x["input_tensor"], desc.p, desc.axis, keepdims=True), desc.epsilon))


@pytest.mark.onnx_reference
def test_onnx_normalizes_alike() -> None:
    rng = np.random.default_rng(22)
    x, scale, bias = (rng.normal(size=sizes).astype(np.float32) for sizes in ((2, 3, 4, 5), (4, 5), (4, 5)))
    members: dict[str, Any] = {"input_tensor": tensor(2, 3, 4, 5), "axes": [2, 3], "epsilon": 1e-3}
    layer = dml.MeanVarianceNormalization1Desc(scale_tensor=tensor(1, 1, 4, 5), bias_tensor=tensor(1, 1, 4, 5), **members).with_outputs()
    inputs = {"input_tensor": x, "scale_tensor": scale[None, None], "bias_tensor": bias[None, None]}
    (wanted,) = onnx_outputs("LayerNormalization", [x, scale, bias], axis=2, epsilon=1e-3)
    assert_close(run(layer, inputs)["output_tensor"], wanted, np.float32, terms=20)
    root = dml.MeanVarianceNormalization2Desc(scale_tensor=tensor(1, 1, 4, 5), use_mean=False, **members).with_outputs()
    del inputs["bias_tensor"]
    (wanted,) = onnx_outputs("RMSNormalization", [x, scale], opset=23, axis=2, epsilon=1e-3)
    assert_close(run(root, inputs)["output_tensor"], wanted, np.float32, terms=20)
    instance = dml.MeanVarianceNormalizationDesc(
        input_tensor=tensor(2, 3, 4, 5), scale_tensor=tensor(1, 3, 1, 1), bias_tensor=tensor(1, 3, 1, 1), epsilon=1e-3
    ).with_outputs()
    inputs = {"input_tensor": x, "scale_tensor": scale[:3, :1].reshape(1, 3, 1, 1), "bias_tensor": bias[:3, :1].reshape(1, 3, 1, 1)}
    (wanted,) = onnx_outputs("InstanceNormalization", [x, scale[:3, 0], bias[:3, 0]], epsilon=1e-3)
    assert_close(run(instance, inputs)["output_tensor"], wanted, np.float32, terms=20)


@pytest.mark.parametrize("axes", [[1, 2, 1], [3, 0, 0]])
def test_an_axis_listed_twice_counts_once(any_device: dml.Device, axes: list[int]) -> None:
    for kind in (dml.MeanVarianceNormalization1Desc, dml.ActivationSoftmax1Desc):
        descs = [kind(input_tensor=tensor(2, 3, 5, 7), axes=own).with_outputs() for own in (axes, sorted(set(axes)))]
        x = given(descs[0], np.random.default_rng(24), 1.0)
        twice, once = (run(desc, x, any_device)["output_tensor"] for desc in descs)
        np.testing.assert_array_equal(twice, once, err_msg=kind.__name__)


@pytest.mark.parametrize(("sizes", "axis"), [((200, 6), 1), ((6, 200), 0), ((100, 24), 1), ((20, 768), 1)])
def test_groups_are_centred_to_the_last_digit(any_device: dml.Device, sizes: tuple[int, int], axis: int) -> None:
    """Elements next to the mean are the difference of close numbers: an error of the mean counts as much as one of theirs."""
    x = np.random.default_rng(1).uniform(-100, 100, sizes).astype(np.float32)
    desc = dml.MeanVarianceNormalization1Desc(
        input_tensor=tensor(*sizes), axes=[axis], normalize_variance=True, epsilon=1e-5
    ).with_outputs()
    found = compute(desc, device=any_device, input_tensor=x)
    means = np.abs(found.mean(axis, dtype=np.float64))
    assert means.max() < 0.75 * 2**-23, means.max() * 2**23


def test_means_far_from_zero_cost_no_digits(any_device: dml.Device) -> None:
    rng = np.random.default_rng(23)
    for sizes, axes in (((4, 5000), [1]), ((5000, 4), [0]), ((7, 50, 6, 30), [0, 1, 3])):
        x = rng.normal(1000, 1, sizes).astype(np.float32)
        desc = dml.MeanVarianceNormalization1Desc(input_tensor=tensor(*sizes), axes=axes).with_outputs()
        exact = x.astype(np.float64)
        exact = exact - exact.mean(tuple(axes), keepdims=True)
        wanted = exact / np.sqrt((exact**2).mean(tuple(axes), keepdims=True) + desc.epsilon)
        assert_close(run(desc, {"input_tensor": x}, any_device)["output_tensor"], wanted, np.float32)


def squares(desc: Any, x: Array) -> Array:
    """Sums of squares over the windows, by windows of a padded array."""
    before = (desc.local_size - 1) // 2
    axes = (1,) if desc.cross_channel else (2, 3)
    padding = [(before, desc.local_size - 1 - before) if axis in axes else (0, 0) for axis in range(4)]
    windows = sliding_window_view(np.pad(x**2, padding), [desc.local_size] * len(axes), axes)
    return np.asarray(windows.sum(tuple(range(4, windows.ndim))))


def local_response(desc: Any, x: Array) -> Array:
    return x / (desc.bias + desc.alpha / desc.local_size * squares(desc, x)) ** desc.beta


def local_response_gradient(desc: Any, x: Array, gradient: Array) -> Array:
    """By central differences."""
    found, step = np.zeros_like(x), 1e-4
    for index in np.ndindex(*x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        difference = local_response(desc, moved[0]) - local_response(desc, moved[1])
        found[index] = np.vdot(gradient, difference) / (2 * step)
    return found


WINDOWS = [(size, data_type) for size in (1, 2, 3, 4, 5, 9, 40) for data_type in ("FLOAT32", "FLOAT16")]


@pytest.mark.parametrize("cross_channel", [True, False])
def test_local_response_normalization_and_its_gradient(any_device: dml.Device, cross_channel: bool) -> None:
    rng = np.random.default_rng(24)
    for local_size, data_type in WINDOWS:
        x = tensor(1, 5, 3, 4, data_type=data_type)
        members: dict[str, Any] = {"cross_channel": cross_channel, "local_size": local_size, "alpha": 0.3, "beta": 0.7}
        what = f"{members}"
        desc = dml.LocalResponseNormalizationDesc(input_tensor=x, bias=1.5, **members).with_outputs()
        check(any_device, desc, given(desc, rng), lambda a, d=desc: local_response(d, a["input_tensor"]), terms=30, what=what)
        if local_size in (1, 4, 9):
            back = dml.LocalResponseNormalizationGradDesc(input_tensor=x, input_gradient_tensor=x, bias=1.5, **members)
            arrays = given(back.with_outputs(), rng)
            exact = {name: array.astype(np.float64) for name, array in arrays.items()}
            wanted = local_response_gradient(desc, exact["input_tensor"], exact["input_gradient_tensor"])
            found = run(back.with_outputs(), arrays, any_device)["output_gradient_tensor"]
            assert_close(found, wanted, arrays["input_tensor"].dtype, terms=60, what=what)
            spread = run(layouts(back.with_outputs())[1], arrays, any_device)["output_gradient_tensor"]
            np.testing.assert_array_equal(spread, found, what)
            defined = dml.reference(back.with_outputs(), exact).output_gradient_tensor
            np.testing.assert_allclose(defined, wanted, rtol=1e-6, atol=1e-7)


def test_local_response_normalization_of_the_largest_window_is_that_of_the_whole(any_device: dml.Device) -> None:
    x = np.random.default_rng(25).normal(size=(2, 3, 4, 5)).astype(np.float32)
    for cross_channel, axes in ((True, (1,)), (False, (2, 3))):
        local_size = 4294967295
        desc = dml.LocalResponseNormalizationDesc(
            input_tensor=tensor(2, 3, 4, 5), cross_channel=cross_channel, local_size=local_size, alpha=local_size * 0.5
        ).with_outputs()
        wanted = x / (1 + 0.5 * (x.astype(np.float64) ** 2).sum(axes, keepdims=True)) ** 0.75
        assert_close(run(desc, {"input_tensor": x}, any_device)["output_tensor"], wanted, np.float32, terms=20)


@pytest.mark.onnx_reference
def test_onnx_normalizes_local_responses_alike() -> None:
    """Its reference fills as many channels as there are batch entries; here both are 6."""
    x = np.random.default_rng(26).normal(size=(6, 6, 3, 2)).astype(np.float32)
    for size in (1, 2, 3, 4, 7):
        desc = dml.LocalResponseNormalizationDesc(
            input_tensor=tensor(6, 6, 3, 2), cross_channel=True, local_size=size, alpha=0.4, beta=0.6, bias=2.0
        ).with_outputs()
        (wanted,) = onnx_outputs("LRN", [x], size=size, alpha=0.4, beta=0.6, bias=2.0)
        assert_close(run(desc, {"input_tensor": x})["output_tensor"], wanted, np.float32, terms=8, what=f"size {size}")


@pytest.mark.onnx_reference
def test_onnx_divides_by_norms_alike() -> None:
    for p in (1, 2):
        x = np.abs(np.random.default_rng(27).normal(size=(3, 4, 5))).astype(np.float32)  # ONNX's reference takes no absolute values
        desc = dml.LPNormalizationDesc(input_tensor=tensor(3, 4, 5), axis=1, p=p, epsilon=0).with_outputs()
        (wanted,) = onnx_outputs("LpNormalization", [x], axis=1, p=p)
        assert_close(run(desc, {"input_tensor": x})["output_tensor"], wanted, np.float32, terms=4)


def test_lp_normalization_of_the_smallest_and_largest_numbers(any_device: dml.Device) -> None:
    for p in (1, 2):
        desc = dml.LPNormalizationDesc(input_tensor=tensor(4, 2), axis=1, p=p, epsilon=1e-30).with_outputs()
        x = np.array([[2e38, -1e38], [0, 0], [3e-25, 4e-25], [1e-38, 0]], np.float32)
        large, small = ([2 / 3, -1 / 3], [3 / 7, 4 / 7]) if p == 1 else ([2 / 5**0.5, -1 / 5**0.5], [0.6, 0.8])
        assert_close(run(desc, {"input_tensor": x}, any_device)["output_tensor"], [large, [0, 0], small, [1e-8, 0]], np.float32)


def test_elements_that_are_not_finite_spoil_their_own_group_only(any_device: dml.Device) -> None:
    x = np.random.default_rng(28).normal(size=(3, 4)).astype(np.float32)
    x[1, 2] = np.nan
    for desc in (
        dml.MeanVarianceNormalization1Desc(input_tensor=tensor(3, 4), axes=[1]).with_outputs(),
        dml.MeanVarianceNormalization1Desc(input_tensor=tensor(3, 4), axes=[1], normalize_variance=False).with_outputs(),
        dml.MeanVarianceNormalization2Desc(input_tensor=tensor(3, 4), axes=[1], use_mean=False).with_outputs(),
        dml.LPNormalizationDesc(input_tensor=tensor(3, 4), axis=1).with_outputs(),
    ):
        found = run(desc, {"input_tensor": x}, any_device)["output_tensor"]
        assert np.isnan(found[1]).all()
        assert np.isfinite(found[[0, 2]]).all()


LARGE = [
    ((2, 3, 70, 71), [2, 3]),
    ((3, 4096), [1]),
    ((1, 2, 200, 301), [2, 3]),
    ((5000, 12), [0]),
    ((60_000,), [0]),
    ((2, 9, 40, 16), [1, 2]),
]
"""Sizes of which CUDA splits some groups among blocks, and some are across vectors."""


@pytest.mark.parametrize(
    ("any_device", "kind"),
    [
        pytest.param(device, kind, id=f"{device}, {kind}", marks=marks)
        for number, kind in enumerate(("mean and variance", "root mean square", "2-norm", "1-norm"))
        for device, marks in [("numpy", []), ("cuda-emulated", [pytest.mark.slow] * (number % 2)), ("cuda", [pytest.mark.gpu])]
    ],
    indirect=["any_device"],
)
def test_large_groups(any_device: dml.Device, kind: str) -> None:
    rng = np.random.default_rng(29)
    for sizes, axes in LARGE:
        if kind.endswith("norm"):
            axis, p = axes[-1], int(kind[0])
            desc: Any = dml.LPNormalizationDesc(input_tensor=tensor(*sizes), axis=axis, p=p).with_outputs()
        else:
            scale = [size if number % 2 else 1 for number, size in enumerate(sizes)]
            desc = dml.MeanVarianceNormalization2Desc(
                input_tensor=tensor(*sizes),
                scale_tensor=tensor(*scale),
                bias_tensor=tensor(*sizes[:-1], 1),
                axes=axes,
                use_mean=kind == "mean and variance",
                fused_activation=dml.ActivationTanhDesc(),
            ).with_outputs()
        arrays = given(desc, rng, 0.5)
        wanted = dml.reference(desc, {name: array.astype(np.float64) for name, array in arrays.items()}).output_tensor
        assert_close(run(desc, arrays, any_device)["output_tensor"], wanted, np.float32, terms=1000, what=f"{sizes} {axes}")


@pytest.mark.parametrize(
    ("sanitizers", "sizes", "axes"), [("address,undefined", (20_001,), [0]), ("address,undefined", (9, 16), [0]), ("thread", (3, 72), [1])]
)
def test_the_sanitizers_find_nothing(sanitizers: str, sizes: tuple[int, ...], axes: list[int]) -> None:
    require("g++")
    runtime, rng = EmulatedRuntime(sanitize=sanitizers), np.random.default_rng(30)
    desc = dml.MeanVarianceNormalization1Desc(
        input_tensor=tensor(*sizes), scale_tensor=tensor(*sizes), bias_tensor=tensor(*sizes), axes=axes
    ).with_outputs()
    arrays = given(desc, rng)
    wanted = dml.reference(desc, arrays).output_tensor
    assert_close(compute(desc, device=CudaDevice(runtime), **arrays), wanted, np.float32, terms=1000)
    runtime.check_guards()


@pytest.mark.each_value
@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
@pytest.mark.parametrize("cross_channel", [False, True])
def test_the_sanitizers_find_nothing_in_local_response(sanitizers: str, cross_channel: bool) -> None:
    """Windows that reach beyond every border, and the gradient's values between its launches."""
    require("g++")
    runtime, rng = EmulatedRuntime(sanitize=sanitizers), np.random.default_rng(31)
    members: dict[str, Any] = {"input_tensor": tensor(1, 3, 2, 5), "cross_channel": cross_channel, "local_size": 4, "bias": 1.5}
    descs = (
        dml.LocalResponseNormalizationDesc(**members),
        dml.LocalResponseNormalizationGradDesc(**members, input_gradient_tensor=members["input_tensor"]),
    )
    for bare in descs:
        desc = bare.with_outputs()
        arrays = given(desc, rng)
        (wanted,) = dml.reference(desc, arrays).as_dict().values()
        assert_close(compute(desc, device=CudaDevice(runtime), **arrays), wanted, np.float32, terms=30)
    runtime.check_guards()


def test_kernels_of_normalizations_of_groups(cuda_device: dml.Device) -> None:
    """One launch where groups are many, three where they are few and large, one without statistics."""
    many, few = tensor(1000, 64), tensor(1, 1 << 20)
    plain_desc = dml.MeanVarianceNormalization2Desc(input_tensor=many, axes=[1], use_mean=False, use_variance=False)
    descs_of = {
        "normalize<float, MeanVariance, 4, false, Relu>": dml.MeanVarianceNormalization1Desc(
            input_tensor=many, axes=[1], fused_activation=dml.ActivationReluDesc()
        ),
        "gather<float, TwoNorm<float>, 4, false>, combine<float, TwoNorm<float>>, apply<float, TwoNorm<float>, 4, false, Identity>": (
            dml.LPNormalizationDesc(input_tensor=few, axis=1)
        ),
        "apply<float, Unscaled, 4, false, Identity>": plain_desc,
    }
    for kernels, desc in descs_of.items():
        assert f"kernels: {kernels}\n" in dml.compile(desc.with_outputs(), cuda_device).plan
