"""DxDispatch models: what is wrong with their operators, bindings and commands; running and timing them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlpy as dml
from dmlpy.dxdispatch import Folders, ModelError, RunError, RunOptions, load, run
from dmlpy.dxdispatch.commands import Dispatch
from dmlpy.dxdispatch.desc_check import check_desc
from dmlpy.dxdispatch.runner import stray_bytes
from dmlpy.dxdispatch.timing import Timings, split
from tests.support.dxdispatch.models import RNN_LINE, Data, lines_of, problems_of, put, resource_model, rnn_model, write
from tests.support.folders import EXAMPLES

# --- dispatchables, bindings, commands -----------------------------------------------------------------------------------


WRONG_MODELS: list[tuple[str, Any, str, str]] = [
    ("resources", None, ": resources [field.missing]", "missing"),
    ("commands", {}, ": commands [field.form]", "an array"),
    ("resources/x", 5, "resource 'x':  [field.form]", "an object"),
    ("dispatchables/rnn", [], "dispatchable 'rnn':  [field.form]", "an object"),
    ("dispatchables/rnn/type", "hlsl", "dispatchable 'rnn': type [dispatchable.kind]", "Direct3D"),
    ("dispatchables/rnn/type", "ONNX", "dispatchable 'rnn': sourcePath [field.missing]", "required"),
    ("dispatchables/rnn/type", "dmlSerializedGraph", "dispatchable 'rnn': sourcePath [field.missing]", "required"),
    ("dispatchables/rnn/type", "DML_OPERATOR_GEM", "dispatchable 'rnn': type [operator.unknown]", "did you mean DML_OPERATOR_GEMM"),
    ("dispatchables/rnn/type", "RNNN", "dispatchable 'rnn': type [operator.unknown]", "did you mean DML_OPERATOR_RNN"),
    ("dispatchables/rnn/type", None, "dispatchable 'rnn': type [field.missing]", "DML_OPERATOR_RNN"),
    ("dispatchables/rnn/dmlCompileType", "Fast", "dispatchable 'rnn': dmlCompileType [field.form]", "DmlCompileOp"),
    ("dispatchables/rnn/executionFlags", ["NONE", "FAST"], "dispatchable 'rnn': executionFlags [field.form]", "DISABLE_META_COMMANDS"),
    ("dispatchables/rnn/desc/Direction", "FORWARDS", "dispatchable 'rnn': direction [field.form]", "did you mean FORWARD"),
    ("dispatchables/rnn/desc/ActivationDescCount", 2, "dispatchable 'rnn': ActivationDescCount [count.length]", "1, the length"),
    (
        "dispatchables/rnn/desc/WeightTensor/GuaranteedBaseOffsetAlignment",
        4,
        "dispatchable 'rnn': weight_tensor.guaranteed_base_offset_alignment [strict.alignment]",
        "at least 16",
    ),
    ("dispatchables/rnn/desc/WeightTensor/Flags", ["OWNED_BY_DML"], "dispatchable 'rnn': weight_tensor.flags [flag.owned]", "prepare"),
    ("dispatchables/rnn/bindings", {"WeightTensor": "w"}, "dispatchable 'rnn': WeightTensor [bind.owned]", "dispatch command"),
    ("dispatchables/rnn/bindings", {"Weights": "w"}, "dispatchable 'rnn': Weights [bind.unknown]", "did you mean WeightTensor"),
    ("commands/0/type", "draw", "command at index 0: type [command.kind]", "dispatch, print or writeFile"),
    ("commands/0/type", "writeFiles", "command at index 0: type [command.kind]", "did you mean writeFile?"),
    ("commands/0", "dispatch", "command at index 0: type [command.kind]", "dispatch, print or writeFile"),
    ("commands/0/dispatchable", "rmn", "command at index 0: dispatchable [command.name]", "did you mean 'rnn'"),
    ("commands/0/bindings", None, "command at index 0: bindings [field.missing]", "required"),
    ("commands/0/bindings/InputTensor", "xx", "command at index 0: InputTensor [bind.resource]", "x, w, r, y"),
    ("commands/0/bindings/Input", "x", "command at index 0: Input [bind.unknown]", "did you mean InputTensor"),
    (
        "commands/0/bindings/InputTensor",
        None,
        "command at index 0: bind point InputTensor of dispatchable 'rnn' [bind.missing]",
        "bind point InputTensor of dispatchable 'rnn' is not bound",
    ),
    ("resources", {}, "command at index 0: InputTensor [bind.resource]", "'x', expected a resource of the file, which has none"),
    ("commands/0/bindings/BiasTensor", "w", "command at index 0: BiasTensor [bind.unexpected]", "null"),
    ("commands/0/bindings/InputTensor", ["x", "x"], "command at index 0: InputTensor [bind.count]", "2 resources, expected 1"),
    ("commands/0/bindings/InputTensor", "w", "command at index 0: InputTensor [bind.size]", "4 bytes of 'w', expected at least 16"),
    (
        "commands/0/bindings/InputTensor",
        {"name": "x", "elementOffset": 1},
        "command at index 0: InputTensor [bind.alignment]",
        "from byte 4 on, expected a multiple of 16",
    ),
    ("commands/0/bindings/InputTensor", {"name": "x", "elementOffset": 4}, "command at index 0: InputTensor [bind.size]", "below its 16"),
    (
        "commands/0/bindings/InputTensor",
        {"elementOffset": 4},
        "command at index 0: bindings.InputTensor[0].name [field.missing]",
        "missing",
    ),
    ("commands/0/bindings/OutputSequenceTensor", "x", "command at index 0: OutputSequenceTensor [hazard.in_place]", "never runs in place"),
    ("commands/1/resource", "yy", "command at index 1: resource [command.name]", "did you mean 'y'"),
    ("commands/1/verbose", 1, "command at index 1: verbose [field.form]", "boolean"),
    ("commands/1", {"type": "writeFile", "resource": "y"}, "command at index 1: targetPath [field.missing]", "missing"),
    (
        "commands/1",
        {"type": "writeFile", "resource": "y", "targetPath": "y.npy", "dimensions": [5]},
        "command at index 1: dimensions [command.dimensions]",
        "at most the 4",
    ),
    (
        "commands/1",
        {"type": "writeFile", "resource": "y", "targetPath": "y.npy", "dimensions": [2**40, 0, 2**40]},
        "command at index 1: dimensions [command.dimensions]",
        "sizes that an array can have",
    ),
    (
        "commands/1",
        {"type": "writeFile", "resource": "y", "targetPath": "y.png", "dimensions": [2, 2]},
        "command at index 1: dimensions [command.dimensions]",
        "[1, C, H, W]",
    ),
    (
        "commands/1",
        {"type": "writeFile", "resource": "y", "targetPath": "y.npy", "dimensions": [1] * 33},
        "command at index 1: dimensions [command.dimensions]",
        "at most 32",
    ),
]


@pytest.mark.parametrize(("place", "value", "wanted", "words"), WRONG_MODELS)
def test_wrong_models(tmp_path: Path, place: str, value: Any, wanted: str, words: str) -> None:
    problems = problems_of(tmp_path, put(rnn_model(), place, value))
    assert wanted in problems
    assert words in str(problems[wanted])


def test_all_problems_are_reported_together(tmp_path: Path) -> None:
    data = rnn_model()
    put(data, "resources/x/sizeInBytes", 3)
    put(data, "dispatchables/rnn/desc/WeightTensor/Sizes", [1, 2, 1, 1])
    data["dispatchables"]["other"] = {"type": "LSTN"}
    put(data, "commands/1/resource", "z")
    with pytest.raises(ModelError) as caught:
        load(write(tmp_path, data))
    assert [finding.place for finding in caught.value.findings] == [
        "resource 'x'",
        "dispatchable 'rnn'",
        "dispatchable 'other'",
        "command at index 1",
    ]
    assert "WeightTensor.Sizes[1] is 2, expected num_directions = 1" in str(caught.value)


def test_a_text_names_some_parts_and_the_error_all(tmp_path: Path) -> None:
    data = put(rnn_model(), "commands", [{"type": "print"}] * 60)
    with pytest.raises(ModelError) as caught:
        load(write(tmp_path, data))
    assert (len(caught.value.findings), len(caught.value.problems)) == (60, 60)
    assert str(caught.value).startswith(f"{caught.value.path}: 60 problems\n")
    *_, place, problem, rest = str(caught.value).splitlines()
    assert place == "command at index 49: 1 problem"
    assert re.fullmatch(re.escape(f"{caught.value.path}:1:") + r"\d+: resource is missing, expected .*  \[field\.missing\]", problem)
    assert rest == "and 10 more parts with problems"


def test_names_with_control_characters_stay_on_their_line(tmp_path: Path) -> None:
    data = put(rnn_model(), "dispatchables/rnn/desc/model_json\nno problems\x1b[2J", 1)
    with pytest.raises(ModelError) as caught:
        load(write(tmp_path, data))
    line = str(caught.value).splitlines()[1].partition(": ")[2]
    assert line.startswith("model_json\\nno problems\\x1b[2J is not a member of this struct")


def test_the_kind_of_a_resource(tmp_path: Path) -> None:
    assert load(write(tmp_path, put(rnn_model(), "resources/x/type", "buffer"))).warnings == ()
    problems = problems_of(tmp_path, put(rnn_model(), "resources/x/type", "texture"))
    assert set(problems) == {"resource 'x': type [field.form]"}


def test_a_type_among_the_members_is_not_the_operator(tmp_path: Path) -> None:
    data = put(rnn_model(), "dispatchables/rnn", {"type": "DML_OPERATOR_RANDOM_GENERATOR", "desc": {"Type": "PHILOX_4X32_10"}})
    problems = problems_of(tmp_path, data)
    assert "dispatchable 'rnn': input_state_tensor [field.missing]" in problems
    assert not any(key.startswith("dispatchable 'rnn': type") for key in problems)


def test_deferred_resources_have_no_memory(tmp_path: Path) -> None:
    data = put(rnn_model(), "resources/y", {"initialValues": "deferred"})
    problems = problems_of(tmp_path, data)
    assert set(problems) == {
        "command at index 0: OutputSequenceTensor [bind.deferred]",
        "command at index 1: resource [command.resource]",
    }
    unused = put(rnn_model(), "resources/z", {"initialValues": "deferred"})
    assert lines_of(write(tmp_path, unused))[-1] == RNN_LINE


def test_structs_are_not_printed(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, resource_model(initialValues=[{"type": "UINT8", "value": 1}]))
    assert "a struct of mixed values" in str(problems["command at index 0: resource [command.resource]"])


def test_owned_tensors_are_bound_at_initialisation(tmp_path: Path) -> None:
    tensor: Data = {"DataType": "FLOAT32", "Sizes": [4]}
    data = rnn_model()
    data["dispatchables"] = {
        "relu": {"type": "ACTIVATION_RELU", "desc": {"InputTensor": tensor | {"Flags": "OWNED_BY_DML"}, "OutputTensor": tensor}}
    }
    data["commands"] = [{"type": "dispatch", "dispatchable": "relu", "bindings": {"OutputTensor": "y"}}]
    missing = "dispatchable 'relu': bind point InputTensor of dispatchable 'relu' [bind.missing]"
    assert set(problems_of(tmp_path, data)) == {missing}
    put(data, "dispatchables/relu/bindings", {"InputTensor": "x"})
    assert load(write(tmp_path, data)).dispatchables["relu"].owned["input_tensor"].resource.name == "x"


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("spelling", ["type", "Type"])
def test_desc_next_to_the_type_or_nested(tmp_path: Path, any_device: dml.Device, inline: bool, spelling: str) -> None:
    data = rnn_model()
    entry = data["dispatchables"]["rnn"]
    members: Data = entry["desc"] if inline else {"Desc": entry["desc"]}
    data["dispatchables"]["rnn"] = {spelling: "DML_OPERATOR_RNN"} | members
    assert lines_of(write(tmp_path, data), any_device)[-1] == RNN_LINE


def test_bindings_take_parts_of_resources(tmp_path: Path, any_device: dml.Device) -> None:
    data = put(rnn_model(), "resources/x/initialValues", [0, 0, 0, 0, 1, 2, 3, 4])
    put(data, "resources/w", {"initialValuesDataType": "FLOAT32", "initialValues": [0.5], "initialValuesOffsetInBytes": 48})
    put(data, "commands/0/bindings/InputTensor", {"name": "x", "elementOffset": 4, "elementCount": 4})
    put(data, "commands/0/bindings/WeightTensor", [{"name": "w", "elementOffset": 3, "elementStride": 16}])
    put(data, "commands/0/type", "DISPATCH")
    assert lines_of(write(tmp_path, data), any_device)[-1] == RNN_LINE


def test_an_array_of_tensors_is_one_bind_point(tmp_path: Path) -> None:
    def sized(*sizes: int) -> Data:
        return {"DataType": "FLOAT32", "Sizes": list(sizes)}

    data = rnn_model()
    put(data, "resources/x/initialValues", list(range(8)))
    put(data, "resources/y/initialValues/valueCount", 7)
    join = {"InputTensors": [sized(4), sized(2), sized(1)], "InputCount": 3, "OutputTensor": sized(7), "Axis": 0}
    data["dispatchables"] = {"join": {"type": "JOIN", "desc": join}}
    sources: Any = ["x", {"name": "x", "elementOffset": 4}, "w"]
    data["commands"] = [{"type": "dispatch", "dispatchable": "join", "bindings": {"InputTensors": sources, "OutputTensor": "y"}}]
    dispatch = load(write(tmp_path, data)).commands[0].action
    assert isinstance(dispatch, Dispatch)
    found = {place: (held.resource.name, held.offset) for place, held in dispatch.bindings.items()}
    assert found == {"input_tensors[0]": ("x", 0), "input_tensors[1]": ("x", 16), "input_tensors[2]": ("w", 0), "output_tensor": ("y", 0)}
    place = "commands/0/bindings/InputTensors"
    for value, wanted, words in [
        (sources[:2], "InputTensors [bind.count]", "2 resources, expected 3, as many"),
        ("x", "InputTensors [bind.count]", "1 resource, expected 3"),
        (["w", *sources[1:]], "InputTensors[0] [bind.size]", "4 bytes of 'w', expected at least 16"),
        ([*sources[:2], "no"], "InputTensors[2] [bind.resource]", "'no', expected a resource of the file"),
        (["y", *sources[1:]], "OutputTensor [hazard.in_place]", "memory that InputTensors[0] uses too"),
    ]:
        (problem,) = problems_of(tmp_path, put(data, place, value)).items()
        assert problem[0] == f"command at index 0: {wanted}"
        assert words in str(problem[1])
    missing = [key.removeprefix("command at index 0: bind point ") for key in problems_of(tmp_path, put(data, place, None))]
    assert missing == [f"InputTensors[{index}] of dispatchable 'join' [bind.missing]" for index in range(3)]


def test_what_means_nothing_is_a_warning(tmp_path: Path) -> None:
    data = put(rnn_model(), "resources/x/sizeInByte", 64)
    put(data, "dispatchables/rnn/colour", "red")
    put(data, "commands/1/verbos", True)
    put(data, "commands/0/threadGroupCount", [1, 1, 1])
    data["$schema"] = "./_schema.json"
    path = write(tmp_path, json.dumps(data, indent=1))
    lines = path.read_text(encoding="utf-8").splitlines()
    told = []
    for warning in load(path).warnings:
        (position,) = warning.positions
        assert lines[position.line - 1][position.column - 1 :].startswith(f'"{warning.problems[0].path}": ')
        told += [text.partition(": ")[2] for text in warning.sentences("model.json")]
    assert told == [
        "resource 'x': sizeInByte is not used here; did you mean sizeInBytes?",
        "dispatchable 'rnn': colour is not used here; move the struct's members into desc",
        "command at index 0: threadGroupCount is not used here; leave it out: it is for shaders",
        "command at index 1: verbos is not used here; did you mean verbose?",
    ]


# --- running ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("rnn", {"output": [18, 34, 50, 66, 82]}),
        (
            "lstm",
            {
                "sequence": [
                    *(0.28828835, 0.36581863, 0.45679406, 0.34526032, 0.47220859, 0.55850911),
                    *(0.84196719, 0.89402526, 0.91073048, 0.85882828, 0.90703777, 0.92382453),
                ],
                "cell state": [1.27731147, 1.44181041, 1.53179041, 1.3249796, 1.51063104, 1.61451544],
            },
        ),
        ("gru", {"last": [0.560537, 0.636237, 0.484689, 0.531893, 0.125, -0.125]}),
    ],
)
def test_examples_give_known_results(any_device: dml.Device, name: str, wanted: dict[str, list[float]]) -> None:
    lines = lines_of(EXAMPLES / f"{name}.json", any_device)
    found = {
        match[1]: [float(value) for value in match[2].split(", ")] for line in lines if (match := re.match(r"Resource '(.*)': (.*)", line))
    }
    for resource, values in wanted.items():
        assert found[resource][: len(values)] == pytest.approx(values, rel=1e-5)


def test_the_gru_example_agrees_with_the_equations() -> None:
    x = (-1.2 + 0.1 * np.arange(24)).reshape(4, 3, 2)
    w = (0.6 - 0.1 * np.arange(12)).reshape(3, 2, 2)
    r = (-0.3 + 0.05 * np.arange(12)).reshape(3, 2, 2)
    h = np.array([[0.5, -0.5], [0.25, -0.25], [0.125, -0.125]])
    sequence = np.zeros((4, 3, 2))
    for b, length in enumerate((4, 2, 0)):
        for t in reversed(range(length)):
            z, reset = (1 / (1 + np.exp(-(w[gate] @ x[t, b] + r[gate] @ h[b] + 0.2))) for gate in (0, 1))
            h[b] = (1 - z) * np.tanh(w[2] @ x[t, b] + reset * (r[2] @ h[b] + 0.1) + 0.1) + z * h[b]
            sequence[t, b] = h[b]
    lines = lines_of(EXAMPLES / "gru.json")
    printed_values = [[float(value) for value in line.partition(": ")[2].split(", ")] for line in lines[1:]]
    assert printed_values[0] == pytest.approx(sequence.ravel().tolist(), abs=2e-6)
    assert printed_values[1] == pytest.approx(h.ravel().tolist(), abs=2e-6)


def test_console_output_of_one_dispatch(tmp_path: Path) -> None:
    put(data := rnn_model(), "commands/1/verbose", True)
    lines = lines_of(write(tmp_path, data), iterations=3)
    assert re.fullmatch(r"Dispatch 'rnn': 3 iterations, \d+\.\d{4} ms median \(CPU\)", lines[0])
    assert lines[1:] == [
        "Resource 'y':",
        "[0] 0.5 (0x3F000000)",
        "[1] 2 (0x40000000)",
        "[2] 5.5 (0x40B00000)",
        "[3] 13 (0x41500000)",
    ]


def test_verbose_print_pads_indices_and_bits(tmp_path: Path) -> None:
    data = put(resource_model(initialValuesDataType="INT16", initialValues=list(range(-2, 8))), "commands/0/verbose", True)
    lines = lines_of(write(tmp_path, data))
    assert lines[:4] == ["Resource 'x':", "[ 0] -2 (0xFFFE)", "[ 1] -1 (0xFFFF)", "[ 2] 0 (0x   0)"]
    nibbles = put(resource_model(initialValuesDataType="INT4", initialValues=[-1, 3]), "commands/0/verbose", True)
    assert lines_of(write(tmp_path, nibbles))[1:] == ["[0] -1 (0xF)", "[1] 3 (0x3)"]


def test_npy_output_has_the_real_count_and_the_asked_shape(tmp_path: Path) -> None:
    data = resource_model(initialValuesDataType="FLOAT16", initialValues=[1, 2, 3, 4, 5])
    files: list[Data] = [{"targetPath": "flat.npy"}, {"targetPath": "two.npy", "dimensions": [2, 1, 2]}]
    data["commands"] = [{"type": "writeFile", "resource": "x", **file} for file in files]
    lines_of(write(tmp_path, data), folders=Folders((tmp_path,), tmp_path))
    flat, two = np.load(tmp_path / "flat.npy"), np.load(tmp_path / "two.npy")
    assert (flat.dtype, flat.tolist()) == (np.float16, [1, 2, 3, 4, 5])
    assert two.tolist() == [[[1, 2]], [[3, 4]]]
    assert (tmp_path / "flat.npy").read_bytes()[6:8] == b"\x01\x00"


def test_a_failing_command_stops_the_run(tmp_path: Path) -> None:
    data = rnn_model()
    put(data, "resources/lengths", {"initialValuesDataType": "UINT32", "initialValues": [5]})
    put(data, "dispatchables/rnn/desc/SequenceLengthsTensor", {"DataType": "UINT32", "Sizes": [1, 1, 1, 1]})
    put(data, "commands/0/bindings/SequenceLengthsTensor", "lengths")
    model = load(write(tmp_path, data))
    lines: list[str] = []
    with pytest.raises(RunError, match=r"command at index 0 failed[^$]*SequenceLengthsTensor\[0\] is 5, expected 0 to 4"):
        run(model, dml.device("numpy"), RunOptions(print_commands=True), inform=lines.append)
    assert lines[0].startswith('[StartCmd][0000]\t: {"type":"dispatch",')
    assert lines[1].startswith("[EndCmd][0000]\t: hr=0x80070057 ")
    assert len(lines) == 2


def test_a_file_that_cannot_be_written_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("a file where a folder would have to be")
    data = resource_model(initialValuesDataType="FLOAT32", initialValues=[1])
    data["commands"].insert(0, {"type": "writeFile", "resource": "x", "targetPath": "x/x.dat"})
    lines: list[str] = []
    with pytest.raises(RunError, match="command at index 0 failed"):
        run(load(write(tmp_path, data), Folders((tmp_path,), tmp_path)), dml.device("numpy"), inform=lines.append)
    assert lines == []


def test_a_pipe_that_has_ended_is_no_failure_of_the_command(tmp_path: Path) -> None:
    def broken(line: str) -> None:
        raise BrokenPipeError(line)

    model = load(write(tmp_path, resource_model(initialValuesDataType="FLOAT32", initialValues=[1])))
    with pytest.raises(BrokenPipeError, match="Resource 'x': 1"):
        run(model, dml.device("numpy"), inform=broken)


def test_operators_that_a_device_does_not_run_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = dml.device("numpy")
    plan = type(device).plan

    def without_activations(device: Any, desc: dml.OperatorDesc, flags: dml.ExecutionFlags) -> Any:
        return None if isinstance(desc, dml.ActivationDesc) else plan(device, desc, flags)

    monkeypatch.setattr(type(device), "plan", without_activations)
    data = rnn_model()
    for number, kind in enumerate(("ACTIVATION_HARDMAX1", "ACTIVATION_SOFTMAX1")):
        # A unique element count: a compiled operator of another test is not found in the cache.
        tensor = {"DataType": "FLOAT32", "Sizes": [4111 + number]}
        data["dispatchables"][kind] = {"type": kind, "desc": {"InputTensor": tensor, "OutputTensor": tensor, "Axes": [0]}}
    with pytest.raises(dml.CompileError) as caught:
        lines_of(write(tmp_path, data))
    assert [problem.code for problem in caught.value.problems] == ["operator.not_built"] * 2
    assert "DML_OPERATOR_ACTIVATION_SOFTMAX1" in str(caught.value)
    assert "dispatchable 'ACTIVATION_HARDMAX1'" in str(caught.value)


def test_feature_level_is_a_cap(tmp_path: Path) -> None:
    data = put(rnn_model(), "dispatchables/rnn/desc/ActivationDescs", [{"Type": "ACTIVATION_GELU"}])
    path = write(tmp_path, data)
    load(path)
    with pytest.raises(ModelError, match=r"level\.operator"):
        load(path, feature_level=dml.FeatureLevel.FL_5_0)


# --- timing, debugging ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "warmup", "sizes"), [(0, 2, (0, 0)), (1, 2, (0, 1)), (2, 2, (1, 1)), (3, 2, (2, 1)), (5, 2, (2, 3)), (5, 0, (0, 5))]
)
def test_samples_split_into_cold_and_hot(count: int, warmup: int, sizes: tuple[int, int]) -> None:
    cold, hot = split(list(range(count)), warmup)
    assert (len(cold), len(hot)) == sizes


def test_timing_lines() -> None:
    timings = Timings(warmup=1, capacity=3)
    for cpu, gpu in ((9, 0.9), (2, 0.2), (4, 0.4), (3, 0.3)):
        timings.add(cpu, gpu)
    assert list(timings.lines("gemm", 0)) == ["Dispatch 'gemm': 4 iterations, 3.0000 ms median (CPU), 0.300000 ms median (GPU)"]
    assert list(timings.lines("gemm", 2)) == [
        "Dispatch 'gemm': 4 iterations",
        "CPU Timings (Cold) : 1 sample, 9.0000 ms average, 9.0000 ms min, 9.0000 ms median, 9.0000 ms max",
        "CPU Timings (Hot)  : 3 samples, 3.0000 ms average, 2.0000 ms min, 3.0000 ms median, 4.0000 ms max",
        "GPU Timings (Hot)  : 3 samples, 0.3000 ms average, 0.2000 ms min, 0.3000 ms median, 0.4000 ms max",
        "GPU samples buffer has 1 samples overwritten.",
        "The timings of each iteration: ",
        "iteration 0: 9.0000 ms (CPU)",
        "iteration 1: 2.0000 ms (CPU), 0.2000 ms (GPU)",
        "iteration 2: 4.0000 ms (CPU), 0.4000 ms (GPU)",
        "iteration 3: 3.0000 ms (CPU), 0.3000 ms (GPU)",
    ]


def test_timing_options(tmp_path: Path) -> None:
    path = write(tmp_path, rnn_model())
    many = lines_of(path, milliseconds=30, iterations=1, verbosity=1)
    assert many[0].startswith("Initialize 'rnn': ")
    assert int(many[1].split()[2]) > 1
    few = lines_of(path, milliseconds=30, interval=20, repeat=2)
    assert few[0].startswith("Dispatch 'rnn': 2 iterations") or few[0].startswith("Dispatch 'rnn': 1 iteration,")


def test_debug_warns_of_nan(tmp_path: Path, any_device: dml.Device) -> None:
    data = put(rnn_model(), "resources/x/initialValues", [1, "nan", 3, 4])
    assert lines_of(write(tmp_path, data), any_device, debug=True)[0] == "OutputSequenceTensor of dispatchable 'rnn' has 3 NaN values"
    assert lines_of(write(tmp_path, rnn_model()), any_device, debug=True)[-1] == RNN_LINE


def test_stray_bytes_lie_outside_the_described_elements() -> None:
    tensor = dml.TensorDesc(data_type="FLOAT16", sizes=[2, 2], strides=[4, 1])
    before = bytes(32)
    after = np.zeros(32, np.uint8)
    after[[16, 17, 18, 19, 24, 27]] = 1
    assert stray_bytes(before, after.tobytes(), [(16, tensor)]).size == 0
    after[[20, 28]] = 1
    assert stray_bytes(before, after.tobytes(), [(16, tensor)]).tolist() == [20, 28]


# --- all problems of one desc ---------------------------------------------------------------------------------------------


def lstm_data() -> Data:
    desc = dml.LSTMDesc(
        input_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 2, 3, 4]),
        weight_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 20, 4]),
        recurrence_tensor=dml.TensorDesc(data_type="FLOAT32", sizes=[1, 1, 20, 5]),
        activation_descs=[dml.ActivationSigmoidDesc(), dml.ActivationTanhDesc(), dml.ActivationTanhDesc()],
        direction="FORWARD",
        clip_threshold=math.inf,
        use_clip_threshold=True,
    )
    return desc.with_outputs().to_dict()


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        # A member that cannot be read hides nothing that does not depend on it ...
        (
            {"Direction": "UP", "RecurrenceTensor/Sizes": [1, 1, 20, 6]},
            [("RecurrenceTensor.Sizes[3]", "size.equal"), ("Direction", "field.form")],
        ),
        (
            {"InputTensor/DataType": "FLOAT31", "WeightTensor/Sizes": [1, 1, 21, 4]},
            [("InputTensor.DataType", "field.form"), ("WeightTensor.Sizes[2]", "size.equal")],
        ),
        ({"InputTensor": None, "BiasTensor": 5}, [("InputTensor", "field.missing"), ("BiasTensor", "field.form")]),
        # ... and its fakes add nothing.
        ({"Direction": None}, [("Direction", "field.missing")]),
        ({"ClipThreshold": "big"}, [("ClipThreshold", "field.form")]),
        ({"ClipThreshold": None}, [("ClipThreshold", "field.missing")]),
        ({"UseClipThreshold": "yes", "ClipThreshold": 0}, [("UseClipThreshold", "field.form")]),
        (
            {"ActivationDescs": [{"Type": "ACTIVATION_TANH"}, {"Type": "TANHH"}], "ActivationDescCount": None},
            [("ActivationDescs[1].Type", "operator.unknown")],
        ),
        (
            {"OutputSequenceTensor": None, "OutputCellSingleTensor": None, "OutputSingleTensor/DataType": "FLOAT"},
            [("OutputSingleTensor.DataType", "field.form")],
        ),
        # Members of a tensor that cannot be read and misspelt ones are passed over: the rest of it is checked.
        (
            {"InputTensor/DataType": "FLOAT31", "InputTensor/Sizes": [2, 2, 3, 9]},
            [("InputTensor.DataType", "field.form"), ("InputTensor.Sizes[0]", "size.equal"), ("WeightTensor.Sizes[3]", "size.equal")],
        ),
        (
            {"BiasTensor": {"Sizes": [1, 1, 1, 39]}},
            [("BiasTensor.DataType", "field.missing"), ("BiasTensor.Sizes[3]", "size.equal")],
        ),
        (
            {"InputTensor/Strides": ["a"], "InputTensor/Sizes": [2, 2, 3, 4]},
            [("InputTensor.Sizes[0]", "size.equal"), ("InputTensor.Strides[0]", "field.form")],
        ),
        (
            {"InputTensor/Strade": [1], "InputTensor/Sizes": [2, 2, 3, 4]},
            [("InputTensor.Strade", "field.unknown"), ("InputTensor.Sizes[0]", "size.equal")],
        ),
    ],
)
def test_problems_of_form_and_of_rules_are_one_list(changes: Data, wanted: list[tuple[str, str]]) -> None:
    judge(lstm_data(), changes, wanted)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"FusedActivation": "DML_OPERATOR_ACTIVATION_RELU"}, [("FusedActivation", "field.form")]),
        ({"FusedActivation": [{"Type": "ACTIVATION_RELU"}]}, [("FusedActivation", "field.form")]),
        ({"FusedActivation": {"Type": "ACTIVATION_RELUU"}}, [("FusedActivation.Type", "operator.unknown")]),
        ({"FusedActivation": {"Type": "GRU"}}, [("FusedActivation.Type", "field.form")]),
        (
            {"FusedActivation": {"Type": "ACTIVATION_ELU", "Desc": {"Alfa": 1}}},
            [("FusedActivation.Alfa", "field.unknown"), ("FusedActivation.Alpha", "field.missing")],
        ),
        (
            {"FusedActivation": {"Type": "ACTIVATION_ELU", "Alpha": "x"}, "ScaleTensor/Sizes": [1, 7, 1, 1], "Epsilon": "small"},
            [("FusedActivation.Alpha", "field.form"), ("ScaleTensor.Sizes[1]", "statistics_sizes"), ("Epsilon", "field.form")],
        ),
    ],
)
def test_a_fused_activation_that_cannot_be_read(changes: Data, wanted: list[tuple[str, str]]) -> None:
    statistics = {
        f"{name}_tensor": dml.TensorDesc(data_type="FLOAT32", sizes=[1, 3, 1, 1]) for name in ("mean", "variance", "scale", "bias")
    }
    image = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 3, 4, 5])
    judge(dml.BatchNormalizationDesc(input_tensor=image, **statistics).with_outputs().to_dict(), changes, wanted)


def test_sizes_that_some_axis_would_allow_are_right_beside_an_axis_that_cannot_be_read() -> None:
    sizes = {
        "indices_tensor": ("UINT32", [1, 1, 1, 4]),
        "values_tensor": ("FLOAT16", [1, 1, 1, 2]),
        "output_tensor": ("FLOAT32", [1, 1, 4, 5]),
    }
    tensors = {name: dml.TensorDesc(data_type=kind, sizes=of) for name, (kind, of) in sizes.items()}
    data = dml.OneHotDesc(**tensors, axis=2).to_dict()  # right along dimension 2, the axis
    judge(data, {"Axis": "two"}, [("Axis", "field.form"), ("OutputTensor.DataType", "type.equal")])


def test_a_member_that_another_interface_has_is_read_as_none() -> None:
    channels = dml.TensorDesc(data_type="FLOAT32", sizes=[3])
    image = dml.TensorDesc(data_type="FLOAT32", sizes=[2, 4, 5, 3])
    data = dml.FusedBatchNormV3Desc(x=image, scale=channels, offset=channels, y=image).to_dict()
    put(data, "Desc/ReserveSpace3", {"DataType": "FLOAT32", "Sizes": [9]})
    (problem,) = check_desc(data).problems
    assert (problem.c_path, problem.code) == ("ReserveSpace3", "field.unknown")


def judge(data: Data, changes: Data, wanted: list[tuple[str, str]]) -> None:
    for place, value in changes.items():
        put(data, f"Desc/{place}", value)
    examined = check_desc(data)
    assert sorted((problem.c_path, problem.code) for problem in examined.problems) == sorted(wanted)
    assert (examined.desc is None) == any(code.startswith(("field", "operator")) for _, code in wanted)
    if wanted:
        assert examined.table is not None
        assert {examined.table.rows[row][0] for row in examined.table.marked} == {path.split(".")[0].split("[")[0] for path, _ in wanted}
