"""Sums, differences and products on the device `numpy`: NumPy writes them into the output, without an array in between."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import dmlpy as dml

KINDS = {"add": dml.ElementWiseAddDesc, "subtract": dml.ElementWiseSubtractDesc, "multiply": dml.ElementWiseMultiplyDesc}


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16", "INT8"])
@pytest.mark.parametrize("name", KINDS)
def test_results_are_numpys_bit_for_bit(name: str, data_type: str) -> None:
    dtype = np.dtype(data_type.lower())
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-100, 100, (33, 71)).astype(dtype) for _ in range(2))
    if dtype.kind == "f":
        a[0, :4], b[0, :4] = [np.nan, np.inf, 0, 6e4], [1, -np.inf, -0.0, 6e4]
    b = b[:, ::2].repeat(2, 1)[:, :71]
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(a, b)
    spread = np.full((33, 100), -1, dtype)
    tensors = {"a_tensor": dml.TensorDesc.of(a), "b_tensor": dml.TensorDesc.of(b), "output_tensor": dml.TensorDesc.of(spread[:, :71])}
    op = dml.compile(KINDS[name](**tensors), "numpy")
    op.bind({"a_tensor": a, "b_tensor": b}, {"output_tensor": spread[:, :71]})()
    assert spread[:, :71].tobytes() == expected.tobytes()
    assert (spread[:, 71:] == -1).all()
    in_place = dml.compile(op.desc.replace(output_tensor=dml.TensorDesc.of(a)), "numpy")
    in_place.bind({"a_tensor": a, "b_tensor": b}, {"output_tensor": a})()
    assert a.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_allocated(name: str) -> None:
    a = np.ones((64, 1024), np.float32)
    tensor = dml.TensorDesc.of(a)
    op = dml.compile(KINDS[name](a_tensor=tensor, b_tensor=tensor).with_outputs(), "numpy")
    dispatch = op.bind({"a_tensor": a, "b_tensor": a}, {"output_tensor": np.empty_like(a)})
    dispatch()
    tracemalloc.start()
    try:
        dispatch()
        assert tracemalloc.get_traced_memory()[1] < a.nbytes / 2
    finally:
        tracemalloc.stop()
    assert "temporaries" not in op.plan
