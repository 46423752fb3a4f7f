"""Mean-variance, local response and Lp normalization as descs: scale and bias, levels, attributes, their messages."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.messages.problems import lay_out
from tests.support.tensors import tensor

Found = list[tuple[str, str]]


X = tensor(2, 3, 4, 5)
CHANNELS = tensor(1, 3, 1, 1)
KINDS: dict[str, Any] = {
    "0": dml.MeanVarianceNormalizationDesc,
    "1": dml.MeanVarianceNormalization1Desc,
    "2": dml.MeanVarianceNormalization2Desc,
}


def normalization(kind: str, **members: Any) -> Any:
    """A mean-variance normalization of [2, 3, 4, 5] with a scale and a bias for each channel; members replace the desc's."""
    own: dict[str, Any] = {"input_tensor": X, "scale_tensor": CHANNELS, "bias_tensor": CHANNELS}
    if kind != "0":
        own["axes"] = [2, 3]
    return KINDS[kind](**own | members).with_outputs()


def local(kind: Any = dml.LocalResponseNormalizationDesc, **members: Any) -> Any:
    names = [field.name for field in kind.inputs()]
    own: dict[str, Any] = dict.fromkeys(names, X) | {"cross_channel": True, "local_size": 5}
    return kind(**own | members).with_outputs()


def codes(desc: dml.OperatorDesc, level: str = "6_4") -> Found:
    return [(problem.code, problem.path) for problem in dml.check(desc, level)]


def text(desc: dml.OperatorDesc, level: str = "6_4") -> str:
    return lay_out(desc.c_name, dml.check(desc, level))


def unlike(table: list[tuple[dml.OperatorDesc, str, Found]]) -> str:
    """The rows whose problems differ from the row's."""
    wrong = [(desc, level, found) for desc, level, found in table if sorted(codes(desc, level)) != sorted(found)]
    return "\n".join(f"expected {found} at {level}, found {text(desc, level)}" for desc, level, found in wrong)


def test_problems_of_every_mean_variance_normalization() -> None:
    for kind in KINDS:
        good, introduced = normalization(kind), {"0": "1_0", "1": "2_1", "2": "6_3"}[kind]
        softmax, bare = dml.ActivationSoftmaxDesc(), {"scale_tensor": None, "bias_tensor": None}
        table: list[tuple[dml.OperatorDesc, str, Found]] = [
            (good, introduced, []),
            (good.replace(**bare), introduced, []),
            (good.replace(scale_tensor=X, bias_tensor=tensor(2, 3, 1, 5)), introduced, []),
            (good.replace(scale_tensor=None), "6_4", []),
            (good.replace(bias_tensor=None), "6_4", []),
            (good.replace(scale_tensor=tensor(1, 4, 1, 1)), "6_4", [("statistics_sizes", "scale_tensor.sizes[1]")]),
            (good.replace(bias_tensor=tensor(1, 3, 3, 7)), "6_4", [("statistics_sizes", f"bias_tensor.sizes[{axis}]") for axis in (2, 3)]),
            (good.replace(bias_tensor=tensor(1, 3, 1, 1, data_type="FLOAT16")), "6_4", [("type.equal", "bias_tensor.data_type")]),
            (good.replace(output_tensor=tensor(2, 3, 5, 5)), "6_4", [("size.equal", "output_tensor.sizes[2]")]),
            (good.replace(fused_activation=dml.ActivationReluDesc()), "6_4", []),
            (good.replace(fused_activation=softmax), "6_4", [("fused_activation_kind", "fused_activation")]),
            (good.replace(scale_tensor=tensor(3)), "6_4", [("dims.support" if kind == "0" else "statistics_sizes", "scale_tensor.sizes")]),
        ]
        if kind != "0":
            small = {"input_tensor": tensor(6, 4), "output_tensor": tensor(6, 4), "scale_tensor": tensor(1, 4), "bias_tensor": tensor(1, 1)}
            table += [
                (good.replace(axes=[4]), "6_4", [("attribute.axis", "axes[0]")]),
                (good.replace(**small, axes=[1]), "6_4", []),
                (good.replace(**small | {"scale_tensor": tensor(4, 1)}, axes=[1]), "6_4", [("statistics_sizes", "scale_tensor.sizes[0]")]),
            ]
        assert not unlike(table), unlike(table)


def test_problems_of_older_levels() -> None:
    """What 4_0 and 5_2 brought, for the operators that are older."""
    whole = tensor(1, 1, 4, 5)
    table: list[tuple[dml.OperatorDesc, str, Found]] = [
        (normalization("0", bias_tensor=None), "5_2", []),
        (normalization("0", bias_tensor=None), "5_1", [("scale_with_bias", "bias_tensor")]),
        (normalization("1", scale_tensor=None), "5_1", [("scale_with_bias", "scale_tensor")]),
        (normalization("2", scale_tensor=None), "5_1", [("level.operator", "")]),
        (normalization("1", bias_tensor=whole), "4_0", []),
        (normalization("1", bias_tensor=whole), "3_1", [("scale_channels", "bias_tensor.sizes[1]")]),
        (normalization("0", bias_tensor=whole), "3_1", []),
        (normalization("1", input_tensor=tensor(2, 1, 4, 5), scale_tensor=whole, bias_tensor=whole), "2_1", []),
        (normalization("1", input_tensor=tensor(5), scale_tensor=tensor(5), bias_tensor=tensor(1), axes=[0]), "3_1", []),
        (
            normalization("1", input_tensor=tensor(5), scale_tensor=tensor(5), bias_tensor=tensor(1), axes=[0]),
            "3_0",
            [("dims.support", f"{name}_tensor.sizes") for name in ("input", "scale", "bias", "output")],
        ),
    ]
    assert not unlike(table), unlike(table)


def test_problems_of_local_response_and_lp() -> None:
    gradient, lp = local(dml.LocalResponseNormalizationGradDesc), dml.LPNormalizationDesc(input_tensor=X, axis=3).with_outputs()
    table: list[tuple[dml.OperatorDesc, str, Found]] = [
        (local(), "1_0", []),
        (local(local_size=0), "6_4", [("attribute.range", "local_size")]),
        (local().replace(output_tensor=tensor(2, 3, 4, 6)), "6_4", [("size.equal", "output_tensor.sizes[3]")]),
        (local().replace(input_tensor=tensor(3, 4, 5)), "6_4", [("dims.support", "input_tensor.sizes")]),
        (gradient, "3_1", []),
        (gradient, "3_0", [("level.operator", "")]),
        (gradient.replace(local_size=0), "6_4", [("attribute.range", "local_size")]),
        (gradient.replace(input_gradient_tensor=tensor(2, 4, 4, 5)), "6_4", [("size.equal", "input_gradient_tensor.sizes[1]")]),
        (lp, "1_0", []),
        (lp.replace(p=1), "6_4", []),
        (lp.replace(p=3), "6_4", [("attribute.choice", "p")]),
        (lp.replace(axis=4), "6_4", [("attribute.axis", "axis")]),
    ]
    assert not unlike(table), unlike(table)


def test_messages() -> None:
    assert text(normalization("1", scale_tensor=tensor(1, 1, 1, 3))) == (
        "DML_MEAN_VARIANCE_NORMALIZATION1_OPERATOR_DESC: 1 problem\n"
        " 1. scale_tensor.sizes[3] is 3, expected 1 or sizes[3] = 5  [statistics_sizes]\n"
        "      sizes[3] = 5: from input_tensor.sizes[3], output_tensor.sizes[3]\n"
        "      remedy: sizes [1, 3, 1, 1] repeat along all dimensions but 1; sizes name dimensions, strides alone define a layout"
    )
    assert text(normalization("0", bias_tensor=None), "5_1") == (
        "DML_MEAN_VARIANCE_NORMALIZATION_OPERATOR_DESC: 1 problem\n"
        " 1. bias_tensor is missing, expected a tensor: scale_tensor is given  [scale_with_bias]\n"
        "      feature level 5_1\n"
        "      remedy: a bias of zeros changes nothing; feature level 5_2 takes scale_tensor alone"
    )
    remedy = dml.check(normalization("0", scale_tensor=tensor(3)))[0].remedy
    assert remedy is not None
    assert "sizes [1, 3, 1, 1] repeat along all dimensions but 1" in remedy


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=5), st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_a_scale_is_taken_where_it_broadcasts_to_the_input_as_it_is(sizes: list[int], scale: list[int]) -> None:
    """As NumPy broadcasts, but for dimensions that it would put in front."""
    desc = dml.MeanVarianceNormalization2Desc(input_tensor=tensor(*sizes), scale_tensor=tensor(*scale), axes=[0]).with_outputs()
    try:
        fits = len(scale) == len(sizes) and np.broadcast_shapes(scale, sizes) == tuple(sizes)
    except ValueError:
        fits = False
    assert {code for code, _ in codes(desc)} == (set() if fits else {"statistics_sizes"})
