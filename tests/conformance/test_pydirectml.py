"""Operators run by pydirectml: a module that takes what pydirectml takes, and nothing else, is in its place."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.conformance import command, libraries
from dmlpy.conformance.cases import operator_classes, runs
from dmlpy.conformance.findings import differing_outputs
from dmlpy.conformance.process import PydirectmlWorker
from dmlpy.conformance.pydirectml import _CALLS, Pydirectml, expresses
from dmlpy.conformance.values import random_inputs, to_bytes
from dmlpy.description.descs import OperatorDesc
from tests.support.directml import mock_pydirectml
from tests.support.directml.in_process import InProcess
from tests.support.tools import require

LEVEL = dml.FeatureLevel.FL_6_4
KINDS = {kind.short_name(): kind for kind in operator_classes(_CALLS)}
Arrays = dict[str, np.ndarray[Any, Any]]


class InThisProcess(InProcess, PydirectmlWorker):
    """pydirectml's worker without a process."""


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydirectml", mock_pydirectml.module())
    monkeypatch.setattr(command, "PydirectmlWorker", InThisProcess)


def given_to(desc: OperatorDesc, inputs: Arrays) -> list[bytes | None]:
    return [None if slot.tensor is None else to_bytes(slot.tensor, inputs[slot.place]) for slot in desc.input_slots()]


@pytest.mark.parametrize("name", _CALLS)
def test_results_arrive_as_computed(name: str) -> None:
    """All descs that pydirectml expresses, every tenth of a GRU's."""
    program = Pydirectml.load(hardware=False, debug=True)
    assert mock_pydirectml.Device.opened == (False, True)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    descs = [desc for desc in runs(KINDS[name], LEVEL) if expresses(desc)]
    assert len(descs) > 1
    written = False
    for desc in descs[:: 10 if name == "GRU" else 1]:
        inputs = random_inputs(rng, desc)
        results = program.run(desc, given_to(desc, inputs))
        assert differing_outputs(desc, inputs, results) == [], desc.to_json()
        assert [result is None for result in results] == [slot.tensor is None for slot in desc.output_slots()]
        written = written or any(result is not None and any(result) for result in results)
    assert written


NOT_EXPRESSED: dict[str, OperatorDesc] = {
    "no function": runs(operator_classes(["RNN"])[0], LEVEL)[0],
    "a padding mode": next(desc for desc in runs(KINDS["PADDING"], LEVEL) if desc.to_dict()["Desc"]["PaddingMode"].endswith("SYMMETRIC")),
    "an activation": next(desc for desc in runs(KINDS["GRU"], LEVEL) if any("CELU" in str(item.c_name) for item in desc.activation_descs)),  # type: ignore[attr-defined]
    "no axes": dml.MeanVarianceNormalization1Desc(
        input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3]), axes=[], normalize_variance=True, epsilon=0.1
    ).with_outputs(),
    "a strided output": dml.ActivationReluDesc(
        input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 3, 4]),
        output_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 3, 4], strides=[48, 24, 8, 2]),
    ),
}


@pytest.mark.parametrize("reason", NOT_EXPRESSED)
def test_what_pydirectml_cannot_express_is_left_to_others(reason: str) -> None:
    assert not dml.check(NOT_EXPRESSED[reason])
    assert not expresses(NOT_EXPRESSED[reason])


def compare(operator: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    require("g++")
    monkeypatch.setenv(libraries.TEST_LIBRARIES, "tests.support.directml.mock:libraries")
    monkeypatch.setattr(command, "Worker", InProcess)
    chosen = command.ConformanceOptions([operator], pydirectml=True, **options)
    return command.run(chosen, lambda found: None, lambda text: None)


def test_the_record_says_who_ran_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    record = compare("ACTIVATION_LINEAR", monkeypatch, hardware=True)
    found = record.operators["ACTIVATION_LINEAR"]
    assert record.results_by == "pydirectml"
    assert mock_pydirectml.Device.opened == (True, True)
    assert found.runs == found.runs_agree > 0
    assert found.checked > found.runs
    assert command.is_clean(record)


def test_another_result_and_another_inference_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Pydirectml.load(hardware=False, debug=False)
    monkeypatch.setattr(program.module, "activation_tanh", program.module.activation_identity)
    desc = runs(KINDS["ACTIVATION_TANH"], LEVEL)[0]
    inputs = random_inputs(np.random.default_rng(0), desc)
    assert [place for place, _ in differing_outputs(desc, inputs, program.run(desc, given_to(desc, inputs)))] == ["output_tensor"]
    monkeypatch.setattr(program.module, "activation_tanh", lambda input: program.module.join(input=[input, input], axis=0))
    with pytest.raises(dml.DmlError, match=r"^pydirectml infers output_tensor as .*FLOAT32 \[4, .*, not FLOAT32 \["):
        program.run(desc, given_to(desc, inputs))


def test_what_goes_wrong_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Pydirectml.load(hardware=False, debug=False)
    desc = runs(KINDS["ACTIVATION_TANH"], LEVEL)[0]
    inputs = random_inputs(np.random.default_rng(0), desc)

    def refuses(**given: Any) -> None:
        raise RuntimeError("The parameter is incorrect.")

    monkeypatch.setattr(program.module, "activation_tanh", refuses)
    with pytest.raises(dml.DmlError, match=r"^pydirectml raised RuntimeError: The parameter is incorrect\.$"):
        program.run(desc, given_to(desc, inputs))
    monkeypatch.setattr(program.module, "Device", lambda use_gpu, use_debug_layer: refuses())
    with pytest.raises(dml.DmlError, match=r"^pydirectml opens no device: The parameter is incorrect\.$"):
        Pydirectml.load(hardware=False, debug=False)
    monkeypatch.setitem(sys.modules, "pydirectml", None)
    with pytest.raises(dml.DmlError, match=r"^pydirectml is not installed: it is built from .*DirectML$"):
        compare("ACTIVATION_TANH", monkeypatch)


def test_two_programs_at_once_are_refused(tmp_path: Any) -> None:
    (tmp_path / "dxdispatch.exe").touch()
    options = command.ConformanceOptions(pydirectml=True, dxdispatch=tmp_path / "dxdispatch.exe")
    with pytest.raises(dml.DmlError, match=r"^DxDispatch or pydirectml runs the operators, not both$"):
        command.run(options, lambda found: None, lambda text: None)
