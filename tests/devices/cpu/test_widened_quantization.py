"""Compiled quantization of 4-bit integers and of FLOAT16, by copies in bytes and in FLOAT32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import random_values, repeated, run
from tests.support.tolerance import assert_close

pytest.importorskip("llvmlite")

from dmlpy.devices.cpu.plans import compiled_plan
from dmlpy.devices.cpu.quantized import int4_plan
from dmlpy.devices.cpu.quantized.int4_plan import WidenedPlan


def tensor(data_type: str, *sizes: int, strides: Any = None) -> dml.TensorDesc:
    return dml.TensorDesc(data_type=data_type, sizes=sizes, strides=strides)


def dequantization(rows: int, columns: int, integers: str, floats: str, *, blocks: int = 1, strides: Any = None, zero: bool = True) -> Any:
    """Of rows in blocks, each with a scale and perhaps a zero point of its own."""
    parameters = [tensor(floats, rows, blocks), *[tensor(integers, rows, blocks)] * zero]
    return dml.DequantizeDesc(
        input_tensor=tensor(integers, rows, columns, strides=strides),
        quantization_tensors=parameters,
        quantization_type="SCALE_ZERO_POINT" if zero else "SCALE",
        output_tensor=tensor(floats, rows, columns),
    )


def quantization(floats: str, integers: str, strides: Any = None) -> Any:
    return dml.QuantizeDesc(
        input_tensor=tensor(floats, 5, 67, strides=strides),
        quantization_tensors=[tensor(floats, 5, 1), tensor(integers, 5, 1)],
        quantization_type="SCALE_ZERO_POINT",
        output_tensor=tensor(integers, 5, 67),
    )


DYNAMIC = dml.DynamicQuantizeLinearDesc(
    input_tensor=tensor("FLOAT16", 1, 1, 5, 67),
    output_tensor=tensor("UINT8", 1, 1, 5, 67),
    output_scale_tensor=tensor("FLOAT32", 1, 1, 1, 1),
    output_zero_point_tensor=tensor("UINT8", 1, 1, 1, 1),
)
ROWS: dict[str, Any] = {
    "one element": dequantization(1, 1, "INT4", "FLOAT32"),
    "less than a register": dequantization(3, 7, "UINT4", "FLOAT32"),
    "an odd count": dequantization(5, 333, "INT4", "FLOAT32"),
    "blocks": dequantization(6, 256, "UINT4", "FLOAT32", blocks=8),
    "several units": dequantization(3, 8193, "INT4", "FLOAT32"),
    "without a zero point": dequantization(5, 66, "UINT4", "FLOAT32", zero=False),
    "gaps": dequantization(5, 33, "INT4", "FLOAT16", strides=(37, 1)),
    "columns": dequantization(5, 33, "UINT4", "FLOAT32", strides=(1, 5)),
    "one row for all": dequantization(5, 33, "INT4", "FLOAT32", strides=(0, 1)),
    "halves of 4 bits": dequantization(5, 66, "INT4", "FLOAT16", blocks=2),
    "halves of bytes": dequantization(5, 66, "UINT8", "FLOAT16", blocks=2),
    "halves to bytes": quantization("FLOAT16", "INT8"),
    "halves with gaps to bytes": quantization("FLOAT16", "UINT8", (140, 2)),
    "the range of halves": DYNAMIC,
}


@pytest.mark.parametrize("name", ROWS)
def test_results_are_those_of_the_definition(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread, and on two that share a tensor; integers are exact."""
    desc, rng = ROWS[name], np.random.default_rng(1)
    assert dml.check(desc) == []
    slots = [slot for slot in desc.input_slots() if slot.tensor is not None]
    given = {slot.place: repeated(random_values(rng, slot.tensor, positive=True), slot.tensor) for slot in slots}
    expected = run(desc, given, "numpy")
    monkeypatch.setattr(int4_plan, "_UNITS_OF_A_THREAD", 1)
    for threads in (1, 2):
        monkeypatch.setattr(int4_plan, "available_threads", lambda threads=threads: threads)
        assert isinstance(compiled_plan(desc), WidenedPlan)
        for place, found in run(desc, given, dml.device("cpu")).items():
            if found.dtype.kind == "f":
                assert_close(found, expected[place], found.dtype)
            else:
                np.testing.assert_array_equal(found, expected[place])


@pytest.mark.parametrize("data_type", ["INT4", "UINT4"])
def test_all_pairs_of_4_bits(data_type: str) -> None:
    """Every byte that holds two elements."""
    desc, scale = dequantization(1, 512, data_type, "FLOAT32", zero=False), np.ones((1, 1), np.float32)
    least, most = desc.input_tensor.data_type.limits
    of_4_bits = np.arange(least, most + 1)
    pairs = np.stack(np.meshgrid(of_4_bits, of_4_bits), axis=-1).reshape(1, 512).astype(desc.input_tensor.data_type.unpacked)
    found = run(desc, {"input_tensor": pairs, "quantization_tensors[0]": scale}, "cpu")["output_tensor"]
    np.testing.assert_array_equal(found, pairs.astype(np.float32) - desc.implied_zero_point)


def test_numbers_to_4_bits_are_numpys() -> None:
    assert compiled_plan(quantization("FLOAT32", "INT4")) == "compiled quantization is between FLOAT32 and UINT8 or INT8"
