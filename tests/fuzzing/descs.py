"""Fuzzes descs: hostile values for every member, wherever descs are made, compared, checked, shown and compiled.

    python -m tests.fuzzing.descs --seconds 60 --seed 1

Promises: a desc is refused with an error of dmlpy's own, or it is made; then checking, showing, hashing, comparing and copying it raise
nothing, and it equals its copies. Equal descs hold the same numbers, to the bit, and so does what is compiled for them.
"""

from __future__ import annotations

import copy
import math
import pickle
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
from dmlpy.messages.naming import c_member
from tests.fuzzing import hostile
from tests.fuzzing.tally import FuzzRun, run

MAX_TEXT = 10**6


def members(fuzz: FuzzRun) -> str:
    """Some members of an operator's desc, in either spelling."""
    chance = fuzz.chance
    kind = OPERATORS[chance.choice(list(OPERATORS))]
    desc = sample(kind)
    names = chance.sample(list(kind.model_fields), min(len(kind.model_fields), chance.choice([1, 1, 2, 3])))
    changes = {chance.choice([name, c_member(name)]): _hostile_member(fuzz, getattr(desc, name)) for name in names}
    if kind.c_counts and chance.random() < 0.2:
        changes[chance.choice(list(kind.c_counts))] = hostile.value(chance)
    found: list[str] = []
    made: list[dml.OperatorDesc] = []
    with fuzz.answers(found):
        made.append(desc.replace(**changes) if chance.random() < 0.5 else desc.model_copy(update=changes))
    if not made:
        return found[0]
    _holds_together(fuzz, made[0])
    with fuzz.answers(found):
        problems = dml.check(made[0])
        fuzz.promise(len("".join(map(str, problems))) < MAX_TEXT, "problems of more than a million characters")
        return problems[0].code if problems else "valid"
    return found[-1]


def _hostile_member(fuzz: FuzzRun, now: Any) -> Any:
    """A value for a member, or the value that it has with something hostile inside."""
    chance = fuzz.chance
    if isinstance(now, dml.TensorDesc) and chance.random() < 0.6:
        return {**now.to_dict(), chance.choice([*now.to_dict(), "Strides", "Flags", "x"]): hostile.value(chance)}
    if isinstance(now, tuple) and now and chance.random() < 0.6:
        items = list(now)
        items[chance.randrange(len(items))] = hostile.value(chance)
        return items
    if isinstance(now, tuple) and now and chance.random() < 0.1:
        return iter(lambda: now[0], None)  # endless
    return hostile.value(chance)


def _holds_together(fuzz: FuzzRun, desc: Any) -> None:
    """What holds of every desc, valid or not."""
    for text in (str(desc), repr(desc), desc._repr_html_()):
        fuzz.promise(len(text) < MAX_TEXT, "a desc's text of more than a million characters")
    data = desc.to_dict()
    for other in (copy.copy(desc), copy.deepcopy(desc), pickle.loads(pickle.dumps(desc)), desc.replace()):
        fuzz.promise(other == desc and hash(other) == hash(desc), "a copy that differs")
        fuzz.promise(other.to_dict() == data, "a copy with other members")
    with suppress(dml.DescError):  # lengths that C has one number for may differ
        fuzz.promise(type(desc).from_dict(data).to_dict() == data, "data that are read as others")
    for other in (None, 1, object(), dml.ActivationReluDesc()):
        fuzz.promise(desc is other or desc != other or type(desc) is type(other), "a desc that equals something else")


def tensors(fuzz: FuzzRun) -> str:
    """A tensor alone, in both spellings, with counts."""
    chance = fuzz.chance
    names = ["data_type", "sizes", "strides", "flags", "total_tensor_size_in_bytes", "guaranteed_base_offset_alignment"]
    given: dict[str, Any] = {"data_type": "FLOAT32", "sizes": [2, 3]}
    for name in chance.sample(names, chance.choice([1, 2, 3])):
        given.pop(name, None)
        given[chance.choice([name, c_member(name)])] = hostile.value(chance)
    if chance.random() < 0.3:
        given["DimensionCount"] = hostile.value(chance)
    found: list[str] = []
    with fuzz.answers(found):
        desc = dml.TensorDesc(**given) if chance.random() < 0.5 else dml.TensorDesc.from_dict(given)
        _holds_together(fuzz, desc)
        for output in (False, True):
            desc.problems(output=output, strict=True)
    with fuzz.answers(found):
        dml.TensorDesc.of(hostile.value(chance), dimension_count=chance.choice([None, 4]))
    return found[0]


def numbers(fuzz: FuzzRun) -> str:
    """Descs with one number each: equal if and only if the numbers are the same, and so is what they compute."""
    chance = fuzz.chance

    def drawn() -> float:
        if chance.random() < 0.5:
            return chance.choice([item for item in hostile.FLOATS if abs(item) < 3e38 or not math.isfinite(item)])
        return float(struct.unpack("<f", chance.randbytes(4))[0])

    one = drawn()
    other = -one if chance.random() < 0.3 else drawn()
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[2])
    first, second = (dml.FillValueConstantDesc(output_tensor=tensor, value_data_type="FLOAT32", value=value) for value in (one, other))
    same = (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    fuzz.promise((first == second) == same, f"{one!r} and {other!r} compare wrongly")
    fuzz.promise(not same or hash(first) == hash(second), f"{one!r} and {other!r} are hashed apart")
    for desc, value in ((first, one), (second, other), (first, one)):
        with np.errstate(all="ignore"):
            found, wanted = dml.compile(desc, "numpy")().output_tensor, np.full(2, value, np.float32)
        bits = found.view(np.uint32).tolist() == wanted.view(np.uint32).tolist()
        fuzz.promise(bits or (np.isnan(found).all() and np.isnan(wanted).all()), f"{value!r} became {found!r}")
    return "same" if same else "different"


def calls(fuzz: FuzzRun) -> str:
    """What else takes values of callers: names, levels, flags, devices, files' data."""
    chance, desc = fuzz.chance, dml.ActivationReluDesc()
    given = hostile.value(chance)
    ways = {
        "level": lambda: dml.check(desc, given),
        "flags": lambda: dml.compile(desc, "numpy", flags=given),
        "desc": lambda: dml.compile(given, "numpy"),
        "checked": lambda: dml.check(given),
        "data": lambda: dml.OperatorDesc.from_dict(given),
        "type": lambda: dml.OperatorDesc.from_dict({"Type": given, "Desc": {}}),
        "nested": lambda: dml.OperatorDesc.from_dict({"Type": "ACTIVATION_RELU", "Desc": given}),
        "device": lambda: dml.device(given),
        "graph": lambda: dml.Graph(nodes=given, input_count=given, output_edges=given, name=given),
        "outputs": lambda: sample(dml.GEMMDesc).with_outputs(given),
    }
    name = chance.choice(list(ways))
    found: list[str] = []
    with fuzz.answers(found):
        ways[name]()
    return f"{name} {found[0]}"


KINDS = {"members": members, "tensors": tensors, "numbers": numbers, "calls": calls}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the fuzzer; the status of the process."""
    return run(arguments, __doc__, KINDS)


if __name__ == "__main__":
    sys.exit(main())
