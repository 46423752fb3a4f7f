"""GEMM on each device, and every function that it fuses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from tests.support.operators.layout_runs import SOME_OR_ALL, Array, defined, failures_in_layouts, is_emulated, run, run_in_layouts, tensor
from tests.support.tolerance import assert_close

BATCHES = ((), (3,), (2, 3), (1, 1))
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "none": (None, lambda x: x),
    "RELU": (dml.ActivationReluDesc(), lambda x: max(x, 0.0)),
    "LEAKY_RELU": (dml.ActivationLeakyReluDesc(alpha=0.25), lambda x: x if x >= 0 else 0.25 * x),
    "TANH": (dml.ActivationTanhDesc(), math.tanh),
    "SIGMOID": (dml.ActivationSigmoidDesc(), lambda x: 1 / (1 + math.exp(-x))),
    "LINEAR": (dml.ActivationLinearDesc(alpha=-2.0, beta=0.5), lambda x: 0.5 - 2 * x),
    "CLIP": (dml.ElementWiseClipDesc(min=-0.5, max=1.5), lambda x: min(max(x, -0.5), 1.5)),
    "CLIP, scaled": (
        dml.ElementWiseClipDesc(scale_bias={"scale": 2.0, "bias": 1.0}, min=-0.5, max=1.5),
        lambda x: min(max(2 * x + 1, -0.5), 1.5),
    ),
    "CLIP, max wins": (dml.ElementWiseClipDesc(min=3.0, max=1.0), lambda x: 1.0),
}


def product(a: Array, b: Array, c: Array | None, alpha: float, beta: float) -> Array:
    """alpha A B + beta C in float64, from sums of single products."""
    sums = (a.astype(np.float64)[..., :, :, np.newaxis] * b.astype(np.float64)[..., np.newaxis, :, :]).sum(axis=-2)
    return alpha * sums if c is None else alpha * sums + beta * c.astype(np.float64)


@SOME_OR_ALL
def test_products_of_every_rank_type_transform_and_function(any_device: dml.Device, every: int) -> None:
    rng, count, few = np.random.default_rng(1), 0, every > 1 and is_emulated(any_device)
    for dtype in (np.float32, np.float16):
        # Every other function in a type, and the others in the other type: each is a kernel in each type.
        fused = list(FUNCTIONS)[dtype is np.float16 :: 2] if few else list(FUNCTIONS)
        for batch in BATCHES:
            for number, (trans_a, trans_b) in enumerate((first, second) for first in (False, True) for second in (False, True)):
                m, k, n = (1, 7, 5) if number == 1 else (4, 1, 1) if number == 2 else (3, 5, 2)
                a, b, c = (rng.normal(size=(*batch, *sizes)).astype(dtype) for sizes in ((m, k), (k, n), (m, n)))
                added = {} if number == 3 else {"c_tensor": c}
                given = {
                    "a_tensor": np.ascontiguousarray(a.swapaxes(-1, -2)) if trans_a else a,
                    "b_tensor": np.ascontiguousarray(b.swapaxes(-1, -2)) if trans_b else b,
                    **added,
                }
                expected = product(a, b, added.get("c_tensor"), 0.75, -1.5)
                for name in fused if batch == (3,) else ("none", "CLIP"):
                    function, formula = FUNCTIONS[name]
                    transforms = {"trans_a": "TRANSPOSE" if trans_a else "NONE", "trans_b": "TRANSPOSE" if trans_b else "NONE"}
                    tensors = {field: tensor(array) for field, array in given.items()}
                    desc = dml.GEMMDesc(**tensors, **transforms, alpha=0.75, beta=-1.5, fused_activation=function).with_outputs()
                    result = run_in_layouts(desc, given, any_device)["output_tensor"]
                    what = f"{name} {dtype.__name__} {batch} {transforms}"
                    assert_close(result, np.vectorize(formula)(expected), dtype, terms=k, what=what)
                    count += 1
    assert count == 4 * (len(FUNCTIONS) * (1 if few else 2) + 2 * 2 * (len(BATCHES) - 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("axes", "sizes"), [(None, (4, 5)), (None, (2, 3, 4, 5)), ((1,), (2, 3, 4, 5)), ((3, 1), (2, 3, 4, 5))])
def test_fused_softmax_makes_shares_of_its_groups(
    any_device: dml.Device, axes: tuple[int, ...] | None, sizes: tuple[int, ...], dtype: type[np.generic]
) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.normal(size=(*sizes[:-2], *own)).astype(dtype) for own in ((sizes[-2], 3), (3, sizes[-1])))
    a[..., 0, :] *= 200  # exponentials of the sums overflow in float32
    function = dml.ActivationSoftmaxDesc() if axes is None else dml.ActivationSoftmax1Desc(axes=axes)
    desc = dml.GEMMDesc(a_tensor=tensor(a), b_tensor=tensor(b), fused_activation=function).with_outputs()
    result = run_in_layouts(desc, {"a_tensor": a, "b_tensor": b}, any_device)["output_tensor"]
    # The sums are float32 before they become exponents, where an absolute error is a relative one.
    exact = np.exp(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(np.longdouble))
    group = (-1,) if axes is None else axes
    assert_close(result, (exact / exact.sum(axis=group, keepdims=True)).astype(np.float64), dtype, terms=64)


def test_repeated_matrices_and_what_is_not_finite(any_device: dml.Device) -> None:
    a, b = np.broadcast_to(np.arange(6, dtype=np.float32).reshape(2, 3), (4, 2, 3)), np.ones((4, 3, 2), np.float32)
    c = np.full((4, 2, 2), np.nan, np.float32)
    repeated = dml.TensorDesc(data_type="FLOAT32", sizes=a.shape, strides=(0, 3, 1))
    desc = dml.GEMMDesc(a_tensor=repeated, b_tensor=tensor(b)).with_outputs()
    result = run(desc, {"a_tensor": a, "b_tensor": b}, any_device)["output_tensor"]
    np.testing.assert_array_equal(result, np.broadcast_to([[3, 3], [12, 12]], (4, 2, 2)))
    added = desc.replace(c_tensor=tensor(c), beta=0.0)
    assert np.isnan(run(added, {"a_tensor": a, "b_tensor": b, "c_tensor": c}, any_device)["output_tensor"]).all()


@SOME_OR_ALL
def test_every_valid_desc_computes_in_every_layout(any_device: dml.Device, every: int) -> None:
    found = failures_in_layouts(*defined("matrix"), sums=True, device=any_device, every=every)
    assert not found, "\n".join(found)
