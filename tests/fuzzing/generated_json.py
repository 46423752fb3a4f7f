"""JSON made at random for the readers of descs, graphs and DxDispatch models, from the members that each operator has.

Members mostly have values of their kind, at the edges of it or beyond. The text around them is JSON as nobody would write it: numbers of
all forms, keys that are given twice, escapes, comments, deep nesting, other encodings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample

Json = Any
_INTEGERS = (
    *(0, 1, 1, 2, 3, 4, 7, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**40),
    *(-1, -(2**31), -(2**63)),
)
_FLOATS = (0.0, -0.0, 0.5, 1.0, 1e-45, 1e38, 3.5e38, 1e308, float("inf"), float("-inf"), float("nan"))
_WORDS = (
    *("", "x", "r0", "r1", "d0", "FLOAT32", "FLOAT16", "INT4", "UINT64", "DML_TENSOR_DATA_TYPE_INT8", "UNKNOWN", "OWNED_BY_DML", "FORWARD"),
    *("nan", "-inf", "deferred", "buffer", "dispatch", "print", "writeFile", "../x.npy", "/dev/zero", "a.npy", "\x1b[31m", "\0", "\ud800"),
    *("é", "\u202e", "a\nb", "input_tensors[99999999999]", "InputTensor", "RNN", "ACTIVATION_RELU", "x" * 3000),
)
_NUMBERS = (
    "1e400",
    "-1e400",
    "1e-999999999",
    "-0",
    "01",
    "1.",
    ".5",
    "+1",
    "0x10",
    "1_0",
    "NaN",
    "Infinity",
    "-Infinity",
    "9" * 400,
    "1E+2",
)
"""Numbers as a text may have them; JSON knows some of them."""
_BLANKS = ("", "", "", " ", "\n", "\t", "\r\n", "/**/", "// x\n", "\u00a0", "\ufeff", "\f")
_ODD = (0.0, 0.003, 0.01, 0.05)
"""How often something is not of its kind: one of them for each file."""


class _Token(str):
    """A piece of text as it is."""

    __slots__ = ()


def generated(chance: Random) -> bytes:
    """A file: a desc, a graph or a model."""
    made = chance.choice((_Maker.desc, _Maker.graph, _Maker.model, _Maker.model))(_Maker(chance))
    text = _text(made, chance, chance.random() < 0.3)
    encoding = chance.choice(("utf-8",) * 60 + ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"))
    return text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")


@cache
def _members(name: str) -> dict[str, Json]:
    data = sample(OPERATORS[name]).to_dict()
    return {"Type": data["Type"], "Desc": data.get("Desc", {})}


class _Maker:
    """Draws the parts of a file."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self._odd = chance.choice(_ODD)

    def odd(self, of_odd: float = 1.0) -> bool:
        """Whether something is not of its kind: so many times as often as in general."""
        return self.chance.random() < of_odd * self._odd

    def often(self, share: float) -> bool:
        return self.chance.random() < share

    def anything(self) -> Json:
        """A value of any kind."""
        chance = self.chance
        if self.often(0.02):
            return _Token(chance.choice(("[", '{"a":')) * chance.choice((3, 70, 5000)))
        makers: tuple[Callable[[], Json], ...] = (
            lambda: chance.choice(_INTEGERS),
            lambda: chance.choice(_FLOATS),
            lambda: chance.choice(_WORDS),
            lambda: chance.choice((None, True, False, [], {}, [[]], [None], [{}] * 3)),
            lambda: _Token(chance.choice(_NUMBERS)),
            lambda: [self.anything() for _ in range(chance.randrange(4))],
            lambda: {chance.choice(_WORDS): self.anything() for _ in range(chance.randrange(4))},
            lambda: self.tensor({"Sizes": [1, 2, 3, 4]}),
        )
        return chance.choice(makers)()

    def tensor(self, now: dict[str, Json]) -> Json:
        """A tensor desc like another one."""
        chance = self.chance
        made = dict(now)
        if self.often(0.2):
            made["Sizes"] = [chance.choice(_INTEGERS) if self.odd(9) else chance.randrange(1, 5) for _ in range(chance.randrange(9))]
            made.pop("DimensionCount", None)
        if self.often(0.2):
            made["Strides"] = [chance.choice(_INTEGERS) if self.odd(9) else chance.randrange(30) for _ in made["Sizes"]]
        if self.often(0.2):
            made["DataType"] = chance.choice((*_WORDS[5:10], chance.randrange(16)))
        for name in ("Flags", "TotalTensorSizeInBytes", "GuaranteedBaseOffsetAlignment", "DimensionCount"):
            if self.odd():
                made[name] = chance.choice(_INTEGERS)
        return self.members(made) if self.odd() else made

    def like(self, now: Json) -> Json:
        """A value of the kind of another one."""
        chance = self.chance
        if self.odd():
            return self.anything()
        if isinstance(now, dict):
            if "Sizes" in now:
                return self.tensor(now) if self.odd(4) else now
            return self.desc() if "Type" in now and self.often(0.3) else {key: self.like(value) for key, value in now.items()}
        if isinstance(now, list):
            made = [self.like(value) for value in now]
            return made * chance.choice((0, 2, 40)) if self.odd() else made
        if not self.odd(4):
            return now
        return chance.choice(_INTEGERS if type(now) is int else _FLOATS if type(now) is float else _WORDS)

    def members(self, made: dict[str, Json]) -> Json:
        """An object with a member missing, renamed or too much."""
        made = dict(made)
        if made and self.often(0.7):
            name = self.chance.choice(list(made))
            value = made.pop(name)
            if self.often(0.5):
                made[self.chance.choice((name.lower(), name[:-1], name + "Count", "dml" + name))] = value
        else:
            made[self.chance.choice(_WORDS)] = self.anything()
        return made

    def desc(self) -> Json:
        """An operator desc, nested or flat."""
        data = _members(self.chance.choice(list(OPERATORS)))
        desc = {key: self.like(value) for key, value in data["Desc"].items()}
        desc = self.members(desc) if self.odd(4) else desc
        return {"Type": data["Type"], "Desc": desc} if self.often(0.7) else {"Type": data["Type"], **desc}

    def graph(self) -> Json:
        """A graph."""
        chance, count = self.chance, self.chance.randrange(4)
        nodes: list[Json] = []
        for _ in range(count):
            node = (
                {"Type": "CONSTANT", "Desc": {"Data": [chance.choice(_INTEGERS[:8]) for _ in range(4)]}} if self.often(0.1) else self.desc()
            )
            nodes.append({**node, "Name": chance.choice(_WORDS)} if self.often(0.3) else node)
        made: dict[str, Json] = {"Nodes": nodes, "InputCount": chance.randrange(4), "OutputCount": chance.randrange(3)}
        for name, members in (
            ("InputEdges", ("GraphInputIndex", "ToNodeIndex", "ToNodeInputIndex")),
            ("OutputEdges", ("FromNodeIndex", "FromNodeOutputIndex", "GraphOutputIndex")),
            ("IntermediateEdges", ("FromNodeIndex", "FromNodeOutputIndex", "ToNodeIndex", "ToNodeInputIndex")),
        ):
            made[name] = [{key: self.index() for key in members} for _ in range(chance.randrange(4))]
        for name in ("InputNames", "OutputNames", "Name", "InputTensors"):
            if self.often(0.1):
                made[name] = [chance.choice(_WORDS) for _ in range(chance.randrange(4))] if not self.odd(4) else self.anything()
        return self.members(made) if self.odd() else made

    def index(self) -> Json:
        chance = self.chance
        return chance.randrange(3) if not self.odd(4) else chance.choice((*_INTEGERS, "InputTensor", "x", True, 0.5, None))

    def resource(self) -> Json:
        """A resource of a model."""
        chance = self.chance
        values: Json = chance.choice(
            (
                [chance.choice((1, 0.5, -1, 255, "nan", *_INTEGERS)) for _ in range(chance.randrange(6))],
                {"valueCount": chance.choice(_INTEGERS), "value": chance.choice((*_INTEGERS, *_FLOATS))},
                {"valueCount": chance.choice(_INTEGERS), "valueStart": chance.choice(_INTEGERS), "valueDelta": chance.choice(_FLOATS)},
                {"sourcePath": chance.choice(_WORDS)},
                [{"type": chance.choice(("UINT8", "FLOAT64", "INT4")), "value": chance.choice(_INTEGERS)} for _ in range(3)],
                "deferred",
            )
        )
        made: dict[str, Json] = {
            "initialValuesDataType": chance.choice(("FLOAT32", "INT8", "UINT64", "INT4", "FLOAT16")),
            "initialValues": values,
        }
        for name in ("sizeInBytes", "initialValuesOffsetInBytes", "resampleSize", "resampleMode", "type"):
            if self.often(0.1):
                made[name] = chance.choice((*_INTEGERS, [1, 3, 2**20, 2**20], "scale", "buffer"))
        return self.members(made) if self.odd() else made

    def model(self) -> Json:
        """A DxDispatch model."""
        chance = self.chance
        resources = {f"r{number}": self.resource() for number in range(chance.randrange(5))}
        dispatchables: dict[str, Json] = {}
        for number in range(chance.randrange(3)):
            desc = self.desc()
            dispatchables[f"d{number}"] = chance.choice((desc, desc, self.graph(), {"sourcePath": chance.choice(_WORDS)}, {"type": "onnx"}))
        commands = [self.command(dispatchables) for _ in range(chance.randrange(4))]
        made: dict[str, Json] = {"resources": resources, "dispatchables": dispatchables, "commands": commands}
        return self.members(made) if self.odd(4) else {name: self.anything() if self.odd(2) else part for name, part in made.items()}

    def command(self, dispatchables: dict[str, Json]) -> Json:
        chance = self.chance
        kind = chance.choice(("dispatch", "dispatch", "print", "writeFile"))
        made: dict[str, Json] = {"type": kind, "resource": chance.choice(("r0", "r1", "r9"))}
        if kind == "dispatch":
            name = chance.choice((*dispatchables, "d0"))
            fields = [key for key in dict(dispatchables.get(name) or {}).get("Desc") or {} if key.endswith(("Tensor", "Tensors"))]
            made = {"type": kind, "dispatchable": name, "bindings": {field: self.binding() for field in fields}}
        elif kind == "writeFile":
            made |= {"targetPath": chance.choice(_WORDS), "dimensions": [chance.choice(_INTEGERS) for _ in range(chance.randrange(5))]}
        return self.members(made) if self.odd() else made

    def binding(self) -> Json:
        chance = self.chance
        part = {"name": "r0", "elementCount": chance.choice(_INTEGERS), "elementOffset": chance.choice(_INTEGERS), "elementSizeInBytes": 4}
        return chance.choice(("r0", "r1", part, ["r0", part], ["r0"] * 50))


def _text(value: Json, chance: Random, wild: bool) -> str:
    """The text of a value; a wild one has blanks, comments, keys twice and escapes that nobody needs."""

    def blank() -> str:
        return chance.choice(_BLANKS if chance.random() < 0.02 else _BLANKS[:8]) if wild else ""

    def pair(key: Any, item: Json) -> str:
        return f"{text(str(key))}{blank()}:{blank()}{text(item)}"

    def text(item: Json) -> str:
        if isinstance(item, _Token):
            return item
        if isinstance(item, str):
            return json.dumps(item, ensure_ascii=chance.random() < 0.8)
        if isinstance(item, list):
            return f"[{blank()}{','.join(map(text, item))}{',' if wild and chance.random() < 0.05 else ''}]"
        if isinstance(item, dict):
            parts = [pair(*entry) for entry in item.items()]
            if wild and parts and chance.random() < 0.1:
                parts.append(chance.choice(parts))
            return f"{{{blank()}{(',' + blank()).join(parts)}}}"
        if wild and type(item) in (int, float) and chance.random() < 0.01:
            return chance.choice(_NUMBERS)
        return json.dumps(item)

    return f"{blank()}{text(value)}{blank()}"
