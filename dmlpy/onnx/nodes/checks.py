"""ONNX's rules for nodes that DirectML's descs do not cover: types, sizes of inputs relative to each other, indices and attributes.

A rule checks only known values. Nodes that are rejected here are rejected by ONNX Runtime, too, but for some that it reads in its own
way, as flags of other numbers. Rules that DirectML's operators also have are left to the lowering.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

from dmlpy.graphs.views import broadcast_sizes
from dmlpy.messages.naming import listed, plural
from dmlpy.messages.problems import Problem
from dmlpy.onnx.loading.elements import element_name, sizes_problem
from dmlpy.onnx.loading.schemas import MICROSOFT
from dmlpy.onnx.nodes import inference_guard, microsoft_sizes
from dmlpy.onnx.nodes.attention_checks import attention_problems
from dmlpy.onnx.nodes.attribute_values import value_problems
from dmlpy.onnx.nodes.equations import equation_problems
from dmlpy.onnx.nodes.index_checks import element_problems, rotation_problems, tuple_problems, unpooling_problems
from dmlpy.onnx.nodes.microsoft_requirements import PASTS, part_problems, past_problems
from dmlpy.onnx.nodes.operands import empty_problems
from dmlpy.onnx.nodes.ranks import are_known, dimension_problems, other_size_problems, rank_problems
from dmlpy.onnx.nodes.resizing import resize_problems
from dmlpy.onnx.nodes.type_checks import type_number_problems, type_problems
from dmlpy.onnx.nodes.window_checks import column_problems, convolution_problems, padding_problems, pooling_problems, transposed_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dmlpy.onnx.nodes.node import Node

Rule: TypeAlias = "Callable[[Node], Iterator[Problem]]"

_RULES: dict[str, Rule] = {}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_GROUPS_BY_CHANNEL = 21
"""The opset from which on GroupNormalization has a scale for each channel."""
_TRAINED_BY_MODE, _TRAINED_OUTPUTS = 14, 3
"""The opset from which on an attribute of BatchNormalization says whether it trains, and the outputs that it then has."""
_REPEATS_EACH_AXIS = 6
"""The opset from which on Tile has a repeat for each axis."""
_SPLIT_BY_NUMBER = 18
"""The opset from which on Split has the number of its parts, or their sizes."""


def problems_of(node: Node) -> list[Problem]:
    """Problems of a node that is invalid in ONNX, as far as its inputs are known."""
    if node.domain == MICROSOFT:
        past = PASTS.get(node.op_type)
        problems = [*part_problems(node), *(() if past is None else past_problems(node, past))]
        return problems or microsoft_sizes.size_problems(node)
    if node.domain not in inference_guard.DOMAINS or node.schema is None:
        return []
    problems = [*type_problems(node), *type_number_problems(node)] or ([] if node.domain else [*rank_problems(node), *value_problems(node)])
    problems = problems or inference_guard.attribute_problems(node)
    rule = None if node.domain else _RULES.get(node.op_type)
    if rule is not None and not problems:
        problems = [*rule(node)]
    return problems


def size_problems(node: Node) -> list[Problem]:
    """Inputs that do not fit, some of them without elements; and outputs of sizes that no array has, with elements or without."""
    known = [(index, value) for index, value in enumerate(node.outputs) if value is not None and value.is_static]
    problems = (sizes_problem(f"output {index}", value.static_sizes, value.element or 0) for index, value in known)
    return [*empty_problems(node), *(problem for problem in problems if problem is not None)]


def _rule(*op_types: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for op_type in op_types:
            assert op_type not in _RULES
            _RULES[op_type] = function
        return function

    return register


def _has(node: Node, index: int, sizes: tuple[int, ...]) -> bool:
    """Whether the first sizes of an input are known, and these."""
    return are_known(node, index) and node.sizes(index)[: len(sizes)] == sizes


@_rule("RNN", "GRU", "LSTM")
def _check_recurrent(node: Node) -> Iterator[Problem]:
    if not are_known(node, 0, 2) or node.rank(0) != 3 or node.rank(2) != 3:
        return
    units, gates = node.sizes(2)[2], _GATES[node.op_type]
    whole, rest = divmod(node.sizes(2)[1], gates)
    if node.op_type == "LSTM" and _has(node, 1, node.sizes(2)[:2]) and units < whole and not rest:
        expected = f"{listed((*node.sizes(2)[:2], whole))}: ONNX's LSTM has no projection of {whole} units to {units}"
        remedy = "export a module without proj_size, or run it by dmlpy.torch.LSTM, which has projections"
        yield Problem("onnx.invalid", node.input_label(2), listed(node.sizes(2)), expected, remedy=remedy)
        return
    stated = node.attribute("hidden_size")
    if stated is not None and stated != units:
        yield Problem("onnx.invalid", "hidden_size", str(stated), f"{units}, the last of R's sizes {listed(node.sizes(2))}")
    directions = 2 if node.attribute("direction", "forward") == "bidirectional" else 1
    for index, width in ((1, node.sizes(0)[2]), (2, units)):
        meaning = "[num_directions, gates * hidden_size, " + ("input_size]" if index == 1 else "hidden_size]")
        yield from other_size_problems(node, index, (directions, gates * units, width), meaning)
    yield from other_size_problems(node, 3, (directions, 2 * gates * units), "[num_directions, 2 * gates * hidden_size]")
    steps, batch = node.sizes(0)[1::-1] if node.attribute("layout", 0) else node.sizes(0)[:2]
    if node.has(4) and (lengths := node.value(4).array) is not None and lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
        yield Problem("onnx.invalid", node.input_label(4), listed(lengths.ravel().tolist()), f"lengths of 0 to {steps}, the steps")
    yield from other_size_problems(node, 4, (batch,), "[batch_size]")
    states = (batch, directions, units) if node.attribute("layout", 0) else (directions, batch, units)
    for index in (5, 6) if node.op_type == "LSTM" else (5,):
        yield from other_size_problems(node, index, states, "num_directions, batch_size and hidden_size, the batch first with layout 1")
    if node.op_type == "LSTM":
        yield from other_size_problems(node, 7, (directions, 3 * units), "[num_directions, 3 * hidden_size]")


@_rule("BatchNormalization", "InstanceNormalization")
def _check_statistics(node: Node) -> Iterator[Problem]:
    is_training = node.op_type == "BatchNormalization" and node.opset >= _TRAINED_BY_MODE and bool(node.attribute("training_mode", 0))
    if is_training and len(node.proto.output) != _TRAINED_OUTPUTS:
        found = plural(len(node.proto.output), "output")
        yield Problem("onnx.invalid", "training_mode", f"1 with {found}", f"{_TRAINED_OUTPUTS} outputs, or training_mode 0")
    if not are_known(node, 0) or node.rank(0) < 2 or node.attribute("spatial", 1) != 1:
        return
    channels = node.sizes(0)[1]
    for index in range(1, len(node.inputs)):
        yield from other_size_problems(node, index, (channels,), f"one for each of the channels of {listed(node.sizes(0))}")


@_rule("GroupNormalization")
def _check_groups(node: Node) -> Iterator[Problem]:
    """A scale and a bias for each channel, before opset 21 for each group."""
    if not are_known(node, 0) or node.rank(0) < 2:
        return
    by_group = node.opset < _GROUPS_BY_CHANNEL
    wanted = node.attribute("num_groups") if by_group else node.sizes(0)[1]
    for index in (1, 2):
        meaning = f"one for each of the {'groups' if by_group else 'channels'} of {listed(node.sizes(0))}"
        yield from other_size_problems(node, index, (wanted,), meaning)


@_rule("LayerNormalization", "RMSNormalization")
def _check_scale(node: Node) -> Iterator[Problem]:
    for index in (1, 2):
        if are_known(node, 0, index) and broadcast_sizes(node.sizes(index), node.sizes(0)) != node.sizes(0):
            expected = f"sizes that broadcast to those of the input, {listed(node.sizes(0))}"
            yield Problem("onnx.invalid", node.input_label(index), listed(node.sizes(index)), expected)


@_rule("QuantizeLinear", "DequantizeLinear")
def _check_quantization(node: Node) -> Iterator[Problem]:
    """One scale, or one for each entry along the axis, or for each block of such entries; and a zero point for each scale."""
    wanted, zero = node.attributes.get("output_dtype"), node.value(2).element if node.has(2) else None
    if node.op_type == "QuantizeLinear" and wanted and zero is not None and wanted != zero:
        yield Problem("onnx.invalid", "output_dtype", element_name(wanted), f"{element_name(zero)}, as {node.input_label(2)} is")
    if are_known(node, 1, 2) and node.sizes(2) != node.sizes(1) and not {node.sizes(1), node.sizes(2)} <= {(), (1,)}:
        yield from other_size_problems(node, 2, node.sizes(1), "one for each scale")
        return
    axis, block = node.attribute("axis", 1), node.attribute("block_size", 0)
    if not are_known(node, 0, 1) or not -node.rank(0) <= axis < node.rank(0):
        return
    sizes, scales = node.sizes(0), node.sizes(1)
    if block:
        place = axis % node.rank(0)
        wanted = (*sizes[:place], -(-sizes[place] // block), *sizes[place + 1 :])
        yield from other_size_problems(node, 1, wanted, f"one for each {plural(block, 'element')} along axis {axis} of {listed(sizes)}")
    elif len(scales) > 1:
        remedy = "block_size says how many elements along the axis share one" if len(scales) == len(sizes) else None
        expected = f"one scale, or a list of one for each entry along axis {axis} of {listed(sizes)}"
        yield Problem("onnx.invalid", node.input_label(1), listed(scales), expected, remedy=remedy)
    elif len(scales) == 1 and scales[0] not in (1, sizes[axis]):
        yield from other_size_problems(node, 1, (sizes[axis],), f"one for each entry along axis {axis} of {listed(sizes)}")


@_rule("GridSample")
def _check_grid(node: Node) -> Iterator[Problem]:
    if are_known(node, 0, 1):
        images, wanted = listed(node.sizes(0)), (node.sizes(0)[0], *node.sizes(1)[1:-1], node.rank(0) - 2)
        yield from other_size_problems(
            node, 1, wanted, f"a grid for each image of {images}, and a coordinate for each axis of a plane last"
        )
        if 0 in node.sizes(0)[2:] and not node.value(1).is_empty:
            yield Problem("onnx.invalid", node.input_label(0), images, "elements along each axis of a plane")


@_rule("RoiAlign")
def _check_boxes_of_images(node: Node) -> Iterator[Problem]:
    if are_known(node, 1) and node.rank(1) == 2:
        yield from other_size_problems(node, 1, (node.sizes(1)[0], 4), "two corners of each box")
        yield from other_size_problems(node, 2, node.sizes(1)[:1], f"the number of an image for each box of {listed(node.sizes(1))}")


@_rule("AffineGrid")
def _check_matrices(node: Node) -> Iterator[Problem]:
    """A matrix for each image."""
    size = node.value(1).array if node.has(1) else None
    if size is None:
        return
    if size.size not in (4, 5) or size.min() < 1:
        yield Problem("onnx.invalid", node.input_label(1), listed(size.ravel().tolist()), "4 or 5 sizes of an image, none of them 0")
        return
    rank = size.size - 2
    yield from other_size_problems(node, 0, (int(size.ravel()[0]), rank, rank + 1), "a matrix for each image")


@_rule("CenterCropPad")
def _check_crop(node: Node) -> Iterator[Problem]:
    """A size for each axis."""
    axes = node.attribute("axes")
    if axes is None and not are_known(node, 0):
        return
    count = node.rank(0) if axes is None else len(axes)
    yield from other_size_problems(node, 1, (count,), "a size for each axis")
    sizes = node.value(1).array
    if sizes is not None and sizes.size and sizes.min() < 0:
        yield Problem("onnx.invalid", node.input_label(1), listed(sizes.ravel().tolist()), "sizes of 0 or more")


@_rule("Dropout")
def _check_dropout(node: Node) -> Iterator[Problem]:
    """A ratio in [0, 1), and whether to train: scalars."""
    for index in (1, 2):
        yield from other_size_problems(node, index, (), "a scalar")
    ratio = node.value(1).array if node.has(1) else None
    if ratio is not None and ratio.size == 1 and not 0 <= ratio.item() < 1:
        yield Problem("onnx.invalid", node.input_label(1), str(ratio.item()), "0 or more, and less than 1")


@_rule("DFT")
def _check_transform(node: Node) -> Iterator[Problem]:
    """Real numbers for half of a spectrum, and complex ones for the inverse of half of one."""
    if not node.attribute("onesided", 0) or not are_known(node, 0) or not node.rank(0):
        return
    inverse = node.attribute("inverse", 0)
    if node.sizes(0)[-1] != (2 if inverse else 1):
        expected = f"{'2, complex numbers,' if inverse else '1, real numbers,'} as last size: onesided is 1, and inverse {inverse}"
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), expected)


@_rule("Squeeze")
def _check_squeeze(node: Node) -> Iterator[Problem]:
    known = node.value(1).array is not None if node.has(1) else node.attribute("axes") is not None
    if not known or not are_known(node, 0):
        return
    for given in node.integers(1, "axes", ()) or ():
        axis = node.axis(given, node.rank(0))
        if node.sizes(0)[axis] != 1:
            yield Problem("onnx.invalid", "axes", str(given), f"axes of size 1 of {listed(node.sizes(0))}")


@_rule("Split")
def _check_split(node: Node) -> Iterator[Problem]:
    wanted, given = node.attribute("num_outputs"), len(node.proto.output)
    if node.opset >= _SPLIT_BY_NUMBER and node.has(1) == (wanted is not None):
        found = "as well as input 'split'" if node.has(1) else "missing, as is input 'split'"
        yield Problem("onnx.invalid", "num_outputs", found, "one of the two")
        return
    if wanted is not None and wanted != given:
        yield Problem("onnx.invalid", "num_outputs", str(wanted), f"{given}, the outputs")
        return
    if not are_known(node, 0):
        return
    axis = node.axis(node.attribute("axis", 0), node.rank(0))
    if not node.has(1) and node.attribute("split") is None:
        size = node.sizes(0)[axis]
        # With `num_outputs` the last part may be smaller.
        if size % given if wanted is None else -(-size // given) * (given - 1) > size:
            expected = f"{given} {'equal ' if wanted is None else ''}parts along axis {axis}"
            yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), expected)
        return
    if node.has(1) and node.value(1).array is None:
        return
    parts = node.integers(1, "split", ()) or ()
    if sum(parts) != node.sizes(0)[axis] or any(part < 0 for part in parts) or len(parts) != len(node.proto.output):
        expected = f"{len(node.proto.output)} parts of {node.sizes(0)[axis]}: axis {axis} of {listed(node.sizes(0))}"
        yield Problem("onnx.invalid", "split", listed(parts), expected)


@_rule("DepthToSpace")
def _check_depth_to_space(node: Node) -> Iterator[Problem]:
    block = int(node.attribute("blocksize", 1))
    if are_known(node, 0) and (node.rank(0) != 4 or block < 1 or node.sizes(0)[1] % block**2):
        expected = f"4 dimensions, with a multiple of blocksize² = {block**2} as channels"
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), expected)


@_rule("SpaceToDepth")
def _check_space_to_depth(node: Node) -> Iterator[Problem]:
    block = int(node.attribute("blocksize", 1))
    if are_known(node, 0) and (node.rank(0) != 4 or block < 1 or any(size % block for size in node.sizes(0)[2:])):
        expected = f"4 dimensions, of which the last two are multiples of blocksize {block}"
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), expected)


@_rule("Expand")
def _check_expand(node: Node) -> Iterator[Problem]:
    if not are_known(node, 0) or not node.has(1) or node.value(1).array is None:
        return
    wanted = node.integers(1) or ()
    if broadcast_sizes(node.sizes(0), wanted) is None:
        expected = f"sizes that broadcast with those of the input, {listed(node.sizes(0))}"
        yield Problem("onnx.invalid", node.input_label(1), listed(wanted), expected)


@_rule("Tile")
def _check_repeats(node: Node) -> Iterator[Problem]:
    """Repeats of 0 or more; before opset 6, the input was another number."""
    repeats = node.value(1).array if node.has(1) and node.opset >= _REPEATS_EACH_AXIS else None
    if repeats is not None and repeats.size and repeats.min() < 0:
        yield Problem("onnx.invalid", node.input_label(1), listed(repeats.ravel().tolist()), "repeats of 0 or more")


@_rule("Reshape")
def _check_reshape(node: Node) -> Iterator[Problem]:
    if not are_known(node, 0):
        return
    if node.has(1) and node.value(1).array is None:
        return
    sizes, input_sizes = list(node.integers(1, "shape", ()) or ()), node.sizes(0)
    keeps_zeros = bool(node.attribute("allowzero", 0))
    wanted = [
        input_sizes[place] if size == 0 and place < len(input_sizes) and not keeps_zeros else size for place, size in enumerate(sizes)
    ]
    known = prod(size for size in wanted if size != -1)
    count_fits = known == prod(input_sizes) if -1 not in wanted else known != 0 and prod(input_sizes) % known == 0
    if not count_fits or wanted.count(-1) > 1 or any(size < -1 for size in wanted):
        found = f"{listed(sizes)}, of {known} elements" if -1 not in wanted else listed(sizes)
        yield Problem("onnx.invalid", "shape", found, f"sizes of the {prod(input_sizes)} elements of {listed(input_sizes)}; one may be -1")


@_rule("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def _check_global_pooling(node: Node) -> Iterator[Problem]:
    if are_known(node, 0) and node.rank(0) > 2 and node.sizes(0)[0] and 0 in node.sizes(0):
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), "images with elements; only the batch may be empty")


@_rule("Det")
def _check_square(node: Node) -> Iterator[Problem]:
    if are_known(node, 0) and (node.rank(0) < 2 or node.sizes(0)[-1] != node.sizes(0)[-2]):
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), "square matrices: the last two sizes are equal")


@_rule("NonMaxSuppression")
def _check_boxes(node: Node) -> Iterator[Problem]:
    overlap = node.value(3).array if node.has(3) else None
    if overlap is not None and overlap.size == 1 and not 0 <= overlap.item() <= 1:
        yield Problem("onnx.invalid", node.input_label(3), str(overlap.item()), "0 to 1")
    if not are_known(node, 0, 1):
        return
    boxes, scores = node.sizes(0), node.sizes(1)
    if len(boxes) != 3 or boxes[2] != 4:
        yield Problem("onnx.invalid", node.input_label(0), listed(boxes), "[batches, boxes, 4]")
    elif len(scores) != 3 or (scores[0], scores[2]) != boxes[:2]:
        yield Problem(
            "onnx.invalid", node.input_label(1), listed(scores), f"[{boxes[0]}, classes, {boxes[1]}], for boxes of {listed(boxes)}"
        )


@_rule("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _check_classes(node: Node) -> Iterator[Problem]:
    """A class for each place of the scores, and a weight for each class."""
    if are_known(node, 0) and node.rank(0) > 1:
        batch, classes, *places = node.sizes(0)
        yield from other_size_problems(node, 1, (batch, *places), f"a class for each of the scores {listed(node.sizes(0))}")
        yield from other_size_problems(node, 2, (classes,), f"a weight for each of the classes of {listed(node.sizes(0))}")


@_rule("STFT")
def _check_frames(node: Node) -> Iterator[Problem]:
    """Frames of 1 or more elements, at most those of the signal, and a window of as many.

    A signal without parts of numbers is real: PyTorch's exporter writes such nodes, and ONNX Runtime takes them.
    """
    if wrong := [*dimension_problems(node, 0, 2, 3)]:
        yield from wrong
        return
    if are_known(node, 0) and node.rank(0) == 3 and node.sizes(0)[2] not in (1, 2):
        yield Problem("onnx.invalid", node.input_label(0), listed(node.sizes(0)), "1 or 2 as last size: real numbers, or complex ones")
        return
    step, length = (node.value(index).array if node.has(index) else None for index in (1, 3))
    for index, array in ((1, step), (3, length)):
        if array is not None and array.size == 1 and array.item() < 1:
            yield Problem("onnx.invalid", node.input_label(index), str(array.item()), "1 or more")
            return
    window = node.sizes(2)[0] if are_known(node, 2) and node.rank(2) == 1 else None
    frame = window if length is None or length.size != 1 else int(length.item())
    if frame is not None and window is not None and window != frame:
        yield Problem("onnx.invalid", node.input_label(2), listed(node.sizes(2)), f"[{frame}]: frame_length")
    elif frame is not None and are_known(node, 0) and frame > node.sizes(0)[1]:
        yield Problem(
            "onnx.invalid", node.input_label(0), listed(node.sizes(0)), f"a signal of at least {frame} elements, those of a frame"
        )


@_rule("ReverseSequence")
def _check_reversal(node: Node) -> Iterator[Problem]:
    batch, time = (int(node.attribute(name, default)) for name, default in (("batch_axis", 1), ("time_axis", 0)))
    if batch == time:
        yield Problem("onnx.invalid", "batch_axis", str(batch), f"{1 - time}: time_axis is {time}")
    if not are_known(node, 0) or node.rank(0) < 2 or {batch, time} != {0, 1}:
        return
    yield from other_size_problems(node, 1, (node.sizes(0)[batch],), f"one for each of axis {batch} of {listed(node.sizes(0))}")
    lengths, steps = node.value(1).array, node.sizes(0)[time]
    if lengths is not None and lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
        yield Problem("onnx.invalid", node.input_label(1), listed(lengths.ravel().tolist()), f"lengths of 0 to {steps}, the steps")


@_rule("Range")
def _check_range(node: Node) -> Iterator[Problem]:
    if node.has(2) and (delta := node.value(2).array) is not None and delta.size and not delta.ravel()[0]:
        yield Problem("onnx.invalid", node.input_label(2), "0", "a step other than 0")


@_rule("OneHot")
def _check_one_hot(node: Node) -> Iterator[Problem]:
    yield from other_size_problems(node, 2, (2,), "the values of what is off and of what is on")


@_rule("ConstantOfShape")
def _check_shape(node: Node) -> Iterator[Problem]:
    sizes = node.value(0).array
    if sizes is not None and sizes.size and sizes.min() < 0:
        yield Problem("onnx.invalid", node.input_label(0), listed(sizes.ravel().tolist()), "sizes of 0 or more")


@_rule("Flatten")
def _check_flatten(node: Node) -> Iterator[Problem]:
    axis = node.attribute("axis", 1)
    if axis and are_known(node, 0) and not node.rank(0):
        yield Problem("onnx.invalid", "axis", str(axis), "0 for a scalar")


@_rule("TopK")
def _check_top_k(node: Node) -> Iterator[Problem]:
    known = node.value(1).array is not None if node.has(1) else node.attribute("k") is not None
    if not known or not are_known(node, 0) or not node.rank(0):
        return
    axis = node.axis(node.attribute("axis", -1), node.rank(0))
    wanted = (node.integers(1, "k", ()) or (0,))[0] if node.has(1) else int(node.attribute("k"))
    if not 0 <= wanted <= node.sizes(0)[axis]:
        yield Problem("onnx.invalid", "K", str(wanted), f"0 to {node.sizes(0)[axis]}: axis {axis} of {listed(node.sizes(0))}")


@_rule("Slice", "DynamicSlice")
def _check_slice(node: Node) -> Iterator[Problem]:
    """Equal numbers of starts, ends, axes and steps, at most one for each axis, no axis twice, and no step of 0."""
    names = ("starts", "ends", "axes", "steps")
    if len(node.inputs) > 1:
        constant = {name: index for index, name in enumerate(names, 1) if node.has(index) and node.value(index).array is not None}
        given = {name: node.integers(index) for name, index in constant.items()}
    else:
        given = {name: node.attribute(name) for name in names[:3] if node.attribute(name) is not None}
    known = {name: tuple(numbers or ()) for name, numbers in given.items()}
    lengths = {name: len(numbers) for name, numbers in known.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{length} {name}" for name, length in lengths.items())
        yield Problem("onnx.invalid", "starts", found, "as many of each other")
    elif are_known(node, 0) and (most := max(lengths.values(), default=0)) > node.rank(0):
        yield Problem("onnx.invalid", "starts", plural(most, "number"), f"at most one for each axis of {listed(node.sizes(0))}")
    elif are_known(node, 0) and len({node.axis(axis, node.rank(0)) for axis in known.get("axes", ())}) < lengths.get("axes", 0):
        yield Problem("onnx.invalid", "axes", listed(known["axes"]), f"each axis of {listed(node.sizes(0))} at most once")
    if 0 in known.get("steps", ()):
        yield Problem("onnx.invalid", "steps", listed(known["steps"]), "steps other than 0")


_rule("Einsum")(equation_problems)
_rule("Gather", "GatherElements", "Scatter", "ScatterElements")(element_problems)
_rule("GatherND", "ScatterND")(tuple_problems)
_rule("MaxUnpool")(unpooling_problems)
_rule("RotaryEmbedding")(rotation_problems)
_rule("Attention")(attention_problems)
_rule("Pad")(padding_problems)
_rule("Resize", "Upsample")(resize_problems)
_rule("AveragePool", "MaxPool", "LpPool")(pooling_problems)
_rule("Conv", "ConvInteger", "DeformConv", "QLinearConv")(convolution_problems)
_rule("ConvTranspose")(transposed_problems)
_rule("Col2Im")(column_problems)


@_rule("Scan")
def _check_scan(node: Node) -> Iterator[Problem]:
    """Numbers of inputs, and lists with an entry for each of what is scanned."""
    first = 0 if node.opset >= 9 else 1
    most, count = len(node.inputs) - first, int(node.attribute("num_scan_inputs"))
    if not 1 <= count <= most:
        yield Problem("onnx.invalid", "num_scan_inputs", str(count), f"1 to {most}, the inputs")
        return
    given = len(node.attribute("body").output)
    outputs = given - (most - count)
    if outputs < 0:
        yield Problem("onnx.invalid", "num_scan_inputs", str(count), f"{most - given} or more: the body gives {given} values")
        return
    wanted = {"scan_input_axes": count, "scan_input_directions": count, "directions": count}
    wanted |= {"scan_output_axes": outputs, "scan_output_directions": outputs}
    for name, length in wanted.items():
        values = node.attribute(name)
        if values and len(values) != length:
            what = "scanned output" if "output" in name else "scanned input"
            yield Problem("onnx.invalid", name, plural(len(values), "number"), f"{length}, one for each {what}")
        elif values and "directions" in name and not set(values) <= {0, 1}:
            yield Problem("onnx.invalid", name, listed(values), "0 or 1 each")


@_rule("TensorScatter")
def _check_buffer(node: Node) -> Iterator[Problem]:
    """Updates of the cache's sizes but along the axis, where they fit, and a place for each entry of the batch."""
    if not are_known(node, 0, 1) or not node.rank(0):
        return
    axis, cache, update = node.axis(node.attribute("axis", -2), node.rank(0)), node.sizes(0), node.sizes(1)
    wanted = (*cache[:axis], update[axis] if len(update) > axis else 0, *cache[axis + 1 :])
    if update != wanted or update[axis] > cache[axis]:
        expected = f"{listed(cache)}, or fewer elements along axis {axis}"
        yield Problem("onnx.invalid", node.input_label(1), listed(update), expected)
    yield from other_size_problems(node, 2, cache[:1], f"a place for each entry of the batch of {listed(cache)}")


@_rule("TfIdfVectorizer")
def _check_vocabulary(node: Node) -> Iterator[Problem]:
    least, most = int(node.attribute("min_gram_length", 1)), int(node.attribute("max_gram_length", 1))
    if most < least or most > len(node.attribute("ngram_counts") or []):
        found = f"{most}, with min_gram_length {least} and {plural(len(node.attribute('ngram_counts') or []), 'entry')} of ngram_counts"
        yield Problem("onnx.invalid", "max_gram_length", found, "min_gram_length or more, and an entry of ngram_counts for each length")
    counts, indices = node.attribute("ngram_counts") or [], node.attribute("ngram_indexes") or []
    for name, values in (("ngram_counts", counts), ("ngram_indexes", indices)):
        if not values or min(values) < 0:
            yield Problem("onnx.invalid", name, listed(values), "numbers of 0 or more, at least one")
