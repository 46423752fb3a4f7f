"""Nodes that contradict ONNX, all of which ONNX Runtime refuses: dmlpy does, too, wherever their sizes become known."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto
from onnx.helper import make_attribute, make_node

import dmlpy as dml
from dmlpy import onnx
from tests.support.onnx.models import model
from tests.support.onnx.wrong_nodes import Row, assert_refused, built, in_all_ways, integers, normal, ones

_SAMPLED = (normal(1, 3, 4, 4), normal(1, 2, 2, 2))
ROWS = {
    "one-hot vectors of a scalar": Row("OneHot", (np.asarray(2), integers(4), normal(2)), ("indices", "[]", "at least 1 dimension")),
    "a product of a batch": Row("Gemm", (normal(2, 3, 4), normal(4, 5)), ("input 0 'A'", "3, 4]", "2 dimensions")),
    "a product with a vector": Row("Gemm", (normal(2, 4), normal(4)), ("input 1 'B'", "[4]", "2 dimensions")),
    "ones like a vector": Row("EyeLike", (normal(3),), ("input", "[3]", "2 dimensions")),
    "a triangle of a vector": Row("Trilu", (normal(3),), ("input", "[3]", "at least 2 dimensions")),
    "statistics of no image": Row("InstanceNormalization", (normal(2, 3), normal(3), normal(3)), ("[2, 3]", "at least 3 dimensions")),
    "elements of a scalar": Row("Compress", (np.float32(2), np.array([True])), ("input", "[]", "at least 1 dimension")),
    "a scalar flattened behind its first axis": Row("Flatten", (np.float32(2),), ("axis", "1", "0 for a scalar")),
    "three in two equal parts": Row("Split", (normal(2, 3),), ("[2, 3]", "2 equal parts along axis 1"), {"axis": 1}, 12, outputs=2),
    "three in five parts": Row("Split", (normal(2, 3),), ("[2, 3]", "5 parts along axis 1"), {"axis": 1, "num_outputs": 5}, outputs=5),
    "a diagonal of one column": Row("Einsum", (normal(3, 1, 5),), ("[3, 1, 5]", "axes 1 and 2, both 'i'"), {"equation": "...ii->...i"}),
    "a sum of nothing and of three rows": Row("Add", (normal(0, 4), normal(3, 4)), ("[3, 4]", "[0, 4]", "broadcast")),
    "a place in nothing": Row("ArgMax", (normal(2, 0, 4),), ("[2, 0, 4]", "at least one element along axis 1"), {"axis": 1}),
    "indices into nothing": Row("Gather", (normal(0, 3), integers(0)), ("[0, 3]", "elements for the indices", "[1]")),
    "tuples of indices into nothing": Row("GatherND", (normal(2, 0, 3), integers([0, 0])), ("[2, 0, 3]", "elements for the indices")),
    "a product of nothing by six rows": Row("Gemm", (normal(3, 0), normal(6, 4)), ("[6, 4]", "expected 0 as the first dimension")),
    "an edge of nothing": Row("Pad", (normal(0, 3), integers(1, 0, 0, 0)), ("pads is 1", "no element to repeat"), {"mode": "edge"}),
    "samples of no image": Row("GridSample", (normal(1, 1, 0, 2), normal(1, 2, 2, 2)), ("[1, 1, 0, 2]", "each axis of a plane")),
    "nothing resized": Row(
        "Resize", (normal(1, 1, 0, 2), None, None, integers(1, 1, 4, 4)), ("[1, 1, 0, 2]", "along each dimension that is resized")
    ),
    "several upper bounds": Row("Clip", (normal(3, 2), np.float32(0), normal(3, 2)), ("'max'", "[3, 2]", "one element")),
    "boxes that are half from the center": Row(
        "NonMaxSuppression", (normal(1, 4, 4), normal(1, 1, 4)), ("center_point_box is 2, expected 0 or 1",), {"center_point_box": 2}
    ),
    "scales as well as sizes": Row(
        "Resize",
        (normal(1, 1, 2, 2), None, np.float32([1, 1, 2, 2]), integers(1, 1, 4, 4)),
        ("'scales'", "input 3 'sizes'", "one of the two"),
    ),
    "neither scales nor sizes": Row(
        "Resize", (normal(1, 1, 2, 2), None, np.float32([]), integers()), ("'scales'", "without elements", "one of the two")
    ),
    "a scale for each element, without blocks": Row(
        "DequantizeLinear",
        (np.ones((4, 6), np.uint8), normal(4, 2)),
        ("input 1", "[4, 2]", "along axis 1 of [4, 6]", "block_size"),
        {"axis": 1},
    ),
    "scales of two dimensions": Row("QuantizeLinear", (normal(4, 6), normal(1, 6)), ("input 1", "[1, 6]", "along axis 1"), opset=19),
    "more slices than axes": Row(
        "Slice", (normal(2, 3), integers(0, 0, 0), integers(1, 1, 1)), ("starts has 3 numbers", "[2, 3]"), constants=(1, 2)
    ),
    "an axis sliced twice": Row(
        "Slice",
        (normal(2, 3), integers(0, 0), integers(1, 1), integers(1, -1)),
        ("axes is [1, -1]", "[2, 3] at most once"),
        constants=(1, 2, 3),
    ),
    "pads that take more than there is": Row("Pad", (normal(2, 3), integers(0, -2, 0, -2)), ("pads is -2 and -2", "-3"), constants=(1,)),
    "joined rows of other lengths": Row(
        "Concat",
        (normal(2, 3), normal(2, 4)),
        ("input 1", "is [2, 4], expected the sizes of input 0, [2, 3], along all axes but 0"),
        {"axis": 0},
    ),
    "joined tensors of other ranks": Row("Concat", (normal(2, 3), normal(2, 3, 1)), ("input 1", "[2, 3, 1]", "[2, 3]"), {"axis": 1}),
    "integers that are not factors": Row(
        "MatMulInteger", (np.uint8([[1, 2]]), np.uint8([[1, 2]])), ("input 1 'B' is [1, 2], expected a factor of [1, 2]",)
    ),
    "three pads of two axes": Row("Pad", (normal(2, 3), integers(1, 1, 1)), ("pads has 3 numbers, expected 4",), constants=(1,)),
    "one statistic of four": Row("BatchNormalization", (normal(2, 4, 3, 3), *(normal(1) for _ in range(4))), ("4",)),
    "one scale of four": Row("InstanceNormalization", (normal(2, 4, 3, 3), normal(1), normal(1)), ("4",)),
    "groups that divide nothing": Row(
        "GroupNormalization", (normal(2, 4, 3), normal(4), normal(4)), ("num_groups", "3"), {"num_groups": 3}
    ),
    "two parts of which nothing is said": Row("Split", (normal(4, 2),), ("num_outputs", "'split'"), outputs=2),
    "two parts of which too much is said": Row(
        "Split", (normal(4, 2), integers(2, 2)), ("num_outputs", "'split'"), {"num_outputs": 2}, outputs=2
    ),
    "more places than data": Row("ScatterElements", (normal(2, 0), integers([0]), normal(1, 1)), ("indices", "[1, 1]", "[2, 0]")),
    "two offsets for three channels": Row("ImageScaler", (normal(1, 3, 2, 2),), ("bias", "2 numbers", "3"), {"bias": [1.0, 2.0]}, 7),
    "borders of a whole image": Row("Crop", (normal(1, 3, 2, 2),), ("border", "0 by 2", "2 by 2"), {"border": [0, 1, 0, 1]}, 7),
    "a matrix for two images": Row("AffineGrid", (normal(1, 2, 3), integers(2, 1, 3, 3)), ("theta", "[1, 2, 3]", "[2, 2, 3]")),
    "a grid of nothing": Row("AffineGrid", (normal(1, 2, 3), integers(1, 1, 0, 3)), ("size", "[1, 1, 0, 3]")),
    "GatherND past the end": Row("GatherND", (normal(3, 2), integers([0, 1], [2, 2])), ("indices", "2", "axis 1"), constants=(1,)),
    "ScatterND past the end": Row("ScatterND", (normal(3, 2), integers([-4]), normal(1, 2)), ("indices", "-4", "axis 0"), constants=(1,)),
    "Resize by 0": Row("Resize", (normal(1, 3), None, np.asarray([1, 0], np.float32)), ("scales", "above 0"), constants=(2,)),
    "Gather past the end": Row("Gather", (normal(3, 2), integers(0, 3)), ("indices", "3"), constants=(1,)),
    "GatherElements past the end": Row("GatherElements", (normal(3, 2), integers([0, 5])), ("indices", "5"), constants=(1,)),
    "ScatterElements past the end": Row(
        "ScatterElements", (normal(3, 2), integers([0, 4]), normal(1, 2)), ("indices", "4"), constants=(1,)
    ),
    "parts of 4 in 3": Row("Split", (normal(3, 2), integers(2, 2)), ("split", "3"), outputs=2),
    "Squeeze of 2": Row("Squeeze", (normal(2, 3), integers(0)), ("axes", "2")),
    "DepthToSpace of 3 channels": Row("DepthToSpace", (normal(1, 3, 2, 2),), ("3",), {"blocksize": 2}),
    "reflection of 6 in 5": Row("Pad", (normal(5), integers(6, 0)), ("6",), {"mode": "reflect"}),
    "the determinant of [2, 3]": Row("Det", (normal(4, 2, 3),), ("'X'", "[4, 2, 3]")),
    "scores of other boxes": Row("NonMaxSuppression", (normal(1, 3, 4), normal(1, 2, 5)), ("'scores'", "[1, 2, 5]", "[1, 3, 4]")),
    "reversal past the end": Row("ReverseSequence", (normal(3, 2), integers(1, 9)), ("sequence_lens", "9", "3"), constants=(1,)),
    "a condition of floats": Row("Where", (normal(3), normal(3), normal(3)), ("condition",)),
    "MatMul of 3 and 4": Row("MatMul", (normal(2, 3), normal(4, 4)), ("input 1 'B'", "[4, 4], expected 3 rows", "'A'", "[2, 3]")),
    "MatMul of a transposed matrix": Row("MatMul", (normal(2, 3), normal(4, 3)), ("remedy: transpose its last two dimensions",)),
    "MatMul of other batches": Row("MatMul", (normal(2, 5, 3), normal(4, 3, 3)), ("[4, 3, 3], expected dimensions before the last two",)),
    "Gemm of 3 and 4": Row("Gemm", (normal(2, 3), normal(4, 4)), ("input 1 'B'", "[4, 4], expected 3 as the first dimension", "transB 0")),
    "Gemm of a transposed matrix": Row("Gemm", (normal(3, 2), normal(4, 3)), ("remedy: set transB to 1", "[K, M]"), {"transA": 1}),
    "Gemm with another C": Row("Gemm", (normal(2, 3), normal(3, 5), normal(4)), ("input 2 'C'", "[4]", "the product, [2, 5]")),
    "Add of 7 and 5": Row("Add", (normal(7, 3), normal(5, 3)), ("input 1 'B'", "[5, 3], expected sizes that broadcast with", "[7, 3]")),
    "Mul by channels": Row("Mul", (normal(2, 3, 5, 5), normal(3)), ("remedy: give it sizes [3, 1, 1]",)),
    "Max of three": Row("Max", (normal(2, 3), normal(3), normal(4)), ("input 2", "[4], expected sizes", "[2, 3] and input 1", "[3]")),
    "Where of other sizes": Row("Where", (np.ones((2, 3), bool), normal(2, 3), normal(2, 5)), ("input 2 'Y'", "[2, 5]", "'condition'")),
    "PRelu of other slopes": Row("PRelu", (normal(2, 3, 4, 4), normal(3)), ("input 1 'slope'", "[3]", "remedy: give it sizes [3, 1, 1]")),
    "PRelu of more slopes": Row("PRelu", (normal(3), normal(2, 3)), ("input 1 'slope'", "[2, 3], expected sizes that broadcast to", "[3]")),
    "ScatterND of other updates": Row(
        "ScatterND", (normal(2, 3), integers([1]), normal(4)), ("input 2 'updates'", "[4], expected [1, 3]", "'indices'"), constants=(1,)
    ),
    "a grid of another rank": Row("GridSample", (normal(1, 1, 3, 3), normal(1, 2, 2)), ("'grid'", "[1, 2, 2], expected 4 dimensions")),
    "MatMul of a scalar": Row("MatMul", (np.float32(2), normal(1, 4)), ("input 0 'A'", "[], expected at least 1 dimension")),
    "MatMul with a scalar": Row("MatMul", (normal(4, 1), np.float32(2)), ("input 1 'B'", "[], expected at least 1 dimension")),
    "Expand to another size": Row("Expand", (normal(5, 3), integers(7, 3)), ("5", "7")),
    "Concat of other sizes": Row("Concat", (normal(2, 3), normal(2, 4)), ("3", "4"), {"axis": 0}),
    "Reshape to another count": Row("Reshape", (normal(2, 3), integers(4, 2)), ("6", "8")),
    "Reshape of PyTorch's exporter to another count": Row(
        "Reshape", (normal(5, 1, 6), integers(7, -1, 6)), ("shape is [7, -1, 6]", "30 elements"), {"allowzero": 1}
    ),
    "Reshape to no elements": Row("Reshape", (normal(2, 3), integers(0, 6)), ("shape is [0, 6], of 0 elements", "6"), {"allowzero": 1}),
    "Reshape to two open sizes": Row("Reshape", (normal(2, 3), integers(-1, -1)), ("shape is [-1, -1]",), {"allowzero": 1}),
    "a cast to no type": Row("Cast", (normal(2),), ("to is 99", "1 for FLOAT"), {"to": 99}),
    "Resize by too few": Row(
        "Resize", (normal(1, 3), None, np.ones(3, np.float32)), ("'scales' has 3 numbers, expected 2",), constants=(2,)
    ),
    "a scale of another width": Row("LayerNormalization", (normal(2, 3), normal(4)), ("'Scale' is [4]", "[2, 3]")),
    "scales of other channels": Row("QuantizeLinear", (normal(2, 3), normal(2)), ("'y_scale' is [2], expected [3]", "axis 1 of [2, 3]")),
    "a grid for another image": Row(
        "GridSample", (normal(2, 3, 4, 4), normal(1, 2, 2, 2)), ("'grid' is [1, 2, 2, 2], expected [2, 2, 2, 2]",)
    ),
    "boxes of fewer images": Row("RoiAlign", (normal(1, 1, 4, 4), normal(2, 4), integers(0)), ("'batch_indices' is [1], expected [2]",)),
    "a grid of other planes": Row(
        "GridSample", (normal(1, 3, 4, 4), normal(1, 2, 2, 3)), ("'grid' is [1, 2, 2, 3]", "expected [1, 2, 2, 2]")
    ),
    "Einsum of other sizes": Row(
        "Einsum", (normal(2, 3), normal(4, 5)), ("input 1", "is [4, 5], expected 3 along 'j', as input 0 has"), {"equation": "ij,jk->ik"}
    ),
    "an axis that is not there": Row("Softmax", (normal(2, 3),), ("axis", "2"), {"axis": 2}),
    "a permutation of too few": Row("Transpose", (normal(2, 3),), ("perm",), {"perm": [0]}),
    "an axis twice": Row("Transpose", (normal(2, 3),), ("perm is [0, 0], expected each of 0 to 1 once",), {"perm": [0, 0]}),
    "a negative axis": Row("Transpose", (normal(2, 3),), ("perm is [0, -1]",), {"perm": [0, -1]}),
    "no such GELU": Row("Gelu", (normal(2, 3),), ("approximate is 'erf', expected one of [none, tanh]",), {"approximate": "erf"}),
    "no such blocks": Row("DepthToSpace", (normal(1, 4, 2, 2),), ("mode is 'RCD'", "[DCR, CRD]"), {"blocksize": 2, "mode": "RCD"}),
    "neither remainder": Row("Mod", (normal(2, 3), normal(2, 3)), ("fmod is 2, expected one of [0, 1]",), {"fmod": 2}),
    "no such policy": Row(
        "Resize",
        (normal(1, 3), None, ones(2)),
        ("keep_aspect_ratio_policy is 'keep'", "not_larger"),
        {"keep_aspect_ratio_policy": "keep"},
        opset=18,
    ),
    "no such rounding": Row("Resize", (normal(1, 3), None, ones(2)), ("nearest_mode is 'round'", "floor"), {"nearest_mode": "round"}),
    "no such interpolation": Row("Resize", (normal(1, 3), None, ones(2)), ("mode is 'bilinear'", "linear"), {"mode": "bilinear"}),
    "no such coordinates": Row(
        "Resize", (normal(1, 3), None, ones(2)), ("coordinate_transformation_mode is 'half'",), {"coordinate_transformation_mode": "half"}
    ),
    **{
        f"neither {name} nor not": Row("CumSum", (normal(2, 3), np.asarray(1)), (f"{name} is 2, expected one of [0, 1]",), {name: 2})
        for name in ("exclusive", "reverse")
    },
    "no such samples": Row("GridSample", _SAMPLED, ("mode is 'bilinear', expected one of [linear, nearest, cubic]",), {"mode": "bilinear"}),
    "no such samples of planes": Row("GridSample", _SAMPLED, ("mode is 'linear'", "[bilinear, nearest, bicubic]"), {"mode": "linear"}, 16),
    "no such samples outside": Row("GridSample", _SAMPLED, ("padding_mode is 'same'", "border"), {"padding_mode": "same"}),
    "classes of no matrix": Row("Multinomial", (normal(3),), ("is [3], expected 2 dimensions",)),
    "classes of floats": Row("Multinomial", (normal(1, 3),), ("dtype is 1, expected one of [6, 7]",), {"dtype": 1}),
    **{
        f"{operator} with a class for each score": Row(
            operator, (normal(2, 3), integers([0, 1, 2], [0, 1, 2])), ("is [2, 3], expected 1 dimension",)
        )
        for operator in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
    },
    "an axis cropped twice": Row(
        "CenterCropPad", (normal(4, 5), integers(2, 2)), ("axes is [1, -1], expected each axis",), {"axes": [1, -1]}
    ),
    "a crop of fewer sizes": Row("CenterCropPad", (normal(4, 5), integers(2)), ("'shape' is [1], expected [2]: a size for each axis",)),
    "a crop of less than nothing": Row(
        "CenterCropPad", (normal(4, 5), integers(2, -1)), ("'shape' is [2, -1]", "0 or more"), constants=(1,)
    ),
    "sizes of two dimensions": Row("ConstantOfShape", (integers([1, 2]),), ("'input' is [1, 2], expected 1 dimension",)),
    "conditions of two dimensions": Row("Compress", (normal(3, 2), np.array([[True, False]])), ("'condition' is [1, 2], expected 1 dim",)),
    "an axis resized twice": Row("Resize", (normal(1, 3), None, ones(2)), ("axes is [1, 1], expected each axis",), {"axes": [1, 1]}),
    "a region of fewer axes": Row(
        "Resize",
        (normal(1, 3), ones(3), None, integers(1, 2)),
        ("'roi' has 3 numbers, expected 4, a start and an end",),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
    ),
    "a policy without sizes": Row(
        "Resize",
        (normal(1, 3), None, ones(2)),
        ("keep_aspect_ratio_policy is not_larger, expected stretch without input 3 'sizes'",),
        {"keep_aspect_ratio_policy": "not_larger"},
    ),
    "nearest without aliases": Row("Resize", (normal(1, 3), None, ones(2)), ("antialias is 1, expected 0",), {"antialias": 1}),
    "training without statistics": Row(
        "BatchNormalization", (normal(2, 3), *[ones(3)] * 4), ("training_mode is 1 with 1 output, expected 3",), {"training_mode": 1}
    ),
    "a scale of more dimensions": Row("LayerNormalization", (normal(2, 3), normal(1, 2, 3)), ("'Scale' is [1, 2, 3]", "[2, 3]")),
    "statistics of a type": Row("LayerNormalization", (normal(2, 3), ones(3)), ("stash_type is 6",), {"stash_type": 6}),
    "scales of other blocks": Row(
        "DequantizeLinear",
        (np.ones((1, 4, 3), np.uint8), ones(6).reshape(1, 2, 3), np.zeros((1, 2, 3), np.uint8)),
        ("'x_scale' is [1, 2, 3], expected [1, 1, 3]: one for each 4 elements along axis 1 of [1, 4, 3]",),
        {"block_size": 4},
    ),
    "scales of no blocks": Row(
        "QuantizeLinear", (normal(4, 3), ones(3)), ("'y_scale' is [3], expected [2, 3]: one for each 2",), {"block_size": 2, "axis": 0}
    ),
    "one zero point for all scales": Row(
        "DequantizeLinear", (np.ones((2, 3), np.uint8), ones(3), np.zeros(1, np.uint8)), ("'x_zero_point' is [1], expected [3]: one for",)
    ),
    "batches of other indices": Row(
        "GatherND", (normal(2, 3), integers([0], [1], [2])), ("'indices' is [3, 1], expected [2] as first sizes",), {"batch_dims": 1}
    ),
    "a ratio of one dimension": Row("Dropout", (normal(2, 3), ones(1)), ("'ratio' is [1], expected []: a scalar",)),
    "half a spectrum of complex numbers": Row(
        "DFT", (normal(1, 4, 2),), ("'input' is [1, 4, 2], expected 1, real numbers, as last size",), {"onesided": 1}
    ),
    "the inverse of half a real spectrum": Row(
        "DFT", (normal(1, 4, 1),), ("'input' is [1, 4, 1], expected 2, complex numbers",), {"onesided": 1, "inverse": 1}
    ),
    "fewer updates than indices": Row(
        "ScatterElements", (normal(3, 3), np.ones((2, 3), np.int64), normal(1, 3)), ("'updates' is [1, 3], expected [2, 3]: an update",)
    ),
    "indices of three dimensions": Row("ScatterND", (normal(3, 3), np.ones((2, 3), np.int64), normal(2)), ("expected at most 2 as last",)),
    **{
        f"{operator} of other classes": Row(operator, (normal(2, 3, 4), np.ones((2, 3), np.int64)), ("is [2, 3], expected [2, 4]",))
        for operator in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
    },
    "weights of other classes": Row(
        "NegativeLogLikelihoodLoss", (normal(2, 3), np.ones(2, np.int64), ones(2)), ("'weight' is [2], expected [3]: a weight",)
    ),
    "boxes of three corners": Row("RoiAlign", (normal(1, 1, 4, 4), normal(2, 3), integers(0, 0)), ("'rois' is [2, 3], expected [2, 4]",)),
    "an overlap above 1": Row(
        "NonMaxSuppression",
        (normal(1, 3, 4), normal(1, 2, 3), integers(2), np.asarray([2], np.float32)),
        ("is 2.0, expected 0 to 1",),
        constants=(2, 3),
    ),
    "a ratio of 1": Row("Dropout", (normal(2, 3), np.float32(1)), ("'ratio' is 1.0, expected 0 or more, and less than 1",), constants=(1,)),
    "bytes of another type": Row(
        "QuantizeLinear",
        (normal(2, 3), np.float32(1), np.uint8(0)),
        ("output_dtype is int8, expected uint8, as input 2",),
        {"output_dtype": 3},
    ),
    "divided in no precision": Row("QuantizeLinear", (normal(2), np.float32(1)), ("precision is 6",), {"precision": 6}, 23),
    **{
        f"{operator} by a matrix": Row(operator, (normal(1, 3), *given), ("is [1, 1], expected 1 dimension",))
        for operator, given in (
            ("ReduceMax", (integers([0]),)),
            ("Squeeze", (integers([0]),)),
            ("Slice", (integers([0]), integers(1), integers(0))),
        )
    },
    "Unsqueeze by a matrix": Row(
        "Unsqueeze", (normal(1, 3), integers([0])), ("'axes' is [1, 1], expected at most one dim",), constants=(1,)
    ),
    "a window of another frame": Row(
        "STFT", (normal(1, 9, 1), np.asarray(2), normal(4), np.asarray(3)), ("'window' is [4], expected [3]",), constants=(1, 3)
    ),
    "a signal of four dimensions": Row(
        "STFT", (normal(1, 9, 1, 1), np.asarray(2), normal(4)), ("'signal' is [1, 9, 1, 1], expected 2 to 3 dimensions",), constants=(1,)
    ),
    "no frames": Row(
        "STFT", (normal(1, 9, 1), np.asarray(2), None, np.asarray(0)), ("'frame_length' is 0, expected 1 or more",), constants=(1, 3)
    ),
    "a frame beyond the signal": Row(
        "STFT", (normal(1, 3, 1), np.asarray(2), normal(4)), ("'signal' is [1, 3, 1], expected a signal of",), constants=(1,)
    ),
    "a batch along the third axis": Row("ReverseSequence", (normal(2, 3, 4), integers(1, 1)), ("batch_axis is -1",), {"batch_axis": -1}),
    "a batch along the time": Row("ReverseSequence", (normal(2, 3), integers(1, 1)), ("batch_axis is 0, expected 1",), {"batch_axis": 0}),
    "no most boxes": Row("NonMaxSuppression", (normal(1, 3, 4), normal(1, 2, 3), np.zeros(0, np.int64)), ("is [0], expected one element",)),
    "counts of two dimensions": Row("TopK", (normal(3), integers([1])), ("'K' is [1, 1], expected 1 dimension",), outputs=2),
    "n-grams of no length": Row(
        "TfIdfVectorizer",
        (integers(1, 2),),
        ("max_gram_length is 1, with min_gram_length 2 and 1 entry of ngram_counts",),
        {
            **{"mode": "TF", "max_skip_count": 0, "min_gram_length": 2, "max_gram_length": 1},
            **{"ngram_counts": [0], "ngram_indexes": [0], "pool_int64s": [1]},
        },
    ),
    **{
        f"weights of {name}": Row(
            "MatMulNBits", (normal(2, 32), blocks, ones(10)), texts, {"K": 32, "N": 5, "bits": 4, "block_size": 16}, domain="com.microsoft"
        )
        for name, blocks, texts in (
            ("other blocks", np.zeros((5, 3, 8), np.uint8), ("input 1 is [5, 3, 8],", "expected [5, 2, 8]: N 5, K 32")),
            ("other bytes", np.zeros((5, 2, 16), np.uint8), ("input 1 is [5, 2, 16],", "expected [5, 2, 8]")),
            ("integers", np.zeros((5, 2, 8), np.int32), ("input 1 is int32 ", "expected a tensor of uint8")),
        )
    },
    "a repeat of -1": Row("Tile", (normal(0, 3), integers(2, -1)), ("[2, -1], expected repeats of 0 or more",), constants=(1,)),
    "an update of nothing": Row("ScatterND", (normal(0, 3), integers([0]), normal(1, 3)), ("[0, 3], expected elements for the indices",)),
    "an element of nothing": Row(
        "ScatterElements", (normal(0, 3), integers([0]), normal(1, 1)), ("[0, 3], expected elements for the indices",)
    ),
    "places beyond the other axes": Row(
        "GatherElements", (normal(2, 0), np.zeros((2, 2), np.int64)), ("'indices' is [2, 2], expected sizes of at most", "all axes but 0")
    ),
    **{
        f"{operator}'s input {index} of two elements": Row(operator, given, (f"input {index} ", "is [2], expected one element"), opset=22)
        for operator, index, given in (
            ("BlackmanWindow", 0, (integers(4, 5),)),
            ("CumSum", 1, (normal(3, 3), integers(0, 1))),
            ("DFT", 1, (normal(1, 8, 1), integers(4, 4))),
            ("DFT", 2, (normal(1, 8, 1), integers(4), integers(1, 1))),
            ("MelWeightMatrix", 2, (*map(np.asarray, (8, 16)), integers(8, 8), np.float32(0), np.float32(8))),
            ("Pad", 2, (normal(2, 3), integers(1, 1, 1, 1), normal(2))),
            ("Range", 1, (np.asarray(0), integers(3, 4), np.asarray(1))),
            ("STFT", 1, (normal(1, 16, 1), integers(4, 4), normal(8))),
            ("Trilu", 1, (normal(3, 3), integers(1, 2))),
        )
    },
    "two counts of the largest": Row("TopK", (normal(2, 3), integers(1, 2)), ("[2], expected one element",), outputs=2),
    **{
        f"no scales of {operator} {opset}": Row(operator, (normal(1, 1, 2, 2), ones(0)), ("has 0 numbers, expected 4",), opset=opset)
        for operator, opset in (("Resize", 10), ("Upsample", 9))
    },
    **{
        f"a rotation of {name}": Row(
            "RotaryEmbedding",
            (normal(*sizes), np.zeros(places, np.int64), normal(*cache), normal(*cache)),
            texts,
            attributes,
            domain="com.microsoft",
        )
        for name, sizes, places, cache, attributes, texts in (
            ("other places", (1, 3, 12), (2, 3), (9, 2), {}, ("input 1 is [2, 3], expected [1] or [1, 3]",)),
            ("fewer places", (2, 3, 12), (2, 2), (9, 2), {}, ("input 1 is [2, 2], expected [1] or [2, 3]",)),
            ("other angles", (1, 3, 3, 4), (1, 3), (9, 3), {}, ("input 2 is [9, 3], expected 2 as second size",)),
            ("other parts", (1, 3, 16), (1, 3), (9, 3), {"num_heads": 2, "rotary_embedding_dim": 4}, ("input 2 is [9, 3], expected 2",)),
            ("a part of a head", (1, 3, 10), (1, 3), (9, 2), {}, ("input 0 is [1, 3, 10], expected heads of 4 elements",)),
        )
    },
    "a kernel that is not the weights'": Row(
        "ConvTransposeWithDynamicPads",
        (normal(1, 1, 4, 5), normal(1, 2, 1, 1), integers(0, 0, 0, 0)),
        ("kernel_shape is [3, 3], expected [1, 1]",),
        {"kernel_shape": [3, 3]},
        constants=(2,),
        domain="com.microsoft",
    ),
    "two pads of four": Row(
        "ConvTransposeWithDynamicPads",
        (normal(1, 1, 4, 5), normal(1, 2, 3, 3), integers(0, 0)),
        ("input 2 is [2], expected [4]",),
        constants=(2,),
        domain="com.microsoft",
    ),
    "a signal of three parts": Row("STFT", (normal(1, 16, 3), np.asarray(4), normal(8)), ("[1, 16, 3], expected 1 or 2 as last size",)),
    "Einsum of other ranks": Row("Einsum", (normal(2, 3), normal(3, 2)), ("equation",), {"equation": "ijk,kj->i"}),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("name", "way"), in_all_ways(ROWS))
def test_a_node_that_contradicts_onnx_is_refused(name: str, way: str) -> None:
    assert_refused(ROWS[name], way)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, "compress") for name in ("a sum of nothing and of three rows", "more places than data", "an update of nothing")),
        *((name, "compress") for name in ("a grid of nothing", "scales as well as sizes", "a ratio of one dimension")),
        *((name, "initializers") for name in ("indices into nothing", "tuples of indices into nothing", "an element of nothing")),
    ],
)
def test_inputs_that_the_results_do_not_need_are_compared(name: str, way: str) -> None:
    """Of a result without elements, of a place in no elements, or of an input that another one makes needless."""
    assert_refused(ROWS[name], way)


OF_ANY_RANK = {
    "Transpose": ({"perm": [0, -2, -1, 1]}, "perm is [0, -2, -1, 1], expected each of 0 to 3 once"),
    "Gelu": ({"approximate": "erf"}, "approximate is 'erf', expected one of [none, tanh]"),
    "GridSample": ({"mode": "area"}, "mode is 'area', expected one of [linear, nearest, cubic]"),
    "GRU": ({"hidden_size": 4, "activations": ["Gelu", "Tanh"]}, "activations is ['Gelu', 'Tanh'], expected one of [Relu, "),
    "AveragePool": ({"kernel_shape": [2, 2], "strides": [1]}, "strides has 1 number, expected 2: as kernel_shape has"),
    "MaxPool": ({"kernel_shape": [2], "auto_pad": "SAME"}, "auto_pad is 'SAME', expected one of [NOTSET, VALID, SAME_UPPER, SAME_LOWER]"),
}
_INPUTS = {"GridSample": 2, "GRU": 3}


@pytest.mark.parametrize("operator", OF_ANY_RANK)
def test_attributes_are_checked_before_ranks_are_known(operator: str) -> None:
    attributes, text = OF_ANY_RANK[operator]
    nodes = [
        make_node("Reshape", ["x", "sizes"], ["data"]),
        make_node(operator, ["data"] * _INPUTS.get(operator, 1), ["y"], name="wrong", **attributes),
    ]
    proto = model(nodes, {"x": ["n"], "sizes": ["rank"]}, ["y"], types={"sizes": TensorProto.INT64})
    assert text in str(onnx.load(proto).report())


def test_an_empty_permutation_is_not_the_default() -> None:
    node = make_node("Transpose", ["x"], ["y"], name="wrong")
    node.attribute.append(make_attribute("perm", [], attr_type=AttributeProto.INTS))
    with pytest.raises(dml.CompileError, match=r"wrong.perm is \[\], expected each of 0 to 1 once"):
        onnx.load(model([node], {"x": [2, 3]}, ["y"])).compile("numpy")


@pytest.mark.parametrize(
    ("operator", "numbers", "text"),
    [
        ("Expand", [2, 3], "is [2, 3], expected sizes that broadcast with those of the input, [0, 3]"),
        ("Tile", [2], "'repeats' has 1 number, expected 2, one for each axis"),
        ("Tile", [2, -1], "is [2, -1], expected repeats of 0 or more"),
        ("TopK", [4], "wrong.K is 4, expected 0 to 3: axis 1 of [0, 3]"),
    ],
)
def test_what_a_run_gives_is_compared_with_data_of_no_elements(operator: str, numbers: list[int], text: str) -> None:
    outputs = ["y", "places"] if operator == "TopK" else ["y"]
    node = make_node(operator, ["x", "numbers"], outputs, name="wrong")
    proto = model([node], {"x": ["n", 3], "numbers": ["m"]}, outputs, types={"numbers": TensorProto.INT64, "places": TensorProto.INT64})
    with pytest.raises((dml.CompileError, dml.DeviceError)) as caught:
        onnx.load(proto).compile("numpy")({"x": np.empty((0, 3), np.float32), "numbers": np.asarray(numbers, np.int64)})
    assert text in str(caught.value)


@pytest.mark.parametrize("operator", ["Equal", "StringConcat"])
def test_texts_of_other_sizes_are_told_in_the_terms_of_onnx(operator: str) -> None:
    node = make_node(operator, ["a", "b"], ["y"], name="wrong")
    types = dict.fromkeys("ab", TensorProto.STRING) | {"y": TensorProto.BOOL if operator == "Equal" else TensorProto.STRING}
    built = onnx.load(model([node], {"a": ["n"], "b": ["m"]}, ["y"], types=types)).compile("numpy")
    with pytest.raises(dml.DeviceError, match=r"\[3\], expected sizes that broadcast with those of input 0 '.', 'a', \[2\]"):
        built({"a": np.array(["u", "v"], object), "b": np.array(["w"] * 3, object)})


def test_a_range_has_steps() -> None:
    proto, _ = built(Row("Range", (np.float32(0), np.float32(3), np.float32(0)), (), constants=(0, 1, 2)))
    with pytest.raises(dml.CompileError, match=r"wrong.input 2 'delta' is 0"):
        onnx.load(proto).compile("numpy")


@pytest.mark.parametrize("operator", ["Conv", "ConvInteger"])
def test_an_image_of_pads_alone_is_convolved(operator: str) -> None:
    """As ONNX Runtime does, which refuses it of poolings alone."""
    integer = operator == "ConvInteger"
    dtype = np.uint8 if integer else np.float32
    image, weights, bias = np.zeros((1, 2, 0, 3), dtype), np.ones((3, 2, 2, 1), dtype), np.array([1, -2, 4], np.float32)
    names = ["x", "weights", *["bias"] * (not integer)]
    node = make_node(operator, names, ["y"], pads=[2, 0, 1, 0])
    constants = {"weights": weights, "bias": bias}
    types = {"x": TensorProto.UINT8 if integer else TensorProto.FLOAT}
    proto = model([node], {"x": [1, 2, "n", 3]}, ["y"], constants={name: constants[name] for name in names[1:]}, types=types)
    expected = np.zeros((1, 3, 2, 3), np.int32) if integer else np.broadcast_to(bias.reshape(3, 1, 1), (1, 3, 2, 3))
    np.testing.assert_array_equal(onnx.load(proto).compile("numpy")(x=image)["y"], expected, strict=True)
