"""The page on what dmlpy promises, dmlpy/docs/guides/promises.md: its figures are the code's."""

from __future__ import annotations

import re

from dmlpy.description.json_objects import MAX_MEMBERS
from dmlpy.dxdispatch import entries, onnx_dispatchables, pictures, problem_collector, text
from dmlpy.graphs import flatbuffer, serialized
from dmlpy.keras import saving
from dmlpy.onnx.loading import limits as onnx_limits
from tests.support.folders import ROOT

ONNX = onnx_limits.Limits()

LIMITS = {
    "objects and arrays in a JSON file; those of descs, nodes and edges among them": (text.MAX_PARTS, text.MAX_DESC_PARTS),
    "resources, dispatchables or commands of a model": (problem_collector.MAX_ENTRIES,),
    "bind points of a dispatch; resources at one": (entries.MAX_BIND_POINTS, entries.MAX_BOUND),
    "different sets of input sizes for one ONNX model in a model's dispatches; for several, their number times the model's nodes": (
        onnx_dispatchables.MAX_SIZED,
        onnx_dispatchables.MAX_SIZED_NODES,
    ),
    "nodes after an ONNX model is expanded: a base, plus a number for each node in the file; in total": (
        onnx_limits._NODES,
        onnx_limits._NODES_FOR_EACH,
        onnx_limits._MOST_NODES,
    ),
    "nodes or operators, whichever are more, into which all loops of an ONNX model are unrolled; longer loops run step by step": (
        ONNX.unrolled,
    ),
    "memory besides an ONNX model's tensors: a base, plus a number of bytes for each byte of the tensors": (
        onnx_limits._BYTES,
        onnx_limits._BYTES_FOR_EACH,
    ),
    "characters in all names of an ONNX model; in each name": (ONNX.characters, onnx_limits.MAX_NAME),
    "messages in the file of an ONNX model": (ONNX.messages,),
    "members of a struct": (MAX_MEMBERS,),
    "nodes of a graph's dump; its bytes": (serialized.MAX_NODES, flatbuffer.MAX_BYTES),
    "pixels of a picture; scans of a JPEG": (pictures.MAX_PIXELS, pictures._MAX_SCANS),
    "layers of a stored model": (saving.MAX_LAYERS,),
}
UNITS = {"": 1, " million": 10**6, " MiB": 2**20, " each": 1}


def number(told: str) -> float:
    figure, unit = re.fullmatch(r"([\d,.]+)(.*)", told).groups()  # type: ignore[union-attr]
    return float(figure.replace(",", "")) * UNITS[unit]


def test_limits_are_the_codes() -> None:
    page = (ROOT / "dmlpy/docs/guides/promises.md").read_text("utf-8")
    table = page[page.index("The limits:") : page.index("## What holds for callers")]
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)[1:])
    assert rows.keys() == LIMITS.keys()
    for what, limits in LIMITS.items():
        told = [number(part) for part in rows[what].split("; ")]
        assert all(abs(figure - limit) <= 0.005 * limit for figure, limit in zip(told, limits, strict=True)), what
