"""A module that takes what pydirectml takes and nothing else, and computes with `dmlpy.pydirectml`.

pybind11 converts no object of one class to another, so enumerations, expressions and activations are classes of this module, and each
argument has the name and the type that pydirectml's `module.cpp` gives it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

import dmlpy.pydirectml as own
from dmlpy.devices import device as find_device

FUNCTIONS = {
    "convolution": "input:E filter:E bias:E?=0 mode:ConvolutionMode=0 direction:ConvolutionDirection=0 strides:uints=0 dilations:uints=0"
    " start_padding:uints=0 end_padding:uints=0 output_padding:uints=0 group_count:uint=0 fused_activation:F=0 output_sizes:uints=0",
    "up_sample_2d": "input:E scale_size:Size2D interpolation_mode:InterpolationMode",
    "activation_relu": "input:E",
    "activation_sigmoid": "input:E",
    "activation_identity": "input:E",
    "activation_tanh": "input:E",
    "activation_soft_max": "input:E",
    "activation_linear": "input:E alpha:float beta:float",
    "add": "a:E b:E fused_activation:F=0",
    "subtract": "a:E b:E",
    "multiply": "a:E b:E",
    "divide": "a:E b:E",
    "padding": "input:E padding_mode:PaddingMode padding_value:float start_padding:uints end_padding:uints",
    "mean_variance_normalization": "input:E scale:E?=0 bias:E?=0 axes:uints=0 normalize_variance:bool epsilon:float fused_activation:F=0",
    "slice": "input:E input_window_offsets:uints input_window_sizes:uints input_window_strides:ints",
    "value_scale_2d": "input:E scale:float bias:floats",
    "batch_normalization": "input:E mean:E variance:E scale:E bias:E spatial:bool epsilon:float fused_activation:F=0",
    "local_response_normalization": "input:E cross_channel:bool local_size:uint alpha:float beta:float bias:float",
    "gemm": "a:E b:E c:E?=0 trans_a:MatrixTransform=0 trans_b:MatrixTransform=0 alpha:float=0 beta:float=0 fused_activation:F=0",
    "average_pooling": "input:E strides:uints window_sizes:uints start_padding:uints end_padding:uints include_padding:bool",
    "max_pooling": "input:E window_sizes:uints strides:uints=0 start_padding:uints=0 end_padding:uints=0 dilations:uints=0"
    " output_indices:bool=0",
    "reinterpret": "input:E new_type:TensorDataType new_size:uints new_strides:uints?",
    "join": "input:Es axis:uint",
    "gru": "input:E weight:E recurrence:E bias:E?=0 hidden_init:E?=0 sequence_lengths:E?=0 activation_descs:Fs"
    " direction:RecurrentNetworkDirection linear_before_reset:uint=0 output_options:OutputOptions",
    "gather": "input:E indices:E axis:uint index_dimensions:uint",
}
"""NAME:TYPE of each argument; `=0` where it has a default, `?` where None is taken."""
ENUMERATIONS = {
    "TensorDataType": "UNKNOWN FLOAT32 FLOAT16 UINT32 UINT16 UINT8 INT32 INT16 INT8 FLOAT64 UINT64 INT64",
    "TensorFlags": "NONE OWNED_BY_DML",
    "MatrixTransform": "NONE TRANSPOSE",
    "RecurrentNetworkDirection": "FORWARD BACKWARD BIDIRECTIONAL",
    "OutputOptions": "Both Sequence Single",
    "ConvolutionMode": "CONVOLUTION CROSS_CORRELATION",
    "ConvolutionDirection": "FORWARD BACKWARD",
    "InterpolationMode": "NEAREST_NEIGHBOR LINEAR",
    "PaddingMode": "CONSTANT EDGE REFLECTION",
    "ExecutionFlags": "NONE ALLOW_HALF_PRECISION_COMPUTATION DISABLE_META_COMMANDS DESCRIPTORS_VOLATILE",
    "OperatorType": "INVALID ACTIVATION_ELU ACTIVATION_HARDMAX ACTIVATION_HARD_SIGMOID ACTIVATION_IDENTITY ACTIVATION_LEAKY_RELU"
    " ACTIVATION_LINEAR ACTIVATION_LOG_SOFTMAX ACTIVATION_PARAMETERIZED_RELU ACTIVATION_PARAMETRIC_SOFTPLUS ACTIVATION_RELU"
    " ACTIVATION_SCALED_ELU ACTIVATION_SCALED_TANH ACTIVATION_SIGMOID ACTIVATION_SOFTMAX ACTIVATION_SOFTPLUS ACTIVATION_SOFTSIGN"
    " ACTIVATION_TANH ACTIVATION_THRESHOLDED_RELU ACTIVATION_SHRINK",
}
KINDS: dict[str, Any] = {name: enum.Enum(name, members.split()) for name, members in ENUMERATIONS.items()}


class Wrapped:
    """An object of this module around one of `dmlpy.pydirectml`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Expression(Wrapped):
    def get_output_desc(self) -> TensorDesc:
        return TensorDesc.of(self.inner.get_output_desc())


class FusedActivation(Wrapped):
    def __init__(self, activation: Any, param_1: float = 0, param_2: float = 0) -> None:
        expect(activation, "OperatorType")
        super().__init__(own.FusedActivation(getattr(own.OperatorType, activation.name), param_1, param_2))


class Size2D(Wrapped):
    def __init__(self, width: int, height: int) -> None:
        super().__init__(own.Size2D(expect(width, "uint"), expect(height, "uint")))


class TensorDesc(Wrapped):
    """With the signature that has all members."""

    def __init__(self, data_type: Any, flags: Any, sizes: Any, strides: Any, total: int, alignment: int) -> None:
        for value, kind in ((data_type, "TensorDataType"), (flags, "TensorFlags"), (sizes, "uints"), (strides, "uints?")):
            expect(value, kind)
        numbers = expect(total, "uint"), expect(alignment, "uint")
        super().__init__(own.TensorDesc(converted(data_type), converted(flags), sizes, strides, *numbers))

    @classmethod
    def of(cls, inner: own.TensorDesc) -> TensorDesc:
        found = cls.__new__(cls)
        found.inner = inner
        return found

    @property
    def sizes(self) -> list[int]:
        return list(self.inner.sizes)

    @property
    def data_type(self) -> Any:
        return KINDS["TensorDataType"][self.inner.data_type.name]


class Binding(Wrapped):
    """Data for an input: pydirectml copies as many bytes as the desc says, whether the array has them or not."""

    def __init__(self, expr: Expression, data: Any) -> None:
        array = np.ascontiguousarray(data, np.float32)
        assert array.nbytes == expect(expr, "E").inner.tensor.size_in_bytes, "pydirectml would read past the end of the array"
        super().__init__(own.Binding(expr.inner, array))


class GraphBuilder(Wrapped):
    def __init__(self, device: Device) -> None:
        super().__init__(own.GraphBuilder(device.inner))

    def build(self, flags: Any, outputs: Sequence[Expression]) -> Wrapped:
        expect(flags, "ExecutionFlags")
        return Wrapped(self.inner.build(converted(flags), [expect(output, "E").inner for output in outputs]))


class Device(Wrapped):
    """A device; `opened` has the arguments of the last one."""

    opened: tuple[bool, bool] | None = None

    def __init__(self, use_gpu: bool = True, use_debug_layer: bool = False) -> None:
        Device.opened = (use_gpu, use_debug_layer)
        super().__init__(own.Device(use_gpu=False))
        self.inner.device = find_device("numpy")  # compiles nothing

    def compute(self, model: Wrapped, inputs: Sequence[Binding], outputs: Sequence[Expression]) -> list[Any]:
        found = self.inner.compute(model.inner, [item.inner for item in inputs], [output.inner for output in outputs])
        for array in found:
            assert array.dtype == np.float32, "pydirectml shows all elements as float32, and would read past the end of smaller ones"
        return [memoryview(array) for array in found]


TYPES: dict[str, Any] = {"E": Expression, "F": FusedActivation, "Size2D": Size2D, "float": (int, float), "bool": (bool, int)}


def expect(value: Any, kind: str) -> Any:
    """The value, if pybind11 takes it for an argument of this type.

    Raises:
        TypeError: it does not.
    """
    if kind.endswith("?"):
        return None if value is None else expect(value, kind[:-1])
    if kind in ("Es", "Fs", "uints", "ints", "floats"):
        fits = isinstance(value, list) and [expect(item, kind[:-1]) for item in value] == value
    elif kind in ("uint", "int"):
        fits = isinstance(value, int) and (kind == "int" or value >= 0)
    else:
        fits = isinstance(value, KINDS.get(kind) or TYPES[kind])
    if not fits:
        raise TypeError(f"incompatible function arguments: {value!r} for {kind}")
    return value


def converted(value: Any) -> Any:
    """A value as `dmlpy.pydirectml` takes it."""
    if isinstance(value, enum.Enum):
        return getattr(getattr(own, type(value).__name__), value.name)
    if isinstance(value, list):
        return [converted(item) for item in value]
    return value.inner if isinstance(value, Wrapped) else value


def _function(name: str, signature: str) -> Callable[..., Any]:
    kinds = dict(part.partition("=")[0].split(":") for part in signature.split())
    required = {part.partition(":")[0] for part in signature.split() if "=" not in part}

    def call(**given: Any) -> Any:
        if not required <= given.keys() <= kinds.keys():
            raise TypeError(f"incompatible function arguments: {sorted(given)}")
        made = getattr(own, name)(**{argument: converted(expect(value, kinds[argument])) for argument, value in given.items()})
        if name in ("max_pooling", "gru"):
            return Struct(**{field: Expression(getattr(made, field)) for field in made._fields})
        return Expression(made)

    return call


class Struct:
    """A struct of expressions."""

    def __init__(self, **members: Expression) -> None:
        self.__dict__.update(members)


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    return Expression(own.input_tensor(scope.inner, input_index, tensor_desc.inner))


def module() -> ModuleType:
    """The module, to be put in `sys.modules` as `pydirectml`."""
    found = ModuleType("pydirectml")
    classes = (Binding, Device, Expression, FusedActivation, GraphBuilder, Size2D, TensorDesc)
    functions = {name: _function(name, signature) for name, signature in FUNCTIONS.items()}
    vars(found).update({kind.__name__: kind for kind in classes}, **KINDS, **functions, input_tensor=input_tensor)
    return found
