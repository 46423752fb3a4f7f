"""ONNX models as DirectML graphs: which nodes run on DirectML, at which feature level and why not, and the model itself on any device.

    from dmlpy import onnx

    model = onnx.load("model.onnx", sizes={"batch": 1})
    print(model.report())
    y = model.compile("numpy")({"x": x})["y"]

Needs the packages onnx and ml_dtypes: `pip install 'dmlpy[onnx]'`.
"""

from typing import Any as _Any

import lazy_loader as _lazy_loader

_attribute, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> _Any:
    try:
        return _attribute(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("onnx", "ml_dtypes"):
            raise
        text = f"dmlpy.onnx needs the package {error.name}: pip install 'dmlpy[onnx]'"
        raise ModuleNotFoundError(text, name=error.name) from None
