"""DxDispatch models: their text, their resources, and the files that they name."""

from __future__ import annotations

import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from dmlpy.dxdispatch import Folders, ModelError, load
from dmlpy.dxdispatch import text as model_text
from tests.support.dxdispatch.models import Data, lines_of, printed, problems_of, put, resource_model, rnn_model, write

# --- the text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, 2.5, "x"]}',
        '\ufeff  {"a": [1, 2.5, "x"]}',
        '{"a": [1, 2.5, "x"]} anything } at all',
        '// first\n{"a": /* inside */ [1, 2.5, "x",],\n // last\n} // after',
        '/**/{"a": [1,//,]\n2.5, "x", /* , */ ], } /* open',
    ],
)
def test_text_is_json_with_comments_and_trailing_commas(tmp_path: Path, text: str) -> None:
    document = model_text.read(write(tmp_path, text))
    assert (document.data, document.repeats, document.findings()) == ({"a": [1, 2.5, "x"]}, False, [])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ('{\n "a": [1,\n 2 3]}', "json.syntax", r"model\.json:3:4: file is not JSON \(expecting ',' del.*\n.*character 15, in '.*2 3\]}'"),
        ('// note\n{"a": /* 1\n2 */ nul}', "json.syntax", r"model\.json:3:6: file is not JSON \(expecting value\)"),
        ('{"a": 1 /* open', "json.syntax", r"model\.json:1:9: file is not JSON \(expecting ',' delimiter\)"),
        ("{'a': 1}", "json.syntax", r"model\.json:1:2: file is not JSON \(expecting property name enclosed in double quotes\)"),
        ('{"a": 1', "json.syntax", r"model\.json:1:8: file is not JSON \(the text ends, expecting ',' delimiter\)"),
        ("", "json.syntax", "empty"),
        ("[1, 2]", "json.root", "a JSON array, expected an object"),
        ("null", "json.root", "a JSON null, expected an object"),
        ("[" * 100_000, "json.depth", "nested too deeply"),
        ('{"a": ' * 65 + "1" + "}" * 65, "json.depth", "nested too deeply, expected at most 64"),
        ("// deep\n" + "[" * 20_000, "json.depth", "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "json.number", r"model\.json:1:7: file has a number of 5000 digits, expected at most 4300"),
    ],
)
def test_syntax_errors_name_the_place(tmp_path: Path, text: str, code: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        model_text.read(write(tmp_path, text))
    assert [problem.code for problem in caught.value.problems] == [code]
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_files_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "bytes.json").write_bytes(b'{"a": "\xff"}')
    (tmp_path / "wide.json").write_text("{}", encoding="utf-16")
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04\xff")
    for name, message in (
        ("bytes.json", "not UTF-8 at byte 7, expected UTF-8 text  .json.encoding.$"),
        ("wide.json", "UTF-16"),
        ("model.pt", r"file is a ZIP archive, expected a model.*  .file.format.\n.*remedy: take the file that is meant out of it"),
        ("absent.json", "missing"),
        (".", "a directory"),
    ):
        with pytest.raises(ModelError, match=message):
            model_text.read(tmp_path / name)


@pytest.mark.parametrize("text", ["/* no comment */", "// none", 'a \\" // quoted', "[1,]", "\\\\"])
def test_what_strings_hold_is_left_alone(text: str) -> None:
    data = {"values": [text, {text: 1}]}
    assert model_text.parse("// comment\n" + json.dumps(data)).data == data


@pytest.mark.parametrize("comment", ["", "// comment\n"])
def test_large_files_are_read(tmp_path: Path, comment: str) -> None:
    values = [0.25] * 1_000_000
    data = model_text.read(write(tmp_path, comment + json.dumps({"values": values}))).data
    assert data["values"] == values


def test_keys_given_twice_are_reported(tmp_path: Path) -> None:
    plain = json.dumps(rnn_model()).replace('"w": {', '"x": {', 1)
    for text in (plain, f"// with a comment\n{plain}"):
        problems = problems_of(tmp_path, text)
        assert ": 'x' [json.duplicate]" in problems
        assert "command at index 0: WeightTensor [bind.resource]" in problems


# --- resources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (
            {"initialValuesDataType": "FLOAT32", "initialValues": [1, 0.1, "inf", "-INF", "NaN", 1e6, 123456.7]},
            "1, 0.1, inf, -inf, nan, 1e+06, 123457",
        ),
        ({"initialValuesDataType": "DML_TENSOR_DATA_TYPE_FLOAT16", "initialValues": [0.1, -2, 65504]}, "0.0999756, -2, 65504"),
        ({"initialValuesDataType": "FLOAT64", "initialValues": [1e300, 1 / 3]}, "1e+300, 0.333333"),
        ({"initialValuesDataType": "UINT8", "initialValues": [65, 255]}, "65, 255"),
        ({"initialValuesDataType": "INT8", "initialValues": [-128, 127]}, "-128, 127"),
        ({"initialValuesDataType": "UINT16", "initialValues": [65535]}, "65535"),
        ({"initialValuesDataType": "INT16", "initialValues": [-32768]}, "-32768"),
        ({"initialValuesDataType": "UINT64", "initialValues": [2**64 - 1, 0]}, "18446744073709551615, 0"),
        ({"initialValuesDataType": "INT64", "initialValues": [-(2**63)]}, "-9223372036854775808"),
        ({"initialValuesDataType": "UINT4", "initialValues": [1, 15, 7]}, "1, 15, 7"),
        ({"initialValuesDataType": "INT4", "initialValues": [-8, 7, -1]}, "-8, 7, -1"),
        ({"initialValuesDataType": "INT32", "initialValues": {"valueCount": 3, "value": -7}}, "-7, -7, -7"),
        ({"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 4, "valueStart": 250, "valueDelta": 3}}, "250, 253, 0, 3"),
        ({"initialValuesDataType": "INT4", "initialValues": {"valueCount": 5, "valueStart": 6, "valueDelta": 1}}, "6, 7, -8, -7, -6"),
        ({"initialValuesDataType": "UINT4", "initialValues": {"valueCount": 3, "valueStart": 14, "valueDelta": 1}}, "14, 15, 0"),
        ({"initialValuesDataType": "FLOAT32", "initialValues": [1, 2], "sizeInBytes": 32, "initialValuesOffsetInBytes": 16}, "1, 2"),
    ],
)
def test_initial_values(tmp_path: Path, resource: Data, expected: str) -> None:
    assert printed(tmp_path, **resource) == expected


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64"])
def test_sequences_accumulate_in_the_type(tmp_path: Path, data_type: str) -> None:
    values = {"valueCount": 3000, "valueStart": 3.2, "valueDelta": 0.1}
    model = load(write(tmp_path, resource_model(initialValuesDataType=data_type, initialValues=values)))
    number = np.dtype(data_type.lower()).type
    wanted = [number(3.2)]
    for _ in range(2999):
        wanted.append(number(wanted[-1] + number(0.1)))
    resource = model.resources["x"]
    assert resource.values(resource.data().tobytes()).tolist() == [float(value) for value in wanted]


def test_four_bit_elements_share_bytes_the_first_in_the_low_half(tmp_path: Path) -> None:
    resource = load(write(tmp_path, resource_model(initialValuesDataType="INT4", initialValues=[1, -1, 7]))).resources["x"]
    assert (resource.data().tolist(), resource.size) == ([0xF1, 0x07], 4)


def test_struct_of_mixed_values_is_packed(tmp_path: Path) -> None:
    values = [{"name": "n", "type": "UINT8", "value": 7}, {"type": "FLOAT32", "value": 1.5}, {"type": "INT64", "value": -2}]
    data = resource_model(initialValues=values)
    data["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": "x.dat"}]
    lines_of(write(tmp_path, data), folders=Folders((tmp_path,), tmp_path))
    wanted = np.uint8(7).tobytes() + np.float32(1.5).tobytes() + np.int64(-2).tobytes()
    assert (tmp_path / "x.dat").read_bytes() == wanted + bytes(3)


@pytest.mark.usefixtures("removed_folder")
def test_a_model_runs_where_the_current_folder_is_removed(tmp_path: Path) -> None:
    assert printed(tmp_path, initialValuesDataType="FLOAT32", initialValues=[1.5, -2]) == "1.5, -2"
    data = resource_model(initialValuesDataType="FLOAT32", initialValues=[1.5])
    data["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": "x.dat"}]
    with pytest.raises(ModelError, match=r"(?s)below the current folder, which has been removed.*--output_path"):
        lines_of(write(tmp_path, data))


def test_memory_around_the_data_is_zero(tmp_path: Path) -> None:
    data = resource_model(initialValuesDataType="FLOAT16", initialValues=[1, 2, 3], initialValuesOffsetInBytes=4, sizeInBytes=16)
    data["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": "deep/er/x.bin"}]
    lines = lines_of(write(tmp_path, data), folders=Folders((tmp_path,), tmp_path))
    target = tmp_path / "deep" / "er" / "x.bin"
    assert lines == [f"Resource 'x' written to '{target}'"]
    assert target.read_bytes() == bytes(4) + np.array([1, 2, 3], np.float16).tobytes() + bytes(6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "<i8", ">f4", ">u2", "uint8"])
def test_npy_files_bring_their_type(tmp_path: Path, dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "x.npy", np.asfortranarray(array))
    assert printed(tmp_path, initialValues={"sourcePath": "x.npy"}) == "0, 1, 2, 3, 4, 5"


def test_raw_files_need_a_type(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(np.array([1.5, -2], np.float32).tobytes())
    assert printed(tmp_path, initialValuesDataType="FLOAT32", initialValues={"sourcePath": "x.dat"}) == "1.5, -2"
    assert "resource 'x': initialValuesDataType [field.missing]" in problems_of(
        tmp_path, resource_model(initialValues={"sourcePath": "x.dat"})
    )


def test_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [51, 102, 204]]], np.uint8)
    image.fromarray(pixels).save(tmp_path / "x.png")
    values = {"sourcePath": "x.png"}
    channels = [[1, 0, 0, 0.2], [0, 1, 0, 0.4], [0, 0, 1, 0.8]]
    wanted = ", ".join(f"{value:g}" for channel in channels for value in channel)
    assert printed(tmp_path, initialValuesDataType="FLOAT32", initialValues=values) == wanted
    data = resource_model(initialValuesDataType="FLOAT16", initialValues=values, resampleSize=[1, 4, 2, 2])
    data["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": "y.png", "dimensions": [1, 4, 2, 2]}]
    lines_of(write(tmp_path, data), folders=Folders((tmp_path,), tmp_path))
    with image.open(tmp_path / "y.png") as picture:
        copied = np.asarray(picture)
    assert copied.shape == (2, 2, 4)
    assert np.abs(copied[..., :3].astype(int) - pixels).max() <= 1
    assert (copied[..., 3] == 255).all()
    grey = put(data, "resources/x/resampleSize", [1, 1, 5, 3])
    grey["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": "z.jpg", "dimensions": [1, 1, 5, 3]}]
    lines_of(write(tmp_path, grey), folders=Folders((tmp_path,), tmp_path))
    with image.open(tmp_path / "z.jpg") as picture:
        assert (picture.mode, picture.size) == ("L", (3, 5))


def test_pictures_that_unpack_to_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.zeros((30, 40), np.uint8)).save(tmp_path / "x.png")
    data = resource_model(initialValuesDataType="FLOAT32", initialValues={"sourcePath": "x.png"})
    for most in (1000, 100):  # of which Pillow warns, and which it refuses
        monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", most)
        assert "resource 'x': initialValues.sourcePath [image.size]" in problems_of(tmp_path, data)


def test_pictures_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.png").write_bytes(b"never read")
    monkeypatch.setitem(sys.modules, "PIL", None)
    problems = problems_of(tmp_path, resource_model(initialValuesDataType="FLOAT32", initialValues={"sourcePath": "x.png"}))
    assert problems["resource 'x': initialValues.sourcePath [image.pillow]"].remedy == "pip install dmlpy[examples]"


WRONG_RESOURCES: list[tuple[Data, str]] = [
    ({"initialValues": [1]}, "initialValuesDataType [field.missing]"),
    ({"initialValuesDataType": "FLOAT32"}, "initialValues [field.missing]"),
    ({"initialValuesDataType": "FLOAT33", "initialValues": [1]}, "initialValuesDataType [field.form]"),
    ({"initialValuesDataType": 1, "initialValues": [1]}, "initialValuesDataType [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": []}, "initialValues [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": "later"}, "initialValues [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1, "x", True]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1, "x", True]}, "initialValues[2] [value.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [0, 1e39]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "FLOAT16", "initialValues": [0, 70000]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [0, 10**400]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "UINT8", "initialValues": [0, 256]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "UINT8", "initialValues": [0, -1]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "INT32", "initialValues": [0, 1.5]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "INT4", "initialValues": [0, 8]}, "initialValues[1] [value.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2}}, "initialValues [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": {"value": 2}}, "initialValues.valueCount [field.missing]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 0, "value": 2}}, "initialValues.valueCount [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2, "value": 2, "valueStart": 1}}, "initialValues [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2, "valueStart": 1}}, "initialValues.valueDelta [field.missing]"),
    (
        {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2**60, "value": 1}},
        "initialValues.valueCount [resource.memory]",
    ),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1], "sizeInBytes": 2**60}, "sizeInBytes [resource.memory]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1, 2], "sizeInBytes": 4}, "sizeInBytes [resource.size]"),
    (
        {"initialValuesDataType": "FLOAT32", "initialValues": [1], "sizeInBytes": 4, "initialValuesOffsetInBytes": 4},
        "sizeInBytes [resource.size]",
    ),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1], "sizeInBytes": -4}, "sizeInBytes [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1], "sizeInBytes": "4"}, "sizeInBytes [field.form]"),
    ({"initialValuesDataType": "FLOAT32", "initialValues": [1], "resampleMode": "crop"}, "resampleMode [field.form]"),
    ({"initialValues": [{"type": "FLOAT16", "value": 1}]}, "initialValues[0].type [field.form]"),
    ({"initialValues": [{"type": "UINT8", "value": 1}, {"type": "UINT8", "value": 300}]}, "initialValues[1].value [value.form]"),
    ({"initialValues": [{"type": "UINT8"}]}, "initialValues[0] [field.form]"),
    ({"initialValues": {"sourcePath": ""}}, "initialValues [field.form]"),
    ({"initialValues": {"sourcePath": "x.npy", "value": 1}}, "initialValues [field.form]"),
    ({"initialValues": {"sourcePath": "absent.npy"}}, "initialValues.sourcePath [file.missing]"),
    ({"initialValues": {"sourcePath": "a\0b"}}, "initialValues.sourcePath [file.name]"),
    ({"initialValues": {"sourcePath": "a" * 5000 + ".npy"}}, "initialValues.sourcePath [file.unreadable]"),
    ({"initialValues": {"sourcePath": "pickled.npy"}}, "initialValues.sourcePath [npy.pickle]"),
    ({"initialValues": {"sourcePath": "raw_pickle.npy"}}, "initialValues.sourcePath [npy.pickle]"),
    ({"initialValues": {"sourcePath": "cut.npy"}}, "initialValues.sourcePath [npy.damaged]"),
    ({"initialValues": {"sourcePath": "archive.npy"}}, "initialValues.sourcePath [npy.damaged]"),
    ({"initialValues": {"sourcePath": "complex.npy"}}, "initialValues.sourcePath [npy.type]"),
    ({"initialValues": {"sourcePath": "good.npy"}, "initialValuesDataType": "INT32"}, "initialValuesDataType [npy.type]"),
    ({"initialValues": {"sourcePath": "three.bin"}, "initialValuesDataType": "FLOAT32"}, "initialValues.sourcePath [resource.size]"),
    ({"initialValues": {"sourcePath": "three.png"}, "initialValuesDataType": "INT32"}, "initialValuesDataType [image.type]"),
    ({"initialValues": {"sourcePath": "three.png"}, "initialValuesDataType": "FLOAT32"}, "initialValues.sourcePath [image.damaged]"),
    (
        {"initialValues": {"sourcePath": "three.png"}, "initialValuesDataType": "FLOAT32", "resampleSize": [1, 2, 5, 5]},
        "resampleSize [image.size]",
    ),
    (
        {"initialValues": {"sourcePath": "three.png"}, "initialValuesDataType": "FLOAT32", "resampleSize": [1, 2, 5]},
        "resampleSize[3] [field.missing]",
    ),
]


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that models may name, most of them bad."""
    folder = tmp_path_factory.mktemp("files")
    np.save(folder / "good.npy", np.ones(3, np.float32))
    np.save(folder / "complex.npy", np.ones(3, np.complex64))
    np.save(folder / "pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    (folder / "raw_pickle.npy").write_bytes(pickle.dumps([1, 2]))
    (folder / "cut.npy").write_bytes((folder / "good.npy").read_bytes()[:-4])
    with (folder / "archive.npy").open("wb") as file:
        np.savez(file, a=np.ones(2))
    for name in ("three.bin", "three.png"):
        (folder / name).write_bytes(b"abc")
    return folder


@pytest.mark.parametrize(("resource", "wanted"), WRONG_RESOURCES)
def test_wrong_resources(data_folder: Path, resource: Data, wanted: str) -> None:
    if "three.png" in str(resource):
        pytest.importorskip("PIL.Image")
    problems = problems_of(data_folder, resource_model(**resource))
    assert f"resource 'x': {wanted}" in problems
    assert all(key.startswith("resource 'x': ") for key in problems)


# --- files stay in their folders ---------------------------------------------------------------------------------------


def test_input_files_stay_in_the_input_folders(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        np.save(folder / "x.npy", np.ones(2, np.float32))
    (inside / "link.npy").symlink_to(outside / "x.npy")
    (inside / "folder").symlink_to(outside, target_is_directory=True)
    escapes = ["../outside/x.npy", str(outside / "x.npy"), "link.npy", "folder/x.npy", "..\\outside\\x.npy", "x/../../outside/x.npy"]
    for name in escapes:
        assert "resource 'x': initialValues.sourcePath [file.outside]" in problems_of(
            inside, resource_model(initialValues={"sourcePath": name})
        ), name
    path = write(outside, resource_model(initialValues={"sourcePath": "../inside/x.npy"}))
    assert load(path, Folders((inside, tmp_path), tmp_path)).resources["x"].count == 2


def test_the_model_s_folder_comes_before_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, value in ((here, 1), (there, 2)):
        folder.mkdir()
        np.save(folder / "both.npy", np.full(1, value, np.float32))
    np.save(here / "only.npy", np.full(1, 3, np.float32))
    monkeypatch.chdir(here)
    assert printed(there, initialValues={"sourcePath": "both.npy"}) == "2"
    assert printed(there, initialValues={"sourcePath": "only.npy"}) == "3"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are files of POSIX")
def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npy")
    assert "resource 'x': initialValues.sourcePath [file.missing]" in problems_of(
        tmp_path, resource_model(initialValues={"sourcePath": "pipe.npy"})
    )


def test_output_files_stay_in_the_output_folder(tmp_path: Path) -> None:
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    outside.mkdir()
    (out / "link.npy").symlink_to(outside / "x.npy")
    (out / "folder").symlink_to(outside, target_is_directory=True)
    data = resource_model(initialValuesDataType="FLOAT32", initialValues=[1])
    for name in ("../outside/x.npy", str(outside / "x.npy"), "link.npy", "folder/x.npy", "a/../../outside/x.npy", ".", "..\\x.npy"):
        data["commands"] = [{"type": "writeFile", "resource": "x", "targetPath": name}]
        with pytest.raises(ModelError, match=r"file\.outside"):
            load(write(tmp_path, data), Folders((tmp_path,), out))
    assert list(outside.iterdir()) == []
