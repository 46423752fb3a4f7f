"""Attention by compiled products, in chunks of heads, against plain loops in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.descs import relation_descs as descs
from tests.support.operators.attention_cases import OPERATORS, arrays, plain
from tests.support.operators.layout_runs import Array, layouts, run
from tests.support.tensors import tensor
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.attention import plan, plans
from dmlpy.devices.cpu.device import CpuDevice


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CpuDevice:
    """A device that computes a few heads at a time."""
    monkeypatch.setattr(plan, "_SCORES", 100)
    return CpuDevice()


def halved(desc: Any) -> Any:
    """The desc with FLOAT16 in place of FLOAT32."""
    given = {place: own for place, own in desc.tensors().items() if own.data_type is dml.DataType.FLOAT32}
    return desc.replace(**{place: own.replace(data_type="FLOAT16") for place, own in given.items()})


def check(desc: Any, given: dict[str, Array], device: CpuDevice, what: str) -> None:
    for own in layouts(desc) if desc.output_tensor.data_type is dml.DataType.FLOAT32 else [desc]:
        assert isinstance(plans.attention_plan(own), plan.AttentionPlan)
        found = run(own, given, device)
        for name, wanted in plain(desc, given).items():
            assert_close(found[name], wanted, found[name].dtype, terms=40, what=f"{what}: {name}")


DESCS: list[tuple[str, Any]] = [
    (f"{operator}, {own.about}", dml.OperatorDesc.from_dict(descs.data(f"DML_OPERATOR_{operator}", own.members)))
    for operator in OPERATORS
    for own in descs.valid_descs(f"DML_OPERATOR_{operator}")
]
FORMS = {name: desc for name, desc in DESCS if getattr(desc, "past_sequence_lengths_tensor", None) is None}


@pytest.mark.parametrize(
    ("name", "data_type"),
    [
        pytest.param(name, data_type, marks=[pytest.mark.slow] * (place != number % 2))
        for number, name in enumerate(FORMS)
        for place, data_type in enumerate(("FLOAT32", "FLOAT16"))
    ],
)
def test_every_form(name: str, data_type: str, device: CpuDevice) -> None:
    desc, rng = FORMS[name], np.random.default_rng(31)
    own = desc if data_type == "FLOAT32" else halved(desc)
    check(own, arrays(own, rng), device, name)


HEADS = {"query_tensor": tensor(3, 17, 24), "key_tensor": tensor(3, 21, 12), "value_tensor": tensor(3, 21, 6), "scale": 0.4}
MORE: dict[str, dict[str, Any]] = {
    "shared heads": {},
    "position bias and mask": {
        "relative_position_bias_tensor": tensor(1, 4, 17, 21),
        "mask_tensor": tensor(3, 1, 1, 21, data_type="INT32"),
        "mask_type": "BOOLEAN",
    },
    "bias": {"bias_tensor": tensor(24 + 12 + 6)},
}


@pytest.mark.parametrize("name", MORE)
def test_heads_that_share_keys(name: str, device: CpuDevice) -> None:
    members: Any = {"mask_filter_value": -2.0, "query_head_count": 4, "key_value_head_count": 2, "output_tensor": tensor(3, 17, 12)}
    desc = dml.MultiheadAttention1Desc(**(HEADS | members | MORE[name]))
    check(desc, arrays(desc, np.random.default_rng(32)), device, name)


def test_lengths_of_the_past_are_numpys() -> None:
    few = tensor(1, 4, 16)
    desc = dml.MultiheadAttention1Desc(
        query_tensor=few,
        key_tensor=few,
        value_tensor=few,
        output_tensor=few,
        past_sequence_lengths_tensor=tensor(1, data_type="INT32"),
        scale=1,
        mask_filter_value=0,
        query_head_count=2,
        key_value_head_count=2,
    )
    assert "past_sequence_lengths_tensor" in str(plans.attention_plan(desc))


@pytest.mark.parametrize(("queries", "row"), [(17, 32), (1, 21)])
def test_rows_of_scores_begin_with_cache_lines(queries: int, row: int) -> None:
    """A row of 21 scores has room for 32, unless there are few rows; nothing reads the room."""
    tensors = {"query_tensor": tensor(1, queries, 8), "key_tensor": tensor(1, 21, 8), "value_tensor": tensor(1, 21, 8)}
    desc = dml.MultiheadAttentionDesc(**tensors, scale=0.4, mask_filter_value=-2.0, head_count=2, output_tensor=tensor(1, queries, 8))
    (weighed, summed) = plan.AttentionPlan(desc)._chunks
    for scores in weighed.operands["output_tensor"], summed.operands["a_tensor"]:
        assert (scores.tensor.sizes[-1], scores.tensor.element_strides[-2]) == (21, row)
