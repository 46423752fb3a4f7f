"""`export`: a graph of DirectML's operators as an ONNX model, where ONNX can say it, so that other programs can run it, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from dmlpy.description.enums import MatrixTransform
from dmlpy.devices.graphs.wiring import Wiring
from dmlpy.onnx.elements import dtype_of, element_of
from dmlpy.validation.checking import check
from dmlpy.validation.problems import CompileError, Problem

if TYPE_CHECKING:
    from dmlpy.description.descs import OperatorDesc
    from dmlpy.description.tensors import TensorDesc
    from dmlpy.devices.graphs.wiring import Source
    from dmlpy.graphs import Graph

OPSET = 18
Attributes = Mapping[str, Any]


def export(graph: Graph) -> ModelProto:
    """A graph as an ONNX model with the same inputs and outputs by name.

    Element-wise arithmetic, activations, GEMM, CAST, REDUCE and JOIN are said by ONNX's operators; views by strides
    are said by Reshape and Expand where these express them.

    Args:
        graph: a valid graph.

    Raises:
        CompileError: the graph breaks rules, or ONNX's operators do not say a node or a view; all of these are told.
    """
    if problems := check(graph):
        raise CompileError("onnx.export", problems)
    return _Export(Wiring.of(graph)).model()


class _Export:
    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.problems: list[Problem] = []
        self.names: dict[Source, str] = {}
        self.written: dict[Source, TensorDesc] = {}
        self.count = 0

    def model(self) -> ModelProto:
        """The model."""
        inputs = []
        for name, (source, desc) in self.wiring.inputs.items():
            self.names[source], self.written[source] = name, desc
            inputs.append(helper.make_tensor_value_info(name, element_of(desc.data_type), desc.sizes))
        for index in self.wiring.order():
            self._node(index, self.wiring.operators[index])
        outputs = []
        for name, source in self.wiring.outputs.items():
            desc = self.wiring.bound_outputs[name]
            if source in self.names:
                self._add("Reshape", [self.names[source], self._integers(desc.sizes)], name)
            outputs.append(helper.make_tensor_value_info(name, element_of(desc.data_type), desc.sizes))
        if self.problems:
            raise CompileError("onnx.export", self.problems)
        held = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        made = helper.make_graph(self.nodes, self.wiring.graph.name or "graph", inputs, outputs, held)
        model: ModelProto = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)])
        return model

    def _node(self, index: int, desc: OperatorDesc) -> None:
        place = f"nodes[{index}]"
        slots = list(desc.output_slots())
        written = [slot.tensor for slot in slots if slot.tensor is not None]
        rule = RULES.get(desc.short_name())
        fused = getattr(desc, "fused_activation", None) is not None
        if rule is None or fused or len(written) != 1 or not written[0].is_packed:
            expected = f"one of {len(RULES)} operators that ONNX has, with packed outputs, and without a fused activation"
            self.problems.append(Problem("onnx.export", place, desc.short_name(), expected))
            return
        given = [self._view(index, slot.place, slot.tensor, place) for slot in desc.input_slots() if slot.tensor is not None]
        if any(name is None for name in given):
            return
        names = [str(name) for name in given]
        if (change := getattr(desc, "scale_bias", None)) is not None:
            names[0] = self._add("Add", [_scaled(self, names[0], change.scale, desc), self._number(change.bias, desc)])
        made = rule(desc, names, self)
        if made is None:
            self.problems.append(Problem("onnx.export", place, f"these members of {desc.short_name()}", "members that ONNX has"))
            return
        source: Source = (index, next(at for at, slot in enumerate(slots) if slot.tensor is not None))
        self.names[source], self.written[source] = made, written[0]

    def _view(self, index: int, use: str, seen: TensorDesc, place: str) -> str | None:
        """The name of a value as a node reads it; None if no Reshape or Expand says it."""
        source = self.wiring.reads[index, use]
        if source not in self.names and (node := self.wiring.constant(source)) is not None:
            if not seen.is_packed:
                self.problems.append(Problem("onnx.export", f"{place}.{use}", "a constant that strides view", "a packed one"))
                return None
            name = self._unique("constant")
            self.constants[name] = np.frombuffer(node.data, dtype_of(element_of(seen.data_type)))[: prod(seen.sizes)].reshape(seen.sizes)
            return name
        if source not in self.names:
            return None  # its node is refused
        own, name = self.written[source], self.names[source]
        kept = [1 if stride == 0 else size for size, stride in zip(seen.sizes, seen.element_strides, strict=True)]
        packed = [prod(kept[axis + 1 :]) for axis in range(len(kept))]
        fits = all(size == 1 or stride == step for size, stride, step in zip(kept, seen.element_strides, packed, strict=True))
        if not fits or prod(kept) != own.element_count or own.data_type is not seen.data_type:
            found = f"{seen.summary()} of a value written as {own.summary()}"
            self.problems.append(Problem("onnx.export", f"{place}.{use}", found, "a view that repeats or reshapes all elements"))
            return None
        if tuple(kept) != own.sizes:
            name = self._add("Reshape", [name, self._integers(kept)])
        return name if tuple(kept) == seen.sizes else self._add("Expand", [name, self._integers(seen.sizes)])

    def _add(self, op_type: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        made = output or self._unique(op_type.lower())
        self.nodes.append(helper.make_node(op_type, inputs, [made], name=made, **attributes))
        return made

    def _number(self, value: float, desc: Any) -> str:
        name = self._unique("number")
        self.constants[name] = np.asarray(value, desc.output_tensor.data_type.numpy)
        return name

    def _integers(self, values: Any) -> str:
        name = self._unique("sizes")
        self.constants[name] = np.asarray(values, np.int64)
        return name

    def _unique(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}_"


Rule = Callable[[Any, list[str], _Export], "str | None"]


def _plain(op_type: str, **names: str) -> Rule:
    """An operator of the same inputs; `names` gives ONNX's attributes with the members that hold them."""

    def rule(desc: Any, given: list[str], to: _Export) -> str | None:
        return to._add(op_type, given, **{name: getattr(desc, member) for name, member in names.items()})

    return rule


def _gemm(desc: Any, given: list[str], to: _Export) -> str | None:
    turned = [desc.trans_a is MatrixTransform.TRANSPOSE, desc.trans_b is MatrixTransform.TRANSPOSE]
    rank = len(desc.a_tensor.sizes)
    order = [*range(rank - 2), rank - 1, rank - 2]
    factors = [to._add("Transpose", [name], perm=order) if turn else name for name, turn in zip(given[:2], turned, strict=True)]
    made = to._add("MatMul", factors)
    if desc.alpha != 1:
        made = _scaled(to, made, desc.alpha, desc)
    if len(given) > 2:
        added = given[2] if desc.beta == 1 else _scaled(to, given[2], desc.beta, desc)
        made = to._add("Add", [made, added])
    return made


def _scaled(to: _Export, name: str, factor: float, desc: Any) -> str:
    return to._add("Mul", [name, to._number(factor, desc)])


def _cast(desc: Any, given: list[str], to: _Export) -> str | None:
    return to._add("Cast", given, to=element_of(desc.output_tensor.data_type))


def _softmax(op_type: str) -> Rule:
    def rule(desc: Any, given: list[str], to: _Export) -> str | None:
        return to._add(op_type, given, axis=desc.axes[0]) if len(desc.axes) == 1 else None

    return rule


def _reduce(desc: Any, given: list[str], to: _Export) -> str | None:
    op_type = _REDUCTIONS.get(str(desc.function).rpartition(".")[2].removeprefix("DML_REDUCE_FUNCTION_"))
    return None if op_type is None else to._add(op_type, [*given, to._integers(desc.axes)], keepdims=1)


_REDUCTIONS = {
    "AVERAGE": "ReduceMean",
    "L1": "ReduceL1",
    "L2": "ReduceL2",
    "LOG_SUM": "ReduceLogSum",
    "LOG_SUM_EXP": "ReduceLogSumExp",
    "MAX": "ReduceMax",
    "MIN": "ReduceMin",
    "MULTIPLY": "ReduceProd",
    "SUM": "ReduceSum",
    "SUM_SQUARE": "ReduceSumSquare",
}

RULES: Mapping[str, Rule] = {
    **{
        f"ELEMENT_WISE_{name}": _plain(op_type)
        for name, op_type in {
            "ABS": "Abs",
            "ACOS": "Acos",
            "ADD": "Add",
            "ASIN": "Asin",
            "ATAN": "Atan",
            "CEIL": "Ceil",
            "COS": "Cos",
            "DIVIDE": "Div",
            "ERF": "Erf",
            "EXP": "Exp",
            "FLOOR": "Floor",
            "IDENTITY": "Identity",
            "LOG": "Log",
            "MAX": "Max",
            "MIN": "Min",
            "MULTIPLY": "Mul",
            "NEGATE": "Neg",
            "POW": "Pow",
            "RECIP": "Reciprocal",
            "SIGN": "Sign",
            "SIN": "Sin",
            "SQRT": "Sqrt",
            "SUBTRACT": "Sub",
            "TAN": "Tan",
            "TANH": "Tanh",
        }.items()
    },
    "ACTIVATION_ELU": _plain("Elu", alpha="alpha"),
    "ACTIVATION_HARD_SIGMOID": _plain("HardSigmoid", alpha="alpha", beta="beta"),
    "ACTIVATION_IDENTITY": _plain("Identity"),
    "ACTIVATION_LEAKY_RELU": _plain("LeakyRelu", alpha="alpha"),
    "ACTIVATION_LOG_SOFTMAX1": _softmax("LogSoftmax"),
    "ACTIVATION_RELU": _plain("Relu"),
    "ACTIVATION_SIGMOID": _plain("Sigmoid"),
    "ACTIVATION_SOFTMAX1": _softmax("Softmax"),
    "ACTIVATION_SOFTSIGN": _plain("Softsign"),
    "ACTIVATION_TANH": _plain("Tanh"),
    "CAST": _cast,
    "GEMM": _gemm,
    "JOIN": _plain("Concat", axis="axis"),
    "REDUCE": _reduce,
}
"""How ONNX says an operator, by its short name."""
