"""Reads ONNX models, which may be damaged or hostile: what is wrong is refused by name before anything runs."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, TypeProto, inliner, numpy_helper

from dmlpy.description.member_forms import brief
from dmlpy.validation.problems import DescError, Problem

if TYPE_CHECKING:
    from dmlpy.onnx.values import Array


class LoadedModel:
    """A model as its file has it, with local functions inlined.

    Attributes:
        proto: the model.
        name: what messages call it: the file's name, or that of its graph.
        folder: where external data lies; None if there can be none.
        opsets: the versions of the domains that it imports; ONNX's own is ''.
        types: the types of values that the file states, or that follow from it, by name.
    """

    def __init__(self, proto: ModelProto, name: str, folder: Path | None) -> None:
        self.proto = inliner.inline_local_functions(proto) if proto.functions else proto
        self.name = name
        self.folder = folder
        self.opsets = {"" if item.domain == "ai.onnx" else item.domain: item.version for item in proto.opset_import}
        self._arrays: dict[int, tuple[TensorProto, Array]] = {}  # the tensor is held, so that no other one gets its id

    @cached_property
    def types(self) -> dict[str, TypeProto]:
        graph = self.proto.graph
        return {item.name: item.type for item in (*graph.value_info, *graph.input, *graph.output)}

    def array(self, tensor: TensorProto) -> Array:
        """The elements of a tensor of the model, read from its file of external data if it has one."""
        if id(tensor) not in self._arrays:
            base = str(self.folder) if self.folder else ""
            self._arrays[id(tensor)] = tensor, numpy_helper.to_array(tensor, base)
        return self._arrays[id(tensor)][1]


def load_model(source: Any) -> LoadedModel:
    """Reads a model.

    Args:
        source: a path, the bytes of a file, or a ModelProto.

    Raises:
        DescError: no such file, or no model in it.
    """
    if isinstance(source, ModelProto):
        return LoadedModel(source, source.graph.name or "model", None)
    if isinstance(source, bytes | bytearray | memoryview):
        return LoadedModel(_parsed(bytes(source), "model"), "model", None)
    if not isinstance(source, str | Path):
        raise DescError("onnx.load", [Problem("field.form", "source", brief(source), "a path, bytes, or a ModelProto")])
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DescError(
            "onnx.load", [Problem("onnx.file", "source", f"{path.name}: {error.strerror}", "a file that can be read")]
        ) from None
    return LoadedModel(_parsed(data, path.name), path.name, path.parent)


def _parsed(data: bytes, name: str) -> ModelProto:
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        raise DescError(
            f"onnx.load: {name}", [Problem("onnx.protobuf", "", "bytes that are no ONNX model", "a serialized ModelProto")]
        ) from None
    return proto
