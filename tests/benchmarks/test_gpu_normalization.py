"""Batch normalization on a GPU in training, forward and backward, in both layouts, beside PyTorch's: cuDNN's and its own kernels.

    pytest tests/benchmarks/test_gpu_normalization.py -m gpu --benchmark-only

`extra_info["us"]` is the median of microseconds a pass, `torch_us` and `torch_native_us` PyTorch's. `share_of_copy` is the rate of the
bytes that two passes over the input have to move (forward: read twice, write once; backward: x and dy twice, dx once) over that of a copy
within the GPU's memory of the same run. Tensors that fit the L2 cache may exceed it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import dmlpy as dml
from tests.benchmarks.on_gpu import ROUNDS, milliseconds, torch_on_gpu

pytestmark = pytest.mark.gpu

SHAPES = [(64, 256, 56, 56), (32, 64, 112, 112), (32, 512, 28, 28), (32, 1024, 14, 14), (32, 2048, 7, 7), (4096, 1024, 1, 1)]
LAYOUTS = ("NCHW", "NHWC")
PASSES = {"forward": 3, "backward": 5}
"""How often each pass moves the input's bytes."""


def laid_out(sizes: tuple[int, ...], dtype: Any, layout: str) -> dml.TensorDesc:
    _, c, h, w = sizes
    strides = (c * h * w, h * w, w, 1) if layout == "NCHW" else (h * w * c, 1, w * c, c)
    return dml.TensorDesc(data_type=np.dtype(dtype).name.upper(), sizes=sizes, strides=strides)


def dispatches(sizes: tuple[int, ...], dtype: Any, layout: str) -> dict[str, dml.Dispatch]:
    """Both passes of TensorFlow's form, with FLOAT32 statistics as PyTorch has them, bound on the GPU to random data."""
    device, rng = dml.device("cuda"), np.random.default_rng(0)
    stream, statistic = device.current_stream(), dml.TensorDesc(data_type="FLOAT32", sizes=sizes[1:2])
    x = laid_out(sizes, dtype, layout)
    forward = dml.FusedBatchNormV3Desc(x=x, scale=statistic, offset=statistic, y=x, data_format="NCHW").with_outputs(
        "reserve_space_1", "reserve_space_2"
    )
    backward = forward.gradient("scale_backprop", "offset_backprop").replace(y_backprop=x, x_backprop=x)
    arrays = {name: device.empty(desc, stream) for name, desc in (forward.tensors() | backward.tensors()).items()}
    for name in ("x", "y_backprop", "scale", "offset"):
        arrays[name][...] = device.from_host(rng.standard_normal(arrays[name].shape).astype(arrays[name].dtype))

    def bound(desc: dml.OperatorDesc) -> dml.Dispatch:
        outputs = {field.name for field in desc.outputs()}
        inputs = {name: arrays[name] for name in desc.tensors() if name not in outputs}
        return dml.compile(desc, device).bind(inputs, {name: arrays[name] for name in desc.tensors() if name in outputs})

    found = {"forward": bound(forward), "backward": bound(backward)}
    found["forward"]()  # the statistics that the gradient reads
    return found


def torch_passes(sizes: tuple[int, ...], dtype: Any, layout: str, *, cudnn: bool) -> dict[str, Callable[[], object]] | None:
    """PyTorch's passes of the same work, or None where it has no GPU."""
    torch = torch_on_gpu()
    if torch is None:
        return None
    order = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    kind = {"float32": torch.float32, "float16": torch.float16}[np.dtype(dtype).name]

    def random() -> Any:
        return torch.randn(sizes, device="cuda", dtype=kind).contiguous(memory_format=order)

    x, dy = random().requires_grad_(), random()
    weight, bias = (torch.ones(sizes[1], device="cuda", requires_grad=True) for _ in range(2))

    def forward() -> Any:
        with torch.backends.cudnn.flags(enabled=cudnn):
            return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True, eps=1e-4)

    y = forward()
    return {"forward": forward, "backward": lambda: torch.autograd.grad(y, (x, weight, bias), dy, retain_graph=True)}


def copy_rate(size: int) -> float:
    """Bytes that a copy within the GPU's memory reads and writes, in one millisecond."""
    import cupy

    source, target = cupy.zeros(size, cupy.uint8), cupy.empty(size, cupy.uint8)
    times = [milliseconds(lambda: cupy.copyto(target, source)) for _ in range(ROUNDS + 3)][3:]
    return 2 * size / statistics.median(times)


@pytest.mark.parametrize("sizes", SHAPES, ids=lambda sizes: "x".join(map(str, sizes)))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16], ids=["FLOAT32", "FLOAT16"])
@pytest.mark.parametrize("which", PASSES)
def test_training(benchmark: BenchmarkFixture, which: str, dtype: Any, layout: str, sizes: tuple[int, ...]) -> None:
    dispatch = dispatches(sizes, dtype, layout)[which]
    found: list[float] = []
    benchmark.pedantic(lambda: found.append(milliseconds(dispatch)), rounds=ROUNDS, warmup_rounds=3)
    median, size = statistics.median(found[3:]), int(np.prod(sizes)) * np.dtype(dtype).itemsize
    benchmark.extra_info["plan"] = dispatch.operator.plan
    benchmark.extra_info["us"] = 1e3 * median
    benchmark.extra_info["share_of_copy"] = PASSES[which] * size / median / copy_rate(max(size, 1 << 28))
    for peer, cudnn in (("torch", True), ("torch_native", False)):
        theirs = torch_passes(sizes, dtype, layout, cudnn=cudnn)
        if theirs is not None:
            times = [milliseconds(theirs[which]) for _ in range(ROUNDS + 3)][3:]
            benchmark.extra_info[f"{peer}_us"] = 1e3 * statistics.median(times)
