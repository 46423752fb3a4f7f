"""Weights of products leave memory once a device has packed them, and are read again from the file where they are needed."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import dmlpy as dml
from dmlpy import onnx
from dmlpy.onnx.loading import separate_weights, stored_weights
from dmlpy.onnx.loading.stored_weights import StoredWeight, WeightFile
from tests.support.onnx.models import model

pytestmark = pytest.mark.skipif(not stored_weights.CAN_READ_AGAIN, reason="this system does not read at a place of an open file")
WIDTH = 128


@pytest.fixture(autouse=True)
def every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of small files are read apart too."""
    monkeypatch.setattr(separate_weights, "_LEAST_FILE", 0)


def network() -> ModelProto:
    """Products whose weights only they read, one of them in two places, and one whose weights another node reads, too."""
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((WIDTH, WIDTH), np.float32) / WIDTH for name in ("first", "twice", "turned", "added")}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"]),
        helper.make_node("MatMul", ["a", "twice"], ["b"]),
        helper.make_node("Gemm", ["b", "turned"], ["c"], transB=1),
        helper.make_node("MatMul", ["c", "twice"], ["d"]),
        helper.make_node("MatMul", ["d", "added"], ["e"]),
        helper.make_node("Gather", ["added", "place"], ["row"]),
        helper.make_node("Add", ["e", "row"], ["y"]),
    ]
    return model(nodes, {"x": ["rows", WIDTH]}, ["y"], constants={**weights, "place": np.int64(0)})


STORED = ["first", "turned", "twice"]


def written(folder: Path, *, outside: bool, values: float = 1.0) -> tuple[ModelProto, Path]:
    """A model and its file, with the weights in it or in another one."""
    made = network()
    own, path = ModelProto.FromString(made.SerializeToString()), folder / "model.onnx"
    data = b""
    for tensor in own.graph.initializer[:4]:
        raw = (values * numpy_helper.to_array(tensor)).tobytes()
        tensor.raw_data = raw
        if outside:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights"), ("offset", len(data)), ("length", len(raw))):
                tensor.external_data.add(key=key, value=str(value))
            data += raw
    if outside:
        (folder / "weights").write_bytes(data)
    path.write_bytes(own.SerializeToString())
    return made, path


def stored(loaded: onnx.Model) -> dict[str, StoredWeight]:
    return {weight.name: weight for _, weight in loaded.loaded._stored.values()}


def run(compiled: Any, rows: int) -> Any:
    return compiled({"x": np.random.default_rng(rows).standard_normal((rows, WIDTH), np.float32)})["y"]


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the weights that are read again from now on."""
    found: list[str] = []
    read = WeightFile.read

    def watched(self: WeightFile, name: str, offset: int, count: int) -> Any:
        found.append(name)
        return read(self, name, offset, count)

    monkeypatch.setattr(WeightFile, "read", watched)
    return found


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("change", ["none", "deleted", "replaced"])
def test_packed_weights_are_read_again_where_they_are_needed(
    outside: bool, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for other sizes, which share the packed ones; and from the file that was loaded, whatever has its name now."""
    made, path = written(tmp_path, outside=outside)
    loaded, again = onnx.load(path), reads_of(monkeypatch)
    compiled, expected = loaded.compile("cpu"), onnx.load(made).compile("cpu")
    for rows in (40, 64, 64, 50):
        assert run(compiled, rows).tobytes() == run(expected, rows).tobytes()
    assert sorted(stored(loaded)) == STORED
    assert all(weight._elements is None and weight._known() is None for weight in stored(loaded).values())
    assert sorted(again) == (STORED if outside else [])  # external data is read when it is first needed, once
    again.clear()
    file = tmp_path / "weights" if outside else path
    if change != "none":
        file.unlink()
    if change == "replaced":
        written(tmp_path, outside=outside, values=2.0)
    x = {"x": np.random.default_rng(5).standard_normal((5, WIDTH), np.float32)}
    assert loaded.compile("numpy")(x)["y"].tobytes() == onnx.load(made).compile("numpy")(x)["y"].tobytes()
    assert sorted(set(again)) == STORED
    assert compiled.compare("reference", x).first is None
    assert run(compiled, 40).tobytes() == run(expected, 40).tobytes()


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("cut", [False, True])
def test_an_overwritten_file_is_reported(outside: bool, cut: bool, tmp_path: Path) -> None:
    """Where it would be read again; what is compiled runs on."""
    made, path = written(tmp_path, outside=outside)
    loaded = onnx.load(path)
    compiled, expected = loaded.compile("cpu"), onnx.load(made).compile("cpu")
    run(compiled, 40)
    file = tmp_path / "weights" if outside else path
    with file.open("r+b") as held:
        held.truncate(1000 if cut else file.stat().st_size + 1)
    with pytest.raises(dml.DescError, match="overwritten since the model was loaded") as caught:
        run(loaded.compile("numpy"), 3)
    assert "load the model again" in str(caught.value)
    for rows in (40, 50):
        assert run(compiled, rows).tobytes() == run(expected, rows).tobytes()


def test_a_weight_is_freed_before_the_next_one_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a model is never in memory twice as a whole."""
    _, path = written(tmp_path, outside=False)
    loaded = onnx.load(path, sizes={"rows": 40})
    left: list[int] = []
    release = StoredWeight.release

    def watched(self: StoredWeight) -> None:
        release(self)
        left.append(sum(weight._elements is not None for weight in stored(loaded).values()))

    monkeypatch.setattr(StoredWeight, "release", watched)
    loaded.compile("cpu")
    assert left == [2, 1, 0, 0, 0, 0]  # as they are packed, and once more when all are


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loaded: pickle.loads(pickle.dumps(loaded))])
def test_a_copy_of_a_model_has_its_weights(copied: Any, compiled_before: bool, outside: bool, tmp_path: Path) -> None:
    """In memory: the file belongs to the other one, which may be gone."""
    made, path = written(tmp_path, outside=outside)
    loaded = onnx.load(path)
    if compiled_before:
        loaded.compile("numpy")
    own = copied(loaded)
    del loaded
    assert run(own.compile("numpy"), 3).tobytes() == run(onnx.load(made).compile("numpy"), 3).tobytes()


def test_what_reads_a_weight_otherwise_holds_it(tmp_path: Path) -> None:
    """Whatever an array has that a stored weight has not is the array's, which stays then."""
    made, path = written(tmp_path, outside=False)
    loaded = onnx.load(path)
    loaded.compile("cpu")
    weight = stored(loaded)["first"]
    given = numpy_helper.to_array(next(item for item in made.graph.initializer if item.name == "first"))
    assert (weight.shape, weight.dtype, weight.ndim, weight.size, weight.nbytes) == (
        given.shape,
        given.dtype,
        given.ndim,
        given.size,
        given.nbytes,
    )
    assert not hasattr(weight, "_nothing")
    assert weight._elements is None
    assert weight.T.tobytes() == given.T.tobytes()
    assert np.array_equal(weight, given)
    assert np.array_equal(weight[0], given[0])
    assert len([*weight]) == len(weight) == WIDTH
    weight.release()
    assert weight._elements is not None
    assert loaded.loaded.holds(weight.T)


def no_descriptor(*arguments: Any) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(("owner", "name", "value"), [(stored_weights, "_SHARE_OF_DESCRIPTORS", 1 << 62), (os, "dup", no_descriptor)])
def test_weights_stay_in_memory_where_no_more_files_may_be_open(
    outside: bool, owner: Any, name: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with many models keeps most of the files that it may open for itself."""
    made, path = written(tmp_path, outside=outside)
    monkeypatch.setattr(owner, name, value)
    loaded = onnx.load(path)
    assert run(loaded.compile("numpy"), 3).tobytes() == run(onnx.load(made).compile("numpy"), 3).tobytes()
    assert not stored(loaded)


def test_files_are_closed_with_their_models(tmp_path: Path) -> None:
    _, path = written(tmp_path, outside=False)
    gc.collect()  # models of other tests
    before = len(stored_weights._open_files)
    loaded = onnx.load(path)
    assert len(stored_weights._open_files) == before + 1
    del loaded
    gc.collect()
    assert len(stored_weights._open_files) == before


@pytest.mark.parametrize(("content", "message"), [(None, "No such file"), (b"12", "overwritten")])
def test_external_data_that_is_gone_is_reported_until_it_is_back(content: bytes | None, message: str, tmp_path: Path) -> None:
    """Between load and compile: by name, and not for good."""
    made, path = written(tmp_path, outside=True)
    loaded, file = onnx.load(path), tmp_path / "weights"
    held = file.read_bytes()
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(dml.DescError, match=f"first is {message}"):
        loaded.compile("numpy")
    file.write_bytes(held)
    assert run(loaded.compile("numpy"), 3).tobytes() == run(onnx.load(made).compile("numpy"), 3).tobytes()
