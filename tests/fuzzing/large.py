"""Large files made to cost as much as they can: in characters for each value, problem, name or object. Each maker takes a size in bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import numpy as np

from tests.fuzzing.mutants import with_header

Maker = Callable[[int], bytes]


def repeated(pattern: str, size: int, start: str = "", end: str = "") -> bytes:
    """A text of about this size: a pattern over and over, joined by commas, with `#` replaced by numbers from 0 on."""
    room = size - len(start) - len(end)
    if "#" not in pattern:
        return (start + ",".join([pattern] * (room // (len(pattern) + 1))) + end).encode()
    parts, left = [], room
    for number in count():
        part = pattern.replace("#", str(number))
        left -= len(part) + 1
        if left < 0:
            break
        parts.append(part)
    return (start + ",".join(parts) + end).encode()


def model(resources: str = "", dispatchables: str = "", commands: str = "") -> tuple[str, str]:
    """The start and the end of a model's text around `@`."""
    start, _, end = f'{{"resources":{{{resources}}},"dispatchables":{{{dispatchables}}},"commands":[{commands}]}}'.partition("@")
    return start, end


def within(start_end: tuple[str, str], pattern: str) -> Maker:
    """A file that repeats a pattern in the middle of a text."""
    return lambda size: repeated(pattern, size, *start_end)


def most(count: int, start_end: tuple[str, str], pattern: str) -> Maker:
    """As `within`, with no more repeats than a limit of dmlpy's allows: what is just below it costs most."""

    def make(size: int) -> bytes:
        repeats = count * min(1.0, size / 10**7)
        return repeated(pattern, min(size, int(repeats * (len(pattern) + 5 * pattern.count("#")))), *start_end)

    return make


TENSOR = '{"DataType":1,"Sizes":[1]}'
INT8 = '"a":{"initialValuesDataType":"INT8","initialValues":[@]}'
FLOAT = '"a":{"initialValuesDataType":"FLOAT32","initialValues":[@]}'
ONE = '"r":{"initialValuesDataType":"INT8","initialValues":[0]}'
RELU = f'{{"type":"ACTIVATION_RELU","desc":{{"InputTensor":{TENSOR},"OutputTensor":{TENSOR}}}}}'
JOIN = ('{"Type":"JOIN","Desc":{"InputTensors":[', f'],"OutputTensor":{TENSOR},"Axis":0}}}}')
JOINED = f'{{"InputTensors":[{",".join([TENSOR] * 100)}],"OutputTensor":{{"DataType":1,"Sizes":[100]}},"Axis":0}}'
SIZES = ('{"Type":"ACTIVATION_RELU","Desc":{"InputTensor":{"DataType":1,"Sizes":[', "]}}}")
STRIDES = ('{"Type":"ACTIVATION_RELU","Desc":{"InputTensor":{"DataType":1,"Sizes":[1,1,1,1],"Strides":[', "]}}}")
TILE = (f'{{"Type":"TILE","Desc":{{"InputTensor":{TENSOR},"OutputTensor":{TENSOR},"Repeats":[', "]}}")
NODE = '{"Type":"ACTIVATION_ELU","Desc":{"InputTensor":{"DataType":1,"Sizes":[#]},"OutputTensor":{"DataType":1,"Sizes":[#]},"Alpha":1}}'
EDGE = '{"GraphInputIndex":0,"ToNodeIndex":0,"ToNodeInputIndex":#}'
NODES = ('{"InputCount":1,"OutputCount":1,"Nodes":[', "]}")
EDGES = (f'{{"InputCount":1,"OutputCount":1,"Nodes":[{NODE.replace("#", "1")}],"InputEdges":[', "]}")


def _resources_and_wrong_names(size: int) -> bytes:
    resources = repeated(ONE.replace('"r"', '"resource#"'), size // 2).decode()
    commands = repeated('{"type":"print","resource":"resourec#"}', size // 2).decode()
    start, end = model(resources, "", commands + "@")
    return (start + end).encode()


def _joins(size: int) -> bytes:
    """Dispatchables that are large themselves, and differ."""
    return repeated(f'"d#":{{"type":"JOIN","desc":{JOINED}}}', size, *model("", "@"))


def _splits(size: int) -> bytes:
    """A SPLIT whose outputs are all bound to one buffer."""
    count = min(28_000, size // 40)
    desc = f'{{"InputTensor":{{"DataType":1,"Sizes":[{count}]}},"OutputTensors":[{",".join([TENSOR] * count)}],"Axis":0}}'
    bindings = json.dumps({"InputTensor": "i", "OutputTensors": ["o"] * count})
    resources = {name: {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": count, "value": 0}} for name in "io"}
    command = f'{{"type":"dispatch","dispatchable":"s","bindings":{bindings}}}'
    return (
        f'{{"resources":{json.dumps(resources)},"dispatchables":{{"s":{{"type":"SPLIT","desc":{desc}}}}},"commands":[{command}]}}'
    ).encode()


def _nested(size: int) -> bytes:
    return repeated('{"":' * 60 + "0" + "}" * 60, size, *model(INT8.replace("@", "0") + ',"b":[@]'))


def _numpy(size: int) -> bytes:
    header = f"{{'descr': '|i1', 'fortran_order': True, 'shape': ({size}, 1), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(size)


def _png(width: int, height: int) -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.zeros((height, width, 4), np.uint8)).save(file, "PNG", compress_level=9)
    return file.getvalue()


def _jpeg_of_many_scans(size: int) -> bytes:
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.zeros((4000, 4000), np.uint8)).save(file, "JPEG", progressive=True)
    data = file.getvalue()
    scan = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + scan * max(1, (size - len(data)) // len(scan)) + data[-2:]


def _tensors(size: int) -> bytes:
    """A header of many tensors, none of which is a weight of the model."""
    layer = {"class": "Dense", "arguments": {"output_dim": 1, "input_dim": 1}}
    header: dict[str, object] = {"__metadata__": {"dmlpy.keras": json.dumps({"layers": [layer]})}}
    header |= {f"t{number}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for number in range(size // 70)}
    return with_header(header, b"")


def _layers(size: int) -> bytes:
    layers = repeated('{"class":"Masking","arguments":{"input_dim":1}}', int(size * 0.8), '{"layers":[', "]}").decode()
    return with_header({"__metadata__": {"dmlpy.keras": layers}}, b"")


def _weights(size: int) -> bytes:
    """A model whose weights are all there."""
    layer = {"class": "Dense", "arguments": {"output_dim": size // 8, "input_dim": 1}}
    columns = size // 8
    header = {"__metadata__": {"dmlpy.keras": json.dumps({"layers": [layer]})}}
    header |= {
        "0.dense.W": {"dtype": "F32", "shape": [1, columns], "data_offsets": [0, 4 * columns]},
        "0.dense.b": {"dtype": "F32", "shape": [columns], "data_offsets": [4 * columns, 8 * columns]},
    }
    return with_header(header, bytes(8 * columns))


def _dump(size: int) -> bytes:
    from tests.support.graphs import cases as graph_cases
    from tests.support.graphs import flatbuffer_writer

    nodes = min(max(10, size // 620 // 10 * 10), 5900)
    return bytes(flatbuffer_writer.write(flatbuffer_writer.dump_of(graph_cases.large_network(nodes))))


FILES: dict[str, tuple[str, Maker]] = {
    "integers": ("json", within(model(INT8), "0")),
    "numbers": ("json", within(model(FLOAT), "1.5")),
    "wrong numbers": ("json", within(model(INT8), '"a"')),
    "infinities": ("json", within(model(FLOAT), '"inf"')),
    "mixed values": ("json", within(model('"a":{"initialValues":[@]}'), '{"type":"INT8","value":0}')),
    "wrong mixed values": ("json", within(model('"a":{"initialValues":[@]}'), "{}")),
    "resources": ("json", within(model("@"), '"a#":{"initialValuesDataType":"INT8","initialValues":[0]}')),
    "deferred resources": ("json", within(model("@"), '"a#":{"initialValues":"deferred"}')),
    "wrong resources": ("json", within(model("@"), '"a#":0')),
    "resources and wrong names": ("json", _resources_and_wrong_names),
    "dispatchables": ("json", within(model("", "@"), f'"a#":{RELU}')),
    "dispatchables that differ": ("json", within(model("", "@"), f'"a#":{RELU.replace("[1]", "[#]")}')),
    "wrong dispatchables": ("json", within(model("", "@"), '"a#":{"type":"ACTIVATION_RELU"}')),
    "large dispatchables": ("json", _joins),
    "flags": ("json", within(model("", f'"a":{RELU[:-1]},"executionFlags":[@]}}'), '"x#"')),
    "commands": ("json", within(model(ONE, "", "@"), '{"type":"print","resource":"r"}')),
    "commands with unknown members": ("json", within(model(ONE, "", "@"), '{"type":"print","resource":"r","verbsoe":1}')),
    "bindings": ("json", within(model(ONE, f'"a":{RELU}', '{"type":"dispatch","dispatchable":"a","bindings":{@}}'), '"a#":"r"')),
    "bound resources": (
        "json",
        within(model(ONE, f'"a":{RELU}', '{"type":"dispatch","dispatchable":"a","bindings":{"InputTensor":[@]}}'), '"r"'),
    ),
    "wrong bound resources": (
        "json",
        within(model(ONE, f'"a":{RELU}', '{"type":"dispatch","dispatchable":"a","bindings":{"InputTensor":[@]}}'), "0"),
    ),
    "dimensions": ("json", within(model(ONE, "", '{"type":"writeFile","resource":"r","targetPath":"x.npy","dimensions":[@]}'), "1")),
    "wrong dimensions": ("json", within(model(ONE, "", '{"type":"writeFile","resource":"r","targetPath":"x","dimensions":[@]}'), "{}")),
    "repeated keys": ("json", within(model("", "@"), '"a":1')),
    "repeated unknown keys": ("json", within(('{"resources":{},"dispatchables":{},"commands":[],', "}"), '"a":1')),
    "unknown members of a desc": ("json", within(('{"Type":"ACTIVATION_RELU",', "}"), '"a#":1')),
    "unknown members of a resource": ("json", within(model('"a":{@}'), '"a#":1')),
    "unknown members of a graph": ("json", within(('{"Nodes":[],', "}"), '"a#":1')),
    "sizes of 1": ("json", within(SIZES, "1")),
    "sizes of 2^32 - 1": ("json", within(SIZES, "4294967295")),
    "wrong sizes": ("json", within(SIZES, "{}")),
    "strides": ("json", within(STRIDES, "1")),
    "an attribute's entries": ("json", within(TILE, "1")),
    "joined tensors": ("json", within(JOIN, TENSOR)),
    "joined tensors that differ": ("json", within(JOIN, '{"DataType":1,"Sizes":[#]}')),
    "joined tensors of other types": ("json", within(JOIN, '{"DataType":"FLOAT16","Sizes":[1]}')),
    "joined tensors that cannot be read": ("json", within(JOIN, "0")),
    "activations": (
        "json",
        within(('{"Type":"RNN","Desc":{"ActivationDescs":[', "]}}"), '{"Type":"ACTIVATION_RELU"}'),
    ),
    "most resources": ("json", most(99_000, model("@"), '"a#":{"initialValuesDataType":"INT8","initialValues":[0]}')),
    "most commands": ("json", most(99_000, model(ONE, "", "@"), '{"type":"print","resource":"r"}')),
    "most mixed values": ("json", most(290_000, model('"a":{"initialValues":[@]}'), '{"type":"INT8","value":0}')),
    "most dispatchables": ("json", most(9_000, model("", "@"), f'"a#":{RELU.replace("[1]", "[#]")}')),
    "most large dispatchables": ("json", most(280, model("", "@"), f'"a#":{{"type":"JOIN","desc":{JOINED}}}')),
    "most joined tensors": ("json", most(28_000, JOIN, TENSOR)),
    "most joined tensors that differ": ("json", most(28_000, JOIN, '{"DataType":1,"Sizes":[#]}')),
    "most joined tensors of other types": ("json", most(28_000, JOIN, '{"DataType":"FLOAT16","Sizes":[1]}')),
    "most joined tensors of other ranks": ("json", most(28_000, JOIN, '{"DataType":1,"Sizes":[1,#]}')),
    "most outputs in one buffer": ("json", _splits),
    "most nodes": ("json", most(9_000, NODES, NODE)),
    "most edges": ("json", most(55_000, EDGES, EDGE)),
    "most bound resources": (
        "json",
        most(49_000, model(ONE, f'"a":{RELU}', '{"type":"dispatch","dispatchable":"a","bindings":{"InputTensor":[@]}}'), '"r"'),
    ),
    "nodes": ("json", within(NODES, NODE)),
    "wrong nodes": ("json", within(NODES, "0")),
    "edges": ("json", within(EDGES, EDGE)),
    "edges with names": ("json", within(EDGES, '{"GraphInputIndex":"x#","ToNodeIndex":"y#","ToNodeInputIndex":"z#"}')),
    "names": ("json", within(('{"Nodes":[],"InputNames":[', "]}"), '"a#"')),
    "wrong names": ("json", within(('{"Nodes":[],"InputNames":[', "]}"), "0")),
    "bytes of a constant": ("json", within(('{"Nodes":[{"Type":"CONSTANT","Desc":{"Data":[', "]}}]}"), "0")),
    "nested objects": ("json", _nested),
    "objects": ("json", within(model(INT8.replace("@", "0") + ',"b":[@]'), "{}")),
    "arrays": ("json", within(('{"a":[', "]}"), "[]")),
    "one array in another": ("json", lambda size: b'{"a":' + b"[" * size),
    "line ends": ("json", lambda size: b"\n" * size),
    "comments": ("json", lambda size: b"/**/" * (size // 4)),
    "comments that are never closed": ("json", lambda size: b"/*" * (size // 2)),
    "strings and a comment": ("json", within(('{"a":[', ']} // "'), '""')),
    "strings and a trailing comma": ("json", within(('{"a":[', ",]}"), '""')),
    "a long key": ("json", lambda size: b'{"resources":{"' + b"a" * size + b'":0}}'),
    "a long string": ("json", lambda size: b'{"Type":"' + b"a" * size + b'"}'),
    "a long number": ("json", lambda size: b'{"Type":' + b"9" * size + b"}"),
    "long numbers": ("json", within(('{"a":[', f",{'9' * 5000}]}}"), "9" * 4300)),
    "zeros": ("json", bytes),
    "a dump": ("bin", _dump),
    "an array": ("npy", _numpy),
    "a raw file": ("raw", bytes),
    "a large picture": ("png", lambda size: _png(4096, 3072)),
    "a picture of too many pixels": ("png", lambda size: _png(9400, 9400)),
    "a picture of many scans": ("jpg", _jpeg_of_many_scans),
    "tensors of no weight": ("safetensors", _tensors),
    "layers": ("safetensors", _layers),
    "weights": ("safetensors", _weights),
    "a deep header": ("safetensors", lambda size: with_header({"__metadata__": {"dmlpy.keras": '{"layers":' + "[" * (size // 2)}}, b"")),
    "a header of zeros": ("safetensors", lambda size: (size - 8).to_bytes(8, "little") + bytes(size - 8)),
}
"""Makers by name, each with the kind of its file."""
