"""The sizes that nodes of com.microsoft must have: what ONNX Runtime rejects, and DirectML's operators would broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto

from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.values import can_be_equal, listed_sizes
from dmlpy.onnx.nodes.ranks import are_known, dimension_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.loading.values import Sizes
    from dmlpy.onnx.nodes.node import Node

PRODUCTS = frozenset({"DynamicQuantizeMatMul", "FusedMatMul", "FusedMatMulActivation", "MatMulIntegerToFloat", "TransposeMatMul"})
"""Products of tensors as MatMul has them: of two vectors they are scalars."""
GROWING = frozenset({"EmbedLayerNormalization"})
"""Operators whose first result has more dimensions than any input."""
_RANKS: dict[str, tuple[tuple[int, int | None], ...]] = {
    **dict.fromkeys(PRODUCTS, ((1, None), (1, None))),
    **dict.fromkeys(("FusedGemm", "GemmFloat8"), ((2, 2), (2, 2))),
    "QGemm": ((2, 2),),
    **dict.fromkeys(("BiasGelu", "FastGelu", "MatMulBnb4", "MatMulNBits"), ((1, None),)),
    **dict.fromkeys(("BiasAdd", "BiasSplitGelu"), ((3, 3),)),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), ((2, 3), (2, 3))),
    "EmbedLayerNormalization": ((2, 2), (2, 2), (2, 2), (2, 2), (2, 2), (1, 1), (1, 1), (2, 2), (2, 2)),
}
"""The fewest and the most dimensions of the first inputs."""
_BY_CHANNEL: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("BiasAdd", "BiasGelu", "BiasSplitGelu", "FastGelu"), (1,)),
    "SkipLayerNormalization": (2, 3, 4),
    "SkipSimplifiedLayerNormalization": (2, 3),
}
"""Vectors with a number for each entry of the first input's last dimension, by index."""
_BIASES = {"DynamicQuantizeMatMul": 4, "MatMulIntegerToFloat": 6}
"""Vectors with a number for each column of the second input, by index."""
_BITS = (2, 4, 8)
"""The bits of a number of MatMulNBits."""
_BATCHED = frozenset({"FusedMatMul", "FusedMatMulActivation"})
"""Products whose first dimension may be the second-last of their matrices."""
_SKIPS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})
"""Operators that add the second input to the first one."""


def size_problems(node: Node) -> list[Problem]:
    """Inputs of other sizes, as far as they are known."""
    problems = [
        problem for index, limits in enumerate(_RANKS.get(node.op_type, ())) for problem in dimension_problems(node, index, *limits)
    ]
    problems += _block_problems(node) if node.op_type == "MatMulNBits" else ()
    problems += _batch_problems(node) if node.op_type in _BATCHED else ()
    problems += _embedding_problems(node) if node.op_type == "EmbedLayerNormalization" and not problems else ()
    problems += _rotation_problems(node) if node.op_type == "RotaryEmbedding" and not node.attribute("is_packed_batching", 0) else ()
    problems += _transposed_problems(node) if node.op_type == "ConvTransposeWithDynamicPads" else ()
    if (bias := _BIASES.get(node.op_type)) is not None and (columns := _sizes(node, 1)) is not None and len(columns) > 1:
        problems += _vector_problems(node, bias, columns[-1:], of=1)
    if problems or (sizes := _sizes(node, 0)) is None:
        return problems
    for index in _BY_CHANNEL.get(node.op_type, ()):
        problems += _vector_problems(node, index, sizes[-1:])
    if node.op_type in _SKIPS and (skip := _sizes(node, 1)) is not None:
        problems += _skip_problems(skip, sizes)
    return problems


def _block_problems(node: Node) -> Iterator[Problem]:
    """Weights of a MatMulNBits that are no bytes, or other blocks of them than its attributes say."""
    if not node.has(1):
        return
    value = node.value(1)
    names = ("N", 0), ("K", 0), ("bits", 4), ("block_size", 0)
    rows, columns, bits, block = (int(node.attribute(name, default)) for name, default in names)
    if value.element not in (None, TensorProto.UINT8):
        yield Problem("onnx.invalid", "input 1", value.summary(), "a tensor of uint8")
    elif value.sizes is not None and bits in _BITS and min(rows, columns, block) > 0:
        wanted = (rows, -(-columns // block), block * bits // 8)
        if not can_be_equal(value.sizes, wanted):
            expected = f"{listed_sizes(wanted)}: N {rows}, K {columns} in blocks of {block}, the bytes of {block} numbers of {bits} bits"
            yield _problem(1, value.sizes, expected)


def _batch_problems(node: Node) -> Iterator[Problem]:
    """Batches that are to be transposed of tensors that have none, or of different ranks."""
    left, right = _sizes(node, 0), _sizes(node, 1)
    if left is None or right is None or (len(left) == len(right) and len(left) > 2):
        return
    for name in ("transBatchA", "transBatchB"):
        if node.attribute(name, 0):
            expected = f"0 for {len(left)} and {len(right)} dimensions: batches are transposed of tensors of one rank, 3 or more"
            yield Problem("onnx.invalid", name, str(node.attribute(name)), expected)


def _rotation_problems(node: Node) -> Iterator[Problem]:
    """Angles for other elements than a head has, and positions of other batches and steps."""
    if not are_known(node, 0, 1, 2) or node.rank(0) not in (3, 4) or node.rank(2) != 2:
        return
    sizes, cache = node.sizes(0), node.sizes(2)
    heads, part = int(node.attribute("num_heads", 0)), int(node.attribute("rotary_embedding_dim", 0))
    width = sizes[3] if len(sizes) > 3 else sizes[2] // heads if heads else 2 * cache[1]
    if not width or (len(sizes) < 4 and sizes[2] % width):
        yield _problem(0, sizes, f"heads of {width} elements: {f'num_heads is {heads}' if heads else f'input 2 is {listed_sizes(cache)}'}")
    elif cache[1] != (part or width) // 2:
        yield _problem(2, cache, f"{(part or width) // 2} as second size, an angle for each pair of {part or width} elements")
    if are_known(node, 3) and node.sizes(3) != cache:
        yield _problem(3, node.sizes(3), f"{listed_sizes(cache)}: a sine for each cosine")
    if node.sizes(1) not in ((1,), (sizes[0], sizes[-2])):
        yield _problem(1, node.sizes(1), f"[1] or {listed_sizes((sizes[0], sizes[-2]))}: the batch and the steps of input 0")


def _transposed_problems(node: Node) -> Iterator[Problem]:
    """A kernel_shape that is not the weights', and other than two pads for each axis."""
    if not are_known(node, 1):
        return
    window, stated = node.sizes(1)[2:], node.attribute("kernel_shape")
    if stated and tuple(stated) != window:
        yield Problem("onnx.invalid", "kernel_shape", listed_sizes(tuple(stated)), f"{listed_sizes(window)}, the last sizes of input 1")
    if are_known(node, 2) and node.sizes(2) != (2 * len(window),):
        yield _problem(2, node.sizes(2), f"[{2 * len(window)}]: a start and an end for each axis")


def _embedding_problems(node: Node) -> Iterator[Problem]:
    """Numbers of other sizes than the words', and tables whose rows have other lengths."""
    words, table, positions = (_sizes(node, index) for index in (0, 2, 3))
    if node.has(1) and not node.has(4):
        yield Problem("onnx.invalid", "input 4", "left out", "the table of segments, which input 1 chooses from")
    for index in (1, 7, 8):
        sizes = _sizes(node, index)
        if sizes is None or words is None or can_be_equal(sizes, words):
            continue
        repeats = index == 8
        if not (repeats and can_be_equal(sizes, (1, words[1]))):
            yield _problem(index, sizes, f"{listed_sizes(words)}: the sizes of input 0{', or 1 for the first one' if repeats else ''}")
    if table is not None:
        for index in (3, 4):
            if (sizes := _sizes(node, index)) is not None and not can_be_equal(sizes[1:], table[1:]):
                yield _problem(index, sizes, f"rows of {table[1]} numbers, as input 2 has")
        for index in (5, 6):
            yield from _vector_problems(node, index, table[1:], of=2)
    rows, length = (None if sizes is None else sizes[at] for sizes, at in ((positions, 0), (words, 1)))
    if not node.has(8) and isinstance(rows, int) and isinstance(length, int) and rows < length:
        yield _problem(3, positions or (), f"a row for each of the {length} places of input 0")


def _sizes(node: Node, index: int) -> Sizes | None:
    return node.value(index).sizes if node.has(index) else None


def _vector_problems(node: Node, index: int, last: Sizes, of: int = 0) -> Iterator[Problem]:
    """A vector of another length than the last dimension of input `of`."""
    sizes = _sizes(node, index)
    if sizes is not None and not can_be_equal(sizes, last):
        yield _problem(index, sizes, f"{listed_sizes(last)}: one number for each entry of the last dimension of input {of}")


def _skip_problems(skip: Sizes, sizes: Sizes) -> Iterator[Problem]:
    """Yields a problem unless the addend has the first input's sizes; its batch may be 1 or left out."""
    batched = len(sizes) > 2
    allowed = [sizes, (1, *sizes[1:]), sizes[1:]] if batched else [sizes]
    if not any(can_be_equal(skip, each) for each in allowed):
        others = f" or {listed_sizes(sizes[1:])}" if batched else ""
        yield _problem(1, skip, f"{listed_sizes(sizes)}{others}: the sizes of input 0")


def _problem(index: int, sizes: Sizes, expected: str) -> Problem:
    return Problem("onnx.invalid", f"input {index}", listed_sizes(sizes), expected)
