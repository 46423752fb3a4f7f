"""How many dimensions and which sizes inputs have: what ONNX's inference asks for, and its text where ONNX Runtime asks for more."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.values import can_be_equal, listed_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dmlpy.onnx.nodes.node import Node

_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_EXACT = {
    **dict.fromkeys(("GRU", "LSTM", "RNN"), ((0, 3), (1, 3), (2, 3))),
    "Gemm": ((0, 2), (1, 2)),
    **dict.fromkeys(("EyeLike", "Multinomial"), ((0, 2),)),
    **dict.fromkeys(("CenterCropPad", "Compress", "Pad", "Reshape", "Squeeze", "Tile", "TopK"), ((1, 1),)),
    **dict.fromkeys((f"Reduce{name}" for name in _REDUCTIONS), ((1, 1),)),
    "ConstantOfShape": ((0, 1),),
    "MaxUnpool": ((2, 1),),
    "RoiAlign": ((0, 4), (1, 2), (2, 1)),
    "STFT": ((2, 1), (3, 0)),
    "Slice": tuple((index, 1) for index in range(1, 5)),
}
"""Inputs of operators that have that many dimensions, by index."""
_SINGLE: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
    **dict.fromkeys(("CumProd", "CumSum", "OneHot", "TopK", "Trilu"), (1,)),
    "Pad": (2,),
    **dict.fromkeys(("Clip", "DFT"), (1, 2)),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "Range": (0, 1, 2),
    "STFT": (1, 3),
}
"""Inputs that are one number, of any rank that `_EXACT` does not exclude."""
_LEAST: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "InstanceNormalization"), (3,)),
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "DeformConv", "GridSample", "QLinearConv"), (3,)),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), (3,)),
    **dict.fromkeys(("GroupNormalization", "Trilu"), (2,)),
    **dict.fromkeys(("BatchNormalization", "Compress", "OneHot"), (1,)),
    "MatMul": (1, 1),
}
"""The fewest dimensions of the first inputs."""
_ALIKE = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose", "GridSample"), ((1, 0),)),
    "DeformConv": ((1, 0), (2, 0)),
    "QLinearConv": ((3, 0),),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), ((1, 1),)),  # a class instead of a score for each class
}
"""Inputs that have as many dimensions as the first one, or one fewer: the index, and 0 or 1."""


def rank_problems(node: Node) -> Iterator[Problem]:
    """Inputs of another number of dimensions."""
    for index, rank in _EXACT.get(node.op_type, ()):
        yield from dimension_problems(node, index, rank, rank)
    for index in _SINGLE.get(node.op_type, ()):
        if are_known(node, index) and prod(node.sizes(index)) != 1:
            yield Problem("onnx.invalid", node.input_label(index), listed(node.sizes(index)), "one element")
    for index, least in enumerate(_LEAST.get(node.op_type, ())):
        yield from dimension_problems(node, index, least, None)
    if (alike := _ALIKE.get(node.op_type)) is not None and node.has(0) and (sizes := node.value(0).sizes) is not None:
        for index, fewer in alike:
            rank, why = len(sizes) - fewer, "one fewer than" if fewer else "as many as"
            yield from dimension_problems(node, index, rank, rank, f"{why} {node.input_label(0)} has")


def dimension_problems(node: Node, index: int, least: int, most: int | None, *why: str) -> Iterator[Problem]:
    """An input with fewer or more dimensions than these; None for no limit."""
    if not node.has(index) or (sizes := node.value(index).sizes) is None:
        return
    if len(sizes) < least or (most is not None and len(sizes) > most):
        exact = plural(least, "dimension")
        expected = f"at least {exact}" if most is None else exact if most == least else f"{least} to {most} dimensions"
        yield Problem("onnx.invalid", node.input_label(index), listed_sizes(sizes), expected, why)


def are_known(node: Node, *indices: int) -> bool:
    """Whether inputs are given and their sizes known."""
    return all(node.has(index) and node.value(index).is_static for index in indices)


def other_size_problems(node: Node, index: int, wanted: tuple[int, ...], meaning: str) -> Iterator[Problem]:
    """An input whose sizes do not match the others, as far as they are known."""
    sizes = node.value(index).sizes if node.has(index) else None
    if sizes is not None and not can_be_equal(sizes, wanted):
        yield Problem("onnx.invalid", node.input_label(index), listed_sizes(sizes), f"{listed(wanted)}: {meaning}")
