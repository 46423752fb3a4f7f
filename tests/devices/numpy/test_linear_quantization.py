"""The NumPy device's linear quantization against plain Python in exact fractions, and against ONNX's reference."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.reference.quantized import linear
from tests.support.descs import facts_reader as facts
from tests.support.descs import relation_descs as descs
from tests.support.onnx.reference import onnx_outputs
from tests.support.operators.layout_runs import Array, defined, repeated, run, tensor
from tests.support.tolerance import assert_close

OPERATORS = [name for name in facts.operators() if name.removeprefix("DML_OPERATOR_") in defined("quantized.linear")]


def clamped(value: Fraction, zero_point: int, data_type: dml.DataType) -> int:
    """Python rounds halves of fractions to even."""
    bits, signed = data_type.bits, data_type.name.startswith("INT")
    least = -(2 ** (bits - 1)) if signed else 0
    return min(max(round(value) + zero_point, least), least + 2**bits - 1)


def plain(desc: dml.OperatorDesc, values: dict[str, Array]) -> list[int | float]:
    """The output element by element, exactly."""
    name, data_type = desc.short_name(), desc.tensors()["output_tensor"].data_type
    given = dict(values)
    for place in ("quantization_tensors[0]", "quantization_tensors[1]"):
        if place in given:
            whole = given["input_tensor"].shape
            blocks = [length // size for length, size in zip(whole, given[place].shape, strict=True)]
            at = [np.arange(length) // block for length, block in zip(whole, blocks, strict=True)]
            given["scale_tensor" if place.endswith("[0]") else "zero_point_tensor"] = given.pop(place)[np.ix_(*at)]
    if name in ("QUANTIZE", "DEQUANTIZE") and "zero_point_tensor" not in given:
        integers = desc.tensors()["input_tensor" if name == "DEQUANTIZE" else "output_tensor"].data_type
        given["zero_point_tensor"] = np.array({"UINT8": 128, "UINT4": 8}.get(integers.name, 0))
    shape = max((array.shape for array in given.values()), key=math.prod)
    columns = {place: np.broadcast_to(array, shape).reshape(-1).tolist() for place, array in given.items()}
    found: list[int | float] = []
    for row in zip(*columns.values(), strict=True):
        one = {place: Fraction(value) for place, value in zip(columns, row, strict=True)}
        if name == "ELEMENT_WISE_QUANTIZED_LINEAR_ADD":
            total = sum((one[f"{s}_tensor"] - one.get(f"{s}_zero_point_tensor", 0)) * one[f"{s}_scale_tensor"] for s in "ab")
            found.append(clamped(total / one["output_scale_tensor"], int(one.get("output_zero_point_tensor", 0)), data_type))
        elif "DEQUANTIZE" in name:
            found.append(float((one["input_tensor"] - one.get("zero_point_tensor", 0)) * one["scale_tensor"]))
        else:
            found.append(clamped(one["input_tensor"] / one["scale_tensor"], int(one.get("zero_point_tensor", 0)), data_type))
    return found


def random_values(tensor: dml.TensorDesc, rng: np.random.Generator, place: str) -> Array:
    """Powers of two as scales, so that halves are exact; integers with the ends of their range."""
    dtype, sizes = tensor.data_type.unpacked, tensor.sizes
    if "scale" in place or place == "quantization_tensors[0]":
        found = (2.0 ** rng.integers(-4, 2, sizes)).astype(dtype)
    elif dtype.kind == "f":
        found = (rng.integers(-4096, 4097, sizes) / 32).astype(dtype)
    else:
        least, most = tensor.data_type.limits
        wide = rng.integers(least, most, sizes, dtype, endpoint=True)
        found = np.where(rng.random(sizes) < 0.3, rng.choice(np.array([least, most], dtype), sizes), wide)
    return repeated(found, tensor)


def all_descs(operator: str) -> list[dml.OperatorDesc]:
    """The relations' valid descs in every rank and in the types of the latest support row, by turns packed and with gaps."""
    row = facts.operators()[operator]["support"][0]
    found: list[dml.OperatorDesc] = []
    for own, (slot, support) in itertools.product(descs.variants(operator), row["tensors"].items()):
        for wanted in support["types"]:
            if slot == "QuantizationTensors":
                continue
            members = descs.with_types(operator, own.members, dict.fromkeys(descs.type_group(operator, slot), wanted))
            for place, item in descs.places(operator, members).items() if len(found) % 2 else ():
                if "Strides" not in item:
                    members = descs.with_tensor(members, place, {"Strides": [2 * step for step in descs.packed(item["Sizes"])]})
            try:
                desc = dml.OperatorDesc.from_dict(descs.data(operator, members))
            except dml.DescError:
                continue
            if desc not in found and not dml.check(desc):
                found.append(desc)
    return found


def test_every_operator_in_all_types_and_layouts() -> None:
    rng = np.random.default_rng(2)
    wrong, ran, types = [], dict.fromkeys(OPERATORS, 0), set[str]()
    for operator in OPERATORS:
        for desc in all_descs(operator)[:50]:
            ran[operator] += 1
            types |= {item.data_type.name for item in desc.tensors().values()}
            inputs = {slot.place: slot.tensor for slot in desc.slots() if slot.tensor is not None and not slot.field.marker.output}
            values = {place: random_values(tensor, rng, place) for place, tensor in inputs.items()}
            try:
                found = run(desc, values)
                output = found["output_tensor"]
                if operator == "DML_OPERATOR_DYNAMIC_QUANTIZE_LINEAR":
                    check_dynamic(values["input_tensor"], output, found["output_scale_tensor"], found["output_zero_point_tensor"])
                elif output.dtype.kind == "f":
                    with np.errstate(over="ignore"):  # float16 has infinities for large integers
                        expected = np.array(plain(desc, values)).astype(output.dtype)
                    assert_close(output.reshape(-1), expected, output.dtype)
                else:
                    assert output.reshape(-1).tolist() == plain(desc, values)
            except (AssertionError, dml.DmlError) as error:
                wrong.append(f"{desc}: {error}")
    assert not wrong, f"{len(wrong)} of {sum(ran.values())}\n" + "\n".join(wrong[:8])
    assert min(ran.values()) >= 4, ran
    assert {"INT4", "UINT4"} <= types


@pytest.mark.parametrize(
    "scales", [(0.5, 0.25, 0.5), (0.3, -0.7, 0.9), (1.0, 2.0**-20, 1.0), (0.5, 0.25, 1e-3), (3e38, 3e38, 1.0), (1.0, 1.0, 0.0)]
)
@pytest.mark.parametrize("output", ["UINT8", "INT8"])
def test_sums_of_all_bytes_are_rounded_alike_by_either_way(
    scales: tuple[float, float, float], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotients of a known size are rounded as integers of 16 bits, others as floats; halves and ends of the range occur."""
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(-128, 128).astype(np.int8)))
    values = dict(zip(("a_scale", "b_scale", "output_scale"), (np.full((1, 1), scale, np.float32) for scale in scales), strict=True))
    zeros = {"a_zero_point": np.full((1, 1), 130, np.uint8), "b_zero_point": np.full((1, 1), -7, np.int8)}
    zeros["output_zero_point"] = np.full((1, 1), 5, output.lower())
    given = {f"{name}_tensor": array for name, array in ({"a": a, "b": b} | values | zeros).items()}
    described = {name: tensor(array) for name, array in given.items()}
    desc = dml.ElementWiseQuantizedLinearAddDesc(**described, output_tensor=dml.TensorDesc(data_type=output, sizes=a.shape))
    found = run(desc, given)["output_tensor"]
    monkeypatch.setattr(linear, "_MOST_SHORT", 0.0)
    np.testing.assert_array_equal(found, run(desc, given)["output_tensor"], strict=True)


def check_dynamic(x: Array, output: Array, scale: Array, zero_point: Array) -> None:
    """The scale spans the input and 0; numbers come back with an error of half a step, or of a whole one next to the range's ends."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    limits = np.iinfo(output.dtype)
    np.testing.assert_allclose(scale.item(), (high - low) / 255, rtol=1e-6)
    assert zero_point.item() == min(max(limits.min + round(-low / scale.item()), limits.min), limits.max)
    back = (output.astype(np.float64) - zero_point.item()) * scale.item()
    assert np.abs(back - x).max() <= 1.001 * scale.item()
    assert np.quantile(np.abs(back - x), 0.5) <= 0.5001 * scale.item()


@pytest.mark.onnx_reference
def test_dynamic_quantization_is_that_of_onnx() -> None:
    rng = np.random.default_rng(3)
    for low, high in ((-3.0, 5.0), (2.0, 7.0), (-9.0, -4.0), (0.0, 1e-3), (-1e30, 1e30), (-1.0, 0.0)):
        x = rng.uniform(low, high, (4, 25)).astype(np.float32)
        desc = dml.DynamicQuantizeLinearDesc(input_tensor=tensor(x)).with_outputs()
        found = run(desc, {"input_tensor": x})
        y, scale, zero_point = onnx_outputs("DynamicQuantizeLinear", [x], 3)
        np.testing.assert_allclose(found["output_scale_tensor"].item(), scale.item(), rtol=1e-6)
        assert found["output_zero_point_tensor"].item() == zero_point.item()
        # float32 may have another neighbour next to a half.
        assert np.abs(found["output_tensor"].astype(int) - y.astype(int)).max() <= 1
        assert np.mean(found["output_tensor"] != y) <= 0.02


def test_dynamic_quantization_of_zeros_and_of_what_is_not_finite() -> None:
    for data_type, least in (("UINT8", 0), ("INT8", -128)):
        members = {
            "input_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[3]),
            "output_tensor": dml.TensorDesc(data_type=data_type, sizes=[3]),
            "output_zero_point_tensor": dml.TensorDesc(data_type=data_type, sizes=[1]),
        }
        desc = dml.DynamicQuantizeLinearDesc(**members).with_outputs()
        found = run(desc, {"input_tensor": np.zeros(3, np.float32)})
        assert [array.reshape(-1).tolist() for array in found.values()] == [[least] * 3, [0.0], [least]]
        found = run(desc, {"input_tensor": np.array([1.0, math.inf, -1.0], np.float32)})
        assert found["output_scale_tensor"].item() == math.inf


@pytest.mark.onnx_reference
def test_blocks_are_those_of_onnx() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(0.0, 4.0, (3, 8, 5)).astype(np.float32)
    for dtype, axis, block in itertools.product((np.uint8, np.int8), (0, 1, 2), (1, 2, 3, 4, 5, 8)):
        if x.shape[axis] % block:
            continue
        sizes = [size // block if own == axis else size for own, size in enumerate(x.shape)]
        scale = rng.uniform(0.01, 0.1, sizes).astype(np.float32)
        zero_point = rng.integers(-9 if dtype is np.int8 else 0, 10, sizes).astype(dtype)
        given = {"quantization_tensors[0]": scale, "quantization_tensors[1]": zero_point}
        common = {"quantization_type": "SCALE_ZERO_POINT", "quantization_tensors": [tensor(scale), tensor(zero_point)]}
        [y] = run(dml.QuantizeDesc(input_tensor=tensor(x), **common).with_outputs(), given | {"input_tensor": x}).values()
        [expected] = onnx_outputs("QuantizeLinear", [x, scale, zero_point], 1, axis=axis, block_size=block)
        np.testing.assert_array_equal(y, expected)
        [back] = run(dml.DequantizeDesc(input_tensor=tensor(y), **common).with_outputs(), given | {"input_tensor": y}).values()
        [expected] = onnx_outputs("DequantizeLinear", [y, scale, zero_point], 1, axis=axis, block_size=block)
        assert_close(back, expected, np.float32)


def test_what_is_not_finite_is_clamped_and_nan_counts_as_0() -> None:
    x = np.array([math.inf, -math.inf, math.nan, 0.0, 1e38, -1e38], np.float32)
    scale = np.array([1.0, 1.0, 1.0, 0.0, 1e-3, 1e-3], np.float32)
    zero_point = np.array([3, 3, 3, 3, -100, 100], np.int8)
    desc = dml.ElementWiseQuantizeLinearDesc(
        input_tensor=tensor(x), scale_tensor=tensor(scale), zero_point_tensor=tensor(zero_point)
    ).with_outputs()
    [y] = run(desc, {"input_tensor": x, "scale_tensor": scale, "zero_point_tensor": zero_point}).values()
    assert y.tolist() == [127, -128, 3, 3, 127, -128]
