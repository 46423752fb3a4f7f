"""ONNX models as DirectML graphs: which nodes run on DirectML, at which feature level and why not, and the model itself on any device.

    from dmlpy import onnx

    model = onnx.load("model.onnx", sizes={"batch": 1})
    print(model.report())
    y = model.compile("numpy")({"x": x})["y"]

Needs the packages onnx and ml_dtypes: `pip install 'dmlpy[onnx]'`.
"""

from typing import Any as _Any

from dmlpy.system.garbage import collections_paused as _collections_paused
from dmlpy.system.lazy_names import attach_names as _attach_names
from dmlpy.system.packages import packages_of as _packages_of

_attribute, __dir__, __all__ = _attach_names(__name__, __file__)


def __getattr__(name: str) -> _Any:
    with _packages_of("onnx", "onnx", "ml_dtypes"), _collections_paused():
        try:
            return _attribute(name)
        except AttributeError:
            raise AttributeError(_unknown(name), name=name) from None


def _unknown(name: str) -> str:
    from dmlpy.messages.naming import did_you_mean

    if name.startswith("_"):
        return f"module 'dmlpy.onnx' has no attribute {name!r}"
    session = "dmlpy.onnx.load(path).compile(device) in its place" if name == "InferenceSession" else None
    hint = session or did_you_mean(name, __all__, "dmlpy.onnx.{}".format) or f"expected one of {', '.join(__all__)}"
    return f"dmlpy.onnx has no name {name!r}: {hint}"
