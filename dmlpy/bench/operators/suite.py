"""The operators that matter most for speed on a GPU, at the sizes of models, the most informative first.

Products, convolutions and attention are those of transformers and of ResNet-50; the others move enough bytes to measure memory bandwidth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dmlpy.bench.operators.large import LargeCase, Sample, Tensor, Variant
from dmlpy.devices.flops import flops_of_products

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Sizes:
    """The sizes of the rows.

    Attributes:
        matrix: rows, columns and terms of a square product; `terms` are those of one with a bias.
        batches: matrices of a product of many, their rows and columns, and its terms.
        images: images, channels, rows and columns of a convolution.
        tokens: samples and positions of attention.
        heads: their number by the size of each.
        cached: samples, keys, heads and the size of each, where one query attends to keys of the past.
        rows: rows and columns of what works on each element or row.
        side: rows and columns of a transpose.
        pooled: as `images`, of pooling.
        lists: their number, length, and the k of top-k.
    """

    matrix: int = 4096
    terms: int = 1024
    batches: tuple[int, int, int] = (64, 512, 64)
    images: tuple[int, int, int, int] = (32, 256, 28, 28)
    tokens: tuple[int, int] = (4, 4096)
    heads: tuple[tuple[int, int], ...] = ((128, 16), (64, 32))
    cached: tuple[int, int, int, int] = (8, 8192, 32, 128)
    rows: tuple[int, int] = (32768, 4096)
    side: int = 8192
    pooled: tuple[int, int, int, int] = (64, 64, 112, 112)
    lists: tuple[int, int, int] = (4096, 32768, 64)


NHWC = (0, 2, 3, 1)
"""The memory order of an NCHW tensor with channels last."""


def _backend(name: str) -> Variant:
    return lambda torch: torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, name))


def _along(axis: int, count: int, *names: str) -> Sample:
    """A number of samples along the same axis of these tensors."""
    return Sample({f"{name}_tensor": axis for name in names}, count)


BACKENDS = {
    "flash": _backend("FLASH_ATTENTION"),
    "cudnn": _backend("CUDNN_ATTENTION"),
    "efficient": _backend("EFFICIENT_ATTENTION"),
    "math": _backend("MATH"),
}
"""PyTorch's attention function."""


def _attention(sizes: Sizes) -> Iterator[LargeCase]:
    samples, count = sizes.tokens
    for size, heads in sizes.heads:
        yield _attended(f"D{size}", samples, (count, count), heads, size)
    samples, count, heads, size = sizes.cached
    yield _attended("DECODE", samples, (1, count), heads, size)


def _attended(form: str, samples: int, counts: tuple[int, int], heads: int, size: int) -> LargeCase:
    """Attention of a number of queries to a number of keys."""
    (queries, keys), width = counts, heads * size
    query, key = Tensor((samples, queries, width)), Tensor((samples, keys, width))

    def attend(t: Any, x: Any) -> Any:
        parts = [part.view(samples, -1, heads, size).transpose(1, 2) for part in (x.query_tensor, x.key_tensor, x.value_tensor)]
        return t.nn.functional.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(samples, queries, width)

    of_samples = _along(0, 1, "query", "key", "value", "output")
    return LargeCase(
        *("MULTIHEAD_ATTENTION", form),
        {"query_tensor": query, "key_tensor": key, "value_tensor": key},
        {"output_tensor": query},
        (of_samples, _along(1, 16, "query", "output")),
        attend,
        {"scale": size**-0.5, "mask_filter_value": -1e4, "head_count": heads, "mask_type": "NONE"},
        variants=BACKENDS,
    )


def _convolutions(sizes: Sizes) -> Iterator[LargeCase]:
    channels = sizes.images[1]
    members: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "start_padding": (1, 1), "end_padding": (1, 1)}
    members |= {"output_padding": (0, 0), "group_count": 1, "mode": "CROSS_CORRELATION", "direction": "FORWARD"}
    for layout, order in (("NCHW", ()), ("NHWC", NHWC)):
        x = Tensor(sizes.images, order)
        yield LargeCase(
            *("CONVOLUTION", layout),
            {"input_tensor": x, "filter_tensor": Tensor((channels, channels, 3, 3), order)},
            {"output_tensor": x},
            (_along(0, 2, "input", "output"), Sample({"filter_tensor": 0, "output_tensor": 1}, 32)),
            lambda t, x: t.nn.functional.conv2d(x.input_tensor, x.filter_tensor, padding=1),
            members,
        )


def _matrices(sizes: Sizes) -> Iterator[LargeCase]:
    n, terms = sizes.matrix, sizes.terms
    plain: dict[str, Any] = {"trans_a": "NONE", "trans_b": "NONE", "alpha": 1.0, "beta": 0.0}
    square, of_rows = Tensor((1, 1, n, n)), _along(2, 64, "a", "c", "output")
    without_bias = _along(2, 64, "a", "output")
    yield LargeCase(
        *("GEMM", "SQUARE", {"a_tensor": square, "b_tensor": square}, {"output_tensor": square}, (without_bias,)),
        lambda t, x: t.matmul(x.a_tensor, x.b_tensor),
        plain,
    )
    factors = {"a_tensor": Tensor((1, 1, n, terms)), "b_tensor": Tensor((1, 1, terms, n))}
    yield LargeCase(
        *("GEMM", "BIAS-RELU", {**factors, "c_tensor": Tensor((1, 1, n, n), repeated=(0, 1, 2))}, {"output_tensor": square}, (of_rows,)),
        lambda t, x: t.relu(t.addmm(x.c_tensor[0, 0, 0], x.a_tensor[0, 0], x.b_tensor[0, 0])),
        {**plain, "beta": 1.0, "fused_activation": {"Type": "DML_OPERATOR_ACTIVATION_RELU"}},
    )
    count, rows, short = sizes.batches
    many = Tensor((1, count, rows, rows))
    yield LargeCase(
        *("GEMM", "BATCHES", {"a_tensor": Tensor((1, count, rows, short)), "b_tensor": Tensor((1, count, short, rows))}),
        {"output_tensor": many},
        (_along(1, 8, "a", "b", "output"),),
        lambda t, x: t.matmul(x.a_tensor, x.b_tensor),
        plain,
    )


def _by_rows(sizes: Sizes) -> Iterator[LargeCase]:
    rows, columns = sizes.rows
    x, one = Tensor((1, 1, rows, columns)), Tensor((1, 1, 1, columns))
    both: dict[str, Any] = {"inputs": {"input_tensor": x}, "outputs": {"output_tensor": x}}
    both |= {"samples": (_along(2, 64, "input", "output"),)}
    yield LargeCase(
        *("MEAN_VARIANCE_NORMALIZATION1", "LAYER"),
        **(both | {"inputs": {"input_tensor": x, "scale_tensor": one, "bias_tensor": one}}),
        members={"axes": (3,), "normalize_variance": True, "epsilon": 1e-5},
        torch=lambda t, x: t.nn.functional.layer_norm(x.input_tensor, (columns,), x.scale_tensor[0, 0, 0], x.bias_tensor[0, 0, 0]),
    )
    yield LargeCase("ACTIVATION_SOFTMAX1", "ROWS", **both, members={"axes": (3,)}, torch=lambda t, x: t.softmax(x.input_tensor, 3))
    yield LargeCase("ACTIVATION_GELU", "LARGE", **both, torch=lambda t, x: t.nn.functional.gelu(x.input_tensor))
    yield LargeCase(
        *("ELEMENT_WISE_ADD", "LARGE", {"a_tensor": x, "b_tensor": x}, {"output_tensor": x}),
        (_along(2, 64, "a", "b", "output"),),
        lambda t, x: x.a_tensor + x.b_tensor,
    )


def _sums(sizes: Sizes) -> Iterator[LargeCase]:
    rows, columns = sizes.rows
    for form, axis, kept, out in (("ROWS", 3, 2, (1, 1, rows, 1)), ("COLUMNS", 2, 3, (1, 1, 1, columns))):
        yield LargeCase(
            *("REDUCE", form, {"input_tensor": Tensor((1, 1, rows, columns))}, {"output_tensor": Tensor(out)}),
            (_along(kept, 64, "input", "output"),),
            lambda t, x, axis=axis: x.input_tensor.sum(axis, keepdim=True),  # type: ignore[misc]
            {"function": "SUM", "axes": (axis,)},
        )


def _moves(sizes: Sizes) -> Iterator[LargeCase]:
    side = (1, 1, sizes.side, sizes.side)
    yield LargeCase(
        *("ELEMENT_WISE_IDENTITY", "TRANSPOSE", {"input_tensor": Tensor(side, (0, 1, 3, 2))}, {"output_tensor": Tensor(side)}),
        (_along(2, 64, "input", "output"),),
        lambda t, x: x.input_tensor.contiguous(),
    )
    images, channels, height, width = sizes.pooled
    out = (images, channels, (height + 1) // 2, (width + 1) // 2)
    yield LargeCase(
        *("MAX_POOLING", "LARGE", {"input_tensor": Tensor(sizes.pooled)}, {"output_tensor": Tensor(out)}),
        (_along(0, 4, "input", "output"), _along(1, 8, "input", "output")),
        lambda t, x: t.nn.functional.max_pool2d(x.input_tensor, 3, 2, 1),
        {"strides": (2, 2), "window_size": (3, 3), "start_padding": (1, 1), "end_padding": (1, 1)},
    )
    lists, length, count = sizes.lists
    picked_sizes = (1, 1, lists, count)
    yield LargeCase(
        *("TOP_K", "ROWS", {"input_tensor": Tensor((1, 1, lists, length))}),
        {"output_value_tensor": Tensor(picked_sizes), "output_index_tensor": Tensor(picked_sizes, data_type="UINT32")},
        (_along(2, 32, "input", "output_value", "output_index"),),
        lambda t, x: t.topk(x.input_tensor, count, 3)[0],
        {"axis": 3, "k": count},
        lacking=("output_index_tensor",),  # PyTorch does not specify which of equal elements it selects
    )


def cases(sizes: Sizes) -> Iterator[LargeCase]:
    """The cases. Those whose products TF32 speeds up are repeated with TF32 allowed."""
    of_all_parts = [row for part in (_attention, _convolutions, _matrices, _by_rows, _sums, _moves) for row in part(sizes)]
    yield from of_all_parts
    of_products = [row for row in of_all_parts if flops_of_products(row.desc("FLOAT32"))]
    yield from (replace(row, form=f"{row.form}-TF32", half_precision=True, variants={}) for row in of_products)


CASES: dict[str, LargeCase] = {case.name: case for case in cases(Sizes())}
