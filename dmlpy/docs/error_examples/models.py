"""Errors of files: DxDispatch models and the files that they name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

import dmlpy as dml
from dmlpy.docs.error_examples.example import shows
from dmlpy.dxdispatch import Folders, RunOptions, load, run
from dmlpy.dxdispatch.checker import check_file
from dmlpy.validation.checking import LATEST

tensor = {"DataType": "FLOAT32", "Sizes": [1, 4]}
x = {"initialValuesDataType": "FLOAT32", "initialValues": [-1, 2, -3, 4]}
relu = {"type": "DML_OPERATOR_ACTIVATION_RELU", "desc": {"InputTensor": tensor, "OutputTensor": tensor}}
bindings = {"InputTensor": "x", "OutputTensor": "y"}
dispatch = {"type": "dispatch", "dispatchable": "relu", "bindings": bindings}
show = {"type": "print", "resource": "y"}
model = {"resources": {"x": x, "y": x}, "dispatchables": {"relu": relu}, "commands": [dispatch, show]}


def read(text: str) -> Any:
    path = Path("model.json")
    path.write_text(text, encoding="utf-8")
    return load(path, Folders.of(path, None, None), LATEST)


def of_file(name: str) -> str:
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": name}}
    return json.dumps(model | {"resources": {"x": resource, "y": x}})


@shows("bind.deferred")
def bind_deferred() -> Any:
    read(json.dumps(model | {"resources": {"x": x, "y": {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}}}))


@shows("bind.element_size")
def bind_element_size() -> Any:
    mixed = {"initialValues": [{"type": "INT32", "value": 1}, {"type": "FLOAT32", "value": 2}, *[{"type": "FLOAT32", "value": 0}] * 6]}
    places = {"InputTensor": {"name": "x", "elementOffset": 1}, "OutputTensor": "y"}
    read(json.dumps(model | {"resources": {"x": mixed, "y": x}, "commands": [dispatch | {"bindings": places}]}))


@shows("bind.owned")
def bind_owned() -> Any:
    read(json.dumps(model | {"dispatchables": {"relu": relu | {"bindings": {"InputTensor": "x"}}}}))


@shows("bind.resource")
def bind_resource() -> Any:
    read(json.dumps(model | {"commands": [dispatch | {"bindings": bindings | {"InputTensor": "xx"}}]}))


def of_onnx(node: NodeProto, element: int, **sources: Any) -> str:
    net = helper.make_graph(
        [node],
        "net",
        [helper.make_tensor_value_info("x", 1, ["n"])],
        [helper.make_tensor_value_info("y", element, None)],
    )
    Path("net.onnx").write_bytes(helper.make_model(net).SerializeToString())
    command = {"type": "dispatch", "dispatchable": "net", "bindings": sources}
    return json.dumps(model | {"dispatchables": {"net": {"type": "onnx", "sourcePath": "net.onnx"}}, "commands": [command]})


@shows("bind.shape")
def bind_shape() -> Any:
    node = helper.make_node("NonZero", ["x"], ["y"])
    read(of_onnx(node, TensorProto.INT64, x={"name": "x", "shape": [4]}, y="y"))


@shows("bind.size")
def bind_size() -> Any:
    read(json.dumps(model | {"resources": {"x": x | {"initialValues": [1, 2]}, "y": x}}))


@shows("bind.type")
def bind_type() -> Any:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)
    read(of_onnx(node, TensorProto.STRING, x={"name": "x", "shape": [4]}, y="y"))


@shows("command.dimensions")
def command_dimensions() -> Any:
    write = {"type": "writeFile", "resource": "y", "targetPath": "y.npy", "dimensions": [5]}
    read(json.dumps(model | {"commands": [dispatch, write]}))


@shows("command.kind")
def command_kind() -> Any:
    read(json.dumps(model | {"commands": [{"type": "draw"}]}))


@shows("command.name")
def command_name() -> Any:
    read(json.dumps(model | {"commands": [dispatch | {"dispatchable": "relux"}]}))


@shows("command.resource")
def command_resource() -> Any:
    write = {"type": "writeFile", "resource": "y", "targetPath": "y.png", "dimensions": [1, 1, 2, 2]}
    integers = {"initialValuesDataType": "INT32", "initialValues": [1, 2, 3, 4]}
    read(json.dumps(model | {"resources": {"x": x, "y": integers}, "commands": [write]}))


@shows("dispatchable.kind")
def dispatchable_kind() -> Any:
    read(json.dumps(model | {"dispatchables": {"relu": {"type": "hlsl"}}}))


@shows("file.missing")
def file_missing() -> Any:
    read(of_file("x.npy"))


@shows("file.name")
def file_name() -> Any:
    read(of_file("x\0.npy"))


@shows("file.outside")
def file_outside() -> Any:
    read(of_file("../x.npy"))


@shows("file.kind")
def file_kind() -> Any:
    Path("y.npy").mkdir()
    loaded = read(json.dumps(model | {"commands": [dispatch, {"type": "writeFile", "resource": "y", "targetPath": "y.npy"}]}))
    run(loaded, dml.device("numpy"), RunOptions(), LATEST, inform=print, warn=print)


@shows("file.unreadable")
def file_unreadable() -> Any:
    load(Path("absent.json"), Folders.of(Path("absent.json"), None, None), LATEST)


@shows("image.damaged")
def image_damaged() -> Any:
    Path("x.png").write_bytes(b"no picture")
    read(of_file("x.png"))


@shows("image.type")
def image_type() -> Any:
    Path("x.png").write_bytes(b"no picture")
    resource = {"initialValuesDataType": "INT8", "initialValues": {"sourcePath": "x.png"}}
    read(json.dumps(model | {"resources": {"x": resource, "y": x}}))


@shows("file.format")
def file_format() -> Any:
    np.save("x.npy", np.zeros(4))
    return [problem for finding in check_file(Path("x.npy")).findings for problem in finding.problems]


@shows("file.parts")
def file_parts() -> Any:
    read(json.dumps(model | {"commands": [show] * 100_001}))


@shows("file.size")
def file_size() -> Any:
    with Path("model.json").open("wb") as file:
        file.truncate(2**33)
    load(Path("model.json"), Folders.of(Path("model.json"), None, None), LATEST)


@shows("image.size")
def image_size() -> Any:
    Path("x.png").write_bytes(b"no picture")
    values = {"sourcePath": "x.png"}
    resource = {"initialValuesDataType": "FLOAT32", "initialValues": values, "resampleMode": "scale", "resampleSize": [1, 2, 8, 8]}
    read(json.dumps(model | {"resources": {"x": resource, "y": x}}))


@shows("member.ignored")
def member_ignored() -> Any:
    loaded = read(json.dumps(model | {"resources": {"x": x | {"sizeInByte": 64}, "y": x}}))
    return [problem for warning in loaded.warnings for problem in warning.problems]


@shows("json.duplicate")
def json_duplicate() -> Any:
    read('{"resources": {}, "resources": {}, "dispatchables": {}, "commands": []}')


@shows("json.encoding")
def json_encoding() -> Any:
    Path("model.json").write_bytes(b'{"resources": "\xff"}')
    load(Path("model.json"), Folders.of(Path("model.json"), None, None), LATEST)


@shows("json.depth")
def json_depth() -> Any:
    read("[" * 10_000)


@shows("json.key")
def json_key() -> Any:
    read(json.dumps({"k" * 10_000: 1}))


@shows("json.number")
def json_number() -> Any:
    read('{"resources": ' + "9" * 5000 + "}")


@shows("json.parts")
def json_parts() -> Any:
    read(json.dumps({"resources": [[]] * 300_001}))


@shows("json.root")
def json_root() -> Any:
    read("[]")


@shows("npy.damaged")
def npy_damaged() -> Any:
    Path("x.npy").write_bytes(b"no array")
    read(of_file("x.npy"))


@shows("npy.empty")
def npy_empty() -> Any:
    np.save("x.npy", np.zeros((0, 4), np.float32))
    read(of_file("x.npy"))


@shows("npy.pickle")
def npy_pickle() -> Any:
    np.save("x.npy", np.array([{}], object))
    read(of_file("x.npy"))


@shows("npy.type")
def npy_type() -> Any:
    np.save("x.npy", np.zeros(4, np.float64))
    read(of_file("x.npy"))


@shows("resource.memory")
def resource_memory() -> Any:
    read(json.dumps(model | {"resources": {"x": x | {"initialValues": {"valueCount": 2**48, "value": 0}}, "y": x}}))


@shows("value.form")
def value_form() -> Any:
    read(json.dumps(model | {"resources": {"x": x | {"initialValues": [1, "two", 3, 4]}, "y": x}}))
