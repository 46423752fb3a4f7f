"""Plans on copies of tensors whose layout the kernels do not read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from tests.support.operators.layout_runs import check_layouts, layouts, random_values, repeated, run
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.tensor_copies import LayoutCopiesPlan, dense

SUMMING = (
    *("ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1", "BATCH_NORMALIZATION", "BATCH_NORMALIZATION_GRAD", "BATCH_NORMALIZATION_TRAINING"),
    *("LP_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION1", "RESAMPLE2", "RESAMPLE_GRAD1", "ROI_ALIGN", "ROI_ALIGN_GRAD", "UPSAMPLE_2D"),
)
EXACT = (
    *("ACTIVATION_HARDMAX", "DIAGONAL_MATRIX", "DIAGONAL_MATRIX1", "FILL_VALUE_SEQUENCE", "GATHER", "GATHER_ELEMENTS"),
    *("GATHER_ND1", "MAX_UNPOOLING", "NONZERO_COORDINATES", "ONE_HOT", "ROI_POOLING", "SCATTER", "SCATTER_ND"),
)
MEMBERS: dict[str, dict[str, Any]] = {"ROI_ALIGN_GRAD": {"input_tensor": None, "output_roi_gradient_tensor": None}}
"""What makes the kernels compute a sample."""


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


@pytest.mark.parametrize("name", [*SUMMING, *EXACT])
def test_samples_in_all_layouts(name: str) -> None:
    """With gaps and axes in the opposite order, which no kernel of theirs reads."""
    desc = sample(OPERATORS[f"DML_OPERATOR_{name}"]).replace(**MEMBERS.get(name, {}))
    _, spread = layouts(desc)
    assert isinstance(compiled_plan(spread), LayoutCopiesPlan)
    check_layouts(desc, np.random.default_rng(1), sums=name in SUMMING, device="cpu")


BATCH = tensor("INT32", 2, 3, 40, 50)
LAST = {"strides": (6000, 1, 150, 3)}
"""Channels last, in the strides of `BATCH`."""
ROWS: dict[str, tuple[Any, str]] = {
    "a function of integers": (
        dml.ElementWiseModulusFloorDesc(a_tensor=BATCH.replace(**LAST), b_tensor=BATCH, output_tensor=BATCH),
        "a_tensor",
    ),
    "a choice": (
        dml.ElementWiseIfDesc(
            condition_tensor=tensor("UINT8", 2, 3, 40, 50, **LAST), a_tensor=BATCH, b_tensor=BATCH, output_tensor=BATCH.replace(**LAST)
        ),
        "condition_tensor, output_tensor",
    ),
    "packed columns": (dml.ActivationHardmax1Desc(input_tensor=tensor("FLOAT32", 5, 7, 6), axes=[1]), "input_tensor, output_tensor"),
    "three axes": (
        dml.ActivationSoftmax1Desc(input_tensor=tensor("FLOAT16", 2, 3, 4, 3, 5, 2), axes=[0, 2, 4]),
        "input_tensor, output_tensor",
    ),
    "a repeated input": (dml.ActivationSoftmaxDesc(input_tensor=tensor("FLOAT32", 20, 6, strides=(6, 0))), "input_tensor"),
    "the index of an extreme": (dml.ArgmaxDesc(input_tensor=tensor("FLOAT32", 5, 7, 6, strides=(84, 12, 2)), axes=[1]), "input_tensor"),
    "rows of other elements": (
        dml.DynamicQuantizeLinearDesc(
            input_tensor=tensor("FLOAT32", 1, 1, 7, 9, strides=(126, 126, 18, 2)),
            output_tensor=tensor("UINT8", 1, 1, 7, 9),
            output_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
            output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
        ),
        "input_tensor",
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_few_tensors_as_possible_are_copied(name: str) -> None:
    desc, copied = ROWS[name]
    desc, rng = desc if any(slot.tensor for slot in desc.output_slots()) else desc.with_outputs(), np.random.default_rng(2)
    plan = compiled_plan(desc)
    assert isinstance(plan, LayoutCopiesPlan)
    assert plan.describe().endswith(f"\ncopied to another layout: {copied}")
    given = {
        slot.place: repeated(random_values(rng, slot.tensor, positive=True), slot.tensor)
        for slot in desc.input_slots()
        if slot.tensor is not None
    }
    expected = run(desc, given, "numpy")
    for place, found in run(desc, given, "cpu").items():
        if found.dtype.kind == "f":
            assert_close(found, expected[place], found.dtype)
        else:
            np.testing.assert_array_equal(found, expected[place])


def test_a_table_much_larger_than_what_is_gathered_is_not_copied() -> None:
    def gather(rows: int) -> Any:
        table, indices = tensor("FLOAT32", rows, 8, strides=(1, rows)), tensor("INT32", 1, 5)
        return dml.GatherDesc(input_tensor=table, indices_tensor=indices, axis=0, index_dimensions=1).with_outputs()

    assert isinstance(compiled_plan(gather(20)), LayoutCopiesPlan)
    assert compiled_plan(gather(21)) == "compiled gathers and scatters need packed tensors"


def test_tensors_of_4_bits_are_not_copied() -> None:
    desc = dml.GatherDesc(
        input_tensor=tensor("INT4", 8, 8), indices_tensor=tensor("INT32", 1, 5, strides=(10, 2)), axis=0, index_dimensions=1
    )
    assert compiled_plan(desc.with_outputs()) == "compiled gathers and scatters move whole bytes"


# sizes, strides, the dimensions innermost, whether repeats stay, and the strides of the copy
DENSE: dict[str, tuple[Any, Any, Any, bool, Any]] = {
    "gaps": ((2, 3, 4), (50, 15, 3), (), True, (12, 4, 1)),
    "repeats": ((2, 3, 4), (50, 0, 3), (), True, (4, 0, 1)),
    "repeats that do not stay": ((2, 3, 4), (50, 0, 3), (), False, (12, 4, 1)),
    "a dimension innermost": ((2, 3, 4), (12, 4, 1), (1,), True, (12, 1, 3)),
    "two dimensions innermost": ((2, 3, 4), (12, 4, 1), (2, 0), True, (4, 8, 1)),
}


@pytest.mark.parametrize("name", DENSE)
def test_dense(name: str) -> None:
    sizes, strides, innermost, repeats, expected = DENSE[name]
    assert dense(tensor("FLOAT32", *sizes, strides=strides), innermost, repeats=repeats).strides == expected
