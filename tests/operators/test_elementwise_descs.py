"""The element-wise operators and the activations as descs: sizes that repeat, rules, messages, inference, JSON, CLIP in other structs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.messages.problems import lay_out
from dmlpy.operators.activation import ActivationDesc
from dmlpy.operators.elementwise.common import ElementWiseDesc
from tests.support.tensors import tensor

KINDS = {name: kind for name, kind in OPERATORS.items() if issubclass(kind, ElementWiseDesc)}

# Attributes without a default in Python.
ATTRIBUTES: dict[str, Any] = {"min": -1, "max": 2, "exponent": 0.5, "min_max_data_type": "FLOAT32"}

# Types of outputs that are not that of the first input, where inputs are FLOAT32 if they may be.
OUTPUT_TYPES = {
    "BIT_COUNT": "UINT32",
    "DEQUANTIZE_LINEAR": "FLOAT32",
    "IF": "FLOAT32",
    "IS_INFINITY": "UINT8",
    "IS_NAN": "UINT32",
    "QUANTIZED_LINEAR_ADD": "UINT8",
    "QUANTIZE_LINEAR": "UINT8",
}
COMPARISONS = ("EQUALS", "GREATER_THAN", "GREATER_THAN_OR_EQUAL", "LESS_THAN", "LESS_THAN_OR_EQUAL")
OUTPUT_TYPES |= {f"LOGICAL_{name}": "UINT32" for name in COMPARISONS}


def of_sizes(kind: type[dml.OperatorDesc], *sizes: int, **members: Any) -> Any:
    """A desc without outputs whose inputs have these sizes, those that take one element [1, 1, ...], in types of the latest level."""
    row = max(kind.support, key=lambda row: row.level)
    given: dict[str, Any] = {name: value for name, value in ATTRIBUTES.items() if name in kind.model_fields}
    for field in kind.inputs():
        own = [1] * len(sizes) if field.marker.pattern == "*ones" else sizes
        given[field.name] = dml.TensorDesc(data_type=min(row.types_for(field.marker.types)), sizes=own)
    return kind(**given | members)


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> list[tuple[str, str]]:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def text(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    return lay_out(desc.c_name, dml.check(desc, level))


def test_every_operator_is_valid_and_its_output_is_inferred() -> None:
    found = []
    for name, kind in KINDS.items():
        short = name.removeprefix("DML_OPERATOR_ELEMENT_WISE_")
        desc = of_sizes(kind, 2, 3, 4, 5).with_outputs()
        (output,) = (getattr(desc, field.name) for field in kind.outputs())
        first = next(iter(desc.tensors().values()))
        expected = tensor(2, 3, 4, 5, data_type=OUTPUT_TYPES.get(short, str(first.data_type)))
        if output != expected:
            found.append(f"{name}: {output}, expected {expected}")
        found += [f"{name}: {problem}" for problem in dml.check(desc, strict=True)]
        if kind.from_json(desc.to_json()) != desc:
            found.append(f"{name}: is another one after JSON")
    assert not found, "\n".join(found)


def test_every_member_is_documented() -> None:
    families = {"elementwise", "activation", "quantized"}
    kinds = {name: kind for name, kind in OPERATORS.items() if kind.family() in families and not kind.is_extension}
    assert len(kinds) > len(KINDS)
    missing = [f"{name}.{member.name}" for name, kind in kinds.items() for member in kind.members() if not member.text]
    assert not missing
    assert not [name for name, kind in kinds.items() if not kind.formula]


# sizes

ADD_BIAS = """\
DML_ELEMENT_WISE_ADD_OPERATOR_DESC: 2 problems
 1. b_tensor.sizes[0] is 1, expected sizes[0] = 2  [size.equal]
      b_tensor is [*sizes]
      sizes[0] = 2: from a_tensor.sizes[0], output_tensor.sizes[0]
      remedy: an input repeats by strides of 0, never by its sizes: sizes [2, 3, 4, 1] and strides [0, 1, 0, 0]
 2. b_tensor.sizes[2] is 1, expected sizes[2] = 4  [size.equal]
      b_tensor is [*sizes]
      sizes[2] = 4: from a_tensor.sizes[2], output_tensor.sizes[2]
      remedy: an input repeats by strides of 0, never by its sizes: sizes [2, 3, 4, 1] and strides [0, 1, 0, 0]"""


def test_the_message_for_sizes_that_numpy_would_broadcast() -> None:
    desc = dml.ElementWiseAddDesc(a_tensor=tensor(2, 3, 4, 1), b_tensor=tensor(1, 3, 1, 1)).with_outputs()
    assert text(desc) == ADD_BIAS
    mended = desc.replace(b_tensor=tensor(2, 3, 4, 1, strides=[0, 1, 0, 0]))
    assert dml.check(mended) == []


def adding(a: Iterable[int], b: Iterable[int], output: Iterable[int] | None = None) -> dml.ElementWiseAddDesc:
    desc = dml.ElementWiseAddDesc(a_tensor=tensor(*a), b_tensor=tensor(*b))
    return desc.with_outputs() if output is None else desc.replace(output_tensor=tensor(*output))


def prelu(*slopes: int) -> dml.ActivationParameterizedReluDesc:
    return dml.ActivationParameterizedReluDesc(input_tensor=tensor(2, 3, 4, 5), slope_tensor=tensor(*slopes)).with_outputs()


# Two inputs and an output, with the inputs' and the output's wrong sizes as reported; the last is the remedy's.
SIZES: list[tuple[dml.OperatorDesc, list[tuple[str, str]], str]] = [
    (adding((3,), (2, 3)), [("dims.equal", "a_tensor.sizes")], "sizes [2, 3] and strides [0, 1]"),
    (adding((2, 3), ()), [("dims.range", "b_tensor.sizes")], "sizes [2, 3] and strides [0, 0]"),
    (adding((1, 2, 3), (2, 3)), [("dims.equal", "b_tensor.sizes")], "put ones in front: sizes [1, 2, 3]"),
    (adding((2, 3), (1, 1, 2, 3), (2, 3)), [("dims.equal", "b_tensor.sizes")], "leave out leading ones: sizes [2, 3]"),
    (adding((1, 1, 1), (1,), (1, 1, 1)), [("dims.equal", "b_tensor.sizes")], "put ones in front: sizes [1, 1, 1]"),
    (
        # What has strides needs as many of them.
        adding((1, 2, 3), (2, 3)).replace(b_tensor=tensor(2, 3, strides=[1, 2])),
        [("dims.equal", "b_tensor.sizes")],
        "put ones in front: sizes [1, 2, 3] and strides [0, 1, 2]",
    ),
    (
        adding((2, 3), (2, 3)).replace(b_tensor=tensor(1, 2, 3, strides=[9, 1, 2])),
        [("dims.equal", "b_tensor.sizes")],
        "leave out leading ones: sizes [2, 3] and strides [1, 2]",
    ),
    (adding((1, 3), (2, 3)), [("size.equal", "a_tensor.sizes[0]")], "sizes [2, 3] and strides [0, 1]"),
    (
        adding((5, 1), (1, 3)),
        [("size.equal", "a_tensor.sizes[1]"), ("size.equal", "b_tensor.sizes[0]")],
        "sizes [5, 3] and strides [1, 0]",
    ),
    (adding((2, 3, 4, 5), (3,)), [("dims.equal", "b_tensor.sizes")], "sizes [2, 3, 4, 5] and strides [0, 1, 0, 0]"),
    (adding((2, 3, 4, 5), (1, 1, 3, 1)), [("size.equal", f"b_tensor.sizes[{axis}]") for axis in (0, 1, 2, 3)], "strides [0, 1, 0, 0]"),
    (adding((2, 3), (4, 3)), [("size.equal", "b_tensor.sizes[0]")], ""),
    (adding((2, 4), (4, 2)), [("size.equal", "b_tensor.sizes[0]"), ("size.equal", "b_tensor.sizes[1]")], "in another order: [2, 4]"),
    (
        adding((1, 3), (2, 3), (1, 3)),
        [("size.equal", "b_tensor.sizes[0]")],
        "a_tensor with sizes [2, 3] and strides [0, 1], output_tensor with sizes [2, 3]",
    ),
    (adding((2, 3), (2, 3), (1, 3)), [("size.equal", "output_tensor.sizes[0]")], ""),
    (adding((2, 3), (2, 3), (2, 3, 1)), [("dims.equal", "output_tensor.sizes")], ""),
    (
        dml.ElementWiseIdentityDesc(input_tensor=tensor(1, 3), output_tensor=tensor(2, 3)),
        [("size.equal", "output_tensor.sizes[0]")],
        "input_tensor with sizes [2, 3] and strides [0, 1]",
    ),
    (
        dml.ElementWiseIfDesc(
            condition_tensor=tensor(1, 1, data_type="UINT8"), a_tensor=tensor(1, 1), b_tensor=tensor(2, 3)
        ).with_outputs(),
        [("size.equal", f"{name}.sizes[{axis}]") for name in ("condition_tensor", "a_tensor") for axis in (0, 1)],
        "sizes [2, 3] and strides [0, 0]",
    ),
    (prelu(1, 3, 1, 1), [("size.equal", f"slope_tensor.sizes[{axis}]") for axis in (0, 2, 3)], "and strides [0, 1, 0, 0]"),
    (prelu(3), [("dims.equal", "slope_tensor.sizes")], "sizes [2, 3, 4, 5] and strides [0, 1, 0, 0]"),
    (
        # A stride that is not the packed one stays: every third element is a bias.
        adding((2, 3), (2, 3)).replace(b_tensor=tensor(1, 3, strides=[9, 3])),
        [("size.equal", "b_tensor.sizes[0]")],
        "sizes [2, 3] and strides [0, 3]",
    ),
    (
        adding((2, 3), (2, 3)).replace(b_tensor=tensor(1, 3, strides=[9])),
        [("stride.count", "b_tensor.strides"), ("size.equal", "b_tensor.sizes[0]")],
        "",
    ),
]


def test_wrong_sizes_are_located_and_the_remedy_names_strides() -> None:
    failed = []
    for desc, expected, remedy in SIZES:
        found = dml.check(desc)
        fields = {field.name: field for field in desc.tensor_fields()}
        told = [desc.size_remedy(fields[problem.field], desc.sizes()) or problem.remedy or "" for problem in found]
        if [(problem.code, problem.path) for problem in found] != expected:
            failed.append(f"{text(desc)}\nexpected {expected}")
        elif not any(remedy in item for item in told) if remedy else any(told):
            failed.append(f"{text(desc)}\nremedies {told}, expected {remedy!r}")
    assert not failed, "\n".join(failed)


@st.composite
def broadcast(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two lists of sizes that NumPy broadcasts."""
    whole = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    shorter = [1 if draw(st.booleans()) else size for size in whole][draw(st.integers(0, len(whole) - 1)) :]
    other = [1 if draw(st.booleans()) else size for size in whole]
    return (shorter, other) if draw(st.booleans()) else (other, shorter)


@settings(deadline=None, max_examples=150)
@given(broadcast())
def test_what_numpy_broadcasts_is_inferred_and_the_remedy_makes_it_valid(sizes: tuple[list[int], list[int]]) -> None:
    desc = adding(*sizes)
    whole = np.broadcast_shapes(*map(tuple, sizes))
    assert desc.output_tensor is not None
    assert desc.output_tensor.sizes == whole
    fields = {field.name: field for field in desc.inputs()}
    mended = desc
    for name, own in zip(("a_tensor", "b_tensor"), sizes, strict=True):
        remedy = desc.size_remedy(fields[name], desc.sizes())
        if tuple(own) == whole:
            assert remedy is None
        elif np.prod(own) == np.prod(whole):
            assert remedy == f"put ones in front: sizes {list(whole)}"
            mended = mended.replace(**{name: tensor(*whole)})
        else:
            match = re.search(r"sizes (\[.*\]) and strides (\[.*\])$", remedy or "")
            assert match is not None
            told, strides = (ast.literal_eval(part) for part in match.groups())
            array = np.arange(np.prod(own)).reshape(own)
            view = np.lib.stride_tricks.as_strided(array, told, [stride * array.itemsize for stride in strides])
            np.testing.assert_array_equal(view, np.broadcast_to(array, whole))
            mended = mended.replace(**{name: tensor(*told, strides=strides)})
    assert dml.check(mended) == []
    assert (dml.check(desc) == []) == (tuple(sizes[0]) == tuple(sizes[1]))


# types and attributes


def power(exponent: str, base: str = "FLOAT32") -> Any:
    sizes = (1, 1, 2, 3)
    kind = dml.ElementWisePowDesc
    return kind(input_tensor=tensor(*sizes, data_type=base), exponent_tensor=tensor(*sizes, data_type=exponent)).with_outputs()


def clip1(data_type: str, low: Any, high: Any, **members: Any) -> Any:
    given = {"input_tensor": tensor(3, data_type=data_type), "min_max_data_type": data_type, "min": low, "max": high}
    return dml.ElementWiseClip1Desc(**given | members).with_outputs()


def gemm(function: Any) -> dml.GEMMDesc:
    return dml.GEMMDesc(a_tensor=tensor(1, 1, 2, 3), b_tensor=tensor(1, 1, 3, 4), fused_activation=function).with_outputs()


def sum_of_two(activation: Any) -> dml.ElementWiseAdd1Desc:
    return dml.ElementWiseAdd1Desc(a_tensor=tensor(2, 3), b_tensor=tensor(2, 3), fused_activation=activation).with_outputs()


CLIP = dml.ElementWiseClipDesc(min=0, max=6)
RULES: list[tuple[dml.OperatorDesc, str, list[tuple[str, str]]]] = [
    (power("FLOAT16"), "2_1", [("exponent_type", "exponent_tensor.data_type")]),
    (power("FLOAT16"), "3_0", []),
    (power("UINT8", base="INT16"), "3_0", []),
    (power("INT32"), "2_1", [("type.support", "exponent_tensor.data_type")]),
    (power("UINT64"), "6_4", [("type.support", "exponent_tensor.data_type")]),
    (clip1("INT8", -128, 127), "6_4", []),
    (clip1("INT8", -129, 128), "6_4", [("attribute.range", "min"), ("attribute.range", "max")]),
    (clip1("UINT64", 0, 2**64 - 1), "6_4", []),
    (clip1("UINT64", -1, 0.5), "6_4", [("attribute.range", "min"), ("attribute.range", "max")]),
    (clip1("FLOAT16", "-inf", 65504), "6_4", []),
    (clip1("FLOAT16", 1e6, "nan"), "6_4", [("attribute.range", "min")]),
    (clip1("FLOAT32", 3, 1), "6_4", []),
    # ONNX Runtime 1.25's cast to bool leaves the type at its zero.
    (clip1("UINT8", 0, 1).replace(min_max_data_type="UNKNOWN"), "5_0", []),
    (clip1("INT8", -129, 1).replace(min_max_data_type="UNKNOWN"), "6_4", [("attribute.range", "min")]),
    (
        clip1("INT8", 0, 1, output_tensor=tensor(3, data_type="INT8")).replace(min_max_data_type="INT16"),
        "6_4",
        [("attribute.type", "min_max_data_type")],
    ),
    (
        of_sizes(dml.ElementWiseClipGrad1Desc, 3).with_outputs().replace(min_max_data_type="FLOAT16"),
        "6_4",
        [("attribute.type", "min_max_data_type")],
    ),
    (of_sizes(dml.ElementWiseClipDesc, 3, min=3, max=1).with_outputs(), "6_4", []),
    (of_sizes(dml.ElementWiseClipDesc, 3, min=-1e39, max="inf").with_outputs(), "6_4", [("attribute.range", "min")]),
    (CLIP, "6_4", [("tensor.missing", "input_tensor"), ("tensor.missing", "output_tensor")]),
    (gemm(CLIP), "6_0", []),
    (gemm(CLIP), "5_2", [("fused_function", "fused_activation")]),
    (gemm(CLIP.replace(input_tensor=tensor(3))), "6_4", [("tensor.fused", "fused_activation.input_tensor")]),
    (
        sum_of_two(dml.ActivationReluDesc()),
        "2_0",
        [("dims.support", f"{name}.sizes") for name in ("a_tensor", "b_tensor", "output_tensor")],
    ),
    (sum_of_two(dml.ActivationReluDesc()), "3_0", []),
    (sum_of_two(dml.ActivationGeluDesc()), "5_0", [("level.operator", "fused_activation")]),
    (sum_of_two(dml.ActivationSwishDesc()), "6_4", [("fused_activation_kind", "fused_activation")]),
    (
        of_sizes(dml.ElementWiseAbsDesc, 2, scale_bias={"scale": 1e39, "bias": 0}, input_tensor=tensor(2, data_type="INT8")).with_outputs(),
        "6_4",
        [("attribute.range", "scale_bias.scale")],
    ),
    (
        of_sizes(dml.ElementWiseAbsDesc, 2, input_tensor=tensor(2, data_type="INT64")).with_outputs(),
        "4_0",
        [("type.support", f"{name}.data_type") for name in ("input_tensor", "output_tensor")],
    ),
    (
        of_sizes(dml.ElementWiseLogicalLessThanDesc, 1, 1, 1, 2, output_tensor=tensor(1, 1, 1, 2, data_type="UINT8")),
        "1_0",
        [("type.support", "output_tensor.data_type")],
    ),
]


def test_types_and_attributes() -> None:
    failed = [f"{text(desc, level)}\nexpected {expected}" for desc, level, expected in RULES if codes(desc, level) != expected]
    assert not failed, "\n".join(failed)


BAD_POW = """\
DML_ELEMENT_WISE_POW_OPERATOR_DESC: 1 problem
 1. exponent_tensor.data_type is FLOAT16, expected FLOAT32  [exponent_type]
      input_tensor has elements of type FLOAT32
      remedy: feature level 3_0 takes exponents of another type"""

BAD_CLIP = """\
DML_ELEMENT_WISE_CLIP1_OPERATOR_DESC: 2 problems
 1. min_max_data_type is INT8, expected UINT8  [attribute.type]
      output_tensor has elements of type UINT8
 2. min is -200, expected a number that UINT8 holds  [attribute.range]
      input_tensor has elements of type UINT8"""


def test_messages_of_rules() -> None:
    assert text(power("FLOAT16"), "2_1") == BAD_POW
    assert text(clip1("UINT8", 0, 1).replace(min_max_data_type="INT8", min=-200)) == BAD_CLIP


def test_a_function_of_another_kind_is_no_fused_activation() -> None:
    with pytest.raises(dml.DescError, match=r"fused_activation is .*, expected an activation desc"):
        sum_of_two(CLIP)


# activations that are no element-wise functions


@pytest.mark.parametrize("kind", [dml.ActivationSoftmaxDesc, dml.ActivationLogSoftmaxDesc, dml.ActivationHardmaxDesc])
def test_rows_of_more_dimensions_are_reported_as_a_matrix(kind: Any) -> None:
    wrong = kind(input_tensor=tensor(2, 3, 4, 5)).with_outputs()
    (problem,) = dml.check(wrong)
    remedy = re.fullmatch(r"along the last dimension, sizes (\[.*\]) of input and output are the same; (.*)", problem.remedy or "")
    assert remedy is not None
    assert remedy[2] == f"from feature level 5_1 on {kind.type_name}1 takes a list of axes"
    assert dml.check(kind(input_tensor=tensor(*ast.literal_eval(remedy[1]))).with_outputs(), "1_0") == []
    # Rows that are not one after the other are no matrix.
    strided = wrong.replace(input_tensor=tensor(2, 3, 4, 5, strides=[1, 2, 6, 24]))
    assert [problem.remedy for problem in dml.check(strided)] == [remedy[2]]


def test_what_is_never_fused_has_tensors() -> None:
    alone = [kind for kind in OPERATORS.values() if issubclass(kind, ActivationDesc) and not kind.fusable]
    assert alone
    for kind in alone:
        desc = kind(axes=[]) if "axes" in kind.model_fields else kind()
        expected = [("tensor.missing", field.name, "a tensor") for field in kind.tensor_fields()]
        assert [(problem.code, problem.path, problem.expected) for problem in dml.check(desc)] == expected
        assert codes(sum_of_two(desc), str(kind.introduced())) != []


# JSON


def test_a_scale_and_bias_in_json() -> None:
    desc = of_sizes(dml.ElementWiseClipDesc, 2, scale_bias=dml.ScaleBias(scale=2, bias=0.5), min="-inf", max=6)
    data = desc.to_dict()
    assert data["Desc"]["ScaleBias"] == {"Scale": 2.0, "Bias": 0.5}
    assert (data["Desc"]["Min"], data["Desc"]["Max"]) == ("-inf", 6.0)
    assert dml.OperatorDesc.from_json(json.dumps(data)) == desc


def test_a_scalar_of_half_precision_may_be_given_by_its_bits() -> None:
    data = clip1("FLOAT16", -1, 1).to_dict(flat=True) | {"Min": {"UInt16": 0xC000}, "Max": {"UInt16": 0x4000}}
    desc = dml.OperatorDesc.from_dict(data)
    assert (desc.min, desc.max) == (-2.0, 2.0)  # type: ignore[attr-defined]


def test_a_clip_inside_gemm_survives_json() -> None:
    desc = gemm(CLIP)
    data = desc.to_dict()
    assert data["Desc"]["FusedActivation"] == {"Type": "DML_OPERATOR_ELEMENT_WISE_CLIP", "Min": 0.0, "Max": 6.0}
    assert dml.OperatorDesc.from_dict(data) == desc
