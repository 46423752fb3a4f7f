"""pydirectml's module, name for name, over dmlpy's expressions: `import dmlpy.pydirectml as dml`.

pydirectml is Microsoft's Python binding of DirectML and DirectMLX, for Windows. A script that is written for it runs anywhere, unchanged:

    python -m dmlpy.pydirectml --device numpy SCRIPT [ARGUMENTS]

The members of the enumerations are names of the module too, as in pydirectml: `dml.FLOAT32`, `dml.TRANSPOSE`, `dml.ACTIVATION_RELU`.
Errors are dmlpy's, and name the line of the script that made the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dmlpy.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    TensorFlags,
)
from dmlpy.pydirectml.device import Binding, Device, GraphBuilder, Model
from dmlpy.pydirectml.enumerations import OperatorType, OutputOptions, RecurrentNetworkDirection, TensorDataType, export_enumerations
from dmlpy.pydirectml.expressions import Expression, GRUOutputs, MaxPoolingOutputs
from dmlpy.pydirectml.functions import (
    FusedActivation,
    Size2D,
    activation_identity,
    activation_linear,
    activation_relu,
    activation_sigmoid,
    activation_soft_max,
    activation_tanh,
    add,
    average_pooling,
    batch_normalization,
    convolution,
    divide,
    gather,
    gemm,
    gru,
    input_tensor,
    join,
    local_response_normalization,
    max_pooling,
    mean_variance_normalization,
    multiply,
    padding,
    reinterpret,
    slice,  # noqa: A004  (its name in PyDirectML)
    subtract,
    up_sample_2d,
    value_scale_2d,
)
from dmlpy.pydirectml.tensors import TensorData, TensorDesc
from dmlpy.x.policies import TensorPolicy

globals().update(export_enumerations())

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The members of the enumerations."""

else:

    def __getattr__(name: str) -> Any:
        from dmlpy.pydirectml.unknown_names import explain

        raise AttributeError(explain(name, [public for public in globals() if not public.startswith("_")]), name=name)


__all__ = [
    "Binding",
    "ConvolutionDirection",
    "ConvolutionMode",
    "Device",
    "ExecutionFlags",
    "Expression",
    "FusedActivation",
    "GRUOutputs",
    "GraphBuilder",
    "InterpolationMode",
    "MatrixTransform",
    "MaxPoolingOutputs",
    "Model",
    "OperatorType",
    "OutputOptions",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "Size2D",
    "TensorData",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TensorPolicy",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_soft_max",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "input_tensor",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "up_sample_2d",
    "value_scale_2d",
]
