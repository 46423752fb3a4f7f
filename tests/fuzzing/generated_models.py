"""ONNX models made at random from the schemas of ONNX's operators, in each of their versions.

Numbers of inputs, types, sizes, constants and attributes fit, contradict each other, or are what no one would write. The models are small;
what they ask for need not be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, defs
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_sparse_tensor, make_tensor, make_tensor_value_info

Schema = Any  # onnx's stubs know less of a schema than it has
_SMALL = (0, 1, 1, 1, 2, 2, 3, 4)
_WILD = (-(2**63), -(2**31), -7, -2, -1, 5, 7, 16, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
_SIZES = (1, 1, 2, 2, 3, 4, 5)
_FLOATS = (0.0, 1.0, -1.0, 0.5, 2.0, 1e-5, 1e38, -1e38, float("inf"), float("nan"))
_WORDS = (
    *("", "SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic", "bilinear"),
    *("forward", "reverse", "bidirectional", "Relu", "Tanh", "Sigmoid", "none", "mean", "sum", "add", "mul", "max", "min", "tanh", "avg"),
    *("zeros", "border", "reflection", "half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "pytorch_half_pixel", "floor"),
    *("round_prefer_floor", "stretch", "not_larger", "DCR", "CRD", "TF", "IDF", "TFIDF", "UPPER", "LOWER", "NONE", "RGB", "é", "x" * 50),
)
_ELEMENTS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.STRING)
_BITS: dict[int, int] = {
    **dict.fromkeys((TensorProto.FLOAT16, TensorProto.BFLOAT16), 16),
    **dict.fromkeys((TensorProto.UINT64, TensorProto.COMPLEX64), 64),
    **dict.fromkeys((TensorProto.UINT4, TensorProto.INT4, TensorProto.FLOAT4E2M1), 4),
    TensorProto.COMPLEX128: 128,
}
"""The bits of an element, where they are not 8 and no field but that of raw data is used."""
_ODD = 0.08
"""How often something is not as the schema has it."""


@cache
def schemas() -> tuple[Schema, ...]:
    """All versions of all operators of ONNX, but of those that train."""
    found = [schema for schema in defs.get_all_schemas_with_history() if "training" not in schema.domain]
    return tuple(sorted(found, key=lambda schema: (schema.domain, schema.name, schema.since_version)))


@cache
def _tensor_types(types: frozenset[str]) -> tuple[int, ...]:
    """The element types among the texts of a formal parameter's types: `tensor(float)`."""
    names = {text[7:-1].upper() for text in types if text.startswith("tensor(")}
    return tuple(sorted(TensorProto.DataType.Value(name) for name in names if name in set(TensorProto.DataType.keys())))


def generated(chance: Random) -> bytes:
    """A model of one to three nodes; now and then within the body of a node of control flow."""
    made = _Model(chance)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        made.add(chance.choice(schemas()))
    return made.proto().SerializeToString()


def with_each(chance: Random) -> Iterator[ModelProto]:
    """Models of one node, for each of the schemas."""
    for schema in schemas():
        made = _Model(chance)
        made.add(schema)
        yield made.proto()


class _Model:
    """A model in the making.

    Attributes:
        values: the names of the values so far.
    """

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.values: list[str] = []
        self._nodes: list[NodeProto] = []
        self._inputs: list[Any] = []
        self._constants: list[TensorProto] = []
        self._sparse: list[Any] = []
        self._opsets: dict[str, int] = {}
        self._sizes = [chance.choice(_SIZES) for _ in range(chance.randrange(6))]

    def odd(self, often: float = _ODD) -> bool:
        return self.chance.random() < often

    def add(self, schema: Schema) -> None:
        """Adds a node of an operator; its inputs are values so far, new inputs of the model, or constants."""
        self._opsets.setdefault(schema.domain, self._opset(schema))
        bound: dict[str, int] = {}
        given = [self._input(schema, index, bound) for index in range(self._count(schema.min_input, schema.max_input))]
        names = [f"y{len(self.values)}_{index}" for index in range(self._count(schema.min_output, schema.max_output))]
        node = make_node(schema.name, given, [name if not self.odd() else "" for name in names], domain=schema.domain)
        for name, declared in sorted(schema.attributes.items()):
            if self.odd(0.97 if declared.required else 0.5):
                node.attribute.append(self._attribute(name, int(declared.type.value)))
        self._nodes.append(node)
        self.values += [name for name in node.output if name]

    def _opset(self, schema: Schema) -> int:
        newest = defs.onnx_opset_version() if not schema.domain else schema.since_version
        return self.chance.randrange(schema.since_version, newest + 1) if self.odd(0.3) else int(schema.since_version)

    def _count(self, least: int, most: int) -> int:
        found = self.chance.randint(least, max(min(most, least + 3), least))
        return max(found + self.chance.choice((-1, 1)), 0) if self.odd(0.03) else found

    def _input(self, schema: Schema, index: int, bound: dict[str, int]) -> str:
        formal = schema.inputs[min(index, len(schema.inputs) - 1)] if schema.inputs else None
        optional = formal is not None and formal.option == defs.OpSchema.FormalParameterOption.Optional
        if (optional and self.odd(0.3)) or self.odd(0.01):
            return ""
        if self.values and self.odd(0.4):
            return self.chance.choice(self.values)
        types = _tensor_types(frozenset(formal.types)) if formal is not None else ()
        element = self.chance.choice(_ELEMENTS if not types or self.odd() else types)
        element = element if formal is None or self.odd() else bound.setdefault(formal.type_str, element)
        name = f"x{len(self._inputs) + len(self._constants) + len(self._sparse)}"
        if self.odd(0.5):
            self._constant(name, element)
        else:
            self._inputs.append(make_tensor_value_info(name, element, None if self.odd(0.04) else self._open(self.sizes())))
        self.values.append(name)
        return name

    def sizes(self) -> list[int]:
        """Sizes that other tensors have, too, most of the time."""
        found = [*self._sizes] if self.odd(0.6) else [self.chance.choice(_SIZES) for _ in range(self.chance.randrange(6))]
        return [0 if self.odd(0.02) else size for size in found]

    def _open(self, sizes: Sequence[int]) -> list[int | str]:
        return ["n" if self.odd(0.03) else self.chance.choice((2**31, 2**40 - 1)) if self.odd(0.01) else size for size in sizes]

    def _constant(self, name: str, element: int) -> None:
        if self.odd(0.03) and element != TensorProto.STRING:
            values, indices = make_tensor(name, TensorProto.FLOAT, [1], [1.0]), make_tensor("i", TensorProto.INT64, [1], [0])
            self._sparse.append(make_sparse_tensor(values, indices, [self.chance.choice((3, 2**20, 2**26))]))
        else:
            self._constants.append(self._tensor(name, element))

    def _tensor(self, name: str, element: int) -> TensorProto:
        sizes = self.sizes() if self.odd(0.6) else [self.chance.choice(_SMALL)] if self.odd(0.8) else []
        count = int(np.prod(sizes))
        if element == TensorProto.STRING:
            found = TensorProto(name=name, data_type=element, dims=sizes)
            found.string_data.extend([self.chance.choice(_WORDS).encode() for _ in range(count)])
            return found
        if element in (TensorProto.INT64, TensorProto.INT32):
            limit = 2**63 if element == TensorProto.INT64 else 2**31
            return make_tensor(name, element, sizes, [max(min(self._integer(), limit - 1), -limit) for _ in range(count)])
        if element in (TensorProto.FLOAT, TensorProto.DOUBLE):
            return make_tensor(name, element, sizes, [self.chance.choice(_FLOATS[:7]) for _ in range(count)])
        if element in (TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16, TensorProto.UINT32):
            return make_tensor(name, element, sizes, [self.chance.randrange(2) for _ in range(count)])
        found = TensorProto(name=name, data_type=element, dims=sizes)
        found.raw_data = self.chance.randbytes(-(-count * _BITS.get(element, 8) // 8))
        return found

    def _integer(self) -> int:
        return self.chance.choice(_WILD) if self.odd(0.12) else self.chance.choice((*_SMALL, -1))

    def _attribute(self, name: str, kind: int) -> AttributeProto:
        kinds = AttributeProto.AttributeType
        if self.odd(0.02):
            kind = self.chance.choice((kinds.INT, kinds.INTS, kinds.FLOAT, kinds.STRING))
        item = AttributeProto(name=name, type=kind)
        if kind == kinds.INT:
            item.i = self.chance.choice(_ELEMENTS) if name in ("to", "dtype", "output_dtype") and self.odd(0.8) else self._integer()
        elif kind == kinds.INTS:
            item.ints.extend([self._integer() for _ in range(self.chance.randrange(6))])
        elif kind == kinds.FLOAT:
            item.f = self.chance.choice(_FLOATS)
        elif kind == kinds.FLOATS:
            item.floats.extend([self.chance.choice(_FLOATS) for _ in range(self.chance.randrange(5))])
        elif kind == kinds.STRING:
            item.s = b"\xff" if self.odd(0.02) else self.chance.choice(_WORDS).encode()
        elif kind == kinds.STRINGS:
            item.strings.extend([self.chance.choice(_WORDS).encode() for _ in range(self.chance.randrange(4))])
        elif kind == kinds.TENSOR:
            item.t.CopyFrom(self._tensor("t", self.chance.choice(_ELEMENTS)))
        elif kind == kinds.GRAPH:
            item.g.CopyFrom(self._body())
        elif kind == kinds.TYPE_PROTO:
            item.tp.CopyFrom(make_tensor_value_info("t", self.chance.choice(_ELEMENTS), self.sizes()).type)
        else:
            item.type = kinds.INTS
        return item

    def _body(self) -> GraphProto:
        """A body of one node; it takes and gives from none to three values."""
        inputs = [
            make_tensor_value_info(f"b{index}", self.chance.choice(_ELEMENTS), self.sizes()) for index in range(self.chance.randrange(4))
        ]
        names = [item.name for item in inputs] or self.values or ["x0"]
        outputs = [self.chance.choice([*names, "z"]) for _ in range(self.chance.randrange(4))]
        node = make_node(self.chance.choice(("Identity", "Relu", "Not", "Neg")), [self.chance.choice(names)], ["z"])
        described = [make_tensor_value_info(name, self.chance.choice(_ELEMENTS), None) for name in outputs]
        return make_graph([node], "body", inputs, described)

    def proto(self) -> ModelProto:
        """The model: its outputs are all that its nodes give."""
        outputs = dict.fromkeys(name for node in self._nodes for name in node.output if name)
        graph = make_graph(self._nodes, "generated", self._inputs, [], self._constants, sparse_initializer=self._sparse)
        graph.output.extend([ValueInfoProto(name=name) for name in outputs])
        self._opsets.setdefault("", defs.onnx_opset_version())
        return make_model(graph, opset_imports=[make_opsetid(domain, version) for domain, version in self._opsets.items()])
