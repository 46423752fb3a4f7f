"""Batch normalization over memory of any layout: the same numbers, bit for bit where the sums run in the same order, and nothing copied."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.operators.batch_normalization_runs import LAYOUTS, assert_same, lay, results, run_placed, strides_of
from tests.support.operators.exact import exact
from tests.support.operators.normalization_cases import FUSED, IMAGE_SIZED, INPUTS, MODES, Array, case, check, described, entries, poisons

DATA_TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
MODE = pytest.mark.parametrize("mode", MODES)
DIRECTML = [mode for mode, (kind, _) in MODES.items() if kind not in FUSED]
GRADIENTS = [mode for mode in MODES if "GRAD" in mode]
ELEMENT_WISE = {"output_tensor", "output_gradient_tensor", "y", "x_backprop"}
"""What is computed element by element where the statistics are given."""

SIZES = (2, 8, 4, 8), (3, 5, 4, 3)
"""Sizes that allow accesses of several elements in every order of dimensions, and such that allow none."""


@pytest.mark.each_value
@DATA_TYPES
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@MODE
def test_each_layout(every_device: dml.Device, mode: str, sizes: tuple[int, ...], dtype: Any) -> None:
    """Where statistics are given, every layout gives the same bits."""
    desc, arrays = case(mode, np.random.default_rng(1), sizes, (1,), dtype)
    packed = results(every_device, desc, arrays)
    for layout in LAYOUTS:
        for aligned in (True, False):
            found = results(every_device, desc, arrays, layout, aligned=aligned)
            check(found, desc, arrays, f"{layout}: ")
            if not MODES[mode][1]:
                assert_same(found, packed, ELEMENT_WISE)


@pytest.mark.pairwise
@DATA_TYPES
@pytest.mark.parametrize("seed", range(10))
@MODE
def test_random_layouts(every_device: dml.Device, mode: str, seed: int, dtype: Any) -> None:
    """Each tensor, the statistics too, has a separate layout; inputs may repeat along some dimensions."""
    rng = np.random.default_rng([seed, *mode.encode()])
    sizes = tuple(int(size) for size in rng.choice([1, 2, 3, 5, 8], rng.integers(4, 6) if "FUSED" in mode else rng.integers(1, 6)))
    kept = (1,) if "FUSED" in mode else tuple(int(axis) for axis in np.flatnonzero(rng.integers(0, 2, len(sizes))))
    desc, arrays = case(mode, rng, sizes, kept, dtype, epsilon=0.25)
    layouts = {name: str(rng.choice(LAYOUTS)) for name in desc.tensors()}
    repeats = {
        name: tuple(int(axis) for axis in np.flatnonzero(rng.integers(0, 3, array.ndim) == 0))
        for name, array in arrays.items()
        if rng.integers(0, 3) == 0
    }
    for name, axes in repeats.items():
        for axis in axes:
            arrays[name] = np.broadcast_to(np.take(arrays[name], [0], axis), arrays[name].shape)
    found = results(every_device, desc, arrays, layouts, repeats=repeats, aligned=bool(rng.integers(0, 2)))
    expected = exact(desc, arrays)
    for name, values in found.items():
        # A group may be left with equal entries, whose gradients cancel out: errors are measured by the size of the terms.
        error = np.linalg.norm(values - expected[name])
        terms = entries(desc) if "GRAD" in mode and name not in IMAGE_SIZED else 1
        size = max(np.linalg.norm(expected[name]), 0.5 * np.sqrt(values.size * terms))
        assert error <= (2e-3 if values.dtype == np.float16 else 3e-6) * size, f"{name}: {error / size:.3g} over {layouts}, {repeats}"


@pytest.mark.each_value
@DATA_TYPES
@pytest.mark.parametrize(("source", "target"), [("channels last", "packed"), ("packed", "channels last"), ("transposed", "slice")])
@MODE
def test_inputs_of_one_layout_and_outputs_of_another(any_device: dml.Device, mode: str, source: str, target: str, dtype: Any) -> None:
    """NHWC in, NCHW out, and such."""
    desc, arrays = case(mode, np.random.default_rng(2), (2, 8, 4, 8), (1,), dtype)
    layouts = {name: source if name in arrays else target for name in desc.tensors() if name in IMAGE_SIZED}
    found = results(any_device, desc, arrays, layouts)
    check(found, desc, arrays)
    if not MODES[mode][1]:
        assert_same(found, results(any_device, desc, arrays), ELEMENT_WISE)


# the same order of sums


@pytest.mark.each_value
@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0), (1, 0, 2, 3), (2, 3, 0, 1)], ids=str)
@pytest.mark.parametrize("layout", ["packed", "channels last", "slice"])
@pytest.mark.parametrize("mode", DIRECTML)
def test_dimensions_in_another_order(any_device: dml.Device, mode: str, layout: str, order: tuple[int, ...]) -> None:
    """The same memory described otherwise: the same bits, of all outputs."""
    desc, arrays = case(mode, np.random.default_rng(3), (3, 8, 5, 6), (1,))
    images = {name: layout for name in desc.tensors() if name in IMAGE_SIZED}
    expected = results(any_device, desc, arrays, images)
    inputs = {name: lay(array, images.get(name, "packed")) for name, array in arrays.items()}
    outputs = {name: lay(array, images.get(name, "packed")) for name, array in poisons(desc).items()}
    for placed in (*inputs.values(), *outputs.values()):
        placed.elements = placed.elements.transpose(order)
        strides = [stride // placed.elements.itemsize for stride in placed.elements.strides]
        placed.desc = placed.desc.replace(sizes=placed.elements.shape, strides=strides)
    run_placed(any_device, desc, inputs, outputs)
    assert_same(
        {name: placed.elements for name, placed in outputs.items()}, {name: array.transpose(order) for name, array in expected.items()}
    )


@pytest.mark.each_value
@DATA_TYPES
@MODE
def test_rows_with_gaps(any_device: dml.Device, mode: str, dtype: Any) -> None:
    """A slice whose images are whole sums in the order of the packed tensor."""
    desc, arrays = case(mode, np.random.default_rng(4), (3, 5, 4, 8), (1,), dtype)
    assert_same(results(any_device, desc, arrays, "padded images"), results(any_device, desc, arrays))


@pytest.mark.each_value
@DATA_TYPES
@pytest.mark.parametrize(
    ("mode", "twin"),
    [
        ("FUSED_BATCH_NORM_V3 training", "BATCH_NORMALIZATION_TRAINING"),
        ("FUSED_BATCH_NORM_V3 inference", "BATCH_NORMALIZATION"),
        ("FUSED_BATCH_NORM_GRAD_V3 training", "BATCH_NORMALIZATION_TRAINING_GRAD"),
        ("FUSED_BATCH_NORM_GRAD_V3 inference", "BATCH_NORMALIZATION_GRAD"),
    ],
)
def test_one_kernel_for_both_systems(every_device: dml.Device, mode: str, twin: str, dtype: Any) -> None:
    """TensorFlow's NHWC and DirectML's sizes in the order NCHW over the same memory: the same bits."""
    desc, arrays = case(mode, np.random.default_rng(5), (3, 4, 5, 8), (3,), np.float32, epsilon=0.125)
    kind, training = MODES[twin]
    roles = {role: name for name, role in INPUTS[type(desc)].items()}
    images = {name: roles[role] for name, role in INPUTS[kind].items() if role in roles}
    channels_second = (0, 3, 1, 2)

    def as_directml(array: Array) -> Array:
        return array.transpose(channels_second) if array.ndim == 4 else array.reshape(1, -1, 1, 1)

    same = described(kind, {name: as_directml(arrays[own]) for name, own in images.items()}, epsilon=0.125)
    outputs = [field.name for field in desc.outputs()]
    pairs = dict(
        zip(
            [field.name for field in same.outputs()],
            outputs if "GRAD" in mode else ("y", "reserve_space_1", "reserve_space_2"),
            strict=False,
        )
    )
    found = results(every_device, desc, arrays)
    placed = {name: lay(arrays[own], "packed") for name, own in images.items()}
    targets = {name: lay(poisons(desc)[own], "packed") for name, own in pairs.items()}
    for item in (*placed.values(), *targets.values()):
        item.elements = as_directml(item.elements)
        item.desc = dml.TensorDesc.of(item.elements)
    run_placed(every_device, same, placed, targets)
    for name, own in pairs.items():
        if name == "output_gradient_tensor" and training:
            continue  # DirectML's centres the input by a recomputed mean
        np.testing.assert_array_equal(targets[name].elements, as_directml(found[own]), err_msg=name)


# entries that repeat


@DATA_TYPES
@pytest.mark.parametrize("mode", GRADIENTS)
def test_an_upstream_gradient_that_repeats(every_device: dml.Device, mode: str, dtype: Any) -> None:
    """Of a sum over samples, strides of 0 along the batch; of a sum over all, along every dimension: one number."""
    desc, arrays = case(mode, np.random.default_rng(6), (4, 5, 3, 8), (1,), dtype)
    (upstream,) = (name for name, role in INPUTS[type(desc)].items() if role == "dy")
    for axes in ((0,), (0, 2), (0, 2, 3)):
        repeated = np.ascontiguousarray(np.broadcast_to(np.take(arrays[upstream], [0], 0), arrays[upstream].shape))
        for axis in axes:
            repeated = np.ascontiguousarray(np.broadcast_to(np.take(repeated, [0], axis), repeated.shape))
        given = arrays | {upstream: repeated}
        found = results(every_device, desc, given, repeats={upstream: axes})
        if axes == (0, 2, 3) and MODES[mode][1]:
            first, *others = found
            deviations = np.sqrt(
                given[next(name for name in given if name in ("variance_tensor", "reserve_space_2"))].astype(np.float64) + desc.epsilon
            )
            assert np.abs(found[first]).max() <= 1e-5 * np.abs(repeated).max() * 2 / deviations.min(), "equal gradients cancel out"
            expected = exact(desc, given)
            for name in others[1:]:
                np.testing.assert_allclose(found[name], expected[name], rtol=2e-3 if found[name].dtype == np.float16 else 1e-5)
        else:
            check(found, desc, given, f"{axes}: ")
        if not MODES[mode][1]:
            assert_same(found, results(every_device, desc, given), ELEMENT_WISE)


@DATA_TYPES
@MODE
def test_an_input_and_a_scale_that_repeat(every_device: dml.Device, mode: str, dtype: Any) -> None:
    """One scale for all channels; one image for all samples."""
    desc, arrays = case(mode, np.random.default_rng(7), (4, 5, 3, 8), (1,), dtype)
    names = {role: name for name, role in INPUTS[type(desc)].items()}
    scale_axis = arrays[names["scale"]].ndim // 2 - (arrays[names["scale"]].ndim == 4)
    repeats = {names["x"]: (0,), names["scale"]: (scale_axis,)}
    for name, (axis,) in repeats.items():
        arrays[name] = np.ascontiguousarray(np.broadcast_to(np.take(arrays[name], [0], axis), arrays[name].shape))
    found = results(every_device, desc, arrays, repeats=repeats)
    check(found, desc, arrays)
    if not MODES[mode][1]:
        assert_same(found, results(every_device, desc, arrays), ELEMENT_WISE)


# nothing is copied


@pytest.mark.pairwise
@DATA_TYPES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("on_cuda", [False, True], ids=["numpy", "plans for CUDA"])
@MODE
def test_scratch_holds_no_copy(monkeypatch: pytest.MonkeyPatch, mode: str, on_cuda: bool, layout: str, dtype: Any) -> None:
    """It hardly grows with the batch. On the host each thread has some, in which a block of the tensors fits."""
    monkeypatch.setattr("dmlpy.devices.numpy.normalization.common.available_threads", lambda: 1)
    device = CudaDevice(DryRunRuntime()) if on_cuda else dml.device("numpy")
    small, _ = case(mode, np.random.default_rng(8), (2, 64, 2, 2), (1,), dtype)
    scratch, size = [], []
    for batch in (64, 128):
        sizes = (batch, 64, 56, 56)
        strides = strides_of(layout, sizes)
        images = {name: desc.replace(sizes=sizes, strides=strides) for name, desc in small.tensors().items() if name in IMAGE_SIZED}
        operator = dml.compile(small.replace(**images), device=device)
        assert operator.binding_properties.persistent_resource_size == 0
        scratch.append(operator.binding_properties.temporary_resource_size)
        size.append(prod(sizes) * np.dtype(dtype).itemsize)
    assert scratch[0] < size[0] / 8
    assert scratch[1] - scratch[0] <= (size[1] - size[0]) / 50
