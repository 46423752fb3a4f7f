"""pydirectml's functions, with its names, orders of arguments and defaults."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlpy.description.coercion import brief, has_entries
from dmlpy.description.descs import FusableDesc
from dmlpy.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    DataType,
    InterpolationMode,
    MatrixTransform,
    PaddingMode,
    RecurrentDirection,
)
from dmlpy.description.registry import operator_class
from dmlpy.description.tensors import TensorDesc as Desc
from dmlpy.description.value_structs import Size2D as _Size2D
from dmlpy.messages.problems import DescError, Problem
from dmlpy.pydirectml.enumerations import OperatorType, OutputOptions
from dmlpy.pydirectml.expressions import Expression, GRUOutputs, MaxPoolingOutputs, exists, make_expressions, one, truth
from dmlpy.x import expressions
from dmlpy.x.source_locations import caller_location

if TYPE_CHECKING:
    from dmlpy.pydirectml.device import GraphBuilder
    from dmlpy.pydirectml.tensors import TensorDesc

Ints = Sequence[int]
Optional = Expression | None


@dataclass(frozen=True)
class Size2D:
    """A width and a height."""

    width: int
    height: int


@dataclass(frozen=True)
class FusedActivation:
    """A function that another operator applies to its result.

    Attributes:
        activation: its `OperatorType`, like `OperatorType.ACTIVATION_RELU`; INVALID for none.
        param_1: the first attribute of its struct, such as Alpha.
        param_2: the second one, such as Beta.
    """

    activation: Any = OperatorType["INVALID"]
    param_1: float = 0.0
    param_2: float = 0.0

    def desc(self) -> FusableDesc | None:
        """The activation's desc; None for none.

        Raises:
            DescError: the operator is not an activation that can be fused.
        """
        name = getattr(self.activation, "name", self.activation)
        if name == "INVALID":
            return None
        kind = operator_class(str(name))
        if not issubclass(kind, FusableDesc):
            raise DescError(f"FusedActivation {caller_location()}", [Problem("field.form", "activation", brief(name), "an activation")])
        return kind(**dict(zip(kind.attribute_names(), (self.param_1, self.param_2), strict=False)))


_NONE = FusedActivation()


def _fused(activation: FusedActivation) -> FusableDesc | None:
    """The desc of what an operator's `fused_activation` is given.

    Raises:
        DescError: no `FusedActivation`, or one that cannot be fused.
    """
    if not isinstance(activation, FusedActivation):
        name = getattr(activation, "name", activation)
        names = (str(name).upper(), f"ACTIVATION_{str(name).upper()}")
        remedy = next((f"FusedActivation(OperatorType.{candidate})" for candidate in names if candidate in OperatorType.__members__), None)
        problem = Problem("field.form", "fused_activation", brief(name), "a FusedActivation", remedy=remedy)
        raise DescError(f"fused_activation {caller_location()}", [problem])
    return activation.desc()


def input_tensor(scope: GraphBuilder, input_index: int, tensor_desc: TensorDesc) -> Expression:
    """An input of the graph that is built in the scope."""
    if not hasattr(scope, "_input"):
        problem = Problem("field.form", "scope", brief(scope), "a GraphBuilder", remedy="input_tensor(graph, index, desc)")
        raise DescError(f"input_tensor {caller_location()}", [problem])
    return scope._input(input_index, tensor_desc)


def convolution(
    input: Expression,
    filter: Expression,
    bias: Optional = None,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Ints = (),
    dilations: Ints = (),
    start_padding: Ints = (),
    end_padding: Ints = (),
    output_padding: Ints = (),
    group_count: int = 1,
    fused_activation: FusedActivation = _NONE,
    output_sizes: Ints = (),
) -> Expression:
    """CONVOLUTION. Empty lists stand for ones (strides, dilations), zeros (paddings), and sizes that are inferred."""
    windows = _fill(strides=strides, dilations=dilations, start_padding=start_padding, end_padding=end_padding)
    members: dict[str, Any] = {"mode": mode, "direction": direction, "group_count": group_count, **_fill(output_sizes=output_sizes)}
    tensors = {"input_tensor": input, "filter_tensor": filter, "bias_tensor": bias}
    fused = {"fused_activation": _fused(fused_activation)}
    return one("CONVOLUTION", **tensors, **members, **windows, **_fill(output_padding=output_padding), **fused)


def up_sample_2d(input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode) -> Expression:
    """UPSAMPLE_2D."""
    if not isinstance(scale_size, Size2D | _Size2D):
        problem = Problem("field.form", "scale_size", brief(scale_size), "a Size2D", remedy="Size2D(width, height)")
        raise DescError(f"up_sample_2d {caller_location()}", [problem])
    size = _Size2D(width=scale_size.width, height=scale_size.height)
    return one("UPSAMPLE_2D", input_tensor=input, scale_size=size, interpolation_mode=interpolation_mode)


def activation_identity(input: Expression) -> Expression:
    """ACTIVATION_IDENTITY."""
    return one("ACTIVATION_IDENTITY", input_tensor=input)


def activation_linear(input: Expression, alpha: float, beta: float) -> Expression:
    """ACTIVATION_LINEAR."""
    return one("ACTIVATION_LINEAR", input_tensor=input, alpha=alpha, beta=beta)


def activation_relu(input: Expression) -> Expression:
    """ACTIVATION_RELU."""
    return one("ACTIVATION_RELU", input_tensor=input)


def activation_sigmoid(input: Expression) -> Expression:
    """ACTIVATION_SIGMOID."""
    return one("ACTIVATION_SIGMOID", input_tensor=input)


def activation_soft_max(input: Expression) -> Expression:
    """ACTIVATION_SOFTMAX, over the last dimension; those before it and the batch must have size 1."""
    return one("ACTIVATION_SOFTMAX", input_tensor=input)


def activation_tanh(input: Expression) -> Expression:
    """ACTIVATION_TANH."""
    return one("ACTIVATION_TANH", input_tensor=input)


def add(a: Expression, b: Expression, fused_activation: FusedActivation = _NONE) -> Expression:
    """ELEMENT_WISE_ADD1."""
    return one("ELEMENT_WISE_ADD1", a_tensor=a, b_tensor=b, fused_activation=_fused(fused_activation))


def subtract(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_SUBTRACT."""
    return one("ELEMENT_WISE_SUBTRACT", a_tensor=a, b_tensor=b)


def multiply(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_MULTIPLY."""
    return one("ELEMENT_WISE_MULTIPLY", a_tensor=a, b_tensor=b)


def divide(a: Expression, b: Expression) -> Expression:
    """ELEMENT_WISE_DIVIDE."""
    return one("ELEMENT_WISE_DIVIDE", a_tensor=a, b_tensor=b)


def padding(input: Expression, padding_mode: PaddingMode, padding_value: float, start_padding: Ints, end_padding: Ints) -> Expression:
    """PADDING."""
    sizes = {"start_padding": start_padding, "end_padding": end_padding}
    return one("PADDING", input_tensor=input, padding_mode=padding_mode, padding_value=padding_value, **sizes)


def mean_variance_normalization(
    input: Expression,
    scale: Optional = None,
    bias: Optional = None,
    axes: Ints = (),
    normalize_variance: bool = True,
    epsilon: float = 1e-5,
    fused_activation: FusedActivation = _NONE,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION1. Empty axes stand for the spatial ones, [2, 3] of 4 dimensions."""
    spatial = range(2, len(_checked("mean_variance_normalization", input).sizes))
    members: dict[str, Any] = {"axes": spatial, **_fill(axes=axes), "normalize_variance": normalize_variance, "epsilon": epsilon}
    tensors = {"input_tensor": input, "scale_tensor": scale, "bias_tensor": bias}
    return one("MEAN_VARIANCE_NORMALIZATION1", **tensors, **members, fused_activation=_fused(fused_activation))


def slice(input: Expression, input_window_offsets: Ints, input_window_sizes: Ints, input_window_strides: Ints) -> Expression:
    """SLICE1."""
    window = {"input_window_sizes": input_window_sizes, "input_window_strides": input_window_strides}
    return one("SLICE1", input_tensor=input, input_window_offsets=input_window_offsets, **window)


def value_scale_2d(input: Expression, scale: float, bias: Sequence[float]) -> Expression:
    """VALUE_SCALE_2D."""
    return one("VALUE_SCALE_2D", input_tensor=input, scale=scale, bias=bias)


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    spatial: bool,
    epsilon: float,
    fused_activation: FusedActivation = _NONE,
) -> Expression:
    """BATCH_NORMALIZATION."""
    tensors = {"input_tensor": input, "mean_tensor": mean, "variance_tensor": variance, "scale_tensor": scale, "bias_tensor": bias}
    return one(
        "BATCH_NORMALIZATION",
        **tensors,
        spatial=truth("batch_normalization", "spatial", spatial),
        epsilon=epsilon,
        fused_activation=_fused(fused_activation),
    )


def local_response_normalization(
    input: Expression, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION."""
    crosses = truth("local_response_normalization", "cross_channel", cross_channel)
    members: dict[str, Any] = {"cross_channel": crosses, "local_size": local_size, "alpha": alpha, "beta": beta, "bias": bias}
    return one("LOCAL_RESPONSE_NORMALIZATION", input_tensor=input, **members)


def gemm(
    a: Expression,
    b: Expression,
    c: Optional = None,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: FusedActivation = _NONE,
) -> Expression:
    """GEMM."""
    members: dict[str, Any] = {"trans_a": trans_a, "trans_b": trans_b, "alpha": alpha, "beta": beta}
    return one("GEMM", a_tensor=a, b_tensor=b, c_tensor=c, **members, fused_activation=_fused(fused_activation))


def average_pooling(
    input: Expression, strides: Ints, window_sizes: Ints, start_padding: Ints, end_padding: Ints, include_padding: bool
) -> Expression:
    """AVERAGE_POOLING. The strides come first."""
    includes = truth("average_pooling", "include_padding", include_padding)
    members: dict[str, Any] = {"strides": strides, "window_size": window_sizes, "include_padding": includes}
    return one("AVERAGE_POOLING", input_tensor=input, **members, **_fill(start_padding=start_padding, end_padding=end_padding))


def max_pooling(
    input: Expression,
    window_sizes: Ints,
    strides: Ints = (),
    start_padding: Ints = (),
    end_padding: Ints = (),
    dilations: Ints = (),
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """MAX_POOLING2. Empty lists stand for ones (strides, dilations) and zeros (paddings)."""
    windows = _fill(strides=strides, dilations=dilations, start_padding=start_padding, end_padding=end_padding)
    values, indices = make_expressions("MAX_POOLING2", input_tensor=input, window_size=window_sizes, **windows)
    return MaxPoolingOutputs(values, indices if output_indices else Expression())


def reinterpret(input: Expression, new_type: DataType, new_size: Ints, new_strides: Ints | None = None) -> Expression:
    """The same bytes under another desc; without strides it is packed.

    Raises:
        DescError: the desc's extent exceeds the bytes.
    """
    tensor = _checked("reinterpret", input).tensor
    desc = Desc(data_type=new_type, sizes=new_size, **_fill(strides=new_strides), flags=tensor.flags)
    problems = desc.problems(output=False)
    total = tensor.size_in_bytes
    if not problems and desc.size_in_bytes > total:
        problems = [Problem("expression.sizes", "new_size", desc.summary(), f"a desc of at most {total} bytes, those of the expression")]
    if problems:
        raise DescError(f"reinterpret {caller_location()}", problems)
    return input.viewed(desc if desc.size_in_bytes == total else desc.replace(total_tensor_size_in_bytes=total))


def join(input: Sequence[Expression], axis: int) -> Expression:
    """JOIN."""
    return one("JOIN", input_tensors=input, axis=axis)


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Optional = None,
    hidden_init: Optional = None,
    sequence_lengths: Optional = None,
    activation_descs: Sequence[FusedActivation] = (),
    direction: RecurrentDirection = RecurrentDirection.FORWARD,
    linear_before_reset: bool = True,
    output_options: OutputOptions = OutputOptions.Both,
) -> GRUOutputs:
    """GRU. `output_options` selects the outputs."""
    tensors = {"input_tensor": input, "weight_tensor": weight, "recurrence_tensor": recurrence, "bias_tensor": bias}
    tensors |= {"hidden_init_tensor": hidden_init, "sequence_lengths_tensor": sequence_lengths}
    members: dict[str, Any] = {"direction": direction, "linear_before_reset": truth("gru", "linear_before_reset", linear_before_reset)}
    if isinstance(activation_descs, FusedActivation) or not has_entries(activation_descs):
        problem = Problem("field.form", "activation_descs", brief(activation_descs), "a list of FusedActivations")
        raise DescError(f"gru {caller_location()}", [problem])
    try:
        wanted = OutputOptions(output_options)
    except (TypeError, ValueError):  # no number, or several
        expected = f"one of {', '.join(f'OutputOptions.{name}' for name in OutputOptions.__members__)}"
        problem = Problem("field.form", "output_options", brief(output_options), expected)
        raise DescError(f"gru {caller_location()}", [problem]) from None
    sequence, single = make_expressions("GRU", **tensors, **members, activation_descs=[_fused(item) for item in activation_descs])
    return GRUOutputs(
        sequence if wanted != OutputOptions.Single else Expression(), single if wanted != OutputOptions.Sequence else Expression()
    )


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """GATHER."""
    return one("GATHER", input_tensor=input, indices_tensor=indices, axis=axis, index_dimensions=index_dimensions)


def _fill(**arrays: Ints | None) -> dict[str, Any]:
    """The lists that are given and not empty; the others have defaults. What is no list is reported by the operator."""

    def is_empty(array: object) -> bool:
        if isinstance(array, np.ndarray):
            return array.size == 0
        return array is None or (isinstance(array, Sized) and len(array) == 0)

    return {name: array for name, array in arrays.items() if not is_empty(array)}


def _checked(function: str, input: Any) -> expressions.Expression:
    """An operand whose tensor is read here, also one of `dmlpy.x`.

    Raises:
        DescError: it is no expression, or an empty one.
    """
    if not isinstance(input, expressions.Expression) or not exists(input):
        raise DescError(f"{function} {caller_location()}", [Problem("expression.operand", "input", brief(input), "an expression")])
    return input
