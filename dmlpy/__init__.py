"""DirectML's operators on any machine: descriptor structs that mirror directml.h, checked, compiled, run on NumPy or CUDA."""

import contextlib

from dmlpy.arrays import Buffer
from dmlpy.checking import check
from dmlpy.compiler import compile  # noqa: A004  (the contract's name)
from dmlpy.descs import OperatorDesc
from dmlpy.devices import (
    BindingProperties,
    CompiledOperator,
    Device,
    Dispatch,
    Outputs,
    PreparedOperator,
    device,
    list_devices,
)

with contextlib.suppress(ImportError):  # TEMPORARY until cuda/kernels.py exists
    from dmlpy.devices import cuda as _cuda
from dmlpy.devices import numpy as _numpy  # noqa: F401
from dmlpy.enums import DataType, FeatureLevel, HResult, RecurrentDirection, TensorFlags, TensorType
from dmlpy.operators.activation import (
    ActivationCeluDesc,
    ActivationDesc,
    ActivationEluDesc,
    ActivationGeluDesc,
    ActivationHardmax1Desc,
    ActivationHardmaxDesc,
    ActivationHardSigmoidDesc,
    ActivationHardSwishDesc,
    ActivationIdentityDesc,
    ActivationLeakyReluDesc,
    ActivationLinearDesc,
    ActivationLogSoftmax1Desc,
    ActivationLogSoftmaxDesc,
    ActivationParameterizedReluDesc,
    ActivationParametricSoftplusDesc,
    ActivationReluDesc,
    ActivationReluGradDesc,
    ActivationScaledEluDesc,
    ActivationScaledTanhDesc,
    ActivationShrinkDesc,
    ActivationSigmoidDesc,
    ActivationSoftmax1Desc,
    ActivationSoftmaxDesc,
    ActivationSoftplusDesc,
    ActivationSoftsignDesc,
    ActivationSwishDesc,
    ActivationTanhDesc,
    ActivationThresholdedReluDesc,
)
from dmlpy.operators.recurrent import GRUDesc, LSTMDesc, RecurrentDesc, RNNDesc
from dmlpy.problems import BindError, CompileError, DescError, DeviceError, DmlError, Problem
from dmlpy.tensors import TensorDesc

__version__ = "0.1.0"

__all__ = [
    "ActivationCeluDesc",
    "ActivationDesc",
    "ActivationEluDesc",
    "ActivationGeluDesc",
    "ActivationHardSigmoidDesc",
    "ActivationHardSwishDesc",
    "ActivationHardmax1Desc",
    "ActivationHardmaxDesc",
    "ActivationIdentityDesc",
    "ActivationLeakyReluDesc",
    "ActivationLinearDesc",
    "ActivationLogSoftmax1Desc",
    "ActivationLogSoftmaxDesc",
    "ActivationParameterizedReluDesc",
    "ActivationParametricSoftplusDesc",
    "ActivationReluDesc",
    "ActivationReluGradDesc",
    "ActivationScaledEluDesc",
    "ActivationScaledTanhDesc",
    "ActivationShrinkDesc",
    "ActivationSigmoidDesc",
    "ActivationSoftmax1Desc",
    "ActivationSoftmaxDesc",
    "ActivationSoftplusDesc",
    "ActivationSoftsignDesc",
    "ActivationSwishDesc",
    "ActivationTanhDesc",
    "ActivationThresholdedReluDesc",
    "BindError",
    "BindingProperties",
    "Buffer",
    "CompileError",
    "CompiledOperator",
    "DataType",
    "DescError",
    "Device",
    "DeviceError",
    "Dispatch",
    "DmlError",
    "FeatureLevel",
    "GRUDesc",
    "HResult",
    "LSTMDesc",
    "OperatorDesc",
    "Outputs",
    "PreparedOperator",
    "Problem",
    "RNNDesc",
    "RecurrentDesc",
    "RecurrentDirection",
    "TensorDesc",
    "TensorFlags",
    "TensorType",
    "check",
    "compile",
    "device",
    "list_devices",
]
