"""Attention of halves on tensor cores: every form of it, sizes about those of tiles, wide elements, what plans describe, sanitizers."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.attention import division
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from dmlpy.devices.cuda.kernels import Kernel, KernelLibrary
from tests.support.cuda.dry_run import DryRunRuntime
from tests.support.cuda.gpu_models import H200, T4
from tests.support.descs import relation_descs as descs
from tests.support.operators.layout_runs import Array, by_definition, layouts, run, same
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.slow)])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which kernel has the queries, where there are few."""
    if request.param == "many":
        monkeypatch.setattr(division, "MOST_FEW_ROWS", 0)
    return str(request.param)


def of_halves(desc: dml.OperatorDesc) -> Any:
    """The same desc with FLOAT16 in the place of FLOAT32."""
    return dml.OperatorDesc.from_dict(json.loads(json.dumps(desc.to_dict()).replace("FLOAT32", "FLOAT16")))


def arrays(desc: Any, rng: np.random.Generator) -> dict[str, Array]:
    """Normal numbers, masks of every second key, and limits that leave keys or none."""
    found = {}
    for slot in desc.input_slots():
        if slot.tensor is not None:
            kind = slot.tensor.data_type.numpy
            whole = kind.kind != "f" or slot.place == "past_sequence_lengths_tensor"
            values = (
                rng.integers(0, 2 if desc.mask_type.name == "BOOLEAN" else 5, slot.tensor.sizes)
                if whole
                else rng.normal(size=slot.tensor.sizes)
            )
            found[slot.place] = values.astype(kind)
    return found


def check(desc: Any, given: dict[str, Array], device: dml.Device, *, every_layout: bool) -> None:
    wanted = by_definition(desc, given)
    for own in layouts(desc) if every_layout else [desc]:
        for place, found in run(own, given, device).items():
            assert_close(found, wanted[place], found.dtype, terms=200, what=place)


@pytest.mark.parametrize("operator", ["MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"])
def test_every_form(rows: str, cuda_device: dml.Device, operator: str) -> None:
    rng, plans = np.random.default_rng(51), []
    for number, own in enumerate(descs.valid_descs(f"DML_OPERATOR_{operator}")):
        desc = of_halves(dml.OperatorDesc.from_dict(descs.data(f"DML_OPERATOR_{operator}", own.members)))
        if dml.check(desc):
            continue  # lengths of the past may be FLOAT32 where data is, too
        plans.append(str(dml.compile(desc, cuda_device).plan))
        check(desc, arrays(desc, rng), cuda_device, every_layout=number % 8 == 0)
    assert len(plans) > 10
    assert all(("attend_halves<128, true, false>" in plan) == (rows == "few") for plan in plans)


def attention_of(queries: int, keys: int, size: int, value_size: int, **more: Any) -> Any:
    """4 heads that share two of the keys and values, of two batch entries."""
    sizes = {"query_tensor": (2, queries, 4 * size), "key_tensor": (2, keys, 2 * size), "value_tensor": (2, keys, 2 * value_size)}
    members: dict[str, Any] = {name: tensor(*own, data_type="FLOAT16") for name, own in sizes.items()}
    members |= {"query_head_count": 4, "key_value_head_count": 2, "scale": size**-0.5, "mask_filter_value": -1e4}
    return dml.MultiheadAttention1Desc(**members | more).with_outputs("output_tensor")


# queries, keys, elements of a key and of a value
SIZES = [(17, 65, 33, 65), (64, 64, 32, 64), (65, 129, 136, 128), (20, 70, 150, 200), (18, 1, 8, 8), (3, 70, 264, 257)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes_about_those_of_tiles(cuda_device: dml.Device, sizes: tuple[int, int, int, int], biased: bool) -> None:
    biases = {"bias_tensor": tensor(8 * sizes[2] + 2 * sizes[3] - 2 * sizes[2], data_type="FLOAT16")} if biased else {}
    desc = attention_of(*sizes, **biases)
    assert ("attend_halves<" in str(dml.compile(desc, cuda_device).plan)) == (sizes[2] <= 256)
    check(desc, arrays(desc, np.random.default_rng(52)), cuda_device, every_layout=sizes[0] == 17)


def test_elements_that_come_16_bytes_at_a_time_give_the_same_bits(cuda_device: dml.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    every_key = {"mask_tensor": tensor(1, 1, 1, 100, data_type="INT32"), "mask_type": "BOOLEAN"}
    desc = attention_of(40, 100, 48, 72)
    given = arrays(desc, np.random.default_rng(53))
    launched: list[str] = []
    launch = KernelLibrary.launch

    def noted(library: KernelLibrary, kernel: Kernel, *arguments: Any, **options: Any) -> Any:
        launched.append(kernel.entry)
        return launch(library, kernel, *arguments, **options)

    monkeypatch.setattr(KernelLibrary, "launch", noted)
    found = run(desc, given, cuda_device)["output_tensor"]
    odd = desc.replace(key_tensor=desc.key_tensor.replace(strides=(97 * 101, 97, 1)))
    one_by_one = run(odd, given, cuda_device)["output_tensor"]
    assert launched == ["attend_halves<128, false, true>", "attend_halves<128, false, false>"]
    assert_close(one_by_one, by_definition(desc, given)["output_tensor"], np.float16, terms=200)
    assert_close(found, by_definition(desc, given)["output_tensor"], np.float16, terms=200)
    masked = run(desc.replace(**every_key), given | {"mask_tensor": np.ones((1, 1, 1, 100), np.int32)}, cuda_device)["output_tensor"]
    same(masked, one_by_one, "16 bytes at a time beside a mask")


@pytest.mark.parametrize(
    ("queries", "filter_value"),
    [*((20, value) for value in (-1e4, -math.inf, -0.5, 3.0, math.inf)), (3, -1e9)],  # of a few, warps divide the keys of a tile
)
def test_masks_whose_effect_changes_from_key_to_key(cuda_device: dml.Device, queries: int, filter_value: float) -> None:
    mask = np.ones((1, 1, 20, 150), np.int32)
    mask[..., 0, :140] = mask[..., 1, 3:] = mask[..., 2, :] = mask[..., 15, 64:128] = 0
    mask = mask[:, :, :queries]
    of_mask = {"mask_tensor": tensor(*mask.shape, data_type="INT32"), "mask_type": "BOOLEAN", "mask_filter_value": filter_value}
    desc = attention_of(queries, 150, 8, 6, **of_mask)
    check(desc, arrays(desc, np.random.default_rng(54)) | {"mask_tensor": mask}, cuda_device, every_layout=False)


def long_limits(mask_type: str, limits: list[list[int]]) -> dict[str, Any]:
    """A mask of the keys that two batch entries attend to: ends, and starts."""
    return {"mask_tensor": tensor(len(limits), 2, data_type="INT32"), "mask_type": mask_type}


# what is added to 1040 keys, of which parts are combined; and limits of the two batch entries
IN_PARTS: dict[str, tuple[dict[str, Any], list[list[int]] | None]] = {
    "nothing": ({}, None),
    "a negative scale": ({"scale": -0.3}, None),
    "a scale of 0": ({"scale": 0.0}, None),
    "biases": ({"bias_tensor": tensor(8 * 4 + 2 * 8 + 2 * 8, data_type="FLOAT16")}, None),
    "lengths": (long_limits("KEY_SEQUENCE_LENGTH", [[700, 0]]), [[700, 0]]),
    "lengths that count alone": (
        long_limits("KEY_SEQUENCE_LENGTH", [[130, 0]]) | {"mask_filter_value": -math.inf},
        [[130, 0]],
    ),
    "ends and starts that count alone": (
        long_limits("KEY_SEQUENCE_END_START", [[1, 1]] * 2) | {"mask_filter_value": -math.inf},
        [[900, 1030], [80, 1029]],
    ),
}


@pytest.mark.each_value
@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32"])
@pytest.mark.parametrize("queries", [2, 10])
@pytest.mark.parametrize("name", IN_PARTS)
def test_parts_of_the_keys_are_combined(cuda_device: dml.Device, name: str, queries: int, data_type: str) -> None:
    more, limits = IN_PARTS[name]
    desc = attention_of(queries, 1040, 8, 8, **more)
    desc = desc if data_type == "FLOAT16" else of_floats(desc)
    assert re.search(
        r"one of [2-9] parts of the keys.*\nkernels: attend_(halves|floats)<\d+, \w+, \w+>, combine<", dml.compile(desc, cuda_device).plan
    )
    given = arrays(desc, np.random.default_rng(56))
    if limits is not None:
        given["mask_tensor"] = np.array(limits, np.int32)
    check(desc, given, cuda_device, every_layout=False)


def test_plans_describe_how_they_multiply() -> None:
    newer, older = (CudaDevice(DryRunRuntime(machine)) for machine in (H200, T4))
    many, few = attention_of(64, 64, 64, 64), attention_of(8, 64, 64, 64)
    assert "products on tensor cores, by mma m16n8k16 of halves" in dml.compile(many, newer).plan
    assert "products on tensor cores, by mma m16n8k8 of halves" in dml.compile(many, older).plan
    assert "blocks of 16 queries of heads that share keys, and all keys, products on tensor cores" in dml.compile(few, newer).plan
    assert dml.compile(many, newer).plan.endswith("kernels: attend_halves<64, false, true>")
    assert dml.compile(many, older).plan.endswith("kernels: attend_halves<128, false, true>")
    assert dml.compile(attention_of(64, 64, 200, 64), older).plan.endswith("kernels: attend<machine::half, 4, 8>")
    costs = [dml.compile(desc, newer).explain_plan() for desc in (many, of_floats(many))]
    estimates = [cost.estimate_us for cost in costs]
    assert estimates[0] is not None
    assert estimates[1] is not None
    assert estimates[0] <= estimates[1]


def of_floats(desc: dml.OperatorDesc) -> Any:
    """The same desc with FLOAT32 in the place of FLOAT16."""
    return dml.OperatorDesc.from_dict(json.loads(json.dumps(desc.to_dict()).replace("FLOAT16", "FLOAT32")))


@pytest.mark.parametrize("sanitizers", ["address,undefined", pytest.param("thread", marks=pytest.mark.slow)])
def test_the_sanitizers_are_silent(sanitizers: str) -> None:
    require("g++")
    runtime = EmulatedRuntime(sanitize=sanitizers)
    desc = attention_of(18, 70, 9, 10)
    check(desc, arrays(desc, np.random.default_rng(55)), CudaDevice(runtime), every_layout=sanitizers != "thread")
    runtime.check_guards()
