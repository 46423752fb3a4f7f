"""The lists of names that let operators be imported when they are first used: complete, and nothing is imported before."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import dmlpy as dml
from dmlpy import operators
from dmlpy.description.registry import ALIASES, OPERATORS, operator_class
from dmlpy.devices.device import shared
from dmlpy.devices.numpy.device import NumpyDevice
from tests.support.descs import facts_reader as facts


def test_every_operator_is_an_attribute_of_the_operators_and_of_dmlpy() -> None:
    kinds = {kind.__name__: kind for kind in OPERATORS.values()}
    assert {name: getattr(operators, name) for name in operators.__all__} == kinds
    assert {name: getattr(dml, name) for name in kinds} == kinds


def test_directml_s_operators_are_those_of_the_facts() -> None:
    assert {name for name, kind in OPERATORS.items() if not kind.is_extension} == {*facts.operators()}


def test_every_public_name_is_there() -> None:
    assert len(set(dml.__all__)) == len(dml.__all__)
    assert {name for name in dml.__all__ if not hasattr(dml, name)} == set()
    assert {*dml.__all__} <= {*dir(dml)}
    with pytest.raises(AttributeError, match="GemDesc"):
        _ = dml.GemDesc  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["RNN", "DML_OPERATOR_RNN", "CUDNN_RNN_V3", "DMLPY_OPERATOR_CUDNN_RNN_V3", "SCATTER_ELEMENTS"])
def test_operators_that_were_imported_are_found_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = operator_class(name)
    monkeypatch.setattr(type(OPERATORS), "announced", lambda *_: pytest.fail("looked for in the packages"))
    assert operator_class(name) is expected


LOADED = "import sys, json, dmlpy; {}; print(json.dumps(sorted(name for name in sys.modules if name.startswith('dmlpy.operators.'))))"


@pytest.mark.parametrize(
    ("code", "families"),
    [
        ("pass", set()),
        ("dmlpy.GEMMDesc", {"matrix", "activation", "elementwise"}),
        ("dmlpy.OperatorDesc.from_dict({'Type': 'FILL_VALUE_CONSTANT', 'OutputTensor': {'DataType': 'INT8', 'Sizes': [1]},"
         " 'ValueDataType': 'INT8', 'Value': 1})", {"generation"}),
    ],
)  # fmt: skip
def test_only_what_is_used_is_imported(code: str, families: set[str]) -> None:
    found = subprocess.run([sys.executable, "-c", LOADED.format(code)], capture_output=True, text=True, check=True)
    assert {name.split(".")[2] for name in json.loads(found.stdout)} == families


def test_a_layer_on_the_processor_loads_no_element_wise_operators() -> None:
    """A fresh process comes to its first launch without them and without graphs, which take as long to import as dmlpy."""
    code = "from dmlpy.inspection.samples import sample; dmlpy.compile(sample(dmlpy.RNNDesc), 'cpu')"
    found = subprocess.run([sys.executable, "-c", LOADED.format(code)], capture_output=True, text=True, check=True)
    names = {name.removeprefix("dmlpy.operators.").partition(".")[::2] for name in json.loads(found.stdout)}
    assert {family for family, _ in names} == {"recurrent", "activation", "elementwise"}
    assert {module for family, module in names if family == "elementwise"} == {"", "common"}


FIRST_USE = """
import sys, threading
import dmlpy as dml
from dmlpy.description.registry import OPERATORS
from dmlpy.inspection.samples import sample
sys.setswitchinterval(1e-6)
start, found = threading.Barrier(8), []
def use():
    start.wait()
    counts = len(OPERATORS), len(list(OPERATORS)), len(dict(OPERATORS))
    found.append((counts, id(dml.device("numpy")), all(dml.check(sample(kind)) == [] for kind in [*OPERATORS.values()][::9])))
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found), len(set(found)), *set(found), len(OPERATORS))
"""


def test_threads_that_come_first_find_all_operators() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True)
    count = len(OPERATORS)
    threads, answers, rest = done.stdout.split(maxsplit=2)
    assert (threads, answers) == ("8", "1"), done.stdout
    assert re.fullmatch(rf"\(\({count}, {count}, {count}\), \d+, True\) {count}", rest.strip())


def test_threads_that_ask_first_get_the_same_device() -> None:
    start = threading.Barrier(8)

    @shared
    def slow(index: int) -> dml.Device:
        start.wait()
        return NumpyDevice()

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(slow, [0] * 8))) == 1
    assert slow(0) is slow(0)


def test_other_names_of_the_header() -> None:
    for alias, name in ALIASES.items():
        for spelling in (alias, f"DML_OPERATOR_{alias}"):
            assert operator_class(spelling) is OPERATORS[f"DML_OPERATOR_{name}"]


def test_an_unknown_operator_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(dml.DescError) as caught:
        operator_class("DML_OPERATOR_CONVOLUTON")
    (problem,) = caught.value.problems
    assert problem.expected == f"one of the {len(OPERATORS)} operators that dmlpy describes"
    assert problem.remedy == "did you mean DML_OPERATOR_CONVOLUTION?"
