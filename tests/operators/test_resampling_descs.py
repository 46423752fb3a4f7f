"""Resampling and image scaling as descs: free sizes, counts of scales and offsets, factors, channels, their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Found = list[tuple[str, str]]
OFFSETS = ("input_pixel_offsets", "output_pixel_offsets")
KINDS: dict[Any, tuple[str, int]] = {
    dml.ResampleDesc: ("2_0", 1),
    dml.Resample1Desc: ("2_1", 3),
    dml.Resample2Desc: ("5_1", 3),
    dml.Resample3Desc: ("6_4", 3),
    dml.ResampleGradDesc: ("3_0", 3),
    dml.ResampleGrad1Desc: ("5_1", 3),
}
"""Every resampling operator with the level that brought it, and how many arrays have a number for each dimension."""


X = tensor(2, 3, 4, 5)


def resample(kind: Any = dml.ResampleDesc, x: dml.TensorDesc = X, y: dml.TensorDesc | None = X, **members: Any) -> Any:
    """A resampling by factors of 1."""
    count = len(x.sizes)
    own: dict[str, Any] = {kind.inputs()[0].name: x, kind.outputs()[0].name: y, "interpolation_mode": "LINEAR", "scales": [1.0] * count}
    own |= {name: [0.5] * count for name in OFFSETS if name in kind.model_fields}
    return kind(**own | members)


def upsample(x: dml.TensorDesc = X, width: int = 2, height: int = 3) -> dml.Upsample2DDesc:
    """An upsampling with its output, of the sizes that the factors give while they are sensible."""
    factors = dml.Size2D(width=2, height=3)
    good = dml.Upsample2DDesc(input_tensor=x, scale_size=factors, interpolation_mode="LINEAR").with_outputs()
    return good.replace(scale_size=dml.Size2D(width=width, height=height))


def values(x: dml.TensorDesc = X, biases: int = 3) -> dml.ValueScale2DDesc:
    return dml.ValueScale2DDesc(input_tensor=x, scale=2.0, bias=[0.5] * biases).with_outputs()


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> Found:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def text(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    return lay_out(desc.c_name, dml.check(desc, level))


def unlike(table: list[tuple[dml.OperatorDesc, str, Found]]) -> str:
    """The rows whose problems differ from the row's."""
    wrong = [(desc, level, found) for desc, level, found in table if sorted(codes(desc, level)) != sorted(found)]
    return "\n".join(f"expected {found} at {level}, found {text(desc, level)}" for desc, level, found in wrong)


def test_problems_of_every_resampling() -> None:
    for kind, (introduced, arrays) in KINDS.items():
        names = [field.name for field in kind.tensor_fields()]
        types = {name: tensor(2, 3, 4, 5, data_type="INT8") for name in names}
        gradient, short = "gradient" in names[0], ("scales", *OFFSETS)[:arrays]
        table: list[tuple[dml.OperatorDesc, str, Found]] = [
            (resample(kind), introduced, []),
            (resample(kind, y=tensor(7, 1, 9, 2)), introduced, []),
            (resample(kind, tensor(5), tensor(9)), "6_4", []),
            (resample(kind, y=tensor(4, 5)), "6_4", [("dims.equal", f"{names[1]}.sizes")]),
            (resample(kind, tensor(1, 2, 3, 4, 5), X), "6_4", [("dims.support", f"{names[0]}.sizes")]),
            (resample(kind).replace(**dict.fromkeys(short, (1.0, 1.0))), "6_4", [("attribute.length", name) for name in short]),
            (resample(kind, y=tensor(2, 3, 4, 5, data_type="FLOAT16")), "6_4", [("type.equal", f"{names[1]}.data_type")]),
            (resample(kind, y=None), "6_4", [("tensor.missing", names[1])]),
            (resample(kind, **types), "6_4", [("type.support", f"{name}.data_type") for name in names] if gradient else []),
        ]
        if introduced < "5_1":
            table.append((resample(kind, tensor(5), tensor(9)), introduced, [("dims.support", f"{name}.sizes") for name in names]))
        assert not unlike(table), unlike(table)


def test_problems_of_upsampling() -> None:
    good, volumes = upsample(), upsample(tensor(2, 3, 7, 4, 5))
    table: list[tuple[dml.OperatorDesc, str, Found]] = [
        (good, "1_0", []),
        (volumes, "1_0", []),
        (upsample(width=0, height=0), "6_4", [("upsample_limit", "scale_size.width"), ("upsample_limit", "scale_size.height")]),
        (upsample(width=2**32 // 5 + 1), "6_4", [("upsample_limit", "scale_size.width")]),
        (upsample(height=2**32), "6_4", [("attribute.range", "scale_size.height")]),
        (upsample(height=-1), "6_4", [("attribute.range", "scale_size.height")]),
        (upsample(width=3), "6_4", [("size.equal", "output_tensor.sizes[3]")]),
        (good.replace(output_tensor=tensor(2, 4, 12, 10)), "6_4", [("size.equal", "output_tensor.sizes[1]")]),
        (volumes.replace(output_tensor=tensor(2, 3, 8, 12, 10)), "6_4", [("size.equal", "output_tensor.sizes[2]")]),
        (volumes.replace(output_tensor=good.output_tensor), "6_4", [("dims.equal", "output_tensor.sizes")]),
        (good.replace(input_tensor=tensor(3, 4, 5)), "6_4", [("dims.support", "input_tensor.sizes")]),
    ]
    assert not unlike(table), unlike(table)


def test_problems_of_value_scaling() -> None:
    table: list[tuple[dml.OperatorDesc, str, Found]] = [
        (values(), "1_0", []),
        (values(tensor(2, 1, 4, 5), 1), "1_0", []),
        (values(biases=2), "6_4", [("image_channels", "bias")]),
        (values(biases=1), "6_4", [("image_channels", "bias")]),
        (values(tensor(2, 4, 4, 5), 3), "6_4", [("image_channels", "input_tensor.sizes[1]")]),
        (values(tensor(2, 4, 4, 5), 4), "6_4", [("image_channels", "input_tensor.sizes[1]"), ("image_channels", "bias")]),
        (values().replace(output_tensor=tensor(2, 3, 4, 6)), "6_4", [("size.equal", "output_tensor.sizes[3]")]),
    ]
    assert not unlike(table), unlike(table)


def test_messages() -> None:
    assert text(resample(y=tensor(4, 5), scales=[1, 2])) == (
        "DML_RESAMPLE_OPERATOR_DESC: 2 problems\n"
        " 1. output_tensor.sizes has 2 dimensions, expected 4 dimensions  [dims.equal]\n"
        "      output_tensor is [*output_sizes]\n"
        "      len(output_sizes) = 4: as many dimensions as input_tensor has\n"
        " 2. scales has 2 entries, expected 4  [attribute.length]\n"
        "      len(sizes) = 4: from input_tensor.sizes"
    )
    assert text(upsample(height=4)) == (
        "DML_UPSAMPLE_2D_OPERATOR_DESC: 1 problem\n"
        " 1. output_tensor.sizes[2] is 12, expected output_height = 16  [size.equal]\n"
        "      output_tensor is [batch_count, channel_count, *depth, output_height, output_width]\n"
        "      output_height = 16: input_height * scale_size.height = 4 * 4"
    )
    assert text(values(biases=2)) == (
        "DML_VALUE_SCALE_2D_OPERATOR_DESC: 1 problem\n"
        " 1. bias has 2 numbers, expected channel_count = 3  [image_channels]\n"
        "      channel_count = 3: from input_tensor.sizes[1], output_tensor.sizes[1]"
    )


def test_sizes_that_are_free_are_not_inferred() -> None:
    for kind in KINDS:
        with pytest.raises(dml.DescError) as caught:
            resample(kind, y=None).with_outputs()
        (problem,) = caught.value.problems
        assert (problem.code, problem.path, problem.expected) == ("size.unknown", kind.outputs()[0].name, "a tensor of 4 dimensions")
        assert "its sizes are free" in problem.why[0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=4, max_size=5), st.integers(1, 4), st.integers(1, 4))
def test_upsampling_has_the_sizes_of_repeated_elements(sizes: list[int], width: int, height: int) -> None:
    factors = {"Width": width, "Height": height}
    desc = dml.Upsample2DDesc(input_tensor=tensor(*sizes), scale_size=factors, interpolation_mode="NEAREST_NEIGHBOR").with_outputs()
    repeated = np.zeros(sizes).repeat(height, axis=-2).repeat(width, axis=-1)
    assert desc.output_tensor is not None
    assert desc.output_tensor.sizes == repeated.shape
    assert codes(desc) == []
