"""Elements at distances beyond 32 bits, and reductions and scans of more than 2^31 entries, on the emulated CUDA device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.common.division import NUMBERS
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import H100, EmulatedRuntime
from dmlpy.devices.cuda.plans import Target, plan_of
from dmlpy.devices.cuda.runtime.interface import Limits
from tests.conftest import cuda_on_cpu
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.far_memory import STEP, far_array, run_far
from tests.support.operators.layout_runs import by_definition
from tests.support.tolerance import assert_close
from tests.support.tools import require

RNG = np.random.default_rng(0)


def tensor(*sizes: int, data_type: str = "FLOAT16", strides: tuple[int, ...] | None = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def rows(*strides: int) -> dml.TensorDesc:
    return tensor(2, 5, strides=strides)


FAR = STEP, 1


def convolution(channels: int, **members: Any) -> dml.OperatorDesc:
    """The channels of input and filter, and the images of input and output, have large strides."""
    padding = {"start_padding": [1, 1], "end_padding": [1, 1], "output_padding": [0, 0], "strides": [1, 1], "dilations": [1, 1]}
    input_strides, filter_strides = (2 * STEP, STEP, 6, 1), (9, STEP, 3, 1)
    return dml.ConvolutionDesc(
        input_tensor=tensor(2, 2, 5, 6, strides=input_strides),
        filter_tensor=tensor(channels, 2, 3, 3, strides=filter_strides),
        mode="CROSS_CORRELATION",
        group_count=1,
        output_tensor=tensor(2, channels, 5, 6, strides=(STEP, 30, 6, 1)),
        **(padding | members),
    )


def attention(**members: Any) -> dml.OperatorDesc:
    """Batch entries, and rows of the keys, have large strides."""
    return dml.MultiheadAttentionDesc(
        query_tensor=tensor(2, 3, 8, strides=(STEP, 8, 1)),
        key_tensor=tensor(2, 2, 8, strides=(8, STEP, 1)),
        value_tensor=tensor(2, 2, 12, strides=(STEP, 12, 1)),
        output_tensor=tensor(2, 3, 12, strides=(STEP, 12, 1)),
        scale=0.5,
        mask_filter_value=-1e4,
        head_count=2,
        **({"mask_type": "NONE"} | members),
    )


def added(data_type: str) -> dml.TensorDesc:
    """Numbers of keys that have large strides: a mask, or position biases."""
    return tensor(2, 2, 3, 2, data_type=data_type, strides=(12, 6, 1, STEP))


def reduce(function: str, axis: int, strides: tuple[int, int]) -> dml.OperatorDesc:
    sizes = (1, 5) if axis == 0 else (2, 1)
    output = tensor(*sizes, strides=FAR)
    return dml.ReduceDesc(function=function, input_tensor=rows(*strides), output_tensor=output, axes=[axis])


def scan(axis: int, **members: Any) -> dml.OperatorDesc:
    return dml.CumulativeSummationDesc(input_tensor=rows(*FAR), output_tensor=rows(*FAR), axis=axis, has_exclusive_sum=False, **members)


CASES = {
    "convolution by elements": convolution(3),
    "convolution by tiles": convolution(9),
    "attention": attention(),
    "attention with a mask": attention(mask_tensor=added("INT32"), mask_type="BOOLEAN"),
    "attention with position biases": attention(relative_position_bias_tensor=added("FLOAT16")),
    **{f"{function} of axis {axis}": reduce(function, axis, FAR) for function in ("SUM", "L2", "MAX") for axis in (0, 1)},
    "argmax across": dml.ArgmaxDesc(
        input_tensor=rows(*FAR), output_tensor=tensor(1, 5, data_type="UINT32"), axes=[0], axis_direction="INCREASING"
    ),
    "argmax within": dml.ArgmaxDesc(
        input_tensor=rows(*FAR), output_tensor=tensor(2, 1, data_type="UINT64", strides=FAR), axes=[1], axis_direction="DECREASING"
    ),
    "scan across": scan(0, axis_direction="INCREASING"),
    "scan backwards": scan(0, axis_direction="DECREASING"),
    "scan within": scan(1, axis_direction="DECREASING"),
    "top k": dml.TopK1Desc(
        input_tensor=rows(*FAR),
        output_value_tensor=tensor(1, 5, strides=FAR),
        output_index_tensor=tensor(1, 5, data_type="UINT32"),
        axis=0,
        k=1,
        axis_direction="DECREASING",
    ),
    "softmax": dml.ActivationSoftmax1Desc(input_tensor=rows(*FAR), output_tensor=rows(*FAR), axes=[0]),
    "mean and variance": dml.MeanVarianceNormalization1Desc(input_tensor=rows(*FAR), output_tensor=rows(*FAR), axes=[1]),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_beyond_32_bits(name: str) -> None:
    desc, device = CASES[name], cuda_on_cpu()
    assert isinstance(device, CudaDevice)
    given = {
        slot.place: RNG.standard_normal(slot.tensor.sizes).astype(slot.tensor.data_type.numpy)
        for slot in desc.input_slots()
        if slot.tensor is not None
    }
    packed = desc.replace(**{place: described.replace(strides=None) for place, described in desc.tensors().items()})
    wanted = by_definition(packed, given)
    for place, found in run_far(desc, given, device).items():
        if found.dtype.kind == "f":
            assert_close(found, wanted[place], found.dtype, terms=40)
        else:
            np.testing.assert_array_equal(found, wanted[place])


# more than 2^31 entries: one element is read again and again, and one block of all is launched


LARGE = replace(H100, multiprocessors=8000)
"""A GPU so large that splits are short."""


class LastSplit(EmulatedRuntime):
    """Launches of several splits run one block alone, which a fault in the source makes the last one."""

    def launch(self, function: Any, grid: tuple[int, int, int], *rest: Any) -> None:
        super().launch(function, (1, 1, 1), *rest)


class Grids(DryRunRuntime):
    """Notes the launches' grids and arguments."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.launches: list[tuple[tuple[int, int, int], Any]] = []

    def bind_launch(self, function: Any, grid: tuple[int, int, int], threads: int, shared_bytes: int, argument: Any, *rest: Any) -> Any:
        self.launches.append((grid, argument))
        return super().bind_launch(function, grid, threads, shared_bytes, argument, *rest)


def last_split(desc: dml.OperatorDesc) -> tuple[int, Any]:
    """The last split of the first launch, and its argument."""
    runtime = Grids(LARGE)
    plan = plan_of(desc, Target(CudaDevice(runtime).library))
    assert plan is not None
    plan.bind(dict.fromkeys(desc.tensors(), 256), 256, None)
    grid, argument = runtime.launches[0]
    return grid[1] - 1, argument


MOST = NUMBERS - 1


def test_a_reduction_of_more_than_2_to_the_31_entries() -> None:
    """The last split of a sum of ones counts what the others leave of the entries."""
    require("g++")
    ones = tensor(MOST, data_type="UINT32", strides=(0,))
    desc = dml.ReduceDesc(function="SUM", input_tensor=ones, output_tensor=tensor(1, data_type="UINT32"), axes=[0])
    split, argument = last_split(desc)
    share = int(argument["thread_groups"]["split_vectors"][0])
    assert split * share > 2**31
    text = "take_parts<width, across>(parameters, member, blockIdx.y, parts)"
    device = CudaDevice(LastSplit(LARGE, fault=(text, 0, text.replace("blockIdx.y", f"{split}u"))))
    plan = plan_of(desc, Target(device.library))
    assert plan is not None
    partials, one = np.zeros(plan.temporary_size, np.uint8), np.ones(1, np.uint32)
    result = np.zeros(1, np.uint32)
    plan.bind({"input_tensor": one.ctypes.data, "output_tensor": result.ctypes.data}, partials.ctypes.data, None)(0)
    assert partials.view(np.uint32)[0] == MOST - split * share


def test_a_scan_of_more_than_2_to_the_31_entries() -> None:
    """The last split numbers its entries, up to the last one of the line."""
    require("g++")
    ones = tensor(MOST, data_type="UINT32", strides=(0,))
    desc = dml.CumulativeSummationDesc(
        input_tensor=ones, output_tensor=tensor(MOST, data_type="UINT32"), axis=0, axis_direction="INCREASING", has_exclusive_sum=False
    )
    split, argument = last_split(desc)
    share = int(argument["split_length"][0])
    assert split * share > 2**31
    text = "unsigned const begin = blockIdx.y * parameters.split_length;"
    device = CudaDevice(LastSplit(LARGE, fault=(text, 1, text.replace("blockIdx.y", f"{split}u"))))
    plan = plan_of(desc, Target(device.library))
    assert plan is not None
    totals, one = np.zeros(plan.temporary_size, np.uint8), np.ones(1, np.uint32)
    with far_array(desc.output_tensor) as y:
        plan.bind({"input_tensor": one.ctypes.data, "output_tensor": y.ctypes.data}, totals.ctypes.data, None)(0)
        count = MOST - split * share
        np.testing.assert_array_equal(y[-count:], np.arange(1, count + 1, dtype=np.uint32))
        assert y[-count - 1] == 0
        del y


@pytest.mark.parametrize("size", [NUMBERS, 2**32 - 1])
def test_what_is_beyond_the_kernels_count(size: int) -> None:
    """Those last 4096 would let a block count beyond 2^32."""
    described = tensor(size, data_type="UINT32", strides=(0,))
    desc = dml.ReduceDesc(function="SUM", input_tensor=described, output_tensor=tensor(1, data_type="UINT32"), axes=[0])
    with pytest.raises(dml.DeviceError, match=rf"{size} entries of a group: at most {MOST}"):
        dml.compile(desc, CudaDevice(DryRunRuntime(H100)))
