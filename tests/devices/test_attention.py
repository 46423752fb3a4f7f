"""Attention on every device against plain loops in float64, and against ONNX's Attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.devices.cuda.device import CudaDevice
from dmlpy.devices.cuda.emulation.runtime import EmulatedRuntime
from tests.support.descs import relation_descs as descs
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.attention_cases import OPERATORS, arrays, plain
from tests.support.operators.layout_runs import Array, by_definition, layouts, run
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close
from tests.support.tools import require


def compare(desc: Any, given: dict[str, Array], what: str, device: dml.Device) -> None:
    for own in layouts(desc):
        found = run(own, given, device)
        for name, wanted in plain(desc, given).items():
            assert_close(found[name], wanted, found[name].dtype, terms=40, what=f"{what}: {name}")


def test_every_form_of_attention(any_device: dml.Device) -> None:
    rng, computed = np.random.default_rng(31), 0
    for operator in OPERATORS:
        for own in descs.valid_descs(f"DML_OPERATOR_{operator}"):
            desc: Any = dml.OperatorDesc.from_dict(descs.data(f"DML_OPERATOR_{operator}", own.members))
            computed += 1
            compare(desc, arrays(desc, rng), f"{operator}, {own.about}", any_device)
    assert computed > 30


LENGTHS: list[tuple[dict[str, Any], tuple[int, int]]] = [
    # sizes of queries, new keys, past and present; the lengths of two batch entries, and which of them count
    ({"queries": 1, "new": 1, "past": 5, "present": 6}, (5, 2)),
    ({"queries": 1, "new": 1, "past": 5, "present": 5}, (4, 1)),  # a buffer that past and present share
    ({"queries": 3, "new": 3, "past": 0, "present": 3}, (0, 0)),
    ({"queries": 3, "new": 3, "past": 0, "present": 7}, (0, 0)),  # room for later steps
    ({"queries": 3, "new": 3, "past": 6, "present": 6}, (3, 0)),
    ({"queries": 4, "new": 2, "past": 3, "present": 5}, (1, 3)),  # queries after the last new key see all of them
    ({"queries": 2, "new": 4, "past": 3, "present": None}, (2, 3)),  # new keys that no query sees
    ({"queries": 2, "new": 0, "past": 4, "present": None}, (3, 0)),  # of which the second leaves no key at all
    ({"queries": 2, "new": 2, "past": 4, "present": 4}, (2**31 - 1, -(2**31))),
    ({"queries": 2, "new": 2, "past": 4, "present": 6}, (99, -1)),
    ({"queries": 70, "new": 70, "past": 90, "present": 90}, (13, 20)),
]


def with_lengths(sizes: dict[str, Any], data_type: str, **more: Any) -> dml.MultiheadAttention1Desc:
    """4 heads of 3 elements that share 2 of the keys and values."""
    members: dict[str, Any] = {"query_tensor": tensor(2, sizes["queries"], 12)}
    if sizes["new"]:
        members |= {name: tensor(2, sizes["new"], 6) for name in ("key_tensor", "value_tensor")}
    if sizes["past"]:
        members |= {f"past_{name}_tensor": tensor(2, 2, sizes["past"], 3) for name in ("key", "value")}
    if sizes["present"]:
        members |= {f"output_present_{name}_tensor": tensor(2, 2, sizes["present"], 3) for name in ("key", "value")}
    members |= {"output_tensor": tensor(2, sizes["queries"], 12), "scale": 0.7, "mask_filter_value": -2.0}
    lengths = dml.TensorDesc(data_type=data_type, sizes=(2,))
    return dml.MultiheadAttention1Desc(**members, past_sequence_lengths_tensor=lengths, query_head_count=4, key_value_head_count=2, **more)


@pytest.mark.parametrize("lengths", [(-(2**31), 2), (2**31 - 1, -1)])
def test_ends_and_starts_of_any_size(every_device: dml.Device, lengths: tuple[int, int]) -> None:
    """A negative end leaves no key, and one beyond the last key all of them; the place of a key less such a number overflows."""
    rng, sizes = np.random.default_rng(36), (2, 3, 8)
    for mask_type, mask in (("KEY_SEQUENCE_LENGTH", [lengths]), ("KEY_SEQUENCE_END_START", [(2, 3), lengths])):
        members = {f"{name}_tensor": tensor(*sizes) for name in ("query", "key", "value", "output")}
        members |= {"mask_tensor": tensor(len(mask), 2, data_type="INT32"), "mask_type": mask_type}
        desc = dml.MultiheadAttentionDesc(**members, scale=0.7, mask_filter_value=-2.0, head_count=2)
        compare(desc, arrays(desc, rng) | {"mask_tensor": np.array(mask, np.int32)}, f"{mask_type} {lengths}", every_device)


@pytest.mark.parametrize("filter_value", [-np.inf, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("mask_type", ["BOOLEAN", "KEY_SEQUENCE_LENGTH", "KEY_SEQUENCE_END_START"])
def test_keys_that_are_filtered_out_leave_no_trace(every_device: dml.Device, mask_type: str, filter_value: float) -> None:
    """By minus infinity: infinities and NaN in them and in their values do not show, and the lowest number counts as that."""
    rng, keys = np.random.default_rng(36), 70
    for value_size, data_type in ((4, "FLOAT32"), (4, "FLOAT16"), (130, "FLOAT32")):
        sizes = {"query": (2, 3, 8), "key": (2, keys, 8), "value": (2, keys, 2 * value_size), "output": (2, 3, 2 * value_size)}
        members: dict[str, Any] = {f"{name}_tensor": tensor(*own, data_type=data_type) for name, own in sizes.items()}
        taken = np.zeros((2, keys), np.bool_)
        taken[0, 2:66], taken[1, 1:3] = True, True
        ends, starts = np.array([[66, 3]], np.int32), np.array([[2, 1]], np.int32)
        if mask_type == "KEY_SEQUENCE_LENGTH":
            taken[0, :2], taken[1, :1] = True, True
        masks = {
            "BOOLEAN": taken[:, None, None].astype(np.int32),
            "KEY_SEQUENCE_LENGTH": ends,
            "KEY_SEQUENCE_END_START": np.concatenate([ends, starts]),
        }
        members |= {"mask_tensor": tensor(*masks[mask_type].shape, data_type="INT32"), "mask_type": mask_type}
        desc = dml.MultiheadAttentionDesc(**members, scale=0.7, mask_filter_value=filter_value, head_count=2)
        given = arrays(desc, rng) | {"mask_tensor": masks[mask_type]}
        clean = by_definition(desc, given)["output_tensor"]
        for name in ("key_tensor", "value_tensor"):
            given[name][~taken] = rng.choice(np.array([np.inf, -np.inf, np.nan], given[name].dtype), given[name][~taken].shape)
        assert_close(by_definition(desc, given)["output_tensor"], clean, np.float64, what="the definition")
        assert_close(run(desc, given, every_device)["output_tensor"], clean, given["key_tensor"].dtype, terms=64)


def test_keys_that_no_length_lets_see_leave_no_trace(every_device: dml.Device) -> None:
    """Earlier keys beyond the valid ones, and new ones after a query's own."""
    rng, sizes = np.random.default_rng(36), {"queries": 3, "new": 3, "past": 6, "present": 9}
    desc = with_lengths(sizes, "INT32")
    given = arrays(desc, rng) | {"past_sequence_lengths_tensor": np.array([4, 0], np.int32)}
    clean = by_definition(desc, given)
    for name in ("past_key_tensor", "past_value_tensor"):
        given[name][0, :, 4:], given[name][1] = np.nan, np.inf
    assert_close(by_definition(desc, given)["output_tensor"], clean["output_tensor"], np.float64, what="the definition")
    for name in ("key_tensor", "value_tensor"):
        given[name][:, 2] = np.nan
    found = run(desc, given, every_device)["output_tensor"]
    assert_close(found[:, :2], clean["output_tensor"][:, :2], np.float32, terms=16)
    assert np.isnan(found[:, 2]).all(), "the last query sees the last key"


@pytest.mark.parametrize(("sizes", "lengths"), LENGTHS)
def test_lengths_of_the_past(any_device: dml.Device, sizes: dict[str, Any], lengths: tuple[int, int]) -> None:
    rng = np.random.default_rng(36)
    total = sizes["present"] or sizes["past"] + sizes["new"]
    masked = {"mask_tensor": tensor(2, 1, sizes["queries"], total, data_type="INT32"), "mask_type": "BOOLEAN"}
    for more in ({}, {"bias_tensor": tensor(24), "relative_position_bias_tensor": tensor(1, 4, 1, total), **masked}):
        if "bias_tensor" in more and not sizes["new"]:
            continue
        desc = with_lengths(sizes, "INT32", **more)
        given = arrays(desc, rng) | {"past_sequence_lengths_tensor": np.array(lengths, np.int32)}
        compare(desc, given, f"{sizes} {lengths}", any_device)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("lengths", [(2.9, 1.0), (np.nan, -0.5), (np.inf, -np.inf)])
def test_lengths_of_the_past_in_floating_point(any_device: dml.Device, lengths: tuple[float, float], data_type: str) -> None:
    desc = with_lengths({"queries": 2, "new": 2, "past": 4, "present": 6}, data_type)
    values = np.array(lengths, desc.past_sequence_lengths_tensor.data_type.numpy)  # type: ignore[union-attr]
    compare(desc, arrays(desc, np.random.default_rng(37)) | {"past_sequence_lengths_tensor": values}, f"{lengths}", any_device)


def test_masks_and_biases_that_repeat_and_keys_that_none_sees(any_device: dml.Device) -> None:
    rng = np.random.default_rng(32)
    members: dict[str, Any] = {"query_tensor": tensor(2, 3, 12), "key_tensor": tensor(2, 5, 6), "value_tensor": tensor(2, 5, 10)}
    members |= {"query_head_count": 4, "key_value_head_count": 2, "scale": 0.6}
    for sizes in ((2, 4, 3, 5), (1, 1, 1, 1), (2, 1, 1, 5), (1, 4, 3, 1), (1, 1, 3, 5)):
        for filter_value in (-1e4, -1.5, 0.0, 2.0):
            desc = dml.MultiheadAttention1Desc(
                mask_tensor=tensor(*sizes, data_type="INT32"),
                relative_position_bias_tensor=tensor(*sizes),
                mask_type="BOOLEAN",
                mask_filter_value=filter_value,
                **members,
            ).with_outputs("output_tensor")
            compare(desc, arrays(desc, rng), f"{sizes} {filter_value}", any_device)
    for mask_type, ends in (("KEY_SEQUENCE_LENGTH", [[0, 99]]), ("KEY_SEQUENCE_END_START", [[4, 2], [1, 3]])):
        desc = dml.MultiheadAttention1Desc(
            mask_tensor=tensor(len(ends), 2, data_type="INT32"), mask_type=mask_type, mask_filter_value=-1e4, **members
        ).with_outputs("output_tensor")
        compare(desc, arrays(desc, rng) | {"mask_tensor": np.array(ends, np.int32)}, mask_type, any_device)


def test_inputs_that_are_broadcast_and_one_of_each(any_device: dml.Device) -> None:
    rng = np.random.default_rng(33)
    for data_type in ("FLOAT32", "FLOAT16"):
        one = tensor(1, 1, 1, data_type=data_type)
        desc = dml.MultiheadAttentionDesc(
            query_tensor=one, key_tensor=one, value_tensor=one, scale=2.0, mask_filter_value=-1.0, head_count=1
        ).with_outputs("output_tensor")
        compare(desc, arrays(desc, rng), "one element", any_device)
        three = tensor(2, 3, 6, data_type=data_type)
        desc = dml.MultiheadAttentionDesc(
            query_tensor=three, key_tensor=three, value_tensor=three, scale=0.5, mask_filter_value=-1.0, head_count=2
        ).with_outputs("output_tensor")
        given = {name: np.broadcast_to(array[..., :1], array.shape) for name, array in arrays(desc, rng).items()}
        wanted = plain(desc, given)["output_tensor"]
        for own in layouts(desc, broadcast=True):
            found = run(own, given, any_device)["output_tensor"]
            assert_close(found, wanted, found.dtype, terms=40, what="broadcast")


def test_past_keys_that_are_all(any_device: dml.Device) -> None:
    rng, past = np.random.default_rng(34), tensor(2, 3, 5, 4)
    desc = dml.MultiheadAttentionDesc(
        query_tensor=tensor(2, 6, 12), past_key_tensor=past, past_value_tensor=past, scale=0.5, mask_filter_value=-1e4, head_count=3
    ).with_outputs()
    compare(desc, arrays(desc, rng), "the past alone", any_device)


def test_cached_values_of_another_size_than_the_keys(any_device: dml.Device) -> None:
    sizes = {"query_tensor": (2, 3, 8), "key_tensor": (2, 3, 8), "value_tensor": (2, 3, 10)}
    sizes |= {"past_key_tensor": (2, 2, 4, 4), "past_value_tensor": (2, 2, 4, 5)}
    desc = dml.MultiheadAttentionDesc(
        **{name: tensor(*own) for name, own in sizes.items()}, scale=1, mask_filter_value=0, head_count=2
    ).with_outputs()
    assert desc.output_present_value_tensor is not None
    assert desc.output_present_value_tensor.sizes == (2, 2, 7, 5)
    compare(desc, arrays(desc, np.random.default_rng(38)), "values of 5 elements", any_device)


def test_large_scores_do_not_overflow(any_device: dml.Device) -> None:
    three = tensor(1, 3, 2)
    desc = dml.MultiheadAttentionDesc(
        query_tensor=three, key_tensor=three, value_tensor=three, scale=1e4, mask_filter_value=-1e4, head_count=1
    ).with_outputs()
    x = np.array([[[3, 0], [0, 5], [-2, -1]]], np.float32)
    found = run(desc, {"query_tensor": x, "key_tensor": x, "value_tensor": x}, any_device)["output_tensor"]
    np.testing.assert_array_equal(found, x)  # each query's best key is itself


@pytest.mark.onnx_reference
def test_onnx_attends_alike(any_device: dml.Device) -> None:
    rng = np.random.default_rng(35)
    for query_heads, heads, past in ((4, 4, 0), (4, 2, 0), (6, 2, 3), (3, 1, 2)):
        sizes = {"Q": (2, 3, query_heads * 4), "K": (2, 5, heads * 4), "V": (2, 5, heads * 4), "M": (2, query_heads, 3, 5 + past)}
        if past:
            sizes |= {"PK": (2, heads, past, 4), "PV": (2, heads, past, 4)}
        x = {name: rng.normal(size=own).astype(np.float32) for name, own in sizes.items()}
        attributes = {"q_num_heads": query_heads, "kv_num_heads": heads, "scale": 0.3}
        wanted = onnx_outputs("Attention", list(x.values()), 3, opset=23, **attributes)
        names = ["query_tensor", "key_tensor", "value_tensor", "relative_position_bias_tensor", "past_key_tensor", "past_value_tensor"]
        members: dict[str, Any] = {name: tensor(*own) for name, own in zip(names, sizes.values(), strict=False)}
        members |= {"query_head_count": query_heads, "key_value_head_count": heads, "scale": 0.3, "mask_filter_value": -1e4}
        made = ("output_tensor", "output_present_key_tensor", "output_present_value_tensor")
        found = run(dml.MultiheadAttention1Desc(**members).with_outputs(*made), dict(zip(names, x.values(), strict=False)), any_device)
        for name, own in zip(made, wanted, strict=True):
            assert_close(found[name], own, np.float32, terms=20, what=name)


def attention_of(queries: int, keys: int, size: int, value_size: int, data_type: str, **more: Any) -> dml.MultiheadAttention1Desc:
    """2 heads that share one of the keys and values, of one batch entry."""
    sizes = {"query_tensor": (1, queries, 2 * size), "key_tensor": (1, keys, size), "value_tensor": (1, keys, value_size)}
    members: dict[str, Any] = {name: tensor(*own, data_type=data_type) for name, own in sizes.items()}
    members |= {"query_head_count": 2, "key_value_head_count": 1, "scale": size**-0.5, "mask_filter_value": -1e4}
    return dml.MultiheadAttention1Desc(**members | more).with_outputs("output_tensor")


@pytest.mark.parametrize("distance", [12.0, 18.0, 21.0])
@pytest.mark.parametrize("queries", [1, 40])
def test_weights_below_the_smallest_half_count(every_device: dml.Device, queries: int, distance: float) -> None:
    """Weights of e^-18 are 0 as halves; where the key of the largest weight has a value of 0, they are all there is."""
    rng, (keys, size) = np.random.default_rng(40), (200, 16)
    desc = attention_of(queries, keys, size, size, "FLOAT16")
    given = {name: np.zeros(tensor.sizes, np.float16) for name, tensor in desc.tensors().items() if name != "output_tensor"}
    given["query_tensor"][...] = 1 / (size * desc.scale)
    given["key_tensor"][:, 1:] = -distance
    given["value_tensor"][:, 1:] = rng.uniform(500, 1000, given["value_tensor"][:, 1:].shape)
    found, exact = run(desc, given, every_device)["output_tensor"], by_definition(desc, given)["output_tensor"]
    assert 1e-4 < exact.min() < exact.max() < 1
    assert_close(found / exact, np.ones_like(exact), np.float16)


@pytest.mark.parametrize("size", [1500.3, 4000.3])
@pytest.mark.parametrize("queries", [1, 40])
def test_scores_of_halves_beyond_whole_floats(every_device: dml.Device, queries: int, size: float) -> None:
    """Of 18 million and 128 million, where neighbouring floats are 2 and more apart."""
    rng, desc = np.random.default_rng(41), attention_of(queries, 200, 64, 64, "FLOAT16")
    given = {name: rng.normal(size=tensor.sizes) for name, tensor in desc.tensors().items() if name != "output_tensor"}
    given["query_tensor"][...] = size
    given["key_tensor"][...] = size * rng.permutation(np.linspace(0.2, 1, 200)).reshape(1, 200, 1)
    given = {name: array.astype(np.float16) for name, array in given.items()}
    found, exact = run(desc, given, every_device)["output_tensor"], by_definition(desc, given)["output_tensor"]
    assert_close(found, exact, np.float16)


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (16, 64, 32, 64), (17, 65, 33, 65), (70, 131, 40, 130), (2, 200, 5, 140)])
def test_sizes_about_those_of_tiles(any_device: dml.Device, sizes: tuple[int, int, int, int], data_type: str) -> None:
    desc = attention_of(*sizes, data_type)
    given = arrays(desc, np.random.default_rng(39))
    for own in layouts(desc):
        found = run(own, given, any_device)["output_tensor"]
        assert_close(found, by_definition(own, given)["output_tensor"], found.dtype, terms=200, what=f"{sizes}")


@pytest.mark.parametrize("filter_value", [-1e4, -3e38, -math.inf, -0.5, 3.0, math.inf])
def test_masks_whose_effect_changes_from_key_to_key(any_device: dml.Device, filter_value: float) -> None:
    """Keys that count after 64 or more that do not, and the other way round; queries that see none, or see all alike."""
    mask = np.ones((1, 1, 5, 150), np.int32)
    mask[..., 0, :140] = mask[..., 1, 3:] = mask[..., 2, :] = mask[..., 3, 64:128] = 0
    desc = attention_of(
        5, 150, 8, 6, "FLOAT32", mask_tensor=tensor(*mask.shape, data_type="INT32"), mask_type="BOOLEAN", mask_filter_value=filter_value
    )
    given = arrays(desc, np.random.default_rng(40)) | {"mask_tensor": mask}
    found, exact = run(desc, given, any_device)["output_tensor"], by_definition(desc, given)["output_tensor"]
    assert np.isfinite(exact).all()
    assert_close(found, exact, np.float32, terms=150)
    unmasked = {place: array for place, array in given.items() if place != "mask_tensor"}
    alone = by_definition(desc.replace(mask_type="NONE", mask_tensor=None), unmasked)["output_tensor"]
    assert_close(found[:, 2], alone[:, 2], np.float32, terms=150, what="the query that sees no key")


def test_scores_that_are_not_finite(any_device: dml.Device) -> None:
    bias = np.zeros((1, 2, 4, 100), np.float32)
    bias[..., 0, :90] = bias[..., 1, 70:] = bias[..., 2, :] = -np.inf  # a query whose first keys have no weight, or the last, or all
    bias[..., 3, 80] = np.inf
    desc = attention_of(4, 100, 3, 2, "FLOAT32", relative_position_bias_tensor=tensor(*bias.shape))
    given = arrays(desc, np.random.default_rng(41)) | {"relative_position_bias_tensor": bias}
    found, exact = run(desc, given, any_device)["output_tensor"], by_definition(desc, given)["output_tensor"]
    assert np.isfinite(exact[:, :2]).all()
    assert np.isnan(exact[:, 2:]).all()
    assert_close(found, exact, np.float32, terms=100)


@pytest.mark.parametrize(
    ("sanitizers", "data_type", "sizes"),
    [
        ("address,undefined", "FLOAT16", {"queries": 18, "new": 18, "past": 60, "present": 78}),
        pytest.param("thread", "FLOAT32", {"queries": 2, "new": 2, "past": 3, "present": 5}, marks=pytest.mark.slow),
    ],
)
def test_the_sanitizers_find_nothing(sanitizers: str, data_type: str, sizes: dict[str, Any]) -> None:
    require("g++")
    desc = with_lengths(sizes, data_type)
    given = arrays(desc, np.random.default_rng(42)) | {"past_sequence_lengths_tensor": np.array([sizes["past"], 1], data_type.lower())}
    runtime = EmulatedRuntime(sanitize=sanitizers, sanitized=("attend_", "combine<", "finish<"))
    found = run(desc, given, CudaDevice(runtime))
    for name, wanted in by_definition(desc, given).items():
        assert_close(found[name], wanted, found[name].dtype, terms=80, what=name)
    runtime.check_guards()


def test_what_cuda_reports_about_its_work(cuda_device: dml.Device) -> None:
    operator = dml.compile(attention_of(100, 3000, 64, 128, "FLOAT16"), cuda_device)
    assert "2 heads, 1 of keys and values, 100 queries and 3000 keys\n" in operator.plan
    assert "one of 5 parts of the keys" in operator.plan
    assert operator.plan.endswith("kernels: attend_halves<128, false, true>, combine<machine::half>")
    # the scores are nowhere in memory: only the sums of each part, and four numbers with them; 11 parts if addresses are not aligned
    assert 0 <= operator.binding_properties.temporary_resource_size - 11 * 200 * (128 + 4) * 4 < 512
    sizes = {"queries": 1, "new": 1, "past": 5, "present": 6}
    assert dml.compile(with_lengths(sizes, "INT32"), cuda_device).binding_properties.temporary_resource_size == 0
    floating = dml.compile(with_lengths(sizes, "FLOAT32"), cuda_device)
    assert floating.binding_properties.temporary_resource_size == 256
    assert floating.plan.endswith("attend_floats<128, true, false>, finish<float>")


def test_more_keys_than_kernels_count_are_refused(cuda_device: dml.Device) -> None:
    with pytest.raises(dml.DmlError, match="attention of 1073741824 queries, keys or elements of a head: at most 1073741823"):
        dml.compile(attention_of(1, 2**30, 1, 1, "FLOAT16"), cuda_device)
