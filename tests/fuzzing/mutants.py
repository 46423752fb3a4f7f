"""Mutants of the files that dmlpy reads: valid ones with bytes, numbers or words changed, seeded."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzzing import generated_json
from tests.support.folders import ROOT

SIZES = [0, 1, 2, 3, 8, 127, 128, 255, 256, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64 - 1, 2**64, 10**30]
NUMBERS = [*SIZES, -1, -(2**31), -(2**63), 0.5, 1e308, float("nan"), float("inf"), True, None]
WORDS = ["", "x", "é\0", "\x1b[31m", "a" * 300, "../x", "Dense", "GRU", "orthogonal", "F32", "RNN", "deferred"]
PARTS: list[Any] = [[], {}, [[]], [None], [1] * 40, [2**32 - 1] * 8, [2**63] * 300, {"class": "Dense", "arguments": {}}, {"Type": "RELU"}]
VALUES = [*NUMBERS, *WORDS, *PARTS]


def of(kind: str, chance: random.Random) -> Iterator[bytes]:
    """Files of a kind, each a mutant of a valid one; now and then the valid one itself."""
    make = MAKERS[kind]
    while True:
        yield make(chance)


def warm_up() -> None:
    """Imports what the tries import, so that a try's time excludes the imports."""
    import safetensors.numpy  # noqa: F401  (the import is the purpose)
    from PIL import JpegImagePlugin, PngImagePlugin  # noqa: F401  (the import is the purpose)

    import dmlpy.bench.records
    import dmlpy.description.registry
    import dmlpy.dxdispatch.checker
    import dmlpy.graphs.serialized
    import dmlpy.keras.model_files
    import dmlpy.keras.onnx_importer
    from dmlpy import onnx
    from dmlpy.messages.tables import Table
    from tests.support.onnx import mutants as onnx_mutants

    assert len(dmlpy.description.registry.OPERATORS) > 100  # which imports all of them
    Table("", ("",), (("",),)).to_text()
    for like in ("dmlpy", "onnxruntime"):
        onnx.load(onnx_mutants.bases()[1]).report(like=like)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes with some of them changed, moved, doubled or cut off."""
    found = bytearray(data)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 4, 30])):
        if not found:
            break
        at = chance.randrange(len(found))
        way = chance.randrange(6)
        if way == 0:
            found[at] = chance.randrange(256)
        elif way == 1:
            found[at] ^= 1 << chance.randrange(8)
        elif way == 2:
            width = chance.choice([2, 4, 8])
            found[at : at + width] = (chance.choice(SIZES) % 2 ** (8 * width)).to_bytes(width, chance.choice(["little", "big"]))
        elif way == 3:
            del found[at : at + chance.choice([1, 2, 4, 100])]
        elif way == 4:
            other = chance.randrange(len(found))
            found[at:at] = found[other : other + chance.choice([1, 4, 64])]
        else:
            found = found[:at] if chance.random() < 0.2 else found
    return bytes(found)


def changed(data: Any, chance: random.Random) -> Any:
    """JSON data with some values changed, removed, doubled or renamed."""
    from tests.support.dxdispatch.fuzzed_models import at, places

    data = copy.deepcopy(data)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
        found = list(places(data))
        if not found:
            break
        path = chance.choice(found)
        parent, key = at(data, path[:-1]), path[-1]
        way = chance.randrange(6)
        if way <= 1:
            parent[key] = copy.deepcopy(chance.choice(VALUES))
        elif way == 2:
            parent[key] = copy.deepcopy(at(data, chance.choice(found)))
        elif way == 3:
            del parent[key]
        elif way == 4 and isinstance(parent, list):
            parent[key:key] = [copy.deepcopy(parent[key])] * chance.choice([1, 30])
        elif isinstance(parent, dict):
            parent[chance.choice([f"{key}x", f"{key}"[:-1], f"{key}".lower()])] = parent.pop(key)
    return data


# --- kinds -------------------------------------------------------------------------------------------------------------

DESCRS = ["'<f4'", "'>f2'", "'|u1'", "'|V0'", "'|S0'", "'|O'", "'<U4'", "[]", "{}", "[('a', '<f4')]", "'<f4', (2,)", "'f'", "1"]
SHAPES = ["()", "(4,)", "(-1,)", "(2, 2)", "(2**40,)", "4", "(1.0,)", "(True,)", "((4,),)", "(" * 500, "(0,)", "(4L,)"]
SHAPES += [f"({2**62}, {2**62})", f"({2**62}, {2**62}, 0)"]


def _npy(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        file = io.BytesIO()
        array = np.arange(chance.choice([0, 1, 4, 60])).astype(chance.choice(["f4", ">f8", "u1", "i2", "c8", "?"]))
        np.save(file, array.reshape(-1, 2).T if array.size % 2 == 0 and chance.random() < 0.5 else array)
        return damaged(file.getvalue(), chance)
    order = chance.choice(["False", "True", "0", "None"])
    text = f"{{'descr': {chance.choice(DESCRS)}, 'fortran_order': {order}, 'shape': {chance.choice(SHAPES)}, }}\n".encode()
    text = damaged(text, chance) if chance.random() < 0.3 else text
    major = chance.choice([1, 1, 1, 2, 3, 4])
    length = len(text) if chance.random() < 0.9 else chance.choice(SIZES) % 2**16
    return b"\x93NUMPY" + bytes([major, 0]) + length.to_bytes(2 if major == 1 else 4, "little") + text + bytes(chance.choice([0, 16, 100]))


def _npz(chance: random.Random) -> bytes:
    file = io.BytesIO()
    (np.savez if chance.random() < 0.5 else np.savez_compressed)(file, a=np.arange(9), b=np.ones(2, np.float32))
    return damaged(file.getvalue(), chance)


@cache
def _pictures(kind: str) -> list[bytes]:
    from PIL import Image

    random_pixels = np.random.default_rng(1).integers(0, 256, (13, 17, 4), np.uint8)
    pictures = [Image.fromarray(random_pixels).convert(mode) for mode in ("L", "RGB")]
    options: list[dict[str, Any]] = [{"format": "JPEG"}, {"format": "JPEG", "progressive": True}, {"format": "JPEG", "quality": 5}]
    if kind == "png":
        pictures += [Image.fromarray(random_pixels).convert(mode) for mode in ("1", "LA", "P", "RGBA")]
        options = [{"format": "PNG"}, {"format": "PNG", "optimize": True}, {"format": "GIF"}, {"format": "TIFF"}]
    found = []
    for picture in pictures:
        for option in options:
            file = io.BytesIO()
            picture.convert("L" if option["format"] in ("GIF", "TIFF") else picture.mode).save(file, **option)
            found.append(file.getvalue())
    return found


def _png(chance: random.Random) -> bytes:
    data = damaged(chance.choice(_pictures("png")), chance)
    return _with_checksums(data) if chance.random() < 0.7 else data


def _with_checksums(data: bytes) -> bytes:
    """A damaged PNG whose chunks' checksums are right again, so that its reader continues."""
    parts, place = [data[:8]], 8
    while place + 12 <= len(data):
        length = min(struct.unpack(">I", data[place : place + 4])[0], len(data) - place - 12)
        chunk = data[place + 4 : place + 8 + length]
        parts.append(struct.pack(">I", length) + chunk + struct.pack(">I", zlib.crc32(chunk)))
        place += 12 + length
    return b"".join(parts)


def _jpg(chance: random.Random) -> bytes:
    return damaged(chance.choice(_pictures("jpg")), chance)


@cache
def _json_bases() -> list[dict[str, Any]]:
    from tests.support.dxdispatch import fuzzed_models as fuzz

    return fuzz.bases() * 10 + fuzz.descs_and_graphs()


def _json(chance: random.Random) -> bytes:
    data = json.dumps(changed(chance.choice(_json_bases()), chance), indent=chance.choice([None, 1]), allow_nan=True).encode()
    return damaged(data, chance) if chance.random() < 0.2 else data


@cache
def _dumps() -> list[bytes]:
    from tests.support.graphs import cases as graph_cases
    from tests.support.graphs import flatbuffer_writer

    return [bytes(flatbuffer_writer.write(flatbuffer_writer.dump_of(graph_cases.random_network(seed)))) for seed in range(20)]


@cache
def _models() -> list[bytes]:
    import tempfile

    from dmlpy.keras.bidirectional import Bidirectional
    from dmlpy.keras.models import Sequential
    from dmlpy.keras.recurrent_layers import GRU, LSTM, SimpleRNN
    from dmlpy.keras.simple import Dense, Embedding, Masking

    models = [
        Sequential([Dense(3, input_dim=4, activation="softmax"), Dense(2, W_regularizer="l2")], device="numpy", seed=0),
        Sequential([Embedding(5, 3, mask_zero=True), Bidirectional(LSTM(2)), Dense(1, "zero")], device="numpy", seed=0),
        Sequential([Masking(input_dim=3), GRU(2, return_sequences=True), SimpleRNN(2, activation="relu")], device="numpy", seed=0),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            model.save(Path(folder) / "m.safetensors")
            found.append((Path(folder) / "m.safetensors").read_bytes())
    return found


def with_header(header: Any, tensors: bytes) -> bytes:
    """A file of safetensors with this header, whatever its content."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + tensors


def _safetensors(chance: random.Random) -> bytes:
    data = chance.choice(_models())
    if chance.random() < 0.15:
        return damaged(data, chance)
    length = int.from_bytes(data[:8], "little")
    header, tensors = json.loads(data[8 : 8 + length]), data[8 + length :]
    if chance.random() < 0.8:
        layers = changed(json.loads(header["__metadata__"]["dmlpy.keras"]), chance)
        text = json.dumps(layers)
        header["__metadata__"]["dmlpy.keras"] = damaged(text.encode(), chance).decode("latin-1") if chance.random() < 0.1 else text
    else:
        header = changed(header, chance)
    return with_header(header, tensors)


@cache
def _nodes() -> list[bytes]:
    from onnx import TensorProto, helper, numpy_helper

    found = []
    for cell, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction, ways in (("forward", 1), ("bidirectional", 2)):
            draw = np.random.default_rng(0).random
            weights = {"W": (ways, gates * 2, 3), "R": (ways, gates * 2, 2), "B": (ways, gates * 4)}
            tensors = [numpy_helper.from_array(draw(shape).astype(np.float32), name) for name, shape in weights.items()]
            node = helper.make_node(cell, ["X", "W", "R", "B"], ["Y", "Yh"], name="n", hidden_size=2, direction=direction)
            value = helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 2, 3])
            found.append(helper.make_model(helper.make_graph([node], "g", [value], [value], tensors)).SerializeToString())
    return found


def _model(chance: random.Random) -> bytes:
    from tests.support.onnx import mutants as onnx_mutants  # needs the package onnx

    return onnx_mutants.mutant(chance)


def _generated(chance: random.Random) -> bytes:
    from tests.fuzzing import generated_models  # needs the package onnx

    return generated_models.generated(chance)


def _record(chance: random.Random) -> bytes:
    data = json.loads((ROOT / "dmlpy" / "bench" / "records" / "cpu.json").read_text(encoding="utf-8"))
    text = json.dumps(changed(data, chance)).encode()
    return damaged(text, chance) if chance.random() < 0.2 else text


MAKERS: dict[str, Callable[[random.Random], bytes]] = {
    "npy": _npy,
    "npz": _npz,
    "png": _png,
    "jpg": _jpg,
    "raw": lambda chance: chance.randbytes(chance.choice([0, 1, 4, 5, 400])),
    "json": _json,
    "bin": lambda chance: damaged(chance.choice(_dumps()), chance),
    "safetensors": _safetensors,
    "onnx": lambda chance: damaged(chance.choice(_nodes()), chance),
    "model": _model,
    "prediction": _model,
    **dict.fromkeys(("generated", "generated prediction", "generated compiled"), _generated),
    "record": _record,
    **dict.fromkeys(("generated json", "generated desc"), generated_json.generated),
}
