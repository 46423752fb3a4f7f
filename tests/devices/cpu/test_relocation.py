"""Launches that are given other memory by compiled code: the bits are those of launches that were bound to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.recurrent.block_cell_runs import described, random_inputs
from tests.support.tensors import tensor

pytest.importorskip("llvmlite", reason="llvmlite is not installed (the extra 'cpu')")

from dmlpy.devices.cpu.structs import Address, CodeAddress, Count, KernelStruct, field
from dmlpy.devices.plan import BoundAddress

Array = np.ndarray[Any, np.dtype[Any]]
RNG = np.random.default_rng(8)

RELU = dml.ActivationReluDesc()
TANH = dml.ActivationTanhDesc()
IMAGE = tensor(2, 4, 9, 23)


def gemm(rows: int, **members: Any) -> dml.OperatorDesc:
    return dml.GEMMDesc(a_tensor=tensor(2, 1, rows, 17), b_tensor=tensor(2, 1, 17, 37), **members).with_outputs()


def convolution(image: dml.TensorDesc, filters: tuple[int, ...], **members: Any) -> dml.OperatorDesc:
    channels = filters[1] if members.get("direction") == "BACKWARD" else filters[0]
    own: dict[str, Any] = {"strides": (1, 1), "start_padding": (0, 0), "end_padding": (0, 0), "group_count": 1, **members}
    tensors = {"input_tensor": image, "filter_tensor": tensor(*filters), "bias_tensor": tensor(1, channels, 1, 1)}
    return dml.ConvolutionDesc(**tensors, dilations=(1, 1), output_padding=(0, 0), **own).with_outputs()


PAD: dict[str, Any] = {"start_padding": (1, 1), "end_padding": (1, 1)}
STATISTICS = ("mean_tensor", "variance_tensor", "scale_tensor", "bias_tensor")
DESCS: dict[str, dml.OperatorDesc] = {
    "element-wise, strided": dml.ElementWiseAddDesc(
        a_tensor=tensor(3, 5, 7, strides=[70, 14, 2]), b_tensor=tensor(3, 5, 7, strides=[0, 1, 0]), output_tensor=tensor(3, 5, 7)
    ),
    "activation": dml.ActivationEluDesc(input_tensor=tensor(3, 301), output_tensor=tensor(3, 301), alpha=0.5),
    "GEMM": gemm(19, c_tensor=tensor(2, 1, 19, 37, strides=[0, 0, 0, 1]), beta=2.0),
    "GEMM, few rows": dml.GEMMDesc(a_tensor=tensor(1, 1, 5, 9), b_tensor=tensor(1, 1, 9, 64), fused_activation=TANH).with_outputs(),
    "GEMM of halves": dml.GEMMDesc(
        a_tensor=tensor(1, 1, 6, 9, data_type="FLOAT16"), b_tensor=tensor(1, 1, 9, 40, data_type="FLOAT16"), fused_activation=RELU
    ).with_outputs(),
    "convolution": convolution(IMAGE, (5, 4, 3, 3), strides=(2, 1), **PAD),
    "convolution over channels": convolution(tensor(1, 24, 5, 5), (40, 24, 3, 3), fused_activation=TANH, **PAD),
    "convolution in place": convolution(tensor(1, 24, 6, 6), (40, 24, 2, 2)),
    "transposed convolution": convolution(IMAGE, (4, 5, 3, 3), strides=(2, 2), direction="BACKWARD"),
    "depthwise convolution": convolution(IMAGE, (4, 1, 3, 3), group_count=4, **PAD),
    "pooling": dml.MaxPoolingDesc(input_tensor=IMAGE, window_size=(3, 3), strides=(2, 3), **PAD).with_outputs(),
    "pooling of tiles": dml.AveragePooling1Desc(
        input_tensor=IMAGE,
        window_size=(3, 2),
        strides=(1, 3),
        dilations=(2, 3),
        start_padding=(0, 0),
        end_padding=(0, 0),
        include_padding=True,
    ).with_outputs(),
    "pooling of rows": dml.AveragePoolingDesc(
        input_tensor=IMAGE, window_size=(3, 2), strides=(1, 1), include_padding=False, **PAD
    ).with_outputs(),
    "pooling over three dimensions": dml.MaxPoolingDesc(
        input_tensor=tensor(2, 3, 5, 6, 19), window_size=(2, 3, 3), strides=(1, 2, 1), start_padding=(0, 1, 1), end_padding=(1, 0, 1)
    ).with_outputs(),
    "softmax": dml.ActivationSoftmax1Desc(input_tensor=tensor(3, 5, 33), output_tensor=tensor(3, 5, 33), axes=[1]),
    "normalization": dml.MeanVarianceNormalization1Desc(
        input_tensor=tensor(3, 5, 33), scale_tensor=tensor(1, 1, 33), bias_tensor=tensor(1, 1, 33), axes=[2]
    ).with_outputs(),
    "batch normalization": dml.BatchNormalizationDesc(
        input_tensor=IMAGE, **dict.fromkeys(STATISTICS, tensor(1, 4, 1, 1)), spatial=True, epsilon=4.0, fused_activation=RELU
    ).with_outputs(),
    "batch normalization of rows": dml.BatchNormalizationDesc(
        **dict.fromkeys(("input_tensor", "output_tensor"), tensor(2, 24, 5, 7, strides=[840, 1, 168, 24])),
        **dict.fromkeys(STATISTICS, tensor(1, 24, 1, 1)),
        spatial=True,
        epsilon=4.0,
    ),
    "gradient of batch normalization": dml.BatchNormalizationGradDesc(
        input_tensor=IMAGE,
        input_gradient_tensor=IMAGE,
        **dict.fromkeys(STATISTICS[:3], tensor(1, 4, 1, 1)),
        epsilon=4.0,
    ).with_outputs(),
    "gradient of batch normalization in training": dml.BatchNormalizationTrainingGradDesc(
        input_tensor=IMAGE,
        input_gradient_tensor=IMAGE,
        **dict.fromkeys(STATISTICS[:3], tensor(1, 4, 1, 1)),
        epsilon=4.0,
    ).with_outputs(),
    **{kind.short_name(): described(kind, random_inputs(RNG, 3, 5, 7, kind)) for kind in (dml.GRUBlockCellDesc, dml.GRUBlockCellGradDesc)},
}


def memory(desc: dml.OperatorDesc) -> dict[str, Array]:
    """New arrays of random values for all tensors, by place."""
    found = {}
    for name, held in desc.tensors().items():
        flat = RNG.standard_normal(held.span).astype(held.data_type.numpy)
        found[name] = np.lib.stride_tricks.as_strided(flat, held.sizes, held.numpy_strides())
    return found


def split(desc: dml.OperatorDesc, arrays: dict[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
    outputs = [slot.place for slot in desc.output_slots()]
    return {name: array for name, array in arrays.items() if name not in outputs}, {name: arrays[name] for name in outputs}


PACKED = {"GEMM", "GEMM, few rows", "GEMM of halves", *(name for name in DESCS if "onvolution" in name)}
"""Those that pack constants."""


@pytest.mark.parametrize(("name", "prepared"), [*((name, False) for name in DESCS), *((name, True) for name in DESCS if name in PACKED)])
def test_a_relocated_launch_is_one_that_was_bound(name: str, prepared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all tensors at once, and for one after the other; what was bound before is neither read nor written."""
    desc = DESCS[name]
    op: Any = dml.compile(desc, "cpu")
    assert bool(op.prepared_inputs) == (name in PACKED)
    first = memory(desc)
    constants = {key: first.pop(key) for key in op.prepared_inputs} if prepared else {}
    target = op.prepare(**constants) if prepared else op
    dispatch = target.bind(*split(desc, first))
    dispatch()
    binds: list[Any] = []
    bind = type(op._plan).bind

    def binding(*arguments: Any) -> Any:
        binds.append(arguments)
        return bind(*arguments)

    if dispatch._sequence.relocatable:
        monkeypatch.setattr(type(op._plan), "bind", binding)
    bound = dict(first)
    for changed in ([*first], *([key] for key in first)):
        before = {key: bound[key] for key in changed}
        for array in before.values():
            array[...] = 9
        moved = {key: array for key, array in memory(desc).items() if key in changed}
        bound |= moved
        dispatch.rebind(**moved)
        dispatch()
        assert not binds
        assert all((array == 9).all() for array in before.values())
        inputs, outputs = split(desc, bound)
        expected = target(**inputs).as_dict()
        binds.clear()
        for key, array in outputs.items():
            np.testing.assert_array_equal(array, expected[key], err_msg=f"{changed}: {key}")


def test_what_is_relocated() -> None:
    """All that has compiled parameters only: a convolution that packs its filters in each dispatch does so by NumPy."""
    bound_again = []
    for name, desc in DESCS.items():
        op: Any = dml.compile(desc, "cpu")
        assert op._plan.strategy == "compiled", name
        if not op.bind(*split(desc, memory(desc)))._sequence.relocatable:
            bound_again.append(name)
    assert bound_again == [name for name in DESCS if "onvolution" in name]


class Parameters(KernelStruct):
    code: CodeAddress = field("a kernel")
    x: Address = field("an address")
    y: Address = field("another one")
    rows: Count = field("a number")
    table: Address = field("addresses")


def test_addresses_of_unknown_memory_are_never_relocated() -> None:
    """They may lie in memory that is replaced."""
    x, table = BoundAddress(1000, "x") + 24, np.arange(3)
    known = Parameters.bound({"code": 77, "x": x, "y": 0, "rows": 5, "table": table})
    assert [(each.word - known.address, each.memory, each.offset) for each in known.relocations or ()] == [(8, "x", 24)]
    assert [each.memory for each in Parameters.bound({"x": x, "y": BoundAddress(8, None)}).relocations or ()] == ["x"]
    assert Parameters.bound({"x": x, "y": int(x)}).relocations is None
    assert Parameters.bound({"x": x, "table": [x, int(x)]}).relocations is None
    listed = Parameters.bound({"table": [x, BoundAddress(0, None), x + 8]})
    assert [(each.memory, each.offset) for each in listed.relocations or ()] == [("x", 24), ("x", 32)]


def test_sums_with_bytes_lie_in_the_same_memory() -> None:
    address: Any = 8 + BoundAddress(1000, "x") + np.int64(-4)
    assert (address, address.memory, address.offset) == (1004, "x", 4)
    assert type(address - 4) is int
