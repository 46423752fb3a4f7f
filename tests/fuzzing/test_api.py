"""Short runs of the fuzzers of descs, bindings and caches, and that they see a broken promise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.description import structs
from dmlpy.devices.persistence import image_store
from dmlpy.graphs import desc
from dmlpy.validation import tensor_arguments
from dmlpy.x import desc_cache
from tests.conftest import cuda_on_cpu
from tests.fuzzing import bindings, cache, descs, differences, expressions, gradients, graphs

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, pipes and modes are those of POSIX")

PROGRAMS = {
    "descs": descs.main,
    "graphs": graphs.main,
    "expressions": expressions.main,
    "bindings": bindings.main,
    "differences": differences.main,
    "gradients": gradients.main,
    "cache": cache.main,
}
FEW = {
    "descs": ["--tries", "50"],
    "graphs": ["--tries", "60"],
    "expressions": ["--tries", "100"],
    "differences": ["--tries", "20", "--kinds", "numpy", "--operators", "RESAMPLE2", "ACTIVATION_ELU"],
    "gradients": ["--tries", "3"],
    "cache": ["--tries", "25", "--kinds", "files", "folders", "swaps", "homes"],
    "cache, by processes": ["--tries", "1", "--kinds", "races"],
}


def devices(name: str) -> Sequence[dml.Device]:
    if name == "cpu":
        pytest.importorskip("llvmlite")
    return [cuda_on_cpu() if name == "cuda-emulated" else dml.device(name)]


@posix
@pytest.mark.parametrize("name", FEW)
def test_a_few_tries_break_no_promise(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert PROGRAMS[name.partition(",")[0]](FEW[name]) == 0, capsys.readouterr().out
    assert ", 0 broken promises" in capsys.readouterr().out


@pytest.mark.parametrize("device", ["numpy", pytest.param("cuda-emulated", marks=pytest.mark.slow)])
def test_a_few_bindings_break_no_promise(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    (used,) = devices(device)
    tries = {"numpy": 150, "cuda-emulated": 20}[device]
    assert bindings.main(["--tries", str(tries)], [used]) == 0, capsys.readouterr().out
    assert f"{2 * tries} tries, 0 broken promises" in capsys.readouterr().out
    if device == "cuda-emulated":
        used.runtime.check_guards()  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    "name", ["descs", "graphs", "expressions", "bindings", "differences", "gradients", pytest.param("cache", marks=posix)]
)
def test_many_tries_break_no_promise(name: str, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert PROGRAMS[name](["--seconds", "60", "--seed", str(seed)]) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cuda-emulated"])
def test_many_bindings_break_no_promise(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bindings.main(["--seconds", "120", "--seed", "1"], devices(device)) == 0, capsys.readouterr().out


def unnamed(values: Any, kind: str, *, in_order: bool = False) -> Any:
    return dict(values), []


def written_anyway(self: Any, inputs: Any, outputs: Any, temporary: Any, persistent: Any, also_used: Any = ()) -> Any:
    for value in outputs.values():
        if isinstance(value, dml.Buffer) and isinstance(value.pointer, int) and 4096 < value.pointer < 2**62:
            self.device.clear(value.pointer, 1, 0)
    raise dml.BindError("refused")


def slot_of_any(self: Any, index: Any, name: str, *, output: bool) -> int:
    return int(self.nodes[index] is None)


def zeros(desc: dml.OperatorDesc, given: Any) -> Any:
    return {slot.place: np.zeros(slot.tensor.sizes) for slot in desc.output_slots() if slot.tensor is not None}


SOME = ["--tries", "10", "--kinds", "numpy", "--operators", "ACTIVATION_ELU"]
DAMAGES: dict[str, tuple[Any, str, Any, Callable[[], int]]] = {
    "-0.0 equals 0.0": (structs, "_with_type", lambda value: value, partial(descs.main, ["--tries", "60", "--kinds", "numbers"])),
    "indices are trusted": (desc._EdgeNames, "_slot", slot_of_any, partial(graphs.main, ["--tries", "60", "--kinds", "drawn"])),
    "lists are flat": (desc_cache, "_MAX_DEPTH", 10**6, partial(expressions.main, ["--tries", "100", "--seed", "1"])),
    "names are trusted": (tensor_arguments, "named", unnamed, partial(bindings.main, ["--tries", "200", "--kinds", "refused numpy"])),
    "refused, and written": (dml.CompiledOperator, "_bind", written_anyway, partial(bindings.main, ["--tries", "50"])),
    "results are 0": (differences, "by_definition", zeros, partial(differences.main, SOME)),
    "derivatives of lines": (gradients, "STEP", 1.0, partial(gradients.main, ["--tries", "2"])),
    "files are trusted": (image_store, "_is_private", lambda state: True, partial(cache.main, ["--tries", "30", "--kinds", "files"])),
}


@posix
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_fuzzers_see_a_broken_promise(damage: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    place, name, broken, fuzz = DAMAGES[damage]
    monkeypatch.setattr(place, name, broken)
    assert fuzz() == 1
    assert "BROKEN" in capsys.readouterr().out
