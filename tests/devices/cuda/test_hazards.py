"""Memory that tensors share, against a comparison of every pair."""

from __future__ import annotations

import random
import time

import dmlpy as dml
from dmlpy.devices.memory.binding import BoundTensor, hazards

SPLIT = dml.SplitDesc(input_tensor=dml.TensorDesc(data_type="UINT8", sizes=[1]), output_tensors=[], axis=0)
RELU = dml.ActivationReluDesc(input_tensor=dml.TensorDesc(data_type="UINT8", sizes=[1]))


def bound_at(name: str, output: bool, start: int, size: int) -> BoundTensor:
    return BoundTensor(name, dml.TensorDesc(data_type="UINT8", sizes=[size]), output, start, None)


def test_shared_memory_is_found_as_by_comparing_every_pair() -> None:
    chance = random.Random(1)
    shared = 0
    for number in range(3000):
        desc = chance.choice([SPLIT, RELU])
        bound = [
            bound_at(f"t{index}", chance.random() < 0.5, chance.randrange(1, chance.choice([12, 60])), chance.randrange(1, 6))
            for index in range(chance.randrange(8))
        ]
        wanted = []
        for place, output in enumerate(bound):
            meets = [other for other in bound if output.output and output.pointer < other.end and other.pointer < output.end]
            earlier = bound[:place]
            wanted += [("hazard.outputs", output.name, other.name) for other in meets if other.output and other in earlier]
            same = [other for other in meets if not other.output]
            in_place = [other for other in same if desc.in_place and (other.pointer, other.desc) == (output.pointer, output.desc)]
            wanted += [("hazard.in_place", output.name, other.name) for other in same if other not in in_place]
        found = [(problem.code, problem.path, problem.found.split()[2]) for problem in hazards(desc, bound, None, None)]
        assert found == wanted, number
        shared += bool(found)
    assert 500 < shared < 2900


def test_thousands_of_tensors_in_one_memory_are_answered_soon() -> None:
    began = time.process_time()
    outputs = [bound_at(f"o{index}", True, 1, 9) for index in range(8_000)]
    assert len(hazards(SPLIT, outputs, None, None)) >= 900
    inputs = [bound_at(f"i{index}", False, 1, 9) for index in range(8_000)]
    assert hazards(SPLIT, [*inputs, bound_at("o", True, 100, 9)], None, None) == []
    apart = [bound_at(f"o{index}", True, 1 + 10 * index, 10) for index in range(8_000)]
    assert hazards(SPLIT, apart, None, None) == []
    assert time.process_time() - began < 3
