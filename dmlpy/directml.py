"""The names of directml.h: `DML_RNN_OPERATOR_DESC` is `dmlpy.RNNDesc`, and so on for every struct and enumeration that dmlpy has."""

from dmlpy import operators as _operators  # noqa: F401  (registers every operator)
from dmlpy.descs import OPERATORS as _OPERATORS
from dmlpy.enums import DataType as DML_TENSOR_DATA_TYPE
from dmlpy.enums import FeatureLevel as DML_FEATURE_LEVEL
from dmlpy.enums import RecurrentDirection as DML_RECURRENT_NETWORK_DIRECTION
from dmlpy.enums import TensorFlags as DML_TENSOR_FLAGS
from dmlpy.enums import TensorType as DML_TENSOR_TYPE
from dmlpy.tensors import TensorDesc as DML_BUFFER_TENSOR_DESC

__all__ = [
    "DML_BUFFER_TENSOR_DESC",
    "DML_FEATURE_LEVEL",
    "DML_RECURRENT_NETWORK_DIRECTION",
    "DML_TENSOR_DATA_TYPE",
    "DML_TENSOR_FLAGS",
    "DML_TENSOR_TYPE",
]

for _class in _OPERATORS.values():
    globals()[_class.c_name] = _class
    __all__.append(_class.c_name)
for _enum in (DML_TENSOR_DATA_TYPE, DML_FEATURE_LEVEL, DML_RECURRENT_NETWORK_DIRECTION, DML_TENSOR_FLAGS, DML_TENSOR_TYPE):
    for _member in _enum:
        globals()[_member.c_name] = _member
        __all__.append(_member.c_name)
