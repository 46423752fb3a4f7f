"""Recognizes files of other formats that are passed as models, by their first bytes, and says how to convert them."""

from __future__ import annotations

LFS_POINTER = b"version https://git-lfs"
"""The beginning of what Git leaves in place of a file that it has not fetched."""
LFS_REMEDY = "fetch the file itself: git lfs pull, or download it by the link to its raw contents"
PYTORCH_REMEDY = "load it with PyTorch into its model, and export that: torch.onnx.export"
KERAS_REMEDY = "load it with Keras, and export it: model.export('model.onnx', format='onnx'); dmlpy.keras.from_keras makes layers of it"
_ZIP = b"PK\x03\x04"
_OTHER_FORMATS: tuple[tuple[int, bytes, str, str | None], ...] = (
    (0, b"", "empty", None),
    (0, LFS_POINTER, "a pointer of Git LFS", LFS_REMEDY),
    (0, b"<?xml", "XML, as OpenVINO's models are", None),
    (0, b"<", "a page of HTML", "download the file itself: what a site shows is a page about it"),
    (0, _ZIP, "a ZIP archive", "take the file that is meant out of it"),
    *((0, bytes((0x80, protocol)), "a pickle, as torch.save once wrote", PYTORCH_REMEDY) for protocol in range(2, 6)),
    (0, b"\x1f\x8b", "compressed by gzip", "decompress it first: gunzip, or gzip.decompress(data)"),
    (0, b"\x89HDF", "HDF5, as Keras writes (.h5)", KERAS_REMEDY),
    (4, b"ORTM", "in ONNX Runtime's own format (.ort)", "load the ONNX model that it was made from"),
    (4, b"TFL3", "a model of TensorFlow Lite", "convert it to ONNX: python -m tf2onnx.convert --tflite FILE --output model.onnx"),
    (
        0,
        b"GGUF",
        "a model of llama.cpp (GGUF)",
        "it holds weights alone: export the model that they were made from to ONNX",
    ),
    (0, b"\x93NUMPY", "an array of NumPy (.npy)", "pass the model that reads it"),
    (8, b'{"', "arrays in a safetensors file", "load them into the model that they belong to, and export it: torch.onnx.export"),
    (0, b"{", "text in JSON", "load(onnx.load(path, format='json'))"),
    (0, b"ir_version:", "text of protobuf", "load(onnx.load(path, format='textproto'))"),
)
"""Signatures of other formats: the first bytes and their offset, the format, and how to convert it to a model."""


_IN_ARCHIVES: tuple[tuple[bytes, str, str | None], ...] = (
    (b"/data.pkl", "an archive of PyTorch (.pt), as torch.save writes", PYTORCH_REMEDY),
    (b"/constants.pkl", "an archive of PyTorch (.pt), as torch.jit.save writes", PYTORCH_REMEDY),
    (b"metadata.json", "a model of Keras (.keras)", KERAS_REMEDY),
    (b"config.json", "a model of Keras (.keras)", KERAS_REMEDY),
    (b".npy", "arrays of NumPy (.npz)", "pass the model that reads them"),
)
"""Formats of archives by a part of their first bytes: the part, the format, and how the archive becomes a model."""
_OWN_MODEL = b'"dmlpy.keras":'
_NEWEST_ONNX = b"\x20"
"""More than the newest version of ONNX's files, which is their second byte."""
BEGINNING = 512
"""The bytes by which a file's format is known."""


def foreign_format(data: bytes) -> tuple[str, str | None] | None:
    """`other_format` of a file that should be JSON: None for one that begins as JSON or a comment does, or is empty."""
    begin = data[:BEGINNING].removeprefix(b"\xef\xbb\xbf").lstrip()
    if not begin or begin[:1] in b"{[/":
        return None
    if begin[:1] == b"\x08" and b"\0" < begin[1:2] <= _NEWEST_ONNX:
        return "bytes, as those of an ONNX model", "dmlpy onnx check checks it and dmlpy onnx run runs it, whatever its name"
    return other_format(data)


def other_format(data: bytes, least: int = 0) -> tuple[str, str | None] | None:
    """The format of a file that is not a model, and how to convert it, if that is known; None for unknown bytes.

    Args:
        data: the file.
        least: the length of the shortest signature that counts: the file may be a damaged model.
    """
    # Signatures of binary formats are at the start; texts may begin with spaces.
    beginnings = (data[:BEGINNING], data[:BEGINNING].lstrip())
    for at, text, found, remedy in _OTHER_FORMATS:
        if at + len(text) < least:
            continue
        if any(head[at:].startswith(text) for head in beginnings) if text else not data:
            return _refined(beginnings[0], text) or (found, remedy)
    return None


def _refined(head: bytes, text: bytes) -> tuple[str, str | None] | None:
    """The format of a file whose first bytes are those of several: an archive, safetensors."""
    if text == _ZIP:
        name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
        return next(((found, remedy) for part, found, remedy in _IN_ARCHIVES if part in name), None)
    if text == b'{"' and _OWN_MODEL in head:
        return "a model of dmlpy.keras", "make a graph of it: dmlpy.keras.load_model(path).to_graph()"
    return None
