"""What a file is that was taken for a model: its format by its first bytes, and how it becomes a model."""

from __future__ import annotations

LFS_POINTER = b"version https://git-lfs"
"""The beginning of what Git leaves in place of a file that it has not fetched."""
LFS_REMEDY = "fetch the file itself: git lfs pull, or download it by the link to its raw contents"
_OTHER_FORMATS: tuple[tuple[int, bytes, str, str | None], ...] = (
    (0, b"", "empty", None),
    (0, LFS_POINTER, "a pointer of Git LFS", LFS_REMEDY),
    (0, b"<?xml", "XML, as OpenVINO's models are", None),
    (0, b"<", "a page of HTML", "download the file itself: what a site shows is a page about it"),
    (0, b"PK\x03\x04", "a ZIP archive, as torch.save and Keras write", "export the model: torch.onnx.export, or Model.export of Keras"),
    (0, b"\x80", "a pickle, as torch.save once wrote", "export the model: torch.onnx.export"),
    (0, b"\x1f\x8b", "compressed by gzip", "load(gzip.decompress(data))"),
    (0, b"\x89HDF", "HDF5, as Keras writes", "export the model: Model.export of Keras"),
    (4, b"ORTM", "in ONNX Runtime's own format (.ort)", "load the ONNX model that it was made from"),
    (4, b"TFL3", "a model of TensorFlow Lite", "convert it: tf2onnx, --tflite"),
    (0, b"GGUF", "a model of llama.cpp (GGUF)", None),
    (0, b"\x93NUMPY", "an array of NumPy", None),
    (8, b'{"', "arrays in a safetensors file", "load them into the model that they belong to, and export it: torch.onnx.export"),
    (0, b"{", "text in JSON", "load(onnx.load(path, format='json'))"),
    (0, b"ir_version:", "text of protobuf", "load(onnx.load(path, format='textproto'))"),
)
"""What other files begin with, at which byte; what they are; and how they become a model."""


def other_format(data: bytes, least: int = 0) -> tuple[str, str | None] | None:
    """What a file is that cannot be read as a model, and how it becomes one, if that is known; None for unknown bytes.

    Args:
        data: the file.
        least: the bytes that a beginning must have to count: the file may still be what it was taken for, and only damaged.
    """
    beginnings = (data[:256], data[:256].lstrip())  # of binary formats, of texts
    for at, text, found, remedy in _OTHER_FORMATS:
        if len(text) < least:
            continue
        if any(head[at:].startswith(text) for head in beginnings) if text else not data:
            return found, remedy
    return None
