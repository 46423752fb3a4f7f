"""Models of open sizes: single nodes, and what exporters write to compute with sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto
from onnx.helper import make_node, make_tensor

from tests.support.onnx.models import model
from tests.support.onnx.open_sizes import normal


@dataclass(frozen=True)
class Case:
    """A node of open sizes.

    Attributes:
        op_type: its operator.
        inputs: the sizes of its inputs, with names for those that are open.
        attributes: its attributes.
        constants: inputs that are known, behind the others.
        outputs: how many outputs it has.
        elements: the types of the first inputs, where they are not FLOAT.
        opset: the version of the operator.
    """

    op_type: str
    inputs: Sequence[Sequence[int | str]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: Sequence[Any] = ()
    outputs: int = 1
    elements: Sequence[int] = ()
    opset: int = 21

    def model(self) -> Any:
        names = [f"x{at}" for at in range(len(self.inputs))]
        constants = {f"c{at}": np.asarray(array) for at, array in enumerate(self.constants)}
        outputs = [f"y{at}" for at in range(self.outputs)]
        node = make_node(self.op_type, [*names, *constants], outputs, **self.attributes)
        types = dict(zip(names, self.elements, strict=False))
        inputs = dict(zip(names, map(list, self.inputs), strict=True))
        domains = {"com.microsoft": 1}
        return model([node], inputs, outputs, constants=constants, types=types, opset=self.opset, domains=domains)


ROUNDED_UP, ROUNDED_SCALE = "MaxPool rounded up", "Resize, nearest, by a rounded scale"
AB = ["a", 3, "b"]
I64, U8 = TensorProto.INT64, TensorProto.UINT8
QUANTIZED = (np.float32(0.1), np.uint8(3))
BATCH = [[2, "a", 8], [1, 12, 8], [1, 12, 3]]
CASES = {
    "Relu": Case("Relu", [AB]),
    "Softmax": Case("Softmax", [["a", 2, "b"]], {"axis": -1}),
    "LayerNormalization": Case("LayerNormalization", [["a", "b", 6]], {"axis": -1}, [np.ones(6, np.float32)]),
    "LayerNormalization and its statistics": Case(
        "LayerNormalization", [["a", "b", 6]], {"axis": 1}, [np.ones((1, 6), np.float32)], outputs=3
    ),
    "Dropout": Case("Dropout", [AB], outputs=2),
    "BatchNormalization": Case("BatchNormalization", [["a", 3, "b", 5]], {}, [np.ones(3, np.float32)] * 4),
    "Add": Case("Add", [AB, [3, 1]]),
    "Add of two": Case("Add", [AB, ["a", 1, "b"]]),
    "Where": Case("Where", [["b"], AB, [1]], elements=[TensorProto.BOOL]),
    "MatMul": Case("MatMul", [[2, "a", 4], [2, 4, "b"]]),
    "MatMul of five": Case("MatMul", [[2, 3, 2, "a", 4], [4, "b"]]),
    "Gemm": Case("Gemm", [["a", 4], ["b", 4], ["b"]], {"transB": 1}),
    "Transpose": Case("Transpose", [["a", 2, "b"]], {"perm": [2, 0, 1]}),
    "Concat": Case("Concat", [[2, "a", 4], [2, "b", 4], [2, 1, 4]], {"axis": 1}),
    "Reshape": Case("Reshape", [["a", 2, "b", 4]], {}, [[0, -1, 8]]),
    "Flatten": Case("Flatten", [["a", 2, "b"]], {"axis": 2}),
    "Squeeze": Case("Squeeze", [["a", 1, "b", 1]], {}, [[1, 3]]),
    "Unsqueeze": Case("Unsqueeze", [["a", "b"]], {}, [[0, 2]]),
    "Gather": Case("Gather", [["a", 5, "b"]], {"axis": 1}, [[2, 0, 4]]),
    "Expand": Case("Expand", [["a", 1, "b"]], {}, [[1, 6, 1]]),
    "Slice": Case("Slice", [["a", 4, "b"]], {}, [[1, 0], [2**31, 3], [0, 1]]),
    "Slice of steps": Case("Slice", [["a", 4, "b"]], {}, [[-1, 2, -3], [-(2**31), 4, -1], [0, 1, 2], [-1, 1, 2]]),
    "Split": Case("Split", [["a", 5, "b"]], {"axis": 1}, [[2, 3]], outputs=2),
    "ReduceMean": Case("ReduceMean", [["a", 3, "b"]], {"keepdims": 0}, [[1]]),
    "ArgMax": Case("ArgMax", [["a", 3, "b"]], {"axis": 1, "keepdims": 1}),
    "GlobalAveragePool": Case("GlobalAveragePool", [[1, 3, "a", "b"]]),
    "Conv of the same size": Case(
        "Conv", [[1, 2, "a", "b"]], {"auto_pad": "SAME_UPPER", "strides": [1, 2], "dilations": [2, 1]}, [normal(4, 2, 3, 2)]
    ),
    "Conv": Case("Conv", [[1, 2, "a", "b"]], {"pads": [1, 1, 1, 1], "strides": [1, 2]}, [normal(4, 2, 3, 3)]),
    "MaxPool": Case("MaxPool", [[1, 2, "a", "b"]], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
    ROUNDED_UP: Case("MaxPool", [[1, 2, "a", "b"]], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "ConvTranspose": Case("ConvTranspose", [[1, 2, "a", "b"]], {"pads": [1, 0, 1, 0], "strides": [2, 1]}, [normal(2, 3, 3, 3)]),
    "Pad": Case("Pad", [["a", 3, "b"]], {}, [[0, 1, 2, 0, 0, 1]]),
    "Tile": Case("Tile", [["a", 3, "b"]], {}, [[1, 2, 3]]),
    "Resize": Case("Resize", [[1, 2, "a", "b"]], {"mode": "linear"}, [np.zeros(0, np.float32), np.asarray([1, 1, 2, 0.75], np.float32)]),
    "Resize, cubic": Case(
        "Resize", [[1, 2, "a", "b"]], {"mode": "cubic"}, [np.zeros(0, np.float32), np.asarray([1, 1, 2, 0.75], np.float32)]
    ),
    "Resize, cubic, aligned": Case(
        "Resize",
        [[1, 2, "a", "b"]],
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        [np.zeros(0, np.float32), np.asarray([1, 1, 1.5, 2], np.float32)],
    ),
    "Resize, cubic, to known sizes": Case(
        "Resize",
        [[1, 2, "a", "b"]],
        {"mode": "cubic", "coordinate_transformation_mode": "align_corners"},
        [np.zeros(0, np.float32), np.zeros(0, np.float32), [1, 2, 3, 50]],
    ),
    "Resize, linear, aligned": Case(
        "Resize",
        [[1, 2, "a", "b"]],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
        [np.zeros(0, np.float32), np.asarray([1, 1, 1.5, 2], np.float32)],
    ),
    ROUNDED_SCALE: Case(
        "Resize", [[1, 2, "a", "b"]], {"mode": "nearest"}, [np.zeros(0, np.float32), np.asarray([1, 1, 0.7, 1.3], np.float32)]
    ),
    "GridSample": Case("GridSample", [[2, 3, "a", "b"], [2, "b", "a", 2]], {"mode": "nearest", "padding_mode": "reflection"}),
    "GridSample, aligned": Case(
        "GridSample", [[2, 3, "a", "b"], [2, "b", "a", 2]], {"mode": "cubic", "padding_mode": "border", "align_corners": 1}
    ),
    "Resize, linear without the outside": Case(
        "Resize", [["a", 2, "b"]], {"mode": "linear", "exclude_outside": 1}, [np.zeros(0, np.float32), np.asarray([1, 1, 3], np.float32)]
    ),
    "EmbedLayerNormalization": Case(
        "EmbedLayerNormalization",
        [["a", "b"], ["a", "b"]],
        {"domain": "com.microsoft"},
        [normal(9, 4), normal(99, 4), normal(2, 4), np.ones(4, np.float32), np.ones(4, np.float32)],
        outputs=2,
        elements=[TensorProto.INT32, TensorProto.INT32],
    ),
    "Upsample of opset 9": Case("Upsample", [[1, 2, "a", "b"]], {"mode": "nearest"}, [np.asarray([1, 1, 3, 1], np.float32)], opset=9),
    "DepthToSpace": Case("DepthToSpace", [[1, 8, "a", "b"]], {"blocksize": 2}),
    "SpaceToDepth": Case("SpaceToDepth", [[1, 2, "a", "b"]], {"blocksize": 1}),
    "GatherElements": Case("GatherElements", [["a", "b"], ["a", "b"]], {"axis": 1}, elements=[TensorProto.FLOAT, TensorProto.INT64]),
    "MatMulInteger": Case("MatMulInteger", [["a", "b", 6]], {}, [np.ones((6, 3), np.int8)], elements=[TensorProto.UINT8]),
    "QLinearMatMul": Case(
        "QLinearMatMul", [["a", "b", 6]], {}, [*QUANTIZED, np.ones((6, 3), np.int8), QUANTIZED[0], np.int8(0), *QUANTIZED], elements=[U8]
    ),
    "DynamicQuantizeLinear": Case("DynamicQuantizeLinear", [["a", "b"]], outputs=3),
    "Einsum": Case("Einsum", [["a", "b", 2, 3], ["a", 5, 2, 3]], {"equation": "bqhd,bkhd->bhqk"}),
    "TopK": Case("TopK", [["a", 5, "b"]], {"axis": 1}, [[3]], outputs=2),
    "OneHot": Case("OneHot", [["a", "b"]], {"axis": 1}, [5, np.asarray([0, 1], np.float32)], elements=[I64]),
    "GatherND": Case("GatherND", [["a", 3, "b"]], {}, [[[0, 1], [0, 2]]]),
    "ScatterElements": Case("ScatterElements", [["a", 5, "b"], ["a", 1, "b"], ["a", 1, "b"]], {"axis": 1}, elements=[1, I64]),
    "NonZero": Case("NonZero", [["a", 3, "b"]]),
    "Compress": Case("Compress", [["a", 3, "b"], [3]], {"axis": 1}, elements=[1, TensorProto.BOOL]),
    "Compress of elements": Case("Compress", [["a", "b"], [4]], elements=[1, TensorProto.BOOL]),
    "Unique": Case("Unique", [["a", "b"]], outputs=4),
    "NonMaxSuppression": Case("NonMaxSuppression", [[1, "a", 4], [1, 2, "a"]], {}, [np.int64(3), np.float32(0.5)]),
    "Multinomial": Case("Multinomial", [["a", 5]], {"sample_size": 3, "seed": 1.0}),
    "RandomUniformLike": Case("RandomUniformLike", [["a", "b"]], {"seed": 1.0}),
    "Split of equal parts": Case("Split", [["a", 6, "b"]], {"axis": 1, "num_outputs": 3}, outputs=3),
    "Squeeze of opset 11": Case("Squeeze", [["a", 1, "b", 1]], {"axes": [1, 3]}, opset=11),
    "Unsqueeze of opset 11": Case("Unsqueeze", [["a", "b"]], {"axes": [0, 2]}, opset=11),
    "Slice of opset 9": Case("Slice", [["a", 4, "b"]], {"starts": [1, 0], "ends": [2**31, 3], "axes": [1, 0]}, opset=9),
    "Split of opset 11": Case("Split", [["a", 5, "b"]], {"axis": 1, "split": [2, 3]}, outputs=2, opset=11),
    "ReduceMean of opset 11": Case("ReduceMean", [["a", 3, "b"]], {"axes": [1], "keepdims": 0}, opset=11),
    "LSTM": Case("LSTM", [["a", "b", 3]], {"hidden_size": 2}, [normal(1, 8, 3), normal(1, 8, 2)], outputs=3),
    "GRU": Case("GRU", [["a", "b", 3]], {"hidden_size": 2, "direction": "reverse"}, [normal(1, 6, 3), normal(1, 6, 2)], outputs=2),
}


def arithmetic(nodes: Sequence[Sequence[Any]], outputs: Sequence[str] = ("y",), *, opset: int = 17, **constants: Any) -> Any:
    """A model of what PyTorch's exporters write: nodes that compute with the sizes of x [a, b, 6].

    Args:
        nodes: the operator, its inputs and outputs separated by spaces, and its attributes.
        outputs: the outputs.
        opset: the version of the operators.
        **constants: initializers.
    """
    made = [
        make_node(op_type, given.replace("-", "").split(" "), results.split(), **dict(*more)) for op_type, given, results, *more in nodes
    ]
    held = {name: np.asarray(value) for name, value in constants.items()}
    return model(made, {"x": ["a", "b", 6]}, outputs, constants=held, opset=opset)


DIMS = [
    ("Shape", "x", "shape"),
    *(("Gather", f"shape at{at}", f"d{at}", {"axis": 0}) for at in range(3)),
    *(("Unsqueeze", f"d{at} first", f"s{at}") for at in range(3)),
]
PLACES = {"at0": 0, "at1": 1, "at2": 2, "first": [0]}
ZERO = make_tensor("zero", TensorProto.FLOAT, [1], [0.0])
MODELS: dict[str, Any] = {
    "heads": lambda: arithmetic(
        [
            *DIMS,
            ("Div", "d2 two", "half"),
            ("Unsqueeze", "half first", "h"),
            ("Concat", "s0 s1 two1 h", "wanted", {"axis": 0}),
            ("Reshape", "x wanted", "parts"),
            ("Transpose", "parts", "y", {"perm": [0, 2, 1, 3]}),
        ],
        two=2,
        two1=[2],
        **PLACES,
    ),
    "sizes by Shape of a part": lambda: arithmetic(
        [
            ("Shape", "x", "rows", {"start": 0, "end": 1}),
            ("Shape", "x", "columns", {"start": 1, "end": 2}),
            ("Mul", "rows columns", "both"),
            ("Concat", "both six", "wanted", {"axis": 0}),
            ("Reshape", "x wanted", "y"),
        ],
        six=[6],
    ),
    "signs": lambda: arithmetic(
        [
            *DIMS,
            ("Sub", "s0 s1", "less"),
            ("Mul", "less less", "square"),
            ("Add", "square s1", "more"),
            ("Max", "more s0", "most"),
            ("Min", "most s1", "least"),
            ("Expand", "one least", "ones"),
            ("Size", "x", "size"),
            ("Unsqueeze", "size first", "count"),
            ("Reshape", "x count", "y"),
        ],
        ["y", "ones"],
        one=[1.0],
        **PLACES,
    ),
    "a choice by size": lambda: arithmetic(
        [
            *DIMS,
            ("Equal", "shape six", "is_six"),
            ("Where", "is_six ones shape", "chosen"),
            ("Gather", "chosen picks", "rest"),
            ("Expand", "one rest", "y"),
        ],
        six=[6],
        ones=[1, 1, 1],
        picks=[1, 2],
        one=[1.0],
        **PLACES,
    ),
    "positions": lambda: arithmetic(
        [*DIMS, ("Range", "at0 d1 at1", "positions"), ("Gather", "table positions", "rows"), ("Add", "x rows", "y")],
        table=normal(70, 6),
        **PLACES,
    ),
    "rows at positions": lambda: arithmetic(
        [*DIMS, ("Range", "at0 d1 at1", "positions"), ("Gather", "x positions", "y", {"axis": 1})], **PLACES
    ),
    "the last row": lambda: arithmetic([*DIMS, ("Sub", "d1 at1", "last"), ("Gather", "x last", "y", {"axis": 1})], **PLACES),
    "columns by tuples": lambda: arithmetic(
        [
            *DIMS,
            ("Range", "at0 d0 at1", "positions"),
            ("Unsqueeze", "positions second", "tuples"),
            ("GatherND", "x tuples", "y"),
        ],
        second=[1],
        **PLACES,
    ),
    "a mask of positions": lambda: arithmetic(
        [
            *DIMS,
            ("Range", "at0 d1 at1", "positions"),
            ("Less", "positions at2", "early"),
            ("Cast", "early", "mask", {"to": TensorProto.FLOAT}),
            ("Unsqueeze", "mask second", "column"),
            ("Mul", "x column", "y"),
        ],
        second=[1],
        **PLACES,
    ),
    "the front of a table": lambda: arithmetic(
        [*DIMS, ("Slice", "table first s1 first", "rows"), ("Add", "x rows", "y")], table=normal(120, 6), **PLACES
    ),
    "a causal mask": lambda: arithmetic(
        [
            *DIMS,
            ("Concat", "s1 s1", "square", {"axis": 0}),
            ("ConstantOfShape", "square", "zeros", {"value": ZERO}),
            ("Add", "zeros one", "ones"),
            ("Trilu", "ones", "below", {"upper": 0}),
            ("MatMul", "below x", "y"),
        ],
        one=np.float32(1),
        **PLACES,
    ),
    "states of zeros": lambda: arithmetic(
        [
            *DIMS,
            ("Concat", "one s1 two", "wanted", {"axis": 0}),
            ("Expand", "nothing wanted", "state"),
            ("LSTM", "x w r - - state state", "y h c", {"hidden_size": 2}),
        ],
        ["y", "h"],
        w=normal(1, 8, 6),
        r=normal(1, 8, 2),
        one=[1],
        two=[2],
        nothing=np.float32(0),
        **PLACES,
    ),
    "twice as large": lambda: arithmetic(
        [*DIMS, ("Mul", "shape twice", "wanted"), ("Resize", "x - - wanted", "y", {"mode": "nearest"})], twice=[1, 2, 3], **PLACES
    ),
    "random numbers of a computed size": lambda: arithmetic(
        [
            *DIMS,
            ("Concat", "s0 s1 one", "wanted", {"axis": 0}),
            ("ConstantOfShape", "wanted", "zeros", {"value": ZERO}),
            ("RandomNormalLike", "zeros", "noise", {"seed": 2.0}),
            ("Mul", "x noise", "y"),
        ],
        one=[1],
        **PLACES,
    ),
    "elements that are not zero": lambda: arithmetic(
        [
            ("NonZero", "x", "found"),
            ("Transpose", "found", "places"),
            ("GatherND", "x places", "elements"),
            ("Neg", "elements", "less"),
            ("ScatterND", "x places less", "y"),
        ],
        ["y", "less"],
    ),
    "sizes that follow from elements": lambda: arithmetic(
        [
            *DIMS,
            ("ReduceMax", "x", "most", {"keepdims": 0}),
            ("Cast", "most", "count", {"to": I64}),
            ("Abs", "count", "positive"),
            ("Add", "positive d0", "end"),
            ("Range", "at0 end at1", "positions"),
            ("Unsqueeze", "end first", "ends"),
            ("Concat", "ends s1", "wanted", {"axis": 0}),
            ("Expand", "one wanted", "ones"),
            ("ConstantOfShape", "wanted", "zeros", {"value": ZERO}),
            ("Add", "ones zeros", "sum"),
            ("Cast", "positions", "numbers", {"to": 1}),
            ("Unsqueeze", "numbers second", "column"),
            ("Mul", "sum column", "y"),
        ],
        one=np.ones(1, np.float32),
        second=[1],
        **PLACES,
    ),
    "lengths of floats that follow from elements": lambda: arithmetic(
        [
            *DIMS,
            ("ReduceMax", "x", "most", {"keepdims": 0}),
            ("Floor", "most", "count"),
            ("Range", "start count step", "positions"),
            ("Cast", "count", "length", {"to": I64}),
            ("Unsqueeze", "length first", "lengths"),
            ("Concat", "lengths s1", "wanted", {"axis": 0}),
            ("Expand", "one wanted", "ones"),
            ("Unsqueeze", "positions second", "column"),
            ("Mul", "ones column", "y"),
        ],
        one=np.ones(1, np.float32),
        start=np.float32(0),
        step=np.float32(1),
        second=[1],
        **PLACES,
    ),
    "opset 11": lambda: arithmetic(
        [
            ("Shape", "x", "shape"),
            ("Gather", "shape at0", "d0"),
            ("Unsqueeze", "d0", "s0", {"axes": [0]}),
            ("Cast", "s0", "cast", {"to": I64}),
            ("Concat", "cast rest", "wanted", {"axis": 0}),
            ("Reshape", "x wanted", "y"),
        ],
        opset=11,
        rest=[-1, 2],
        at0=0,
    ),
}
"""Sizes that nodes compute, and constants that are as long as a size."""
