"""UNFOLD and FOLD on every device, against plain loops and ONNX's reference, and CUDA's plans of them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import (
    Array,
    by_definition,
    check_layouts,
    compute,
    failures_in_layouts,
    packed,
    run_in_layouts,
    same,
    tensor,
)
from tests.support.tolerance import assert_close
from tests.support.tools import require


def columns_by_loops(image: Array, windows: Any, strides: Any, dilations: Any, start: Any, positions: Any) -> Array:
    """UNFOLD, one element after the other."""
    batch, channels, *spatial = image.shape
    found = np.zeros((batch, channels, math.prod(windows), math.prod(positions)))
    for (row, own), (column, position) in itertools.product(enumerate(np.ndindex(*windows)), enumerate(np.ndindex(*positions))):
        place = [p * s + w * d - b for p, s, w, d, b in zip(position, strides, own, dilations, start, strict=True)]
        if all(0 <= own < size for own, size in zip(place, spatial, strict=True)):
            found[:, :, row, column] = image[:, :, *place]
    return found.reshape(batch, -1, math.prod(positions))


def test_columns_of_an_image_and_back(any_device: dml.Device) -> None:
    rng = np.random.default_rng(6)
    against_onnx = 0
    for number in range(24):
        count, dtype = number % 3 + 1, (np.float32, np.float16)[number % 2]
        batch, channels = (int(own) for own in rng.integers(1, 4, 2))
        windows, strides, dilations = (tuple(own) for own in rng.integers(1, 4, (3, count)).tolist())
        start, end = (tuple(own) for own in rng.integers(0, 3, (2, count)).tolist())
        reaches = [(size - 1) * dilation + 1 for size, dilation in zip(windows, dilations, strict=True)]
        spatial = tuple(max(reach - first - last, 1) + int(rng.integers(4)) for reach, first, last in zip(reaches, start, end, strict=True))
        positions = [
            (size + first + last - reach) // step + 1
            for size, first, last, reach, step in zip(spatial, start, end, reaches, strides, strict=True)
        ]
        image = rng.normal(size=(batch, channels, *spatial)).astype(dtype)
        members = {"window_sizes": windows, "strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end}
        desc = dml.UnfoldDesc(input_tensor=tensor(image), **members).with_outputs()
        columns = columns_by_loops(image, windows, strides, dilations, start, positions)
        what = f"{image.shape} {members}"
        same(compute(desc, device=any_device, input_tensor=image), columns.astype(dtype), what)
        blocks = np.asarray(rng.normal(size=columns.shape), dtype)
        back = compute(
            dml.FoldDesc(input_tensor=tensor(blocks), output_tensor=tensor(image), **members), device=any_device, input_tensor=blocks
        )
        # The transpose: what each element of the image is added, by the columns of the images that hold its number.
        numbered = np.arange(1, math.prod(image.shape) + 1, dtype=np.float64).reshape(image.shape)
        owners = columns_by_loops(numbered, windows, strides, dilations, start, positions).astype(np.int64)
        expected = np.bincount(owners.reshape(-1), blocks.astype(np.float64).reshape(-1), numbered.size + 1)[1:].reshape(image.shape)
        assert_close(back, expected, dtype, terms=math.prod(windows), what=what)
        if dtype is np.float32:
            sizes = [np.array(own, np.int64) for own in (spatial, windows)]
            folded = onnx_outputs("Col2Im", [blocks, *sizes], dilations=dilations, strides=strides, pads=[*start, *end])[0]
            assert_close(back, folded, dtype, terms=math.prod(windows), what=f"ONNX {what}")
            against_onnx += 1
    assert against_onnx == 12


def columns_of(spatial: int, data_type: str, *, fold: bool) -> dml.OperatorDesc:
    """Blocks of two elements in each dimension, some padded, some dilated, some with gaps."""
    members = {
        "window_sizes": (2,) * spatial,
        "strides": tuple(1 + axis % 2 for axis in range(spatial)),
        "dilations": tuple(1 + axis % 3 for axis in range(spatial)),
        "start_padding": tuple(axis % 2 for axis in range(spatial)),
        "end_padding": (1,) * spatial,
    }
    image = packed(data_type, 2, 2, *(2 + axis % 3 for axis in range(spatial)))
    desc = dml.UnfoldDesc(input_tensor=image, **members).with_outputs()
    assert desc.output_tensor is not None
    return dml.FoldDesc(input_tensor=desc.output_tensor, output_tensor=image, **members) if fold else desc


@pytest.mark.parametrize("spatial", range(1, 7))
def test_every_number_of_dimensions(any_device: dml.Device, spatial: int) -> None:
    rng = np.random.default_rng(7)
    for data_type in ("float32", "float16"):
        for fold in (False, True):
            desc = columns_of(spatial, data_type, fold=fold)
            x = rng.normal(size=desc.tensors()["input_tensor"].sizes).astype(data_type)
            found = run_in_layouts(desc, {"input_tensor": x}, any_device)["output_tensor"]
            expected = by_definition(desc, {"input_tensor": x})["output_tensor"]
            if fold:
                assert_close(found, expected, data_type, terms=2**spatial, what=str(desc))
            else:
                same(found, expected.astype(data_type), str(desc))


def test_every_valid_desc_computes_in_every_layout(cuda_device: dml.Device) -> None:
    found = failures_in_layouts("UNFOLD", device=cuda_device) + failures_in_layouts("FOLD", sums=True, device=cuda_device)
    assert not found, "\n".join(found)


def test_unfold_moves_nan_unchanged_and_the_plan_names_its_kernel(cuda_device: dml.Device) -> None:
    image = np.full((1, 1, 2), 0x7FC12345, np.uint32).view(np.float32)
    desc = dml.UnfoldDesc(
        input_tensor=tensor(image), window_sizes=(2,), strides=(1,), dilations=(1,), start_padding=(1,), end_padding=(0,)
    ).with_outputs()
    found = compute(desc, device=cuda_device, input_tensor=image)
    assert found.view(np.uint32).tolist() == [[[0, 0x7FC12345], [0x7FC12345, 0x7FC12345]]]
    assert dml.compile(desc, cuda_device).plan.splitlines()[1] == "unfold<unsigned>: 4 elements, 1 block"


@pytest.mark.parametrize("fold", [False, True])
def test_the_sanitizers_are_silent(fold: bool) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize="address,undefined")
    check_layouts(columns_of(3, "float32", fold=fold), np.random.default_rng(8), sums=fold, device=CudaDevice(runtime))
    runtime.check_guards()
