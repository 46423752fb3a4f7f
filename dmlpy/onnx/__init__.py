"""ONNX models as DirectML graphs: which nodes run on DirectML, at which feature level and why not, and the model itself on any device.

    from dmlpy import onnx

    model = onnx.load("model.onnx", sizes={"batch": 1})
    y = model.compile("numpy")({"x": x})["y"]

Needs the package onnx (extra `onnx`).
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
