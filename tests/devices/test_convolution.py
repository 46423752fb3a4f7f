"""Convolutions on every device, against the formula tap by tap and against ONNX."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import SOME_OR_ALL, Array, defined, failures_in_layouts, run_in_layouts, tensor
from tests.support.tolerance import assert_close

# input, filter, strides, dilations, start padding, end padding, groups
FORWARD: list[tuple[Any, ...]] = [
    ((1, 1, 5), (1, 1, 3), (1,), (1,), (0,), (0,), 1),
    ((2, 3, 7), (4, 3, 3), (2,), (2,), (1,), (3,), 1),
    ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1),
    ((2, 3, 5, 6), (4, 3, 3, 2), (1, 2), (1, 1), (1, 0), (1, 1), 1),
    ((1, 4, 6, 5), (6, 2, 2, 3), (2, 1), (2, 1), (0, 2), (3, 1), 2),
    ((2, 3, 4, 4), (6, 1, 3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 3),
    ((1, 2, 3, 3), (2, 2, 2, 2), (3, 3), (1, 1), (4, 4), (5, 4), 1),  # windows in the padding alone
    ((1, 2, 3, 4, 5), (3, 2, 2, 1, 3), (1, 2, 2), (1, 1, 2), (1, 0, 0), (0, 1, 1), 1),
    ((2, 3, 5, 6), (4, 3, 3, 2), (1, 2), (0, 1), (1, 0), (0, 1), 1),  # all taps of a column on one element
    ((2, 5, 5, 6), (70, 5, 3, 2), (1, 1), (1, 2), (1, 0), (1, 1), 1),  # tiles of channels and pixels, each with a remainder
    ((1, 34, 3, 3), (18, 17, 1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 2),
    ((1, 2, 3, 4, 5), (9, 2, 2, 1, 3), (1, 2, 2), (1, 1, 0), (1, 0, 0), (0, 1, 1), 1),
]

# the same, and what the output has more than 0 padding to its end would give, and whether output_padding gives it
BACKWARD: list[tuple[Any, ...]] = [
    ((1, 1, 4), (1, 1, 3), (1,), (1,), (0,), (0,), 1, (0,), False),
    ((2, 3, 4), (3, 2, 3), (3,), (2,), (1,), (2,), 1, (2,), True),
    ((2, 3, 3, 2), (3, 2, 2, 3), (2, 3), (1, 1), (0, 1), (1, 0), 1, (0, 0), False),
    ((2, 3, 3, 2), (3, 2, 2, 3), (2, 3), (1, 1), (0, 1), (1, 0), 1, (1, 2), True),
    ((2, 3, 3, 2), (3, 2, 2, 3), (2, 3), (1, 1), (0, 1), (1, 0), 1, (1, 2), False),
    ((1, 4, 2, 3), (4, 3, 2, 2), (2, 1), (1, 2), (1, 0), (0, 1), 2, (1, 0), True),
    ((1, 3, 3, 3), (3, 1, 3, 3), (2, 2), (1, 1), (1, 1), (1, 1), 3, (0, 0), False),
    ((1, 2, 2, 3, 2), (2, 1, 2, 2, 1), (1, 2, 1), (1, 1, 1), (0, 1, 0), (1, 0, 0), 1, (0, 1, 0), True),
    ((2, 3, 3, 2), (3, 2, 2, 3), (2, 3), (0, 1), (0, 1), (0, 0), 1, (0, 0), False),
    ((2, 3, 5, 4), (3, 70, 2, 3), (2, 1), (1, 2), (0, 1), (1, 0), 1, (1, 0), True),
    ((1, 34, 3, 3), (34, 9, 2, 2), (2, 3), (1, 1), (0, 0), (0, 0), 2, (0, 0), False),
    ((1, 2, 2, 3, 2), (2, 9, 2, 2, 1), (1, 2, 1), (0, 1, 1), (0, 1, 0), (0, 0, 0), 1, (0, 1, 0), True),
]


def arrays(rng: np.random.Generator, sizes: tuple[int, ...], filters: tuple[int, ...], channels: int, dtype: Any) -> dict[str, Array]:
    bias = (1, channels, *[1] * (len(sizes) - 2))
    shapes = {"input_tensor": sizes, "filter_tensor": filters, "bias_tensor": bias}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


def flipped(filters: Array, mode: str) -> Array:
    return np.flip(filters, tuple(range(2, filters.ndim))) if mode == "CONVOLUTION" else filters


def forward(given: dict[str, Array], desc: dml.ConvolutionDesc) -> Array:
    """The formula in float64: element by element, tap by tap."""
    x, filters = given["input_tensor"].astype(np.float64), flipped(given["filter_tensor"].astype(np.float64), desc.mode.name)
    assert desc.output_tensor is not None
    y = np.zeros(desc.output_tensor.sizes)
    group = len(filters) // desc.group_count
    for out in np.ndindex(*y.shape[2:]):
        for tap in np.ndindex(*filters.shape[2:]):
            at = [o * s + k * d - p for o, s, k, d, p in zip(out, desc.strides, tap, desc.dilations, desc.start_padding, strict=True)]
            if not all(0 <= index < size for index, size in zip(at, x.shape[2:], strict=True)):
                continue
            for m in range(len(filters)):
                first = m // group * filters.shape[1]
                y[(slice(None), m, *out)] += x[(slice(None), slice(first, first + filters.shape[1]), *at)] @ filters[(m, slice(None), *tap)]
    return y + given["bias_tensor"] if "bias_tensor" in given else y


def backward(given: dict[str, Array], desc: dml.ConvolutionDesc) -> Array:
    """Each element of the input times the filter, added to the output where it is not cut off."""
    x, filters = given["input_tensor"].astype(np.float64), flipped(given["filter_tensor"].astype(np.float64), desc.mode.name)
    assert desc.output_tensor is not None
    y = np.zeros(desc.output_tensor.sizes)
    group, outputs = x.shape[1] // desc.group_count, filters.shape[1]
    for place in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*filters.shape[2:]):
            at = [i * s + k * d - p for i, s, k, d, p in zip(place, desc.strides, tap, desc.dilations, desc.start_padding, strict=True)]
            if not all(0 <= index < size for index, size in zip(at, y.shape[2:], strict=True)):
                continue
            for c in range(x.shape[1]):
                first = c // group * outputs
                y[(slice(None), slice(first, first + outputs), *at)] += np.multiply.outer(
                    x[(slice(None), c, *place)], filters[(c, slice(None), *tap)]
                )
    return y + given["bias_tensor"] if "bias_tensor" in given else y


def members(strides: Any, dilations: Any, start: Any, end: Any, groups: int) -> dict[str, Any]:
    return {"strides": strides, "dilations": dilations, "start_padding": start, "end_padding": end, "group_count": groups}


def rows(cases: Sequence[Any]) -> pytest.MarkDecorator:
    """Each case in both modes and both types; a third of the rows without a bias."""
    product = itertools.product(cases, ("CROSS_CORRELATION", "CONVOLUTION"), (np.float32, np.float16))
    table = [
        pytest.param(case, mode, dtype, number % 3 != 2, id=f"{case[0]} {case[1]} {mode} {np.dtype(dtype)} {number}")
        for number, (case, mode, dtype) in enumerate(product)
    ]
    return pytest.mark.parametrize(("case", "mode", "dtype", "biased"), table)


@rows(FORWARD)
def test_forward_convolutions(any_device: dml.Device, case: Any, mode: str, dtype: Any, biased: bool) -> None:
    sizes, filters, *own = case
    given = arrays(np.random.default_rng(1), sizes, filters, filters[0], dtype)
    if not biased:
        del given["bias_tensor"]
    tensors = {name: tensor(array) for name, array in given.items()}
    padding = [0] * (len(sizes) - 2)
    desc = dml.ConvolutionDesc(**tensors, **members(*own), output_padding=padding, mode=mode).with_outputs()
    assert_close(run_in_layouts(desc, given, any_device)["output_tensor"], forward(given, desc), dtype, terms=64)


def test_a_dilation_of_0_as_onnx_runtime_computes_it(any_device: dml.Device) -> None:
    """The values are those of its test with this filter, quoted in issue 444 of webmachinelearning/webnn."""
    x, w = np.arange(20, dtype=np.float32).reshape(2, 1, 1, 10), np.array([1, 2, 3, 2, 1], np.float32).reshape(1, 1, 1, 5)
    own = members((1, 1), (0, 0), (0, 0), (0, 0), 1)
    desc = dml.ConvolutionDesc(input_tensor=tensor(x), filter_tensor=tensor(w), output_padding=(0, 0), **own).with_outputs()
    result = run_in_layouts(desc, {"input_tensor": x, "filter_tensor": w}, any_device)["output_tensor"]
    assert result[0].ravel().tolist() == [0, 9, 18, 27, 36, 45, 54, 63, 72, 81]
    assert result[1].ravel().tolist()[:5] == [90, 99, 108, 117, 126]


@rows(BACKWARD)
def test_backward_convolutions_with_outputs_of_every_size(any_device: dml.Device, case: Any, mode: str, dtype: Any, biased: bool) -> None:
    sizes, filters, *own, more, told = case
    given = arrays(np.random.default_rng(2), sizes, filters, filters[1] * own[-1], dtype)
    if not biased:
        del given["bias_tensor"]
    tensors = {name: tensor(array) for name, array in given.items()}
    common = {**tensors, **members(*own), "mode": mode, "direction": "BACKWARD"}
    desc = dml.ConvolutionDesc(**common, output_padding=more).with_outputs()
    if not told:
        desc = desc.replace(output_padding=[0] * len(more))
    assert_close(run_in_layouts(desc, given, any_device)["output_tensor"], backward(given, desc), dtype, terms=64)


@pytest.mark.onnx_reference
def test_convolutions_agree_with_onnx(any_device: dml.Device) -> None:
    rng = np.random.default_rng(3)
    for (sizes, filters, *own), direction in [*((case, "FORWARD") for case in FORWARD), *((case[:7], "BACKWARD") for case in BACKWARD)]:
        if any(padding > reach for padding, reach in zip(own[2], filters[2:], strict=True)) or 0 in own[1]:
            continue  # ONNX's reference implementation takes neither such padding nor dilations of 0
        forward_given = direction == "FORWARD"
        strides, dilations, start, end, groups = own
        given = arrays(rng, sizes, filters, filters[0] if forward_given else filters[1] * groups, np.float32)
        tensors = {name: tensor(array) for name, array in given.items()}
        desc = dml.ConvolutionDesc(**tensors, **members(*own), output_padding=[0] * len(strides), direction=direction).with_outputs()
        attributes = {"strides": strides, "dilations": dilations, "pads": [*start, *end], "group": groups}
        operands = [given["input_tensor"], given["filter_tensor"], given["bias_tensor"].reshape(-1)]
        if forward_given or groups == 1:  # the reference implementation has no transposed convolution of groups
            (wanted,) = onnx_outputs("Conv" if forward_given else "ConvTranspose", operands, **attributes)
            assert_close(
                run_in_layouts(desc, given, any_device)["output_tensor"],
                wanted,
                np.float32,
                terms=256,
                what=f"{sizes} {filters} {direction}",
            )


def test_fewer_positions_than_fit_as_for_the_gradient_of_a_filter(any_device: dml.Device) -> None:
    """The gradient of a filter of 2 elements with stride 3 over 6: the window is the output's gradient, spread by the stride."""
    x, gradient = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6), np.array([[[10, 100]]], np.float32)
    own = members((1,), (3,), (0,), (0,), 1)
    desc = dml.ConvolutionDesc(
        input_tensor=tensor(x),
        filter_tensor=tensor(gradient),
        output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=(1, 1, 2)),
        **own,
        output_padding=[0],
    )
    result = run_in_layouts(desc, {"input_tensor": x, "filter_tensor": gradient}, any_device)["output_tensor"]
    np.testing.assert_array_equal(result.reshape(-1), [1 * 10 + 4 * 100, 2 * 10 + 5 * 100])


def test_fused_functions_come_after_the_bias(any_device: dml.Device) -> None:
    rng = np.random.default_rng(4)
    given = arrays(rng, (1, 2, 4, 4), (3, 2, 3, 3), 3, np.float32)
    tensors = {name: tensor(array) for name, array in given.items()}
    desc = dml.ConvolutionDesc(**tensors, **members((1, 1), (1, 1), (0, 0), (0, 0), 1), output_padding=(0, 0)).with_outputs()
    plain = forward(given, desc)
    for function, formula in (
        (dml.ActivationReluDesc(), lambda y: np.maximum(y, 0)),
        (dml.ActivationScaledTanhDesc(alpha=2.0, beta=0.5), lambda y: 2 * np.tanh(0.5 * y)),
        (dml.ElementWiseClipDesc(min=-1.0, max=0.5), lambda y: np.clip(y, -1, 0.5)),
    ):
        result = run_in_layouts(desc.replace(fused_activation=function), given, any_device)["output_tensor"]
        assert_close(result, formula(plain), np.float32, terms=64, what=function.short_name())


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", [BACKWARD[number] for number in (2, 5, 7, 9)], ids=str)
def test_the_zeros_around_a_transposed_image_are_no_factors(any_device: dml.Device, case: Any, dtype: Any) -> None:
    """An infinite or NaN weight reaches only what an element of the input is multiplied by it for."""
    sizes, filters, *own, more, told = case
    given = arrays(np.random.default_rng(5), sizes, filters, filters[1] * own[-1], dtype)
    given["filter_tensor"][0, -1].flat[0], given["filter_tensor"][-1, 0].flat[-1] = np.inf, np.nan
    tensors = {name: tensor(array) for name, array in given.items()}
    desc = dml.ConvolutionDesc(**tensors, **members(*own), direction="BACKWARD", output_padding=more).with_outputs()
    desc = desc if told else desc.replace(output_padding=[0] * len(more))
    with np.errstate(invalid="ignore"):
        expected = backward(given, desc)
    assert np.isfinite(expected).any()
    assert_close(run_in_layouts(desc, given, any_device)["output_tensor"], expected, dtype, terms=64)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("case", [FORWARD[number] for number in (3, 5, 7)], ids=str)
def test_the_padding_of_a_forward_image_is_zeros(any_device: dml.Device, case: Any, dtype: Any) -> None:
    """Their product with an infinite weight is NaN: as if the image had them."""
    sizes, filters, strides, dilations, start, end, groups = case
    given = arrays(np.random.default_rng(6), sizes, filters, filters[0], dtype)
    given["filter_tensor"][-1].flat[0] = np.inf
    tensors = {name: tensor(array) for name, array in given.items()}
    common: dict[str, Any] = {"output_padding": [0] * len(strides), "group_count": groups, "strides": strides, "dilations": dilations}
    desc = dml.ConvolutionDesc(**tensors, start_padding=start, end_padding=end, **common).with_outputs()
    padded = np.pad(given["input_tensor"], [(0, 0), (0, 0), *zip(start, end, strict=True)])
    whole = desc.replace(input_tensor=tensor(padded), start_padding=[0] * len(strides), end_padding=[0] * len(strides))
    with np.errstate(invalid="ignore"):
        expected = forward({**given, "input_tensor": padded}, whole)
    assert np.isnan(expected).any()
    assert_close(run_in_layouts(desc, given, any_device)["output_tensor"], expected, dtype, terms=64)
    assert_close(dml.reference(desc, given).output_tensor, expected, dtype, terms=64)


@SOME_OR_ALL
def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device, every: int) -> None:
    found = failures_in_layouts(*defined("convolution"), sums=True, device=any_device, every=every)
    assert not found, "\n".join(found)
