"""The layers of dmlpy's modules, lowest first: the tests hold the imports to them, and the architecture page draws them."""

from __future__ import annotations

LAYERS = [
    {"debugging", "evidence", "messages", "system", "version"},
    {"description"},
    {"operators", "validation"},
    {"graphs", "reference"},
    {"devices"},
    {"devices.cuda", "devices.numpy"},
    {"devices.cpu"},
    {"compiler", "directml", "info", "inspection"},
    {"comparison", "nn", "unknown_names", "x"},
    {"eager", "onnx"},
    {"dask", "dxdispatch", "keras", "pydirectml", "thinc", "torch"},
    {"__init__"},
    {"bench", "conformance", "docs"},
    {"cli"},
    {"__main__"},
]
