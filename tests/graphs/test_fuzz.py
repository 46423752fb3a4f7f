"""Graphs in files that were changed at random: each is read, or refused with a DmlError. Nothing else is raised, nothing hangs."""

from __future__ import annotations

import copy
import json
import random
import struct
import time
import tracemalloc
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dmlpy as dml
from dmlpy.graphs import Graph, load_serialized
from tests.support.graphs import flatbuffer_writer as writer
from tests.support.graphs.cases import network, random_network
from tests.support.graphs.flatbuffer_writer import Dump
from tests.support.graphs.serialized import of

SECONDS = 5.0
"""More than any file of these sizes takes."""

WORDS = [0, 1, 2, 3, 4, 6, 8, 16, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 4, 2**32 - 1]
VALUES: list[Any] = [None, True, -1, 0, 1, 3, 2**31, 2**32, 2**64, 10**30, 0.5, float("nan"), float("inf"), "", "x", "relu", "scale_tensor"]
VALUES += ["InputTensor", "OPERATOR", "CONSTANT", "ACTIVATION_RELU", "JOIN", "FLOAT16", "OWNED_BY_DML", "\ud800\0", "x" * 3000]
VALUES += [
    [],
    {},
    [[]],
    [1],
    [0, 0, 0, 0],
    [2**31] * 4,
    [2**32 - 1] * 8,
    [1] * 40,
    {"Type": "INPUT", "Desc": {}},
    {"Type": "RNN", "Desc": {}},
]

SLOWER = settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
ORDINARY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def files() -> tuple[bytes, ...]:
    """Valid files with every kind of node and of attribute."""
    tensor = dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 2, 3])
    tanh = {"Type": "ACTIVATION_TANH"}
    members: list[dict[str, Any]] = [
        {
            "Type": "JOIN",
            "InputTensors": [{"DataType": "FLOAT32", "Sizes": [1, 2]}] * 3,
            "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1, 6]},
            "Axis": 1,
        },
        {"Type": "ELEMENT_WISE_IDENTITY", "InputTensor": tensor, "OutputTensor": tensor, "ScaleBias": {"Scale": 2.0, "Bias": 1.0}},
        {"Type": "FILL_VALUE_CONSTANT", "OutputTensor": tensor, "ValueDataType": "FLOAT32", "Value": 1.5},
        {
            "Type": "RNN",
            "InputTensor": {"DataType": "FLOAT32", "Sizes": [1, 3, 2, 4]},
            "WeightTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 5, 4]},
            "RecurrenceTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 5, 5], "Strides": [25, 25, 5, 1]},
            "OutputSingleTensor": {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 5]},
            "ActivationDescs": [tanh],
            "Direction": "FORWARD",
        },
    ]
    dumps: list[Dump] = [writer.dump_of(network()), *(writer.dump_of(random_network(seed)) for seed in range(6))]
    dumps += [of(dml.OperatorDesc.from_dict(data)) for data in members]
    return tuple(map(writer.write, dumps))


@cache
def texts() -> tuple[Any, ...]:
    # Without counts, which nearly every change would make wrong.
    graphs = [json.loads(graph.to_json()) for graph in (network(), *map(random_network, range(4)))]
    short = [
        {name: value for name, value in data.items() if name in ("InputCount", "OutputCount") or "Count" not in name} for data in graphs
    ]
    return (graphs[0], *short)


def of_dump(data: bytes) -> Graph:
    return load_serialized(data).graph


def use(graph: Graph) -> None:
    """Everything that a graph offers without a device, whether or not it is valid."""
    problems = graph.check()
    graph.to_dot(problems)
    str(graph)
    dml.lowest_level(graph)
    assert Graph.from_json(graph.to_json()) == graph


def damaged(chosen: random.Random) -> bytes:
    data = bytearray(chosen.choice(files()))
    for _ in range(chosen.choice([1, 1, 1, 1, 2, 8])):
        at = chosen.randrange(len(data))
        what = chosen.choice(["bit"] * 8 + ["byte"] * 4 + ["word", "near", "cut", "splice", "fill", "insert", "shift"])
        if what == "bit":
            data[at] ^= 1 << chosen.randrange(8)
        elif what == "byte":
            data[at] = chosen.randrange(256)
        elif what in ("word", "near"):
            at = min(at // 4 * 4, len(data) - 4)
            value = chosen.choice(WORDS) if what == "word" else chosen.randrange(len(data) + 8)
            struct.pack_into("<I", data, max(0, at), value)
        elif what == "cut":
            del data[max(16, at) :]
        elif what == "splice":
            other = chosen.choice(files())
            start = chosen.randrange(len(other))
            piece = other[start : start + chosen.randrange(1, 64)]
            data[at : at + len(piece)] = piece
        elif what == "fill":
            data[at : at + 16] = bytes([chosen.choice([0, 255])]) * len(data[at : at + 16])
        elif what == "insert":
            data[at:at] = bytes(4)
        else:
            del data[at : at + chosen.randrange(1, 5)]
        if len(data) < 16:
            break
    return bytes(data)


def mutated(chosen: random.Random) -> Any:
    data = copy.deepcopy(chosen.choice(texts()))
    for _ in range(chosen.choice([1, 1, 2, 5])):
        holder: Any = data
        while True:
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            if not keys:
                break
            key = chosen.choice(keys)
            if isinstance(holder[key], dict | list) and holder[key] and chosen.random() < 0.8:
                holder = holder[key]
                continue
            what = chosen.choice(["value", "value", "value", "remove", "twice", "nest"])
            if what == "value":
                holder[key] = copy.deepcopy(chosen.choice(VALUES))
            elif what == "remove":
                del holder[key]
            elif what == "nest":
                holder[key] = [holder[key]]
            elif isinstance(holder, list):
                holder.append(copy.deepcopy(holder[key]))
            else:
                holder[f"{key}2"] = holder[key]
            break
    return data


def outcome(read: Any, data: Any) -> str:
    """`read` or `refused`; anything else that happens fails the test."""
    began = time.perf_counter()
    told: dml.DmlError | None = None
    try:
        use(read(data))
    except dml.DmlError as error:
        told = error
    assert time.perf_counter() - began < SECONDS
    if told is None:
        return "read"
    assert told.problems
    assert str(told)
    return "refused"


@ORDINARY
@given(seed=st.integers(0, 2**32))
def test_damaged_dumps(seed: int) -> None:
    outcome(of_dump, damaged(random.Random(seed)))


@ORDINARY
@given(seed=st.integers(0, 2**32))
def test_mutated_json(seed: int) -> None:
    outcome(Graph.from_dict, mutated(random.Random(seed)))


@ORDINARY
@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    outcome(of_dump, data)
    outcome(Graph.from_json, data)


@pytest.mark.slow
@SLOWER
@given(seed=st.integers(0, 2**32))
def test_many_damaged_dumps(seed: int) -> None:
    outcome(of_dump, damaged(random.Random(seed)))


@pytest.mark.slow
@SLOWER
@given(seed=st.integers(0, 2**32))
def test_much_mutated_json(seed: int) -> None:
    outcome(Graph.from_dict, mutated(random.Random(seed)))


def test_mutants_are_read_and_refused() -> None:
    """So that the tests above try both: files that differ too little or too much would test nothing."""
    for read, change in ((of_dump, damaged), (Graph.from_dict, mutated)):
        found = [outcome(read, change(random.Random(seed))) for seed in range(100)]
        assert min(found.count("read"), found.count("refused")) >= 10, found


def test_memory_is_bounded_by_the_file() -> None:
    """Every word of a table's vector leads to one and the same table, or claims as many items as there can be."""
    count = 2**16
    head = struct.pack("<IHHHHxxxx", 16, 8, 8, 4, 0) + struct.pack("<iI", 12, 4) + struct.pack("<I", count)
    end = len(head) + 4 * count
    offsets = b"".join(struct.pack("<I", end + 4 - (len(head) + 4 * index)) for index in range(count))
    data = head + offsets + struct.pack("<HH", 4, 4) + struct.pack("<i", 4)
    tracemalloc.start()
    try:
        assert outcome(of_dump, data) == "refused"
        assert tracemalloc.get_traced_memory()[1] < 8 * len(data)
    finally:
        tracemalloc.stop()
