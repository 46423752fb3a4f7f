"""Files whose weights are read apart from the rest load as they do in one piece."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from onnx import ModelProto, StringStringEntryProto, TensorProto, helper, numpy_helper

import dmlpy as dml
from dmlpy import onnx
from dmlpy.devices.graphs.packing import BorrowingMemory
from dmlpy.onnx.loading import separate_weights
from dmlpy.onnx.loading.load import LoadedModel, load_model
from dmlpy.onnx.runtime.graph_runs import GraphRun
from tests.support.onnx.models import model

COUNT = 6_000
TYPES = {
    **{name: np.dtype(name) for name in ("float32", "float16", "float64", "int8", "uint16", "int64", "bool", "complex64")},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "int4", "uint4")},
}


@pytest.fixture(autouse=True)
def every_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of small files are read apart too."""
    monkeypatch.setattr(separate_weights, "_LEAST_FILE", 0)


def network(raw: bytes | None = None) -> ModelProto:
    """A model of weights of each type, some small, some in other fields than raw_data, and a sum of two."""
    rng = np.random.default_rng(3)
    arrays = {name: rng.integers(0, 7, COUNT).astype(dtype).reshape(2, -1) for name, dtype in TYPES.items()}
    arrays |= {"few": np.arange(3, dtype=np.float32), "none": np.zeros((0, 3), np.float32)}
    made = model([helper.make_node("Add", ["x", "float32"], ["y"])], {"x": [2, COUNT // 2]}, ["y"], constants=arrays)
    made.graph.initializer.append(helper.make_tensor("listed", TensorProto.FLOAT, [COUNT], np.arange(COUNT)))
    if raw is not None:
        made.graph.initializer[0].raw_data = raw
    return made


def loaded_from(data: bytes, folder: Path) -> LoadedModel:
    path = folder / "model.onnx"
    path.write_bytes(data)
    return load_model(path)


def test_weights_are_those_of_the_file(tmp_path: Path) -> None:
    made = network()
    loaded = loaded_from(made.SerializeToString(), tmp_path)
    for own, given in zip(loaded.proto.graph.initializer, made.graph.initializer, strict=True):
        found, expected = loaded.array(own), numpy_helper.to_array(given)
        assert (own.name, found.dtype, found.shape) == (given.name, expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()
        assert not found.flags.writeable or own.name in ("listed", "none", "int4", "uint4")
    x = np.random.default_rng(4).standard_normal((2, COUNT // 2), np.float32)
    results = [onnx.load(source).compile("numpy")({"x": x})["y"] for source in (tmp_path / "model.onnx", made)]
    assert results[0].tobytes() == results[1].tobytes()


def test_protobuf_holds_no_large_weight(tmp_path: Path) -> None:
    """The bytes of a weight are in memory once: in the array, which reads them without a copy."""
    loaded = loaded_from(network().SerializeToString(), tmp_path)
    tensors = {item.name: item for item in loaded.proto.graph.initializer}
    assert {name for name in TYPES if len(tensors[name].raw_data)} <= {"int4", "uint4"}  # of which some have 3,000 bytes
    plain = {name for name in TYPES if not len(tensors[name].raw_data)} - {"int4", "uint4"}
    assert all(np.shares_memory(loaded.array(tensors[name]), loaded._weights[id(tensors[name])][1]) for name in plain)


def outcome(source: Callable[[], LoadedModel]) -> str | bytes:
    """What is wrong with a model, or its weights one after the other."""
    try:
        loaded = source()
    except dml.DescError as error:
        return str(error).replace("model.onnx", "model")
    return b"".join(loaded.array(tensor).tobytes() for tensor in loaded.proto.graph.initializer)


def twice(data: bytes, made: ModelProto) -> bytes:
    """A model whose graph comes in two parts, which protobuf joins."""
    return (
        data
        + ModelProto(
            graph=helper.make_graph([], "", [], [], [numpy_helper.from_array(np.ones(COUNT, np.float32), "m")])
        ).SerializeToString()
    )


def raw_twice(data: bytes, made: ModelProto) -> bytes:
    """A weight with two fields of bytes, of which the last one counts."""
    tensor = made.graph.initializer[0].SerializeToString()
    again = tensor + TensorProto(raw_data=bytes(4 * COUNT)).SerializeToString()
    graph = made.graph.SerializeToString().replace(_field(5, tensor), _field(5, again))
    assert len(graph) > 4 * COUNT + len(made.graph.SerializeToString())
    around = ModelProto.FromString(data)
    around.ClearField("graph")
    return around.SerializeToString() + _field(7, graph)


def _field(number: int, content: bytes) -> bytes:
    return separate_weights._encoded(number << 3 | 2) + separate_weights._encoded(len(content)) + content


def with_function(data: bytes, made: ModelProto) -> bytes:
    own = ModelProto.FromString(data)
    body = [helper.make_node("Add", ["a", "b"], ["c"])]
    own.functions.append(helper.make_function("mine", "Sum", ["a", "b"], ["c"], body, [helper.make_opsetid("", 21)]))
    own.opset_import.append(helper.make_opsetid("mine", 1))
    own.graph.node[0].CopyFrom(helper.make_node("Sum", ["x", "float32"], ["y"], domain="mine"))
    return own.SerializeToString()


def elsewhere(**fields: Any) -> Callable[[bytes, ModelProto], bytes]:
    """Bytes in raw_data that do not count: the elements lie in another field, or in another file."""

    def change(data: bytes, made: ModelProto) -> bytes:
        own = ModelProto.FromString(data)
        own.graph.initializer.append(TensorProto(name="elsewhere", raw_data=bytes(4 * COUNT), **fields))
        return own.SerializeToString()

    return change


OUTSIDE = [StringStringEntryProto(key="location", value="outside"), StringStringEntryProto(key="length", value="8")]


@pytest.mark.parametrize(
    "change",
    [
        lambda data, made: data,
        twice,
        raw_twice,
        with_function,
        lambda data, made: data[:-5],
        lambda data, made: data[: len(data) // 2],
        lambda data, made: data + b"\xff" * 12,
        lambda data, made: data + b"\x0b\x0c",
        lambda data, made: b"\x00" * 20_000,
        lambda data, made: network(bytes(4 * COUNT - 4)).SerializeToString(),
        lambda data, made: network(bytes(5_000)).SerializeToString(),
        lambda data, made: network(b"").SerializeToString(),
        elsewhere(data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL, external_data=OUTSIDE),
        elsewhere(data_type=TensorProto.STRING, dims=[2], string_data=[b"a", b"b"]),
    ],
)
def test_a_file_is_what_its_bytes_are(
    change: Callable[[bytes, ModelProto], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damaged files, and those that give a field twice or have functions, are told and loaded as if they were read in one piece."""
    made = network()
    (tmp_path / "outside").write_bytes(bytes(range(8)))
    data = change(made.SerializeToString(), made)
    try:
        ModelProto.FromString(data)
    except DecodeError:
        assert "not an ONNX model" in str(outcome(lambda: loaded_from(data, tmp_path)))
    found = outcome(lambda: loaded_from(data, tmp_path))
    monkeypatch.setattr(separate_weights, "_LEAST_FILE", len(data) + 1)
    assert found == outcome(lambda: loaded_from(data, tmp_path))


def test_a_file_of_endless_fields_is_not_read_field_by_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = separate_weights._Reader._varint

    def varint(self: separate_weights._Reader, end: int) -> int:
        asked.append(end)
        return read(self, end)

    monkeypatch.setattr(separate_weights._Reader, "_varint", varint)
    monkeypatch.setattr(separate_weights, "_MOST_FIELDS", 100)
    data = b"\x08\x01" * 50_000 + network().SerializeToString()
    assert outcome(lambda: loaded_from(data, tmp_path)) == outcome(lambda: load_model(data))
    assert len(asked) <= 2 * 100


@pytest.mark.parametrize("source", ["a file", "constants of the caller"])
def test_only_weights_of_the_model_are_read_where_they_are(source: str, tmp_path: Path) -> None:
    """A file's weights are aligned, and not copied when they are prepared; arrays of the caller may change."""
    w = np.zeros((1, 64, 64), np.float32)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    x = np.ones((1, 64, 64), np.float32)
    if source == "a file":
        path = tmp_path / "model.onnx"
        path.write_bytes(model(nodes, {"x": x.shape}, ["y"], constants={"w": w}).SerializeToString())
        compiled = onnx.load(path).compile("numpy")
    else:
        compiled = onnx.load(model(nodes, {"x": x.shape, "w": w.shape}, ["y"]), constants={"w": w}).compile("numpy")
    [run] = compiled._compile_for_sizes({"x": x.shape})._runs
    assert isinstance(run, GraphRun)
    assert isinstance(run.prepared._memory, BorrowingMemory) == (source == "a file")
    w += 1
    assert (compiled({"x": x})["y"] == 1).all()
