"""`dmlpy conformance` over a mock of DirectML: what it checks, finds and writes."""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dmlpy as dml
from dmlpy.cli.main import app
from dmlpy.conformance import command, execution, libraries
from dmlpy.conformance.cases import cases, operator_classes, runs
from dmlpy.conformance.device import Device, RemovedError
from dmlpy.conformance.findings import Findings, differing_outputs, size_of
from dmlpy.conformance.operator_numbers import OPERATOR_NUMBERS
from dmlpy.conformance.process import EndedError, Worker
from dmlpy.conformance.values import from_bytes, random_inputs, to_bytes
from dmlpy.conformance.worker import Session
from dmlpy.inspection import directml_records
from dmlpy.inspection.directml_records import Kind, Record
from dmlpy.inspection.samples import sample
from dmlpy.messages.problems import Problem
from tests.support.directml import mock
from tests.support.directml.in_process import InProcess
from tests.support.tools import require

KINDS = {kind.short_name(): kind for kind in operator_classes()}
MARKED = 4096
"""An alignment that only the descs of one test have."""

Behave = Callable[..., None]


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    require("g++")


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch) -> Iterator[Behave]:
    """Sets the mock's behaviour for the worker, which runs in this process. Afterwards nothing is left of the mock's objects."""

    def set_behaviour(**options: Any) -> None:
        monkeypatch.setenv(mock.BEHAVIOUR, json.dumps(options))

    monkeypatch.setenv(libraries.TEST_LIBRARIES, "tests.support.directml.mock:libraries")
    monkeypatch.setattr(command, "Worker", InProcess)
    before = mock.library().mock_live_objects()
    mock.take_violations()
    yield set_behaviour
    assert mock.take_violations() == ""
    assert mock.library().mock_live_objects() == before


def compare(*operators: str, **options: Any) -> Record:
    saved: list[Record] = []
    record = command.run(command.ConformanceOptions(operators, **options), saved.append, lambda text: None)
    assert saved == [record]
    return record


def test_a_directml_like_dmlpy_has_no_differences(behave: Behave) -> None:
    record = compare("fill_value_constant")
    assert list(record.operators) == ["FILL_VALUE_CONSTANT"]
    found = record.operators["FILL_VALUE_CONSTANT"]
    kind = KINDS["FILL_VALUE_CONSTANT"]
    assert (found.checked, found.runs, found.left_out) == (len(cases(kind)), len(runs(kind, dml.FeatureLevel.FL_6_4)), 0)
    assert found.both_accept + found.both_refuse == found.checked
    assert min(found.both_accept, found.both_refuse) > 5
    expected = Counter(problems[0].code for desc in cases(kind) if (problems := dml.check(desc)))
    assert found.confirmed == expected
    assert len(expected) > 5
    assert found.runs_agree == found.runs > 1
    assert found.differences == ()
    assert list(record.levels) == [str(level) for level in dml.FeatureLevel][:-1]
    assert {(level.opened, level.checked, level.differing) for level in record.levels.values()} == {(True, 1, 0)}
    assert (record.directml_version, record.feature_level, record.adapter) == ("1.2.3.4", "6_4", "Mock of a basic render driver")
    # The mock's rule: two more descriptors than tensors, and sizes by the operator's number.
    number = OPERATOR_NUMBERS[kind.type_name]
    sizes = {"temporary_bytes": 1024 if number % 2 else 0, "persistent_bytes": 0 if number % 3 else 512}
    assert found.sample is not None
    assert found.sample.model_dump() == {"descriptors": len(sample(kind).slots()) + 2, **sizes}
    assert command.is_clean(record)


@pytest.mark.parametrize(
    ("option", "kind", "rule"),
    [
        ("refuses", Kind.REFUSED, "IDMLDevice::CreateOperator: E_INVALIDARG"),
        ("accepts", Kind.ACCEPTED, "size.equal"),
        ("wrong_results", Kind.RESULT, "output_tensor"),
        ("removes", Kind.ENDED, "running it: the device was removed: DXGI_ERROR_DEVICE_REMOVED"),
    ],
)
def test_differences(behave: Behave, option: str, kind: Kind, rule: str) -> None:
    behave(**{option: [mock.operator("FILL_VALUE_CONSTANT" if option != "accepts" else "ELEMENT_WISE_IDENTITY")]})
    record = compare("FILL_VALUE_CONSTANT" if option != "accepts" else "ELEMENT_WISE_IDENTITY", run=option in ("wrong_results", "removes"))
    found = next(iter(record.operators.values()))
    differences = {(each.kind, each.rule): each for each in found.differences}
    assert {each.kind for each in found.differences} == {kind}
    difference = differences[kind, rule]
    assert difference.count >= 1
    desc = dml.OperatorDesc.from_dict(difference.desc)
    problems = dml.check(desc)
    assert [problem.code for problem in problems][:1] == ([rule] if kind is Kind.ACCEPTED else [])
    if kind is Kind.ACCEPTED:
        assert difference.messages[0] == str(problems[0])
        firsts = ((each, dml.check(each)) for each in cases(type(desc)))
        sizes = [size_of(each) for each, problems in firsts if problems and problems[0].code == rule]
        assert len(sizes) == difference.count
        assert size_of(desc) == min(sizes) < max(sizes)
    assert not command.is_clean(record)
    assert rule in command.differences_table(record).to_text()


ERROR, UNDOCUMENTED = Problem("size.equal", "a", "1", "2"), Problem("type.support", "a", "INT8", "FLOAT32", severity="undocumented")


@pytest.mark.parametrize(
    ("problems", "call", "expected"),
    [
        ([], "", "both accept"),
        ([], "CreateOperator", Kind.REFUSED),
        ([UNDOCUMENTED], "", Kind.UNDOCUMENTED_ACCEPTED),
        ([UNDOCUMENTED], "CreateOperator", Kind.UNDOCUMENTED_REFUSED),
        ([ERROR], "", Kind.ACCEPTED),
        ([ERROR], "CreateOperator", "both refuse"),
        ([UNDOCUMENTED, ERROR], "", Kind.ACCEPTED),
        ([UNDOCUMENTED, ERROR], "CreateOperator", "both refuse"),
    ],
)
def test_an_answer_is_compared_with_the_check(problems: list[Problem], call: str, expected: str) -> None:
    """Undocumented types refuse nothing, so each answer about a desc that has no errors is listed."""
    findings = Findings()
    findings.compared(sample(dml.ReduceDesc), problems, {"call": call, "hresult": "0x80070057", "messages": ()})
    record = findings.record()
    counted = {"both accept": record.both_accept, "both refuse": record.both_refuse}
    assert counted == {name: int(name == expected) for name in counted}
    found = [(difference.kind, difference.rule) for difference in record.differences]
    refused = {Kind.REFUSED: f"{call}: 0x80070057", Kind.UNDOCUMENTED_REFUSED: f"{call}: 0x80070057"}
    rules = refused | {Kind.ACCEPTED: "size.equal", Kind.UNDOCUMENTED_ACCEPTED: "type.support"}
    assert found == ([] if expected in counted else [(expected, rules[Kind(expected)])])
    assert record.confirmed == ({"size.equal": 1} if expected == "both refuse" else {})
    assert [kind.is_disagreement for kind, _ in found] == ([] if expected in counted else ["undocumented" not in expected])


def test_messages_of_the_debug_layer_are_kept(behave: Behave) -> None:
    behave(debug_layer=True, refuses=[mock.operator("FILL_VALUE_CONSTANT")])
    record = compare("FILL_VALUE_CONSTANT", run=False)
    assert record.debug_layer
    assert record.operators["FILL_VALUE_CONSTANT"].differences[0].messages == ("the judge refuses it",)


def test_an_older_directml_is_held_to_its_level(behave: Behave) -> None:
    behave(max_level="5_0")
    record = compare("ACTIVATION_GELU", run=True)
    assert record.feature_level == "5_0"
    found = record.operators["ACTIVATION_GELU"]
    assert (found.both_accept, found.runs, found.differences) == (0, 0, ())
    assert list(record.levels)[-1] == "4_1"


@pytest.mark.parametrize(
    ("options", "behaviour", "expected"),
    [
        ({}, {"warp": False}, "Windows has no software adapter (WARP; DXGI_ERROR_NOT_FOUND): use --hardware on a machine with a GPU"),
        ({}, {"old": True}, "mock.dll has no DMLCreateDevice1: DirectML 1.1.0 (feature level 2_0) or newer is needed"),
        ({"operators": ["RNN_GRAD"]}, {}, "DirectML has no RNN_GRAD: it is one of dmlpy's own operators"),
        ({"operators": ["RNM"]}, {}, "RNN"),
        (
            {"files": [Path("nowhere.json")]},
            {},
            "nowhere.json: 1 problem\n 1. file is unreadable: No such file or directory, expected a file  [file.unreadable]",
        ),
    ],
)
def test_what_cannot_be_checked_has_one_clear_line(behave: Behave, options: Any, behaviour: Any, expected: str) -> None:
    behave(**behaviour)
    with pytest.raises(dml.DmlError) as caught:
        command.run(command.ConformanceOptions(**options), lambda record: None, lambda text: None)
    assert expected in str(caught.value)


@pytest.mark.parametrize("every_level", [False, True])
def test_descs_are_checked_on_devices_of_lower_levels_too(behave: Behave, monkeypatch: pytest.MonkeyPatch, every_level: bool) -> None:
    behave(max_level="2_0")
    check = InProcess.check

    def otherwise(worker: InProcess, desc: dict[str, Any]) -> dict[str, Any]:
        """The device of the lower level accepts everything."""
        response = check(worker, desc)
        return {**response, "call": "", "hresult": "S_OK"} if worker.level == "1_0" and len(worker.levels) > 1 else response

    monkeypatch.setattr(InProcess, "check", otherwise)
    record = compare("ELEMENT_WISE_IDENTITY", run=False, every_level=every_level)
    found = record.levels["1_0"]
    counted = record.operators["ELEMENT_WISE_IDENTITY"]
    assert (found.checked, found.differing) == ((counted.checked, counted.both_refuse) if every_level else (1, 0))
    if every_level:
        assert found.smallest is not None
        assert dml.check(dml.OperatorDesc.from_dict(found.smallest), "2_0") != []


def test_a_level_that_cannot_be_opened_is_recorded_without_a_folder(behave: Behave, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Session.open

    def refuse(session: Session, level: str, **options: Any) -> dict[str, Any]:
        if level == "2_0":
            raise dml.DmlError("C:\\Users\\name\\DirectML.dll does not know it")
        return opened(session, level, **options)

    monkeypatch.setattr(Session, "open", refuse)
    load = Session.load
    monkeypatch.setattr(Session, "load", lambda session, dll: {**load(session, dll), "file": "C:\\Users\\name\\DirectML.dll"})
    record = compare("FILL_VALUE_CONSTANT", run=False)
    found = record.levels["2_0"]
    assert (found.opened, found.reason, found.checked) == (False, "DirectML.dll does not know it", 0)
    assert record.levels["2_1"].checked == 1
    assert "Users" not in record.to_json()


def test_a_level_that_directml_does_not_know(behave: Behave) -> None:
    found = mock.Behaviour(max_level="2_0").libraries()
    with pytest.raises(dml.DmlError, match=r"mock.dll does not know feature level 5_0: DirectML 1.8.0 or newer is needed"):
        Device(found, dml.FeatureLevel.FL_5_0)


def test_a_gpu_in_place_of_the_software_adapter(behave: Behave) -> None:
    with Device(mock.Behaviour(warp=False).libraries(), dml.FeatureLevel.FL_1_0, hardware=True) as device:
        assert device.highest_level() is dml.FeatureLevel.FL_6_4


def test_elsewhere_one_line_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "Worker", InProcess)
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr(sys, "platform", "linux")
    done = CliRunner().invoke(app, ["conformance", "RNN", "-o", str(tmp_path / "record.json")])
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "DirectML runs on Windows only, by its licence: run dmlpy conformance there, not on Linux",
    ]
    assert list(tmp_path.iterdir()) == []


class WindowsDll:
    """A DLL as `ctypes.WinDLL` opens it, without the functions of version.dll."""

    opened: list[str] = []

    def __init__(self, name: str) -> None:
        if name == "d3d12.dll" and "broken" in WindowsDll.opened[-1]:
            raise OSError("[WinError 126] The specified module could not be found")
        WindowsDll.opened.append(name)

    SetErrorMode = staticmethod(lambda mode: 0)
    GetFileVersionInfoSizeW = GetFileVersionInfoW = staticmethod(lambda *arguments: 0)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of modules; `libraries.load` takes the machine for Windows."""
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    monkeypatch.setattr(ctypes, "WinDLL", WindowsDll, raising=False)
    monkeypatch.setattr(WindowsDll, "opened", [])
    monkeypatch.setenv("SYSTEMROOT", str(tmp_path / "windows"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    return tmp_path


def test_the_dll_of_windows_is_loaded(windows: Path) -> None:
    dll = windows / "windows/System32/DirectML.dll"
    dll.parent.mkdir(parents=True)
    dll.touch()
    found = libraries.load()
    assert (found.file, found.version) == (str(dll), "")
    assert WindowsDll.opened[:4] == ["kernel32.dll", str(dll), "d3d12.dll", "dxgi.dll"]


class VersionDll(WindowsDll):
    """A version.dll that knows one version."""

    GetFileVersionInfoSizeW = staticmethod(lambda name, ignored: 52)
    GetFileVersionInfoW = staticmethod(lambda name, ignored, size, data: 1)

    @staticmethod
    def VerQueryValueW(data: Any, name: Any, place: Any, length: Any) -> int:  # noqa: N802  (its name on Windows)
        struct.pack_into("<4I", data, 0, 0xFEEF04BD, 0x10000, 1 << 16 | 15, 4 << 16 | 7)
        place._obj.value = ctypes.addressof(data)
        return int(name.value == "\\")


def test_the_version_of_the_dll_is_read(windows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "WinDLL", VersionDll, raising=False)
    (windows / "own.dll").touch()
    assert libraries.load(windows / "own.dll").version == "1.15.4.7"


def test_the_dll_of_onnx_runtime_goes_first(windows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dll = windows / "onnxruntime/capi/DirectML.dll"
    dll.parent.mkdir(parents=True)
    dll.touch()
    spec = type("Spec", (), {"submodule_search_locations": [str(windows / "onnxruntime")]})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert libraries.load().file == str(dll)
    dll.unlink()
    assert libraries.installed_with_onnx_runtime() is None


@pytest.mark.parametrize(
    ("dll", "expected"),
    [
        (None, "DirectML.dll: it is part of Windows 10 version 1903 and newer, and of onnxruntime-directml (pip install)"),
        ("own.dll", "own.dll"),
        ("broken.dll", "broken.dll and d3d12.dll cannot be loaded: [WinError 126] The specified module could not be found"),
    ],
)
def test_a_missing_or_broken_dll(windows: Path, dll: str | None, expected: str) -> None:
    (windows / "broken.dll").touch()
    with pytest.raises(dml.DmlError) as caught:
        libraries.load(None if dll is None else windows / dll)
    assert str(caught.value).endswith(expected)
    assert "\n" not in str(caught.value)


def test_another_processor(windows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "ARM64")
    with pytest.raises(dml.DmlError, match="needs Python for 64-bit Windows on x64, not for ARM64"):
        libraries.load()


def marked(kind: str) -> dml.OperatorDesc:
    """A desc with an alignment that no case has."""
    base = sample(KINDS[kind])
    output = base.tensors()["output_tensor"].replace(guaranteed_base_offset_alignment=MARKED)
    return base.replace(output_tensor=output)


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "reason"), [("crashes", "the process ended with status -6"), ("hangs", "no answer within 5 s")])
def test_a_desc_that_ends_the_process_is_the_only_one_lost(behave: Behave, fault: str, reason: str) -> None:
    behave(**{fault: [f'"GuaranteedBaseOffsetAlignment":{MARKED}']})
    with Worker(None, hardware=False, debug=True, limit_s=5) as worker:
        worker.open("1_0")
        with pytest.raises(EndedError, match=reason):
            worker.check(marked("FILL_VALUE_CONSTANT").to_dict())
        assert worker.endings == 1
        assert worker.check(sample(KINDS["FILL_VALUE_CONSTANT"]).to_dict())["hresult"] == "S_OK"


def test_an_access_violation_ends_the_process(behave: Behave, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(device: Device, desc: dml.OperatorDesc) -> None:
        raise OSError(f"exception: access violation reading 0x{id(desc):016X}")

    monkeypatch.setattr(Device, "check", check)
    (difference,) = compare("FILL_VALUE_CONSTANT", run=False).operators["FILL_VALUE_CONSTANT"].differences
    assert (difference.kind, difference.rule) == (Kind.ENDED, "creating it: a crash: exception: access violation reading")
    assert difference.count == command.MOST_ENDINGS


def test_endings_in_a_row_leave_the_rest_out(behave: Behave) -> None:
    behave(removes=[mock.operator("ELEMENT_WISE_IDENTITY")])
    found = compare("ELEMENT_WISE_IDENTITY").operators["ELEMENT_WISE_IDENTITY"]
    possible = len(runs(KINDS["ELEMENT_WISE_IDENTITY"], dml.FeatureLevel.FL_6_4))
    assert (found.runs, found.left_out) == (command.MOST_ENDINGS, possible - command.MOST_ENDINGS)
    assert found.both_accept > 10  # these are checked nevertheless


def test_more_descs_come_from_files(behave: Behave, tmp_path: Path) -> None:
    (tmp_path / "descs.json").write_text(json.dumps([marked("FILL_VALUE_CONSTANT").to_dict()]))
    counts = [
        compare("FILL_VALUE_CONSTANT", run=False, files=files).operators["FILL_VALUE_CONSTANT"].checked
        for files in ([], [tmp_path / "descs.json"])
    ]
    assert counts[1] == counts[0] + 1
    (tmp_path / "descs.json").write_text('[{"Type": "DML_OPERATOR_RNN", "Desc": {}}]')
    with pytest.raises(dml.DmlError, match=r"descs.json, desc 0: DML_RNN_OPERATOR_DESC"):
        compare(files=[tmp_path / "descs.json"])


def test_no_time_is_left(behave: Behave) -> None:
    found = compare("FILL_VALUE_CONSTANT", seconds=0.0).operators["FILL_VALUE_CONSTANT"]
    assert (found.checked, found.runs) == (0, 0)
    assert found.left_out > 50


RUN = ["LSTM", "GRU", "JOIN", "SPLIT", "BATCH_NORMALIZATION", "QUANTIZE", "TOP_K1"]


@pytest.mark.parametrize("name", RUN)
def test_results_arrive_as_computed(behave: Behave, name: str) -> None:
    rng = np.random.default_rng(5)
    descs = list(runs(KINDS[name], dml.FeatureLevel.FL_6_4))[:4]
    assert descs
    with Device(mock.Behaviour().libraries(), dml.FeatureLevel.FL_1_0) as device:
        for desc in descs:
            inputs = random_inputs(rng, desc)
            given = [None if slot.tensor is None else to_bytes(slot.tensor, inputs[slot.place]) for slot in desc.input_slots()]
            results = execution.run(device, desc, given)
            assert differing_outputs(desc, inputs, results) == []
            changed = [None if data is None else bytes(byte ^ 0x40 for byte in data) for data in results]
            assert len(differing_outputs(desc, inputs, changed)) == sum(data is not None for data in results)


def test_a_removed_device_is_reported(behave: Behave) -> None:
    desc = sample(KINDS["FILL_VALUE_CONSTANT"])
    found = mock.Behaviour(removes=[mock.operator("FILL_VALUE_CONSTANT")]).libraries()
    with Device(found, dml.FeatureLevel.FL_1_0) as device, pytest.raises(RemovedError, match="DXGI_ERROR_DEVICE_REMOVED"):
        execution.run(device, desc, [None] * len(desc.input_slots()))


@pytest.mark.parametrize(
    ("data_type", "strides"), [("FLOAT16", None), ("FLOAT16", (24, 2)), ("INT64", (1, 3)), ("UINT8", (5, 1)), ("UINT4", None)]
)
def test_bytes_of_tensors(data_type: str, strides: tuple[int, ...] | None) -> None:
    tensor = dml.TensorDesc(data_type=data_type, sizes=(3, 5), strides=strides)
    desc = sample(KINDS["ELEMENT_WISE_IDENTITY"]).replace(input_tensor=tensor, output_tensor=tensor)
    array = random_inputs(np.random.default_rng(1), desc)["input_tensor"]
    data = to_bytes(tensor, array)
    assert len(data) == tensor.extent_in_bytes
    np.testing.assert_array_equal(from_bytes(tensor, data), array)


def test_a_record_is_read_as_written(behave: Behave, tmp_path: Path) -> None:
    behave(wrong_results=[mock.operator("FILL_VALUE_CONSTANT")])
    record = compare("FILL_VALUE_CONSTANT")
    (tmp_path / "record.json").write_text(record.to_json())
    assert directml_records.read(tmp_path / "record.json") == record
    done = CliRunner().invoke(app, ["conformance", "--check", str(tmp_path / "record.json")])
    assert done.exit_code == 0
    assert Kind.RESULT.value in done.stdout
    assert str(tmp_path) not in record.to_json()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "the file: Input should be an object"),
        ("{}", "format: Field required"),
        ('{"format": 2}', "format: Input should be less than or equal to 1"),
        ("x", "the file: Invalid JSON: expected value at line 1 column 1"),
    ],
)
def test_what_is_no_record_has_one_clear_line(tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "record.json"
    file.write_text(text)
    with pytest.raises(dml.DmlError) as caught:
        directml_records.read(file)
    assert str(caught.value) == f"{file} is not a record of dmlpy conformance: {expected}"


def test_the_list_of_operators_shows_what_directml_says(behave: Behave) -> None:
    record = compare("FILL_VALUE_CONSTANT")
    older = record.model_copy(update={"directml_version": "1.2.3"})
    assert directml_records.summary("FILL_VALUE_CONSTANT", (record, older)).startswith("1.2.3.4: agrees in all ")
    assert directml_records.summary("RNN", (record,)) == ""
    behave(refuses=[mock.operator("FILL_VALUE_CONSTANT")])
    assert "differences in" in directml_records.summary("FILL_VALUE_CONSTANT", (compare("FILL_VALUE_CONSTANT", run=False),))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_operator_agrees_with_itself(behave: Behave, name: str) -> None:
    record = compare(name)
    found = record.operators[name]
    assert {difference.kind for difference in found.differences} <= {Kind.UNDOCUMENTED_ACCEPTED}
    assert command.is_clean(record)
    assert found.checked > 50
    assert found.runs_agree == found.runs > 0
