"""The layers of dmlpy's modules, lowest first: the tests hold the imports to them, and the architecture page draws them."""

from __future__ import annotations

LAYERS = [
    {"arrays", "description.enums", "description.gate_order", "description.json_text", "description.naming", "description.sizes"},
    {"inspection.json_positions", "inspection.layout_picture", "inspection.render"},
    {"description.outputs", "description.support", "validation.problems"},
    {"description.members", "description.member_forms"},
    {"description.json_objects"},
    {"description.structs"},
    {"description.registry", "description.tensors"},
    {"nibbles"},
    {"description.markers", "description.value_structs", "validation.array_problems"},
    {"description.descs"},
    {"description.attachments"},
    {"operators"},
    {"inspection.samples", "inspection.schemas", "validation.checking", "validation.tensor_arguments"},
    {"graphs", "inspection.explain", "validation.features"},
    {"reference"},
    {"devices"},
    {"devices.numpy", "devices.cuda"},
    {"devices.numba"},
    {"compiler", "directml", "inspection.catalog"},
    {"x", "comparison"},
    {"onnx"},
    {"dxdispatch", "torch", "keras", "stubs", "pydirectml"},
    {"__init__", "description.__init__", "validation.__init__", "inspection.__init__"},
    {"bench", "site"},
    {"cli_output"},
    {"cli_onnx"},
    {"cli"},
    {"__main__"},
]
